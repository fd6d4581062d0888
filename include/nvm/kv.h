/* Holdfast: key-value stores in a pool.  Public C interface (C11).
 *
 * A pool holds any number of stores, each with a name and an index of its own.  Keys and values are bytes.  Every call
 * is a barrier transaction (nvm/stm.h): any number of threads may work on the same store, and a change is durable when
 * its call returns.  Inside a transaction of the caller, nvm_stm_run() or nvm::atomic(), a call is part of that
 * transaction: it happens when that commits, and calls on several stores of the pool happen together or not at all.
 *
 * Failures.  A call that fails has changed nothing.  The one exception is NVM_E_IN_DOUBT: the sync failed, other
 * threads see the changes, and the next open finds all of them or none (nvm_tx_commit()).  In a pool that has failed
 * like that, calls that change something fail with NVM_E_IO, and so do those that read what may be lost.
 *
 * Regions.  A store of index regions takes part in no transaction.  A call on it inside a transaction of the caller
 * fails (NVM_E_TX_OPEN), and that transaction is rolled back; each call is atomic by itself.  A batch is on that store
 * alone (NVM_E_INVALID).  Reads take no lock.  Not in pools of the engine `log` (NVM_E_ENGINE).
 *
 * The pool's root remains the program's.  One process at a time can have a pool open, and with it its stores.
 */
#ifndef NVM_KV_H
#define NVM_KV_H

#include "nvm/nvm.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nvm_kv nvm_kv; /* an open store; may be used by any thread */

enum nvm_kv_index {
  NVM_KV_DETECT = 0, /* the store's own; a new store gets a B+tree */
  NVM_KV_LIST = 1,   /* newest entry first; finding an entry passes all newer ones */
  NVM_KV_HASH = 2,   /* hash table that grows bucket by bucket; no order */
  NVM_KV_BTREE = 3,  /* in the order of the keys' bytes */
  NVM_KV_RBTREE = 4, /* the same order; keys of 8 bytes only.  For measurements: programs use the B+tree. */
  /* Regions (nvm/region.h): a large entry is one, small ones are packed eight and more into one; no order.  A value
   * that keeps its size is changed in place: 16 bytes of 2 KB are one record and one fence.  See "Regions" above. */
  NVM_KV_REGIONS = 5
};

#define NVM_KV_KEY_MAX 65535u        /* bytes; a key may be empty */
#define NVM_KV_VALUE_MAX 1073741824u /* bytes; the pool's log may take less (NVM_E_LOG_FULL) */
#define NVM_KV_NAME_MAX 255u         /* bytes of a store's name, at least 1; no byte may be 0 */

enum nvm_kv_open_mode {
  NVM_KV_OPEN_OR_CREATE = 0,
  NVM_KV_OPEN_ONLY = 1,  /* NVM_E_NOT_FOUND if there is no such store */
  NVM_KV_CREATE_ONLY = 2 /* NVM_E_EXISTS if there is */
};
/* Zero-initialise, then set what matters. */
typedef struct nvm_kv_options {
  uint32_t index;        /* enum nvm_kv_index; another one than the stored one: NVM_E_TYPE_MISMATCH, naming both */
  uint32_t mode;         /* enum nvm_kv_open_mode */
  uint32_t flags;        /* enum nvm_kv_open_flags */
  uint32_t struct_bytes; /* sizeof(nvm_kv_options), or 0: "Options" in nvm/nvm.h; so in what follows here */
  uint64_t reserved[5];
} nvm_kv_options;
/* Every entry has a checksum of its key, its value and its place.  It finds damage by a medium, or by a program that
 * writes where it should not.  The sum is written with the entry and takes 8 bytes.  It is compared by all that reads
 * entries in bulk (cursors, scans, nvm_kv_get_statistics(), the check of a pool), and by nvm_kv_update().  nvm_kv_get()
 * and nvm_kv_visit() compare it with NVM_KV_VERIFY_READS only, since it costs them a few per cent.  A damaged entry is
 * NVM_E_CORRUPT, and the message names key and place. */
enum nvm_kv_open_flags {
  NVM_KV_NO_CHECKSUMS = 1, /* a new store has none; an existing one stays as it was made */
  NVM_KV_VERIFY_READS = 2 /* reading one entry looks at its checksum, with every handle of the store while it is open */
};

/* Opens a store of the pool; NULL options: all zero.  Stores are opened, listed, renamed and dropped outside of this
 * thread's transactions; inside one the call fails (NVM_E_TX_OPEN), and the transaction is rolled back.  A handle is
 * good until it has been closed as often as it was opened, or its pool is closed; later calls fail (NVM_E_INVALID).
 * The same store opened twice is the same store.  Each store that was open and is then dropped, renamed or replaced
 * costs some 400 bytes of memory until its pool is closed, so that calls with its handles are refused; one of index
 * hash costs up to 16 bytes more for each 64 of its buckets. */
NVM_API nvm_kv *nvm_kv_open(NVM_POOL *pool, const char *name, const nvm_kv_options *options);
/* Closes a store, also after its pool was closed.  -1 (NVM_E_INVALID): it is closed already. */
NVM_API int nvm_kv_close(nvm_kv *kv);
/* The pool and the name; NULL and "" for a NULL store. */
NVM_API NVM_POOL *nvm_kv_pool(const nvm_kv *kv);
NVM_API const char *nvm_kv_name(const nvm_kv *kv);
NVM_API enum nvm_kv_index nvm_kv_index_of(const nvm_kv *kv);
NVM_API int nvm_kv_has_checksums(const nvm_kv *kv); /* 1 or 0 */
/* "list", "hash", "btree", "rbtree", "regions"; NULL for anything else. */
NVM_API const char *nvm_kv_index_name(int index);

/* ---- one entry ----
 * A key or value over its limit is NVM_E_TOO_LARGE, a full pool NVM_E_NO_SPACE; both change nothing.  Inside a
 * transaction of the caller, a failure that is not about an argument allows only abort, as for nvm_stm_alloc().  Keys
 * and values that the caller passes are its private memory, not shared memory of a transaction. */

/* Puts an entry in, or gives it another value. */
NVM_API int nvm_kv_put(nvm_kv *kv, const void *key, size_t key_bytes, const void *value, size_t value_bytes);
enum nvm_kv_put_flags {
  NVM_KV_PUT_ABSENT = 1,  /* NVM_E_EXISTS if there is an entry with this key, which stays as it is */
  NVM_KV_PUT_PRESENT = 2, /* NVM_E_NOT_FOUND if there is none */
  /* The caller promises that the key is new: a list does not search.  If the promise is wrong, a list has both entries
   * and shows the newer one first; the other indexes change the value. */
  NVM_KV_PUT_NEW = 4
};
NVM_API int nvm_kv_put_with(nvm_kv *kv, const void *key, size_t key_bytes, const void *value, size_t value_bytes,
                            unsigned flags);
/* 1: found; up to `room` bytes of the value are in `value`, all its bytes are counted in *value_bytes (may be NULL).
 * 0: there is none.  -1: failed. */
NVM_API int nvm_kv_get(nvm_kv *kv, const void *key, size_t key_bytes, void *value, size_t room, size_t *value_bytes);
/* The same, but calls visit() once with a copy of the value, which is valid during that call.  The value has been read
 * then: visit() may use the store. */
NVM_API int nvm_kv_visit(nvm_kv *kv, const void *key, size_t key_bytes,
                         void (*visit)(const void *value, size_t value_bytes, void *argument), void *argument);
/* 1: removed.  0: there was none.  -1: failed. */
NVM_API int nvm_kv_remove(nvm_kv *kv, const void *key, size_t key_bytes);
/* Changes a value.  edit() gets a copy in `value`, of *value_bytes bytes in room for `room`, which is at least
 * `room_wanted`.  It changes the copy, sets *value_bytes if the size changes, and returns 0; non-zero: no change.
 * 1: changed, or left as it was by edit(); 0: there is no entry, edit() was not called; -1: failed.
 * The change is atomic: if another thread changes the entry meanwhile, edit() is called again with the new value, so it
 * should do nothing but change its copy. */
NVM_API int nvm_kv_update(nvm_kv *kv, const void *key, size_t key_bytes, size_t room_wanted,
                          int (*edit)(void *value, size_t *value_bytes, size_t room, void *argument), void *argument);

/* ---- many entries ---- */

/* Operations on stores of one pool that happen together or not at all, in the order given; later ones see earlier ones.
 * With a store of index regions all are on that store, and on ssd take half of the log at most (NVM_E_LOG_FULL).
 * 0; or -1, and nothing has changed (but see NVM_E_IN_DOUBT above): *failed (may be NULL) is the index of the operation
 * that failed, or `count` where all could be done and the commit failed. */
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

/* Entries one after the other: of trees in the order of keys, of lists newest first, of hash tables in any order.
 *
 * A cursor reads a few entries at a time and finds its place again by itself.  The store may change meanwhile, also by
 * the thread that has the cursor.  Entries that are there from its opening to its end are met exactly once; entries put
 * in, changed or removed meanwhile may be met in their old state, in their new one, or not at all.  Inside a
 * transaction of the caller a cursor sees one state of the store. */
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
/* NULL range: everything.  A cursor belongs to one thread at a time.  After its store or its pool was closed it gives
 * no more entries (-1); it still has to be closed. */
NVM_API nvm_kv_cursor *nvm_kv_cursor_open(nvm_kv *kv, const nvm_kv_range *range);
typedef struct nvm_kv_entry {
  const void *key; /* copies, valid until the next call with the cursor */
  size_t key_bytes;
  const void *value;
  size_t value_bytes;
} nvm_kv_entry;
/* 1: *entry is the next one.  0: there are no more.  -1: failed.
 * A damaged entry (NVM_E_CORRUPT) is passed over, and all others are met; the end is then -1 in place of 0, with a
 * message that counts the damaged entries and names the first.  A damaged link ends the walk at once. */
NVM_API int nvm_kv_cursor_next(nvm_kv_cursor *cursor, nvm_kv_entry *entry);
NVM_API void nvm_kv_cursor_close(nvm_kv_cursor *cursor);
/* Calls visit() for each entry until it returns non-zero; returns that value, 0 at the end, -1 on failure.  Damaged
 * entries give -1 after all others were met, as for nvm_kv_cursor_next().  visit() should return positive numbers,
 * which cannot be taken for a failure. */
NVM_API int nvm_kv_scan(nvm_kv *kv, const nvm_kv_range *range, int (*visit)(const nvm_kv_entry *entry, void *argument),
                        void *argument);

/* ---- knowing about a store ---- */

/* Number of entries.  -1: failed. */
NVM_API int64_t nvm_kv_size(nvm_kv *kv);
typedef struct nvm_kv_statistics {
  uint32_t index; /* enum nvm_kv_index */
  uint32_t depth; /* trees: nodes from the root to an entry; hash: level; regions: bits of a bucket; 0 when empty */
  uint64_t entries, key_bytes, value_bytes;
  uint64_t buckets, overflow_buckets, longest_chain; /* hash: buckets in use, in one chain at most */
  uint64_t leaves, inner_nodes;                      /* B+tree */
  double load;          /* entries a slot of the index, or a region; 0 for list and red-black tree */
  uint64_t checksums;   /* 1: entries have them */
  uint64_t own_regions; /* regions: with one entry each; others are in `buckets` */
  uint64_t reserved[4];
} nvm_kv_statistics;
/* Walks the whole store in one transaction, and checks it: -1 (NVM_E_CORRUPT, naming the place) if anything is wrong.
 * Cost: reads every key, and every value that has a checksum.  In a store of regions each part is looked at in its own
 * moment. */
NVM_API int nvm_kv_get_statistics(nvm_kv *kv, nvm_kv_statistics *out);

/* Evidence for an entry that was salvaged. */
enum nvm_kv_proof {
  NVM_KV_LED_TO = 1,  /* links lead there, and its checksum holds */
  NVM_KV_SWEPT = 2,   /* no sound link leads there; its checksum says that it is of this store */
  NVM_KV_UNPROVED = 3 /* links lead there; the store has no checksums, or nothing is left to compare them with */
};
typedef struct nvm_kv_salvage_options {
  void (*entry)(const nvm_kv_entry *entry, enum nvm_kv_proof proof, void *argument);
  /* Something damaged or missing: its place, its key as far as it can be read (else NULL), a sentence.  Also called for
   * a file that is a copy of a pool in use, which may be torn (NVM_E_COPY), unless HOLDFAST_ACCEPT_COPY=1 says that it
   * is none. */
  void (*lost)(uint64_t place, const void *key, size_t key_bytes, const char *what, void *argument);
  void *argument;
  uint64_t struct_bytes;
  uint64_t reserved[3]; /* zero */
} nvm_kv_salvage_options;
/* Reads what can be read of a store, also in a pool file that does not open; no process may have it open for change.
 * The call follows links as far as they are sound, then searches all records of the pool for those of the store.  It
 * does not change the file.  A page that cannot be read counts as zeros, and is told once, with the place 0.  Returns
 * how often it called lost(), 0: the store is whole; -1: nothing could be read (NVM_E_NOT_FOUND: no store of that
 * name).  Cost: reads the whole pool; memory for the keys of the store. */
NVM_API int64_t nvm_kv_salvage(const char *path, const char *store, const nvm_kv_salvage_options *options);

/* Calls visit() with name and index of each store of the pool, in the order of names, until it returns non-zero;
 * returns that value.  -1: visit() returned it, or the call failed. */
NVM_API int nvm_kv_each(NVM_POOL *pool, int (*visit)(const char *name, enum nvm_kv_index index, void *argument),
                        void *argument);
/* Removes a store with its entries.  Its name disappears at once, its entries one batch after the other: if the process
 * dies meanwhile, the next process that opens a store of the pool goes on.  0 once the name is gone, also where entries
 * cannot be freed now, because they are damaged or memory is short: a later call tries again.  -1: nothing has changed,
 * unless it is NVM_E_IN_DOUBT.  NVM_E_BUSY: the store is open. */
NVM_API int nvm_kv_drop(NVM_POOL *pool, const char *name);
/* Zero-initialise, then set what matters. */
typedef struct nvm_kv_drop_options {
  /* Called now and then by the calling thread: entries that are gone, of all.  It may call nothing on the pool. */
  void (*progress)(uint64_t done, uint64_t total, void *argument);
  void *argument;
  uint64_t struct_bytes;
  uint64_t reserved[3]; /* zero */
} nvm_kv_drop_options;
/* The same; NULL options: all zero. */
NVM_API int nvm_kv_drop_with(NVM_POOL *pool, const char *name, const nvm_kv_drop_options *options);
/* Gives a store another name.  A store that has the new name already is dropped in the same step, as by nvm_kv_drop().
 * -1: nothing has changed, as there.  NVM_E_BUSY: one of the two is open. */
NVM_API int nvm_kv_rename(NVM_POOL *pool, const char *name, const char *new_name);

#ifdef __cplusplus
}
#endif
#endif
