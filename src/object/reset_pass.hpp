// The pass that zeroes fields which are zero after each open (NVM_RESET).
//
// It stores without a log, a flush or a fence: what a crash takes back of it, the next open does again.  So it needs no
// order with anything, and the bytes may reach the medium or not.
//
// Threads: parts may run at a time; no other thread sees an object meanwhile.
#pragma once

#include <cstdint>

#include "object/reset_fields.hpp"
#include "pool/pool.hpp"
#include "space/aligned_layout.hpp"
#include "space/space.hpp"

namespace nvm::object {

// Zeroes the fields of all objects that begin in part `part` of `parts` of the pages.  Places and headers that are
// damaged are left alone: their users find out.  Cost: page map and allocation words; headers of objects whose place
// could have such a field; those fields.
inline void reset_part(std::byte* base, const geometry& g, const reset_plans& plans, unsigned part, unsigned parts,
                       reset_report& out) noexcept {
  std::uint32_t type = 0;
  const reset_plan* plan = plans.find(type);
  const std::uint64_t first = g.size_pages * part / parts, end = g.size_pages * (part + 1) / parts;
  const std::uint64_t room_min = plans.smallest() + sizeof(layout::object_header);
  (void)for_each_object(base, g, first, end, [&](std::uint64_t at, std::uint64_t room, layout::object_layout l) {
    if (l != layout::object_layout::typed || room < room_min) return true;
    const auto& h = *reinterpret_cast<const layout::object_header*>(base + at);
    if (h.type != type) plan = plans.find(type = h.type);
    if (plan == nullptr) return true;
    const auto a = layout::alignment_of(h, at);
    const std::uint64_t size = layout::object_size(h);
    if (!layout::object_header_holds(h, at) || !a || size > room - sizeof h) return true;
    ++out.objects;
    std::byte* const payload = base + at + a->gap;
    plan->each(size - a->padding(),
               [&](std::uint64_t offset, std::uint64_t bytes) { out.bytes += make_zero(payload + offset, bytes); });
    return true;
  });
}

}  // namespace nvm::object
