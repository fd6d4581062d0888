// Pointers of objects, with what each leads to: for those who report the ones that lead to no object.
#pragma once

#include <cstring>

#include "object/tracer.hpp"

namespace nvm::object {

enum class leads_to { an_object, no_object, out_of_pool };

struct led_pointer {
  payload_place object;  // that has it
  pointer_word word;
  std::uint64_t value = 0;  // not 0
  leads_to where = leads_to::an_object;
};

// Calls visit(led_pointer) for each pointer of the object that is not null, static ones included.  What of `objects`
// and the place of the pool is meant as in tracer.
template <class Objects, class Visit>
void each_led_pointer(const Objects& objects, const found_object& o, const std::byte* bytes, std::uint64_t base,
                      std::uint64_t address_bytes, const pointer_plans& plans, Visit&& visit) {
  const auto p = payload_of(bytes, o.header, objects.room_of(o));
  const pointer_plan* const plan = p ? plans.known(p->type) : nullptr;
  if (plan == nullptr) return;
  plan->each(bytes + p->at, p->bytes, [&](const pointer_word& w) {
    std::uint64_t v;
    std::memcpy(&v, bytes + p->at + w.at, sizeof v);
    if (v == 0) return;
    found_object target;
    leads_to where = leads_to::out_of_pool;
    if (v - base < address_bytes) {
      where = objects.find(v - base, target) ? leads_to::an_object : leads_to::no_object;
    }
    visit(led_pointer{*p, w, v, where});
  });
}

}  // namespace nvm::object
