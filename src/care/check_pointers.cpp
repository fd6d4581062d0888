#include "care/check_pointers.hpp"

#include <algorithm>
#include <cstdio>
#include <new>
#include <string>
#include <vector>

#include "object/field_name.hpp"
#include "object/led_pointers.hpp"
#include "object/placed_objects.hpp"
#include "space/cluster_image.hpp"
#include "space/object_in_image.hpp"

namespace nvm::care {
namespace {

using object::found_object;
using object::placed_objects;

// Which store each page of a pool belongs to.
class store_pages {
 public:
  // May throw std::bad_alloc.
  store_pages(const std::byte* bytes, const geometry& g) : g_{g} {
    for (std::uint64_t page = 0; page < g.size_pages;) {
      const std::uint64_t word = load_word(bytes, g.entry_offset(page));
      layout::page_entry e;
      if (word == 0 || entry_fault(word, page, g, g.size_pages, e) != nullptr) {
        ++page;
        continue;
      }
      if (e.kind == layout::page_kind::cluster) {
        if (const auto c = cluster_at(bytes, g, page)) clusters_.push_back(*c);
      }
      page += e.length_pages;
    }
  }
  [[nodiscard]] bool none() const noexcept { return clusters_.empty(); }
  // 0: none's.
  [[nodiscard]] std::uint64_t number_at(std::uint64_t offset) const noexcept {
    const std::uint64_t page = g_.page_of(offset);
    auto behind = std::upper_bound(clusters_.begin(), clusters_.end(), page,
                                   [](std::uint64_t p, const cluster& c) { return p < c.page; });
    if (behind == clusters_.begin()) return 0;
    --behind;
    return behind->has(page) ? behind->number : 0;
  }

 private:
  geometry g_;
  std::vector<cluster> clusters_;  // by page
};

// Tells of each pointer of one object that leads to no object, or into a store that the object is not in.
class noting {
 public:
  noting(const std::byte* bytes, std::uint64_t base, std::uint64_t address_bytes, const placed_objects& objects,
         const store_pages& stores, const object::type_map& types, const object::pointer_plans& plans,
         const std::function<void(std::uint64_t, const char*)>& note)
      : bytes_{bytes},
        base_{base},
        address_bytes_{address_bytes},
        objects_{objects},
        stores_{stores},
        types_{types},
        plans_{plans},
        note_{note} {}

  void look_at(const found_object& o) const {
    object::each_led_pointer(objects_, o, bytes_, base_, address_bytes_, plans_, [&](const object::led_pointer& led) {
      const layout::type_record* const type = types_.canonical(led.object.type);
      if (type == nullptr || !object::leads_into_pool(led.word.kind)) return;
      const std::uint64_t offset = led.value - base_;
      const bool inside = led.where != object::leads_to::out_of_pool;
      const bool to_object = led.where == object::leads_to::an_object;
      const std::uint64_t to = to_object && !stores_.none() ? stores_.number_at(offset) : 0;
      if (to_object && (to == 0 || to == stores_.number_at(led.object.at))) return;
      const std::string field = object::field_name_at(*type, led.word.at);
      char text[400];
      if (to_object) {
        std::snprintf(text, sizeof text,
                      "%.100s.%.100s of the object at offset %lu leads into store %lu, which it is not in: an "
                      "nvm_store_ref can do that",
                      object::name_of(*type), field.c_str(), led.object.at, to);
        note_(led.object.at, text);
        return;
      }
      std::snprintf(text, sizeof text, "%.100s.%.100s of the object at offset %lu leads to %s 0x%lx%s",
                    object::name_of(*type), field.c_str(), led.object.at, inside ? "offset" : "address",
                    inside ? offset : led.value, inside ? ", where no object is" : ", which is not in the pool");
      note_(led.object.at, text);
    });
  }

 private:
  const std::byte* bytes_;
  const std::uint64_t base_;
  const std::uint64_t address_bytes_;
  const placed_objects& objects_;
  const store_pages& stores_;
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
  objects.each_root_of_stores([&](std::uint64_t payload) { t.root(payload); });
  if (status s = t.run(); !s) return s;
  out.stray = t.sums().stray;
  out.foreign = t.sums().foreign;
  if (t.sums().undescribed.empty()) {
    objects.each_unmarked(0, objects.units(), [&](const found_object& o) {
      const auto p = object::payload_of(bytes, o.header, objects.room_of(o));
      out.garbage_objects += p && !layout::is_type_of_library(p->type) ? 1 : 0;
    });
  }
  const store_pages stores{bytes, g};
  if ((out.stray + out.foreign == 0 && stores.none()) || !note) return {};
  const noting n{bytes, base, g.address_bytes(), objects, stores, *map, plans, note};
  objects.each(0, objects.units(), [&](const found_object& o) {
    if (objects.marks().test(o.mark)) n.look_at(o);
  });
  return {};
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for the check of pointers");
}

}  // namespace nvm::care
