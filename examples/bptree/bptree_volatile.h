/* A B+tree in the manner of NV-Tree, in ordinary memory: the original of bptree_durable.h.
 *
 * Keys are 64-bit numbers, values are any bytes.  Not for several threads at a time: the program keeps a lock. */
#ifndef EXAMPLES_BPTREE_VOLATILE_H
#define EXAMPLES_BPTREE_VOLATILE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bptree bptree;

/* NULL when memory is out. */
bptree* bptree_create(void);
/* Frees the tree and everything in it. */
void bptree_destroy(bptree* tree);
static inline void bptree_close(bptree* tree) { bptree_destroy(tree); }
/* Frees the handle with the inner nodes, and leaves the rest where it is. */
void bptree_forget(bptree* tree);

/* Stores a copy of `size` bytes under a key.  1: a new key, 0: another value for a known one, -1: memory is out and
 * nothing is changed. */
int bptree_put(bptree* tree, uint64_t key, const void* bytes, size_t size);
/* The value of a key and its size; it stays in place until the key is put again or removed.  NULL: no such key. */
const void* bptree_get(bptree* tree, uint64_t key, size_t* size);
/* 1: removed, 0: no such key, -1: memory is out and nothing is changed. */
int bptree_remove(bptree* tree, uint64_t key);

/* Visits the keys in [first, last] in ascending order until `visit` returns non-zero, and returns that value.  The
 * visitor must not change the tree. */
typedef int (*bptree_visit)(uint64_t key, const void* bytes, size_t size, void* argument);
int bptree_scan(bptree* tree, uint64_t first, uint64_t last, bptree_visit visit, void* argument);

/* Counts the keys, a leaf at a time. */
uint64_t bptree_count(const bptree* tree);
/* Walks everything.  NULL, or the first fault as a sentence. */
const char* bptree_check(bptree* tree);

#ifdef __cplusplus
}
#endif
#endif
