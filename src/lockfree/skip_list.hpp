// A lock-free skip list (Herlihy and Shavit, "The Art of Multiprocessor Programming", 14.4; log-free, section 3): a
// sorted list of all nodes, Harris's, and above it lists of fewer and fewer of them that lead there faster.
//
// Only the bottom decides what is in the list.  Upper levels are hints for the search, but durable ones: a list of
// millions is there at once when a pool is opened.
//
/// insert    F node; CAS before -> node; the same at each level, from below (begin); | lockfree/E2  all of them durable
/// remove    marks `gone` at its upper levels, from above (tidy, E22 between them); CAS node -> next|gone (change); CAS
///           before -> next at each level, from above (tidy)
/// replace   the same with node -> replacement|gone at the bottom; the replacement is as high and takes over the links
// So a crash finds in each level a proper list of nodes that are in all levels below, but for nodes that were being
// deleted or built.  What does not hold then is that a node left the upper levels before the bottom: recovery sees to
// that (detach()) before it frees what is not linked at the bottom.
//
// Who unlinks a node at the bottom retires it, once.  It may be linked above at that moment:
//   - by the operation that deletes it and has not yet unlinked it above: it does so before it ends;
//   - by the one that inserted it and is still building: when it is done and finds the node gone, it unlinks it again.
// Both are inside while the generation waits (domain.hpp).  Somebody may come in meanwhile and find the node above, so
// the node waits for two generations: when the first has passed, nobody who comes in can find it any more.  Whoever
// unlinks above what somebody else retires fences before its operation ends (E23); E9 covers who retires.
//
// What an operation depends on is durable before it changes or reports anything: as in chain.hpp at the bottom; a link
// that is followed above is made durable before a node is put after it.  A node that is reached from above is durably
// linked at the bottom, for each level was begun when those below it were durable.
//
// A search for reading never stands on a node that is deleted at that level: links of such nodes do not change any
// more, and what was inserted since would be missed.
//
// Where a node lies: `height` (8 bytes), its links from the highest down to level 1, then the head with the link of
// level 0 and the order.  Links lead to the head; so level i is found at the same place whatever the height is, and key
// and links are in one line for all but one node in 16 384.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <type_traits>

#include "base/inlining.hpp"
#include "lockfree/chain.hpp"
#include "lockfree/circles.hpp"
#include "lockfree/list.hpp"
#include "space/space.hpp"

namespace nvm::lockfree {

inline constexpr unsigned skip_levels = 16;

struct skip_root {
  std::uint64_t magic;
  std::uint64_t reserved[7];
  link upper[skip_levels - 1];  // from the highest down to level 1
  link first;
};
static_assert(sizeof(skip_root) == 64 + skip_levels * 8);
inline constexpr std::uint64_t skip_magic = 0x5049'4B53'4552'464C;  // "LFRESKIP" in file order

template <class Memory, class Nodes>
class skip_list {
 public:
  using session = typename Memory::session;
  using nodes = Nodes;
  using key = typename Nodes::key;
  using value = typename Nodes::value;

  explicit skip_list(Memory& memory, std::uint64_t root) noexcept
      : memory_{memory}, root_{*reinterpret_cast<skip_root*>(memory.at(root))} {
    unsigned n = skip_levels;
    while (n > 1 && offset_of(level(&root_.first, n - 1).load()) == 0) --n;
    levels_.store(n, std::memory_order_relaxed);
  }

  // For a root that nothing leads to yet; the caller makes it durable.
  static constexpr std::uint64_t root_bytes = sizeof(skip_root);
  static void make_root(std::byte* at) noexcept {
    auto* r = reinterpret_cast<skip_root*>(at);
    *r = {};
    r->magic = skip_magic;
  }
  // What is wrong with a root; nullptr: nothing.
  [[nodiscard]] static const char* root_fault(const structure_pages&, const std::byte* base, std::uint64_t root,
                                              std::uint16_t) noexcept {
    const auto* r = reinterpret_cast<const skip_root*>(base + root);
    if (r->magic != skip_magic) return "it is no root of a skip list";
    for (unsigned i = 0; i < skip_levels; ++i) {
      if ((level(&r->first, i).word & gone) != 0) return "a link of its root is marked, as those of deleted nodes are";
    }
    return nullptr;
  }
  // Keys, where so many nodes and runs are allocated.
  [[nodiscard]] static std::uint64_t count_of(std::uint64_t allocated) noexcept {
    return allocated == 0 ? 0 : allocated - 1;
  }

  template <class Visit>
  [[nodiscard, NVM_INLINE]] bool look_up(session& s, const key& k, Visit&& visit) noexcept {
    s.enter();
    const bool found = search(s, order_of(k), k, visit);
    s.leave();
    return found;
  }
  [[nodiscard]] result<written> write(session& s, const key& k, const value& v, write_rule rule) noexcept {
    return write_with(
        s, k, rule, [&](const node_head*) { return Nodes::bytes(k, v); },
        [&](std::byte* at, std::uint64_t order, const node_head*) { Nodes::fill(at, order, k, v); });
  }
  // As chain::write_with(): size(old), fill(at, order, old).
  template <class Size, class Fill>
  [[nodiscard]] result<written> write_with(session& s, const key& k, write_rule rule, Size&& size,
                                           Fill&& fill) noexcept {
    s.enter();
    bool owes = false;
    auto w = put(s, order_of(k), k, rule, size, fill, owes);
    if (owes) memory_.fence_tidied();
    s.leave();
    return w;
  }
  [[nodiscard]] result<bool> remove(session& s, const key& k) noexcept {
    return remove_if(s, k, [](const node_head*) { return true; });
  }
  template <class Decide>
  [[nodiscard]] result<bool> remove_if(session& s, const key& k, Decide&& decide) noexcept {
    s.enter();
    bool owes = false;
    auto r = take(s, order_of(k), k, decide, owes);
    if (owes) memory_.fence_tidied();
    s.leave();
    return r;
  }
  // In ascending order of the keys, until visit(node) returns false; what it sees is durable.
  template <class Visit>
  void each(session& s, Visit&& visit) noexcept {
    s.enter();
    walk(s, &root_.first, root_.first.load(), visit);
    s.leave();
  }
  // The same from the smallest key on that is not less than k; from the first key that is not ordered before `order`.
  template <class Visit>
  void each_from_key(session& s, const key& k, Visit&& visit) noexcept {
    const std::uint64_t order = order_of(k);
    each_behind(s, [&](const node_head* n) { return before(n, order, k); }, visit);
  }
  template <class Visit>
  void each_from(session& s, std::uint64_t order, Visit&& visit) noexcept {
    each_behind(s, [&](const node_head* n) { return n->order < order; }, visit);
  }

  // ---- recovery ----

  static constexpr bool searches_slowly = false;
  // Whether the node in `bytes` at `offset`, which may hold anything, is linked at the bottom, step by step
  // (durable.hpp): each ends where memory has to be waited for.  begin(): false: it is not.
  struct probe {
    const node_head* of = nullptr;
    std::uint64_t at = 0;
    link* stand = nullptr;  // of the last node before, its link of level 0
    link* by = nullptr;     // at level 0: where `w` was read
    link_word w = 0;
    unsigned level = 0;
    std::uint64_t left = 0;  // a damaged list may lead round in a circle
  };
  [[nodiscard]] bool begin(probe& p, std::uint64_t offset, std::uint64_t bytes) noexcept {
    const node_head* n = candidate(offset, bytes);
    if (n != nullptr) begin(p, n);
    return n != nullptr;
  }
  [[nodiscard]] progress step(probe& p) noexcept {
    if (p.level == 0 && offset_of(p.w) == p.at) return progress::found;
    node_head* n = offset_of(p.w) == 0 || p.left == 0 ? nullptr : node_at(p.w);
    if (p.left != 0) --p.left;
    const key k = Nodes::key_of(p.of);
    if (p.level == 0) {
      if (n == nullptr) return progress::absent;
      const link_word behind = n->next.load();
      if ((behind & gone) == 0 && compare(n, p.of->order, k) > 0) return progress::absent;
      p.by = &n->next;
      p.w = behind;
    } else {
      const link_word next = n == nullptr ? 0 : level(&n->next, p.level).load();
      if (n != nullptr && is_deleted(n, next)) {
        p.w = next;
      } else if (n != nullptr && before(n, p.of->order, k)) {
        p.stand = &n->next;
        p.w = next;
      } else {
        p.by = p.stand;
        p.w = level(p.stand, --p.level).load();
      }
    }
    prefetch(p.w);
    return progress::under_way;
  }
  [[nodiscard]] const link* mark_of(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    const node_head* n = candidate(offset, bytes);
    return n == nullptr ? nullptr : &n->next;
  }
  // Calls pass(link) for each link, at every level that the node may have been linked at, that a search for it follows,
  // and for those after as long as nodes are deleted.
  template <class Pass>
  void each_link_to(std::uint64_t offset, std::uint64_t bytes, Pass&& pass) noexcept {
    node_head* n = candidate(offset, bytes);
    if (n == nullptr) return;
    const key k = Nodes::key_of(n);
    const unsigned height = height_of(n);
    std::uint64_t left = memory_.nodes_max();
    link* from = &root_.first;
    for (unsigned i = levels(); i-- > 0;) {
      link* stand = from;
      for (;;) {
        const link& l = level(stand, i);
        if (i < height) pass(l);
        const link_word w = l.load();
        node_head* next = offset_of(w) == 0 || left-- == 0 ? nullptr : node_at(w);
        if (next == nullptr) break;
        if (!is_deleted(next, level(&next->next, i).load())) {
          if (compare(next, n->order, k) > 0) break;
          if (before(next, n->order, k)) from = &next->next;
        }
        stand = &next->next;
      }
    }
  }
  // The node, which is not linked at the bottom, leaves the levels above; true: it was in one.  Nobody else is there.
  bool detach(std::uint64_t offset, std::uint64_t bytes) noexcept {
    node_head* n = candidate(offset, bytes);
    if (n == nullptr) return false;
    const std::uint64_t at = memory_.offset_in_pool(n);
    const key k = Nodes::key_of(n);
    const unsigned height = height_of(n);
    if (height == 1) return false;
    bool was = false;
    std::uint64_t left = memory_.nodes_max();
    link* from = &root_.first;
    for (unsigned i = levels(); i-- > 1;) {
      link* stand = from;
      link_word w = level(stand, i).load();
      while (offset_of(w) != 0 && left-- != 0) {
        if (offset_of(w) == at && i < height) {
          link& l = level(stand, i);
          l.set((w & gone) | offset_of(level(&n->next, i).load()));
          memory_.contents(&l, sizeof l);
          was = true;
          break;
        }
        node_head* next = node_at(w);
        if (next == nullptr) return was;
        const link_word behind = level(&next->next, i).load();
        if (!is_deleted(next, behind)) {
          if (compare(next, n->order, k) > 0) break;
          if (before(next, n->order, k)) from = &next->next;
        }
        stand = &next->next;
        w = behind;
      }
    }
    return was;
  }
  template <class Visit>
  void each_linked(Visit&& visit) noexcept {
    // A damaged list may lead round in a circle.
    std::uint64_t left = memory_.nodes_max();
    const link* in = &root_.first;
    for (link_word w = in->load(); offset_of(w) != 0;) {
      const node_head* n = node_at(w);
      if (n == nullptr) return;
      if (left-- == 0) return memory_.report_damage(offset_of(w));
      visit(start_of(offset_of(w)), in);
      in = &n->next;
      w = in->load();
    }
  }
  // As those of list.hpp.
  [[nodiscard]] bool tidy_at(session& s, const node_head* n) noexcept {
    if (!is_whole<Nodes>(memory_, n)) return false;
    s.enter();
    position p;
    bool owes = false;
    const bool done = find(s, n->order, Nodes::key_of(n), p, owes);
    if (owes) memory_.fence_tidied();
    s.leave();
    return done;
  }
  template <class Visit>
  static void each_head(std::uint64_t bytes, Visit&& visit) noexcept {
    for (unsigned h = 1; h <= low_heights + 1; ++h) {
      if (head_at(h) < bytes) visit(head_at(h));
    }
  }
  static constexpr std::uint64_t start_of(std::uint64_t head) noexcept {
    return head % line != 0 ? head / line * line : head - tall_head;
  }
  // Heights of nodes of more levels than can be told from the place are drawn again.
  template <class Head>
  void link_all(std::size_t count, Head&& head, unsigned) noexcept {
    std::array<link*, skip_levels> last;
    for (unsigned i = 0; i < skip_levels; ++i) last[i] = &level(&root_.first, i);
    unsigned levels = 1;
    constexpr std::size_t ahead = 16;
    for (std::size_t i = 0; i < count; ++i) {
      if (i + ahead < count) __builtin_prefetch(origin_ + head(i + ahead), 1);
      auto* n = reinterpret_cast<node_head*>(memory_.at(head(i)));
      if (head(i) % line == 0) {
        const auto zeros = static_cast<unsigned>(std::countr_zero(mix_seed(i, head(i)) | std::uint64_t{1} << 62));
        *(reinterpret_cast<std::uint64_t*>(n) - skip_levels) =
            std::min(low_heights + 1 + zeros / rise_bits, skip_levels);
      }
      const unsigned height = height_of(n);
      levels = std::max(levels, height);
      for (unsigned j = 0; j < height; ++j) {
        last[j]->set(head(i));
        last[j] = &level(&n->next, j);
      }
    }
    for (link* l : last) l->set(0);
    levels_.store(levels, std::memory_order_relaxed);
  }
  // What is wrong with the levels while nobody is at work; nullptr: nothing.
  template <class Meet>
  [[nodiscard]] const char* check(Meet&& meet) {
    for (unsigned i = levels(); i-- > 0;) {
      const node_head* last = nullptr;
      std::uint64_t left = memory_.nodes_max();
      for (link_word w = level(&root_.first, i).load(); offset_of(w) != 0;) {
        if (left-- == 0) return "a level leads round in a circle";
        const node_head* n = node_at(w);
        if (n == nullptr) return "a link leads where no node can be";
        if (height_of(n) <= i) return "a node is linked above its height";
        if (!is_whole<Nodes>(memory_, n)) return "a node reaches out of the pool";
        w = level(&n->next, i).load();
        if (is_deleted(n, w)) continue;
        if (!has_order_of_key<Nodes>(*this, n)) return "the order of a node is not that of its key";
        if (last != nullptr && !before(last, n->order, Nodes::key_of(n))) return "nodes are out of order";
        if (!is_at_bottom(n) || (n->next.load() & gone) != 0) return "a node is above and not at the bottom";
        if (i == 0) meet(n);
        last = n;
      }
    }
    return nullptr;
  }

  [[nodiscard, NVM_INLINE]] static std::uint64_t order_of(const key& k) noexcept {
    return list<Memory, Nodes>::order_of(k);
  }
  static constexpr std::uint64_t key_of_order(std::uint64_t order) noexcept { return order; }

 private:
  static constexpr unsigned rise_bits = 2;  // one node in 4 is in the next level, too
  static constexpr std::uint64_t line = 64;
  static constexpr std::uint64_t tall_head = skip_levels * 8;  // bytes before the head of a node of 8 levels and more
  static constexpr unsigned low_heights = 7;  // heads at 8 .. 56: the height can be told from the place
  static_assert(tall_head % line == 0);

  // ---- where things are ----

  // The link of level i, of the node with this link of level 0.
  [[nodiscard, NVM_INLINE]] static link& level(link* bottom, unsigned i) noexcept { return *(bottom - i); }
  [[nodiscard, NVM_INLINE]] static const link& level(const link* bottom, unsigned i) noexcept { return *(bottom - i); }
  static constexpr std::uint64_t head_at(unsigned height) noexcept {
    return height <= low_heights ? height * std::uint64_t{8} : tall_head;
  }
  // Of a linked node; of a damaged one, a height that is safe.
  [[nodiscard, NVM_INLINE]] unsigned height_of(const node_head* n) const noexcept {
    const std::uint64_t inside = memory_.offset_in_pool(n) % line;
    if (inside != 0) [[likely]]
      return static_cast<unsigned>(inside / 8);
    const std::uint64_t height = *(reinterpret_cast<const std::uint64_t*>(n) - skip_levels);
    return static_cast<unsigned>(std::clamp<std::uint64_t>(height, low_heights + 1, skip_levels));
  }
  // nullptr: no node can be there.
  [[nodiscard, NVM_INLINE]] node_head* node_at(link_word w) const noexcept {
    const std::uint64_t offset = offset_of(w);
    const std::uint64_t links = offset % line != 0 ? offset % line : tall_head;
    return reinterpret_cast<node_head*>(memory_.at(offset, links, sizeof(typename Nodes::node)));
  }
  // On a level: that of a damaged list may lead round in a circle.  nullptr: as node_at(), or it does.
  [[nodiscard, NVM_INLINE]] node_head* node_at(link_word w, climb& up) const noexcept {
    node_head* n = node_at(w);
    if (n == nullptr || up.step(n->order, n)) [[likely]]
      return n;
    memory_.report_damage(offset_of(w));
    return nullptr;
  }
  // A damaged list may have a node in a level that it has no link for.
  [[nodiscard, NVM_INLINE]] bool is_too_high(const node_head* n, unsigned i) const noexcept {
    if (height_of(n) > i) [[likely]]
      return false;
    memory_.report_damage(memory_.offset_in_pool(n));
    return true;
  }
  // What may be a node in `bytes` at `start`; nullptr: it is none.
  [[nodiscard]] node_head* candidate(std::uint64_t start, std::uint64_t bytes) const noexcept {
    std::byte* at = memory_.at(start);
    if (at == nullptr || bytes < line) return nullptr;
    const std::uint64_t height = *reinterpret_cast<const std::uint64_t*>(at);
    if (height == 0 || height > skip_levels) return nullptr;
    const std::uint64_t head = head_at(static_cast<unsigned>(height));
    auto* n = reinterpret_cast<node_head*>(at + head);
    return bytes > head && Nodes::fits(n, bytes - head) ? n : nullptr;
  }
  // < 0, 0, > 0.  A node that reaches out of the pool is after all of its order.
  [[nodiscard, NVM_INLINE]] int compare(const node_head* n, std::uint64_t order, const key& k) const noexcept {
    if (n->order != order) return n->order < order ? -1 : 1;
    return is_whole<Nodes>(memory_, n) ? Nodes::compare(n, k) : 1;
  }
  [[nodiscard, NVM_INLINE]] bool before(const node_head* n, std::uint64_t order, const key& k) const noexcept {
    return compare(n, order, k) < 0;
  }
  // At the level of this link of it: by its mark, or by that of the bottom, which alone is durable for sure after a
  // crash.
  [[nodiscard, NVM_INLINE]] static bool is_deleted(const node_head* n, link_word at_level) noexcept {
    return ((at_level | n->next.load()) & gone) != 0;
  }
  [[nodiscard]] unsigned levels() const noexcept { return levels_.load(std::memory_order_relaxed); }
  [[nodiscard]] unsigned random_height(session& s) noexcept {
    const auto zeros = static_cast<unsigned>(std::countr_zero(s.random() | std::uint64_t{1} << 62));
    return std::min(1 + zeros / rise_bits, skip_levels);
  }
  // Searches begin there.
  void raise(unsigned height) noexcept {
    unsigned known = levels();
    // relaxed: who does not know yet finds everything at the levels below.
    while (known < height && !levels_.compare_exchange_weak(known, height, std::memory_order_relaxed)) {
    }
  }
  [[NVM_INLINE]] void prefetch(link_word w) const noexcept { __builtin_prefetch(origin_ + offset_of(w)); }

  // ---- reading ----

  template <class Visit>
  [[nodiscard, NVM_INLINE]] bool search(session& s, std::uint64_t order, const key& k, Visit&& visit) noexcept {
    link* stand = &root_.first;
    std::uint64_t stop = 0;
    for (unsigned i = levels(); i-- > 1;) {
      link_word w = level(stand, i).load();
      climb up;
      while (offset_of(w) != stop && offset_of(w) != 0) {
        node_head* n = node_at(w, up);
        if (n == nullptr) [[unlikely]]
          return false;
        const link_word next = level(&n->next, i).load();
        prefetch(next);
        if (is_deleted(n, next)) [[unlikely]] {
          w = next;
          continue;
        }
        const int c = compare(n, order, k);
        if (c > 0) {
          stop = offset_of(w);
          break;
        }
        if (c == 0) {
          // Its insertion has ended when the mark here is gone, and is durable.
          if ((w & pending) != 0) break;
          memory_.depend(s, order);
          visit(n);
          return true;
        }
        stand = &n->next;
        w = next;
      }
    }
    link* in = stand;
    link_word w = in->load();
    climb up;
    while (offset_of(w) != stop && offset_of(w) != 0) {
      node_head* n = node_at(w, up);
      if (n == nullptr) [[unlikely]]
        break;
      const link_word next = n->next.load();
      prefetch(next);
      const int c = compare(n, order, k);
      if (c == 0) {
        if ((next & gone) == 0) {
          (void)memory_.settled(s, *in, w, order);
          memory_.depend(s, order);
          visit(n);
          return true;
        }
        (void)memory_.settled(s, n->next, next, order);
      } else if (c > 0 && (next & gone) == 0) {
        break;
      }
      in = &n->next;
      w = next;
    }
    memory_.depend(s, order);
    return false;
  }
  void begin(probe& p, const node_head* n) noexcept {
    const unsigned top = levels() - 1;
    link* const root = &root_.first;
    p = {n, memory_.offset_in_pool(n), root, root, level(root, top).load(), top, memory_.nodes_max()};
    prefetch(p.w);
  }
  [[nodiscard]] bool is_at_bottom(const node_head* n) noexcept {
    probe p;
    begin(p, n);
    for (;;) {
      const progress now = step(p);
      if (now != progress::under_way) return now == progress::found;
    }
  }
  // A link of the bottom, after which everything stands that is not before something.
  template <class Before>
  [[nodiscard]] link* bottom_behind(Before&& is_before) noexcept {
    std::uint64_t left = memory_.nodes_max();  // a damaged list may lead round in a circle
    link* stand = &root_.first;
    for (unsigned i = levels(); i-- > 0;) {
      link_word w = level(stand, i).load();
      while (offset_of(w) != 0 && left-- != 0) {
        node_head* n = node_at(w);
        if (n == nullptr) break;
        const link_word next = level(&n->next, i).load();
        if (!is_deleted(n, next)) {
          if (!is_before(n)) break;
          stand = &n->next;
        }
        w = next;
      }
    }
    return stand;
  }
  template <class Before, class Visit>
  void each_behind(session& s, Before&& is_before, Visit&& visit) noexcept {
    s.enter();
    link* in = bottom_behind(is_before);
    walk(s, in, in->load(), [&](const node_head* n) { return is_before(n) || visit(n); });
    s.leave();
  }
  template <class Visit>
  void walk(session& s, link* in, link_word w, Visit&& visit) noexcept {
    climb up;
    while (offset_of(w) != 0) {
      node_head* n = node_at(w, up);
      if (n == nullptr) return;
      const link_word next = n->next.load();
      prefetch(next);
      if ((next & gone) == 0) {
        (void)memory_.settled(s, *in, w, n->order);
        memory_.depend(s, n->order);
        if (!visit(n)) return;
      } else {
        (void)memory_.settled(s, n->next, next, n->order);
      }
      in = &n->next;
      w = next;
    }
  }

  // ---- changing ----

  struct place {
    link* in;        // leads to the first node that is not less
    link_word word;  // what was read there; not gone
  };
  struct position {
    std::array<place, skip_levels> at;
    unsigned levels = 0;           // of `at`
    node_head* current = nullptr;  // where the key is
    link_word next = 0;            // its link, not gone
    // Leads to the node that holds at[0].in, if that was reached at the bottom.
    link* in = nullptr;
    link_word in_word = 0;
    std::uint64_t before_order = 0;
  };
  // Memory::settled() of a link that is not gone, on behalf of the key whose insertion has changed it last.
  [[nodiscard, NVM_INLINE]] link_word settled(session& s, const place& p) noexcept {
    if ((p.word & pending) == 0) [[likely]]
      return p.word;
    const node_head* n = node_at(p.word);
    return memory_.settled(s, *p.in, p.word, n == nullptr ? 0 : n->order);
  }
  enum class outcome : std::uint8_t { done, again, failed };

  [[nodiscard]] errc failure(const session& s) const noexcept {
    if (memory_.is_damaged()) {
      return fail(errc::corrupt, "a link leads to offset %lu, where no node can be", memory_.damaged_offset());
    }
    return s.refusal();
  }

  // Where the key is or would be, at all levels; unlinks what is deleted on the way.  False: failure() says why.
  // `owes`: it has unlinked above what it did not retire.
  [[nodiscard, NVM_INLINE]] bool find(session& s, std::uint64_t order, const key& k, position& p, bool& owes) noexcept {
    for (patience left;;) {
      const outcome o = try_find(s, order, k, p, owes);
      if (o != outcome::again) [[likely]]
        return o == outcome::done;
      if (!left.again()) {
        memory_.report_damage(memory_.offset_in_pool(&root_));
        return false;
      }
    }
  }
  [[nodiscard, NVM_INLINE]] outcome try_find(session& s, std::uint64_t order, const key& k, position& p,
                                             bool& owes) noexcept {
    link* stand = &root_.first;
    std::uint64_t stop = 0;
    p.levels = levels();
    for (unsigned i = p.levels; i-- > 1;) {
      link* in = &level(stand, i);
      link_word w = in->load();
      if ((w & gone) != 0) [[unlikely]]
        return outcome::again;
      climb up;
      while (offset_of(w) != stop && offset_of(w) != 0) {
        node_head* n = node_at(w, up);
        if (n == nullptr || is_too_high(n, i)) [[unlikely]]
          return outcome::failed;
        link& own = level(&n->next, i);
        const link_word next = own.load();
        prefetch(next);
        if (is_deleted(n, next)) [[unlikely]] {
          if ((next & gone) == 0) {
            (void)close(s, *n, height_of(n));
            up = {};
            continue;
          }
          const link_word behind = offset_of(next);
          if (!memory_.tidy(*in, memory_.settled(s, *in, w, n->order), behind)) return outcome::again;
          owes = true;
          w = behind;
          continue;
        }
        const int c = compare(n, order, k);
        if (c >= 0) {
          if (c > 0) stop = offset_of(w);
          break;
        }
        if ((w & pending) != 0) [[unlikely]]
          (void)memory_.settled(s, *in, w, n->order);
        stand = &n->next;
        in = &own;
        w = next;
      }
      p.at[i] = {in, w};
    }
    p.current = nullptr;
    p.in = nullptr;
    link* in = stand;
    link_word w = in->load();
    if ((w & gone) != 0) [[unlikely]]
      return outcome::again;
    climb up;
    while (offset_of(w) != stop && offset_of(w) != 0) {
      node_head* n = node_at(w, up);
      if (n == nullptr) [[unlikely]]
        return outcome::failed;
      const link_word next = n->next.load();
      prefetch(next);
      if ((next & gone) != 0) [[unlikely]] {
        const link_word behind = without(memory_.settled(s, n->next, next, n->order), gone);
        const link_word led = memory_.settled(s, *in, w, n->order);
        const std::uint64_t start = start_of(offset_of(w));
        if (!memory_.may_unlink(s, start)) return outcome::failed;
        if (!memory_.tidy(*in, led, behind)) return outcome::again;
        retire(s, start, n);
        w = behind;
        continue;
      }
      const int c = compare(n, order, k);
      if (c >= 0) {
        if (c == 0) {
          p.current = n;
          p.next = next;
        }
        break;
      }
      p.in = in;
      p.in_word = w;
      p.before_order = n->order;
      in = &n->next;
      w = next;
    }
    p.at[0] = {in, w};
    return outcome::done;
  }

  template <class Size, class Fill>
  [[nodiscard]] result<written> put(session& s, std::uint64_t order, const key& k, write_rule rule, Size&& size,
                                    Fill&& fill, bool& owes) noexcept {
    std::uint64_t made = 0;
    std::uint64_t made_bytes = 0;
    unsigned height = 0;
    const auto give_up = [&](auto outcome) -> result<written> {
      if (made != 0) memory_.discard(s, made);
      return outcome;
    };
    position p;
    for (;;) {
      if (!find(s, order, k, p, owes)) return give_up(failure(s));
      node_head* const old = p.current;
      link_word expected = settled(s, p.at[0]);
      memory_.depend(s, order);
      if (old != nullptr) {
        if (rule == write_rule::insert_only) return give_up(written::refused);
        // Its link may hold the insertion of the next one.
        expected = settled(s, {&old->next, p.next});
      } else {
        if (rule == write_rule::replace_only) return give_up(written::refused);
        if (p.in != nullptr) {
          (void)memory_.settled(s, *p.in, p.in_word, p.before_order);
          memory_.depend(s, p.before_order);
        }
      }
      const std::uint64_t bytes = size(old);
      if (bytes == 0) return give_up(written::refused);
      if (height == 0) height = old != nullptr ? height_of(old) : random_height(s);
      if (height > p.levels) [[unlikely]] {
        raise(height);
        continue;
      }
      if (made != 0 && bytes != made_bytes) {
        memory_.discard(s, made);
        made = 0;
      }
      if (made == 0) {
        const auto room = memory_.allocate(s, head_at(height) + bytes);
        if (!room) return room.error();
        made = *room;
        made_bytes = bytes;
      }
      if (old != nullptr) {
        if (!may_close(s, *old)) return give_up(failure(s));
        expected = close(s, *old, height_of(old));
        if ((expected & gone) != 0) continue;
      }
      std::byte* start = memory_.at(made);
      *reinterpret_cast<std::uint64_t*>(start) = height;
      std::byte* at = start + head_at(height);
      fill(at, order, old);
      auto* n = reinterpret_cast<node_head*>(at);
      n->next.set(offset_of(expected));
      for (unsigned i = 1; i < height; ++i) level(&n->next, i).set(follows(p, old, i));
      memory_.contents(start, head_at(height) + bytes);
      const deletion d = link_in(s, p, old, n, height, expected, order, k, owes);
      if (d == deletion::refused) return give_up(failure(s));
      if (d == deletion::forestalled) continue;
      if (old != nullptr) return written::replaced;
      s.count(1);
      return written::inserted;
    }
  }
  // What follows at level i after a node that takes the place p, or that of the old one there.
  [[nodiscard]] std::uint64_t follows(const position& p, node_head* old, unsigned i) const noexcept {
    const std::uint64_t led = offset_of(p.at[i].word);
    if (old == nullptr || led != memory_.offset_in_pool(old)) return led;
    return offset_of(level(&old->next, i).load());
  }
  // The deletion of `old`, or of nothing.
  [[nodiscard, NVM_INLINE]] deletion link_in(session& s, position& p, node_head* old, node_head* n, unsigned height,
                                             link_word expected, std::uint64_t order, const key& k,
                                             bool& owes) noexcept {
    const std::uint64_t to = memory_.offset_in_pool(n);
    link& bottom = old == nullptr ? *p.at[0].in : old->next;
    const link_word desired = old == nullptr ? to : to | gone;
    const std::uint64_t old_start = old == nullptr ? 0 : start_of(memory_.offset_in_pool(old));
    bool may_go = true;
    unsigned taken_over = 0;
    if (height == 1) {
      if (old == nullptr) return deleted_if(memory_.change(s, bottom, expected, desired, order));
      const deletion d = memory_.change_to_delete(s, bottom, expected, desired, order, old_start);
      if (d != deletion::done) return d;
    } else {
      // may_close() has done what change_to_delete() does first.
      if (!memory_.begin(s, bottom, expected, desired, order)) return deletion::forestalled;
      taken_over = build(s, p, bottom, desired, old, n, height, order, k, owes);
      // What was unlinked on the way has taken of the room.
      if (old != nullptr) may_go = memory_.may_unlink(s, old_start);
    }
    if (old != nullptr) unlink(s, p, old, to, may_go, taken_over, order, k, owes);
    // It was deleted while it was built, and who did so may have looked too early.
    if (height > 1 && (n->next.load() & gone) != 0) [[unlikely]]
      sweep(s, order, k, owes);
    return deletion::done;
  }
  // Links n, which has just been linked at the bottom, at the levels above, and ends its insertion.  In levels below
  // what is returned, a link that led to the old node leads to n.
  [[gnu::noinline]] unsigned build(session& s, position& p, link& bottom, link_word desired, node_head* old,
                                   node_head* n, unsigned height, std::uint64_t order, const key& k,
                                   bool& owes) noexcept {
    const std::uint64_t to = memory_.offset_in_pool(n);
    std::array<link*, skip_levels> begun;
    const auto link_at = [&](unsigned i) {
      link& own = level(&n->next, i);
      for (;;) {
        const link_word led = settled(s, p.at[i]);
        const std::uint64_t behind = follows(p, old, i);
        const link_word now = own.load();
        if ((now & gone) != 0) return false;
        if (offset_of(now) != behind && !memory_.tidy(own, now, behind)) continue;
        if (memory_.begin_above(*p.at[i].in, led, to)) {
          begun[i] = p.at[i].in;
          return true;
        }
        // The place has changed; or the node was deleted, and perhaps replaced by another.
        position q;
        if (!find(s, order, k, q, owes) || q.current != n) return false;
        p.at = q.at;
        old = nullptr;
      }
    };
    unsigned i = 1;
    unsigned taken_over = 1;
    for (; i < height && link_at(i); ++i) {
      if (old != nullptr && taken_over == i && offset_of(p.at[i].word) == memory_.offset_in_pool(old)) ++taken_over;
    }
    memory_.finish(s, order);
    memory_.unmark(bottom, desired);
    while (i-- > 1) memory_.unmark(*begun[i], to);
    return taken_over;
  }

  template <class Decide>
  [[nodiscard]] result<bool> take(session& s, std::uint64_t order, const key& k, Decide&& decide, bool& owes) noexcept {
    position p;
    for (;;) {
      if (!find(s, order, k, p, owes)) return failure(s);
      node_head* const n = p.current;
      if (n == nullptr) {
        memory_.depend(s, order);
        return false;
      }
      (void)settled(s, p.at[0]);
      memory_.depend(s, order);
      if (!decide(n)) return false;
      const std::uint64_t start = start_of(memory_.offset_in_pool(n));
      if (!may_close(s, *n)) return failure(s);
      const link_word next = close(s, *n, height_of(n));
      if ((next & gone) != 0) continue;
      // A node that is linked above is durably deleted before it leaves the bottom, or searches would stand on it there
      // after a crash.
      const bool at_once = height_of(n) > 1;
      const deletion d = memory_.change_to_delete(s, n->next, next, next | gone, order, start, at_once);
      if (d == deletion::refused) return failure(s);
      if (d == deletion::forestalled) continue;
      s.count(-1);
      unlink(s, p, n, next, true, 0, order, k, owes);
      return true;
    }
  }
  // What is closed has to go: before that it is known that it may.
  [[nodiscard, NVM_INLINE]] bool may_close(session& s, const node_head& n) noexcept {
    return height_of(&n) == 1 || memory_.will_delete(s, start_of(memory_.offset_in_pool(&n)));
  }
  // Marks the upper levels of a node, from above; a mark is durable before the one below it can be seen, so that nobody
  // ever stands at a level on a node that has left the one below.  For the lowest, the mark at the bottom stands in.
  // The link at the bottom, settled.
  [[NVM_INLINE]] link_word close(session& s, node_head& n, unsigned height) noexcept {
    for (unsigned i = height; i-- > 1;) {
      link& l = level(&n.next, i);
      for (;;) {
        link_word w = l.load();
        if ((w & gone) != 0) break;
        w = settled(s, {&l, w});
        if (height == 2 ? memory_.swing(l, w, w | gone) : memory_.tidy_behind(l, w, w | gone)) break;
      }
    }
    const link_word w = n.next.load();
    return (w & gone) != 0 ? memory_.settled(s, n.next, w, n.order) : settled(s, {&n.next, w});
  }
  // What has left the bottom.
  [[NVM_INLINE]] void retire(session& s, std::uint64_t start, const node_head* n) noexcept {
    if (height_of(n) == 1) {
      memory_.retire(s, start);
    } else {
      memory_.retire_twice(s, start);
    }
  }
  // The node at p, which we have deleted, leaves all levels; `behind` follows at the bottom.  In those below
  // `taken_over` a replacement is linked in its place.
  [[NVM_INLINE]] void unlink(session& s, const position& p, node_head* n, link_word behind, bool may_go,
                             unsigned taken_over, std::uint64_t order, const key& k, bool& owes) noexcept {
    const std::uint64_t at = memory_.offset_in_pool(n);
    const std::uint64_t start = start_of(at);
    bool all = may_go;
    const unsigned height = height_of(n);
    std::uint32_t written = 0;
    for (unsigned i = height; i-- > 1;) {
      if (i < taken_over) continue;
      // Where it was not linked, somebody may have linked it since.
      if (i < p.levels && offset_of(p.at[i].word) == at &&
          memory_.swing(*p.at[i].in, without(p.at[i].word, pending), offset_of(level(&n->next, i).load()))) {
        written |= 1U << i;
      } else {
        all = false;
      }
    }
    // Where a replacement was built, the position may be a newer one, and the node has left it.
    all = all && offset_of(p.at[0].word) == at &&
          memory_.swing(*p.at[0].in, without(p.at[0].word, pending), offset_of(behind));
    if (all) [[likely]]
      memory_.write_back(*p.at[0].in);
    for (unsigned i = height; i-- > 1;) {
      if ((written >> i & 1) != 0) memory_.write_back(*p.at[i].in);
    }
    if (all) [[likely]] {
      retire(s, start, n);
      return;
    }
    owes = true;
    sweep(s, order, k, owes);
  }
  // Unlinks what is deleted and has this key, at all levels, unless memory is short.
  [[gnu::noinline]] void sweep(session& s, std::uint64_t order, const key& k, bool& owes) noexcept {
    position p;
    owes = true;
    (void)find(s, order, k, p, owes);
  }

  Memory& memory_;
  skip_root& root_;
  const std::byte* const origin_ = memory_.origin();
  std::atomic<unsigned> levels_{1};
};

}  // namespace nvm::lockfree
