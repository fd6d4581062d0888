// The common part of shapes (concept.hpp): the face that callers see, which enters, works and leaves; and defaults for
// what recovery asks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/inlining.hpp"
#include "base/result.hpp"
#include "lockfree/concept.hpp"
#include "lockfree/nodes.hpp"
#include "lockfree/structure.hpp"

namespace nvm::lockfree {

// Settings of a new structure that hashes.
struct root_settings {
  unsigned bits = 0;  // 2^bits cells
  std::uint64_t seed = 0;
};

// Shape: has search(), put(), take(), walk(), walk_from(), tidy() and order_of(); it derives from this.
template <class Shape, memory Memory, node_kind Nodes>
class face_of {
 public:
  using session = typename Memory::session;
  using nodes = Nodes;
  using key = typename Nodes::key;
  using value = typename Nodes::value;

  // Calls visit(node) where the key is; false: it is nowhere.
  template <class Visit>
  [[nodiscard, NVM_INLINE]] bool look_up(session& s, const key& k, Visit&& visit) noexcept {
    const std::uint64_t order = self().order_of(k);
    s.enter();
    const bool found = self().search(s, order, k, visit);
    s.leave();
    return found;
  }
  // refused: the rule does not allow it.  errc::no_memory, no_space, too_large, corrupt.
  [[nodiscard]] result<written> write(session& s, const key& k, const value& v, write_rule rule) noexcept {
    return write_with(
        s, k, rule, [&](const node_head*) { return Nodes::bytes(k, v); },
        [&](std::byte* at, std::uint64_t order, const node_head*) { Nodes::fill(at, order, k, v); });
  }
  // size(old) says how many bytes the new node needs, 0: leave it (refused); fill(at, order, old) makes all of it but
  // its link.  `old` is nullptr where there is no node.  Both may be called again, when the node has changed meanwhile.
  template <class Size, class Fill>
  [[nodiscard]] result<written> write_with(session& s, const key& k, write_rule rule, Size&& size,
                                           Fill&& fill) noexcept {
    const std::uint64_t order = self().order_of(k);
    s.enter();
    auto w = self().put(s, order, k, rule, size, fill);
    s.leave();
    if (w && *w == written::inserted) self().counted(s);
    return w;
  }
  [[nodiscard]] result<bool> remove(session& s, const key& k) noexcept {
    return remove_if(s, k, [](const node_head*) { return true; });
  }
  // Calls decide(node) -> bool where the key is: whether it is deleted.  False: it was not, or is nowhere.
  template <class Decide>
  [[nodiscard]] result<bool> remove_if(session& s, const key& k, Decide&& decide) noexcept {
    const std::uint64_t order = self().order_of(k);
    s.enter();
    auto r = self().take(s, order, k, decide);
    s.leave();
    if (r && *r) self().counted(s);
    return r;
  }
  // In ascending order of the keys, or that of their hashes, until visit(node) returns false; what it sees is durable.
  template <class Visit>
  void each(session& s, Visit&& visit) noexcept {
    s.enter();
    self().walk(s, visit);
    s.leave();
  }
  // The same from the first key that is not ordered before `order`.
  template <class Visit>
  void each_from(session& s, std::uint64_t order, Visit&& visit) noexcept {
    s.enter();
    self().walk_from(s, order, visit);
    s.leave();
  }
  // Unlinks the node, which is deleted and linked.  False: damage, or no memory.
  [[nodiscard]] bool tidy_at(session& s, const node_head* n) noexcept {
    s.enter();
    const bool done = self().tidy(s, n);
    s.leave();
    return done;
  }

  // Takes the runs of a new structure that nothing leads to yet, and makes its root: take(bytes) -> result<offset>,
  // at(offset) is where it is, made(offset, bytes) is told what the caller makes durable.
  template <class Take, class At, class Made>
  [[nodiscard]] static result<std::uint64_t> make_new(const root_settings&, Take&& take, At&& at, Made&& made) {
    const result<std::uint64_t> root = take(Shape::root_bytes);
    if (!root) return root.error();
    Shape::make_root(at(*root));
    made(*root, Shape::root_bytes);
    return *root;
  }

  // ---- defaults of optional members ----

  // Its root says nothing of its own: no settings are asked for.
  static constexpr bool hashes = false;
  // Its walks are in no order of keys.
  static constexpr bool is_sorted = false;

  // It keeps no count of its keys.
  static void counted(session&) noexcept {}
  static void set_count(std::int64_t) noexcept {}
  // Its root is all that belongs to it besides nodes.
  [[nodiscard]] static bool has_array_at(std::uint64_t) noexcept { return false; }
  // A node has one link that leads there, and is linked by that or not at all.
  static bool detach(std::uint64_t, std::uint64_t) noexcept { return false; }

 protected:
  face_of() noexcept = default;

 private:
  [[nodiscard, NVM_INLINE]] Shape& self() noexcept { return static_cast<Shape&>(*this); }
};

// The same for shapes that are sorted by key.
template <class Shape, memory Memory, node_kind Nodes>
class sorted_face_of : public face_of<Shape, Memory, Nodes> {
 public:
  using session = typename Memory::session;
  using key = typename Nodes::key;
  static constexpr bool is_sorted = true;

  // From the smallest key on that is not less than k.
  template <class Visit>
  void each_from_key(session& s, const key& k, Visit&& visit) noexcept {
    auto& self = static_cast<Shape&>(*this);
    const std::uint64_t order = self.order_of(k);
    s.enter();
    self.walk_from_key(s, order, k, visit);
    s.leave();
  }

 protected:
  sorted_face_of() noexcept = default;
};

// Answers to recovery for a shape whose nodes bear their mark in a link of their own, mark_of(offset, bytes), which is
// first in the head: the node is deleted when that link is gone.
template <class Shape>
class marked_in_itself {
 public:
  [[nodiscard]] bool bears_mark(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    const link* mark = self().mark_of(offset, bytes);
    return mark != nullptr && (mark->load() & gone) != 0;
  }
  [[nodiscard]] std::uint64_t deleted_head(std::uint64_t offset, std::uint64_t bytes, const link*) const noexcept {
    const link* mark = self().mark_of(offset, bytes);
    return mark != nullptr && (mark->load() & gone) != 0 ? self().memory().offset_in_pool(mark) : 0;
  }
  [[nodiscard]] bool is_deleted_by(const link& by) const noexcept {
    const auto* own = reinterpret_cast<const link*>(self().memory().at(offset_of(by.load())));
    return own != nullptr && (own->load() & gone) != 0;
  }

 private:
  friend Shape;
  marked_in_itself() noexcept = default;
  [[nodiscard]] const Shape& self() const noexcept { return static_cast<const Shape&>(*this); }
};

// ... of a shape that looks for a node in one step, leads_to(offset, bytes, by).
template <class Shape>
class searched_in_one_step {
 public:
  struct probe {
    const link* by = nullptr;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };
  [[nodiscard]] static bool begin(probe& p, std::uint64_t offset, std::uint64_t bytes) noexcept {
    p = {nullptr, offset, bytes};
    return true;
  }
  [[nodiscard]] progress step(probe& p) noexcept {
    return static_cast<Shape&>(*this).leads_to(p.offset, p.bytes, p.by) ? progress::found : progress::absent;
  }

 private:
  friend Shape;
  searched_in_one_step() noexcept = default;
};

}  // namespace nvm::lockfree
