// The parts of lock-free structures, node kinds, memories and shapes, and what is asked of each.
//
// A node kind defines what is in a node: words or bytes (nodes.hpp), with a seal or without (sealed_nodes.hpp).  A
// memory defines how links and nodes become durable: one by one (node_memory.hpp), nodes alone, with volatile links
// (sealed_memory.hpp), or not at all (volatile_memory.hpp).  A shape is the algorithm, written against these two and
// knowing none of them (list.hpp, hash_table.hpp, skip_list.hpp, tree.hpp).  The common part of shapes, and defaults
// for optional members, are in face_of.hpp.
//
// Nothing here may throw, but for check().  Bytes read from a pool are not trusted: memories tell for each offset
// whether a node can be there, shapes report what is out of order.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "base/base.hpp"
#include "lockfree/face.hpp"
#include "lockfree/link.hpp"

namespace nvm::lockfree {

struct node_head;

// ---- node kinds -----------------------------------------------------------------------------------------------------

template <class N>
concept node_kind = requires(const node_head* n, std::byte* at, std::uint64_t order, const typename N::key& k,
                             const typename N::value& v, std::uint64_t bytes) {
  // The node that a link leads to; it begins with node_head.
  requires std::derived_from<typename N::node, node_head>;
  // True: a node's own bytes say how long it is, so a damaged one may reach out of the pool.  Otherwise all are
  // sizeof(node).
  { N::of_bytes } -> std::convertible_to<bool>;
  // Nodes that were filled with a sum can be told from those that have changed since (sum_holds(), reach_with_sum()).
  { N::has_sums } -> std::convertible_to<bool>;
  // Bytes of a node with this key and value; and filling all of it but its link, at a place that no other thread can
  // see.
  { N::bytes(k, v) } noexcept -> std::same_as<std::uint64_t>;
  { N::fill(at, order, k, v) } noexcept;
  // Key of a whole node.
  { N::key_of(n) } noexcept -> std::convertible_to<typename N::key>;
  { N::value_of(n) } noexcept -> std::convertible_to<typename N::value>;
  // < 0, 0, > 0: the key of a whole node beside k, of the same order.
  { N::compare(n, k) } noexcept -> std::same_as<int>;
  // Whether a node can be in so many bytes from the head on, which may be anything.
  { N::fits(n, bytes) } noexcept -> std::same_as<bool>;
};

// Nodes that prove themselves, for sealed_memory.hpp.
template <class N>
concept sealed_node_kind = requires(const typename N::node* n, std::uint64_t word) {
  requires node_kind<N>;
  // True: the seal covers all of the node; otherwise order and sizes.
  { N::sealed_whole } -> std::convertible_to<bool>;
  // The sum in the seal of a node at this offset, in a structure with this seed.
  { N::sum_of(n, word, word) } noexcept -> std::same_as<std::uint64_t>;
};

// ---- memories -------------------------------------------------------------------------------------------------------

namespace detail {
struct start_of_node {
  std::uint64_t operator()() const noexcept { return 0; }
};
}  // namespace detail

// A thread at work in one structure; one thread at a time.
template <class S>
concept memory_session = requires(S& s, const S& seen, std::int64_t more) {
  // Around an operation; the calls nest.  A node that a link leads to inside stays a node until the operation ends.
  { s.enter() } noexcept;
  { s.leave() } noexcept;
  // Keys inserted less keys removed; `lately`: since the last note was taken.
  { s.count(more) } noexcept;
  { s.lately } -> std::convertible_to<std::int64_t>;
  // Why a node could not be unlinked or deleted, when it could not.
  { seen.refusal() } noexcept -> std::same_as<errc>;
  // For heights of nodes.
  { s.random() } noexcept -> std::same_as<std::uint64_t>;
};

template <class M>
concept memory = requires(M& m, const M& c, typename M::session& s, link& l, link_word w, std::uint64_t offset,
                          std::uint64_t bytes, std::uint64_t key, std::uint64_t* word, const void* p) {
  requires memory_session<typename M::session>;

  // ---- places
  // A place in the pool, and in no object store; the same for a node, which lies at a multiple of a line; the same with
  // so many bytes from there on, at most a line, and with those from an earlier place on.  nullptr: nothing can be
  // there, and is_damaged() from now on.
  { c.at(offset) } noexcept -> std::same_as<std::byte*>;
  { c.node_at(offset) } noexcept -> std::same_as<std::byte*>;
  { c.inside(offset, bytes, detail::start_of_node{}) } noexcept -> std::same_as<std::byte*>;
  { c.offset_in_pool(p) } noexcept -> std::same_as<std::uint64_t>;
  { c.origin() } noexcept -> std::same_as<const std::byte*>;  // offsets of nodes count from here
  // So many bytes from there on are in the pool.
  { c.holds(p, bytes) } noexcept -> std::same_as<bool>;
  // As many nodes and cells as there can be: a walk of more steps goes round in a circle.
  { c.nodes_max() } noexcept -> std::same_as<std::uint64_t>;
  { c.report_damage(offset) } noexcept;
  { c.is_damaged() } noexcept -> std::same_as<bool>;
  { c.damaged_offset() } noexcept -> std::same_as<std::uint64_t>;

  // ---- links: from `expected`, which is not pending, to `desired`, on behalf of a key.  False: it has changed since.
  // A change of the contents: durable on return, or in the link cache.
  { m.change(s, l, w, w, key) } noexcept -> std::same_as<bool>;
  // The same of several links, in this order: begin() the first, begin_above() the others, finish(), unmark() each.
  // When one of them can be seen, those before it are durable.
  { m.begin(s, l, w, w, key) } noexcept -> std::same_as<bool>;
  { m.begin_above(l, w, w) } noexcept -> std::same_as<bool>;
  { m.finish(s, key) } noexcept;
  { m.unmark(l, w) } noexcept;
  // A change that only tidies up: written back, not waited for.  In two parts: swing(), write_back().  tidy_behind():
  // it can be seen only when this thread's earlier tidying is durable.
  { m.tidy(l, w, w) } noexcept -> std::same_as<bool>;
  { m.swing(l, w, w) } noexcept -> std::same_as<bool>;
  { m.write_back(l) } noexcept;
  { m.tidy_behind(l, w, w) } noexcept -> std::same_as<bool>;
  // This thread's tidying is durable on return.
  { m.fence_tidied() } noexcept;
  // Whether tidying may be lost while a later change is kept.
  { m.may_lose_order() } noexcept -> std::same_as<bool>;
  // Makes durable what was read from the link; returns it without the mark.
  { m.settled(s, l, w, key) } noexcept -> std::same_as<link_word>;
  // Every earlier change of the key that is not pending is durable on return.
  { m.depend(s, key) } noexcept;

  // ---- words of a node besides its link
  { m.store_word(s, word, key, key) } noexcept;
  { m.exchange_word(s, word, key, key, key, true) } noexcept -> std::same_as<bool>;

  // ---- nodes
  // Room for a node; errc::no_memory, no_space, too_large.
  { m.allocate(s, bytes) } noexcept -> std::same_as<result<std::uint64_t>>;
  // Contents of a node or cell that no other thread can see yet: durable before a link leads there.
  { m.contents(p, bytes) } noexcept;
  // A node that nothing has ever led to.
  { m.discard(s, offset) } noexcept;
  // Room for an array of links, for good; it becomes known by a checked word of the structure's root.
  { m.take_array(s, bytes) } noexcept -> std::same_as<result<std::uint64_t>>;
  { m.publish_run(p, bytes, word, offset) } noexcept;
  // Asked before the node is unlinked; before nodes leave with one that is deleted next, so many in all; before the
  // next change deletes the node.  False: s.refusal() says why not.
  { m.may_unlink(s, offset) } noexcept -> std::same_as<bool>;
  { m.may_unlink(s, offset, bytes) } noexcept -> std::same_as<bool>;
  { m.may_leave(s, offset, bytes) } noexcept -> std::same_as<bool>;
  { m.will_delete(s, offset) } noexcept -> std::same_as<bool>;
  // change() of the link that deletes the node at `offset`, if it may be unlinked then; `true`: past the link cache.
  { m.change_to_delete(s, l, w, w, key, offset) } noexcept -> std::same_as<deletion>;
  { m.change_to_delete(s, l, w, w, key, offset, true) } noexcept -> std::same_as<deletion>;
  // The node was unlinked: it is freed when all threads that were inside have moved on; twice: when that has happened
  // again.
  { m.retire(s, offset) } noexcept;
  { m.retire_twice(s, offset) } noexcept;
};

// ---- shapes ---------------------------------------------------------------------------------------------------------

namespace detail {
// Arguments with which concepts can call.
struct seen_any {
  void operator()(std::uint64_t, const link* = nullptr) const noexcept {}
  void operator()(const link&) const noexcept {}
  void operator()(const node_head*) const noexcept {}
};
struct seen_node {
  bool operator()(const node_head*) const noexcept { return true; }
};
struct size_of_node {
  std::uint64_t operator()(const node_head*) const noexcept { return 0; }
};
struct fill_node {
  void operator()(std::byte*, std::uint64_t, const node_head*) const noexcept {}
};
struct head_of_node {
  std::uint64_t operator()(std::size_t) const noexcept { return 0; }
};
}  // namespace detail

// What recovery asks of linked structures in a pool (durable.hpp): of shapes, and of their twins with logs.  Places are
// those of nodes or runs, whose contents may be anything.  No thread is at work.
template <class S>
concept recoverable = requires(S& s, const S& c, typename S::probe& p, const link& by, std::uint64_t offset,
                               std::uint64_t bytes, const detail::seen_any& see) {
  typename S::nodes;
  // Looking for one node takes as long as looking at all.
  { S::searches_slowly } -> std::convertible_to<bool>;
  // Whether something leads to the node, a step at a time: each ends where memory has to be waited for.  begin() false:
  // nothing does.  `by`: the link that leads there.
  { s.begin(p, offset, bytes) } noexcept -> std::same_as<bool>;
  { s.step(p) } noexcept;
  { p.by } -> std::convertible_to<const link*>;
  // The run is part of the structure for good; its root need not be told.
  { c.has_array_at(offset) } noexcept -> std::same_as<bool>;
  // Whether the node, if it was linked once, bears the mark that nodes get durably before they are unlinked; and the
  // link that is this mark, nullptr: it is written back with another.
  { c.bears_mark(offset, bytes) } noexcept -> std::same_as<bool>;
  { c.mark_of(offset, bytes) } noexcept -> std::same_as<const link*>;
  // Head of the node, which `by` leads to, if it has been deleted, and only not yet unlinked; 0: it has not.
  { c.deleted_head(offset, bytes, &by) } noexcept -> std::same_as<std::uint64_t>;
  { c.is_deleted_by(by) } noexcept -> std::same_as<bool>;
  // Calls visit(offset, by) for each node and run that something leads to.  False: no volatile memory to do so for all.
  { s.each_linked(see) } noexcept -> std::same_as<bool>;
  // Calls pass(link) for each link that may lead past the node and not be durable.
  { s.each_link_to(offset, bytes, see) } noexcept;
  // No link makes the node part of the structure; on return no other link leads to it either.  True: some did.
  { s.detach(offset, bytes) } noexcept -> std::same_as<bool>;
  // What is wrong with links and the order of keys; nullptr: nothing.  Calls meet(node) for each that is not deleted.
  // May throw std::bad_alloc.
  { s.check(see) } -> std::same_as<const char*>;
};

template <class S>
concept shape = requires(S& s, const S& c, typename S::session& who, const typename S::key& k,
                         const typename S::value& v, const detail::seen_node& visit, const detail::size_of_node& size,
                         const detail::fill_node& fill, const node_head* n, std::uint64_t order, write_rule rule) {
  requires recoverable<S>;
  requires node_kind<typename S::nodes>;

  // ---- inside of an operation: face_of.hpp enters before and leaves after
  // Calls visit(node) where the key is; false: it is nowhere.  Both answers are durable.
  { s.search(who, order, k, visit) } noexcept -> std::same_as<bool>;
  // A new node for the key: size(old) says how many bytes it needs, 0: it is refused; fill(at, order, old) makes all of
  // it but its link.  `old`: the node that it replaces, or nullptr.  Both are called again where something has changed
  // meanwhile.  refused: the size is 0, or the rule does not allow it.  errc::no_memory, no_space, too_large, corrupt.
  { s.put(who, order, k, rule, size, fill) } noexcept -> std::same_as<result<written>>;
  // Deletes the key's node if decide(node) says so.  False: it did not, or the key is nowhere.
  { s.take(who, order, k, visit) } noexcept -> std::same_as<result<bool>>;
  // Calls visit(node) for each key until it returns false: in ascending order, or that of hashes.  The same from the
  // first that is not ordered before `order`.
  { s.walk(who, visit) } noexcept;
  { s.walk_from(who, order, visit) } noexcept;
  // Unlinks the node, which is deleted and linked.  False: damage, or no memory.
  { s.tidy(who, n) } noexcept -> std::same_as<bool>;

  // ---- facts
  // Keys are in the structure in the order of this word, and where it is the same in that of Nodes::compare().
  { c.order_of(k) } noexcept -> std::same_as<std::uint64_t>;
  // Keys, where so many nodes and runs are allocated.
  { c.count_of(order) } noexcept -> std::same_as<std::uint64_t>;
  // Bytes of the root's run.  make_root(), root_fault(): see lists, and hash tables for one with an array besides.
  { S::root_bytes } -> std::convertible_to<std::uint64_t>;
  // Called after each change of the number of keys; and the number when it was opened.
  { s.counted(who) } noexcept;
  { s.set_count(std::int64_t{}) } noexcept;

  // ---- members from face_of.hpp
  { s.look_up(who, k, visit) } noexcept -> std::same_as<bool>;
  { s.write(who, k, v, rule) } noexcept -> std::same_as<result<written>>;
  { s.write_with(who, k, rule, size, fill) } noexcept -> std::same_as<result<written>>;
  { s.remove(who, k) } noexcept -> std::same_as<result<bool>>;
  { s.remove_if(who, k, visit) } noexcept -> std::same_as<result<bool>>;
  { s.each(who, visit) } noexcept;
  { s.each_from(who, order, visit) } noexcept;
  { s.tidy_at(who, n) } noexcept -> std::same_as<bool>;
};

// A shape whose links may be volatile: all of them are made anew from its nodes (rebuilt.hpp).
template <class S>
concept rebuildable = requires(S& s, const detail::seen_any& visit, const detail::head_of_node& head,
                               std::uint64_t bytes, std::size_t count, unsigned parts) {
  requires shape<S>;
  // Where the head of a node of so many bytes may be, from its beginning; and the other way round.
  { S::each_head(bytes, visit) };
  { S::start_of(bytes) } noexcept -> std::same_as<std::uint64_t>;
  // Links so many nodes, in the order of their keys, in an empty structure that no thread uses, by several threads.
  // head(i): offset of node i.
  { s.link_all(count, head, parts) } noexcept;
};

}  // namespace nvm::lockfree
