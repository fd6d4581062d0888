/* Lewat's interface as its paper prints it (Huang et al., section III-A, Table II), over regions (nvm/region.h).
 * Public C interface (C11, GCC and Clang: `##__VA_ARGS__`, weak symbols).
 *
 * First the program names the set that the calls are about:
 *
 *   lewat_use(nvm_regions_open(pool, "regions", NULL));
 *
 * Addresses.  The address that p_malloc() and p_attach() return stands for the first byte of a region; adding to it
 * gives the addresses of the bytes after it.  It is good for p_write() alone: regions move, so loads and stores through
 * it fault at once.
 *
 * Where the paper is silent: p_truncate() cuts to `len` bytes; p_write() outside of a transaction is one by itself, and
 * fails loudly, for which the paper has no way: inside a transaction by the result of its end, otherwise by abort();
 * stx_start(), p_malloc() and p_free() inside of mtx_start() take the region into that transaction, which stx_end() and
 * stx_abort() then do not end; a transaction that stx_start() has begun before goes on beside it.  mtx_start() names no
 * regions: a stx_start() that would wait for ever returns -1 (NVM_E_BUSY), and the program aborts and begins again.
 * Calls return 0 or -1 with nvm_errno().
 */
#ifndef NVM_LEWAT_H
#define NVM_LEWAT_H

#include <stdio.h>
#include <stdlib.h>

#include "nvm/region.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Defined once in the program, in whichever of its files includes the header. */
__attribute__((weak)) nvm_regions *lewat_set;
__attribute__((weak)) __thread nvm_region_group *lewat_group;     /* between mtx_start() and its end */
__attribute__((weak)) __thread unsigned long long lewat_group_id; /* number of that transaction; 0: none */
__attribute__((weak)) __thread unsigned long long lewat_groups;   /* transactions of several regions that the thread has
                                                                   * begun */
__attribute__((weak)) __thread unsigned lewat_open;               /* transactions of one region that are open */
__attribute__((weak)) __thread int lewat_failed;                  /* a p_write() of the transaction has failed */
__attribute__((weak)) __thread int lewat_group_failed;            /* a call of the one of several regions has failed */

typedef uint64_t lewat_rid;
typedef unsigned long long lewat_tid; /* 0: none */

/* How stx_start() is to log, by the paper's names: enum nvm_region_mode; adaptively where the flag is left out.  LOFU
 * is no flag: bytes to which nothing leads yet are always stored where they belong. */
enum lewat_flag {
  LEWAT_ADAPTIVE = NVM_REGION_ADAPTIVE,
  LEWAT_REWBL = NVM_REGION_REPLICA,
  LEWAT_COUL = NVM_REGION_COPY,
  LEWAT_CERL = NVM_REGION_CHECKED,
  LEWAT_REDO = NVM_REGION_MARKED
};
#define LEWAT_FIRST_BYTE ((char *)(uintptr_t)0x4C00000000000000u) /* an address that no process can have */

static inline void lewat_use(nvm_regions *set) { lewat_set = set; }

/* ---- metadata access ---- */

static inline void *p_malloc(lewat_rid rid, size_t size) {
  const int made =
      lewat_group != NULL ? nvm_region_group_create(lewat_group, rid, size) : nvm_region_create(lewat_set, rid, size);
  return made == 0 ? LEWAT_FIRST_BYTE : NULL;
}
/* Inside of mtx_start() part of that transaction, or of the one that stx_start() has begun for the region before. */
static inline void p_free(lewat_rid rid) {
  if (lewat_group == NULL) {
    (void)nvm_region_drop(lewat_set, rid);
    return;
  }
  if (nvm_region_group_drop(lewat_group, rid) == 0) return;
  if (nvm_region_group_join(lewat_group, rid, NVM_REGION_ADAPTIVE) == 0) {
    if (nvm_region_group_drop(lewat_group, rid) == 0) return;
  } else if (nvm_errno() == NVM_E_TX_OPEN && nvm_region_drop(lewat_set, rid) == 0) {
    return;
  }
  lewat_group_failed = 1;
}
static inline void *p_attach(lewat_rid rid) {
  uint64_t size = 0;
  return nvm_region_size(lewat_set, rid, &size) == 0 ? LEWAT_FIRST_BYTE : NULL;
}

/* ---- data access ---- */

/* All bytes of the region, for which the buffer has room; NULL: there is no such region. */
static inline void *p_get(lewat_rid rid, void *rbuffer) {
  uint64_t size = 0;
  if (nvm_region_size(lewat_set, rid, &size) != 0) return NULL;
  return nvm_region_read(lewat_set, rid, 0, rbuffer, (size_t)size) < 0 ? NULL : rbuffer;
}
static inline void p_write(lewat_rid rid, const void *wbuffer, void *addr, size_t len) {
  const uint64_t offset = (uint64_t)((char *)addr - LEWAT_FIRST_BYTE);
  if (nvm_region_write(lewat_set, rid, offset, wbuffer, len) == 0) return;
  if (lewat_group == NULL && lewat_open == 0) {
    fprintf(stderr, "p_write: %s\n", nvm_errormsg());
    abort();
  }
  if (lewat_open != 0) lewat_failed = 1;
  if (lewat_group != NULL) lewat_group_failed = 1;
}
static inline int p_append(lewat_rid rid, const void *wbuffer, size_t len) {
  return nvm_region_append(lewat_set, rid, wbuffer, len, NULL);
}
static inline int p_truncate(lewat_rid rid, size_t len) { return nvm_region_truncate(lewat_set, rid, len); }

/* ---- transactions ---- */

static inline int lewat_stx_start(lewat_rid rid, unsigned mode) {
  if (lewat_group != NULL) return nvm_region_group_join(lewat_group, rid, mode);
  if (nvm_region_begin(lewat_set, rid, mode) != 0) return -1;
  if (lewat_open++ == 0) lewat_failed = 0;
  return 0;
}
#define LEWAT_MODE(ignored, mode, ...) (mode)
#define stx_start(rid, ...) lewat_stx_start((rid), LEWAT_MODE(0, ##__VA_ARGS__, NVM_REGION_ADAPTIVE))

/* Of a region that mtx_start()'s transaction has: nothing, that transaction goes on. */
static inline int stx_end(lewat_rid rid) {
  if (lewat_group != NULL && lewat_open == 0) return 0;
  const int done = lewat_failed != 0 ? nvm_region_abort(lewat_set, rid) : nvm_region_commit(lewat_set, rid);
  if (lewat_group != NULL && done != 0 && nvm_errno() == NVM_E_INVALID) return 0; /* not begun by itself */
  if (lewat_open != 0) --lewat_open;
  return lewat_failed != 0 ? -1 : done;
}
static inline void stx_abort(lewat_rid rid) {
  if (lewat_group != NULL && lewat_open == 0) return;
  const int done = nvm_region_abort(lewat_set, rid);
  if (lewat_group != NULL && done != 0 && nvm_errno() == NVM_E_INVALID) return;
  if (lewat_open != 0) --lewat_open;
}

static inline lewat_tid mtx_start(void) {
  if (lewat_group != NULL) return 0;
  lewat_group = nvm_region_group_begin(lewat_set, NULL, 0);
  if (lewat_group == NULL) return 0;
  lewat_group_failed = 0;
  return lewat_group_id = ++lewat_groups;
}
static inline int lewat_mtx_over(lewat_tid tid, int commits) {
  nvm_region_group *const group = lewat_group;
  if (group == NULL || tid == 0 || tid != lewat_group_id) return -1;
  lewat_group = NULL;
  lewat_group_id = 0;
  return commits ? nvm_region_group_commit(group) : nvm_region_group_abort(group);
}
static inline int mtx_end(lewat_tid tid) {
  if (lewat_group_failed == 0) return lewat_mtx_over(tid, 1);
  (void)lewat_mtx_over(tid, 0);
  return -1;
}
static inline void mtx_abort(lewat_tid tid) { (void)lewat_mtx_over(tid, 0); }

#ifdef __cplusplus
}
#endif

#endif
