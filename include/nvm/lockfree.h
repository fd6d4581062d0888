/* Holdfast: lock-free structures in a pool (log-free, sections 3 to 5).  Public C interface (C11).
 *
 * A pool holds any number of structures, by name, beside the objects of transactions.  Any number of threads may work
 * on those of a pool, 256 at a time in a call or between nvm_lf_enter() and nvm_lf_leave(): one more waits for one of
 * these, ten seconds at most (NVM_E_NO_LANE).  Otherwise no thread waits for a stopped one, except in a full pool for
 * one that is freeing what the waiting one has removed, and for one that makes the pool larger.  An operation is atomic
 * by itself, takes part in no transaction, and is durable when it returns (but see NVM_LF_NO_WAIT).  A successful
 * change costs one fence; a look-up costs none.  When more than 256 threads that have not ended have worked there, each
 * call of a thread whose place another has taken over costs a locked instruction and a fence more.
 *
 * Words or bytes.  A structure holds either 8-byte keys and values (the functions that end in 64), or keys and values
 * of any size.  Entries do not change: a new value is a new entry.
 *
 * Results: 1 or more: done; 0: refused, since the key is there already, or is not; -1: failed, see nvm_errno().
 * NVM_E_IN_DOUBT: the operation is done and other threads see it, but its sync failed (nvm_wait()), or the medium has
 * failed under it: the next open finds it or not.  Later operations, look-ups too, fail with NVM_E_IO, also with
 * handles that do not wait, whether a write, a sync or a checkpoint in the background has failed.  Any other code:
 * nothing has changed.  A removal or replacement can fail too: to note the entry that leaves, it needs memory
 * (NVM_E_NO_MEMORY) and a page of the pool (NVM_E_NO_SPACE).  Try again when there is some, or when no thread stays
 * between nvm_lf_enter() and nvm_lf_leave(): what was removed before, by any thread that is not between these two, is
 * room already.
 */
#ifndef NVM_LOCKFREE_H
#define NVM_LOCKFREE_H

#include "nvm/nvm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An open structure, for any thread, until its pool is closed, it is dropped, or it has been closed as often as it was
 * opened; later calls with it fail (NVM_E_INVALID, NVM_E_NOT_FOUND).  It need not be closed. */
typedef struct nvm_lf nvm_lf;

enum nvm_lf_kind {
  NVM_LF_LIST = 1,      /* sorted linked list (Harris): for a thousand keys at most */
  NVM_LF_HASH = 2,      /* hash table; grows while it is used */
  NVM_LF_SKIP_LIST = 3, /* sorted */
  NVM_LF_TREE = 4       /* sorted: a search tree, not balanced: for keys that come in no order */
};

#define NVM_LF_NAME_MAX 63u

enum nvm_lf_flags {
  NVM_LF_BYTES = 1,         /* keys and values of any size; otherwise both have 8 bytes */
  NVM_LF_NO_WAIT = 2,       /* on ssd: operations return before they are durable; nvm_lf_wait() waits.  Of the handle.
                               If the pool fails, changes that were not waited for may be lost */
  NVM_LF_NO_CHECKSUMS = 8,  /* of a new one: entries have none.  Otherwise an entry has one, of its key and value and
                              not of its mark; the check of a pool and nvm_lf_verify() compare it, reading does not */
  NVM_LF_VERIFY_READS = 16, /* of the handle: nvm_lf_get(), nvm_lf_get64(), nvm_lf_find() and nvm_lf_update() compare
                               the checksum of the entry that they find, and fail if it does not hold
                               (NVM_E_CORRUPT); walks do not.  Cost: all bytes of the entry are read */
  NVM_LF_VOLATILE_LINKS = 4 /* of a new one, not a tree: only the entries are durable.  Opening the pool links them, in
                               time proportional to their number; changes cost half as much */
};

enum nvm_lf_links {
  NVM_LF_LINK_AND_PERSIST = 1, /* a changed link is durable when its operation returns; by default */
  /* Changed links wait in a cache of ordinary memory until an operation depends on them (log-free, section 4).  Changes
   * by a handle with NVM_LF_NO_WAIT are durable when somebody depended on them, or after nvm_lf_wait(); other handles
   * empty the cache at each change.  Of no effect on ssd, and where stores survive by themselves (shm). */
  NVM_LF_LINK_CACHE = 2
};
enum nvm_lf_allocation {
  NVM_LF_WORD_AT_ONCE = 1, /* the places of an allocation word are marked on media with one store; by default */
  NVM_LF_ONE_AT_A_TIME = 2 /* each when it is taken (log-free, section 5.3) */
};
enum nvm_lf_recovery {                      /* of nodes of areas that were in use; log-free, section 5.5 */
                       NVM_LF_BY_KIND = 1,  /* by search, but of lists by traversal; by default */
                       NVM_LF_SEARCH = 2,   /* each is looked for by its key */
                       NVM_LF_TRAVERSAL = 3 /* all links are followed */
};
#define NVM_LF_AREA_MIN 4096u
#define NVM_LF_AREA_MAX 262144u

/* Zero-initialise, then set what matters.  The last four concern all structures of the pool: the first open of one in
 * a process chooses, 0: the default, or what was chosen.  Another choice later is NVM_E_BUSY until the pool is closed;
 * another size of areas than the pool has is NVM_E_EXISTS. */
typedef struct nvm_lf_options {
  uint32_t kind;         /* enum nvm_lf_kind; 0: the structure's own; a new one is a hash table */
  uint32_t flags;        /* enum nvm_lf_flags */
  uint64_t expected;     /* of a new one: about how many keys it will have (cells that a hash table begins with) */
  uint32_t mode;         /* 0: a missing one is made; 1: it is NVM_E_NOT_FOUND; 2: an existing one is NVM_E_EXISTS */
  uint32_t links;        /* enum nvm_lf_links */
  uint32_t allocation;   /* enum nvm_lf_allocation */
  uint32_t recovery;     /* enum nvm_lf_recovery */
  uint32_t area_bytes;   /* of an area that the active page table names: a power of two, NVM_LF_AREA_MIN (by default) to
                          NVM_LF_AREA_MAX; kept by the pool.  Larger ones: fewer entries written, more to look at after
                          a crash */
  uint32_t struct_bytes; /* sizeof(nvm_lf_options), or 0: "Options" in nvm/nvm.h */
  uint32_t reserved[2];  /* zero */
} nvm_lf_options;

/* Opens a structure of the pool; NULL options: all zero.  The first call in a pool frees entries that the last process
 * allocated and did not link.  Another kind than the stored one: NVM_E_TYPE_MISMATCH.  Inside a transaction that this
 * thread has open in the pool no structure can be made or dropped: the call fails (NVM_E_TX_OPEN), and the transaction
 * is rolled back. */
NVM_API nvm_lf *nvm_lf_open(NVM_POOL *pool, const char *name, const nvm_lf_options *options);
/* Ends one use of a structure, also after its pool was closed or it was dropped.  Opened again with the same flags the
 * structure has the same handle.  A thread that is between nvm_lf_enter() and nvm_lf_leave() may still leave.  0; -1
 * (NVM_E_INVALID): NULL, or it is closed already.  Threads: any, no other call with this handle meanwhile. */
NVM_API int nvm_lf_close(nvm_lf *lf);
/* Removes a structure that no thread uses; all of its memory goes back to the pool.  0 or -1. */
NVM_API int nvm_lf_drop(NVM_POOL *pool, const char *name);
/* Calls visit(name, kind, argument) for each structure until it returns non-zero, which is the result.  A visitor
 * should stop with a number above 0, since a failure gives -1. */
NVM_API int nvm_lf_names(NVM_POOL *pool, int (*visit)(const char *name, int kind, void *argument), void *argument);
NVM_API NVM_POOL *nvm_lf_pool(const nvm_lf *lf);
/* enum nvm_lf_kind; whether it holds keys and values of any size (1) or words (0).  -1: as other calls. */
NVM_API int nvm_lf_kind_of(const nvm_lf *lf);
NVM_API int nvm_lf_holds_bytes(const nvm_lf *lf);
/* Number of keys, give or take the operations under way.  0; or -1, and *count is left alone: the state of the
 * structure is unknown (NVM_E_IO, after a failed write or sync, also one in the background).  Cost: a load for each
 * thread that has used the pool. */
NVM_API int nvm_lf_get_count(nvm_lf *lf, uint64_t *count);
/* The same; 0 is also what a failure gives.  Use nvm_lf_get_count(). */
NVM_API uint64_t nvm_lf_count(nvm_lf *lf);

enum nvm_lf_put_flags {
  NVM_LF_PUT_ABSENT = 1, /* only if the key is not there */
  NVM_LF_PUT_PRESENT = 2 /* only if it is */
};
/* 1: inserted, 2: replaced, 0: refused by the flags. */
NVM_API int nvm_lf_put64(nvm_lf *lf, uint64_t key, uint64_t value, unsigned flags);
NVM_API int nvm_lf_get64(nvm_lf *lf, uint64_t key, uint64_t *value);
NVM_API int nvm_lf_remove64(nvm_lf *lf, uint64_t key);
/* Calls visit until it returns non-zero, which is the result (above 0, or it looks like a failure).  In all but a hash
 * table: in the order of the keys. */
NVM_API int nvm_lf_each64(nvm_lf *lf, int (*visit)(uint64_t key, uint64_t value, void *argument), void *argument);
/* As nvm_lf_scan(), of words: exactly `entries_max` of them, unless there are fewer. */
NVM_API int nvm_lf_scan64(nvm_lf *lf, uint64_t *cursor, size_t entries_max,
                          int (*visit)(uint64_t key, uint64_t value, void *argument), void *argument);

enum nvm_lf_from_flags {
  NVM_LF_AFTER = 1 /* the first key is greater than the given one, not equal to it */
};
/* Of sorted structures: calls visit in ascending order of the keys, beginning with the first that is not less than
 * `key`, for `entries_max` entries at most.  The key that was visited last, with NVM_LF_AFTER, goes on; each call
 * visits greater keys, so a loop ends, whatever other threads insert in front of it.  Fewer visits than `entries_max`:
 * that was the end.  An entry that is there during the whole call is visited; one that comes or goes may be.  Results
 * as nvm_lf_each64(), and NVM_E_TYPE_MISMATCH: a hash table has no order of keys; NVM_E_INVALID: flags, visitor, or no
 * entries wanted.  Cost: a look-up and a step for each entry; in a list a step also for each smaller key. */
NVM_API int nvm_lf_scan_from64(nvm_lf *lf, uint64_t key, unsigned flags, size_t entries_max,
                               int (*visit)(uint64_t key, uint64_t value, void *argument), void *argument);

/* ---- bytes ---- */

#define NVM_LF_KEY_MAX 65535u
#define NVM_LF_VALUE_MAX 1073741824u

/* An entry, good while the thread is between nvm_lf_enter() and nvm_lf_leave(), or inside of a visit. */
typedef struct nvm_lf_entry {
  const void *key;
  size_t key_bytes;
  const void *value;
  size_t value_bytes;
  uint64_t mark; /* a word of the user's; nvm_lf_set_mark() */
  uint64_t
      place; /* tells entries of the pool apart: in 64 bytes there is one at most; of hash tables a multiple of 64 */
} nvm_lf_entry;

NVM_API int nvm_lf_put(nvm_lf *lf, const void *key, size_t key_bytes, const void *value, size_t value_bytes,
                       uint64_t mark, unsigned flags);
/* Copies up to `room` bytes of the value; *value_bytes, unless NULL, becomes the size of all of it. */
NVM_API int nvm_lf_get(nvm_lf *lf, const void *key, size_t key_bytes, void *value, size_t room, size_t *value_bytes);
NVM_API int nvm_lf_remove(nvm_lf *lf, const void *key, size_t key_bytes);

/* Between these two calls, entries that nvm_lf_find() has found stay as they are.  The calls nest, and cost a few
 * instructions.  A thread that stays long keeps memory from being reclaimed and the pool from being closed
 * (NVM_E_BUSY).  A thread that ends in between has left.  In C++ nvm::lf_guard (nvm/lockfree.hpp) leaves by itself. */
NVM_API int nvm_lf_enter(nvm_lf *lf);
NVM_API int nvm_lf_leave(nvm_lf *lf);
NVM_API int nvm_lf_find(nvm_lf *lf, const void *key, size_t key_bytes, nvm_lf_entry *out);
/* 1: an entry that was found holds its checksum, or has none; 0: its key or value is damaged, and not what was stored.
 * Between nvm_lf_enter() and nvm_lf_leave(), or in decide() and fill() of nvm_lf_update(): a new value that is made of
 * an old one that is damaged would be damaged, and have a checksum that holds.  Cost: all bytes of the entry are read.
 * -1 (NVM_E_BAD_POINTER): no entry can be at the place of this one; (NVM_E_TYPE_MISMATCH): the structure is one of
 * words. */
NVM_API int nvm_lf_verify(nvm_lf *lf, const nvm_lf_entry *entry);
/* Changes the mark of an entry that was found, durably.  If the entry has been replaced or removed meanwhile, no thread
 * sees the change.  Another thread may see a mark before it is durable.  0; -1 (NVM_E_BAD_POINTER): no entry can be at
 * the place of this one. */
NVM_API int nvm_lf_set_mark(nvm_lf *lf, const nvm_lf_entry *entry, uint64_t mark);

enum nvm_lf_mark_flags {
  NVM_LF_MARK_LAZY = 1 /* nothing is made durable: a crash may take the change back, until a later one is durable */
};
/* Changes the mark if it is *expected, and returns 1; otherwise 0, and *expected is what it is. */
NVM_API int nvm_lf_change_mark(nvm_lf *lf, const nvm_lf_entry *entry, uint64_t *expected, uint64_t mark,
                               unsigned flags);

/* What update() shall do with a key. */
enum nvm_lf_decision {
  NVM_LF_KEEP = 0,    /* nothing */
  NVM_LF_REPLACE = 1, /* a new entry: `value_bytes`, `mark`; fill() writes the value */
  NVM_LF_REMOVE = 2
};
typedef struct nvm_lf_change {
  size_t value_bytes;
  uint64_t mark;
  void (*fill)(void *value, size_t value_bytes, const nvm_lf_entry *old, void *argument);
} nvm_lf_change;
/* Changes the key's entry atomically.  decide(old, change, argument) sees the newest entry (`old`, NULL: there is none)
 * and says what becomes of it; it is called again if the entry has changed meanwhile.  Returns what was done: 0
 * nothing, 1 inserted, 2 replaced, 3 removed; -1. */
NVM_API int nvm_lf_update(nvm_lf *lf, const void *key, size_t key_bytes,
                          enum nvm_lf_decision (*decide)(const nvm_lf_entry *old, nvm_lf_change *change,
                                                         void *argument),
                          void *argument);
/* Calls visit for some `entries_max` entries from *cursor on (0: from the beginning), in any order; *cursor becomes the
 * place to go on from, 0: that was the end.  In a sorted structure keys that begin with the same 8 bytes are visited in
 * one call, however many: nvm_lf_scan_from() divides them.  On ssd a visitor, here and in nvm_lf_each64(), sees entries
 * that may become durable only when the call returns.  A non-zero result of visit ends the call, which returns it; it
 * should be above 0, since a failure gives -1. */
NVM_API int nvm_lf_scan(nvm_lf *lf, uint64_t *cursor, size_t entries_max,
                        int (*visit)(const nvm_lf_entry *entry, void *argument), void *argument);
/* As nvm_lf_scan_from64(), of bytes.  Keys are compared as memcmp() does; of two of which one begins with the other the
 * shorter is less.  NULL with 0 bytes is the smallest key. */
NVM_API int nvm_lf_scan_from(nvm_lf *lf, const void *key, size_t key_bytes, unsigned flags, size_t entries_max,
                             int (*visit)(const nvm_lf_entry *entry, void *argument), void *argument);
/* Calls visit for the entries that stand in the way: those in the `bytes` of the pool's memory around one that was
 * found, in whole 32 KiB.  When all of them are removed, and no thread is inside any more that could see one, this
 * memory serves entries of other sizes, and the pool's objects.  For a cache that has memory for entries of all sizes
 * but one.  Where something else lies there, so that it would not help, none is visited.  Between nvm_lf_enter() and
 * nvm_lf_leave().  visit may remove entries; those that come or go meanwhile may be met or not.  The result as
 * nvm_lf_scan(), and NVM_E_BAD_POINTER: no entry can be at the place of this one.  Cost: a look-up for each entry, some
 * hundred in 32 KiB at most. */
NVM_API int nvm_lf_each_beside(nvm_lf *lf, const nvm_lf_entry *entry, uint64_t bytes,
                               int (*visit)(const nvm_lf_entry *entry, void *argument), void *argument);
/* Bytes of the pool's memory that an entry takes with a key and a value of these sizes, rounded up as they are; skip
 * lists and trees need up to two lines more.  0: failed. */
NVM_API uint64_t nvm_lf_entry_bytes(const nvm_lf *lf, size_t key_bytes, size_t value_bytes);

/* ---- durability ---- */

/* A place in the pool's log: once the log is durable up to there, so is all that this thread has done or seen in
 * structures of the pool; *position 0: it is already.  nvm_wait() waits for it.  0; or -1 (NVM_E_IO, NVM_E_IN_DOUBT)
 * after a write or a sync has failed, of a growth too: what was not waited for may be lost, and *position is left
 * alone. */
NVM_API int nvm_lf_get_position(nvm_lf *lf, uint64_t *position);
/* The same; after a failure UINT64_MAX, which nvm_wait() refuses.  Use nvm_lf_get_position(). */
NVM_API uint64_t nvm_lf_position(nvm_lf *lf);
/* Waits until everything that this thread has done to structures of the pool is durable; with a link cache, what any
 * thread has.  -1 (NVM_E_IN_DOUBT): it may not be. */
NVM_API int nvm_lf_wait(nvm_lf *lf);

#ifdef __cplusplus
}
#endif
#endif
