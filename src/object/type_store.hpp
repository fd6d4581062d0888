// The type map of a pool: one untyped object of whole pages that the anchors name.
//
/// A new map is written beside the old one and takes its place in one transaction, which is the caller's: allocate,
/// fill, both anchor words, free the old one.  So there is always a whole map or none, and no room is lost; fences and
/// recovery are those of transactions.
//
// `now` is the pool as large as it has grown.
//
// Threads: the caller lets one thread at a time publish, and no thread read meanwhile.
#pragma once

#include <algorithm>
#include <cstring>

#include "object/type_map.hpp"
#include "pool/pool.hpp"
#include "space/space.hpp"
#include "tx/tx.hpp"

namespace nvm::object {

// Never so small that it would share an extent: a run of two pages is less than the extent it would have to itself.
constexpr std::uint64_t type_map_room(std::uint64_t bytes) noexcept {
  return std::max<std::uint64_t>(bytes, layout::coarse_object_max + 1);
}

template <class Heap>
[[nodiscard]] status publish_types(Heap& h, const geometry& now, typename Heap::transaction_type& t, const void* map,
                                   std::uint64_t bytes) noexcept {
  auto old = read_anchor_word(h.base(), now, anchor_word::types);
  if (!old) return old.error();
  auto place = t.allocate(type_map_room(bytes), layout::object_layout::raw);
  if (!place) return place.error();
  std::memcpy(h.base() + *place, map, bytes);
  if (status s = tx::set_anchor_word(h, t, anchor_word::types, *place); !s) return s;
  return *old == 0 ? status{} : t.release(*old, layout::object_layout::raw);
}

// The types of the pool; a map of no types if it has none.
template <class Heap>
[[nodiscard]] result<type_map> stored_types(Heap& h, const geometry& now) noexcept {
  auto place = read_anchor_word(h.base(), now, anchor_word::types);
  if (!place) return place.error();
  if (*place == 0) return type_map{};
  auto o = h.places().find(*place, layout::object_layout::raw);
  if (!o) return fail(errc::corrupt, "type map at offset %lu: %s", *place, last_message());
  return type_map::read(h.base() + *place, o->bytes, *place);
}

}  // namespace nvm::object
