#include "space/cluster_image.hpp"

#include <algorithm>
#include <new>

namespace nvm {

using layout::cluster_header;

namespace {

constexpr damage nothing_wrong{0, nullptr, 0, 0};

// What is wrong with a checked word of the header at `page`; no text: nothing.
damage word_fault(const std::byte* base, const geometry& g, std::uint64_t page, std::size_t at, const char* what,
                  std::uint64_t& content, word_reader read = load_word) noexcept {
  const std::uint64_t offset = cluster_word_at(g, page, at);
  const std::uint64_t word = read(base, offset);
  content = word & checked_mask;
  if (word_holds(word, word_seed(offset))) return nothing_wrong;
  return {offset, what, word, seal_word(content, word_seed(offset))};
}
damage zeros_fault(const std::byte* base, const geometry& g, std::uint64_t page, std::size_t from, std::size_t to,
                   word_reader read = load_word) noexcept {
  for (std::size_t at = from; at < to; at += 8) {
    const std::uint64_t word = read(base, cluster_word_at(g, page, at));
    if (word != 0) return {cluster_word_at(g, page, at), "reserved word of a cluster is not zero", word, 0};
  }
  return nothing_wrong;
}
// What is wrong with an offset in a header that leads to a cluster or is 0; no text: nothing.
damage link_fault(const std::byte* base, const geometry& g, std::uint64_t page, std::size_t at, const char* what,
                  std::uint64_t& to, word_reader read = load_word) noexcept {
  if (damage d = word_fault(base, g, page, at, what, to, read); d.what != nullptr) return d;
  if (to == 0 || (g.in_data(to, g.page_bytes()) && (to - g.data_offset) % g.page_bytes() == 0)) return nothing_wrong;
  return {cluster_word_at(g, page, at), "cluster's list leads to no page of the pool", to, 0};
}

// The cluster that was in work last may have been cut off with the pool's end.
damage in_work_fault(const std::byte* base, const geometry& g, std::uint64_t page) noexcept {
  std::uint64_t to = 0;
  const char* const what = "cluster in work of a store fails its check";
  if (damage d = word_fault(base, g, page, offsetof(cluster_header, in_work), what, to, load_word); d.what != nullptr)
    return d;
  const std::uint64_t inside = to - g.data_offset;
  if (to == 0 || (to >= g.data_offset && inside % g.page_bytes() == 0 && inside >> g.page_shift < g.capacity_pages))
    return nothing_wrong;
  return {cluster_word_at(g, page, offsetof(cluster_header, in_work)), "cluster in work of a store is no page", to, 0};
}

}  // namespace

damage cluster_fault(const std::byte* base, const geometry& g, std::uint64_t page, std::uint64_t pages, cluster& out,
                     word_reader read) noexcept {
  out = {.page = page, .pages = pages};
  std::uint64_t identity = 0;
  damage d = word_fault(base, g, page, offsetof(cluster_header, identity), "cluster is not identified as such",
                        identity, read);
  if (d.what != nullptr) return d;
  out.first = (identity & layout::cluster_is_first) != 0;
  out.header_pages = identity >> layout::cluster_header_pages_shift & layout::cluster_header_pages_max;
  const std::uint64_t expected = layout::cluster_identity | out.header_pages << layout::cluster_header_pages_shift |
                                 (out.first ? layout::cluster_is_first : 0);
  const std::uint64_t at = cluster_word_at(g, page, 0);
  if (identity != expected) return {at, "cluster is not identified as such", identity, expected};
  if (out.header_pages == 0 || out.header_pages > pages) {
    return {at, "cluster has more pages of header than pages", out.header_pages, pages};
  }
  std::uint64_t number = 0;
  d = word_fault(base, g, page, offsetof(cluster_header, number), "number of a cluster's store fails its check", number,
                 read);
  if (d.what != nullptr) return d;
  if (number == 0 || number >> 32 != 0) {
    return {cluster_word_at(g, page, offsetof(cluster_header, number)), "cluster is of a store without a number",
            number, 1};
  }
  out.number = static_cast<std::uint32_t>(number);
  d = word_fault(base, g, page, offsetof(cluster_header, room), "room of a cluster's map fails its check", out.room,
                 read);
  if (d.what != nullptr) return d;
  if (out.room < pages || out.room > layout::cluster_room_max(out.header_pages, g.page_shift)) {
    return {cluster_word_at(g, page, offsetof(cluster_header, room)), "cluster's map has no room for its pages",
            out.room, pages};
  }
  d = link_fault(base, g, page, offsetof(cluster_header, next), "link of a cluster fails its check", out.next, read);
  if (d.what != nullptr) return d;
  // The rest of a store page is the store's.
  return zeros_fault(base, g, page, offsetof(cluster_header, reserved0),
                     out.first ? offsetof(cluster_header, head) : sizeof(cluster_header), read);
}

damage store_page_fault(const std::byte* base, const geometry& g, const cluster& c) noexcept {
  std::uint64_t word = 0;
  damage d =
      link_fault(base, g, c.page, offsetof(cluster_header, head), "head of a store's clusters fails its check", word);
  if (d.what == nullptr) d = in_work_fault(base, g, c.page);
  if (d.what == nullptr) {
    d = word_fault(base, g, c.page, offsetof(cluster_header, structures),
                   "directory of a store's lock-free structures fails its check", word);
  }
  struct field {
    std::size_t at;
    unsigned bits;
    const char* what;
  };
  constexpr field fields[] = {
      {offsetof(cluster_header, root), checked_bits, "root of a store fails its check"},
      {offsetof(cluster_header, owner_mode), 48, "owner and mode of a store fail their check"},
      {offsetof(cluster_header, group), 32, "group of a store fails its check"},
      {offsetof(cluster_header, quota_pages), checked_bits, "quota of a store fails its check"},
      {offsetof(cluster_header, created), 40, "creation time of a store fails its check"},
      {offsetof(cluster_header, key_values), checked_bits, "directory of a store's key-value stores fails its check"},
  };
  for (const field& f : fields) {
    if (d.what != nullptr) return d;
    d = word_fault(base, g, c.page, f.at, f.what, word);
    if (d.what == nullptr && word >> f.bits != 0) {
      d = {cluster_word_at(g, c.page, f.at), f.what, word, word & ((std::uint64_t{1} << f.bits) - 1)};
    }
  }
  if (d.what == nullptr) d = zeros_fault(base, g, c.page, offsetof(cluster_header, reserved1), 128);
  if (d.what == nullptr)
    d = zeros_fault(base, g, c.page, offsetof(cluster_header, reserved2), offsetof(cluster_header, key_values));
  return d;
}

result<cluster> cluster_at(const std::byte* base, const geometry& g, std::uint64_t page,
                           const cluster_reading* about_to_read) noexcept try {
  if (page >= g.size_pages) return fail(errc::corrupt, "page %lu of a cluster is none of the pool", page);
  const std::uint64_t word = load_word(base, g.entry_offset(page));
  layout::page_entry e;
  const char* what = entry_fault(word, page, g, g.size_pages, e);
  if (what == nullptr && e.kind != layout::page_kind::cluster) what = "page map entry is none of a cluster";
  if (what != nullptr) {
    return fail(errc::corrupt, "page %lu: %s, at offset %lu: found %016lx", page, what, g.entry_offset(page), word);
  }
  if (about_to_read != nullptr) {
    (*about_to_read)(g.page_offset(page), std::uint64_t{e.length_pages} << g.page_shift);
  }
  cluster c;
  if (const damage d = cluster_fault(base, g, page, e.length_pages, c); d.what != nullptr) {
    return fail(errc::corrupt, "cluster at page %lu: %s, at offset %lu: found %lx, expected %lx", page, d.what,
                d.offset, d.found, d.expected);
  }
  return c;
} catch (const std::bad_alloc&) {  // of about_to_read
  return fail(errc::no_memory, "no volatile memory to read a cluster of a store");
}

result<std::vector<cluster>> clusters_of(const std::byte* base, const geometry& g, std::uint64_t offset,
                                         const cluster_reading* about_to_read) noexcept try {
  if (!g.in_data(offset, g.page_bytes()) || (offset - g.data_offset) % g.page_bytes() != 0) {
    return fail(errc::corrupt, "offset %lu of a store is no page of the pool", offset);
  }
  auto first = cluster_at(base, g, g.page_of(offset), about_to_read);
  if (!first) return first.error();
  if (!first->first)
    return fail(errc::corrupt, "page at offset %lu: found another cluster, expected a store page", offset);
  if (const damage d = store_page_fault(base, g, *first); d.what != nullptr) {
    return fail(errc::corrupt, "store %u: %s, at offset %lu: found %lx, expected %lx", first->number, d.what, d.offset,
                d.found, d.expected);
  }
  std::vector<cluster> all{*first};
  std::uint64_t pages = first->pages;
  std::uint64_t next = load_word(base, cluster_word_at(g, first->page, offsetof(cluster_header, head))) & checked_mask;
  while (next != 0) {
    auto c = cluster_at(base, g, g.page_of(next), about_to_read);
    if (!c) return c.error();
    pages += c->pages;
    if (c->number != first->number || c->first) {
      return fail(errc::corrupt, "store %u: its list leads to a cluster of store %u at offset %lu", first->number,
                  c->number, next);
    }
    // Clusters do not overlap: a sum of more pages than the pool has counts some of them twice.
    if (pages > g.size_pages) {
      return fail(errc::corrupt, "store %u: its list of clusters leads back to offset %lu", first->number, next);
    }
    all.push_back(*c);
    next = c->next;
  }
  std::vector<std::uint64_t> heads;
  heads.reserve(all.size());
  for (const cluster& c : all) heads.push_back(c.page);
  std::ranges::sort(heads);
  if (const auto twice = std::ranges::adjacent_find(heads); twice != heads.end()) {
    return fail(errc::corrupt, "store %u: its list leads twice to the cluster at page %lu", first->number, *twice);
  }
  return all;
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for the clusters of a store");
}

std::uint64_t write_cluster_header(std::byte* base, const geometry& g, const cluster& c) noexcept {
  const std::uint64_t bytes = layout::cluster_header_bytes(c.room);
  const std::uint64_t at = g.page_offset(c.page);
  std::memset(base + at, 0, bytes);
  const auto put = [&](std::size_t field, std::uint64_t content) {
    const std::uint64_t word = seal_word(content, word_seed(at + field));
    std::memcpy(base + at + field, &word, sizeof word);
  };
  put(offsetof(cluster_header, identity), layout::cluster_identity |
                                              c.header_pages << layout::cluster_header_pages_shift |
                                              (c.first ? layout::cluster_is_first : 0));
  put(offsetof(cluster_header, number), c.number);
  put(offsetof(cluster_header, room), c.room);
  put(offsetof(cluster_header, next), c.next);
  return bytes;
}

}  // namespace nvm
