// Objects that a trace found to be garbage, and how the program once came to them: what is left of those ways is the
// pointers from one garbage object to another.
//
// An object that no other garbage object points to was unlinked by itself; each other one is reached from such an
// object, or from a cycle.  ways() finds the shortest chain for each object.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "object/tracer.hpp"

namespace nvm::object {

// Calls visit(value, offset in the payload) for each word of an object that is not 0 and whose kind is wanted(kind).
template <class Wanted, class Visit>
void each_value_of(const std::byte* bytes, const payload_place& o, const pointer_plans& plans, Wanted&& wanted,
                   Visit&& visit) {
  const pointer_plan* plan = plans.known(o.type);
  if (plan == nullptr) return;
  plan->each(bytes + o.at, o.bytes, [&](const pointer_word& w) {
    std::uint64_t v;
    std::memcpy(&v, bytes + o.at + w.at, sizeof v);
    if (v != 0 && wanted(w.kind)) visit(v, w.at);
  });
}
// The same for each word that may keep an object; conservatively for each aligned word.
template <class Visit>
void each_value(const std::byte* bytes, const payload_place& o, const pointer_plans& plans, bool conservative,
                Visit&& visit) {
  if (!conservative) return each_value_of(bytes, o, plans, keeps, visit);
  for (std::uint64_t at = 0; at + 8 <= o.bytes; at += 8) {
    std::uint64_t v;
    std::memcpy(&v, bytes + o.at + at, sizeof v);
    if (v != 0) visit(v, at);
  }
}

// Places of the weak pointers of marked objects that lead to objects without a mark; a pass over the marks, and a look
// at each marked object, if there are types with weak pointers.  May throw std::bad_alloc.
template <class Objects>
[[nodiscard]] std::vector<std::uint64_t> weak_pointers_to_garbage(Objects& objects, const std::byte* bytes,
                                                                  std::uint64_t base, const pointer_plans& plans) {
  std::vector<std::uint64_t> all;
  if (!plans.may_have_weak()) return all;
  const auto is_weak = [](layout::field_kind k) { return k == layout::field_kind::weak_pointer; };
  objects.each(0, objects.units(), [&](const found_object& o) {
    if (!objects.marks().test(o.mark)) return;
    const auto p = payload_of(bytes, o.header, objects.room_of(o));
    if (!p) return;
    each_value_of(bytes, *p, plans, is_weak, [&](std::uint64_t v, std::uint64_t at) {
      found_object target;
      if (objects.find(v - base, target) && !objects.marks().test(target.mark)) all.push_back(p->at + at);
    });
  });
  return all;
}

// How a garbage object is reached from another.
struct way_to {
  static constexpr std::uint32_t nothing = ~std::uint32_t{0};
  std::uint32_t from = nothing;  // index of the object that points to it; nothing: the chain begins here
  std::uint32_t depth = nothing;
  bool alone = false;    // no other garbage points to it
  std::uint64_t at = 0;  // offset of the pointer in the payload of `from`
};

template <class Objects>
class garbage_ways {
 public:
  // `all` is ascending.  May throw std::bad_alloc.
  garbage_ways(const Objects& objects, const std::byte* bytes, std::uint64_t base, const pointer_plans& plans,
               bool conservative, const std::vector<found_object>& all)
      : objects_{objects}, bytes_{bytes}, base_{base}, plans_{plans}, conservative_{conservative}, all_{all} {
    std::vector<bool> pointed(all.size());
    for (std::uint32_t i = 0; i < all.size(); ++i) {
      each_edge(i, [&](std::uint32_t to, std::uint64_t) {
        if (to != i) pointed[to] = true;
      });
    }
    ways_.resize(all.size());
    for (std::uint32_t i = 0; i < all.size(); ++i) {
      if (pointed[i]) continue;
      begin(i);
      ways_[i].alone = true;
    }
    spread();
    // The rest is cycles, and objects that are reached from these.
    for (std::uint32_t i = 0; i < all.size(); ++i) {
      if (ways_[i].depth != way_to::nothing) continue;
      begin(i);
      spread();
    }
  }
  [[nodiscard]] const way_to& operator[](std::size_t i) const noexcept { return ways_[i]; }

 private:
  template <class Visit>
  void each_edge(std::uint32_t i, Visit&& visit) const {
    const auto o = payload_of(bytes_, all_[i].header, objects_.room_of(all_[i]));
    if (!o) return;
    each_value(bytes_, *o, plans_, conservative_, [&](std::uint64_t v, std::uint64_t at) {
      found_object target;
      if (!objects_.find(v - base_, target)) return;
      const auto found = std::lower_bound(all_.begin(), all_.end(), target.header,
                                          [](const found_object& g, std::uint64_t h) { return g.header < h; });
      if (found != all_.end() && found->header == target.header)
        visit(static_cast<std::uint32_t>(found - all_.begin()), at);
    });
  }
  void begin(std::uint32_t i) {
    ways_[i].depth = 0;
    queue_.push_back(i);
  }
  void spread() {
    for (; next_ < queue_.size(); ++next_) {
      const std::uint32_t i = queue_[next_];
      each_edge(i, [&](std::uint32_t to, std::uint64_t at) {
        if (ways_[to].depth != way_to::nothing) return;
        ways_[to] = {i, ways_[i].depth + 1, false, at};
        queue_.push_back(to);
      });
    }
  }

  const Objects& objects_;
  const std::byte* bytes_;
  const std::uint64_t base_;
  const pointer_plans& plans_;
  const bool conservative_;
  const std::vector<found_object>& all_;
  std::vector<way_to> ways_;
  std::vector<std::uint32_t> queue_;
  std::size_t next_ = 0;
};

}  // namespace nvm::object
