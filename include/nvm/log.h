/* Sizes and thresholds of the log-structured engine, for programs that know their load; the defaults suit most.
 *
 *   nvm_log_options l = {.chunk_bytes = 256 << 10, .clean_from = 50};
 *   nvm_pool_options o = {.engine = NVM_ENGINE_LOG, .size = 1 << 30, .log = &l};
 *   NVM_POOL *pool = nvm_pool_create_with("/dev/shm/x.nvm", &o);
 *
 * docs/design/014-log-structured-heap.md says what a chunk is and when it is cleaned, 015 what a partition is. */
#ifndef NVM_LOG_H
#define NVM_LOG_H

#include <nvm/nvm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Zero-initialise, then set what matters; a zero field means the default.  Checked by each call that it is given to,
 * used for pools of NVM_ENGINE_LOG.  NVM_E_INVALID: a field is outside its bounds. */
typedef struct nvm_log_options {
  /* Of a chunk of the log, a power of two from 4 KiB to 1 MiB, and at most a 32nd of the pool; default 32 KiB.  Kept
   * in the pool: one that exists keeps its own, whatever an open says.  Each thread and each cleaner fills up to three,
   * and six more are kept free; a larger chunk splits fewer transactions, and is cleaned as a whole. */
  uint64_t chunk_bytes;
  /* What follows is of this open, not kept in the pool.  Of home space that one part of the mapping has: a power of two
   * from 1 to 64 KiB; default 4 KiB. */
  uint64_t partition_bytes;
  /* Of each thread's cache of nodes, with NVM_MAPPING_CACHE and above, 8 bytes each: a power of two from 2,048 to
   * 4,194,304; default 65,536. */
  uint64_t cache_entries;
  uint32_t clean_below; /* percent of a chunk that live: cleaners take what has less, 1 to 90; default 20 */
  uint32_t clean_from;  /* percent of the pool's pages in use: cleaners work from there on, 1 to 100; default 80 */
  /* Threads that build pages which a program touches, 1 to 16, each with a cache of its own; default: as many as the
   * machine has processors, at most 4.  These threads, the cleaners and one of the engine count among the 256 that
   * may have a transaction at the same time. */
  uint32_t fault_threads;
  /* Pages of 4 KiB that one touch may bring where a program reads upward, 1 to 256; default 16.  1: what it touches. */
  uint32_t fault_around;
  uint64_t struct_bytes; /* sizeof(nvm_log_options), or 0: "Options" in nvm/nvm.h */
  uint64_t reserved[2];  /* zero */
} nvm_log_options;

#ifdef __cplusplus
}
#endif
#endif
