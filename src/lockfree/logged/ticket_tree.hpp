// bst-tk (David, Guerraoui, Trigonakis, ASPLOS 2015) with redo logging: an external binary search tree with a ticket
// lock for each of an inner node's two edges.
//
// Readers take no lock, and a writer takes one without waiting: it remembers the tickets on the way down, and if one
// has been drawn since, the edge may have changed and it begins anew.  An insertion locks the edge to the leaf; a
// removal the edge to the leaf's parent, and both edges of the parent, for good.  A lock's word says in which opening
// of the pool its tickets were drawn: after a crash all locks are free.
#pragma once

#include "base/inlining.hpp"
#include "lockfree/logged/lazy_list.hpp"

namespace nvm::lockfree::logged {

inline constexpr link_word leaf = gone;  // in a link of the tree: it leads to a leaf

struct tree_leaf {
  std::uint64_t order;
  std::uint64_t content;
  std::uint64_t is_end;  // at an end of the tree: holds no key
  std::uint64_t tag;     // tag of the record that linked it
};
struct tree_inner {
  std::uint64_t order;  // smallest key of the right side
  std::uint64_t locks[2];
  std::uint64_t reserved;
  stamped_link sides[2];
};
static_assert(sizeof(tree_inner) == 64 && sizeof(tree_leaf) == 32);

// Word of a ticket lock: opening (24), ticket that is served (20), ticket to be drawn next (20).
class tickets {
 public:
  explicit tickets(std::uint64_t token) noexcept : opening_{(token & 0xFF'FFFF) << 40} {}
  // acquire: pairs with unlock(): the edge is as it was left.
  [[nodiscard]] static std::uint64_t look(const std::uint64_t& word) noexcept {
    return std::atomic_ref<std::uint64_t>{const_cast<std::uint64_t&>(word)}.load(std::memory_order_acquire);
  }
  // Locks if no ticket was drawn since `seen`, and no thread had to wait then.
  [[nodiscard]] bool try_lock(std::uint64_t& word, std::uint64_t seen) const noexcept {
    const std::uint64_t now = normal(seen);
    if (served(now) != drawn(now)) return false;
    return std::atomic_ref<std::uint64_t>{word}.compare_exchange_strong(
        seen, make(served(now), drawn(now) + 1), std::memory_order_acquire, std::memory_order_relaxed);
  }
  void unlock(std::uint64_t& word) const noexcept {
    const std::uint64_t now = std::atomic_ref<std::uint64_t>{word}.load(std::memory_order_relaxed);
    std::atomic_ref<std::uint64_t>{word}.store(make(served(now) + 1, drawn(now)), std::memory_order_release);
  }

 private:
  static constexpr std::uint64_t mask = (1U << 20) - 1;
  static std::uint64_t served(std::uint64_t w) noexcept { return w >> 20 & mask; }
  static std::uint64_t drawn(std::uint64_t w) noexcept { return w & mask; }
  [[nodiscard]] std::uint64_t make(std::uint64_t s, std::uint64_t d) const noexcept {
    return opening_ | (s & mask) << 20 | (d & mask);
  }
  [[nodiscard]] std::uint64_t normal(std::uint64_t seen) const noexcept {
    return seen >> 40 == opening_ >> 40 ? seen : opening_;
  }
  const std::uint64_t opening_;
};

template <memory Memory>
class ticket_tree : public twin_face<ticket_tree<Memory>, Memory> {
 public:
  using session = typename Memory::session;
  static constexpr bool searches_slowly = false;
  static constexpr std::uint64_t first_at = sizeof(layout::root);  // the inner node at the top, then its two leaves
  static constexpr std::uint64_t leaves_at = first_at + sizeof(tree_inner);
  static constexpr std::uint64_t root_bytes_of(unsigned) noexcept { return leaves_at + 2 * sizeof(tree_leaf); }

  ticket_tree(Memory& memory, std::uint64_t root) noexcept
      : memory_{memory},
        log_{memory, root},
        tickets_{log_.token()},
        top_{*reinterpret_cast<tree_inner*>(memory.at(root) + first_at)},
        root_{root},
        log_offset_{reinterpret_cast<const layout::root*>(memory.at(root))->log_offset} {}
  static void make_root(std::byte* root, std::uint64_t root_offset, rule r, std::byte* log, std::uint64_t log_offset,
                        unsigned) noexcept {
    redo_log<Memory>::make_root(root, r, log, log_offset);
    auto* top = reinterpret_cast<tree_inner*>(root + first_at);
    auto* leaves = reinterpret_cast<tree_leaf*>(root + leaves_at);
    *top = {~std::uint64_t{0}, {0, 0}, 0, {}};
    for (unsigned side = 0; side < 2; ++side) {
      leaves[side] = {side == 0 ? 0 : ~std::uint64_t{0}, 0, 1, 0};
      top->sides[side].set((root_offset + leaves_at + side * sizeof(tree_leaf)) | leaf, 0);
    }
  }

  template <class Visit>
  [[nodiscard]] bool search(std::uint64_t k, Visit&& visit) noexcept {
    link_word w = top_.sides[side_of(top_, k)].load();
    while ((w & leaf) == 0) {
      tree_inner& n = inner_at(w);
      w = n.sides[side_of(n, k)].load();
    }
    const tree_leaf& l = leaf_at(w);
    const bool found = holds(l, k);
    if (found) visit(l.content);
    return found;
  }
  [[nodiscard]] result<bool> put(session& s, std::uint64_t k, std::uint64_t v) noexcept;
  [[nodiscard]] result<bool> take(session& s, std::uint64_t k) noexcept;

  // Nobody is in it.
  template <class Visit>
  void each(Visit&& visit) noexcept {
    walk([&](std::uint64_t offset, bool is_leaf) {
      const auto* l = reinterpret_cast<const tree_leaf*>(memory_.at(offset));
      if (is_leaf && l->is_end == 0) visit(l->order, l->content);
    });
  }
  [[nodiscard]] bool has_array_at(std::uint64_t offset) const noexcept { return offset == log_offset_; }
  [[nodiscard]] bool leads_to(std::uint64_t offset) noexcept {
    const auto* wanted = reinterpret_cast<const tree_leaf*>(memory_.at(offset));
    if (wanted == nullptr) return false;
    // Inner node or leaf: its key is first in it, and the way to that key passes it.
    link_word w = top_.sides[side_of(top_, wanted->order)].load();
    for (;;) {
      if (offset_of(w) == offset) return true;
      if ((w & leaf) != 0 || memory_.at(offset_of(w)) == nullptr) return false;
      tree_inner& n = inner_at(w);
      w = n.sides[side_of(n, wanted->order)].load();
    }
  }
  template <class Visit>
  [[nodiscard]] bool each_linked(Visit&& visit) noexcept {
    visit(log_offset_);
    walk([&](std::uint64_t offset, bool) {
      if (offset < root_ || offset >= root_ + root_bytes_of(0)) visit(offset);
    });
    return true;
  }
  using twin_face<ticket_tree, Memory>::check;
  // Whether every key is on its side of every inner node above it.  No thread is in the tree.
  [[nodiscard]] bool check() {
    struct part {
      link_word word;
      std::uint64_t low, high;  // both included
    };
    std::vector<part> ahead{{top_.sides[0].load(), 0, ~std::uint64_t{0}},
                            {top_.sides[1].load(), ~std::uint64_t{0}, ~std::uint64_t{0}}};
    while (!ahead.empty()) {
      const part p = ahead.back();
      ahead.pop_back();
      if ((p.word & leaf) != 0) {
        const tree_leaf& l = leaf_at(p.word);
        if (l.is_end == 0 && (l.order < p.low || l.order > p.high)) return false;
        continue;
      }
      const tree_inner& n = inner_at(p.word);
      if (n.order < p.low || n.order > p.high) return false;
      if (n.order != 0) ahead.push_back({n.sides[0].load(), p.low, n.order - 1});
      ahead.push_back({n.sides[1].load(), n.order, p.high});
    }
    return true;
  }
  [[nodiscard]] redo_log<Memory>& log() noexcept { return log_; }

 private:
  struct place {
    tree_inner* above = nullptr;  // of `parent`
    std::uint64_t above_seen = 0;
    unsigned above_side = 0;
    tree_inner* parent = nullptr;
    std::uint64_t parent_seen[2] = {};
    unsigned side = 0;
    link_word parent_word = 0;  // leads to the parent
    link_word word = 0;         // leads to the leaf
  };

  [[nodiscard, NVM_INLINE]] tree_inner& inner_at(link_word w) const noexcept {
    return *reinterpret_cast<tree_inner*>(memory_.at(offset_of(w)));
  }
  [[nodiscard, NVM_INLINE]] tree_leaf& leaf_at(link_word w) const noexcept {
    return *reinterpret_cast<tree_leaf*>(memory_.at(offset_of(w)));
  }
  [[nodiscard, NVM_INLINE]] static unsigned side_of(const tree_inner& n, std::uint64_t k) noexcept {
    return k < n.order ? 0 : 1;
  }
  [[nodiscard]] static bool holds(const tree_leaf& l, std::uint64_t k) noexcept {
    return l.order == k && l.is_end == 0;
  }

  [[NVM_INLINE]] void find(std::uint64_t k, place& p) noexcept {
    p.parent = &top_;
    p.word = 0;
    for (;;) {
      tree_inner& n = *p.parent;
      p.parent_seen[0] = tickets::look(n.locks[0]);
      p.parent_seen[1] = tickets::look(n.locks[1]);
      p.side = side_of(n, k);
      const link_word down = n.sides[p.side].load();
      if ((down & leaf) != 0) {
        p.parent_word = p.word;
        p.word = down;
        return;
      }
      p.above = &n;
      p.above_side = p.side;
      p.above_seen = p.parent_seen[p.side];
      p.word = down;
      p.parent = &inner_at(down);
    }
  }

  template <class Visit>
  void walk(Visit&& visit) noexcept {
    // Depth first, by a stack: the tree may be deep.
    std::vector<link_word> ahead{top_.sides[0].load(), top_.sides[1].load()};
    while (!ahead.empty()) {
      const link_word w = ahead.back();
      ahead.pop_back();
      if (memory_.at(offset_of(w)) == nullptr) continue;
      visit(offset_of(w), (w & leaf) != 0);
      if ((w & leaf) != 0) continue;
      ahead.push_back(inner_at(w).sides[0].load());
      ahead.push_back(inner_at(w).sides[1].load());
    }
  }

  Memory& memory_;
  redo_log<Memory> log_;
  const tickets tickets_;
  tree_inner& top_;
  const std::uint64_t root_;
  const std::uint64_t log_offset_;
};

template <memory Memory>
inline result<bool> ticket_tree<Memory>::put(session& s, std::uint64_t k, std::uint64_t v) noexcept {
  for (;;) {
    place p;
    find(k, p);
    const tree_leaf& old = leaf_at(p.word);
    if (holds(old, k)) return false;
    if (!tickets_.try_lock(p.parent->locks[p.side], p.parent_seen[p.side])) continue;
    const auto room = memory_.allocate(s, sizeof(tree_leaf));
    if (!room || !log_.has_room_for(s)) {
      tickets_.unlock(p.parent->locks[p.side]);
      return lazy_chain<Memory>::no_room(room);
    }
    const auto above = memory_.allocate(s, sizeof(tree_inner));
    if (!above) {
      memory_.discard(s, *room);
      tickets_.unlock(p.parent->locks[p.side]);
      return above.error();
    }
    auto* l = reinterpret_cast<tree_leaf*>(memory_.at(*room));
    *l = {k, v, 0, 0};
    const std::uint64_t tag = log_.begin(s);
    // release: the last store to its line.
    std::atomic_ref<std::uint64_t>{l->tag}.store(tag, std::memory_order_release);
    auto* n = reinterpret_cast<tree_inner*>(memory_.at(*above));
    // No thread is still inside that remembers tickets of the node which was in this place before.
    n->locks[0] = n->locks[1] = n->reserved = 0;
    const bool smaller = k < old.order;
    n->order = smaller ? old.order : k;
    n->sides[0].set(smaller ? *room | leaf : p.word, tag);
    n->sides[1].set(smaller ? p.word : *room | leaf, tag);
    memory_.contents(l, sizeof *l);
    memory_.contents(n, sizeof *n);
    change_set changes;
    changes.bear(memory_.offset_in_pool(&l->tag), *room);
    changes.bear(memory_.offset_in_pool(&n->sides[1].stamp), *above);
    changes.add(memory_.offset_in_pool(&p.parent->sides[p.side]), *above);
    log_.commit(s, tag, changes, [] {});
    tickets_.unlock(p.parent->locks[p.side]);
    return true;
  }
}

template <memory Memory>
inline result<bool> ticket_tree<Memory>::take(session& s, std::uint64_t k) noexcept {
  for (;;) {
    place p;
    find(k, p);
    if (!holds(leaf_at(p.word), k)) return false;
    // A leaf with a key hangs under an inner node of its own insertion or a later one, never under the top.
    if (!tickets_.try_lock(p.above->locks[p.above_side], p.above_seen)) continue;
    if (!tickets_.try_lock(p.parent->locks[0], p.parent_seen[0])) {
      tickets_.unlock(p.above->locks[p.above_side]);
      continue;
    }
    if (!tickets_.try_lock(p.parent->locks[1], p.parent_seen[1])) {
      tickets_.unlock(p.parent->locks[0]);
      tickets_.unlock(p.above->locks[p.above_side]);
      continue;
    }
    const std::uint64_t gone_leaf = offset_of(p.word);
    const std::uint64_t gone_inner = offset_of(p.parent_word);
    if (!log_.has_room_for(s) || !log_.may_unlink(s, gone_leaf, 2) || !log_.may_unlink(s, gone_inner, 2)) {
      tickets_.unlock(p.parent->locks[1]);
      tickets_.unlock(p.parent->locks[0]);
      tickets_.unlock(p.above->locks[p.above_side]);
      return fail(errc::no_memory, "no memory to unlink a node");
    }
    change_set changes;
    changes.add(memory_.offset_in_pool(&p.above->sides[p.above_side]), p.parent->sides[1 - p.side].load());
    log_.commit(s, log_.begin(s), changes, [] {});
    tickets_.unlock(p.above->locks[p.above_side]);
    memory_.retire(s, gone_leaf);
    memory_.retire(s, gone_inner);
    return true;
  }
}

}  // namespace nvm::lockfree::logged
