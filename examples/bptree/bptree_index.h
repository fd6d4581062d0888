/* Inner nodes of the B+tree: ordinary volatile memory, in the volatile tree and in the durable one alike.
 *
 * The index maps ranges of keys to leaves.  It never looks into a leaf: a leaf is a pointer, known by the lowest key
 * that may stand in it.  It can be thrown away at any time and built again from the chain of leaves. */
#ifndef EXAMPLES_BPTREE_INDEX_H
#define EXAMPLES_BPTREE_INDEX_H

#include <stdint.h>

enum {
  BPTREE_FANOUT = 32,     /* children of an inner node; half of it is the least that a node below the root has */
  BPTREE_HEIGHT_MAX = 16, /* levels of inner nodes: FANOUT / 2 to this power is 2^64 */
};

struct bptree_inner {
  unsigned children;
  uint64_t low[BPTREE_FANOUT]; /* child i leads to the keys in [low[i], low[i + 1]) */
  void* child[BPTREE_FANOUT];  /* inner nodes, or leaves in the lowest level */
};

/* An index of no leaf is all zero bytes. */
struct bptree_index {
  unsigned height; /* levels of inner nodes; 0: no leaf yet */
  struct bptree_inner* root;
  unsigned spares; /* nodes set aside, so that an insertion cannot fail in the middle */
  struct bptree_inner* spare[BPTREE_HEIGHT_MAX + 1];
};

/* Sets memory aside for one bptree_index_insert.  -1 when there is none. */
int bptree_index_reserve(struct bptree_index* index);

/* Adds a leaf; `low` is below every key in it.  The first leaf has low 0.  Needs bptree_index_reserve before. */
void bptree_index_insert(struct bptree_index* index, uint64_t low, void* leaf);

/* Removes the leaf that was added with exactly this `low`.  It must have a leaf before it in the same inner node. */
void bptree_index_remove(struct bptree_index* index, uint64_t low);

/* Leaf for a key. */
void* bptree_index_find(const struct bptree_index* index, uint64_t key);

/* The leaf before and the leaf after the one for a key, if they have the same inner node; else NULL. */
void* bptree_index_before(const struct bptree_index* index, uint64_t key);
void* bptree_index_after(const struct bptree_index* index, uint64_t key);

/* Frees the nodes; the index is empty afterwards. */
void bptree_index_clear(struct bptree_index* index);

/* First fault in the shape of the index, or NULL. */
const char* bptree_index_check(const struct bptree_index* index);

#endif
