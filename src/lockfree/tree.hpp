// A lock-free external search tree (Natarajan and Mittal, "Fast Concurrent Lock-Free Binary Search Trees", PPoPP 2014;
// log-free, section 3): keys and values in the leaves, branches above them with copies of keys that show the way.
//
// Keys less than that of a branch are on its left.  An edge is a link in the branch above, or that of the root; with
// the tag `branch` it leads to a branch, without it to a leaf.
//
/// insert    F leaf, F branch over it and its neighbour; CAS edge -> branch                       (change)
/// replace   F leaf; CAS edge -> leaf                                                              (change)
/// remove    CAS edge -> leaf|gone (change): from here on the leaf is not in the tree.  Tidying up: the other edge of
///           the leaf's branch gets the tag frozen (CAS, not written back: it matters to nobody after a crash), and the
///           edge above the branch leads where that one leads (tidy)
// An edge that is gone or frozen does not change any more; a thread that finds one in the way helps to tidy up first.
// The edge above is the last on the way that is not frozen: branches between it and the leaf's are leaving, too, and
// leave with it, each with its leaf that is gone.
//
// The thread that swings the edge above retires everything that leaves with it; it has noted the areas before.
//
// A node bears a mark durably before it is unlinked: a branch an edge that is gone; a leaf its own link, which leads
// nowhere and is gone.  The fence of a deletion covers the leaf's mark, too, whichever thread fences: once an edge is
// gone and not pending, its leaf is marked.  A leaf that is replaced is marked before; if it stays, recovery looks for
// it in vain.
//
// What an operation depends on is durable before it changes or reports anything: the edge of the leaf, and the edge
// that leads to the branch of that edge, since an insertion has made these two.  Edges further up were durable before
// those below them could be made.  A deletion is durable before any thread tidies up.
//
// Swinging the edge above is written back and not waited for.  A crash may leave it as it was: then it leads through
// the branch that has left to the same place, by edges that do not change, and later changes below are in the same
// words.  A change of that edge itself writes its word.  But there is room after the edge now for keys that the branch
// kept away: so the edge bears the tag rerouted until a thread inserts after it; that thread writes it back, too, and
// takes the tag off when the insertion is durable.
//
// Where a branch lies: its right edge, the order of the key that it was made for, then the head with the left edge and
// the key.  Links lead to the head.
//
// The parts: tree_change.hpp; tree_recovery.hpp, with the check.
#pragma once

#include <algorithm>
#include <array>
#include <new>
#include <utility>
#include <vector>

#include "base/inlining.hpp"
#include "base/plant.hpp"
#include "lockfree/chain.hpp"
#include "lockfree/circles.hpp"
#include "lockfree/face_of.hpp"
#include "lockfree/list.hpp"
#include "space/space.hpp"

namespace nvm::lockfree {

inline constexpr link_word branch = cell;  // the edge leads to a branch

struct tree_root {
  std::uint64_t magic;
  std::uint64_t reserved[6];
  link top;
};
static_assert(sizeof(tree_root) == 64);
inline constexpr std::uint64_t tree_magic = 0x4545'5254'4552'464C;  // "LFRETREE" in file order

template <memory Memory, node_kind Nodes>
class tree : public sorted_face_of<tree<Memory, Nodes>, Memory, Nodes> {
 public:
  using session = typename Memory::session;
  using nodes = Nodes;
  using key = typename Nodes::key;
  using value = typename Nodes::value;

  explicit tree(Memory& memory, std::uint64_t root) noexcept
      : memory_{memory}, root_{*reinterpret_cast<tree_root*>(memory.at(root))} {}

  // For a root that nothing leads to yet; the caller makes it durable.
  static constexpr std::uint64_t root_bytes = sizeof(tree_root);
  static void make_root(std::byte* at) noexcept {
    auto* r = reinterpret_cast<tree_root*>(at);
    *r = {};
    r->magic = tree_magic;
  }
  // What is wrong with a root; nullptr: nothing.
  [[nodiscard]] static const char* root_fault(const structure_pages&, const std::byte* base, std::uint64_t root,
                                              std::uint16_t) noexcept {
    const auto* r = reinterpret_cast<const tree_root*>(base + root);
    if (r->magic != tree_magic) return "it is no root of a tree";
    return (r->top.word & frozen) != 0 ? "the edge of its root is frozen" : nullptr;
  }
  // Keys, where so many nodes and runs are allocated: there is a branch less than there are leaves.
  [[nodiscard]] static std::uint64_t count_of(std::uint64_t allocated) noexcept { return allocated / 2; }

  // ---- inside of an operation: face_of.hpp ----

  template <class Visit>
  [[nodiscard, NVM_INLINE]] bool search(session& s, std::uint64_t order, const key& k, Visit&& visit) noexcept {
    link* in = nullptr;
    link_word in_word = 0;
    link* edge = &root_.top;
    link_word w = edge->load();
    circle_watch way;
    while ((w & branch) != 0) {
      node_head* parent = node_at(w);
      if (parent == nullptr || !pass(way, parent, w)) [[unlikely]]
        return false;
      in = edge;
      in_word = w;
      edge = towards(parent, order, k);
      w = edge->load();
    }
    const node_head* leaf = offset_of(w) == 0 ? nullptr : node_at(w);
    const bool found = leaf != nullptr && compare(leaf, order, k) == 0;
    if (found) {
      if (in != nullptr) (void)settled(s, *in, in_word);
      (void)settled(s, *edge, w);
    }
    memory_.depend(s, order);
    if (!found || (w & gone) != 0) return false;
    visit(leaf);
    return true;
  }
  template <class Size, class Fill>
  [[nodiscard]] result<written> put(session& s, std::uint64_t order, const key& k, write_rule rule, Size&& size,
                                    Fill&& fill) noexcept;
  template <class Decide>
  [[nodiscard]] result<bool> take(session& s, std::uint64_t order, const key& k, Decide&& decide) noexcept;
  template <class Visit>
  void walk(session& s, Visit&& visit) noexcept {
    walk_behind(s, [](const node_head*) { return 1; }, visit);
  }
  template <class Visit>
  void walk_from(session& s, std::uint64_t order, Visit&& visit) noexcept {
    walk_behind(s, [&](const node_head* n) { return n->order < order ? -1 : 1; }, visit);
  }
  template <class Visit>
  void walk_from_key(session& s, std::uint64_t order, const key& k, Visit&& visit) noexcept {
    walk_behind(s, [&](const node_head* n) { return compare(n, order, k); }, visit);
  }
  // Unlinks the leaf as a writer to its key would.
  [[nodiscard]] bool tidy(session& s, const node_head* leaf) noexcept {
    if (!is_whole<Nodes>(memory_, leaf)) return false;
    const key k = Nodes::key_of(leaf);
    const auto nothing = [](const node_head*) { return std::uint64_t{0}; };
    return put(s, order_of(k), k, write_rule::either, nothing, [](std::byte*, std::uint64_t, const node_head*) {})
        .has_value();
  }

  // ---- recovery ----

  static constexpr bool searches_slowly = false;
  // Finds out step by step (durable.hpp) whether something leads to the leaf or branch in `bytes` at `offset`, which
  // may hold anything: each step ends where memory has to be waited for.  begin() false: nothing does.
  struct probe {
    const node_head* of = nullptr;
    const node_head* other = nullptr;  // the other thing that it may be; nullptr: none
    link_word kind = 0;                // kind of node that is looked for: a leaf or a branch
    link* by = nullptr;
    link_word w = 0;         // what was read there
    std::uint64_t left = 0;  // a damaged tree may lead round in a circle
  };
  [[nodiscard]] bool begin(probe& p, std::uint64_t offset, std::uint64_t bytes) noexcept;
  [[nodiscard]] progress step(probe& p) noexcept;
  // Whether the node there, if it was linked once, bears the mark of unlinked nodes.
  [[nodiscard]] bool bears_mark(std::uint64_t offset, std::uint64_t bytes) const noexcept;
  // A deletion that recovery finds is written back with the edge that leads to the leaf.
  [[nodiscard]] static const link* mark_of(std::uint64_t, std::uint64_t) noexcept { return nullptr; }
  // The link of a leaf that bears its mark; nullptr: a branch lies there.
  [[nodiscard]] const link* mark_of_leaf(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    const auto* leaf = reinterpret_cast<const node_head*>(memory_.at(offset));
    if (leaf == nullptr || bytes <= before_head) return nullptr;
    return offset_of(leaf->next.load()) == 0 ? &leaf->next : nullptr;
  }
  // Whether an edge leads to a leaf that has been deleted.
  [[nodiscard]] static bool is_deleted_by(const link& edge) noexcept {
    const link_word w = edge.load();
    return (w & gone) != 0 && (w & branch) == 0;
  }
  [[nodiscard]] static std::uint64_t deleted_head(std::uint64_t offset, std::uint64_t, const link* by) noexcept {
    return by != nullptr && is_deleted_by(*by) ? offset : 0;
  }
  // Calls pass(edge) for each edge on the way to where it would be, as a leaf and as a branch, that may lead past it
  // and not be durable: edges with a tag, and the last.
  template <class Pass>
  void each_link_to(std::uint64_t offset, std::uint64_t bytes, Pass&& pass) noexcept;
  // False: no volatile memory for what is still to be visited.
  template <class Visit>
  [[nodiscard]] bool each_linked(Visit&& visit) noexcept;
  // What is wrong with the tree while no thread is at work; nullptr: nothing.  May throw std::bad_alloc.
  template <class Meet>
  [[nodiscard]] const char* check(Meet&& meet);

  [[nodiscard, NVM_INLINE]] static std::uint64_t order_of(const key& k) noexcept {
    return list<Memory, Nodes>::order_of(k);
  }
  static constexpr std::uint64_t key_of_order(std::uint64_t order) noexcept { return order; }
  [[nodiscard]] Memory& memory() const noexcept { return memory_; }

 private:
  static constexpr std::uint64_t before_head = 16;

  // ---- where things are ----

  [[nodiscard, NVM_INLINE]] static link& right(node_head* n) noexcept { return *(&n->next - 2); }
  // Order of the key whose insertion has made the branch.
  [[nodiscard, NVM_INLINE]] static std::uint64_t& maker(node_head* n) noexcept {
    return *(reinterpret_cast<std::uint64_t*>(n) - 1);
  }
  [[nodiscard, NVM_INLINE]] static link& other(node_head* n, const link* edge) noexcept {
    return edge == &n->next ? right(n) : n->next;
  }
  static constexpr std::uint64_t start_of(link_word w) noexcept {
    return (w & branch) != 0 ? offset_of(w) - before_head : offset_of(w);
  }
  // nullptr: nothing can be there.
  [[nodiscard, NVM_INLINE]] node_head* node_at(link_word w) const noexcept {
    static_assert(before_head <= line_bytes);
    return reinterpret_cast<node_head*>(
        memory_.inside(offset_of(w), sizeof(typename Nodes::node), [w] { return start_of(w); }));
  }
  // < 0, 0, > 0.  A node that reaches out of the pool is after all of its order.
  [[nodiscard, NVM_INLINE]] int compare(const node_head* n, std::uint64_t order, const key& k) const noexcept {
    if (n->order != order) return n->order < order ? -1 : 1;
    return is_whole<Nodes>(memory_, n) ? Nodes::compare(n, k) : 1;
  }
  // Notes a branch on the way down.  False: the way leads round in a circle.
  [[nodiscard, NVM_INLINE]] bool pass(circle_watch& way, const node_head* n, link_word w) const noexcept {
    if (way.pass(n)) [[likely]]
      return true;
    memory_.report_damage(offset_of(w));
    return false;
  }
  // The edge of a branch below which the key is.
  [[nodiscard, NVM_INLINE]] link* towards(node_head* n, std::uint64_t order, const key& k) const noexcept {
    if constexpr (std::is_same_v<key, std::uint64_t>) {
      // No jump: half of them would be mispredicted.
      return &n->next - 2 * static_cast<std::ptrdiff_t>(order >= n->order);
    } else {
      return compare(n, order, k) > 0 ? &n->next : &right(n);
    }
  }

  // ---- reading ----

  // The edge of the first leaf that is greater than something, or equal if that counts; nullptr: there is none.
  // `against(node)`: < 0, 0, > 0.
  template <class Against>
  [[nodiscard]] link* first_behind(Against&& against, bool equal_counts, link_word& w, link*& in,
                                   link_word& in_word) noexcept {
    in = nullptr;
    node_head* turn = nullptr;  // the last branch where we went left
    link* turn_in = nullptr;
    link_word turn_word = 0;
    link* edge = &root_.top;
    w = edge->load();
    circle_watch way;
    while ((w & branch) != 0) {
      node_head* n = node_at(w);
      if (n == nullptr || !pass(way, n, w)) return nullptr;
      in = edge;
      in_word = w;
      if (against(n) > 0) {
        turn = n;
        turn_in = edge;
        turn_word = w;
        edge = &n->next;
      } else {
        edge = &right(n);
      }
      w = edge->load();
    }
    if (offset_of(w) == 0) return nullptr;
    const node_head* leaf = node_at(w);
    if (leaf == nullptr) return nullptr;
    const int c = against(leaf);
    if (c > 0 || (c == 0 && equal_counts)) return edge;
    if (turn == nullptr) return nullptr;
    in = turn_in;
    in_word = turn_word;
    edge = &right(turn);
    w = edge->load();
    way = {};
    while ((w & branch) != 0) {
      node_head* n = node_at(w);
      if (n == nullptr || !pass(way, n, w)) return nullptr;
      in = edge;
      in_word = w;
      edge = &n->next;
      w = edge->load();
    }
    return offset_of(w) == 0 || node_at(w) == nullptr ? nullptr : edge;
  }
  template <class Against, class Visit>
  void walk_behind(session& s, Against&& against, Visit&& visit) noexcept {
    link_word w = 0;
    link* in = nullptr;
    link_word in_word = 0;
    link* edge = first_behind(against, true, w, in, in_word);
    const node_head* last = nullptr;
    while (edge != nullptr) {
      const node_head* leaf = node_at(w);
      if (!is_whole<Nodes>(memory_, leaf)) break;
      const key k = Nodes::key_of(leaf);
      if (last != nullptr && compare(last, leaf->order, k) >= 0) {
        // A damaged tree may lead back.
        memory_.report_damage(offset_of(w));
        break;
      }
      last = leaf;
      if (in != nullptr) (void)settled(s, *in, in_word);
      (void)settled(s, *edge, w);
      memory_.depend(s, leaf->order);
      if ((w & gone) == 0 && !visit(leaf)) break;
      edge = first_behind([&](const node_head* n) { return compare(n, leaf->order, k); }, false, w, in, in_word);
    }
  }
  void begin(probe& p) noexcept {
    p.by = &root_.top;
    p.w = p.by->load();
    p.left = memory_.nodes_max();
    prefetch(p.w);
  }
  [[NVM_INLINE]] void prefetch(link_word w) const noexcept { __builtin_prefetch(memory_.of_pool(offset_of(w))); }
  // pass(edge): on the way.
  template <class Pass>
  [[nodiscard]] bool is_on_way(const node_head* n, link_word kind, Pass&& pass) noexcept;

  // ---- changing ----

  struct position {
    link* edge;  // leads to the leaf
    link_word word;
    node_head* leaf;    // nullptr: the tree is empty
    node_head* parent;  // branch of the edge; nullptr: it is the root's
    link* in;           // leads to the parent
    link_word in_word;
    link* above;  // the last edge to a branch that was not frozen
    link_word above_word;
    // Edges on the way, written back, not fenced; after the first few there may be more.
    struct passed {
      link* edge;
      link_word word;
    };
    std::array<passed, 4> rerouted_edges;
    unsigned rerouted_count;
  };

  [[nodiscard]] errc failure(const session& s) const noexcept {
    if (memory_.is_damaged()) {
      return fail(errc::corrupt, "an edge leads to offset %lu, where no node can be", memory_.damaged_offset());
    }
    return s.refusal();
  }

  // Finds where the key is or would be.  False: failure() says why.
  [[nodiscard, NVM_INLINE]] bool seek(std::uint64_t order, const key& k, position& p) noexcept;
  [[gnu::noinline]] void pass_rerouted(position& p) noexcept {
    memory_.write_back(*p.edge);
    if (p.rerouted_count < p.rerouted_edges.size()) p.rerouted_edges[p.rerouted_count++] = {p.edge, p.word};
  }
  // A node was inserted at p, so the way there is durable.
  [[NVM_INLINE]] void way_is_durable(const position& p) noexcept {
    for (unsigned i = 0; i < p.rerouted_count; ++i) {
      const auto& [edge, word] = p.rerouted_edges[i];
      // An edge that has changed since was made durable by the thread that changed it.
      if ((word & pending) == 0) (void)memory_.swing(*edge, word, without(word, rerouted));
    }
  }
  // Branches are not like this.
  [[nodiscard]] bool damaged_here() noexcept { return memory_.at(~std::uint64_t{0}) == nullptr; }
  // Makes the edges durable that the leaf's insertion has made, and earlier changes of the key.
  [[NVM_INLINE]] link_word settle(session& s, const position& p, std::uint64_t order) noexcept {
    if (p.parent != nullptr) {
      (void)settled(s, *p.in, p.in_word);
      memory_.depend(s, maker(p.parent));
    }
    const link_word w = settled(s, *p.edge, p.word);
    memory_.depend(s, order);
    return w;
  }
  // Memory::settled(), on behalf of the key whose insertion, replacement or deletion has changed the edge last.
  [[nodiscard, NVM_INLINE]] link_word settled(session& s, link& edge, link_word w) noexcept {
    if ((w & pending) == 0) [[likely]]
      return w;
    node_head* n = node_at(w);
    if (n == nullptr) return memory_.settled(s, edge, w, 0);
    if ((w & gone) != 0) mark(n);
    return memory_.settled(s, edge, w, (w & branch) != 0 ? maker(n) : n->order);
  }
  // Marks a leaf, durably with the next fence.
  void mark(node_head* leaf) noexcept {
    if (planted(plant::leaf_not_marked)) return;
    leaf->next.set(gone);
    memory_.write_back(leaf->next);
  }
  // Marks the leaf without a write-back: where no link is pending, recovery looks for every unlinked leaf or stores
  // survive.
  static void mark_if_not(node_head* leaf) noexcept {
    if ((leaf->next.load() & gone) == 0 && !planted(plant::leaf_not_marked)) leaf->next.set(gone);
  }

  // Makes a deletion durable, also one in the link cache: otherwise a crash could leave a frozen edge beside one that
  // is not gone, for good.
  [[nodiscard]] bool settle_deletion(session& s, link& edge, link_word w) noexcept {
    node_head* leaf = node_at(w);
    if (leaf == nullptr) return false;
    (void)settled(s, edge, w);
    mark_if_not(leaf);
    memory_.depend(s, leaf->order);
    return true;
  }

  // Room for a node that nothing leads to yet.
  struct made_node {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };
  void drop(session& s, made_node& n) noexcept {
    if (n.offset != 0) memory_.discard(s, n.offset);
    n.offset = 0;
  }
  // Makes room for so many bytes; room that is large enough stays.
  [[nodiscard]] status have_room(session& s, made_node& n, std::uint64_t bytes) noexcept {
    if (n.offset != 0 && bytes != n.bytes) drop(s, n);
    if (n.offset != 0) return {};
    const auto room = memory_.allocate(s, bytes);
    if (!room) return room.error();
    n = {*room, bytes};
    return {};
  }
  [[nodiscard, NVM_INLINE]] bool goes_on(patience& left, const position& p) const noexcept {
    if (left.again()) [[likely]]
      return true;
    memory_.report_damage(memory_.offset_in_pool(p.edge));
    return false;
  }
  // Removes the branch at p, one edge of which is gone or frozen, with its deleted leaf.  p.word becomes 0 if the
  // caller was the one to do so.  False: no memory, or damage.
  [[nodiscard, gnu::noinline]] bool tidy_up(session& s, position& p, std::uint64_t order, const key& k) noexcept;

  // Nodes that leave at a time; each two belong to a deletion under way.
  static constexpr std::size_t leaving_max = 1024;

  Memory& memory_;
  tree_root& root_;
};

}  // namespace nvm::lockfree

#include "lockfree/tree_change.hpp"    // IWYU pragma: export
#include "lockfree/tree_recovery.hpp"  // IWYU pragma: export
