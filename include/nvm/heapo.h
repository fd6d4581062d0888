/* HEAPO's interface as its paper has it (Hwang et al., section II-A), over object stores (nvm/store.h).  Public C
 * interface (C11, weak symbols).
 *
 * The paper names heapo_create(), heapo_map() and heapo_malloc(); unmapping, deletion, free, realloc and the prime
 * object, from which a program finds all others, are here by analogy.  A store is named in each call.  HEAPO's heap is
 * the whole machine's; here it is a pool, which the program names first:
 *
 *   heapo_use(nvm_pool_open("state.nvm"));
 *   if (heapo_map("robot") != 0) heapo_create("robot"), heapo_map("robot");
 *   struct joint *j = heapo_malloc("robot", sizeof *j);
 *
 * Where the paper is silent: a call that changes something is part of the thread's transaction in the pool if there is
 * one, and otherwise a transaction by itself, durable when it returns.  Stores to objects are the program's to announce
 * (nvm_tx_log(), holdfast-cc).  Calls return 0 or -1, or a pointer or NULL, with nvm_errno(). */
#ifndef NVM_HEAPO_H
#define NVM_HEAPO_H

#include "nvm/store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Defined once in the program, in whichever of its files includes the header. */
__attribute__((weak)) NVM_POOL *heapo_pool;

static inline void heapo_use(NVM_POOL *pool) { heapo_pool = pool; }

/* ---- stores ---- */

static inline int heapo_create(const char *name) { return nvm_store_create(heapo_pool, name, NULL); }
static inline int heapo_delete(const char *name) { return nvm_store_delete(heapo_pool, name); }
/* A store that is mapped already stays so, and is unmapped by one call. */
static inline int heapo_map(const char *name) {
  if (nvm_store_find(heapo_pool, name) != NULL) return 0;
  return nvm_store_attach(heapo_pool, name, 0) != NULL ? 0 : -1;
}
/* The mapped store; NULL, with a failure, where none of that name is mapped. */
static inline nvm_store *heapo_mapped(const char *name) {
  nvm_store *const s = nvm_store_find(heapo_pool, name);
  if (s == NULL) nvm_fail(NVM_E_NOT_FOUND, "no store of this name is mapped (heapo_map)");
  return s;
}
static inline int heapo_unmap(const char *name) {
  nvm_store *const s = heapo_mapped(name);
  return s == NULL ? -1 : nvm_store_detach(s);
}

/* ---- objects ---- */

/* Begins a transaction if the thread has none in the pool: 1; 0: it has one; -1. */
static inline int heapo_begin(void) {
  if (nvm_tx_depth(heapo_pool) != 0) return 0;
  return nvm_tx_begin(heapo_pool) == 0 ? 1 : -1;
}
/* Ends the transaction if heapo_begin() began it; `good`: the call has succeeded. */
static inline int heapo_end(int begun, int good) {
  if (begun == 0) return good ? 0 : -1;
  if (good) return nvm_tx_commit(heapo_pool);
  (void)nvm_tx_abort(heapo_pool);
  return -1;
}

static inline void *heapo_malloc(const char *name, size_t size) {
  nvm_store *const s = heapo_mapped(name);
  const int begun = s == NULL ? -1 : heapo_begin();
  void *const made = begun < 0 ? NULL : nvm_store_alloc(s, 0, size);
  return begun >= 0 && heapo_end(begun, made != NULL) == 0 ? made : NULL;
}
static inline int heapo_free(const char *name, void *object) {
  nvm_store *const s = heapo_mapped(name);
  int begun;
  if (s == NULL) return -1;
  if (object != NULL && nvm_store_of(object) != s) return nvm_fail(NVM_E_BAD_POINTER, "the object is of another store");
  begun = heapo_begin();
  return begun < 0 ? -1 : heapo_end(begun, nvm_free(heapo_pool, object) == 0);
}
/* The object stays where it is if its new size fits there; else its bytes move within the store. */
static inline void *heapo_realloc(const char *name, void *object, size_t size) {
  nvm_store *const s = heapo_mapped(name);
  int begun;
  void *made;
  if (s == NULL) return NULL;
  if (object == NULL) return heapo_malloc(name, size);
  if (nvm_store_of(object) != s) {
    nvm_fail(NVM_E_BAD_POINTER, "the object is of another store");
    return NULL;
  }
  begun = heapo_begin();
  made = begun < 0 ? NULL : nvm_realloc(heapo_pool, object, nvm_type_of(heapo_pool, object), size);
  return begun >= 0 && heapo_end(begun, made != NULL) == 0 ? made : NULL;
}

/* ---- the prime object ---- */

static inline int heapo_set_prime_object(const char *name, void *object) {
  nvm_store *const s = heapo_mapped(name);
  return s == NULL ? -1 : nvm_store_set_root(s, object);
}
/* NULL: there is none. */
static inline void *heapo_get_prime_object(const char *name) {
  nvm_store *const s = heapo_mapped(name);
  return s == NULL ? NULL : nvm_store_get_root(s);
}

#ifdef __cplusplus
}
#endif

#endif
