/* Holdfast: object stores, heaps with a name, rights and pages of their own inside of a pool (HEAPO, section II-A).
 * Public C interface (C11).
 *
 *   nvm_store_create(pool, "tenant/17", NULL);
 *   nvm_store *s = nvm_store_attach(pool, "tenant/17", 0);
 *   nvm_tx_begin(pool);
 *   struct account *a = nvm_store_alloc(s, NVM_TYPE_ID(account), sizeof *a);
 *   a->balance = 100;
 *   nvm_store_set_root(s, a);
 *   nvm_tx_commit(pool);
 *   nvm_store_detach(s);
 *
 * A store has objects, a root, and clusters of pages that hold nothing else.  It begins as one page and grows by
 * itself, up to its quota.  Its objects take part in the transactions of its pool, which span stores: one commit, all
 * or nothing.  nvm_free(), nvm_realloc(), nvm_tx_log() and all other calls about objects take them by their address.
 *
 * A store has to be attached before its objects are touched.  Pages of stores that no thread has attached cannot be
 * accessed, pages of stores that are attached read-only cannot be written: a stray pointer traps there (SIGSEGV) before
 * it reads or changes a byte.  Pages lose access when no transaction can still write to them, at the latest in the
 * first call about stores after that.  Calls that are given an address in a store that is not attached, nvm_tx_log()
 * and stores by barriers included, change nothing and fail with NVM_E_BAD_POINTER; those that would change something of
 * a store that is attached read-only fail with NVM_E_READ_ONLY and its name.  Both hold where pages are not protected,
 * too.  docs/stores.md says what this protects from, and what it does not.
 *
 * Rights.  A store has an owner, a group and nine permission bits, which are asked as those of a file: attaching
 * read-only needs `r`, else `r` and `w`.  Names are the owner's, as in a folder with the sticky bit.  The ids are the
 * effective ones of the process; user 0 may do everything.  The mode of the pool's file keeps other processes out.
 *
 * Pointers from store to store.  A pointer stored in one store into another leads nowhere while that one is not
 * attached: name the object by its nvm_store_ref.  Checked builds refuse such pointers, and `holdfast check` finds
 * them.
 *
 * Durability.  On return of a call what it did is durable, or nothing of it was done; calls that are part of a
 * transaction say so.  NVM_E_IN_DOUBT: the next open finds it or not.  Errors are 0 or -1, or a pointer or NULL, with
 * nvm_errno().  Calls that create, delete, rename, or change rights or quota are refused inside of transactions
 * (NVM_E_TX_OPEN).
 *
 * Threads.  Any, at once.  Pools of the engine `log` have no stores: NVM_E_ENGINE.  In a pool that is open read-only
 * stores can be attached read-only and listed.  A pool that has ever had a store is refused by libraries that do not
 * know them.
 */
#ifndef NVM_STORE_H
#define NVM_STORE_H

#include "nvm/nvm.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NVM_STORE_NAME_MAX 255u /* bytes of a name: any but zero, at least one */

struct nvm_stm; /* nvm/stm.h */

/* An attached store.  The handle is valid until the store is detached as often as it was attached, or its pool is
 * closed; after that calls with it are refused (NVM_E_INVALID) until some hundred others have been detached. */
typedef struct nvm_store nvm_store;

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* Zero-initialise, then set what matters. */
typedef struct nvm_store_options {
  uint32_t mode;         /* permission bits; 0: 0600 */
  uint32_t struct_bytes; /* sizeof(nvm_store_options), or 0: "Options" in nvm/nvm.h; so in what follows here */
  uint64_t quota;        /* bytes that the store's pages may take, headers counted; 0: as many as the pool has */
  uint64_t reserved[4];  /* zero */
} nvm_store_options;

/* Makes a store of one page, owned by the process's effective user and group.  One transaction, name included: three
 * fences.  NVM_E_EXISTS; NVM_E_INVALID: a name that is empty, longer than NVM_STORE_NAME_MAX bytes; NVM_E_NO_SPACE. */
NVM_API int nvm_store_create(NVM_POOL *pool, const char *name, const nvm_store_options *options);
/* Takes the name away in one transaction, then frees the store's clusters, 64 to a transaction.  A process that ends
 * meanwhile leaves clusters that later calls free, and so does a call that cannot free them now: it is 0 once the name
 * is gone.  NVM_E_NOT_FOUND; NVM_E_BUSY: it is attached, and the message says
 * how often; NVM_E_SYSTEM with errno EPERM: this process is not its owner.  Needs no room: a full pool lets one delete.
 * */
NVM_API int nvm_store_delete(NVM_POOL *pool, const char *name);
/* Gives a store another name, in one transaction; a store that had that name is deleted, as by nvm_store_delete().
 * Errors as there, of either store. */
NVM_API int nvm_store_rename(NVM_POOL *pool, const char *name, const char *new_name);

typedef struct nvm_store_info {
  const char *name;      /* valid during the visit; of nvm_store_stat() the caller's */
  uint32_t number;       /* never used twice in a pool */
  uint32_t owner, group; /* as of a file */
  uint32_t mode;         /* permission bits */
  uint64_t created;      /* seconds since 1970 */
  uint64_t pages;        /* pages that it has */
  uint64_t page_bytes;   /* of one */
  uint64_t clusters;     /* runs of pages */
  uint64_t objects;      /* committed */
  uint64_t used_bytes;   /* by objects, whole slots and pages */
  uint64_t quota;        /* bytes; 0: none */
  uint64_t root;         /* offset of the root in the pool; 0: none */
  uint32_t attached;     /* how often, in this process */
  uint32_t read_only;    /* 1: attached read-only */
  uint64_t key_values;   /* offset of the directory of its own key-value stores (nvm/store_kv.h); 0: none was made */
  uint64_t structures;   /* the same of its own lock-free structures (nvm/store_lockfree.h) */
  uint64_t reserved[2];
} nvm_store_info;

/* Calls visit(info, argument) for each store whose name begins with `prefix` (NULL: for all), in the order of names,
 * until it returns non-zero, which is the result; a visitor should stop with a number above 0.  Names come in parts of
 * some hundred, each of one moment; the visitor may call anything.  Costs the pages of all these stores: with
 * nvm_store_names() only their names. */
NVM_API int nvm_store_list(NVM_POOL *pool, const char *prefix, int (*visit)(const nvm_store_info *info, void *argument),
                           void *argument);
NVM_API int nvm_store_names(NVM_POOL *pool, const char *prefix, int (*visit)(const char *name, void *argument),
                            void *argument);
/* NVM_E_NOT_FOUND.  Costs the store's pages. */
NVM_API int nvm_store_stat(NVM_POOL *pool, const char *name, nvm_store_info *out);

/* ---- rights ------------------------------------------------------------------------------------------------------ */

/* Takes effect with the next attach.  NVM_E_NOT_FOUND; NVM_E_SYSTEM with errno EPERM: this process may not. */
NVM_API int nvm_store_chmod(NVM_POOL *pool, const char *name, uint32_t mode);
/* UINT32_MAX leaves an id as it is.  As chown(2): user 0 may give a store to anybody, an owner to a group of his. */
NVM_API int nvm_store_chown(NVM_POOL *pool, const char *name, uint32_t owner, uint32_t group);
/* Bytes, 0: none.  NVM_E_INVALID: it has more already, and the message says how much. */
NVM_API int nvm_store_quota(NVM_POOL *pool, const char *name, uint64_t bytes);

/* ---- attached stores --------------------------------------------------------------------------------------------- */

enum nvm_store_flags {
  /* Its objects can be read, and nothing of it changes but by transactions that were open when it was detached. */
  NVM_STORE_READ_ONLY = 1,
  NVM_STORE_CREATE = 2 /* made, with default options, if there is none of the name */
};
/* Attaches a store, in time proportional to its size: its clusters and their maps are read, objects are not.  A store
 * that is attached in the same way already gives the same handle again.  NVM_E_NOT_FOUND; NVM_E_SYSTEM with errno
 * EACCES: the store's rights do not allow it; NVM_E_READ_ONLY: the pool is open read-only; NVM_E_BUSY: it is attached
 * in another way; NVM_E_CORRUPT names what is damaged. */
NVM_API nvm_store *nvm_store_attach(NVM_POOL *pool, const char *name, unsigned flags);
/* Gives the store up once it was called as often as nvm_store_attach().  NVM_E_BUSY, and it stays attached: an open
 * transaction has allocated or freed an object in it, or a key-value store in it is open (nvm/store_kv.h), or a
 * lock-free structure (nvm/store_lockfree.h).  Pointers into it lead nowhere from then on; what open transactions have
 * stored there is committed or rolled back with them. */
NVM_API int nvm_store_detach(nvm_store *store);

/* The attached store of that name; NULL: the program has not attached it, and this is no error.  A look into a hash
 * table. */
NVM_API nvm_store *nvm_store_find(NVM_POOL *pool, const char *name);
NVM_API const char *nvm_store_name(const nvm_store *store);
NVM_API uint32_t nvm_store_number(const nvm_store *store);
NVM_API NVM_POOL *nvm_store_pool(const nvm_store *store);
/* The attached store that an address lies in; NULL: none, and this is no error. */
NVM_API nvm_store *nvm_store_of(const void *p);

/* The store's own root, an object of it; NULL: none.  nvm_store_set_root() is part of the thread's transaction in the
 * pool; without one it is a transaction by itself.  NVM_E_BAD_POINTER: the object is none of the store's. */
NVM_API void *nvm_store_get_root(nvm_store *store);
NVM_API int nvm_store_set_root(nvm_store *store, void *object);

/* As nvm_alloc(), nvm_calloc(), nvm_strdup() (whose object is a text), in the store: they need a transaction of this
 * thread in its pool.  NVM_E_NO_SPACE: the pool is full, or the quota is used up, and the message says which.  A
 * request that the store's pages have no room for makes it grow, in two or three fences, whatever becomes of the
 * transaction; other requests cost none. */
NVM_API void *nvm_store_alloc(nvm_store *store, uint32_t type_id, size_t size);
NVM_API void *nvm_store_calloc(nvm_store *store, uint32_t type_id, size_t count, size_t size);
NVM_API char *nvm_store_strdup(nvm_store *store, const char *text);
/* As nvm_stm_alloc() (nvm/stm.h), in a store that is attached for change and stays so until the barrier transaction has
 * ended: the object is private until the commit, and nvm_stm_free() frees it.  NULL: nvm_errno(), and the level can
 * only be rolled back: NVM_E_NO_SPACE as above; NVM_E_READ_ONLY; NVM_E_INVALID: the store is of another pool. */
NVM_API void *nvm_stm_store_alloc(struct nvm_stm *tx, nvm_store *store, uint32_t type_id, size_t size);
/* Gives pages that are empty back to the pool.  1: there were any; 0; -1. */
NVM_API int nvm_store_trim(nvm_store *store);

/* ---- references from store to store ------------------------------------------------------------------------------ */

/* A durable name of an object of any store, to be kept in objects of others: plain numbers, which no relocation
 * changes.  All zero: names nothing. */
typedef struct nvm_store_ref {
  uint64_t store; /* its number */
  uint64_t place; /* of the object in the pool */
} nvm_store_ref;
/* Of an object of an attached store; all zero, with nvm_errno(), for anything else. */
NVM_API nvm_store_ref nvm_store_ref_of(const void *object);
/* The object.  NULL: the reference names nothing (NVM_OK), its store is not attached (NVM_E_NOT_FOUND, with its
 * number), or has no object there (NVM_E_BAD_POINTER). */
NVM_API void *nvm_store_at(NVM_POOL *pool, nvm_store_ref ref);

/* ---- garbage ----------------------------------------------------------------------------------------------------- */

/* Objects of a store that neither its root nor a held object (nvm_hold) leads to, by pointers of described types
 * (docs/gc.md), are garbage.  Collections free it, a store at a time (HEAPO, section II-D).
 *
 * The program promises: a volatile pointer to an object is good until the transaction ends in which it was read, or
 * while the object is held; stores to objects are announced; pointers into a store from outside, and an nvm_store_ref,
 * keep nothing.  A store without a root is left alone.  Weak pointers keep objects here. */
enum nvm_store_collections {
  NVM_STORES_COLLECT_NOTHING = 1,
  /* Attached stores, in the thread that allocates, a fraction of a millisecond at a time: when a request makes a store
   * grow that has grown by half since its last collection, or finds no room (it fails; room comes with the next
   * transactions).  It waits for no other transaction, and frees only objects that no transaction which was open can
   * know. */
  NVM_STORES_COLLECT_LOCALLY = 2,
  /* Stores that are not attached and have changed since their last collection: by a thread of the library, if the
   * machine has time, in slices of less than a millisecond, with 2 % of a processor.  An attach ends it at once. */
  NVM_STORES_COLLECT_DETACHED = 4
};

typedef struct nvm_store_gc_options {
  uint32_t dry_run; /* 1: garbage is counted, nothing freed; the pool or store may be open read-only */
  uint32_t struct_bytes;
  uint64_t reserved[3]; /* zero */
} nvm_store_gc_options;
typedef struct nvm_store_gc_report {
  uint64_t objects; /* looked at */
  uint64_t reachable_objects, reachable_bytes;
  uint64_t garbage_objects, garbage_bytes; /* as asked for */
  uint64_t freed_objects, freed_bytes;
  uint64_t transactions;   /* that freed them, each durable or undone */
  uint64_t stray_pointers; /* into the store, to no object */
  uint64_t ns;
  uint64_t reserved[6];
} nvm_store_gc_report;
/* Collects one store now, attached or not, beside transactions of other threads; this thread has none.  On return what
 * was freed is durable; a crash meanwhile leaves a part of the garbage.  NVM_E_NOT_FOUND; NVM_E_SYSTEM with errno
 * EACCES: its rights do not allow it; NVM_E_TYPE_MISMATCH: an object of a type that nobody described can be reached;
 * NVM_E_BUSY: a transaction that was open has not ended for a second, or the store is being collected by another
 * thread; NVM_E_INVALID: the store has no root; NVM_E_CORRUPT; NVM_E_NO_MEMORY.
 * The library attaches the store meanwhile.  Where a transaction of another thread has allocated or freed an object in
 * it when the collection ends, it stays attached for the library; a later call about stores, if it is no look-up,
 * detaches it.  Until then it cannot be deleted, nor attached in another way (NVM_E_BUSY).
 * Key-value stores and lock-free structures of its own are never garbage, and their values keep nothing.  Costs a look
 * at each object, and 89 bytes of memory for each page. */
NVM_API int nvm_store_gc(NVM_POOL *pool, const char *name, const nvm_store_gc_options *options,
                         nvm_store_gc_report *report);

/* Collections of one kind since the pool was opened. */
typedef struct nvm_collection_counts {
  uint64_t begun;
  uint64_t finished;    /* everything that was garbage has been freed */
  uint64_t interrupted; /* by an attach, a detach, or another call about the store */
  uint64_t given_up;    /* too much changed meanwhile, no memory, damage, or the pool failed */
  uint64_t refused;     /* an object of an undescribed type can be reached: not tried again while it is attached */
  uint64_t garbage_objects, garbage_bytes;
  uint64_t freed_objects, freed_bytes;
  uint64_t slices;
  uint64_t ns;         /* spent in them */
  uint64_t longest_ns; /* one slice */
  uint64_t reserved[4];
} nvm_collection_counts;
typedef struct nvm_collection_statistics {
  nvm_collection_counts local;    /* of attached stores */
  nvm_collection_counts detached; /* of others */
  uint64_t rounds;                /* over detached stores */
  uint64_t rounds_put_off;        /* since the machine was busy */
  uint64_t reserved[6];
} nvm_collection_statistics;
NVM_API int nvm_stores_get_collections(NVM_POOL *pool, nvm_collection_statistics *out);

/* ---- the stores of a pool ---------------------------------------------------------------------------------------- */

enum nvm_store_protection {
  NVM_STORES_AS_THEY_ARE = 0,
  NVM_STORES_PROTECTED = 1,  /* at first */
  NVM_STORES_UNPROTECTED = 2 /* pages of detached stores stay accessible: an attach saves a few microseconds */
};
/* Zero-initialise, then set what matters. */
typedef struct nvm_stores_options {
  uint32_t protection; /* enum nvm_store_protection, of this process */
  uint32_t burst;      /* names that a container of the trie takes: 2 to 255; 0: 35.  Of a pool without a catalogue */
  uint32_t collect;    /* enum nvm_store_collections, of this process; 0: as it is */
  uint32_t collect_grown;     /* percent by which a store may grow before it is collected locally; 0: 50 */
  uint32_t collect_period_ms; /* from one round over detached stores to the next; 0: 5000 */
  uint32_t collect_load;      /* percent of all processors that may be busy while detached stores are collected,
                                 by the system's load average of a minute; 0: 50 */
  uint64_t struct_bytes;
  uint64_t reserved[3]; /* zero */
} nvm_stores_options;
/* NVM_E_EXISTS: `burst` is set, and the pool has a catalogue already.  NVM_E_READ_ONLY: `collect` in a pool that is
 * open read-only.  NVM_E_SYSTEM: no thread for detached stores. */
NVM_API int nvm_stores_configure(NVM_POOL *pool, const nvm_stores_options *options);

typedef struct nvm_stores_statistics {
  uint64_t names;
  uint64_t attached;         /* in this process */
  uint64_t dying;            /* deleted, and not freed yet */
  uint64_t closed_bytes;     /* that cannot be accessed */
  uint64_t read_only_bytes;  /* that cannot be written */
  uint64_t protected_ranges; /* mappings that this takes, neighbours taken together */
  uint64_t left_open_bytes;  /* that would be protected if the kernel allowed more mappings */
  uint32_t burst;            /* of the catalogue; 0: there is none */
  uint32_t given_up;         /* 1: nothing is protected any more, since the kernel refused to open a page */
  uint64_t protection_calls; /* of the kernel, since the pool was opened */
  uint64_t reserved[6];
} nvm_stores_statistics;
NVM_API int nvm_stores_get_statistics(NVM_POOL *pool, nvm_stores_statistics *out);

#ifdef __cplusplus
}
#endif
#endif
