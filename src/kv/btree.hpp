// A B+tree over keys of any length, in the order of their bytes.
//
// A leaf is four lines: thirteen slots of {head, record} filled in any order and one word that says the order, so that
// an insertion changes two lines and a removal one.  A search reads four lines of each inner node: heads, 28 of them,
// are enough unless a key and a separator agree in all that follows the prefix which the node's keys have in common.
// That prefix follows from the separators around a node (its fences) and is never compared: every key that a search
// brings here has it.
//
/// Invariants, which an inspection looks at (inspect.hpp).  A node with fences [low, high):
///   prefix <= number of first bytes that low and high have in common; 0 where there is no such fence
///   so two neighbours with prefixes p and q can be one node of prefix min(p, q)
///   leaves are at level 0 and linked in order; every child is one level below its parent
#pragma once

#include "kv/btree_change.hpp"
#include "kv/btree_walk.hpp"
