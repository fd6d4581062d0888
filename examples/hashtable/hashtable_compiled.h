/* The table of hashtable_volatile.h in a durable pool, its stores logged by the compiler; compile hashtable_compiled.c
 * with holdfast-cc.  The calls are those of the volatile table; put and remove are transactions. */
#ifndef EXAMPLES_HASHTABLE_COMPILED_H
#define EXAMPLES_HASHTABLE_COMPILED_H

#include <nvm/nvm.h>

#include "hashtable_volatile.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where the table is.  Set before any call. */
extern NVM_POOL* hashtable_pool;

#ifdef __cplusplus
}
#endif

/* What a program does around them: makes the table the root of a pool that has none. */
static inline hashtable* hashtable_create_in(NVM_POOL* pool) {
  hashtable_pool = pool;
  if (nvm_tx_begin(pool)) return NULL;
  hashtable* table = hashtable_create();
  if (table != NULL && nvm_pool_set_root(pool, table) == 0) return nvm_tx_commit(pool) == 0 ? table : NULL;
  nvm_tx_abort(pool);
  return NULL;
}

/* The table that is the root of a pool; NULL also when there is none. */
static inline hashtable* hashtable_open_in(NVM_POOL* pool) {
  hashtable_pool = pool;
  hashtable* root = (hashtable*)nvm_pool_get_root(pool);
  return root != NULL && nvm_type_of(pool, root) == NVM_TYPE_ID(hashtable) ? root : NULL;
}

#endif
