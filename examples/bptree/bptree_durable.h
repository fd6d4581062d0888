/* A B+tree in the manner of NV-Tree, in a durable pool: the durable version of bptree_volatile.h.
 *
 * Keys are 64-bit numbers, values are any bytes.  Not for several threads at a time: the program keeps a lock.
 *
 * The tree is the pool's root object.  Leaves and values are durable; inner nodes are volatile and built at open from
 * the chain of leaves.  Each change is a transaction, or a level of the one that the caller has open: if that aborts,
 * the inner nodes are built again at the next call.  A caller that aborts an inner level of its own and goes on in the
 * outer one calls bptree_reindex first. */
#ifndef EXAMPLES_BPTREE_DURABLE_H
#define EXAMPLES_BPTREE_DURABLE_H

#include <nvm/nvm.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bptree bptree;

/* Makes an empty tree the root of a pool that has none, and opens it.  NULL: see nvm_errormsg(), or memory is out. */
bptree* bptree_create(NVM_POOL* pool);
/* Opens the tree that is the root of a pool: reads the head of each leaf.  NULL also when the root is no tree. */
bptree* bptree_open(NVM_POOL* pool);
/* Forgets the volatile part; the tree stays in the pool.  No transaction may be open in the pool. */
void bptree_close(bptree* tree);
/* Builds the inner nodes again.  -1: memory is out; later calls try again. */
int bptree_reindex(bptree* tree);

/* Stores a copy of `size` bytes under a key.  1: a new key, 0: another value for a known one, -1: nothing is
 * changed, see nvm_errormsg(). */
int bptree_put(bptree* tree, uint64_t key, const void* bytes, size_t size);
/* The value of a key and its size; it stays in place until the key is put again or removed.  NULL: no such key. */
const void* bptree_get(bptree* tree, uint64_t key, size_t* size);
/* 1: removed, 0: no such key, -1: nothing is changed, see nvm_errormsg(). */
int bptree_remove(bptree* tree, uint64_t key);

/* Visits the keys in [first, last] in ascending order until `visit` returns non-zero, and returns that value.  The
 * visitor must not change the tree. */
typedef int (*bptree_visit)(uint64_t key, const void* bytes, size_t size, void* argument);
int bptree_scan(bptree* tree, uint64_t first, uint64_t last, bptree_visit visit, void* argument);

/* Counts the keys, a leaf at a time. */
uint64_t bptree_count(const bptree* tree);
/* Walks everything, and compares it with what the pool holds of our types: what nothing leads to is a fault too.  NULL,
 * or the first fault as a sentence.  No transaction may be open in the pool. */
const char* bptree_check(bptree* tree);

#ifdef __cplusplus
}
#endif
#endif
