// Reference counts by the pointers of a pool: what counts should be once every record is applied.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "object/pointer_walk.hpp"
#include "object/reference_host.hpp"
#include "object/reference_layout.hpp"

namespace nvm::object {

struct recounted_object {
  counted_object object;
  std::uint64_t strong = 0, weak = 0;
  // `dying`: what the object's own word says.
  [[nodiscard]] layout::reference_count counted(bool dying) const noexcept {
    return {static_cast<std::uint32_t>(std::min<std::uint64_t>(strong, layout::strong_max)),
            static_cast<std::uint32_t>(std::min<std::uint64_t>(weak, layout::weak_max)), dying && strong == 0};
  }
};

// Threads: none changes the pool meanwhile.
class recounted {
 public:
  explicit recounted(reference_host& host) noexcept : host_{host} {}
  // Cost: 48 bytes of memory an object.  May throw std::bad_alloc.
  [[nodiscard]] status count(const pointer_plans& plans) {
    bool full = false;
    const status s = host_.each([&](const counted_object& o) noexcept {
      try {
        objects_.push_back({o});
      } catch (const std::bad_alloc&) {
        full = true;
      }
      return !full;
    });
    if (full) throw std::bad_alloc{};
    if (!s) return s;
    std::sort(objects_.begin(), objects_.end(),
              [](const recounted_object& a, const recounted_object& b) { return a.object.payload < b.object.payload; });
    const auto root = host_.root();
    if (!root) return root.error();
    if (*root != 0) refer(*root, false);
    for (const recounted_object& o : objects_) follow(o.object, plans);
    return {};
  }
  [[nodiscard]] const std::vector<recounted_object>& objects() const noexcept { return objects_; }

 private:
  void follow(const counted_object& o, const pointer_plans& plans) {
    const pointer_plan* plan = plans.known(o.type);
    if (plan == nullptr) return;
    std::byte* const base = host_.base();
    plan->each(base + o.payload, o.bytes, [&](const pointer_word& w) {
      if (w.kind == layout::field_kind::static_pointer) return;
      std::uint64_t v;
      std::memcpy(&v, base + o.payload + w.at, sizeof v);
      if (v != 0) refer(v - host_.address(), w.kind == layout::field_kind::weak_pointer);
    });
  }
  void refer(std::uint64_t place, bool weak) {
    auto after = std::upper_bound(objects_.begin(), objects_.end(), place,
                                  [](std::uint64_t p, const recounted_object& o) { return p < o.object.payload; });
    if (after == objects_.begin()) return;
    recounted_object& o = *--after;
    if (place - o.object.payload < o.object.bytes) ++(weak ? o.weak : o.strong);
  }

  reference_host& host_;
  std::vector<recounted_object> objects_;  // ascending
};

}  // namespace nvm::object
