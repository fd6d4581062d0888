/* Holdfast: the tracing collector (HEAPO, section II-D), and what it needs to know.  C11.
 *
 * What the root does not lead to is garbage.  A collection marks everything that can be reached and frees the rest:
 *
 *   nvm_gc_report r;
 *   if (nvm_gc(pool, NULL, &r) == 0) printf("%llu objects freed\n", (unsigned long long)r.freed_objects);
 *
 * It follows the pointers that type maps describe (NVM_PTR, holdfast-cc): from the root, from objects that are held
 * (nvm_hold()), and through all that these lead to.  A pointer may lead anywhere into an object.  Weak ones
 * (NVM_WEAK_PTR) keep nothing: those that lead to garbage become NULL before it is freed.  Never
 * garbage: what key-value stores, lock-free structures and regions consist of.  Their contents are bytes: an object
 * that is named only in a value of a store is garbage.
 *
 * Threads.  During nvm_gc() no other thread begins a transaction in the pool, and the program keeps no pointer to an
 * object that neither the root leads to nor nvm_hold() names.  A transaction that another thread commits meanwhile ends
 * the collection (NVM_E_BUSY) before anything else is freed.
 *
 * Beside transactions (nvm_gc_options.beside) threads go on as they like, and a volatile pointer is good until the
 * transaction ends in which it was read, or while its object is held (nvm_hold()).  Stores to objects are announced, or
 * those of barrier transactions.  What a transaction that is open may know is freed after it has ended.
 *
 * Crashes.  Marks are volatile.  Weak pointers to garbage become NULL by ordinary transactions of at most 32, and then
 * garbage is freed by transactions of at most 256 objects: a crash leaves garbage, and nothing half done. */
#ifndef NVM_GC_H
#define NVM_GC_H

#include "nvm/nvm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A step of the way to a garbage object. */
typedef struct nvm_gc_step {
  void *object;  /* payload */
  uint32_t type; /* its type id */
  uint32_t reserved;
  uint64_t pointer; /* offset of the pointer in it that leads to the next step; of the last step: 0 */
} nvm_gc_step;

/* The garbage of one type. */
typedef struct nvm_gc_type {
  uint32_t type; /* id */
  uint32_t reserved;
  uint64_t objects;
  uint64_t bytes;    /* asked for */
  uint64_t unlinked; /* of the objects: no other garbage points to them */
  /* Only with `ways`: the shortest way to one of the objects, the last step, from garbage that no other garbage points
   * to, or from an object of a cycle.  The program unlinked the first step, or never linked it. */
  const nvm_gc_step *way;
  uint64_t steps; /* at most NVM_GC_STEPS_MAX; of a longer way the last ones */
} nvm_gc_type;
#define NVM_GC_STEPS_MAX 64

/* Where a pointer leads that leads to no object of its pool. */
enum nvm_gc_place {
  NVM_GC_NO_OBJECT = 1,  /* into the pool: the object there was freed, or never was */
  NVM_GC_OTHER_POOL = 2, /* to where pools lie, in no range of this one */
  NVM_GC_ELSEWHERE = 3   /* to memory of a process, or to nothing */
};
typedef struct nvm_gc_pointer {
  const void *object; /* payload of the object that has it */
  uint32_t type;      /* its type id */
  uint32_t kind;      /* enum nvm_field_kind: a pointer, a weak one or a static one */
  uint64_t at;        /* offset of the pointer in the object */
  uint64_t value;
  uint32_t place;   /* enum nvm_gc_place */
  uint32_t guessed; /* 1: a word of an object that no type describes, which may be no pointer */
} nvm_gc_pointer;

enum nvm_gc_phase {
  NVM_GC_MARKING = 1, /* done: objects reached; total: objects of the pool */
  NVM_GC_FREEING = 2  /* done: objects freed, on ssd not durably yet; total: garbage objects, beside transactions those
                         that were found so far */
};

/* Zero-initialise, then set what matters. */
typedef struct nvm_gc_options {
  uint32_t dry_run; /* 1: frees nothing; the pool may be open read-only */
  uint32_t threads; /* that mark; 0: one for each processor */
  /* 1: every aligned word of every object may be a pointer, also in stores and structures; types are not looked at.
   * For programs that cannot describe their types: an object whose address a number happens to look like stays. */
  uint32_t conservative;
  /* 1: objects of undescribed types hold no pointers, as if the pool said so (enum nvm_untyped).  2, not with `beside`:
   * each of their aligned words may be a pointer, and so may those in key-value stores, structures and regions, and in
   * a dry run those of types whose visitor (NVM_VISIT) this program lacks.  0: if one can be reached, the call fails
   * with NVM_E_TYPE_MISMATCH, which names ids and counts, and frees nothing; so it does, but for that dry run, for
   * types whose visitor is missing.  Texts of nvm_strdup() never hold pointers. */
  uint32_t untyped;
  uint32_t ways; /* 1: finds out by which ways garbage was reached (nvm_gc_type.way): 24 bytes of memory an object */
  /* 1: beside transactions of other threads; this thread has none open.  One thread marks.  Weak pointers keep objects,
   * `conservative` and `ways` are refused, `type` is called when all has been freed. */
  uint32_t beside;
  /* Called now and then by the calling thread.  No function of these options may call anything on the pool. */
  void (*progress)(enum nvm_gc_phase phase, uint64_t done, uint64_t total, void *argument);
  /* Called for each type of garbage before anything is freed, the type with the most bytes first. */
  void (*type)(const nvm_gc_type *garbage, void *argument);
  void *argument; /* of all functions */
  /* With `beside`: the calling thread takes no more of a processor than this, and sleeps meanwhile; 0: all of it. */
  uint32_t processor_percent;
  uint32_t struct_bytes; /* sizeof(nvm_gc_options), or 0: "Options" in nvm/nvm.h */
  /* Called for each pointer that can be reached and leads to no object of the pool, in the order of the objects'
   * addresses, before anything is freed; not with `beside` or `conservative`.  Weak pointers count.  Static ones
   * (NVM_STATIC_PTR) only where they lead to nothing that the pool remembers of programs; guessed ones only into the
   * pool, to where pools lie, or to where Linux has the memory of processes, and not into such programs.  It costs
   * another look at each object that can be reached.  */
  void (*pointer)(const nvm_gc_pointer *astray, void *argument);
  uint64_t reserved[2]; /* zero */
} nvm_gc_options;

typedef struct nvm_gc_report {
  uint64_t objects;           /* typed ones of the pool, the library's own included */
  uint64_t reachable_objects; /* that the roots lead to */
  uint64_t reachable_bytes;   /* of these, as asked for */
  uint64_t garbage_objects;
  uint64_t garbage_bytes;
  uint64_t freed_objects;
  uint64_t freed_bytes;
  uint64_t transactions; /* that freed them, and made weak pointers NULL */
  uint64_t pointers;     /* followed, without null */
  /* Of these: into the pool and to no object (a field that was never written, an object that was freed); to anywhere
   * else.  Neither keeps anything. */
  uint64_t stray_pointers;
  uint64_t foreign_pointers;
  uint64_t held_objects;
  uint64_t mark_ns; /* duration of marking, sweep and the search for ways included */
  uint64_t free_ns;
  uint64_t mended_counts; /* where references are counted (enum nvm_collect): counts that differed from the pointers */
  uint64_t weak_pointers; /* in what can be reached, to garbage; they became NULL unless it was a dry run */
  /* Beside transactions: the longest time for which the end of one may have had to wait for the collection. */
  uint64_t pause_ns;
  uint64_t reserved[1];
} nvm_gc_report;

/* Frees what cannot be reached; `options` and `report` may be NULL.  On return of 0 the frees are durable.  On -1 the
 * report says what was freed before the failure; on ssd that is durable when the pool's next commit is.
 * NVM_E_IN_DOUBT, as for nvm_tx_commit(): a write or a sync has failed, and the next open finds what was freed, or less
 * of it.  A pool that has failed takes no collection, and no dry run: NVM_E_IO.  A full pool needs no room for it.
 *
 * Cost: reads the page map, the headers of all extents and every object that can be reached once; a bit of volatile
 * memory for each 16 bytes that hold garbage or not, and 16 bytes for each garbage object.
 *
 * Beside transactions: 89 bytes for each page that has objects, 8 for a place that is changed while the page map is
 * read, and the time of the thread; a transaction that ends tells each word that it has changed, under one lock.
 * Pages of object stores that are not attached are accessible meanwhile.
 *
 * NVM_E_TX_OPEN: a transaction is open in the pool, beside transactions one of this thread; NVM_E_BUSY: another
 * collection runs, or another thread has committed meanwhile, or beside transactions one has not ended for a second;
 * NVM_E_INVALID: beside transactions in a pool that counts references (nvm_pool_options.collect), or with an option
 * that is not to be had there; NVM_E_TYPE_MISMATCH: a type is not described, or the program opened the pool with
 * NVM_TYPES_IGNORE and its layouts differ; NVM_E_CORRUPT: metadata or an object's header fails its check: `holdfast
 * check`; NVM_E_READ_ONLY; NVM_E_FORKED; NVM_E_ENGINE: open with translated reads, or beside transactions a pool of
 * engine log; NVM_E_NO_MEMORY: of volatile memory, or beside transactions more changed than is kept of it. */
NVM_API int nvm_gc(NVM_POOL *pool, const nvm_gc_options *options, nvm_gc_report *report);

/* The object of the pool whose bytes hold address p: its payload, NULL if none does (NVM_E_BAD_POINTER).  Objects of
 * open transactions count.  O(1), also 1 GiB inside an object.  Any thread. */
NVM_API void *nvm_object_around(NVM_POOL *pool, const void *p);

/* The object that a weak pointer leads to, held until nvm_drop(): `field` is the NVM_WEAK_PTR, and the result is what
 * it says.  NULL: the pointer is NULL; or nothing referred to its object any more when the last commit ended, although
 * its memory is still there (NVM_E_NOT_FOUND, only where references are counted); or NVM_E_BAD_POINTER,
 * NVM_E_NO_MEMORY.  A reference of this thread's own open transaction does not count yet.  In a barrier transaction the
 * field is read by a barrier.
 *
 * A plain load of the field is as good as one of any pointer: until the transaction ends in which it was read.  The
 * memory that it leads to is unchanged until then, and a transaction may refer to it again: then the object lives.
 *
 * Cost: as nvm_hold(); commits that wait to be counted are counted first.  Any thread. */
NVM_API void *nvm_weak_get(const void *field);

/* From now on a volatile pointer leads to the object around p: it is no garbage.  A pointer that was read in a
 * transaction is good until that ends, or while the object is held.  Calls are counted, and volatile: they end with
 * the process.  NVM_E_BAD_POINTER: p lies in no object of an open pool; NVM_E_NO_MEMORY.  O(1).  Any thread. */
NVM_API int nvm_hold(const void *p);
/* One hold less.  NVM_E_BAD_POINTER: the object is not held.  NULL is accepted by both and ignored. */
NVM_API int nvm_drop(const void *p);

/* ---- reference counts (nvm_pool_options.collect; Breeze, section IV-F) ---- */

typedef struct nvm_settle_report {
  uint64_t records;      /* of commits, that have become counts by this call */
  uint64_t entries;      /* changed references in these */
  uint64_t transactions; /* of the library, for all of this */
  uint64_t freed_objects;
  uint64_t
      waiting_objects;     /* nothing refers to them, but a weak pointer, a hold, or a transaction that may know them */
  uint64_t drifted_counts; /* since the open: that would have fallen below 0, and are not believed any more */
  uint64_t
      damaged_records; /* since the open: that failed their check; nothing is freed until nvm_gc() or the next open */
  uint64_t cleared_pointers; /* weak ones, that have become NULL */
  uint64_t reserved[4];
} nvm_settle_report;

/* Counts the references of all commits so far, and frees objects that have died by them, also a list of any length, in
 * transactions of at most 256 objects.  With NVM_COLLECT_AT_REST no other thread has a transaction open in the pool, or
 * it frees nothing; with NVM_COLLECT_BACKGROUND it does what the library's thread would do in a moment.  On return of 0
 * it is durable.  A crash meanwhile loses none of it: the next open goes on.  `report` may be NULL.
 *
 * Weak pointers (NVM_WEAK_PTR) to objects that have died become NULL, and these are freed; the open and the close do so
 * too, the library's thread does not.  It takes a moment without transactions: with NVM_COLLECT_BACKGROUND those that
 * want to begin meanwhile wait, and where one is open such objects stay until the next call.
 *
 * Cost: a transaction for each 4096 changed references, which writes a word for each object they are about.  If
 * anything has died that weak pointers lead to: a look at each object of the pool, once for all of them, and a
 * transaction for each 32 weak pointers.
 *
 * NVM_E_INVALID: opened without `collect`; NVM_E_TX_OPEN: this thread has a transaction open in it; NVM_E_READ_ONLY,
 * NVM_E_FORKED, NVM_E_NO_MEMORY, NVM_E_NO_LANE, NVM_E_IO. */
NVM_API int nvm_settle(NVM_POOL *pool, nvm_settle_report *report);

typedef struct nvm_reference_counts {
  uint32_t strong;    /* pointers (NVM_PTR) to it in the pool, of commits that have been made counts */
  uint32_t weak;      /* NVM_WEAK_PTR: they do not keep it alive, but its memory stays until they are NULL or lead
                    * elsewhere */
  uint32_t saturated; /* 1: one of the two has grown too large, 2,097,151 or 1,023, or drifted: it stays for nvm_gc() */
  uint32_t dying;     /* 1: it is freed when no thread can know it any more */
} nvm_reference_counts;

/* The counts of the object around `object`.  NVM_E_BAD_POINTER: there is none, or it is an object store's, which has no
 * counts (docs/gc.md); NVM_E_INVALID: opened without `collect`.
 * O(1).  Any thread. */
NVM_API int nvm_references(const void *object, nvm_reference_counts *counts);

#ifdef __cplusplus
}
#endif
#endif
