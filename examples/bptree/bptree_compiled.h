/* The tree of bptree_volatile.h in a durable pool, its stores logged by the compiler; compile bptree_compiled.c with
 * holdfast-cc.  The calls are those of the volatile tree; put and remove are transactions. */
#ifndef EXAMPLES_BPTREE_COMPILED_H
#define EXAMPLES_BPTREE_COMPILED_H

#include <nvm/nvm.h>

#include "bptree_volatile.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where the tree is.  Set before any call. */
extern NVM_POOL* bptree_pool;

/* The tree of the pool, its index built from the leaves; NULL: memory is out. */
bptree* bptree_open(void);

#ifdef __cplusplus
}
#endif

/* What a program does around them: makes the tree the root of a pool that has none. */
static inline bptree* bptree_create_in(NVM_POOL* pool) {
  bptree_pool = pool;
  if (nvm_tx_begin(pool)) return NULL;
  bptree* tree = bptree_create();
  if (tree == NULL) {
    nvm_tx_abort(pool);
    return NULL;
  }
  if (nvm_tx_commit(pool) == 0) return tree;
  bptree_forget(tree);
  return NULL;
}

/* The tree that is the root of a pool; NULL also when there is none. */
static inline bptree* bptree_open_in(NVM_POOL* pool) {
  bptree_pool = pool;
  void* root = nvm_pool_get_root(pool);
  return root != NULL && nvm_type_of(pool, root) == NVM_TYPE_ID(leaf) ? bptree_open() : NULL;
}

#endif
