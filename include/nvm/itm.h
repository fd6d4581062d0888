/* Holdfast: transactions of the language, as `gcc -fgnu-tm` compiles them (C11, C++).  See docs/itm.md.
 *
 * A program with __transaction_atomic { ... } that is linked with libnvm-itm in place of GCC's libitm runs its
 * transactions on Holdfast's STM: isolated from each other, and what they change in a pool is durable, all or nothing.
 * Memory that a transaction allocates (malloc, calloc, new) is the pool's that is in use; other memory is isolated
 * only.
 *
 * The calls below are all that such a program needs besides, and it runs with GCC's libitm, too: the calls are bound
 * when the program is loaded, and where libnvm-itm is not, nvm_itm_root() returns volatile memory.
 */
#ifndef NVM_ITM_H
#define NVM_ITM_H

#include <stddef.h>
#include <stdlib.h>

#include "nvm/nvm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Weak: NULL where libnvm-itm is not. */
#define NVM_ITM_CALL NVM_API __attribute__((weak))

/* Transactions that begin from now on, in all threads, allocate from this pool; NULL: volatile memory.  Without this
 * call it is the pool in the file that the environment's HOLDFAST_ITM_POOL names, opened, or made with
 * HOLDFAST_ITM_SIZE bytes, when the first transaction begins or one of the calls below is made; the process ends with a
 * message if it cannot be. */
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
