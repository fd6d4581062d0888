/* Holdfast: the memory of programs that were written for malloc(), and transactions that follow each other.  C11.
 *
 * A legacy program allocates in hundreds of places that know no pool.  These become calls of this family: the scope
 * that the thread is in chooses where new memory comes from, and the address of old memory tells where it belongs:
 *
 *   NVM_SCOPE(pool);                        from here to the end of the block: new memory is durable
 *   struct entry *e = nvm_malloc(sizeof *e);
 *   nvm_malloc_free(e);                     in any scope, by any thread, of either kind of memory
 *
 * Memory of a pool belongs to the transaction that this thread has open there, as that of nvm_alloc() does: it exists
 * when the transaction commits.  Objects have type 0, or that of text (nvm_malloc_strdup()).  In the ordinary heap the
 * calls are those of the C library.
 *
 * Errors.  A failed allocation is NULL with errno ENOMEM (EINVAL: an alignment that cannot be), nvm_errno() says more,
 * and nothing else has happened: unlike after nvm_alloc(), the transaction goes on and may commit.  A thread in a scope
 * that has no transaction open in that pool gets NULL (NVM_E_NO_TRANSACTION); with a barrier transaction open it has to
 * use nvm_stm_alloc() and its kin: a call of this family fails, and that transaction can only be rolled back
 * (NVM_E_TX_OPEN).
 *
 * Threads.  A scope belongs to its thread; a new thread is in that of the ordinary heap.
 *
 * Breeze, section V: programs that keep their own allocation calls. */
#ifndef NVM_MALLOC_H
#define NVM_MALLOC_H

#include "nvm/nvm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- scopes ---- */

/* Where new memory of this thread comes from until nvm_scope_end(): a pool, or, with NULL, the ordinary heap.  Scopes
 * nest; each is ended by the thread that began it, the inner one first.  The pool stays open meanwhile.  If there is no
 * memory for the thread's state, it stays in the scope that it was in (NVM_E_NO_MEMORY). */
typedef struct nvm_scope {
  NVM_POOL *before;
  int begun; /* 0: it could not be begun, or has ended */
} nvm_scope;
NVM_API nvm_scope nvm_scope_begin(NVM_POOL *pool);
NVM_API void nvm_scope_end(nvm_scope *scope);
/* The pool of the thread's scope; NULL: the ordinary heap. */
NVM_API NVM_POOL *nvm_scope_pool(void);
/* NVM_SCOPE(pool); a scope from here to where the enclosing block is left. */
#if defined(__GNUC__)
#define NVM_SCOPE_NAME_(line) nvm_scope_##line
#define NVM_SCOPE_NAME(line) NVM_SCOPE_NAME_(line)
#define NVM_SCOPE(pool) \
  __attribute__((cleanup(nvm_scope_end), unused)) nvm_scope NVM_SCOPE_NAME(__LINE__) = nvm_scope_begin(pool)
#endif

/* ---- what is not worth a log ---- */

/* struct entry { unsigned long last_use NVM_STALE_OK; unsigned hits[4] NVM_STALE_OK; ... };
 *
 * Statistics, times of last use, caches: holdfast-cc does not log stores to such a field, and a transaction that
 * changes nothing else neither syncs nor fences.  Such a store takes effect at once and stays after an abort; after a
 * crash the field has some value that it had before; in a new object the value at its commit, or a later one.  Numbers,
 * enumerations and arrays of them, each element at a multiple of its size, so that no crash tears one; pointers and
 * structures are an error of holdfast-cc.  A bit-field is logged all the same, and so are stores through an address of
 * the field that another function was given.  Other compilers log nothing anyway. */
#if defined(__HOLDFAST_TYPES__)
#define NVM_STALE_OK __attribute__((annotate("nvm_stale_ok")))
#else
#define NVM_STALE_OK
#endif

/* NVM_STRUCT session { pthread_mutex_t lock NVM_RESET; int fd NVM_RESET; struct buffer *cache NVM_RESET; long id; };
 *
 * What means nothing to the next process: locks, descriptors, plain pointers, counters since the start.  Such a field
 * is zero, in every object of its type, when nvm_pool_open() returns, whatever came before: a kill, a power cut or a
 * close, also in a process that opens read-only.  After that it has what was stored.  holdfast-cc logs no stores to
 * it; they take effect at once, stay after an abort and need no transaction.  Logged all the same, and taken back by an
 * abort: whole structures that are assigned, blocks that end outside of the field, stores through an address that
 * another function was given, and what the program itself announces with the object around.
 *
 * Any type, arrays and structures too, in a structure that is NVM_STRUCT.  Pointers in it are followed by nobody: an
 * object to which nothing else leads is garbage.  Errors of holdfast-cc: members of unions, bit-fields, references,
 * pointers to members, types with virtual functions or that log their own changes (nvm::p), tags of unions, and what a
 * type of a library keeps as bytes (std::optional).  Objects have the type that they were allocated with: those of
 * nvm_malloc() have none.  An object of a multiple of the type's size is an array of it; in one of another size only
 * the first structure has the fields, so bytes that follow it (`char text[1]`) are safe only if they are declared as
 * `char text[]`: an array of one element at the end is an error.  A flexible array goes to the object's end:
 * structures in it have the fields in whole elements, so place nothing after them.  A field may become NVM_RESET
 * later under its name, unless it was an NVM_PTR or is a flexible array where none was; one that is so no longer is
 * another layout (nvm.h, "Layouts").  Where layouts differ and the pool has such objects, NVM_TYPES_ACCEPT is refused,
 * and NVM_TYPES_IGNORE leaves their fields alone: convert objects into those of a type of another name.  Objects whose
 * layout the pool lacks (of a program that had none) are NVM_E_TYPE_MISMATCH, unless NVM_TYPES_ACCEPT says that they
 * have the program's.
 *
 * Cost: an open reads the header of each object that is large enough, if a type of the pool or the program has such a
 * field; else nothing.  Pools of engine log are refused (NVM_E_ENGINE).  With other compilers NVM_RESET says nothing:
 * NVM_RESET_FIELD (nvm/describe.h) does. */
#if defined(__HOLDFAST_TYPES__)
#define NVM_RESET __attribute__((annotate("nvm_reset")))
#else
#define NVM_RESET
#endif

/* ---- the family ---- */

/* New memory, by the scope.  0 bytes give memory of 1 byte, as the C library does. */
NVM_API void *nvm_malloc(size_t bytes);
NVM_API void *nvm_malloc_zeroed(size_t count, size_t bytes); /* calloc() */
/* aligned_alloc(); `bytes` need not be a multiple.  A pool's objects are aligned to at most 32 KiB. */
NVM_API void *nvm_malloc_aligned(size_t alignment, size_t bytes);
NVM_API char *nvm_malloc_strdup(const char *text);
NVM_API char *nvm_malloc_strndup(const char *text, size_t bytes_max);
/* realloc(): memory stays in the pool or heap in which it is, whatever the scope; NULL is nvm_malloc(), and 0 bytes
 * free the memory and give NULL.  Where it fails the old memory is as it was. */
NVM_API void *nvm_malloc_resize(void *memory, size_t bytes);
/* free().  Memory of a pool is free when this thread's transaction there commits.
 *
 * A thread without a transaction there, such as one that only frees, leaves it to others: the memory is freed by the
 * next commit of any transaction of announced stores that comes after those which are open now, or is the last of them,
 * or by nvm_pool_close().  So an object that another thread's open transaction has unlinked is freed with it or after
 * it.  If that transaction is rolled back, the object is linked again and freed all the same: as with free(), the
 * caller must be sure.  A crash in between leaves the object allocated, and unreachable (nvm_gc()).
 *
 * An address that is no memory, or memory that was freed, is a misuse (nvm_set_misuse_handler()): without a handler the
 * process ends with a message and the place. */
NVM_API void nvm_malloc_free(void *memory);
/* For an object of a pool the bytes that were asked for, which are those that it keeps; for other memory
 * malloc_usable_size(). 0: NULL, or no object (NVM_E_BAD_POINTER). */
NVM_API size_t nvm_malloc_usable_size(void *memory);

/* ---- fork ---- */

/* A forked child has no pools of its parent: calls fail with NVM_E_FORKED, and an access to a pool's memory is SIGSEGV
 * after a sentence that names the pool.  New memory of its scopes is from the ordinary heap.
 *
 * NVM_FORK_PICTURE: children that are forked from now on have the pool's content at the moment of the fork, stores of
 * open transactions included, at the pool's addresses.  It is memory of their own: stores reach no file, and free()
 * does nothing.  Calls on the pool fail all the same.  Use: a child that writes a snapshot while the parent goes on.
 * Other threads that store at the moment of the fork leave half of what they do, as fork() does with any memory.
 *
 * Cost, at each fork: the pages in use are copied while the thread waits, and are the child's memory until it ends;
 * a thread that gives blocks of the file back (nvm_pool_trim()), or makes the pool's first object store, waits, too.
 * At most 8 pools; not with engine log, a second file (nvm/tier.h), object stores, or while a relocation goes on:
 * NVM_E_ENGINE.  If memory is short at the fork, or the pool has got object stores since this call, the child has no
 * picture, and nothing says so before it accesses the pool.  -1: NVM_E_ENGINE, NVM_E_INVALID, NVM_E_TOO_LARGE,
 * NVM_E_FORKED.  Threads: any. */
enum nvm_fork { NVM_FORK_NOTHING = 0, NVM_FORK_PICTURE = 1 };
NVM_API int nvm_pool_set_fork(NVM_POOL *pool, uint32_t what);

/* A program that becomes a daemon after it has opened its pools goes on in the child: this opens the pool there, at the
 * address that it had, once the parent has given it up by ending or by closing it, for which it waits `wait_ms`
 * milliseconds at most (NVM_E_BUSY).  Everything that the parent had committed is there; a transaction that was open at
 * the fork was rolled back, or stayed the parent's.
 *
 *   if (daemon(0, 0) != 0 || (pool = nvm_pool_after_fork(pool, NULL, 10000)) == NULL) give_up();
 *
 * The name is that by which the parent has opened the pool: absolute, where the daemon changes its folder.  `options`
 * as for nvm_pool_open_with().  Where the pool was the scope of this thread, the new handle becomes it.  NULL:
 * NVM_E_INVALID for a pool of this process itself, and the errors of nvm_pool_open_with(). */
NVM_API NVM_POOL *nvm_pool_after_fork(NVM_POOL *pool, const nvm_pool_options *options, unsigned wait_ms);

/* ---- one turn, one transaction ---- */

/* A program that works in turns (an event loop, a read-evaluate-print loop) has a transaction open always, and ends it
 * where a turn ends, before its answers leave:
 *
 *   for (;;) {
 *     if (nvm_tx_next(pool) != 0) give_up();    the last turn's changes are durable, or were rolled back
 *     send_answers();
 *     handle(wait_for_events());
 *   }
 *
 * Commits the transaction that this thread has open in the pool, if it has one, and begins the next.  A turn that
 * changed nothing costs no fence and no sync.  -1: as nvm_tx_commit() and nvm_tx_begin(); no transaction is open then,
 * and the next call begins one.  NVM_E_TX_OPEN: an inner level is open; nothing has changed. */
NVM_API int nvm_tx_next(NVM_POOL *pool);
/* The same by nvm_tx_commit_async(): on ssd it does not wait; answers leave after nvm_wait(pool, *lsn), or by a hook
 * (NVM_TX_ON_COMMIT) of the transaction. */
NVM_API int nvm_tx_next_async(NVM_POOL *pool, uint64_t *lsn);

/* Runs body(argument) as a transaction of this thread in the pool, or as a level of the one that is open.
 *
 *   static int store(void *request) { ...; return 0; }
 *   int ended = nvm_tx_run(pool, store, request);
 *   if (ended == -1 && nvm_errno() == NVM_E_NO_SPACE) make_room();
 *
 * 0: committed, and durable as by nvm_tx_commit().  Another value of body: rolled back, and it is returned.  -1: rolled
 * back, with the errors of nvm_tx_begin() and nvm_tx_commit() (NVM_E_IN_DOUBT as there); NVM_E_NO_TRANSACTION or
 * NVM_E_TX_OPEN, where body has ended the transaction or left levels open.  Turns that body itself commits
 * (nvm_tx_next()) stay; all this is about the one that is open at its end.
 *
 * In code of holdfast-cc a store cannot fail, and a transaction of a full pool may find no room to keep its old bytes
 * (NVM_E_NO_SPACE, NVM_E_LOG_FULL, NVM_E_NO_MEMORY).  So may an atomic block (NVM_ATOMIC) that can be neither begun nor
 * committed.  Outside of this call the process ends there, and the next open rolls back.  Inside, the innermost body is
 * left by longjmp: what this thread has begun since is rolled back, in all pools, and the call returns -1.  The program
 * goes on.  What body has changed in volatile memory stays, and its locks stay held.  So body is C, or C++ without
 * destructors, and may be left at each of its stores.  A transaction that was begun before the call, and had the
 * failure, allows only abort.  A function that a call of the library runs inside of body (a visitor, a hook) cannot be
 * left: there the process ends as outside, unless it is in a nvm_tx_run() of its own. More than eight of these calls
 * inside each other are left as one.  Source: what Breeze (section IV) leaves open. */
NVM_API int nvm_tx_run(NVM_POOL *pool, int (*body)(void *argument), void *argument);

/* How full the log is: a turn that has filled half of it ends early.
 *
 *   nvm_tx_room room;
 *   if (nvm_tx_get_room(pool, &room) == 0 && room.most != 0 && room.used > room.most / 2) nvm_tx_next(pool);
 *
 * used: bytes of log that a commit of the transaction, with all its levels, would take now, at most.  most: bytes that
 * it may take (ssd: half of the ring; engine mnemosyne: the lane's ring).  Past it nvm_tx_log() and nvm_alloc() fail
 * with NVM_E_LOG_FULL and the figures; stores of compiled code go on, and are taken back by the abort that follows.
 * most 0: as much as the pool has room for (undo and redo on direct media; engine log; the changes of barrier
 * transactions, whose used is 0).  Cost: some loads.  -1: NVM_E_NO_TRANSACTION, NVM_E_INVALID. */
typedef struct nvm_tx_room {
  uint64_t used;
  uint64_t most;
} nvm_tx_room;
NVM_API int nvm_tx_get_room(NVM_POOL *pool, nvm_tx_room *room);

#ifdef __cplusplus
}
#endif
#endif

/* Sources of a program that name the C library's calls: with NVM_MALLOC_NAMES defined before this header, which comes
 * after those of the C library, they become the family's, also if the header was included before without it. */
#if defined(NVM_MALLOC_NAMES) && !defined(NVM_MALLOC_NAMED)
#define NVM_MALLOC_NAMED
#undef malloc
#undef calloc
#undef realloc
#undef free
#undef strdup
#undef strndup
#undef aligned_alloc
#undef malloc_usable_size
#define malloc(n) nvm_malloc(n)
#define calloc(c, n) nvm_malloc_zeroed(c, n)
#define realloc(p, n) nvm_malloc_resize(p, n)
#define free(p) nvm_malloc_free(p)
#define strdup(s) nvm_malloc_strdup(s)
#define strndup(s, n) nvm_malloc_strndup(s, n)
#define aligned_alloc(a, n) nvm_malloc_aligned(a, n)
#define malloc_usable_size(p) nvm_malloc_usable_size(p)
#endif
