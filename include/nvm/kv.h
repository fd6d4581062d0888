/* Holdfast: key-value stores in a pool.  Public C interface (C11).
 *
 * A pool holds any number of stores, each with a name and an index of its own.  Keys and values are bytes.  Every call
 * is a barrier transaction (nvm/stm.h): any number of threads may work on the same store, and what a call that changes
 * something has done is durable when it returns.  Inside a transaction of the caller, nvm_stm_run() or nvm::atomic(), a
 * call is part of that instead: it happens when the transaction commits, and calls on several stores of the pool happen
 * together or not at all.
 *
 * Failures.  A call that fails has changed nothing, but for NVM_E_IN_DOUBT: its changes are there for other threads,
 * and the next open finds all of them or none, since the sync failed (nvm_tx_commit()).  Of a pool that has failed like
 * that calls that change something fail with NVM_E_IO, and so do those that read what may be lost.
 *
 * The pool's root remains the program's.  Two processes cannot have a pool open at a time, nor its stores.
 */
#ifndef NVM_KV_H
#define NVM_KV_H

#include "nvm/nvm.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nvm_kv nvm_kv; /* an open store; may be used by any thread */

enum nvm_kv_index {
  NVM_KV_DETECT = 0, /* the one that the store has; a new one gets a B+tree */
  NVM_KV_LIST = 1,   /* newest entry first; finding looks at all that are newer */
  NVM_KV_HASH = 2,   /* hash table that grows bucket by bucket; no order */
  NVM_KV_BTREE = 3,  /* in the order of the keys' bytes */
  NVM_KV_RBTREE = 4  /* the same; keys of 8 bytes only.  To measure with: use the B+tree. */
};

#define NVM_KV_KEY_MAX 65535u        /* bytes; a key may be empty */
#define NVM_KV_VALUE_MAX 1073741824u /* bytes; what the log of the pool takes may be less (NVM_E_LOG_FULL) */
#define NVM_KV_NAME_MAX 255u         /* bytes of a store's name, at least 1; no byte may be 0 */

enum nvm_kv_open_mode {
  NVM_KV_OPEN_OR_CREATE = 0,
  NVM_KV_OPEN_ONLY = 1,  /* NVM_E_NOT_FOUND if there is no such store */
  NVM_KV_CREATE_ONLY = 2 /* NVM_E_EXISTS if there is */
};
/* Zero-initialise, then set what matters. */
typedef struct nvm_kv_options {
  uint32_t index; /* enum nvm_kv_index; another one than the stored one: NVM_E_TYPE_MISMATCH, naming both */
  uint32_t mode;  /* enum nvm_kv_open_mode */
  uint32_t flags; /* enum nvm_kv_open_flags */
  uint32_t reserved_flags;
  uint64_t reserved[5];
} nvm_kv_options;
/* Every entry has a checksum of its key, its value and its place: damage by a medium, or by a program that writes where
 * it should not, is told and not taken for data.  The sum is written with the entry, at the cost of 8 bytes.  It is
 * looked at by whatever reads entries in bulk (cursors, scans, nvm_kv_get_statistics(), the check of a pool), and by
 * nvm_kv_update(); by nvm_kv_get() and nvm_kv_visit() with NVM_KV_VERIFY_READS alone, since there it costs a few per
 * cent.  What is damaged is NVM_E_CORRUPT, and the message names key and place. */
enum nvm_kv_open_flags {
  NVM_KV_NO_CHECKSUMS = 1, /* a store that is made has none; one that is there is as it was made */
  NVM_KV_VERIFY_READS = 2 /* reading one entry looks at its checksum, with every handle of the store while it is open */
};

/* Opens a store of the pool; NULL options: all zero.  Stores are opened, listed, renamed and dropped before a
 * transaction of this thread or after it; inside the call fails (NVM_E_TX_OPEN), and that is rolled back.  A handle is
 * good until it has been closed as often as it was opened, or its pool is closed: calls fail then (NVM_E_INVALID).  The
 * same store opened twice is the same store. */
NVM_API nvm_kv *nvm_kv_open(NVM_POOL *pool, const char *name, const nvm_kv_options *options);
/* Also after the pool was closed.  -1 (NVM_E_INVALID): it is closed already. */
NVM_API int nvm_kv_close(nvm_kv *kv);
/* NULL and "" of a store that is NULL. */
NVM_API NVM_POOL *nvm_kv_pool(const nvm_kv *kv);
NVM_API const char *nvm_kv_name(const nvm_kv *kv);
NVM_API enum nvm_kv_index nvm_kv_index_of(const nvm_kv *kv);
NVM_API int nvm_kv_has_checksums(const nvm_kv *kv); /* 1 or 0 */
/* "list", "hash", "btree", "rbtree"; NULL for anything else. */
NVM_API const char *nvm_kv_index_name(int index);

/* ---- one entry ----
 * A key or value over its limit is NVM_E_TOO_LARGE, a full pool NVM_E_NO_SPACE; nothing is changed then.  Inside a
 * transaction of the caller a failure that is not about an argument leaves only rolling that back, as nvm_stm_alloc()
 * does.  Keys and values that are given are private memory of the caller, not shared memory of a transaction. */

/* Puts an entry in, or gives it another value. */
NVM_API int nvm_kv_put(nvm_kv *kv, const void *key, size_t key_bytes, const void *value, size_t value_bytes);
enum nvm_kv_put_flags {
  NVM_KV_PUT_ABSENT = 1,  /* NVM_E_EXISTS if there is an entry with this key, which stays as it is */
  NVM_KV_PUT_PRESENT = 2, /* NVM_E_NOT_FOUND if there is none */
  /* The caller knows that there is none: a list need not look.  If there is one, a list has both from then on and shows
   * the newer one first; the other indexes change the value. */
  NVM_KV_PUT_NEW = 4
};
NVM_API int nvm_kv_put_with(nvm_kv *kv, const void *key, size_t key_bytes, const void *value, size_t value_bytes,
                            unsigned flags);
/* 1: found; up to `room` bytes of the value are in `value`, all its bytes are counted in *value_bytes (may be NULL).
 * 0: there is none.  -1: failed. */
NVM_API int nvm_kv_get(nvm_kv *kv, const void *key, size_t key_bytes, void *value, size_t room, size_t *value_bytes);
/* The same, calling visit() with a copy of the value that is valid during the call.  It is called once, after the value
 * has been read; it may use the store. */
NVM_API int nvm_kv_visit(nvm_kv *kv, const void *key, size_t key_bytes,
                         void (*visit)(const void *value, size_t value_bytes, void *argument), void *argument);
/* 1: removed.  0: there was none.  -1: failed. */
NVM_API int nvm_kv_remove(nvm_kv *kv, const void *key, size_t key_bytes);
/* Changes a value: edit() gets a copy in `value`, of *value_bytes bytes in room for `room`, changes it, sets
 * *value_bytes if the size changes, and returns 0; or non-zero for no change.  The room is at least `room_wanted`.  1:
 * changed, or left as it was by edit(); 0: there is none, edit() was not called; -1: failed.
 * Nobody changes the entry between reading and writing; where somebody tries, edit() is called again with the new
 * value, so that it should do nothing but change its copy. */
NVM_API int nvm_kv_update(nvm_kv *kv, const void *key, size_t key_bytes, size_t room_wanted,
                          int (*edit)(void *value, size_t *value_bytes, size_t room, void *argument), void *argument);

/* ---- many entries ---- */

/* Calls that happen together or not at all, in the order given, later ones seeing earlier ones; on stores of one pool.
 * 0, or -1 and nothing has changed (but see NVM_E_IN_DOUBT above); then *failed (may be NULL) is the index of the
 * operation that failed. */
enum nvm_kv_operation_kind { NVM_KV_PUT = 1, NVM_KV_REMOVE = 2 };
typedef struct nvm_kv_operation {
  nvm_kv *kv;
  uint32_t kind;  /* enum nvm_kv_operation_kind */
  uint32_t flags; /* of nvm_kv_put_with() */
  const void *key;
  size_t key_bytes;
  const void *value;
  size_t value_bytes;
} nvm_kv_operation;
NVM_API int nvm_kv_batch(NVM_POOL *pool, const nvm_kv_operation *operations, size_t count, size_t *failed);

/* Entries one after the other: of trees in the order of keys, of lists newest first, of hash tables in an order that
 * means nothing.
 *
 * A cursor reads a few entries at a time and finds its place again by itself, so that the store may change meanwhile,
 * also by the thread that has the cursor: entries that are there from its opening to its end are met exactly once;
 * entries put in, changed or removed in between may be met as they were or as they are, or not.  Used in a transaction
 * of the caller it sees one state of the store. */
typedef struct nvm_kv_range {
  const void *from; /* NULL: from the first, backward from the last.  Trees only. */
  size_t from_bytes;
  const void
      *to; /* NULL: to the end; else the first key, in the direction of the scan, that is not met.  Trees only. */
  size_t to_bytes;
  uint64_t limit;       /* entries; 0: all */
  uint32_t backward;    /* 1: from larger to smaller keys.  Trees only. */
  uint32_t exclusive;   /* 1: `from` itself is not met */
  uint64_t reserved[4]; /* zero */
} nvm_kv_range;
typedef struct nvm_kv_cursor nvm_kv_cursor;
/* NULL range: everything.  A cursor belongs to one thread at a time.  When its store or its pool has been closed it
 * gives no more entries (-1), and is closed all the same. */
NVM_API nvm_kv_cursor *nvm_kv_cursor_open(nvm_kv *kv, const nvm_kv_range *range);
typedef struct nvm_kv_entry {
  const void *key; /* copies, valid until the next call with the cursor */
  size_t key_bytes;
  const void *value;
  size_t value_bytes;
} nvm_kv_entry;
/* 1: *entry is the next one.  0: there are no more.  -1: failed.
 * An entry that is damaged (NVM_E_CORRUPT) is passed over, and all others are met; then the end is -1 in place of 0,
 * and the message counts what was passed over and names the first.  A link that is damaged ends the walk at once. */
NVM_API int nvm_kv_cursor_next(nvm_kv_cursor *cursor, nvm_kv_entry *entry);
NVM_API void nvm_kv_cursor_close(nvm_kv_cursor *cursor);
/* Calls visit() for each entry until it returns non-zero; returns that value, 0 at the end, -1 on failure, which with
 * damaged entries comes after all others, as for nvm_kv_cursor_next().  A visit() that has to be told from a failure
 * returns positive numbers. */
NVM_API int nvm_kv_scan(nvm_kv *kv, const nvm_kv_range *range, int (*visit)(const nvm_kv_entry *entry, void *argument),
                        void *argument);

/* ---- knowing about a store ---- */

/* Number of entries.  -1: failed. */
NVM_API int64_t nvm_kv_size(nvm_kv *kv);
typedef struct nvm_kv_statistics {
  uint32_t index; /* enum nvm_kv_index */
  uint32_t depth; /* trees: nodes from the root to an entry; hash: level; 0 when empty */
  uint64_t entries, key_bytes, value_bytes;
  uint64_t buckets, overflow_buckets, longest_chain; /* hash: buckets in use, in one chain at most */
  uint64_t leaves, inner_nodes;                      /* B+tree */
  double load;                                       /* entries a slot of the index; 0 for list and red-black tree */
  uint64_t checksums;                                /* 1: entries have them */
  uint64_t reserved[5];
} nvm_kv_statistics;
/* Walks the whole store in one transaction, and checks it: -1 (NVM_E_CORRUPT, naming the place) if anything is not as
 * it must be.  Cost: reads every key, and every value that has a checksum. */
NVM_API int nvm_kv_get_statistics(nvm_kv *kv, nvm_kv_statistics *out);

/* What there is to say for an entry that was salvaged. */
enum nvm_kv_proof {
  NVM_KV_LED_TO = 1,  /* links lead there, and its checksum holds */
  NVM_KV_SWEPT = 2,   /* no sound link leads there; its checksum says that it is of this store */
  NVM_KV_UNPROVED = 3 /* links lead there; the store has no checksums, or nothing is left to compare them with */
};
typedef struct nvm_kv_salvage_options {
  void (*entry)(const nvm_kv_entry *entry, enum nvm_kv_proof proof, void *argument);
  /* What is damaged or not there any more: its place, its key as far as it can be read (else NULL), a sentence. */
  void (*lost)(uint64_t place, const void *key, size_t key_bytes, const char *what, void *argument);
  void *argument;
  uint64_t reserved[4]; /* zero */
} nvm_kv_salvage_options;
/* Reads what can be read of a store in a pool file that nobody has open for change, also of one that does not open: it
 * follows links as far as they are sound, then looks through all records of the pool for the store's.  The file is not
 * changed.  Returns how often lost() had something to say, 0: the store is whole; -1: nothing could be read
 * (NVM_E_NOT_FOUND: no store of that name).  Cost: reads the whole pool; memory for the keys of the store. */
NVM_API int64_t nvm_kv_salvage(const char *path, const char *store, const nvm_kv_salvage_options *options);

/* Calls visit() with name and index of each store of the pool, in the order of names, until it returns non-zero;
 * returns that value.  -1: failed, unless visit() has returned it. */
NVM_API int nvm_kv_each(NVM_POOL *pool, int (*visit)(const char *name, enum nvm_kv_index index, void *argument),
                        void *argument);
/* Removes a store and all that is in it.  Its name is gone at once, its entries one batch after the other: if the
 * process dies meanwhile, the next one that opens a store of the pool goes on.  NVM_E_BUSY: it is open. */
NVM_API int nvm_kv_drop(NVM_POOL *pool, const char *name);
/* Gives a store another name; if there is a store of that name, it takes its place, and the other one is dropped.  Both
 * are one step.  NVM_E_BUSY: one of the two is open. */
NVM_API int nvm_kv_rename(NVM_POOL *pool, const char *name, const char *new_name);

#ifdef __cplusplus
}
#endif
#endif
