/* Allocation in the program's own store, by address: what `holdfast advise --rewrite` writes into sources.
 *
 * NVM_PLACED_START at the beginning of main() attaches the store of this program, which is named by the program's path
 * (HEAPO, section II-C), or makes it.  nvm_placed_malloc() and its kin allocate there, each in a transaction of its
 * own, or in the one that the thread has open; what they return is freed and resized by its address, like any other
 * pointer.
 *
 * The store is a pool at /dev/shm/holdfast-UID/ with the program's path for a name.  HOLDFAST_PLACED in the environment
 * names another file, on whatever medium; HOLDFAST_PLACED=off leaves everything in ordinary memory.  A second process
 * of the program at the same time is refused, as pools do.  Objects that an earlier run has left are removed at the
 * start while the pool has no root, since no program could find them.  Once the program sets one
 * (nvm_pool_set_root(nvm_placed_pool(), ...)), it keeps its objects, and finds them by it.
 *
 * Outside of transactions the compiler logs nothing: a crash leaves objects as they were at that moment.  Where several
 * changes belong together, `NVM_ATOMIC(nvm_placed_pool());` makes a block one transaction (nvm/nvm.h).  The objects are
 * bytes to the pool: pointers in them are not followed, and the pool is never moved to other addresses.
 *
 * This header needs nothing else and may be included before anything.  A program that is linked without holdfast-cc
 * links libnvm_rt and libholdfast.
 */
#ifndef NVM_PLACED_H
#define NVM_PLACED_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Attaches or makes the store; later calls do nothing.  Returns 1, or 0 where HOLDFAST_PLACED is off.  If the store
 * cannot be had, the process ends with a message that says why, and code 1. */
int nvm_placed_start(void);
/* A declaration, so that it may stand where declarations do. */
#define NVM_PLACED_START int nvm_placed_started_ __attribute__((__unused__)) = nvm_placed_start()

struct nvm_pool;
/* The store's pool; NULL: not started, or off. */
struct nvm_pool *nvm_placed_pool(void);

/* As the functions of the C library with these names.  NULL with ENOMEM: there is no room in the store. */
void *nvm_placed_malloc(size_t size);
void *nvm_placed_calloc(size_t count, size_t size);
char *nvm_placed_strdup(const char *text);
char *nvm_placed_strndup(const char *text, size_t most);
void *nvm_placed_aligned(size_t alignment, size_t size);
/* As realloc(); a NULL pointer gives a new object, which is durable. */
void *nvm_placed_grow(void *object, size_t size);

/* By address: durable memory stays durable, other memory stays ordinary.  A NULL pointer gives ordinary memory. */
void *nvm_placed_realloc(void *object, size_t size);
void *nvm_placed_reallocarray(void *object, size_t count, size_t size);
void nvm_placed_free(void *object);
size_t nvm_placed_size(void *object);

/* NVM_PLACED(xmalloc(n)) calls xmalloc(n); the calls below that xmalloc() makes allocate in the store; outside of
 * NVM_PLACED they are the C library's.  So a wrapper that several callers share gives durable memory to some of
 * them. */
#define NVM_PLACED(...) (nvm_placed_enter(), (__typeof__(__VA_ARGS__))nvm_placed_leave((void *)(__VA_ARGS__)))
void nvm_placed_enter(void);
void *nvm_placed_leave(void *object);
void *nvm_placed_malloc_here(size_t size);
void *nvm_placed_calloc_here(size_t count, size_t size);
char *nvm_placed_strdup_here(const char *text);
char *nvm_placed_strndup_here(const char *text, size_t most);
void *nvm_placed_aligned_here(size_t alignment, size_t size);
void *nvm_placed_grow_here(void *object, size_t size);

#ifdef __cplusplus
}
#endif

#endif
