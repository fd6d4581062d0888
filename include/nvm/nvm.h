/* Holdfast: a durable heap for C and C++.  Public C interface (C11).
 *
 * A pool is one file.  Its objects are ordinary memory at ordinary addresses.  However a process died, the next one
 * that opens the pool finds each transaction whole or not at all.  What a pool survives depends on its medium: see
 * docs/persistency-model.md and `enum nvm_medium`.
 *
 * Conventions.  Calls that return a pointer return NULL on failure, calls that return int return 0 or -1.  After a
 * failure nvm_errno() is a stable NVM_E... code and nvm_errormsg() a sentence that names what was found and what was
 * expected; both are per thread.  `errno` keeps the system's code when a system call was the cause.  A call whose
 * failure looks like a value says so where it is declared.  nvm_errno() does not tell the two apart: a call that
 * succeeds leaves it as it was.
 *
 * Options.  Structs of options may grow with each release.  Their struct_bytes says how long the struct is that the
 * program was compiled with: sizeof, or 0 for its length in the first release, so that a program which sets a later
 * field sets struct_bytes, too.  A field that is set and that the library does not know is NVM_E_INVALID.
 *
 * Threads.  Any thread may use any pool.  A thread has at most one open transaction per pool; a transaction belongs to
 * the thread that began it.  Transactions give atomicity and durability, not isolation: the program keeps its own locks
 * and holds them until commit returns (Breeze, section III-B).
 *
 * Handles.  nvm_pool_close() closes what is open in the pool: key-value stores (nvm/kv.h), lock-free structures
 * (nvm/lockfree.h).  A call with the handle of a pool that was closed, of a store or structure in it, or of a store
 * that was closed itself, fails (NVM_E_INVALID, "was closed") and touches nothing; closing a store after its pool is
 * harmless. Handles of pools are recognised until 256 other pools have been closed.
 *
 * Ways out of a call.  The one cancellation point is nvm_tx_begin() in a thread without an open transaction: until then
 * a thread that was cancelled goes on (asynchronous cancellation is forbidden).  When a thread ends, in any way, its
 * open transactions are rolled back.  An exception of C++ may leave visitors, edits, decisions and the body of
 * nvm_stm_run(): the operation ends in order, a transaction that the call has begun is rolled back, and the exception
 * goes on to the caller.  An exception that leaves a hook, a function that reports findings or progress, or fill() of
 * nvm_lf_update() ends the process.  longjmp() may leave the restart functions of nvm_stm_begin() and no other function
 * that the library calls: the operation would stay open, and nvm_pool_close() would refuse for ever (docs/stm.md: a
 * body of nvm_stm_run()).  Both may leave the program's own code between nvm_tx_begin() and nvm_tx_commit(): the
 * transaction stays open until the program ends it, or the thread ends.
 *
 * Lost pages.  Where the system cannot give a page of a pool's file any more (the file was cut off, its device or
 * memory has lost it), a call of the library that touches it ends in no SIGBUS: the pool fails for good, and the call
 * fails with NVM_E_IO (NVM_E_IN_DOUBT: a commit that was ordered) and names file, offset and cause.  A load or store of
 * the program itself ends in SIGBUS, after a sentence on stderr.  The library has a handler for that signal from the
 * first pool on; it hands faults outside of pools to the handler before it.  A handler that is installed later must do
 * likewise, and threads that use pools must not block SIGBUS.
 *
 * Two faces.  Announced stores (nvm_tx_begin(), here) and barriers (nvm_stm_run(), nvm/stm.h) are two kinds of
 * transaction.  A call of one kind inside a transaction of the other fails (NVM_E_TX_OPEN, with the call to use
 * instead), and that transaction can only be rolled back: nothing is half done.
 */
#ifndef NVM_NVM_H
#define NVM_NVM_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define NVM_API __attribute__((visibility("default")))
#else
#define NVM_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define NVM_VERSION_MAJOR 0
#define NVM_VERSION_MINOR 1
#define NVM_VERSION_PATCH 0

typedef struct nvm_pool NVM_POOL;

/* ---- errors ------------------------------------------------------------------------------------------------------ */

/* Stable codes; no code is ever reused. */
enum nvm_error {
  NVM_OK = 0,
  NVM_E_INVALID = 1,         /* an argument is out of its domain */
  NVM_E_SYSTEM = 2,          /* a system call failed; errno has its code */
  NVM_E_NOT_FOUND = 3,       /* no such file */
  NVM_E_EXISTS = 4,          /* the file is there already */
  NVM_E_NOT_A_POOL = 5,      /* empty, truncated or foreign file */
  NVM_E_VERSION = 6,         /* format version or incompatible feature bit that this library does not know */
  NVM_E_CORRUPT = 7,         /* metadata fails its check */
  NVM_E_BUSY = 8,            /* another process, or this one, has the pool open */
  NVM_E_NO_SPACE = 9,        /* the pool is full, or its file system is */
  NVM_E_TOO_LARGE = 10,      /* more than a pool, its capacity, its versions or the address window can hold */
  NVM_E_NO_TRANSACTION = 11, /* needs an open transaction of this thread */
  NVM_E_TX_OPEN = 12,        /* a transaction is open where none may be */
  NVM_E_MUST_ABORT = 13,     /* an earlier failure in this transaction allows only abort */
  NVM_E_BAD_POINTER = 14,    /* foreign, volatile, interior or already freed pointer */
  NVM_E_READ_ONLY = 15,      /* the pool was opened read-only */
  NVM_E_MEDIUM = 16,         /* the medium does not give what was asked for (for example no MAP_SYNC) */
  NVM_E_IO = 17,             /* a write or sync failed, or a page is lost: the pool accepts no more commits */
  NVM_E_FORKED = 18,         /* the pool belongs to the parent process */
  NVM_E_ADDRESS = 19,        /* the pool's address range is taken, and it cannot be relocated */
  NVM_E_NO_MEMORY = 20,      /* volatile memory exhausted */
  NVM_E_LOG_FULL = 21,       /* the transaction is larger than the pool's log can take */
  NVM_E_NO_LANE = 22,        /* more concurrent transactions than lanes */
  NVM_E_TYPE_MISMATCH = 23,  /* a type has another layout than the pool's objects, or two in this program */
  NVM_E_ENGINE = 24,         /* the pool's engine does not do that (stores in place, in a pool of the redo engine) */
  /* A commit was ordered and its sync failed: memory has the changes until the pool is closed, the next open finds all
   * of them or none.  Neither rolled back nor durable; the pool accepts no more commits (NVM_E_IO). */
  NVM_E_IN_DOUBT = 25,
  NVM_E_COPY = 26 /* a copy of a pool that was in use, which may be torn (nvm_pool_options.accept_copy) */
};

/* Code of this thread's last failed call (an enum nvm_error); never reset by a call that succeeds. */
NVM_API int nvm_errno(void);
/* Sentence for the same failure; valid until this thread's next failed call.  Never NULL. */
NVM_API const char *nvm_errormsg(void);
/* Fails as a call of the library does: nvm_errno() is `code` (an enum nvm_error), nvm_errormsg() a copy of `sentence`.
 * For what is built on top of the library.  Returns -1. */
NVM_API int nvm_fail(int code, const char *sentence);
/* Symbolic name of a code, "NVM_E_CORRUPT"; "NVM_E_?" for an unknown one.  Static storage. */
NVM_API const char *nvm_error_name(int code);

/* Misuse: a mistake of the program in a place that can hand no error on, such as the assignment to a durable field
 * (nvm::p of nvm/nvm.hpp) outside of a transaction.  Without a handler the library prints the message, the address, its
 * pool and the place in the program, and calls abort(); the next open finds the pool without the wrong store. */
typedef struct nvm_misuse {
  int code;            /* enum nvm_error; nvm_errno() has it, too */
  const char *message; /* a sentence; nvm_errormsg() has it, too */
  const void *address; /* where the program wanted to store */
  NVM_POOL *pool;      /* the open pool that holds the address; NULL: none does */
  const void *caller;  /* the code that called the library; `addr2line` makes a line of it */
} nvm_misuse;
typedef void (*nvm_misuse_handler)(const nvm_misuse *misuse, void *argument);
/* Sets the handler of the whole process, which replaces message and abort(); NULL brings them back.  It is called in
 * the thread that made the mistake, and its arguments are valid during the call.  It may end the process, leave by
 * longjmp or an exception of C++, or return: then the store is left out.  Any thread may set it at any time; a mistake
 * that is made meanwhile may still meet the earlier handler. */
NVM_API void nvm_set_misuse_handler(nvm_misuse_handler handler, void *argument);

/* ---- pools ------------------------------------------------------------------------------------------------------- */

enum nvm_medium {
  NVM_MEDIUM_DETECT = 0, /* from the path: tmpfs -> shm, DAX -> dax, else ssd */
  NVM_MEDIUM_SHM = 1,    /* survives process death; a commit costs no flush unless `persist` asks for it */
  NVM_MEDIUM_DAX = 2,    /* and power loss, at cache-line grain; needs MAP_SYNC or a device that does not need it */
  NVM_MEDIUM_AUTO = 3,   /* as dax where the platform flushes caches by itself (eADR, GPF, battery): fence only */
  NVM_MEDIUM_SSD = 4     /* and power loss, on any file system: log append + one fdatasync for a group of commits */
};

/* How direct media (shm, dax, auto) write back.  DETECT: none on shm, best instruction on dax, fence only on auto. */
enum nvm_persist {
  NVM_PERSIST_DETECT = 0,
  NVM_PERSIST_NONE = 1,  /* order only */
  NVM_PERSIST_FENCE = 2, /* sfence, no write-back */
  NVM_PERSIST_CLFLUSH = 3,
  NVM_PERSIST_CLFLUSHOPT = 4,
  NVM_PERSIST_CLWB = 5,
  NVM_PERSIST_BEST = 6 /* clwb, else clflushopt, else clflush */
};

enum nvm_engine {
  NVM_ENGINE_DETECT = 0, /* undo */
  NVM_ENGINE_UNDO = 1,   /* announced stores, old bytes logged; on ssd the image's redo log, undo volatile */
  NVM_ENGINE_REDO = 2,   /* barriers only (nvm/stm.h): a commit is one record, one fence; written home in batches */
  /* Baselines to measure with, as papers describe them; direct media only. Every store is logged as it is made, and
   * the commit waits until all is home. MNEMOSYNE: barriers only, new bytes; MNEMOSYNE_UNDO: old bytes. */
  NVM_ENGINE_MNEMOSYNE = 3,
  NVM_ENGINE_MNEMOSYNE_UNDO = 4,
  /* Log-structured (LSNVMM): the log is the only copy of the data, a commit appends to it with one fence, cleaners
   * compact it.  Addresses of objects are virtual and never change; pages of them are built in volatile memory when
   * they are touched.  Announced stores and barriers.  On ssd a commit is an append and an fdatasync, shared by all
   * threads that wait, and is durable when it returns.  No lock-free structures in its pools. */
  NVM_ENGINE_LOG = 5
};

/* How an engine with virtual addresses (NVM_ENGINE_LOG) finds the bytes of an address: LSNVMM, section 3.2.  The first
 * is ours; the others are the five steps of the paper, each with all that the steps before it have. */
enum nvm_mapping {
  NVM_MAPPING_LEAVES = 0,       /* a small sorted array for each partition of the addresses */
  NVM_MAPPING_BASE = 1,         /* one skip list for 4 GiB, readers under its lock */
  NVM_MAPPING_TWO_LAYERS = 2,   /* a skip list for each partition */
  NVM_MAPPING_GROUP_UPDATE = 3, /* neighbouring stores of a transaction are one entry of the log and of the list */
  NVM_MAPPING_CACHE = 4,        /* caches of nodes in each thread */
  NVM_MAPPING_FULL = 5          /* readers take no lock */
};

/* How a record of the redo engine proves that it is whole (HEAPO, section II-B): by a checksum or by a mark.  A log of
 * the mnemosyne engines proves its end in the same two ways; a bit in each word stands in place of the checksum. */
enum nvm_validation {
  NVM_VALIDATION_CHECKSUM = 0,   /* one fence for a commit */
  NVM_VALIDATION_COMMIT_MARK = 1 /* a mark, written after a fence of its own: two fences */
};

/* Which thread empties the rings of the redo engine. */
enum nvm_truncation {
  NVM_TRUNCATION_BACKGROUND = 0, /* a thread, before they are full; committers wait for it only when they are */
  NVM_TRUNCATION_INLINE = 1      /* the committer that finds its ring full */
};

/* Flags to measure the log-structured engine with; 0 is right for programs. */
enum nvm_log_flags {
  NVM_LOG_ONE = 1,         /* stores, allocations and frees in one log a thread instead of three */
  NVM_LOG_NO_CLEANERS = 2, /* no threads that clean: the thread that finds no room does */
  /* No home pages: each load of a barrier transaction (nvm/stm.h) is translated, as in LSNVMM.  Plain loads of
   * committed data read anything then, and announced stores are refused. */
  NVM_LOG_TRANSLATED = 4
};

/* What happens to the layouts of a program's durable types when it opens a pool (see "types" below). */
enum nvm_types {
  NVM_TYPES_CHECK = 0,  /* new ones are written into the pool; one that differs from its objects is refused */
  NVM_TYPES_ACCEPT = 1, /* the program reads old objects, and its layout replaces the pool's; refused with NVM_RESET */
  NVM_TYPES_IGNORE = 2  /* nothing is written; NVM_RESET counts only where pool and program have the same layout */
};

/* What happens when a pool's addresses are taken, or others are asked for (nvm_pool_options.address).  Stored pointers
 * (NVM_PTR, of types that the pool or the program describes) are rewritten to lead where they led; a crash meanwhile
 * loses nothing, and the next open goes on (Breeze, section IV-E).  NVM_E_ADDRESS: the pool has objects of undescribed
 * types, which the message names, or its pointers assume eight addresses already, all of which are taken. */
enum nvm_relocation {
  /* At open, in parallel, for good: the pool then prefers its new address.  Reads every object, writes every pointer
   * once, those of packed types through the log.  Opened read-only: in a private copy in memory. */
  NVM_RELOCATE_EAGER = 0,
  /* On shm: opens at once; each page is put right before a thread sees it, the rest in the background.  After a close
   * the next open goes on.  On other media, or where system or pool do not allow it, as EAGER (docs/design/026). */
  NVM_RELOCATE_LAZY = 1,
  /* As EAGER, by a transaction for each object (the paper's Algorithm 1).  One that began so ends so. */
  NVM_RELOCATE_TRANSACTIONS = 2,
  NVM_RELOCATE_NEVER = 3 /* NVM_E_ADDRESS */
};

/* Whether references to objects are counted, and when unreferenced ones are freed: docs/gc.md, nvm/gc.h.  nvm_free()
 * then frees an object as soon as nothing refers to it.  With OFF a pool loses its counts; the next open counts. */
enum nvm_collect {
  NVM_COLLECT_OFF = 0,
  NVM_COLLECT_AT_REST = 1,   /* at open, at close, in nvm_settle() and nvm_gc() */
  NVM_COLLECT_BACKGROUND = 2 /* also by a thread: a pointer is good in the transaction that read it, or while held */
};

/* What relocation and collection take objects for whose type neither the pool nor the program describes. */
enum nvm_untyped {
  NVM_UNTYPED_REFUSE = 0, /* unknown: a pool that has some is not moved or collected; BYTES of an earlier open stays */
  NVM_UNTYPED_BYTES = 1   /* bytes: the program says that no pointer is in them; for good */
};

/* Emulated non-volatile memory on top of direct media.  All zero: off.  A batch of write-backs ended by one fence costs
 * max(fence_ns, bytes / bandwidth) + lines * writeback_ns more, spun on the time-stamp counter. */
typedef struct nvm_emulation {
  uint32_t fence_ns;
  uint32_t writeback_ns;      /* per line written back */
  uint64_t bandwidth_bytes_s; /* bytes per second; 0: unlimited */
} nvm_emulation;

/* Settings of the papers: "lsnvmm" (500 ns, 1 GB/s), "log-free" (125 ns, one pause per batch), "breeze" (100 ns, an
 * eighth of DRAM bandwidth measured at the call, 40 ns per write-back), "off".  -1 (NVM_E_INVALID) on another name. */
NVM_API int nvm_emulation_preset(const char *name, nvm_emulation *out);

/* Zero-initialise, then set what matters; a zero field means the default. */
typedef struct nvm_pool_options {
  uint64_t size;      /* bytes of data space at creation; default 64 MiB; rounded up to whole 256 KiB chunks */
  uint64_t capacity;  /* bytes of data space the pool may grow to by itself; default max(16 * size, 1 GiB) */
  uint32_t medium;    /* enum nvm_medium */
  uint32_t persist;   /* enum nvm_persist; not stored in the pool */
  uint32_t engine;    /* enum nvm_engine; at open 0 or what the pool was created with */
  uint32_t mode;      /* permission bits of the new file; default 0600 */
  uint64_t log_bytes; /* ssd: size of the log ring; direct media: bytes of a lane; 0: chosen from size */
  uint32_t lanes;     /* concurrent transactions; 0: chosen from size; ignored by NVM_ENGINE_LOG */
  uint32_t read_only; /* open only: no change, no recovery of the file (a dirty pool is recovered in private memory) */
  nvm_emulation emulation; /* not stored in the pool */
  uint32_t meter;          /* 1: count fences, lines, bytes (nvm_pool_get_statistics); a little slower */
  uint32_t types;          /* enum nvm_types; not stored in the pool */
  uint32_t validation;     /* enum nvm_validation; creation, not with the undo engine */
  uint32_t truncation;     /* enum nvm_truncation; not stored in the pool */
  uint32_t mapping;        /* enum nvm_mapping; NVM_ENGINE_LOG; not stored in the pool */
  uint32_t cleaners;       /* NVM_ENGINE_LOG: threads that compact the log; 0: one; not stored in the pool */
  uint32_t log_flags;      /* enum nvm_log_flags; NVM_ENGINE_LOG; not stored in the pool */
  uint32_t home_mib;       /* NVM_ENGINE_LOG: MiB of memory for home pages at most; 0: half of the machine's */
  uint32_t accept_copy;    /* 1: opens a copy of a pool in use, too, which may be torn; 0: NVM_E_COPY (docs/care.md) */
  uint32_t relocation;     /* enum nvm_relocation; not stored in the pool */
  uint32_t collect;        /* enum nvm_collect; not stored in the pool */
  uint32_t untyped;        /* enum nvm_untyped; kept in the pool */
  uint64_t address;        /* of the pool, a multiple of 1 GiB inside the window, NVM_E_ADDRESS if taken; 0: its own */
  const struct nvm_tier_options *tier; /* nvm/tier.h: a second file for cold pages; NULL: as the pool says */
  const struct nvm_log_options *log;   /* nvm/log.h: sizes and thresholds of NVM_ENGINE_LOG; NULL: the defaults */
  uint64_t struct_bytes, reserved[4];  /* sizeof(nvm_pool_options), or 0: see "Options"; zero */
} nvm_pool_options;

/* Creates the file and an empty pool of `size` bytes of data space in it, opens it.  The file must not exist; symbolic
 * links are followed.  On return the empty pool is durable, its directory entry too.  The file gets its name when the
 * pool is whole: a crash during creation leaves no file of that name, or an empty pool. */
NVM_API NVM_POOL *nvm_pool_create(const char *path, size_t size);
NVM_API NVM_POOL *nvm_pool_create_with(const char *path, const nvm_pool_options *options);

/* Opens a pool, recovering it first if its last owner died: afterwards no transaction is half done.  One process at a
 * time (NVM_E_BUSY names the owner's pid).  A copy that was made of a pool in use is refused (NVM_E_COPY).  Cost: reads
 * the page map, 2 MiB per GiB. */
NVM_API NVM_POOL *nvm_pool_open(const char *path);
NVM_API NVM_POOL *nvm_pool_open_with(const char *path, const nvm_pool_options *options);

/* Opens the pool, or creates it if there is no such file; sizes, mode and the like count for a creation only.  When
 * several processes do so at a time, one creates the pool; the others open it or fail with NVM_E_BUSY. */
NVM_API NVM_POOL *nvm_pool_open_or_create(const char *path, const nvm_pool_options *options);

/* Closes a pool and the stores and structures that are open in it.  Before that it waits until all ordered commits are
 * durable, and runs their hooks.  -1 with NVM_E_TX_OPEN (a transaction is open in it) or NVM_E_BUSY (a thread is inside
 * of a lock-free structure): the pool stays open.  On any other -1 it is closed as a crash would leave it.  No other
 * thread may be in a call on the pool.  At exit the library closes the pools that are still open, and rolls back their
 * open transactions. */
NVM_API int nvm_pool_close(NVM_POOL *pool);

/* The root: the one object that the pool itself names; NULL when unset.  Inside a transaction the change is part of it;
 * outside it is a transaction of its own.  `object` must lie in the pool or be NULL. */
NVM_API int nvm_pool_set_root(NVM_POOL *pool, void *object);
/* The root, NULL when unset; also NULL on failure.  Before it makes a new root, a program asks nvm_pool_read_root(). */
NVM_API void *nvm_pool_get_root(NVM_POOL *pool);
/* Sets *root to the root, NULL when unset.  -1, and *root is NULL, if it cannot be read: NVM_E_CORRUPT,
 * NVM_E_FORKED. */
NVM_API int nvm_pool_read_root(NVM_POOL *pool, void **root);

/* Pool that holds address p and is open in this process; NULL otherwise. */
NVM_API NVM_POOL *nvm_pool_of(const void *p);

/* Address window reserved for pools: p is inside a pool only if (p >> NVM_WINDOW_BITS) == (NVM_WINDOW_BASE >>
 * NVM_WINDOW_BITS).  Build constants. */
#ifndef NVM_WINDOW_BITS
#define NVM_WINDOW_BITS 45
#endif
#ifndef NVM_WINDOW_BASE
#define NVM_WINDOW_BASE 0x200000000000ULL
#endif
static inline int nvm_is_durable(const void *p) {
  return ((uintptr_t)p >> NVM_WINDOW_BITS) == (NVM_WINDOW_BASE >> NVM_WINDOW_BITS);
}

/* ---- transactions ------------------------------------------------------------------------------------------------ */

/* Begins a transaction, or a savepoint inside the open one. */
NVM_API int nvm_tx_begin(NVM_POOL *pool);
/* Ends the innermost level.  An inner level becomes part of the outer one; on -1 it was rolled back, and the outer one
 * allows only abort.  The outermost level is durable on return of 0.  On -1 nvm_errno() tells two cases apart:
 *
 *   NVM_E_IN_DOUBT  The commit was ordered, then the sync failed that was to make it durable (ssd).  Memory has the
 *                   changes, other threads may have seen them, and the next open finds all of them or none.  The
 *                   program must neither report them as done nor do them again before it has closed the pool, opened
 *                   it and looked.
 *   any other code  Everything was rolled back.  NVM_E_MUST_ABORT: after an earlier failure in the transaction, whose
 *                   sentence is in nvm_errormsg() and whose code is nvm_tx_cause().  NVM_E_IO: the pool had failed
 *                   before the commit was ordered; a commit in doubt is such a failure.  Also NVM_E_LOG_FULL,
 *                   NVM_E_NO_MEMORY. */
NVM_API int nvm_tx_commit(NVM_POOL *pool);
/* As commit, but on ssd returns as soon as the commit is ordered: 0, and nvm_wait() waits for *lsn.  The program may
 * release its locks; it waits before it acts on the result outside of the pool.  *lsn 0: there is nothing to wait for:
 * at an inner level, after a transaction that changed nothing, and on direct media, where the call is the same as
 * commit.  On -1 everything was rolled back, and *lsn is NVM_LSN_NONE, which nvm_wait() refuses. */
NVM_API int nvm_tx_commit_async(NVM_POOL *pool, uint64_t *lsn);
#define NVM_LSN_NONE UINT64_MAX
/* Waits until everything up to lsn, which an nvm_tx_commit_async() of this process returned, is durable.  -1: it may
 * not be durable (NVM_E_IN_DOUBT, as for nvm_tx_commit()), or lsn is 0 and the pool has failed (NVM_E_IO). */
NVM_API int nvm_wait(NVM_POOL *pool, uint64_t lsn);
/* Code of the first failure in the transaction that this thread has open in the pool, after which only abort is
 * possible; NVM_OK: it may commit.  A barrier transaction (nvm/stm.h) counts too; NULL asks about that one, whatever
 * its pool.  Without an open transaction: nvm_errno() of this thread's last failed call, or for NVM_E_MUST_ABORT the
 * code of its cause. */
NVM_API int nvm_tx_cause(NVM_POOL *pool);
/* Rolls the innermost level back: its stores, allocations and frees never happened. */
NVM_API int nvm_tx_abort(NVM_POOL *pool);
/* Nesting depth of this thread's transaction in the pool; 0: none, or a NULL pool.  It cannot fail. */
NVM_API unsigned nvm_tx_depth(NVM_POOL *pool);

/* NVM_ATOMIC(pool); makes the rest of the enclosing block a transaction, or a level of the open one, which commits
 * where the block is left: at its end, by return, break, continue or goto.  For C compilers with GNU attributes.
 *
 * A block that failed to allocate is rolled back: the function returns its own error, as it would without a pool.
 * nvm_tx_abort(pool) inside the block rolls back and ends it there.  Any other failure to begin or commit (NVM_E_IO,
 * NVM_E_LOG_FULL ...) cannot be reported to a block that is being left: it ends the process with a message, after the
 * hooks.  The next open finds the state before the transaction; after NVM_E_IN_DOUBT, which the message names, that or
 * the state after it.  A program that has to go on uses nvm_tx_begin() and nvm_tx_commit(). */
typedef struct nvm_atomic_block {
  NVM_POOL *pool;
  unsigned depth;
} nvm_atomic_block;
NVM_API nvm_atomic_block nvm_atomic_begin(NVM_POOL *pool);
NVM_API void nvm_atomic_end(nvm_atomic_block *block);
#if defined(__GNUC__) && !defined(__cplusplus)
#define NVM_ATOMIC_NAME_(line) nvm_atomic_block_##line
#define NVM_ATOMIC_NAME(line) NVM_ATOMIC_NAME_(line)
#define NVM_ATOMIC(pool) \
  __attribute__((cleanup(nvm_atomic_end))) nvm_atomic_block NVM_ATOMIC_NAME(__LINE__) = nvm_atomic_begin(pool)
#endif

/* Announces that the bytes [p, p + n) will be written; must come before the write, inside a transaction of the pool
 * that holds p.  On direct media the old bytes are durable on return.  Announce exactly what will certainly be written.
 * Volatile addresses are accepted and ignored.  Cost: one fence when any byte is new to the transaction.  A range may
 * cover several objects.  With NVM_CHECK in the environment when the pool is opened, a range that is longer than the
 * object in which it begins is refused (NVM_E_BAD_POINTER). */
NVM_API int nvm_tx_log(const void *p, size_t n);
typedef struct nvm_range {
  const void *p;
  size_t n;
} nvm_range;
/* The same for several ranges at once: one fence for all of them. */
NVM_API int nvm_tx_log_many(const nvm_range *ranges, size_t count);
/* As nvm_tx_log(), for code that cannot hand an error on (the assignments of nvm::p).  0: store; -1: do not.  A failure
 * inside a transaction leaves it only abort; a failure outside of one is misuse (nvm_set_misuse_handler). */
NVM_API int nvm_tx_log_or_fail(const void *p, size_t n);

/* What has become of a transaction.  Each one that ends gives its hooks either ABORT alone, or ORDERED and then, once,
 * COMMIT or IN_DOUBT, on every medium and engine, and with either interface.  Hooks of one event run in order of
 * registration, outside of the transaction, and may begin another one.  In IN_DOUBT hooks, and in ABORT hooks of a
 * commit that failed, nvm_errno() and nvm_errormsg() tell of the failure.  When an inner level is aborted, its ABORT
 * hooks run at once, inside the level around it, so that volatile memory can follow before the program goes on; its
 * other hooks never run. */
enum nvm_tx_event {
  NVM_TX_ON_COMMIT = 1, /* durable: what is told to others now stays true */
  NVM_TX_ON_ABORT = 2,  /* rolled back */
  /* Committed and visible, not yet durable: locks may be released, nobody outside of the process may be told. */
  NVM_TX_ON_ORDERED = 3,
  NVM_TX_ON_IN_DOUBT = 4 /* ordered, and the sync failed: NVM_E_IN_DOUBT; see nvm_tx_commit() */
};
/* A hook runs in the thread that ends the transaction, before that thread's call returns.  The exceptions are COMMIT
 * and IN_DOUBT of an nvm_tx_commit_async() that returns before the commit is durable.  They run when the outcome is
 * known, in the first call on the pool that returns after that, of any thread that has no transaction open there:
 * nvm_wait(), nvm_tx_commit(), nvm_tx_commit_async(), a barrier commit (nvm/stm.h), or nvm_pool_close(), which waits
 * for all of them.  So a hook of an asynchronous commit must not take a lock that a thread holds around such a call.
 * Of two threads that are in such calls, one may return while the other still runs the hooks.  A process that ends
 * without closing its pools runs none of them. */
typedef void (*nvm_tx_hook)(NVM_POOL *pool, enum nvm_tx_event event, void *argument);
NVM_API int nvm_tx_on(NVM_POOL *pool, enum nvm_tx_event event, nvm_tx_hook hook, void *argument);

/* ---- types ------------------------------------------------------------------------------------------------------- */

/* How a program names what is durable (Breeze, Table I):
 *
 *   NVM_STRUCT name { ... };      a structure whose objects lie in pools
 *   NVM_PTR(T) field;             a pointer to a T in the same pool: T is an NVM_STRUCT, a number or character, void
 *                                 for any object, or again an NVM_PTR
 *   NVM_VOLATILE_PTR(T) field;    a pointer that on purpose means nothing to the next process; for fields only
 *
 * They are struct and T * to every compiler.  holdfast-cc reads more out of them: it refuses what cannot be durable,
 * and puts the layout of each NVM_STRUCT into the object file, where the library finds it (nvm_register_types). */
#ifndef NVM_STRUCT
#ifdef __HOLDFAST_TYPES__
#define NVM_STRUCT struct __attribute__((annotate("nvm_struct")))
#else
#define NVM_STRUCT struct
#endif
#endif
#ifndef NVM_PTR
#if defined(__HOLDFAST_TYPES__) && defined(__cplusplus)
#define NVM_PTR(T) __typeof__(T *) [[clang::annotate_type("nvm_ptr")]]
#elif defined(__HOLDFAST_TYPES__) /* C11 has no [[]]; this one is for C only */
#define NVM_PTR(T) __typeof__(T __attribute__((btf_type_tag("nvm_ptr"))) *)
#else
#define NVM_PTR(T) __typeof__(T *)
#endif
#endif
#ifndef NVM_VOLATILE_PTR
#ifdef __HOLDFAST_TYPES__
#define NVM_VOLATILE_PTR(T) __typeof__(T *) __attribute__((annotate("nvm_volatile_ptr")))
#else
#define NVM_VOLATILE_PTR(T) __typeof__(T *)
#endif
#endif
/* NVM_WEAK_PTR(T) field;        an NVM_PTR that keeps nothing alive: where a pool counts references or collects garbage
 *                               it becomes NULL before the memory of its object can become anything else.  Loads and
 *                               stores are those of any pointer. */
#ifndef NVM_WEAK_PTR
#if defined(__HOLDFAST_TYPES__) && defined(__cplusplus)
#define NVM_WEAK_PTR(T) __typeof__(T *) [[clang::annotate_type("nvm_ptr")]] [[clang::annotate_type("nvm_weak")]]
#elif defined(__HOLDFAST_TYPES__)
#define NVM_WEAK_PTR(T) __typeof__(T __attribute__((btf_type_tag("nvm_weak_ptr"))) *)
#else
#define NVM_WEAK_PTR(T) __typeof__(T *)
#endif
#endif
/* NVM_TYPE_ID(T): type id of T for nvm_alloc() and its kin, a uint32_t of 2^30 to 2^31 - 1 made from the text of the
 * name: the same in C and C++, in every build and program.  Smaller numbers are left for ids given by hand.  The text
 * counts, not the type: `Node` and `struct Node` are two ids.  A constant expression in C++; in C it may initialise
 * static objects, and takes names of up to 64 characters.  The value is the text's 32-bit FNV-1a hash modulo 2^30, plus
 * 2^30. */
#ifdef __cplusplus
constexpr uint32_t nvm_type_id_of_name(const char *name) {
  uint32_t hash = 2166136261U;
  for (; *name != 0; ++name) hash = (hash ^ static_cast<unsigned char>(*name)) * 16777619U;
  return (hash & 0x3FFFFFFFU) | 0x40000000U;
}
#ifndef NVM_TYPE_ID
#define NVM_TYPE_ID(T) nvm_type_id_of_name(#T)
#endif
#elif !defined(NVM_TYPE_ID)
/* Nothing but operators, so that compilers fold it: 64 steps of the hash; those after the end of the text s do
 * nothing.  NVM_HASH_n makes the n steps from character i on. */
#define NVM_NAME_CHAR(s, i) ((unsigned char)(s)[(i) < sizeof(s) ? (i) : sizeof(s) - 1])
#define NVM_HASH_1(h, s, i) ((uint32_t)((h) ^ NVM_NAME_CHAR(s, i)) * (NVM_NAME_CHAR(s, i) != 0 ? 16777619U : 1U))
#define NVM_HASH_2(h, s, i) NVM_HASH_1(NVM_HASH_1(h, s, i), s, (i) + 1)
#define NVM_HASH_4(h, s, i) NVM_HASH_2(NVM_HASH_2(h, s, i), s, (i) + 2)
#define NVM_HASH_8(h, s, i) NVM_HASH_4(NVM_HASH_4(h, s, i), s, (i) + 4)
#define NVM_HASH_16(h, s, i) NVM_HASH_8(NVM_HASH_8(h, s, i), s, (i) + 8)
#define NVM_HASH_32(h, s, i) NVM_HASH_16(NVM_HASH_16(h, s, i), s, (i) + 16)
#define NVM_HASH_64(h, s, i) NVM_HASH_32(NVM_HASH_32(h, s, i), s, (i) + 32)
#define NVM_NAME_FITS(s) ((uint32_t)(0 * sizeof(char[sizeof(s) <= 65 ? 1 : -1])))
#define NVM_ID_OF_NAME(s) ((NVM_HASH_64(2166136261U, s, 0U) & 0x3FFFFFFFU) | 0x40000000U | NVM_NAME_FITS(s))
#ifdef __HOLDFAST_TYPES__ /* the same value, and the name where the compiler finds it */
#define NVM_TYPE_ID(T) __builtin_choose_expr(1, NVM_ID_OF_NAME(#T), (uint32_t)sizeof("nvm_type_id:" #T))
#else
#define NVM_TYPE_ID(T) NVM_ID_OF_NAME(#T)
#endif
#endif

/* Layouts.  A program that was compiled by holdfast-cc knows where the pointers and other fields of its durable types
 * are.  When it creates a pool, or opens one for change, it writes the layouts into it that the pool does not have yet:
 * so a pool can be read, moved and checked without the program.  If the pool holds objects of a type whose layout
 * differs from the program's, opening fails (NVM_E_TYPE_MISMATCH, naming both) before anything is misread, unless
 * nvm_pool_options.types says otherwise.  Programs without layouts and types without objects are not compared; new
 * names of fields, an NVM_PTR that was a plain pointer, an NVM_RESET that was no NVM_PTR are no difference.  Types of a
 * library that is loaded later are treated when the next transaction begins.  A pool too full opens without them. */
enum nvm_field_kind {
  NVM_FIELD_SIGNED = 1,
  NVM_FIELD_UNSIGNED = 2,
  NVM_FIELD_BOOL = 3,
  NVM_FIELD_CHAR = 4,
  NVM_FIELD_FLOAT = 5,
  NVM_FIELD_POINTER = 6,          /* NVM_PTR */
  NVM_FIELD_VOLATILE_POINTER = 7, /* any other pointer */
  NVM_FIELD_BYTES = 8,            /* a union without pointers; bit-fields: "kind:0+3|on:3+1", first bit and width */
  NVM_FIELD_STRUCTURE = 9,        /* an array of structures */
  NVM_FIELD_WEAK_POINTER = 10,    /* NVM_WEAK_PTR, nvm::weak */
  NVM_FIELD_STATIC_POINTER = 11,  /* to constant data or a function of the program */
  NVM_FIELD_BY_VISITOR = 12,      /* structures whose pointers a function of the program tells (nvm/describe.h) */
  NVM_FIELD_UNION = 13,           /* unions with pointers (nvm/describe.h) */
  NVM_FIELD_RESET = 14            /* NVM_RESET (nvm/malloc.h): zero after each open */
};
typedef struct nvm_field_info {
  const char *name; /* "next"; field c of a structure b inside the type: "b.c" */
  uint64_t offset;  /* from the object's start; inside of an array of structures from the element's */
  uint64_t bytes;   /* of one element */
  uint64_t count;   /* elements; 0: a flexible array, as many as the object has room for */
  uint32_t kind;    /* enum nvm_field_kind */
  uint32_t target;  /* pointers: id of the type pointed to, 0: any; NVM_FIELD_BY_VISITOR: id of the visitor's type */
  uint32_t inner;   /* NVM_FIELD_STRUCTURE, _BY_VISITOR, _UNION: so many of the fields that follow lie in one element */
  uint32_t reserved;
  /* NVM_FIELD_UNION: which of its members counts, as the pool has it (docs/format.md); else "". */
  const char *tag;
} nvm_field_info;
typedef struct nvm_type_info {
  uint32_t id;           /* NVM_TYPE_ID(name) */
  uint32_t canonical_id; /* differs from id where this is another name of a type; all other members are that type's */
  const char *name;
  uint64_t size; /* an object that is larger holds an array of the type, or ends with a flexible array */
  uint64_t fingerprint;
  uint32_t align;
  uint32_t field_count;
  const nvm_field_info *fields; /* by ascending offset */
} nvm_type_info;
/* Calls visit for each type that the pool knows, by ascending id, until it returns non-zero; returns that value, which
 * should be positive, since a failure gives -1.  The argument of visit is valid during its call.  NULL pool: the types
 * that this program knows.  -1 (NVM_E_CORRUPT): the stored types are damaged. */
NVM_API int nvm_pool_each_type(NVM_POOL *pool, int (*visit)(const nvm_type_info *type, void *argument), void *argument);

/* Announces the layouts that holdfast-cc put into an object file.  Constructors that it puts there too make this call;
 * programs do not.  -1: NVM_E_CORRUPT, NVM_E_NO_MEMORY, or NVM_E_TYPE_MISMATCH if an id has two layouts in this
 * program; until the process ends, pools then open with NVM_TYPES_IGNORE only. */
NVM_API int nvm_register_types(const void *layouts, size_t bytes);

/* ---- objects ----------------------------------------------------------------------------------------------------- */

#define NVM_TYPE_MAX 0xFFFFFFFFu /* largest type id */

/* Allocates `size` bytes (1 .. capacity), 16-byte aligned, contents unspecified, in the pool's open transaction: the
 * object exists when the transaction commits, and its bytes need no nvm_tx_log until then.  NULL on failure, which
 * also marks the transaction must-abort (Breeze, Fig. 5) and leaves the pool usable. */
NVM_API void *nvm_alloc(NVM_POOL *pool, uint32_t type_id, size_t size);
/* As nvm_alloc, filled with zero bytes. */
NVM_API void *nvm_calloc(NVM_POOL *pool, uint32_t type_id, size_t count, size_t size);
/* As nvm_alloc and nvm_calloc, at a multiple of `alignment` bytes: a power of 2, at most 32768; up to 16 it is the same
 * as nvm_alloc.  The object takes `alignment` more bytes of the pool.  nvm_realloc keeps the alignment. */
NVM_API void *nvm_alloc_aligned(NVM_POOL *pool, uint32_t type_id, size_t size, size_t alignment);
NVM_API void *nvm_calloc_aligned(NVM_POOL *pool, uint32_t type_id, size_t count, size_t size, size_t alignment);
/* Frees an object when the transaction commits; its memory is reused only afterwards.  NULL is ignored.  -1
 * (NVM_E_BAD_POINTER) for anything that is not the start of a live object of this pool; nothing is changed then. */
NVM_API int nvm_free(NVM_POOL *pool, void *object);
/* Grows or shrinks, possibly moving; alignment and contents, up to the smaller size, stay.  NULL object: nvm_alloc. */
NVM_API void *nvm_realloc(NVM_POOL *pool, void *object, uint32_t type_id, size_t size);
/* A copy of the text, zero included, as an object of type NVM_TYPE_ID(char). */
NVM_API char *nvm_strdup(NVM_POOL *pool, const char *text);
/* Bytes asked for when the object was allocated, never 0; 0: failed (NVM_E_BAD_POINTER if it is not a live object). */
NVM_API size_t nvm_size_of(NVM_POOL *pool, const void *object);
/* Type id of an object; 0 also on failure: nvm_size_of() of the same object tells the two apart. */
NVM_API uint32_t nvm_type_of(NVM_POOL *pool, const void *object);
/* Calls visit(object, type_id, size, argument) for each committed object, in address order, until it returns non-zero;
 * returns that value, which should be positive, since a failure gives -1.  An object whose header is damaged is passed
 * over; -1 (NVM_E_CORRUPT) comes after all others.  No transaction of any thread may be open in the pool. */
NVM_API int nvm_pool_each(NVM_POOL *pool, int (*visit)(void *object, uint32_t type_id, size_t size, void *argument),
                          void *argument);

/* ---- knowing about a pool ---------------------------------------------------------------------------------------- */

typedef struct nvm_statistics {
  uint64_t commits, aborts;
  uint64_t fences, flushed_lines, flushed_bytes; /* direct media; only when options.meter was 1 */
  uint64_t logged_bytes;                         /* undo records, or ssd log records, with their headers */
  uint64_t syncs;                                /* ssd: fdatasync calls on the log and by the checkpointer */
  uint64_t durable_waits;                        /* ssd: log syncs that a commit waited for */
  uint64_t checkpoints;                          /* ssd */
  uint64_t grown_bytes;
  uint64_t truncations, home_lines; /* redo: times that the rings were emptied; lines that this wrote home */
  /* log: chunks of the log that were cleaned, bytes of contents that this moved; bytes of contents and entries in the
   * log that live, of volatile memory of the index to them, of addresses that are free for objects of any size */
  uint64_t cleaned_chunks, moved_bytes, live_bytes, mapping_bytes, home_free_bytes;
  uint64_t reserved[3];
} nvm_statistics;
NVM_API int nvm_pool_get_statistics(NVM_POOL *pool, nvm_statistics *out);

typedef struct nvm_pool_info {
  char path[256]; /* truncated if longer */
  uint8_t uuid[16];
  uint32_t format_version;
  uint32_t medium;  /* enum nvm_medium */
  uint32_t persist; /* enum nvm_persist in force; 0 if the pool is not open in this process */
  uint32_t lanes;
  uint64_t size, capacity;         /* bytes of data space */
  uint64_t file_bytes;             /* length of the file */
  uint64_t base;                   /* address the pool is mapped at, or prefers */
  uint64_t used_pages, free_pages; /* free ones include those kept for logs: a 64th of the capacity, at most 1024 */
  uint64_t log_bytes;
  int64_t owner_pid; /* 0: no process has it open for change */
  uint32_t clean;    /* 1: closed properly; 0: in use, or its owner died (on ssd: after its first change) */
  uint32_t page_bytes;
  /* Transactions that this process rolled back or completed when it opened the pool; on ssd the records that it found
   * in the log, one for each transaction and for each change of the pool's own. */
  uint64_t recovered_transactions;
  uint64_t recovery_ns;      /* duration of that open */
  uint32_t engine;           /* enum nvm_engine, never 0 */
  uint32_t validation;       /* enum nvm_validation */
  uint64_t home, home_bytes; /* of objects with virtual addresses (NVM_ENGINE_LOG); 0: objects are in the file */
  uint64_t untyped;          /* enum nvm_untyped: what the pool takes objects for whose type is described nowhere */
  uint64_t copied; /* 1: a copy of a pool that was in use or whose owner had died: opening it is refused, NVM_E_COPY */
  /* Addresses that stored pointers may assume, the preferred one first: several while a relocation is not finished. */
  uint64_t base_count;
  uint64_t bases[8];
} nvm_pool_info;
/* A stored pointer that leads into no address range of its pool. */
typedef struct nvm_foreign_pointer {
  const void *object; /* the object that has it */
  uint64_t offset;    /* of the pointer in the object */
  uint64_t value;
  uint64_t type; /* of the object */
} nvm_foreign_pointer;

/* What the relocation of this open has done until now; all zero if there was none. */
typedef struct nvm_relocation_report {
  uint64_t from;     /* address that the pool preferred before */
  uint64_t bases;    /* addresses that its pointers could assume, the new one among them */
  uint64_t objects;  /* objects looked at */
  uint64_t pointers; /* pointers in them that are not null */
  uint64_t moved;    /* pointers that were rewritten */
  uint64_t foreign;  /* pointers that lead into none of the addresses, left as they were */
  uint64_t duration_ns;
  uint64_t pages_left;                  /* NVM_RELOCATE_LAZY: not looked at yet */
  nvm_foreign_pointer first_foreign[8]; /* the first of these, by address; NVM_RELOCATE_LAZY: as they were met */
} nvm_relocation_report;
NVM_API int nvm_pool_get_relocation(NVM_POOL *pool, nvm_relocation_report *out);

/* Facts of an open pool, right also after its file was renamed; `path` is as given to open. */
NVM_API int nvm_pool_get_info(NVM_POOL *pool, nvm_pool_info *out);
/* The same from the file, also while another process owns it; takes no lock, changes nothing. */
NVM_API int nvm_pool_inspect(const char *path, nvm_pool_info *out);

/* Full check of a closed pool file, read-only: superblocks, page map, every slotted extent and object header, logs.
 * Each finding is reported (offset in bytes from the file's start, sentence); returns the number of findings, -1 if the
 * check itself could not be done. */
typedef void (*nvm_check_report)(uint64_t offset, const char *finding, void *argument);
typedef struct nvm_check_summary {
  uint64_t pages, free_pages, run_pages, extent_pages, log_pages;
  uint64_t objects, object_bytes; /* committed objects, bytes asked for */
  uint64_t pending_transactions;  /* to be rolled back or completed by the next open */
  uint64_t structure_pages;       /* of lock-free structures (nvm/lockfree.h) */
  uint64_t structure_nodes;       /* allocated in them before anything is recovered */
  /* Their entry in the page map is damaged; with free, run, extent, log and structure pages they are all pages. */
  uint64_t damaged_pages;
  uint64_t reclaimed_pages; /* of structures or of the log, left without owner by a crash; the next use frees them */
  /* Of a pool without findings whose objects lie in place (no pool of NVM_ENGINE_LOG), by the fields that its types
   * describe: objects that the root does not lead to (nvm/gc.h), 0 also where it leads to undescribed types; pointers
   * in reachable objects that lead into the pool and to no object, and those that lead elsewhere. */
  uint64_t garbage_objects, stray_pointers, foreign_pointers;
  uint64_t reserved[1];
} nvm_check_summary;
NVM_API int64_t nvm_pool_check(const char *path, nvm_check_report report, void *argument, nvm_check_summary *summary);
/* As nvm_pool_check(), with reports of progress.  Zero-initialise, then set what matters. */
typedef struct nvm_check_options {
  nvm_check_report report; /* NULL: findings are counted only */
  /* Called by the checking thread at the start, now and then, and at the end with done == total; `done` never falls. */
  void (*progress)(uint64_t done, uint64_t total, void *argument);
  void *argument;       /* handed to all three functions */
  uint64_t accept_copy; /* 1: a copy of a pool in use is checked too, as in nvm_pool_options */
  /* Gets what is no finding: each pointer that leads to no object, with its object, field and type; offset is that of
   * the object.  NULL: such pointers are counted only. */
  nvm_check_report note;
  uint64_t struct_bytes, reserved[2]; /* sizeof(nvm_check_options), or 0; zero */
} nvm_check_options;
NVM_API int64_t nvm_pool_check_with(const char *path, const nvm_check_options *options, nvm_check_summary *summary);

/* Builds the whole volatile allocation index now, with `threads` threads, instead of on demand. */
NVM_API int nvm_pool_build_index(NVM_POOL *pool, unsigned threads);

#ifdef __cplusplus
}
#endif
#endif
