#include "space/mend_clusters.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "space/mend.hpp"
#include "space/store_lists.hpp"

namespace nvm {

using layout::cluster_header;

layout::page_entry identified_cluster(const std::byte* base, const geometry& g, std::uint64_t page) noexcept {
  cluster c;
  const damage d = cluster_fault(base, g, page, g.size_pages - page, c);
  // The page map says how long it is, which is no more than its room.
  const bool is_one = d.what == nullptr || (c.room != 0 && c.number != 0 && c.room <= g.size_pages);
  if (!is_one || c.header_pages == 0 || c.room > layout::cluster_room_max(c.header_pages, g.page_shift)) return {};
  std::uint64_t used = c.header_pages;
  c.pages = std::min(c.room, g.size_pages - page);
  each_inner_entry(
      base, g, c,
      [&](std::uint64_t inner, const layout::page_entry& e, std::uint64_t) {
        used = inner - c.page + e.length_pages;
        return true;
      },
      [](const damage&) {});
  return layout::cluster_entry(used);
}

bool cluster_mender::holds(std::uint64_t page, std::size_t at) const noexcept {
  const std::uint64_t offset = cluster_word_at(g_, page, at);
  return word_holds(load_word(base_, offset), word_seed(offset));
}
std::uint64_t cluster_mender::content(std::uint64_t page, std::size_t at) const noexcept {
  return holds(page, at) ? load_word(base_, cluster_word_at(g_, page, at)) & checked_mask : 0;
}

template <class CanBe>
std::uint64_t cluster_mender::mend_word(std::uint64_t page, std::size_t at, const char* what, std::uint64_t made,
                                        CanBe&& can_be) {
  const std::uint64_t offset = cluster_word_at(g_, page, at);
  const std::uint64_t found = load_word(base_, offset);
  if (holds(page, at) && can_be(content(page, at))) return content(page, at);
  // A word of zeros has no check that could tell.
  const bool was_zero = std::popcount(found) == 1 && can_be(0);
  const std::uint64_t word = was_zero ? 0 : corrected_word(found, word_seed(offset));
  if (was_zero || (word != 0 && can_be(word & checked_mask))) {
    put_(offset, word, what, true);
    return word & checked_mask;
  }
  put_(offset, seal_word(made, word_seed(offset)), what, false);
  return made;
}
void cluster_mender::mend_link(std::uint64_t page, std::size_t at, const char* what) {
  (void)mend_word(page, at, what, 0, [this](std::uint64_t to) {
    return to == 0 || (g_.in_data(to, g_.page_bytes()) && (to - g_.data_offset) % g_.page_bytes() == 0);
  });
}
void cluster_mender::mend_number(std::uint64_t page, std::size_t at, const char* what, unsigned bits) {
  (void)mend_word(page, at, what, 0, [bits](std::uint64_t n) { return n >> bits == 0; });
}

void cluster_mender::mend_zeros(std::uint64_t page, std::size_t from, std::size_t to) {
  for (std::size_t at = from; at < to; at += 8) {
    const std::uint64_t offset = cluster_word_at(g_, page, at);
    if (load_word(base_, offset) != 0) put_(offset, 0, "reserved word of a cluster", true);
  }
}

bool cluster_mender::is_led_to(std::uint64_t page) const noexcept {
  const std::uint64_t here = g_.page_offset(page);
  return std::ranges::any_of(pages_, [&](std::uint64_t other) {
    return content(other, offsetof(cluster_header, next)) == here ||
           content(other, offsetof(cluster_header, head)) == here;
  });
}

std::uint64_t cluster_mender::number_by_list(std::uint64_t page) const noexcept {
  const std::uint64_t here = g_.page_offset(page);
  for (const std::uint64_t other : pages_) {
    const bool leads = content(other, offsetof(cluster_header, next)) == here ||
                       content(other, offsetof(cluster_header, head)) == here;
    const bool led = content(page, offsetof(cluster_header, next)) == g_.page_offset(other) ||
                     content(page, offsetof(cluster_header, head)) == g_.page_offset(other);
    if (other == page || (!leads && !led)) continue;
    if (const std::uint64_t number = content(other, offsetof(cluster_header, number)); number != 0) return number;
  }
  return 0;
}

void cluster_mender::mend_words(std::uint64_t page, std::uint64_t pages) {
  // The smallest that has room for the pages: the cluster grows no more.
  const std::uint64_t room = mend_word(
      page, offsetof(cluster_header, room), "room of a cluster's map", pages,
      [&](std::uint64_t n) { return n >= pages && n <= std::max(2 * g_.capacity_pages, layout::cluster_room_min); });
  const bool says = content(page, offsetof(cluster_header, created)) != 0 ||
                    content(page, offsetof(cluster_header, owner_mode)) != 0 ||
                    content(page, offsetof(cluster_header, head)) != 0;
  const std::uint64_t kind = layout::cluster_identity | layout::cluster_header_pages(room, g_.page_shift)
                                                            << layout::cluster_header_pages_shift;
  const std::uint64_t identity =
      mend_word(page, offsetof(cluster_header, identity), "identity of a cluster",
                kind | (says && !is_led_to(page) ? layout::cluster_is_first : 0),
                [&](std::uint64_t found) { return (found & ~layout::cluster_is_first) == kind; });
  (void)mend_word(page, offsetof(cluster_header, number), "number of a cluster's store", number_by_list(page),
                  [](std::uint64_t n) { return n != 0 && n >> 32 == 0; });
  mend_link(page, offsetof(cluster_header, next), "link of a cluster");
  mend_zeros(page, offsetof(cluster_header, reserved0), offsetof(cluster_header, head));
  if ((identity & layout::cluster_is_first) == 0) {
    mend_zeros(page, offsetof(cluster_header, head), sizeof(cluster_header));
    return;
  }
  mend_link(page, offsetof(cluster_header, head), "head of a store's clusters");
  mend_link(page, offsetof(cluster_header, in_work), "cluster in work of a store");
  (void)mend_word(page, offsetof(cluster_header, structures), "directory of a store's lock-free structures", 0,
                  [this](std::uint64_t at) {
                    return at == 0 || (g_.in_data(at, 1) && (at - g_.data_offset) % g_.page_bytes() == 0);
                  });
  mend_zeros(page, offsetof(cluster_header, reserved1), offsetof(cluster_header, root));
  (void)mend_word(page, offsetof(cluster_header, root), "root of a store", 0,
                  [this](std::uint64_t at) { return at == 0 || g_.in_data(at, 1); });
  mend_number(page, offsetof(cluster_header, owner_mode), "owner and mode of a store", 48);
  mend_number(page, offsetof(cluster_header, group), "group of a store", 32);
  mend_number(page, offsetof(cluster_header, quota_pages), "quota of a store", checked_bits);
  mend_number(page, offsetof(cluster_header, created), "creation time of a store", 40);
  mend_zeros(page, offsetof(cluster_header, reserved2), offsetof(cluster_header, key_values));
  (void)mend_word(page, offsetof(cluster_header, key_values), "directory of a store's key-value stores", 0,
                  [this](std::uint64_t at) { return at == 0 || g_.in_data(at, 1); });
}

void cluster_mender::mend_headers() {
  std::vector<std::uint64_t> lengths;
  for (std::uint64_t page = 0; page < g_.size_pages;) {
    layout::page_entry e;
    const bool good = entry_fault(load_word(base_, g_.entry_offset(page)), page, g_, g_.size_pages, e) == nullptr;
    if (good && e.kind == layout::page_kind::cluster) {
      pages_.push_back(page);
      lengths.push_back(e.length_pages);
    }
    page += good && e.length_pages != 0 ? e.length_pages : 1;
  }
  for (std::size_t i = 0; i < pages_.size(); ++i) mend_words(pages_[i], lengths[i]);
  for (std::size_t i = 0; i < pages_.size(); ++i) {
    cluster c;
    if (const damage d = cluster_fault(base_, g_, pages_[i], lengths[i], c); d.what != nullptr) {
      cannot_(d.offset, d.what);
      continue;
    }
    all_.push_back(c);
  }
}

void cluster_mender::put_link(std::uint64_t page, std::size_t at, std::uint64_t to) {
  const std::uint64_t offset = cluster_word_at(g_, page, at);
  const std::uint64_t word = seal_word(to, word_seed(offset));
  if (load_word(base_, offset) != word) put_(offset, word, "list of a store's clusters", true);
}

void cluster_mender::mend_lists() {
  // As the check sees them; what it finds is put right for all stores at once.
  store_lists lists;
  for (const cluster& c : all_) {
    bool empty = true;
    const auto seen = [&](auto&&...) { return empty = false; };
    each_inner_entry(base_, g_, c, seen, seen);
    lists.add(c, empty);
  }
  bool sound = true;
  lists.check(base_, g_, [&](const damage&) { sound = false; });
  if (sound) return;
  for (const cluster& first : all_) {
    if (!first.first) continue;
    std::size_t at = offsetof(cluster_header, head);
    std::uint64_t page = first.page;
    for (const cluster& c : all_) {
      if (c.first || c.number != first.number) continue;
      put_link(page, at, g_.page_offset(c.page));
      page = c.page;
      at = offsetof(cluster_header, next);
    }
    put_link(page, at, 0);
  }
  lists.check(base_, g_, [&](const damage& d) { cannot_(d.offset, d.what); });
}

}  // namespace nvm
