/* Holdfast: transactions of the language, as `gcc -fgnu-tm` compiles them (C11, C++).  See docs/itm.md.
 *
 * A program with __transaction_atomic { ... } that is linked with libnvm-itm in place of GCC's libitm runs its
 * transactions on Holdfast's STM.  They are isolated from each other, and their changes in a pool are durable, all or
 * nothing.  Memory that a transaction allocates (malloc, calloc, new) comes from the pool in use; other memory is
 * isolated only.
 *
 * Such a program needs no calls but those below.  It also runs with GCC's libitm: the calls are bound when the program
 * is loaded, and without libnvm-itm nvm_itm_root() returns volatile memory.
 */
#ifndef NVM_ITM_H
#define NVM_ITM_H

#include <stddef.h>
#include <stdlib.h>

#include "nvm/nvm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Weak: NULL without libnvm-itm. */
#define NVM_ITM_CALL NVM_API __attribute__((weak))

/* Transactions that begin from now on, in all threads, allocate from this pool; NULL: volatile memory.  Without this
 * call it is the pool in the file HOLDFAST_ITM_POOL of the environment.  The first transaction, or the first of the
 * calls below, opens it, or makes it with HOLDFAST_ITM_SIZE bytes; if that fails, the process ends with a message. */
NVM_ITM_CALL void nvm_itm_use_pool(NVM_POOL *pool);
/* The pool in use; NULL: none. */
NVM_ITM_CALL NVM_POOL *nvm_itm_pool(void);
/* The root object of the pool in use.  A pool without one gets one of `size` bytes, all zero, durable on return.
 * Without a pool: zeroed volatile memory, new with each call.  NULL if the pool's root is smaller or cannot be read (a
 * message says so), or there is no room.  Not inside a transaction. */
NVM_ITM_CALL void *nvm_itm_bind_root(size_t size);

/* nvm_itm_bind_root(), or volatile memory where the program runs without libnvm-itm.  Call it once. */
static inline void *nvm_itm_root(size_t size) {
  if (nvm_itm_bind_root != NULL) return nvm_itm_bind_root(size);
  return calloc(1, size == 0 ? 1 : size);
}

#ifdef __cplusplus
}
#endif
#endif
