#include "care/check_pointers.hpp"

#include <cstdio>
#include <new>

#include "object/field_name.hpp"
#include "object/garbage.hpp"
#include "object/placed_objects.hpp"
#include "space/object_in_image.hpp"

namespace nvm::care {
namespace {

using object::found_object;
using object::placed_objects;

// Tells of each pointer of one object that leads to none.
class noting {
 public:
  noting(const std::byte* bytes, std::uint64_t base, std::uint64_t address_bytes, const placed_objects& objects,
         const object::type_map& types, const object::pointer_plans& plans,
         const std::function<void(std::uint64_t, const char*)>& note)
      : bytes_{bytes},
        base_{base},
        address_bytes_{address_bytes},
        objects_{objects},
        types_{types},
        plans_{plans},
        note_{note} {}

  void look_at(const found_object& o) const {
    const auto p = object::payload_of(bytes_, o.header, objects_.room_of(o));
    const layout::type_record* const type = p ? types_.canonical(p->type) : nullptr;
    if (type == nullptr) return;
    object::each_value_of(bytes_, *p, plans_, object::leads_into_pool, [&](std::uint64_t v, std::uint64_t at) {
      found_object target;
      const std::uint64_t offset = v - base_;
      const bool inside = offset < address_bytes_;
      if (inside && objects_.find(offset, target)) return;
      char text[400];
      std::snprintf(text, sizeof text, "%.100s.%.100s of the object at offset %lu leads to %s 0x%lx%s",
                    object::name_of(*type), object::field_name_at(*type, at).c_str(), p->at,
                    inside ? "offset" : "address", inside ? offset : v,
                    inside ? ", where no object is" : ", which is not in the pool");
      note_(p->at, text);
    });
  }

 private:
  const std::byte* bytes_;
  const std::uint64_t base_;
  const std::uint64_t address_bytes_;
  const placed_objects& objects_;
  const object::type_map& types_;
  const object::pointer_plans& plans_;
  const std::function<void(std::uint64_t, const char*)>& note_;
};

}  // namespace

status check_pointers(const std::byte* bytes, const geometry& g, std::uint64_t base, std::uint64_t root,
                      std::uint64_t types, const std::function<void(std::uint64_t, const char*)>& note,
                      pointer_summary& out) noexcept try {
  const object_room place = object_in_image(bytes, g, types);
  if (types == 0 || place.bytes == 0) return {};
  const auto map = object::type_map::read(bytes + types, place.bytes, types);
  if (!map) return map.error() == errc::no_memory ? status{map.error()} : status{};
  const object::pointer_plans plans{*map};
  placed_objects objects{bytes, g};
  if (status s = objects.survey(1); !s) return s;
  object::tracer<placed_objects> t{objects, bytes, base, g.address_bytes(), plans, {}};
  if (root != 0) t.root(root);
  if (status s = t.run(); !s) return s;
  out.stray = t.sums().stray;
  out.foreign = t.sums().foreign;
  if (t.sums().undescribed.empty()) {
    objects.each_unmarked(0, objects.units(), [&](const found_object& o) {
      const auto p = object::payload_of(bytes, o.header, objects.room_of(o));
      out.garbage_objects += p && !layout::is_type_of_library(p->type) ? 1 : 0;
    });
  }
  if (out.stray + out.foreign == 0 || !note) return {};
  const noting n{bytes, base, g.address_bytes(), objects, *map, plans, note};
  objects.each(0, objects.units(), [&](const found_object& o) {
    if (objects.marks().test(o.mark)) n.look_at(o);
  });
  return {};
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for the check of pointers");
}

}  // namespace nvm::care
