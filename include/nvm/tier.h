/* Pools that are larger than their memory: cold pages of a pool on shared memory (medium shm) lie in a second
 * file, and come back when they are touched; those of a pool on ssd come back from its own file.
 *
 *   nvm_tier_options t = {.path = "/var/lib/x.tier", .fast_bytes = 1 << 30};
 *   nvm_pool_options o = {.size = 16ULL << 30, .tier = &t};
 *   NVM_POOL *pool = nvm_pool_create_with("/dev/shm/x.nvm", &o);
 *
 * Nothing else changes: pointers, transactions and what survives a kill are as without a tier.  From then on the pool
 * is those two files; it names the second one, so that nvm_pool_open() finds it, and cannot be opened without it.  A
 * pool without a second file gets one by nvm_pool_open_with().  docs/tier.md says what it costs.
 *
 * On ssd an open pool keeps all pages in memory that were stored to, unless the program bounds them:
 *
 *   nvm_tier_options t = {.fast_bytes = 1 << 30};     no path; fast_bytes 0: a quarter of the memory there is
 *   nvm_pool_options o = {.size = 16ULL << 30, .medium = NVM_MEDIUM_SSD, .tier = &t};
 *
 * Pages leave whose bytes the file has: after a checkpoint, while no transaction has them changed.  Where all pages are
 * younger than that, a thread that touches another page waits up to 20 ms, and then the limit is exceeded.  Nothing of
 * this is kept in the file: each open names the bound anew.  What is durable, and when, is as without a bound.
 *
 * Needs userfaultfd with write protection of files in memory (Linux 5.19) and the right that system calls wait for
 * pages, too.  Where this cannot be had, a pool that is to get a second file works without one, and
 * nvm_tier_get_statistics() says why; a pool that has a second file is refused, unless all its pages are in fast
 * memory.
 *
 * No other program may map the pool's own file: a load from a hole of it makes a page of zeros there, and that page
 * counts: what the second file has of it is lost.  Reading by system calls is harmless.
 *
 * Memory that devices write to behind the processor's back (O_DIRECT, registered buffers of io_uring) is pinned
 * meanwhile: nvm_tier_pin(). */
#ifndef NVM_TIER_H
#define NVM_TIER_H

#include <nvm/nvm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Which page leaves next (docs/tier.md). */
enum nvm_tier_policy {
  NVM_TIER_POLICY_DETECT = 0, /* as the pool says; in a new pool NVM_TIER_STEADY */
  NVM_TIER_STEADY = 1,        /* a page on trial first; clean and unreferenced ones before others */
  NVM_TIER_UFLRU = 2,         /* HEAPO's: unreferenced first, clean first */
  NVM_TIER_LRU = 3,
  NVM_TIER_CFLRU = 4, /* clean first among those used longest ago */
  NVM_TIER_SECOND_CHANCE = 5,
  NVM_TIER_FIFO = 6
};

enum nvm_tier_compression {
  NVM_TIER_COMPRESSION_DETECT = 0, /* as the pool says; in a new pool LZ4 if the system has it, else none */
  NVM_TIER_PLAIN = 1,
  NVM_TIER_LZ4 = 2, /* liblz4.so.1 of the system */
  NVM_TIER_ZSTD = 3 /* libzstd.so.1 of the system */
};

/* Zero-initialise, then set what matters. */
typedef struct nvm_tier_options {
  const char *path; /* of the second file; NULL: as the pool says.  It is made if the pool has none yet.  ssd: NULL */
  uint64_t fast_bytes;   /* of data in fast memory at most, 256 KiB at least; 0: as the pool says.  ssd: a quarter */
  uint32_t policy;       /* enum nvm_tier_policy */
  uint32_t compression;  /* enum nvm_tier_compression, of what is written from now on */
  uint64_t struct_bytes; /* sizeof(nvm_tier_options), or 0: "Options" in nvm/nvm.h */
  uint64_t reserved[3];  /* zero */
} nvm_tier_options;

typedef struct nvm_tier_statistics {
  uint64_t active;         /* 1: pages come and go; 0: see `why` */
  uint64_t fast_bytes_max; /* the limit in force */
  uint64_t fast_bytes;     /* of data in fast memory now; of these: */
  uint64_t dirty_bytes;    /*   of which no file is known to have the present bytes */
  uint64_t slow_bytes;     /* of data that only the second file has, before compression */
  uint64_t file_bytes;     /* length of the second file */
  uint64_t faults;         /* accesses that waited for a page */
  uint64_t store_faults;   /* stores that waited for a page that was there, until it was known to be dirty */
  uint64_t pages_in;       /* from the second file; of these: */
  uint64_t pages_ahead;    /*   that no thread had asked for yet */
  uint64_t pages_new;      /* of zeros: touched for the first time, or zeros when they left */
  uint64_t pages_out;      /* written to the second file and given back */
  uint64_t pages_dropped;  /* given back without a write: the second file had them, or zeros */
  uint64_t pages_kept;     /* written, and stored to meanwhile: they stayed */
  uint64_t bytes_written;  /* to the second file */
  uint64_t bytes_read;     /* from it */
  uint64_t syncs;          /* of it */
  uint64_t fault_ns_p50;   /* of a page to be brought: from when it was asked for until it was there */
  uint64_t fault_ns_p99;
  uint32_t policy;      /* enum nvm_tier_policy in force */
  uint32_t compression; /* enum nvm_tier_compression in force */
  char path[1024];      /* of the second file; ssd: of the pool */
  char why[256];        /* why pages do not leave, or do not any more; "": they do */
} nvm_tier_statistics;

/* -1 (NVM_E_INVALID) if the pool has no second file and none was asked for. */
NVM_API int nvm_tier_get_statistics(NVM_POOL *pool, nvm_tier_statistics *out);

/* Says whether [p, p + bytes) is referenced, that is part of something in use, such as an attached store.  Policies let
 * such pages go last.  It is about the whole pages that the range touches, and has no lasting effect. */
NVM_API int nvm_tier_refer(NVM_POOL *pool, const void *p, size_t bytes, int referenced);

/* The pages that the range touches are in fast memory on return, and stay until nvm_tier_unpin() of the same range;
 * pins of a page are counted, up to 255.  NVM_E_BAD_POINTER: a page is of an object store that is not attached, and
 * nothing was pinned. */
NVM_API int nvm_tier_pin(NVM_POOL *pool, const void *p, size_t bytes);
NVM_API int nvm_tier_unpin(NVM_POOL *pool, const void *p, size_t bytes);

/* Pages leave until at most `bytes` of data are in fast memory; 0 is as little as pins allow.  Threads that touch them
 * bring them back.  Pages that cannot leave are passed over. */
NVM_API int nvm_tier_shrink(NVM_POOL *pool, uint64_t bytes);

/* Facts from the files, also while another process has the pool open. */
typedef struct nvm_tier_info {
  uint64_t fast_bytes_max;
  uint64_t fast_bytes;    /* of data that have blocks */
  uint64_t slow_bytes;    /* of data without blocks, which the second file has; before compression */
  uint64_t file_bytes;    /* length of the second file */
  uint64_t sequence;      /* batches that the second file must have */
  uint64_t file_sequence; /* that it has */
  uint32_t policy;
  uint32_t compression;
  char path[1024];
} nvm_tier_info;
/* -1: NVM_E_INVALID (the pool has no second file), or what is wrong with either. */
NVM_API int nvm_tier_inspect(const char *pool, nvm_tier_info *out);

#ifdef __cplusplus
}
#endif

#endif
