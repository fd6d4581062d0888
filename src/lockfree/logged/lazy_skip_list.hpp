// The optimistic skip list (Herlihy, Lev, Luchangco, Shavit, SIROCCO 2007) with redo logging.
//
// Readers take no lock.  A writer locks the nodes before the key on all levels of its node, looks whether they still
// are the ones before, and changes all levels under one record.  A node's `state` tells threads that stand on it, with
// this opening's token, that it is being linked, or has left; after a crash every linked node is linked for good,
// because its record links it on all levels.  Lock order: descending keys.
#pragma once

#include "base/inlining.hpp"
#include "lockfree/logged/lazy_list.hpp"

namespace nvm::lockfree::logged {

inline constexpr unsigned skip_levels_max = 16;

struct skip_node {
  std::uint64_t order;
  std::uint64_t content;
  token_lock lock;
  std::uint64_t state;    // levels (8 bits); token * 4 + 1: being linked, + 2: has left; anything else: linked
  stamped_link links[2];  // one for each level
};
static_assert(sizeof(skip_node) == 64);
constexpr std::uint64_t skip_node_bytes(unsigned levels) noexcept {
  return sizeof(skip_node) + (levels <= 2 ? 0 : (levels - 2) * sizeof(stamped_link));
}

// Links go on after the node that is declared.
[[nodiscard, NVM_INLINE]] inline stamped_link& link_of(skip_node& n, unsigned level) noexcept {
  return *(reinterpret_cast<stamped_link*>(reinterpret_cast<std::byte*>(&n) + offsetof(skip_node, links)) + level);
}

template <memory Memory>
class lazy_skip_list : public twin_face<lazy_skip_list<Memory>, Memory> {
 public:
  using session = typename Memory::session;
  static constexpr bool searches_slowly = false;
  static constexpr std::uint64_t root_bytes_of(unsigned) noexcept {
    return sizeof(layout::root) + skip_node_bytes(skip_levels_max);
  }

  lazy_skip_list(Memory& memory, std::uint64_t root) noexcept
      : memory_{memory},
        log_{memory, root},
        head_{*reinterpret_cast<skip_node*>(memory.at(root) + sizeof(layout::root))},
        log_offset_{reinterpret_cast<const layout::root*>(memory.at(root))->log_offset},
        linking_{(log_.token() * 4 + 1) << 8},
        left_{(log_.token() * 4 + 2) << 8} {
    unsigned top = 1;
    while (top < skip_levels_max && offset_of(link_of(head_, top).load()) != 0) ++top;
    top_.store(top, std::memory_order_relaxed);
  }
  static void make_root(std::byte* root, std::uint64_t, rule r, std::byte* log, std::uint64_t log_offset,
                        unsigned) noexcept {
    redo_log<Memory>::make_root(root, r, log, log_offset);
    std::fill_n(root + sizeof(layout::root), skip_node_bytes(skip_levels_max), std::byte{});
    reinterpret_cast<skip_node*>(root + sizeof(layout::root))->state = skip_levels_max;
  }

  template <class Visit>
  [[nodiscard]] bool search(std::uint64_t k, Visit&& visit) noexcept {
    skip_node* before = &head_;
    skip_node* n = nullptr;
    for (unsigned level = top_.load(std::memory_order_relaxed); level-- > 0;) {
      for (n = next(before, level); n != nullptr && n->order < k; n = next(n, level)) before = n;
      if (n != nullptr && n->order == k) break;
    }
    const bool found = n != nullptr && n->order == k && is_linked(*n);
    if (found) visit(n->content);
    return found;
  }
  [[nodiscard]] result<bool> put(session& s, std::uint64_t k, std::uint64_t v) noexcept;
  [[nodiscard]] result<bool> take(session& s, std::uint64_t k) noexcept;

  template <class Visit>
  void each(Visit&& visit) noexcept {
    for (skip_node* n = next(&head_, 0); n != nullptr; n = next(n, 0)) visit(n->order, n->content);
  }
  [[nodiscard]] bool has_array_at(std::uint64_t offset) const noexcept { return offset == log_offset_; }
  [[nodiscard]] bool leads_to(std::uint64_t offset) noexcept {
    const auto* wanted = reinterpret_cast<const skip_node*>(memory_.at(offset));
    if (wanted == nullptr) return false;
    place p;
    (void)find(wanted->order, p);
    return p.after[0] == offset;
  }
  template <class Visit>
  [[nodiscard]] bool each_linked(Visit&& visit) noexcept {
    visit(log_offset_);
    for (skip_node* n = next(&head_, 0); n != nullptr; n = next(n, 0)) visit(memory_.offset_in_pool(n));
    return true;
  }
  using twin_face<lazy_skip_list, Memory>::check;
  // Whether every level is in order and leads to nodes of the level below.  No thread is in the list.
  [[nodiscard]] bool check() noexcept {
    for (unsigned level = 1; level < skip_levels_max; ++level) {
      skip_node* below = next(&head_, level - 1);
      for (skip_node* n = next(&head_, level); n != nullptr; n = next(n, level)) {
        if (levels_of(*n) <= level) return false;
        while (below != nullptr && below != n) below = next(below, level - 1);
        if (below == nullptr) return false;
      }
    }
    for (skip_node* n = next(&head_, 0); n != nullptr; n = next(n, 0)) {
      if (skip_node* after = next(n, 0); after != nullptr && after->order <= n->order) return false;
    }
    return true;
  }
  [[nodiscard]] redo_log<Memory>& log() noexcept { return log_; }

 private:
  struct place {
    std::array<skip_node*, skip_levels_max> before;
    std::array<std::uint64_t, skip_levels_max> after;  // offsets
  };
  static constexpr int nowhere = -1;

  [[nodiscard, NVM_INLINE]] skip_node* node_at(std::uint64_t offset) const noexcept {
    return offset == 0 ? nullptr : reinterpret_cast<skip_node*>(memory_.at(offset));
  }
  [[nodiscard, NVM_INLINE]] skip_node* next(skip_node* n, unsigned level) const noexcept {
    return node_at(offset_of(link_of(*n, level).load()));
  }
  // acquire: pairs with the release stores of the state.
  [[nodiscard]] static std::uint64_t state_of(skip_node& n) noexcept {
    return std::atomic_ref<std::uint64_t>{n.state}.load(std::memory_order_acquire);
  }
  [[nodiscard]] static unsigned levels_of(skip_node& n) noexcept { return state_of(n) & 0xFF; }
  [[nodiscard]] bool is_linked(skip_node& n) const noexcept {
    const std::uint64_t s = state_of(n) >> 8 << 8;
    return s != linking_ && s != left_;
  }
  [[nodiscard]] bool has_left(skip_node& n) const noexcept { return state_of(n) >> 8 << 8 == left_; }
  static void set_state(skip_node& n, std::uint64_t s, unsigned levels) noexcept {
    std::atomic_ref<std::uint64_t>{n.state}.store(s | levels, std::memory_order_release);
  }

  // One node in 4 is in the next level, too: as in the lock-free one.
  [[nodiscard]] static unsigned random_levels(session& s) noexcept {
    return std::min<unsigned>(skip_levels_max,
                              1 + static_cast<unsigned>(std::countr_zero(s.random() | std::uint64_t{1} << 62)) / 2);
  }
  // Highest level where the key is; fills `p` below the top.
  [[nodiscard, NVM_INLINE]] int find(std::uint64_t k, place& p) noexcept {
    int found = nowhere;
    skip_node* before = &head_;
    for (unsigned level = top_.load(std::memory_order_relaxed); level-- > 0;) {
      std::uint64_t after = offset_of(link_of(*before, level).load());
      skip_node* n = node_at(after);
      while (n != nullptr && n->order < k) {
        before = n;
        after = offset_of(link_of(*n, level).load());
        n = node_at(after);
      }
      if (found == nowhere && n != nullptr && n->order == k) found = static_cast<int>(level);
      p.before[level] = before;
      p.after[level] = after;
    }
    return found;
  }
  // Locks the nodes before on levels [0, levels); `wanted(level)`: where they must lead.
  template <class Wanted>
  [[nodiscard]] bool lock_before(const place& p, unsigned levels, unsigned& locked, Wanted&& wanted) noexcept {
    for (locked = 0; locked < levels; ++locked) {
      skip_node* b = p.before[locked];
      if (locked == 0 || b != p.before[locked - 1]) b->lock.lock(log_.token());
      if (has_left(*b) || offset_of(link_of(*b, locked).load()) != wanted(locked)) {
        ++locked;
        return false;
      }
    }
    return true;
  }
  static void unlock_before(const place& p, unsigned locked) noexcept {
    for (unsigned level = 0; level < locked; ++level) {
      if (level == 0 || p.before[level] != p.before[level - 1]) p.before[level]->lock.unlock();
    }
  }

  Memory& memory_;
  redo_log<Memory> log_;
  skip_node& head_;
  const std::uint64_t log_offset_;
  const std::uint64_t linking_;
  const std::uint64_t left_;
  std::atomic<unsigned> top_{1};
};

template <memory Memory>
inline result<bool> lazy_skip_list<Memory>::put(session& s, std::uint64_t k, std::uint64_t v) noexcept {
  const unsigned levels = random_levels(s);
  for (;;) {
    place p;
    const unsigned top = top_.load(std::memory_order_relaxed);
    for (unsigned level = top; level < levels; ++level) {
      p.before[level] = &head_;
      p.after[level] = 0;
    }
    const int found = find(k, p);
    if (found != nowhere) {
      skip_node* n = node_at(p.after[static_cast<unsigned>(found)]);
      if (has_left(*n)) continue;
      for (unsigned spins = 0; !is_linked(*n) && !has_left(*n); ++spins) {
        if (spins < 64) {
          isa::spin_hint();
        } else {
          std::this_thread::yield();
        }
      }
      return false;
    }
    unsigned locked = 0;
    if (!lock_before(p, levels, locked, [&](unsigned level) { return p.after[level]; })) {
      unlock_before(p, locked);
      continue;
    }
    const std::uint64_t bytes = skip_node_bytes(levels);
    const auto room = memory_.allocate(s, bytes);
    if (!room || !log_.has_room_for(s)) {
      unlock_before(p, locked);
      return lazy_chain<Memory>::no_room(room);
    }
    auto* n = reinterpret_cast<skip_node*>(memory_.at(*room));
    n->order = k;
    n->content = v;
    n->lock.holder = 0;
    set_state(*n, linking_, levels);
    const std::uint64_t tag = log_.begin(s);
    change_set changes;
    for (unsigned level = 0; level < levels; ++level) {
      link_of(*n, level).set(p.after[level], tag);
      // The last link of each line.
      if (level + 1 == levels || level % 4 == 1) {
        changes.bear(memory_.offset_in_pool(&link_of(*n, level).stamp), *room);
      }
    }
    for (unsigned level = 0; level < levels; ++level) {
      changes.add(memory_.offset_in_pool(&link_of(*p.before[level], level)), *room);
    }
    memory_.contents(n, bytes);
    // Before the node is linked: a thread that finds it linked looks on all of its levels.
    unsigned highest = top_.load(std::memory_order_relaxed);
    while (highest < levels && !top_.compare_exchange_weak(highest, levels, std::memory_order_relaxed)) {
    }
    log_.commit(s, tag, changes, [] {});
    set_state(*n, 0, levels);
    unlock_before(p, locked);
    return true;
  }
}

template <memory Memory>
inline result<bool> lazy_skip_list<Memory>::take(session& s, std::uint64_t k) noexcept {
  place p;
  int found = find(k, p);
  if (found == nowhere) return false;
  const std::uint64_t offset = p.after[static_cast<unsigned>(found)];
  skip_node* const victim = node_at(offset);
  const unsigned levels = levels_of(*victim);
  if (!is_linked(*victim)) return false;
  if (levels != static_cast<unsigned>(found) + 1) return false;  // found while it was leaving
  victim->lock.lock(log_.token());
  if (has_left(*victim)) {
    victim->lock.unlock();
    return false;
  }
  for (;;) {
    unsigned locked = 0;
    if (!lock_before(p, levels, locked, [&](unsigned) { return offset; })) {
      unlock_before(p, locked);
      (void)find(k, p);
      continue;
    }
    if (!log_.has_room_for(s) || !log_.may_unlink(s, offset)) {
      unlock_before(p, locked);
      victim->lock.unlock();
      return fail(errc::no_memory, "no memory to unlink a node");
    }
    change_set changes;
    for (unsigned level = levels; level-- > 0;) {
      changes.add(memory_.offset_in_pool(&link_of(*p.before[level], level)), link_of(*victim, level).load());
    }
    log_.commit(s, log_.begin(s), changes, [&] { set_state(*victim, left_, levels); });
    unlock_before(p, locked);
    victim->lock.unlock();
    memory_.retire(s, offset);
    return true;
  }
}

}  // namespace nvm::lockfree::logged
