/* Holdfast: regions, objects with a number, a lock and a way of logging of their own (Lewat, sections III to VI).
 * Public C interface (C11).
 *
 * A pool holds any number of sets of regions, by name, beside the objects of transactions, key-value stores and
 * lock-free structures.  A region is a string of bytes that its set knows by a 64-bit number which the caller chooses.
 * It is read and written in part, appended to and truncated; each call is atomic by itself, or part of a transaction of
 * one region or of several.  Regions take part in no other transaction of the pool, and the calls take none of its
 * locks.
 *
 * How a change is logged is chosen when it commits and all of its bytes are known:
 *
 *   up to 512 bytes                              one record with a checksum
 *   bytes that follow what was written so far    in place
 *   half of a region and more                    in a new place, to which the region moves
 *   over 512 bytes of a small region that
 *   has a replica                                in place, or in the other one of its two copies
 *   anything else                                a record with a mark
 *
 * A change costs one fence, or two where bytes go past the record; more where a run grows, a region gets a replica, or
 * pages are short.  A read costs none, and takes no lock and no locked instruction unless it meets 16 changes one after
 * the other.
 *
 * Durability.  On return of a call, and of a commit, what it did is durable; on NVM_MEDIUM_SSD with NVM_REGIONS_NO_WAIT
 * after nvm_regions_wait().  A read's answer is durable as well, including whether the region exists; in a transaction,
 * when its commit returns.  Errors are 0 or -1 with nvm_errno().
 * NVM_E_IN_DOUBT: the change is done and other threads see it, but its sync failed, or the medium has failed under it:
 * the next open finds it or not.  Any other code: nothing has changed.  After NVM_E_IN_DOUBT, and after a write, a sync
 * or a checkpoint in the background has failed, all calls, reads too, fail with NVM_E_IO, also with handles that do not
 * wait; only calls that give something up do not.
 *
 * Threads.  Any number of threads may work on the sets of a pool, 256 at a time in a call or with a transaction open:
 * one more waits for one of these, ten seconds at most (NVM_E_NO_LANE).  One writer at a time changes a region; others
 * wait for it, readers do not.  A transaction belongs to the thread that began it.  While a thread has one open, its
 * calls about other regions fail where waiting could last for ever: NVM_E_BUSY, and nothing has changed.
 *
 * In a pool that is open read-only regions can be read and held; calls that would change them, or make a set, fail with
 * NVM_E_READ_ONLY.  Pools of the engine `log` have no regions: NVM_E_ENGINE.  A pool that has regions is refused by
 * libraries that do not know them.
 */
#ifndef NVM_REGION_H
#define NVM_REGION_H

#include "nvm/nvm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An open set, for any thread, until its pool is closed or it is dropped.  It need not be closed. */
typedef struct nvm_regions nvm_regions;

#define NVM_REGIONS_NAME_MAX 63u
#define NVM_REGION_BYTES_MAX ((uint64_t)1099511627775) /* of one region; the pool's capacity is a limit, too */

enum nvm_regions_flags {
  NVM_REGIONS_NO_WAIT = 1 /* on ssd: calls return before they are durable; nvm_regions_wait() waits.  Per handle. */
};

/* How readers see bytes of one moment (Lewat, section IV-F). */
enum nvm_regions_readers {
  NVM_READERS_AS_THEY_ARE = 0, /* by version at first */
  NVM_READERS_BY_VERSION = 1,  /* a reader stores nothing, and reads again what was changed meanwhile; after 16 times it
                                  is counted */
  NVM_READERS_COUNTED = 2      /* the paper's: each reader is counted, by two locked instructions on a line that all of
                                  them share; a writer that stores home waits for them, and after a while keeps new ones
                                  out */
};

/* How adaptive transactions choose (Lewat, section IV-E). */
enum nvm_regions_decide {
  NVM_REGION_DECIDE_AS_IT_IS = 0,   /* by thresholds at first */
  NVM_REGION_DECIDE_THRESHOLDS = 1, /* the paper's: 512 bytes, half of the region */
  NVM_REGION_DECIDE_MEASURED = 2    /* the cheapest by what a fence, a line and a byte cost on this machine and medium,
                                       measured once in an open pool, for some 500 us at most.  On ssd, and in a full
                                       pool: by thresholds */
};

/* Zero-initialise, then set what matters. */
typedef struct nvm_regions_options {
  uint32_t flags;     /* enum nvm_regions_flags */
  uint32_t mode;      /* 0: a missing set is made; 1: it is NVM_E_NOT_FOUND; 2: an existing one is NVM_E_EXISTS */
  uint32_t replicas;  /* regions that may have a replica at a time (NVM_REGION_REPLICA), until it is set anew; 0: as it
                        is, 256 at first */
  uint32_t readers;   /* enum nvm_regions_readers, of the set, until it is set anew; not kept on media */
  uint32_t decide;    /* enum nvm_regions_decide, of the set, until it is set anew; not kept on media */
  uint32_t levelling; /* changes in place after which a region moves, so that memory wears evenly, until it is set anew,
                         not kept on media: 1 to 4095, or NVM_LEVELLING_NEVER; 0: as it is, 100 at first.  A region's
                         count is kept on media, to a quarter of this */
  uint32_t struct_bytes; /* sizeof(nvm_regions_options), or 0: "Options" in nvm/nvm.h */
  uint32_t reserved[1];  /* zero */
} nvm_regions_options;
#define NVM_LEVELLING_NEVER UINT32_MAX

/* Opens a set of the pool; NULL options: all zero.  The first call in a pool repairs what a crash has left: time in
 * proportion to the number of regions.  Of a set of 4096 regions and more that has not changed since its pool was
 * closed it reads what the close has saved, 21 bytes a region, and each region's header when it is first asked for:
 * every call about a region may say NVM_E_CORRUPT then.  NVM_E_CORRUPT names the place of what is damaged (`holdfast
 * check`, `holdfast repair`). */
NVM_API nvm_regions *nvm_regions_open(NVM_POOL *pool, const char *name, const nvm_regions_options *options);
/* Removes a set that no thread uses, with all of its regions.  0 or -1.  NVM_E_BUSY: a region of some set of the pool
 * is leased, or a thread has a transaction open or visits regions.  Handles are refused after NVM_E_IN_DOUBT, too. */
NVM_API int nvm_regions_drop(NVM_POOL *pool, const char *name);
/* Calls visit(name, regions, argument) for each set until it returns non-zero, which is the result; a visitor should
 * stop with a number above 0, since a failure gives -1. */
NVM_API int nvm_regions_names(NVM_POOL *pool, int (*visit)(const char *name, uint64_t regions, void *argument),
                              void *argument);
/* Waits until everything that this thread has done and seen in the set's pool is durable.  -1 (NVM_E_IN_DOUBT): it may
 * not be durable. */
NVM_API int nvm_regions_wait(nvm_regions *set);
/* Number of regions, give or take the calls under way.  0; or -1, and *count is left alone: NVM_E_IO, as above. */
NVM_API int nvm_regions_count(nvm_regions *set, uint64_t *count);

/* ---- one call, one change; inside a transaction of the thread that has the region: part of it ---- */

/* A region of `size` bytes that read as zeros.  Of more than 2048 bytes, space is taken when it is first written.  In a
 * transaction that has dropped it the region is made again, without what it had.
 * NVM_E_EXISTS, NVM_E_NO_SPACE, NVM_E_TOO_LARGE.  One line, one fence. */
NVM_API int nvm_region_create(nvm_regions *set, uint64_t rid, uint64_t size);
/* A region with these bytes, and room for `room` bytes in all before it has to move.  On ssd new bytes from 64 KiB on
 * (here, of a region that is written whole, of an append) are written to the device once, to their pages. */
NVM_API int nvm_region_create_with(nvm_regions *set, uint64_t rid, const void *from, size_t bytes, uint64_t room);
/* NVM_E_NOT_FOUND. */
NVM_API int nvm_region_drop(nvm_regions *set, uint64_t rid);
NVM_API int nvm_region_size(nvm_regions *set, uint64_t rid, uint64_t *size);
/* Reads up to `bytes` bytes from `offset` on, of one moment.  Bytes that were read, fewer at the end of the region; -1.
 * NVM_E_INVALID: the offset is after the end. */
NVM_API int64_t nvm_region_read(nvm_regions *set, uint64_t rid, uint64_t offset, void *to, size_t bytes);
/* NVM_E_INVALID: the bytes do not lie within the region (nvm_region_append(), nvm_region_truncate() make it longer).
 * A write after all that was ever written also writes zeros to what lies between, and costs as much. */
NVM_API int nvm_region_write(nvm_regions *set, uint64_t rid, uint64_t offset, const void *from, size_t bytes);
/* Adds bytes at the end; *where, unless NULL, becomes their offset. */
NVM_API int nvm_region_append(nvm_regions *set, uint64_t rid, const void *from, size_t bytes, uint64_t *where);
/* Makes the region `length` bytes long; new bytes read as zeros.  One line, one fence, whatever
 * the sizes; more for a region with two copies, and where less than a tenth of the pool is free. */
NVM_API int nvm_region_truncate(nvm_regions *set, uint64_t rid, uint64_t length);
/* Calls visit(rid, size, argument) for each region, in no order, until it returns non-zero, which is the result (above
 * 0, or it looks like a failure).  Regions that are made or dropped meanwhile are visited or not.  The visitor may read
 * and write regions. */
NVM_API int nvm_region_each(nvm_regions *set, int (*visit)(uint64_t rid, uint64_t size, void *argument),
                            void *argument);

/* ---- leases ---- */

/* The bytes of a region at one moment.  They stay as they are until they are let go, whatever becomes of the region;
 * writers do not wait for that: they change it in another place.  Read only. */
typedef struct nvm_region_lease {
  const void *bytes; /* never NULL while it is held */
  uint64_t length;
  nvm_regions *set; /* NULL: it was let go */
  uint64_t reserved[2];
} nvm_region_lease;

/* Leases the committed bytes, which are durable, also to a thread that has changed the region in a transaction.  Any
 * number of leases may be held of a region, and by a thread; each keeps its place from being used again, and no other.
 * A region of which a part was never written is copied into volatile memory, in which pages of zeros take none.
 * NVM_E_NOT_FOUND, NVM_E_NO_MEMORY; *out is zero then.
 *
 * Cost: no fence, no copy; a locked instruction if it is the first lease since the region has its place.  The next
 * change of the region that stores anything before its end moves it, also if all leases were let go by then, unless it
 * is larger than 16 KiB; where the pool has no room for that it fails with NVM_E_NO_SPACE, and nothing has changed.
 *
 * nvm_pool_close() and nvm_regions_drop() are refused with NVM_E_BUSY while a lease is held. */
NVM_API int nvm_region_hold(nvm_regions *set, uint64_t rid, nvm_region_lease *out);
/* Lets a lease go, once, by any thread; *lease becomes zero.  NVM_E_INVALID: it is not held. */
NVM_API int nvm_region_let_go(nvm_region_lease *lease);

/* ---- transactions of one region ---- */

/* How a transaction logs what it changes of a region (Lewat, section IV).  Where a way is impossible the next better is
 * taken. */
enum nvm_region_mode {
  NVM_REGION_ADAPTIVE = 0,
  NVM_REGION_REPLICA = 1,  /* REWBL: a region of at most 2048 bytes gets a replica; if there are no more, that of the
                             region updated least recently. Written bytes change in place, one fence.  It keeps the
                             replica until it is changed in another way.  On ssd: as the others, one record */
  NVM_REGION_COPY = 2,     /* COUL: the region moves, with its new bytes */
  NVM_REGION_CHECKED = 3,  /* CERL: a record with a checksum */
  NVM_REGION_MARKED = 4,   /* REDO: a record, then its mark */
  NVM_REGION_ALTERNATE = 5 /* a region of at most 2048 bytes gets a second place; all of it goes to the older one, one
                              fence, and nothing later.  It keeps it until it is changed in another way.  On ssd: as the
                              others, one record */
};

/* Holds the region for this thread; its calls about it are part of the transaction, and reads see them.
 * NVM_E_NOT_FOUND; NVM_E_TX_OPEN: this thread has it in a transaction already. */
NVM_API int nvm_region_begin(nvm_regions *set, uint64_t rid, unsigned mode);
/* Whatever commit returns, the transaction is over.  NVM_E_INVALID: this thread has begun none for the region. */
NVM_API int nvm_region_commit(nvm_regions *set, uint64_t rid);
NVM_API int nvm_region_abort(nvm_regions *set, uint64_t rid);
/* As nvm_region_commit(), ordered after all that this thread did before; *position is what nvm_wait() waits for.  On
 * -1 *position is NVM_LSN_NONE, which nvm_wait() refuses. */
NVM_API int nvm_region_commit_async(nvm_regions *set, uint64_t rid, uint64_t *position);

/* ---- transactions of several regions: all or nothing, with one commit point ---- */

/* Of the thread that has begun it, until it is over, by nvm_region_group_commit(), nvm_region_group_abort() or the end
 * of the thread.  Calls with its handle after that, or by another thread, are refused (NVM_E_INVALID) and change
 * nothing, also where groups were begun since: a handle is never another group's. */
typedef struct nvm_region_group nvm_region_group;

/* Holds `n` regions, in whatever order they are named, and returns the group; NULL.  NVM_E_NOT_FOUND names the first
 * that does not exist.  Calls of this thread about regions of the group are part of it. */
NVM_API nvm_region_group *nvm_region_group_begin(nvm_regions *set, const uint64_t *rids, size_t n);
/* Adds a region.  NVM_E_BUSY: another thread holds it, and waiting might be for ever: abort, and begin with it among
 * the first.  NVM_E_TX_OPEN: it is in a transaction of this thread already. */
NVM_API int nvm_region_group_join(nvm_region_group *group, uint64_t rid, unsigned mode);
/* Makes a region, or takes away one that has joined or was made in the group, when the group commits; until then no
 * other thread finds a new one, and a thread that makes the same one waits (NVM_E_BUSY where that could be for ever).
 * Calls take effect in their order: a region that was dropped may be made again, and dropped again.  NVM_E_EXISTS: it
 * is in the group, or there is one. */
NVM_API int nvm_region_group_create(nvm_region_group *group, uint64_t rid, uint64_t size);
NVM_API int nvm_region_group_drop(nvm_region_group *group, uint64_t rid);
/* Whatever commit returns, the group is over.  NVM_E_LOG_FULL, on ssd: it is more than half of the pool's log takes. */
NVM_API int nvm_region_group_commit(nvm_region_group *group);
NVM_API int nvm_region_group_abort(nvm_region_group *group);
/* Holds the regions, calls body(group, argument) and commits, or aborts where that returns non-zero, which is the
 * result.  Where a join of the body fails with NVM_E_BUSY, all is given up and begun again, with that region among the
 * first: body is called again; without it, if it was dropped meanwhile.  So it is where a create fails with NVM_E_BUSY.
 * NVM_E_BUSY: that might be so for ever, since this thread has another transaction of regions of the pool open.
 * NVM_E_INVALID: body has ended the group itself. */
NVM_API int nvm_region_group_run(nvm_regions *set, const uint64_t *rids, size_t n,
                                 int (*body)(nvm_region_group *group, void *argument), void *argument);

/* ---- statistics ---- */

typedef struct nvm_region_statistics {
  uint64_t regions;       /* of all sets of the pool */
  uint64_t transactions;  /* since the pool was opened */
  uint64_t checked;       /* changes of a region by a record with a checksum */
  uint64_t marked;        /* ... with a mark */
  uint64_t direct;        /* ... with bytes to which nothing had led yet */
  uint64_t copied;        /* ... to a new place */
  uint64_t headers;       /* ... of the header alone */
  uint64_t in_place;      /* ... where it is, with a replica */
  uint64_t bytes_checked; /* that callers wrote, by each of these */
  uint64_t bytes_marked;
  uint64_t bytes_direct;
  uint64_t bytes_copied;
  uint64_t bytes_in_place;
  uint64_t alternated; /* ... by writing the other one of two copies */
  uint64_t bytes_alternated;
  uint64_t replicas_made;
  uint64_t replicas_given; /* away, to another region */
  uint64_t levelled;       /* copies for wear-levelling alone */
  uint64_t waiting_bytes;  /* of places that were left, until readers and the log need them no longer */
  uint64_t leases;         /* that are held */
  uint64_t moved;          /* regions, to make a long run of scattered pages */
  uint64_t waits;          /* of writers, for a region that another transaction held */
  uint64_t waiting;        /* writers that wait now */
  uint64_t fence_ps;       /* picoseconds of a fence; 0: not measured yet (NVM_REGION_DECIDE_MEASURED) */
  uint64_t line_ps;        /* ... of a line that is written back */
  uint64_t copied_line_ps; /* ... of one that is copied past the caches */
  uint64_t byte_ps;        /* ... of a byte of a checksum */
  uint64_t straight;       /* ranges of new bytes that went to their pages at once, and not through the log (ssd) */
  uint64_t bytes_straight;
  uint64_t reserved[1];
} nvm_region_statistics;
/* Of all sets of the set's pool. */
NVM_API int nvm_region_get_statistics(nvm_regions *set, nvm_region_statistics *out);

#ifdef __cplusplus
}
#endif

#endif
