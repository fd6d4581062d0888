/* UnQLite's in-memory engine in a Holdfast pool: databases whose names begin with "pool:" are files of pools.
 *
 * The engine's structure is the root, its records and buckets are objects.  Each call is a transaction that is durable
 * on return; between unqlite_begin() and unqlite_commit() all calls are one, and unqlite_rollback() takes them back.  A
 * script (unqlite_vm_exec()) is one transaction.  With auto-commit disabled changes wait for unqlite_commit(). */
#ifndef UNQLITE_POOL_H
#define UNQLITE_POOL_H

#include <nvm/malloc.h>

/* Whether a database of this name is a pool. */
int unqlite_pool_named(const char* name);
/* The engine's structure in the pool, zero if it is new, in a transaction that unqlite_pool_done() ends.  NULL: it
 * cannot be opened; nvm_errormsg() has the sentence. */
void* unqlite_pool_open(const char* name, unsigned bytes);
/* Ends what is open, and the pool, if the engine is in one. */
void unqlite_pool_close(void* engine);

/* Around each call that may change something; they do nothing for an engine that is in no pool.  Busy: another thread
 * has a transaction in it. */
int unqlite_pool_call(void* engine);
int unqlite_pool_done(void* engine, int rc);
int unqlite_pool_begin(void* engine);
int unqlite_pool_commit(void* engine);
int unqlite_pool_rollback(void* engine);
int unqlite_pool_manual(void* engine);

/* Memory of the engine: it lies where the engine is. */
void* unqlite_pool_alloc(void* backend, unsigned bytes);
#define MemHashAlloc(BACKEND, N) \
  (nvm_is_durable(BACKEND) ? unqlite_pool_alloc(BACKEND, N) : SyMemBackendAlloc(BACKEND, N))
#define MemHashRealloc(BACKEND, P, N) \
  (nvm_is_durable(BACKEND) ? nvm_malloc_resize(P, N) : SyMemBackendRealloc(BACKEND, P, N))
#define MemHashFree(BACKEND, P) (nvm_is_durable(BACKEND) ? nvm_malloc_free(P) : (void)SyMemBackendFree(BACKEND, P))

#endif
