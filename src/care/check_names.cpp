#include "care/check_names.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <map>
#include <new>
#include <unordered_set>
#include <vector>

#include "care/header_on_file.hpp"
#include "space/cluster_image.hpp"
#include "space/object_in_image.hpp"
#include "space/space.hpp"
#include "store/store.hpp"

namespace nvm::care {
namespace {

class name_check {
 public:
  using teller = std::function<void(std::uint64_t offset, const char* finding)>;
  name_check(const std::byte* base, const geometry& g, const std::set<std::uint32_t>& headless,
             const teller& tell) noexcept
      : base_{base}, g_{g}, headless_{headless}, tell_{tell} {}

  // May throw std::bad_alloc.
  status run(std::uint64_t catalogue) {
    find_stores();
    if (catalogue == 0) {
      for (const auto& [page, number] : stores_) say(page, "store %lu has no name: the pool has no catalogue", number);
      return {};
    }
    // Read in place; nothing is changed.
    stores::names_reader m{{const_cast<std::byte*>(base_), g_.data_offset, g_.size_bytes()}};
    stores::trie_check how;
    how.tell = [this](std::uint64_t at, const char* what) { tell_(at, what); };
    how.meet = [this](std::uint64_t place, std::uint64_t bytes, std::uint32_t type) { meet(place, bytes, type); };
    const auto sum = stores::check_catalogue(m, catalogue, how);
    if (!sum && sum.error() == errc::no_memory) return sum.error();
    if (!sum) {
      tell_(catalogue, last_message());
      return {};
    }
    compare(*sum);
    look_for_lost_nodes();
    return {};
  }

 private:
  [[gnu::format(printf, 3, 4)]] void say(std::uint64_t at, const char* format, ...) {
    char text[128];
    std::va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    tell_(at, text);
  }

  // Store pages and the numbers of their stores.
  void find_stores() {
    for (std::uint64_t page = 0; page < g_.size_pages;) {
      const std::uint64_t word = load_word(base_, g_.entry_offset(page));
      layout::page_entry e;
      if (word == 0 || entry_fault(word, page, g_, g_.size_pages, e) != nullptr) {
        ++page;
        continue;
      }
      if (e.kind == layout::page_kind::cluster) {
        const auto c = cluster_at(base_, g_, page);
        if (c && c->first) stores_[g_.page_offset(page)] = c->number;
      }
      page += e.length_pages;
    }
  }

  void meet(std::uint64_t place, std::uint64_t bytes, std::uint32_t type) {
    nodes_.insert(place);
    const object_room room = object_in_image(base_, g_, place);
    layout::object_header h;
    const bool whole = room.holds(place, bytes) && room.offset + sizeof h == place;
    if (whole) std::memcpy(&h, base_ + room.offset, sizeof h);
    if (!whole || h.type != type || layout::object_size(h) != bytes)
      tell_(place, "names of stores: a node lies where no object of its kind and size is");
  }

  void compare(const stores::catalogue_figures& sum) {
    const auto known = [](const std::vector<std::uint64_t>& all, std::uint64_t page) {
      return std::binary_search(all.begin(), all.end(), page);
    };
    for (const auto* all : {&sum.named, &sum.dying}) {
      for (const std::uint64_t page : *all) {
        if (!stores_.contains(page)) say(page, "names of stores: offset %lu is no store page", page);
      }
    }
    for (const auto& [page, number] : stores_) {
      if (!known(sum.named, page) && !known(sum.dying, page)) say(page, "store %lu has no name", number);
      if (known(sum.named, page) && headless_.contains(static_cast<std::uint32_t>(number)))
        say(page, "directory of key-value stores of store %lu: found none, and the header of one", number);
      if (number >= sum.next_number) say(page, "store %lu: its number is not below the next one's", number);
    }
  }

  void look_for_lost_nodes() {
    (void)for_each_object(base_, g_, [&](std::uint64_t at, std::uint64_t, layout::object_layout l) {
      if (l != layout::object_layout::typed) return true;
      layout::object_header h;
      std::memcpy(&h, base_ + at, sizeof h);
      const bool node = h.type >= layout::names_type_catalogue && h.type <= layout::names_type_container;
      if (node && layout::object_header_holds(h, at) && !nodes_.contains(at + sizeof h))
        tell_(at, "names of stores: a node that nothing leads to");
      return true;
    });
  }

  const std::byte* base_;
  const geometry& g_;
  const std::set<std::uint32_t>& headless_;
  const teller& tell_;
  std::map<std::uint64_t, std::uint64_t> stores_;
  std::unordered_set<std::uint64_t> nodes_;
};

}  // namespace

status check_names(const std::byte* base, const geometry& g, std::uint64_t catalogue,
                   const std::set<std::uint32_t>& headless,
                   const std::function<void(std::uint64_t offset, const char* finding)>& tell) try {
  return name_check{base, g, headless, tell}.run(catalogue);
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory to check the names of stores");
}

std::set<std::uint64_t> dying_stores(const std::byte* base, const geometry& g) {
  std::set<std::uint64_t> all;
  const auto place = read_anchor_word(base, g, anchor_word::catalogue);
  if (!place || *place == 0) return all;
  stores::names_reader m{{const_cast<std::byte*>(base), g.data_offset, g.size_bytes()}};
  const auto c = stores::read_catalogue(m, *place);
  if (!c) return all;
  (void)stores::each_dying(m, *c, [&](std::uint64_t page) {
    all.insert(page);
    return true;
  });
  return all;
}

result<names_on_file> names_in(const char* path) noexcept {
  const auto h = header_on_file_of(path);
  if (!h) return h.error();
  names_on_file found;
  if ((h->superblock.features_incompat & layout::feature_stores) == 0) return found;
  const status read = each_anchored(*h, anchor_word::catalogue, [&](std::uint64_t place) -> status {
    layout::catalogue c;
    if (!h->sizes.in_data(place, sizeof c)) return errc::not_found;
    if (status s = h->file.read(place, &c, sizeof c); !s) return s;
    const std::uint64_t names_at = place + offsetof(layout::catalogue, names);
    const bool holds = c.magic == layout::catalogue_magic && c.check == stores::catalogue_check(c, place) &&
                       word_holds(c.names, word_seed(names_at));
    if (!holds) return errc::not_found;
    found.names = c.names & checked_mask;
    found.burst = c.burst_names;
    return {};
  });
  if (!read) return read.error();
  return found;
}

}  // namespace nvm::care
