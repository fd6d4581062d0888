// A lock-free external search tree (Natarajan and Mittal, "Fast Concurrent Lock-Free Binary Search Trees", PPoPP 2014;
// log-free, section 3): keys and values in the leaves, branches above them with copies of keys that show the way.
//
// Left of a branch is what is less than its key.  An edge is a link in the branch above, or that of the root; with the
// tag `branch` it leads to a branch, without it to a leaf.
//
/// insert    F leaf, F branch over it and its neighbour; CAS edge -> branch                       (change)
/// replace   F leaf; CAS edge -> leaf                                                              (change)
/// remove    CAS edge -> leaf|gone (change): from here on the leaf is not in the tree.  Tidying up: the other edge of
///           the leaf's branch gets the tag frozen (CAS, not written back: it matters to nobody after a crash), and the
///           edge above the branch leads where that one leads (tidy)
// An edge that is gone or frozen does not change any more; whoever finds one in the way helps to tidy up first.  The
// edge above is the last on the way that is not frozen: branches between it and the leaf's are leaving, too, and leave
// with it, each with its leaf that is gone.
//
// Who swings the edge above retires all that leaves with it; it has told the areas before.
//
// What is unlinked bears a mark, durably before: a branch an edge that is gone, a leaf its own link, which leads
// nowhere and is gone.  The fence of a deletion covers the leaf's mark, too, whoever fences: once an edge is gone and
// not pending, its leaf is marked.  A leaf that is replaced is marked before; if it stays, recovery looks for it in
// vain.
//
// What an operation depends on is durable before it changes or reports anything: the edge of the leaf, and the edge
// that leads to the branch of that edge, for the two are what an insertion has made.  Edges further up were durable
// before those below them could be made.  A deletion is durable before anybody tidies up.
//
// Swinging the edge above is written back and not waited for.  A crash may leave it as it was: it leads through the
// branch that has left to where it leads now, by edges that do not change, and whatever happens after happens in the
// same words.  What happens at that edge itself takes its word along.  But after the edge there is room now for keys
// that the branch kept away: so the edge bears the tag rerouted, until somebody has inserted after it, who writes it
// back, too, and takes the tag off when the insertion is durable.
//
// Where a branch lies: its right edge, the order of the key that it was made for, then the head with the left edge and
// the key.  Links lead to the head.
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

template <class Memory, class Nodes>
class tree {
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
    auto w = put(s, order_of(k), k, rule, size, fill);
    s.leave();
    return w;
  }
  [[nodiscard]] result<bool> remove(session& s, const key& k) noexcept {
    return remove_if(s, k, [](const node_head*) { return true; });
  }
  template <class Decide>
  [[nodiscard]] result<bool> remove_if(session& s, const key& k, Decide&& decide) noexcept {
    s.enter();
    auto r = take(s, order_of(k), k, decide);
    s.leave();
    return r;
  }
  // In ascending order of the keys, until visit(node) returns false; what it sees is durable.
  template <class Visit>
  void each(session& s, Visit&& visit) noexcept {
    each_behind(s, [](const node_head*) { return 1; }, visit);
  }
  // The same from the smallest key on that is not less than k; from the first key that is not ordered before `order`.
  template <class Visit>
  void each_from_key(session& s, const key& k, Visit&& visit) noexcept {
    const std::uint64_t order = order_of(k);
    each_behind(s, [&](const node_head* n) { return compare(n, order, k); }, visit);
  }
  template <class Visit>
  void each_from(session& s, std::uint64_t order, Visit&& visit) noexcept {
    each_behind(s, [&](const node_head* n) { return n->order < order ? -1 : 1; }, visit);
  }

  // ---- recovery ----

  static constexpr bool searches_slowly = false;
  // Whether something leads to the leaf or branch in `bytes` at `offset`, which may hold anything, step by step
  // (durable.hpp): each ends where memory has to be waited for.  begin(): false: nothing does.
  struct probe {
    const node_head* of = nullptr;
    const node_head* other = nullptr;  // what it may be besides; nullptr: nothing
    link_word kind = 0;                // of what is looked for: a leaf or a branch
    link* by = nullptr;
    link_word w = 0;         // what was read there
    std::uint64_t left = 0;  // a damaged tree may lead round in a circle
  };
  [[nodiscard]] bool begin(probe& p, std::uint64_t offset, std::uint64_t bytes) noexcept {
    const std::byte* at = memory_.at(offset);
    if (at == nullptr || bytes <= before_head) return false;
    const auto* leaf = reinterpret_cast<const node_head*>(at);
    const auto* over = reinterpret_cast<const node_head*>(at + before_head);
    p = {};
    if (Nodes::fits(leaf, bytes)) p.of = leaf;
    if (Nodes::fits(over, bytes - before_head)) p.other = over;
    // A leaf's own link leads nowhere.  Whatever it says, it is not believed.
    if (p.of == nullptr || (p.other != nullptr && offset_of(leaf->next.load()) != 0)) {
      std::swap(p.of, p.other);
      p.kind = branch;
    }
    begin(p);
    return p.of != nullptr;
  }
  [[nodiscard]] progress step(probe& p) noexcept {
    if (offset_of(p.w) == memory_.offset_in_pool(p.of) && (p.w & branch) == p.kind) return progress::found;
    node_head* over = (p.w & branch) == 0 || p.left == 0 ? nullptr : node_at(p.w);
    if (over != nullptr) {
      --p.left;
      p.by = towards(over, p.of->order, Nodes::key_of(p.of));
      p.w = p.by->load();
      prefetch(p.w);
      return progress::under_way;
    }
    if (p.other == nullptr) return progress::absent;
    p.of = std::exchange(p.other, nullptr);
    p.kind ^= branch;
    begin(p);
    return progress::under_way;
  }
  // Whether what lies there, if it was linked once, bears the mark of what is unlinked.
  [[nodiscard]] bool bears_mark(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    const auto* leaf = reinterpret_cast<const node_head*>(memory_.at(offset));
    if (leaf == nullptr || bytes <= before_head) return false;
    // Here a leaf has its own link, which leads nowhere, and a branch its right edge.
    const link_word first = leaf->next.load();
    if (offset_of(first) == 0) return (first & gone) != 0;
    const auto* over = reinterpret_cast<const node_head*>(reinterpret_cast<const std::byte*>(leaf) + before_head);
    return ((first | over->next.load()) & gone) != 0;
  }
  // Unlinks the leaf, which is deleted and linked, as whoever writes to its key does.  False: damage, or no memory.
  [[nodiscard]] bool tidy_at(session& s, const node_head* leaf) noexcept {
    if (!is_whole<Nodes>(memory_, leaf)) return false;
    const auto nothing = [](const node_head*) { return std::uint64_t{0}; };
    return write_with(s, Nodes::key_of(leaf), write_rule::either, nothing,
                      [](std::byte*, std::uint64_t, const node_head*) {})
        .has_value();
  }
  // Of an edge that leads to a node: whether that is a leaf that has been deleted.
  [[nodiscard]] static bool is_deleted_by(const link& edge) noexcept {
    const link_word w = edge.load();
    return (w & gone) != 0 && (w & branch) == 0;
  }
  // Calls pass(edge) for each edge on the way to where it would be, as a leaf and as a branch, that may lead past it
  // and not be durable: those are marked, or the last.
  template <class Pass>
  void each_link_to(std::uint64_t offset, std::uint64_t bytes, Pass&& pass) noexcept {
    const std::byte* at = memory_.at(offset);
    if (at == nullptr || bytes <= before_head) return;
    const auto* leaf = reinterpret_cast<const node_head*>(at);
    const auto* over = reinterpret_cast<const node_head*>(at + before_head);
    const auto pass_some = [&](const link& edge) {
      const link_word w = edge.load();
      if ((w & branch) == 0 || (w & (rerouted | pending)) != 0) pass(edge);
    };
    if (Nodes::fits(leaf, bytes)) (void)is_on_way(leaf, 0, pass_some);
    if (Nodes::fits(over, bytes - before_head)) (void)is_on_way(over, branch, pass_some);
  }
  // False: no volatile memory for what is still to be visited.
  template <class Visit>
  [[nodiscard]] bool each_linked(Visit&& visit) noexcept try {
    std::vector<const link*> ahead{&root_.top};
    // A damaged tree may lead round in a circle.
    for (std::uint64_t left = memory_.nodes_max(); !ahead.empty() && left != 0; --left) {
      const link* edge = ahead.back();
      const link_word w = edge->load();
      ahead.pop_back();
      if (offset_of(w) == 0) continue;
      if (node_at(w) == nullptr) return true;
      visit(start_of(w), edge);
      if ((w & branch) == 0) continue;
      node_head* n = node_at(w);
      if (n == nullptr) return true;
      ahead.push_back(&right(n));
      ahead.push_back(&n->next);
    }
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
  // What is wrong with the tree while nobody is at work; nullptr: nothing.  May throw std::bad_alloc.
  template <class Meet>
  [[nodiscard]] const char* check(Meet&& meet) {
    struct step {
      link_word word;
      const node_head* low;   // keys are not less
      const node_head* high;  // keys are less
    };
    std::vector<step> ahead;
    std::uint64_t left = memory_.nodes_max();
    if (offset_of(root_.top.load()) != 0) ahead.push_back({root_.top.load(), nullptr, nullptr});
    while (!ahead.empty()) {
      if (left-- == 0) return "edges lead round in a circle";
      const step at = ahead.back();
      ahead.pop_back();
      if (offset_of(at.word) == 0) return "a branch has an edge that leads nowhere";
      node_head* n = node_at(at.word);
      if (n == nullptr) return "an edge leads where no node can be";
      if (!is_whole<Nodes>(memory_, n)) return "a node reaches out of the pool";
      if (!has_order_of_key<Nodes>(*this, n)) return "the order of a node is not that of its key";
      const key k = Nodes::key_of(n);
      if (at.low != nullptr && compare(at.low, n->order, k) > 0) return "a key is less than the branch allows";
      if (at.high != nullptr && compare(at.high, n->order, k) <= 0) return "a key is greater than the branch allows";
      if ((at.word & branch) == 0) {
        if ((at.word & gone) == 0) meet(n);
        continue;
      }
      if ((at.word & gone) != 0) return "an edge to a branch is gone";
      ahead.push_back({right(n).load(), n, at.high});
      ahead.push_back({n->next.load(), at.low, n});
    }
    return nullptr;
  }

  [[nodiscard, NVM_INLINE]] static std::uint64_t order_of(const key& k) noexcept {
    return list<Memory, Nodes>::order_of(k);
  }
  static constexpr std::uint64_t key_of_order(std::uint64_t order) noexcept { return order; }

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
    return reinterpret_cast<node_head*>(
        memory_.at(offset_of(w), (w & branch) != 0 ? before_head : 0, sizeof(typename Nodes::node)));
  }
  // < 0, 0, > 0.  A node that reaches out of the pool is after all of its order.
  [[nodiscard, NVM_INLINE]] int compare(const node_head* n, std::uint64_t order, const key& k) const noexcept {
    if (n->order != order) return n->order < order ? -1 : 1;
    return is_whole<Nodes>(memory_, n) ? Nodes::compare(n, k) : 1;
  }
  // Of branches on a way down.  False: the way leads round in a circle.
  [[nodiscard, NVM_INLINE]] bool pass(circle_watch& way, const node_head* n, link_word w) const noexcept {
    if (way.pass(n)) [[likely]]
      return true;
    memory_.report_damage(offset_of(w));
    return false;
  }
  // The edge of a branch after which the key is.
  [[nodiscard, NVM_INLINE]] link* towards(node_head* n, std::uint64_t order, const key& k) const noexcept {
    if constexpr (std::is_same_v<key, std::uint64_t>) {
      // No jump: half of them would be mispredicted.
      return &n->next - 2 * static_cast<std::ptrdiff_t>(order >= n->order);
    } else {
      return compare(n, order, k) > 0 ? &n->next : &right(n);
    }
  }

  // ---- reading ----

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
  void each_behind(session& s, Against&& against, Visit&& visit) noexcept {
    s.enter();
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
    s.leave();
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
  [[nodiscard]] bool is_on_way(const node_head* n, link_word kind, Pass&& pass) noexcept {
    const std::uint64_t at = memory_.offset_in_pool(n);
    const key k = Nodes::key_of(n);
    link* edge = &root_.top;
    for (std::uint64_t left = memory_.nodes_max(); left != 0; --left) {
      pass(*edge);
      const link_word w = edge->load();
      if (offset_of(w) == at && (w & branch) == kind) return true;
      if ((w & branch) == 0) return false;
      node_head* over = node_at(w);
      if (over == nullptr) return false;
      edge = towards(over, n->order, k);
    }
    return false;
  }

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
    // On the way, written back, not fenced; after the first few there may be more.
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

  // Where the key is or would be.  False: failure() says why.
  [[nodiscard, NVM_INLINE]] bool seek(std::uint64_t order, const key& k, position& p) noexcept {
    p.parent = nullptr;
    p.in = nullptr;
    p.in_word = 0;
    p.above = p.edge = &root_.top;
    p.above_word = p.word = root_.top.load();
    p.rerouted_count = 0;
    circle_watch way;
    while ((p.word & branch) != 0) {
      node_head* n = node_at(p.word);
      if (n == nullptr || !pass(way, n, p.word)) [[unlikely]]
        return false;
      if ((p.word & rerouted) != 0) [[unlikely]]
        pass_rerouted(p);
      if ((p.word & frozen) == 0) [[likely]] {
        p.above = p.edge;
        p.above_word = p.word;
      }
      p.parent = n;
      p.in = p.edge;
      p.in_word = p.word;
      p.edge = towards(n, order, k);
      p.word = p.edge->load();
    }
    p.leaf = nullptr;
    if (offset_of(p.word) == 0) return p.parent == nullptr || !damaged_here();
    p.leaf = node_at(p.word);
    return p.leaf != nullptr;
  }
  [[gnu::noinline]] void pass_rerouted(position& p) noexcept {
    memory_.write_back(*p.edge);
    if (p.rerouted_count < p.rerouted_edges.size()) p.rerouted_edges[p.rerouted_count++] = {p.edge, p.word};
  }
  // Something was inserted at p, and so the way there is durable.
  [[NVM_INLINE]] void way_is_durable(const position& p) noexcept {
    for (unsigned i = 0; i < p.rerouted_count; ++i) {
      const auto& [edge, word] = p.rerouted_edges[i];
      // If it has changed since, whoever changed it has seen to it.
      if ((word & pending) == 0) (void)memory_.swing(*edge, word, without(word, rerouted));
    }
  }
  // Branches are not like this.
  [[nodiscard]] bool damaged_here() noexcept { return memory_.at(~std::uint64_t{0}) == nullptr; }
  // The edges that an insertion of the leaf has made are durable, and what was done to the key.
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
  // Of a leaf: durable with the next fence.
  void mark(node_head* leaf) noexcept {
    if (planted(plant::leaf_not_marked)) return;
    leaf->next.set(gone);
    memory_.write_back(leaf->next);
  }
  // The same where no link is pending: there what is unlinked is looked for whatever its mark, or stores survive.
  static void mark_if_not(node_head* leaf) noexcept {
    if ((leaf->next.load() & gone) == 0 && !planted(plant::leaf_not_marked)) leaf->next.set(gone);
  }

  // A deletion is durable on return, also if the link cache has it: a frozen edge beside one that is not gone, which a
  // crash could leave otherwise, would stay so.
  [[nodiscard]] bool settle_deletion(session& s, link& edge, link_word w) noexcept {
    node_head* leaf = node_at(w);
    if (leaf == nullptr) return false;
    (void)settled(s, edge, w);
    mark_if_not(leaf);
    memory_.depend(s, leaf->order);
    return true;
  }

  template <class Size, class Fill>
  [[nodiscard]] result<written> put(session& s, std::uint64_t order, const key& k, write_rule rule, Size&& size,
                                    Fill&& fill) noexcept {
    // Not linked yet.
    struct {
      std::uint64_t leaf = 0, leaf_bytes = 0, over = 0, over_bytes = 0;
    } made;
    const auto drop_over = [&] {
      if (made.over != 0) memory_.discard(s, made.over);
      made.over = 0;
    };
    const auto drop_leaf = [&] {
      if (made.leaf != 0) memory_.discard(s, made.leaf);
      made.leaf = 0;
    };
    const auto give_up = [&](auto outcome) -> result<written> {
      drop_over();
      drop_leaf();
      return outcome;
    };
    position p;
    for (patience left;;) {
      if (!seek(order, k, p)) return give_up(failure(s));
      const bool is_there = p.leaf != nullptr && (p.word & gone) == 0 && compare(p.leaf, order, k) == 0;
      node_head* const old = is_there ? p.leaf : nullptr;
      const link_word expected = settle(s, p, order);
      if (rule == (is_there ? write_rule::insert_only : write_rule::replace_only)) return give_up(written::refused);
      if ((expected & (gone | frozen)) != 0) [[unlikely]] {
        if (!tidy_up(s, p, order, k) || !goes_on(left, p)) return give_up(failure(s));
        continue;
      }
      const std::uint64_t bytes = size(old);
      if (bytes == 0) return give_up(written::refused);
      if (made.leaf != 0 && bytes != made.leaf_bytes) drop_leaf();
      if (made.leaf == 0) {
        const auto room = memory_.allocate(s, bytes);
        if (!room) return give_up(room.error());
        made.leaf = *room;
        made.leaf_bytes = bytes;
      }
      std::byte* at = memory_.at(made.leaf);
      auto* leaf = reinterpret_cast<node_head*>(at);
      fill(at, order, old);
      leaf->next.set(0);
      memory_.contents(at, bytes);
      if (old != nullptr) {
        if (!memory_.may_unlink(s, offset_of(expected))) return give_up(failure(s));
        mark(old);
        if (!memory_.change(s, *p.edge, expected, made.leaf, order)) continue;
        memory_.retire(s, offset_of(expected));
        drop_over();
        return written::replaced;
      }
      if (p.leaf == nullptr) {
        if (!memory_.change(s, *p.edge, expected, made.leaf, order)) continue;
        drop_over();
        s.count(1);
        return written::inserted;
      }
      if (!is_whole<Nodes>(memory_, p.leaf)) return give_up(failure(s));
      // The greater of the two shows the way.
      const bool is_left = compare(p.leaf, order, k) > 0;
      const key shown = is_left ? Nodes::key_of(p.leaf) : k;
      const std::uint64_t over_bytes = before_head + Nodes::bytes(shown, value{});
      if (made.over != 0 && over_bytes != made.over_bytes) drop_over();
      if (made.over == 0) {
        const auto room = memory_.allocate(s, over_bytes);
        if (!room) return give_up(room.error());
        made.over = *room;
        made.over_bytes = over_bytes;
      }
      std::byte* over_at = memory_.at(made.over);
      auto* over = reinterpret_cast<node_head*>(over_at + before_head);
      Nodes::fill(over_at + before_head, is_left ? p.leaf->order : order, shown, value{});
      maker(over) = order;
      over->next.set(is_left ? made.leaf : offset_of(expected));
      right(over).set(is_left ? offset_of(expected) : made.leaf);
      memory_.contents(over_at, over_bytes);
      if (!memory_.change(s, *p.edge, expected, (made.over + before_head) | branch, order)) continue;
      way_is_durable(p);
      s.count(1);
      return written::inserted;
    }
  }

  template <class Decide>
  [[nodiscard]] result<bool> take(session& s, std::uint64_t order, const key& k, Decide&& decide) noexcept {
    position p;
    for (patience left;;) {
      if (!seek(order, k, p)) return failure(s);
      if (p.leaf == nullptr || compare(p.leaf, order, k) != 0) {
        memory_.depend(s, order);
        return false;
      }
      const link_word w = settle(s, p, order);
      if ((w & gone) != 0) return false;
      if (!decide(p.leaf)) return false;
      if ((w & frozen) != 0) {
        if (!tidy_up(s, p, order, k) || !goes_on(left, p)) return failure(s);
        continue;
      }
      // With the leaf its branch leaves.
      if (p.parent != nullptr && !memory_.may_leave(s, start_of(p.in_word), 2)) return failure(s);
      const deletion d =
          memory_.change_to_delete(s, *p.edge, w, w | gone, order, offset_of(w), false, [&] { mark(p.leaf); });
      if (d == deletion::refused) return failure(s);
      if (d == deletion::forestalled) continue;
      s.count(-1);
      p.word = w | gone;
      // It is not in the tree any more.
      const std::uint64_t leaf = offset_of(w);
      while (goes_on(left, p) && tidy_up(s, p, order, k)) {
        if (p.word == 0 || !seek(order, k, p) || offset_of(p.word) != leaf) break;
      }
      return true;
    }
  }

  [[nodiscard, NVM_INLINE]] bool goes_on(patience& left, const position& p) const noexcept {
    if (left.again()) [[likely]]
      return true;
    memory_.report_damage(memory_.offset_in_pool(p.edge));
    return false;
  }
  // At p an edge is gone or frozen: the branch leaves, and with it the leaf that is gone.  p.word becomes 0 if this was
  // done, and by us.  False: no memory.
  [[nodiscard, gnu::noinline]] bool tidy_up(session& s, position& p, std::uint64_t order, const key& k) noexcept {
    if (p.parent == nullptr) {
      // The only leaf.
      const link_word w = settled(s, *p.edge, p.word);
      if ((w & gone) == 0) return true;  // all has changed
      node_head* leaf = node_at(w);
      if (leaf == nullptr) return false;
      mark_if_not(leaf);
      if (!memory_.may_unlink(s, offset_of(w))) return false;
      if (!memory_.tidy(*p.edge, w, 0)) return true;
      memory_.retire(s, offset_of(w));
      p.word = 0;
      return true;
    }
    link* dead = p.edge;
    link_word dead_word = dead->load();
    if ((dead_word & gone) == 0) {
      dead = &other(p.parent, dead);
      dead_word = dead->load();
      // An edge is frozen when the other one is gone, and both stay so.
      if ((dead_word & gone) == 0) return !damaged_here();
    }
    if (!settle_deletion(s, *dead, dead_word)) return false;
    link* keep = &other(p.parent, dead);
    link_word kept = keep->load();
    while ((kept & frozen) == 0) {
      const link_word w = settled(s, *keep, kept);
      if (memory_.swing(*keep, w, w | frozen)) {
        kept = w | frozen;
        break;
      }
      kept = keep->load();
    }
    // What leaves: from the branch that the edge above leads to down to the parent, and a leaf of each.
    std::array<std::uint64_t, leaving_max> leaving;
    std::size_t count = 0;
    for (link_word w = p.above_word;;) {
      node_head* n = node_at(w);
      if (n == nullptr || count == leaving_max) return false;
      leaving[count++] = start_of(w);
      if (n == p.parent) {
        leaving[count++] = offset_of(dead_word);
        break;
      }
      link* next = towards(n, order, k);
      link& side = other(n, next);
      const link_word side_word = side.load();
      w = next->load();
      if ((side_word & gone) == 0 || (w & frozen) == 0 || (w & branch) == 0) return !damaged_here();
      if (!settle_deletion(s, side, side_word)) return false;
      leaving[count++] = offset_of(side_word);
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (!memory_.may_unlink(s, leaving[i], count)) return false;
    }
    const link_word above = settled(s, *p.above, p.above_word);
    const link_word past = without(kept, frozen | pending | rerouted);
    // The neighbour may have been deleted, too. Then what the edge above says of it has to be durable before its branch
    // leaves in turn, for that is the branch's mark.
    const link_word tag = (past & gone) != 0 ? pending : (past & branch) != 0 ? rerouted : 0;
    if (!memory_.tidy(*p.above, above, memory_.may_lose_order() ? past | tag : past)) return true;
    for (std::size_t i = 0; i < count; ++i) memory_.retire(s, leaving[i]);
    p.word = 0;
    return true;
  }

  // At a time; for each two there is a deletion under way.
  static constexpr std::size_t leaving_max = 1024;

  Memory& memory_;
  tree_root& root_;
};

}  // namespace nvm::lockfree
