#include "care/extents.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "care/header_on_file.hpp"
#include "space/space.hpp"

namespace nvm::care {
namespace {

constexpr std::uint64_t extents_read_max = 65536;

// Calls visit(page, entry) -> status for each extent of objects.
template <class Visit>
status each_extent(const header_on_file& h, Visit&& visit) {
  return each_entry_on_file(h, [&](std::uint64_t page, const layout::page_entry& e) -> status {
    if (e.kind != layout::page_kind::fine && e.kind != layout::page_kind::coarse) return {};
    return e.protocol == layout::slot_protocol::transactional ? visit(page, e) : status{};
  });
}

// Slots in use, by the header's words and length bytes; what does not hold counts as one slot.
std::uint64_t slots_used(const std::byte* header, const layout::extent_shape& s) noexcept {
  std::uint64_t used = 0;
  for (unsigned w = 0; w < s.words; ++w) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, header + layout::first_words_at + w * sizeof bits, sizeof bits);
    for (unsigned b = 0; b < checked_bits && w * checked_bits + b < s.slots; ++b) {
      if ((bits >> b & 1) == 0) continue;
      const auto length = static_cast<std::uint8_t>(header[s.lengths_at + w * checked_bits + b]);
      used += std::max(1U, layout::slots_of_length(length));
    }
  }
  return std::min<std::uint64_t>(used, s.slots - s.header_slots);
}

}  // namespace

result<extents_on_file> extents_in(const char* path) noexcept try {
  const auto h = header_on_file_of(path);
  if (!h) return h.error();
  const geometry& g = h->sizes;
  extents_on_file all;
  // Pages that a second file has are holes here.
  if ((h->superblock.features_incompat & layout::feature_tier) != 0) return all;
  const status counted = each_extent(*h, [&](std::uint64_t, const layout::page_entry& e) -> status {
    ++all.count;
    all.bytes += std::uint64_t{e.length_pages} << g.page_shift;
    return {};
  });
  if (!counted) return counted.error();
  const std::uint64_t step = ceil_div(std::max<std::uint64_t>(all.count, 1), extents_read_max);
  std::uint64_t met = 0;
  std::vector<std::byte> header;
  const status read = each_extent(*h, [&](std::uint64_t page, const layout::page_entry& e) -> status {
    if (met++ % step != 0) return {};
    const layout::extent_shape shape = layout::shape_of(e.kind, g.page_shift);
    header.resize(shape.lengths_at + shape.slots);
    if (status s = h->file.read(g.page_offset(page), header.data(), header.size()); !s) return s;
    const std::uint64_t used = slots_used(header.data(), shape);
    all.free_bytes += step * (shape.slots - shape.header_slots - used) * shape.slot_bytes;
    if (used == 0) all.empty_bytes += step * shape.bytes;
    return {};
  });
  if (!read) return read.error();
  all.free_bytes = std::min(all.free_bytes, all.bytes);
  all.empty_bytes = std::min(all.empty_bytes, all.bytes);
  return all;
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory to look at extents");
}

}  // namespace nvm::care
