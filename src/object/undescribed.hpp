// Objects whose pointers cannot be told, by type and number: relocation and collection refuse pools that have some.
#pragma once

#include <cstdint>
#include <map>
#include <new>

#include "object/pointer_walk.hpp"

namespace nvm::object {

struct undescribed_type {
  std::uint64_t objects = 0;
  std::uint32_t visitor_of = 0;  // the type whose visitor this program lacks; 0: no map has the type
};
using undescribed_types = std::map<std::uint32_t, undescribed_type>;

// The undescribed objects among those that `e` holds, by type.  `untyped_are_bytes`: the pool takes objects for bytes
// whose type no map has.  Texts of nvm_strdup() and the objects of stores have no pointers.  No transaction is open.
// Errors of e; errc::no_memory.
template <class Engine>
[[nodiscard]] result<undescribed_types> description_of_all(Engine& e, const pointer_plans& plans,
                                                           bool untyped_are_bytes) noexcept {
  struct context {
    const pointer_plans& plans;
    bool untyped_are_bytes;
    undescribed_types found{};
    bool no_memory = false;
  } c{plans, untyped_are_bytes};
  const auto walked = e.each(
      [](void* raw, const auto& o) {
        auto& k = *static_cast<context*>(raw);
        const pointer_plan* const plan = k.plans.find(o.type);
        const std::uint32_t visitor_of = plan == nullptr ? 0 : plan->lacks_visitor_of();
        const bool known = plan != nullptr || layout::is_without_pointers(o.type) || k.untyped_are_bytes;
        if (known && visitor_of == 0) return 0;
        try {
          undescribed_type& t = k.found[o.type];
          ++t.objects;
          t.visitor_of = visitor_of;
          return 0;
        } catch (const std::bad_alloc&) {
          k.no_memory = true;
          return 1;
        }
      },
      &c);
  if (!walked) return walked.error();
  if (c.no_memory) return fail(errc::no_memory, "no volatile memory to count the objects that nobody describes");
  return std::move(c.found);
}

}  // namespace nvm::object
