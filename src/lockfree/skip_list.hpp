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
// So a crash finds in each level a proper list of nodes that are in all levels below, except nodes that were being
// deleted or built.  A node may then have left the bottom before the upper levels: recovery takes it out of those
// (detach()) before it frees nodes that are not linked at the bottom.
//
// The thread that unlinks a node at the bottom retires it, once.  It may be linked above at that moment:
//   - by the operation that deletes it and has not yet unlinked it above: it does so before it ends;
//   - by the one that inserted it and is still building: when it is done and finds the node gone, it unlinks it again.
// Both are inside while the generation waits (domain.hpp).  A thread may come in meanwhile and find the node above, so
// the node waits for two generations: when the first has passed, no thread that comes in can find it any more.  A
// thread that unlinks above a node which another thread retires fences before its operation ends (E23); E9 covers the
// thread that retires.
//
// What an operation depends on is durable before it changes or reports anything: as in chain.hpp at the bottom; a link
// that is followed above is made durable before a node is put after it.  A node that is reached from above is durably
// linked at the bottom, for each level was begun when those below it were durable.
//
// A search for reading never stands on a node that is deleted at that level: links of such nodes do not change any
// more, and nodes that were inserted since would be missed.
//
// Where a node lies: `height` (8 bytes), its links from the highest down to level 1, then the head with the link of
// level 0 and the order.  Links lead to the head; so level i is found at the same place whatever the height is, and key
// and links are in one line for all but one node in 16 384.
//
// The parts: skip_list_search.hpp, skip_list_levels.hpp (changes), skip_list_recovery.hpp (with the check).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <type_traits>

#include "base/inlining.hpp"
#include "lockfree/chain.hpp"
#include "lockfree/circles.hpp"
#include "lockfree/face_of.hpp"
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

template <memory Memory, node_kind Nodes>
class skip_list : public sorted_face_of<skip_list<Memory, Nodes>, Memory, Nodes>,
                  public marked_in_itself<skip_list<Memory, Nodes>> {
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

  // ---- inside of an operation: face_of.hpp ----

  template <class Visit>
  [[nodiscard, NVM_INLINE]] bool search(session& s, std::uint64_t order, const key& k, Visit&& visit) noexcept;
  template <class Size, class Fill>
  [[nodiscard]] result<written> put(session& s, std::uint64_t order, const key& k, write_rule rule, Size&& size,
                                    Fill&& fill) noexcept {
    bool owes = false;
    auto w = put_owing(s, order, k, rule, size, fill, owes);
    if (owes) memory_.fence_tidied();
    return w;
  }
  template <class Decide>
  [[nodiscard]] result<bool> take(session& s, std::uint64_t order, const key& k, Decide&& decide) noexcept {
    bool owes = false;
    auto r = take_owing(s, order, k, decide, owes);
    if (owes) memory_.fence_tidied();
    return r;
  }
  template <class Visit>
  void walk(session& s, Visit&& visit) noexcept {
    walk(s, &root_.first, root_.first.load(), visit);
  }
  template <class Visit>
  void walk_from(session& s, std::uint64_t order, Visit&& visit) noexcept {
    walk_behind(s, [&](const node_head* n) { return n->order < order; }, visit);
  }
  template <class Visit>
  void walk_from_key(session& s, std::uint64_t order, const key& k, Visit&& visit) noexcept {
    walk_behind(s, [&](const node_head* n) { return before(n, order, k); }, visit);
  }
  [[nodiscard]] bool tidy(session& s, const node_head* n) noexcept {
    if (!is_whole<Nodes>(memory_, n)) return false;
    position p;
    bool owes = false;
    const bool done = find(s, n->order, Nodes::key_of(n), p, owes);
    if (owes) memory_.fence_tidied();
    return done;
  }

  // ---- recovery ----

  static constexpr bool searches_slowly = false;
  // Finds out step by step (durable.hpp) whether the node in `bytes` at `offset`, which may hold anything, is linked at
  // the bottom: each step ends where memory has to be waited for.  begin() false: it is not.
  struct probe {
    const node_head* of = nullptr;
    std::uint64_t at = 0;
    link* stand = nullptr;  // link of level 0 of the last node before
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
  [[nodiscard]] progress step(probe& p) noexcept;
  [[nodiscard]] const link* mark_of(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    const node_head* n = candidate(offset, bytes);
    return n == nullptr ? nullptr : &n->next;
  }
  // Calls pass(link) for each link that a search for the node follows, at every level where it may have been linked,
  // and for the links after these as long as nodes are deleted.
  template <class Pass>
  void each_link_to(std::uint64_t offset, std::uint64_t bytes, Pass&& pass) noexcept;
  // Takes the node, which is not linked at the bottom, out of the levels above; true: it was in one.  No other thread
  // is there.
  bool detach(std::uint64_t offset, std::uint64_t bytes) noexcept;
  template <class Visit>
  [[nodiscard]] bool each_linked(Visit&& visit) noexcept;
  // As those of list.hpp.
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
  void link_all(std::size_t count, Head&& head, unsigned) noexcept;
  // What is wrong with the levels while no thread is at work; nullptr: nothing.
  template <class Meet>
  [[nodiscard]] const char* check(Meet&& meet);

  [[nodiscard, NVM_INLINE]] static std::uint64_t order_of(const key& k) noexcept {
    return list<Memory, Nodes>::order_of(k);
  }
  static constexpr std::uint64_t key_of_order(std::uint64_t order) noexcept { return order; }
  [[nodiscard]] Memory& memory() const noexcept { return memory_; }

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
  // Height of a linked node; for a damaged one a height that is safe.
  [[nodiscard, NVM_INLINE]] unsigned height_of(const node_head* n) const noexcept {
    const std::uint64_t inside = memory_.offset_in_pool(n) % line;
    if (inside != 0) [[likely]]
      return static_cast<unsigned>(inside / 8);
    const std::uint64_t height = *(reinterpret_cast<const std::uint64_t*>(n) - skip_levels);
    return static_cast<unsigned>(std::clamp<std::uint64_t>(height, low_heights + 1, skip_levels));
  }
  // nullptr: no node can be there.
  [[nodiscard, NVM_INLINE]] node_head* node_at(link_word w) const noexcept {
    return reinterpret_cast<node_head*>(
        memory_.inside(offset_of(w), sizeof(typename Nodes::node), [w] { return start_of(offset_of(w)); }));
  }
  // The same on a level, which in a damaged list may lead round in a circle; then nullptr, too.
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
  // Head of what may be a node in `bytes` at `start`; nullptr: it is none.
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
  // Whether the node is deleted at the level of this link: by the link's mark, or by the bottom's, which alone is
  // durable for sure after a crash.
  [[nodiscard, NVM_INLINE]] static bool is_deleted(const node_head* n, link_word at_level) noexcept {
    return ((at_level | n->next.load()) & gone) != 0;
  }
  [[nodiscard]] unsigned levels() const noexcept { return levels_.load(std::memory_order_relaxed); }
  [[nodiscard]] unsigned random_height(session& s) noexcept {
    const auto zeros = static_cast<unsigned>(std::countr_zero(s.random() | std::uint64_t{1} << 62));
    return std::min(1 + zeros / rise_bits, skip_levels);
  }
  // Makes searches begin there.
  void raise(unsigned height) noexcept {
    unsigned known = levels();
    // relaxed: a thread that does not know yet finds everything at the levels below.
    while (known < height && !levels_.compare_exchange_weak(known, height, std::memory_order_relaxed)) {
    }
  }
  [[NVM_INLINE]] void prefetch(link_word w) const noexcept { __builtin_prefetch(origin_ + offset_of(w)); }

  // ---- reading ----

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
  // The link of the bottom that leads to the first node for which is_before is false.
  template <class Before>
  [[nodiscard]] link* bottom_behind(Before&& is_before) noexcept;
  template <class Before, class Visit>
  void walk_behind(session& s, Before&& is_before, Visit&& visit) noexcept {
    link* in = bottom_behind(is_before);
    walk(s, in, in->load(), [&](const node_head* n) { return is_before(n) || visit(n); });
  }
  template <class Visit>
  void walk(session& s, link* in, link_word w, Visit&& visit) noexcept;

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

  // Finds where the key is or would be, at all levels; unlinks deleted nodes on the way.  False: failure() says why.
  // `owes`: it has unlinked above a node that it did not retire.
  [[nodiscard, NVM_INLINE]] bool find(session& s, std::uint64_t order, const key& k, position& p, bool& owes) noexcept;
  [[nodiscard, NVM_INLINE]] outcome try_find(session& s, std::uint64_t order, const key& k, position& p,
                                             bool& owes) noexcept;
  [[nodiscard, NVM_INLINE]] outcome find_above(session& s, std::uint64_t order, const key& k, unsigned i, link*& stand,
                                               std::uint64_t& stop, position& p, bool& owes) noexcept;
  [[nodiscard, NVM_INLINE]] outcome find_at_bottom(session& s, std::uint64_t order, const key& k, link* stand,
                                                   std::uint64_t stop, position& p) noexcept;

  template <class Size, class Fill>
  [[nodiscard]] result<written> put_owing(session& s, std::uint64_t order, const key& k, write_rule rule, Size&& size,
                                          Fill&& fill, bool& owes) noexcept;
  // The node that follows at level i after one that takes the place p, or that of the old one there.
  [[nodiscard]] std::uint64_t follows(const position& p, node_head* old, unsigned i) const noexcept {
    const std::uint64_t led = offset_of(p.at[i].word);
    if (old == nullptr || led != memory_.offset_in_pool(old)) return led;
    return offset_of(level(&old->next, i).load());
  }
  // Links n in, in the place of `old` if there is one; the result says whether that was done.
  [[nodiscard, NVM_INLINE]] deletion link_in(session& s, position& p, node_head* old, node_head* n, unsigned height,
                                             link_word expected, std::uint64_t order, const key& k,
                                             bool& owes) noexcept;
  // Links n, which has just been linked at the bottom, at the levels above, and ends its insertion.  In levels below
  // what is returned, a link that led to the old node leads to n.
  [[gnu::noinline]] unsigned build(session& s, position& p, link& bottom, link_word desired, node_head* old,
                                   node_head* n, unsigned height, std::uint64_t order, const key& k,
                                   bool& owes) noexcept;

  template <class Decide>
  [[nodiscard]] result<bool> take_owing(session& s, std::uint64_t order, const key& k, Decide&& decide,
                                        bool& owes) noexcept;
  // Whether the node may be deleted; asked before its upper levels are closed, since after that it has to go.
  [[nodiscard, NVM_INLINE]] bool may_close(session& s, const node_head& n) noexcept {
    return height_of(&n) == 1 || memory_.will_delete(s, start_of(memory_.offset_in_pool(&n)));
  }
  // Marks the upper levels of a node, from above; a mark is durable before the one below it can be seen, so that no
  // thread ever stands at a level on a node that has left the one below.  For the lowest, the mark at the bottom stands
  // in.  Returns the link of the bottom, settled.
  [[NVM_INLINE]] link_word close(session& s, node_head& n, unsigned height) noexcept;
  // Retires a node that was unlinked at the bottom.
  [[NVM_INLINE]] void retire(session& s, std::uint64_t start, const node_head* n) noexcept {
    if (height_of(n) == 1) {
      memory_.retire(s, start);
    } else {
      memory_.retire_twice(s, start);
    }
  }
  // Unlinks the node at p, which we have deleted, from all levels, given its link at the bottom.  In levels below
  // `taken_over` a replacement is linked in its place.
  [[NVM_INLINE]] void unlink(session& s, const position& p, node_head* n, link_word behind, bool may_go,
                             unsigned taken_over, std::uint64_t order, const key& k, bool& owes) noexcept;
  // Unlinks deleted nodes with this key, at all levels, unless memory is short.
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

#include "lockfree/skip_list_levels.hpp"    // IWYU pragma: export
#include "lockfree/skip_list_recovery.hpp"  // IWYU pragma: export
#include "lockfree/skip_list_search.hpp"    // IWYU pragma: export
