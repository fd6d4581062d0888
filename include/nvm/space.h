/* Where a pool lies; its space that is not used, and giving that back to the file system.  C11.
 *
 *   nvm_trim_report r;
 *   if (nvm_pool_trim(pool, NULL, &r) == 0)
 *     printf("%llu bytes less on the device\n", (unsigned long long)(r.allocated_before - r.allocated_after));
 *
 * A pool grows by itself and keeps what it has: objects that are freed leave room for others.  Empty extents become
 * free pages where a store is dropped, when the pool is closed, and before it would grow.  nvm_pool_trim() does that at
 * once, and gives the blocks of free pages back: the file becomes shorter where its last pages are free, and gets
 * holes elsewhere.  Nothing moves: pages with one small object in use stay. */
#ifndef NVM_SPACE_H
#define NVM_SPACE_H

#include "nvm/nvm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The medium that NVM_MEDIUM_DETECT is for a pool created at this path, whether a file is there or not: an enum
 * nvm_medium.  For programs that choose options by it before they create a pool, such as `log_bytes`, which is all of
 * the log on ssd and a lane elsewhere.  A pool that is there has a medium of its own, also where it was copied to:
 * nvm_pool_inspect() tells that.  No name is made, and a file that is there is neither read nor locked.  Links are
 * followed.
 *
 * Without a file at the path the folder must let this process write, as for creation.
 *
 * Cost: a few system calls.  -1: NVM_E_INVALID (no path, NULL medium), NVM_E_NOT_FOUND (no such folder),
 * NVM_E_NO_SPACE (the device or the quota has no room for a new file), NVM_E_NO_MEMORY, NVM_E_SYSTEM (such as a folder
 * that does not let this process write); *medium stays. */
NVM_API int nvm_medium_for(const char *path, uint32_t *medium);

enum nvm_trim_flags {
  NVM_TRIM_INSIDE = 1 /* empty extents become free pages of the pool, and the file keeps its blocks */
};

/* Zero-initialise, then set what matters. */
typedef struct nvm_trim_options {
  uint32_t flags;        /* enum nvm_trim_flags */
  uint32_t struct_bytes; /* sizeof(nvm_trim_options), or 0: "Options" in nvm/nvm.h */
  /* Called now and then by the calling thread: bytes of the pool that were looked at, of all.  Non-zero ends the call,
   * which returns 0; what was given back until then is.  It may call nothing on the pool. */
  int (*progress)(uint64_t done, uint64_t total, void *argument);
  void *argument;
  uint64_t reserved[4]; /* zero */
} nvm_trim_options;

/* Bytes.  Where other threads work in the pool meanwhile, what they do is in the differences, too. */
typedef struct nvm_trim_report {
  uint64_t file_before; /* length of the file */
  uint64_t file_after;
  uint64_t allocated_before; /* that it takes on its device */
  uint64_t allocated_after;
  uint64_t freed;   /* of extents and clusters that were empty: free pages of the pool now */
  uint64_t punched; /* of free pages in the midst, which have no blocks any more */
  uint64_t cut;     /* of free pages at the end, which are no part of the pool any more */
  uint32_t stopped; /* 1: by progress() */
  uint32_t reserved0;
  char why[256]; /* what the file system could not do: "" if it did all; holes (EOPNOTSUPP), mostly */
} nvm_trim_report;

/* Trims a pool that is in use; NULL options: all zero; NULL report: none.  Threads may begin and commit transactions
 * meanwhile; one trim at a time, others wait.  No thread visits all objects (nvm_pool_each(), nvm_gc()).  This thread
 * has no transaction open in the pool (NVM_E_TX_OPEN).
 *
 * Durable on return, and nothing is lost by a crash meanwhile: a page loses its blocks when it is durable that it is
 * free, the file becomes shorter when it is durable that the pool is.  A crash in between leaves a file that is longer
 * than its pool, which opens, and which the next trim or growth puts right.
 *
 * Pages that have lost their blocks get new ones before they are used: an allocation on a full device is then
 * NVM_E_NO_SPACE, as a growth is.  The pool says of itself from then on that it may have holes (docs/format.md);
 * opening it looks at what is in use, tens of milliseconds a GiB.  After a cut it grows as ever, by as much as it has.
 *
 * Cost: O(pages), the header of each extent not looked at since the pool was opened, a system call for each run of free
 * pages; on ssd one or two syncs for 16 MiB of them.
 *
 * Waits until barrier transactions that are open in other threads have ended or gone on (nvm_stm_quiesce()).
 *
 * -1: NVM_E_INVALID (no such flag), NVM_E_READ_ONLY, NVM_E_TX_OPEN, NVM_E_BUSY (the pool is being relocated),
 * NVM_E_NO_MEMORY, NVM_E_IO; NVM_E_ENGINE if the pool has a second file (nvm/tier.h): then NVM_TRIM_INSIDE
 * alone is possible. */
NVM_API int nvm_pool_trim(NVM_POOL *pool, const nvm_trim_options *options, nvm_trim_report *report);

#ifdef __cplusplus
}
#endif

#endif
