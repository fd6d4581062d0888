/* Holdfast: barrier transactions, isolated from each other.  Public C interface (C11).
 *
 * Every load and store of shared memory inside goes through a call; in return any number of threads run transactions on
 * the same data as if one after the other.  Memory may be a pool's, whose changes become durable at the commit all or
 * nothing, or the program's own, whose changes are only isolated.  A transaction that meets another is rolled back and
 * run again from its start: the call in which that happens does not return.
 *
 *   static int transfer(nvm_stm *tx, void *argument) {
 *     struct order *o = argument;
 *     uint64_t have = nvm_stm_load64(tx, &o->from->balance);
 *     if (have < o->amount) return 1;                            // rolled back, nvm_stm_run() returns 1
 *     nvm_stm_store64(tx, &o->from->balance, have - o->amount);
 *     nvm_stm_store64(tx, &o->to->balance, nvm_stm_load64(tx, &o->to->balance) + o->amount);
 *     return 0;
 *   }
 *   if (nvm_stm_run(pool, transfer, &order) != 0) ...
 *
 * What is read inside is always one state of memory, also in a transaction that will be rolled back: no transaction
 * sees half of another one.
 *
 * One object is accessed by barriers or by announced stores (nvm_tx_log), never by both at the same time, and a thread
 * that has a transaction of the one kind open cannot begin one of the other (NVM_E_TX_OPEN).  Memory that threads use
 * inside transactions is used outside of them only when no transaction can reach it any more: see nvm_stm_quiesce().
 */
#ifndef NVM_STM_H
#define NVM_STM_H

#include "nvm/nvm.h"

#if defined(__GNUC__)
#define NVM_NORETURN __attribute__((noreturn))
#else
#define NVM_NORETURN
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nvm_stm nvm_stm; /* the open barrier transaction of a thread */

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* Runs body until it commits; a savepoint (closed nesting) when this thread has one open already.  `pool` is whose data
 * may be written and where objects are allocated; NULL: volatile memory only, or inside another transaction its pool.
 * A transaction has one pool; the memory of others can be read only.
 *
 * 0: committed, and durable (on ssd: waited for; that goes for what was only read, too).  Other values: rolled back;
 * what body returned if that was not 0, what nvm_stm_cancel() was given, or -1 with nvm_errno() (a full pool, no
 * memory, I/O ...).  But -1 with NVM_E_IN_DOUBT is not rolled back: the transaction was ordered, others may have seen
 * it, and the sync failed; the next open finds all of it or none (nvm_tx_commit()).  A transaction that changed nothing
 * and cannot know whether what it read is durable fails with NVM_E_IO.  C only: body is left by longjmp when there is a
 * conflict, so it must not hold anything that needs an end; ABORT hooks run.  Local variables of the caller that body
 * changes have, after a conflict, what the last attempt made of them. */
NVM_API int nvm_stm_run(NVM_POOL *pool, int (*body)(nvm_stm *tx, void *argument), void *argument);

/* Rolls the innermost level back and leaves it: its nvm_stm_run() returns `code` (not 0).  nvm_errormsg() then says
 * what failed first in the transaction, if anything did or `code` is nvm_errno(); else that it was cancelled,
 * nvm_errno() is NVM_E_MUST_ABORT. */
NVM_API void nvm_stm_cancel(nvm_stm *tx, int code) NVM_NORETURN;
/* Rolls everything back and starts again when something that was read has changed (a condition does not hold yet). */
NVM_API void nvm_stm_retry(nvm_stm *tx) NVM_NORETURN;
/* From here on the transaction cannot be rolled back by a conflict: others wait until it is over.  For what cannot be
 * undone.  May start it again, once, when something was read or written before. */
NVM_API void nvm_stm_become_irrevocable(nvm_stm *tx);
NVM_API int nvm_stm_is_irrevocable(const nvm_stm *tx);
/* Whether everything that this transaction has stored is where it belongs already, so that code without barriers sees
 * it: with write-through; and while irrevocable on every pool but one with the redo engine on direct media. */
NVM_API int nvm_stm_is_in_place(const nvm_stm *tx);

/* Of this thread; NULL: none open. */
NVM_API nvm_stm *nvm_stm_current(void);
/* Nesting depth, 1 for the outermost level; 0 when it has been rolled back and its body is still to be left. */
NVM_API unsigned nvm_stm_depth(const nvm_stm *tx);
/* Its pool; NULL: volatile memory only. */
NVM_API NVM_POOL *nvm_stm_pool(const nvm_stm *tx);

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Any address, aligned or not; a value that is aligned is read and written whole.  A store that fails
 * (NVM_E_BAD_POINTER for the memory of another pool, NVM_E_LOG_FULL, NVM_E_NO_MEMORY ...) rolls the innermost level
 * back and leaves it, its nvm_stm_run() returns -1. */
NVM_API uint64_t nvm_stm_load64(nvm_stm *tx, const uint64_t *p);
NVM_API uint32_t nvm_stm_load32(nvm_stm *tx, const uint32_t *p);
NVM_API uint16_t nvm_stm_load16(nvm_stm *tx, const uint16_t *p);
NVM_API uint8_t nvm_stm_load8(nvm_stm *tx, const uint8_t *p);
/* *p, for p the address of any pointer to an object. */
NVM_API void *nvm_stm_load_pointer(nvm_stm *tx, const void *p);
NVM_API void nvm_stm_store64(nvm_stm *tx, uint64_t *p, uint64_t value);
NVM_API void nvm_stm_store32(nvm_stm *tx, uint32_t *p, uint32_t value);
NVM_API void nvm_stm_store16(nvm_stm *tx, uint16_t *p, uint16_t value);
NVM_API void nvm_stm_store8(nvm_stm *tx, uint8_t *p, uint8_t value);
NVM_API void nvm_stm_store_pointer(nvm_stm *tx, void *p, const void *value);
/* Ranges.  On a write-through pool each call announces its range once: one fence. */
NVM_API void nvm_stm_read(nvm_stm *tx, void *to, const void *from, size_t n);  /* `to` is private memory */
NVM_API void nvm_stm_write(nvm_stm *tx, void *to, const void *from, size_t n); /* `from` is private memory */
NVM_API void nvm_stm_copy(nvm_stm *tx, void *to, const void *from, size_t n);  /* both shared, may overlap */
/* The bytes [p, p + n) will be stored without barriers by this transaction, which is in place: they are locked, and
 * their old bytes kept. */
NVM_API void nvm_stm_log(nvm_stm *tx, const void *p, size_t n);
/* The transaction is about to store to these bytes, by barriers: what each store would wait for is had for all of them
 * at once.  Memory that is not in the cache is fetched; on a write-through pool the ranges are announced, with one
 * fence instead of one for each.  Never needed; fails as a store does. */
NVM_API void nvm_stm_expect(nvm_stm *tx, const nvm_range *ranges, size_t count);
NVM_API void nvm_stm_fill(nvm_stm *tx, void *to, int byte, size_t n);
NVM_API int nvm_stm_compare(nvm_stm *tx, const void *shared, const void *mine, size_t n); /* memcmp */

/* ---- objects ----------------------------------------------------------------------------------------------------- */

/* An object of the transaction's pool, contents unspecified.  Its memory is private until the commit: plain stores are
 * allowed, cost nothing, and vanish with the object; but what an inner level stores plainly into an object of an outer
 * one stays when the inner one is rolled back.  NULL: nvm_errno(), and the level can only be rolled back. */
NVM_API void *nvm_stm_alloc(nvm_stm *tx, uint32_t type_id, size_t size);
/* The same at a multiple of `alignment` bytes, as nvm_alloc_aligned(). */
NVM_API void *nvm_stm_alloc_aligned(nvm_stm *tx, uint32_t type_id, size_t size, size_t alignment);
/* Volatile memory as by malloc(), given back if the transaction is rolled back. */
NVM_API void *nvm_stm_malloc(nvm_stm *tx, size_t size);
/* Frees an object of the pool, or volatile memory that malloc() gave, when the transaction commits; the latter when no
 * other transaction can look at it any more.  NULL is ignored.  -1 (NVM_E_BAD_POINTER): nvm_errno(), and the level can
 * only be rolled back. */
NVM_API int nvm_stm_free(nvm_stm *tx, void *object);
NVM_API int nvm_stm_set_root(nvm_stm *tx, void *object);
NVM_API void *nvm_stm_get_root(nvm_stm *tx);

/* As nvm_tx_on(): ORDERED when the transaction is visible to others, COMMIT when it is durable, in the call that ends
 * the outermost level.  ABORT hooks run also when a conflict starts the body again, and of an inner level that is
 * rolled back at once.  IN_DOUBT also of one that only read, and fails with NVM_E_IO since what it read may not be
 * durable. */
NVM_API int nvm_stm_on(nvm_stm *tx, enum nvm_tx_event event, nvm_tx_hook hook, void *argument);

/* ---- privatisation ----------------------------------------------------------------------------------------------- */

/* Memory that a transaction has made unreachable for others may still be looked at by transactions that began before it
 * committed.  After nvm_stm_quiesce(), which waits for them, it can be used without barriers.  Outside of a transaction
 * only: -1 (NVM_E_TX_OPEN).  Not needed before nvm_stm_free(). */
NVM_API int nvm_stm_quiesce(void);
/* The commit of this transaction does the same before it returns, if it has written anything. */
NVM_API void nvm_stm_quiesce_at_commit(nvm_stm *tx);

/* ---- settings and counters --------------------------------------------------------------------------------------- */

enum nvm_stm_policy {
  NVM_STM_POLICY_ENGINE = 0,    /* as the engine works best: undo and mnemosyne-undo write-through, else write-back */
  NVM_STM_POLICY_WRITE_BACK = 1 /* stores are buffered and go home at the commit */
};
/* Of all barrier transactions of the pool that begin from now on; no thread may have one open. */
NVM_API int nvm_stm_set_policy(NVM_POOL *pool, enum nvm_stm_policy policy);

/* Since the start of the process, all threads. */
typedef struct nvm_stm_statistics {
  uint64_t commits;    /* of transactions that wrote */
  uint64_t read_only;  /* of those that did not */
  uint64_t conflicts;  /* attempts that were rolled back by a conflict */
  uint64_t retries;    /* ... by nvm_stm_retry() */
  uint64_t rollbacks;  /* ... by the program or a failure */
  uint64_t extensions; /* of a snapshot */
  uint64_t serial;     /* attempts that ran alone: irrevocable, or after many conflicts */
  uint64_t reserved[9];
} nvm_stm_statistics;
NVM_API void nvm_stm_get_statistics(nvm_stm_statistics *out);

/* ---- for run-times of languages ---------------------------------------------------------------------------------- */

/* What a level's restart function is told.  It leaves the level's body, by longjmp or an exception, and must not
 * return.
 *
 * CONFLICT, RETRY: everything was rolled back.  In the frame of an inner level call nvm_stm_unwind(), which calls the
 * restart function of the level around; in the frame of the outermost one call nvm_stm_begin() again: it continues the
 * same series of attempts (which waits a little, and in the end lets it run alone).
 * CANCEL, FAILED: this level was rolled back and left; nvm_stm_code() says what for: the code given to
 * nvm_stm_cancel(), or nvm_errno(). */
enum nvm_stm_why { NVM_STM_CONFLICT = 1, NVM_STM_RETRY = 2, NVM_STM_CANCEL = 3, NVM_STM_FAILED = 4 };
typedef void (*nvm_stm_restart)(nvm_stm *tx, int why, void *argument);
/* Begins a transaction or a level.  NULL: nvm_errno(); the series, if there was one, is over. */
NVM_API nvm_stm *nvm_stm_begin(NVM_POOL *pool, nvm_stm_restart restart, void *argument);
/* Ends the innermost level.  0; or -1, nvm_errno(), and the level was rolled back and left, or is in doubt
 * (NVM_E_IN_DOUBT, see nvm_stm_run()).  A conflict calls the restart function. */
NVM_API int nvm_stm_commit(nvm_stm *tx);
/* Rolls the innermost level back and leaves it, without calling anything but hooks. */
NVM_API void nvm_stm_rollback(nvm_stm *tx);
NVM_API void nvm_stm_unwind(nvm_stm *tx) NVM_NORETURN;
/* Nothing if the transaction is alive; of one that was rolled back, and whose body goes on all the same (it swallowed
 * an exception), calls the restart function again. */
NVM_API void nvm_stm_check(nvm_stm *tx);
/* The frame of the outermost level gives up a transaction that was rolled back by a conflict. */
NVM_API void nvm_stm_give_up(nvm_stm *tx);
NVM_API int nvm_stm_code(const nvm_stm *tx);

/* What nvm_stm_current() returns, for inline code. */
#if defined(__GNUC__)
extern NVM_API __thread nvm_stm *nvm_stm_of_thread;
#endif

#ifdef __cplusplus
}
#endif
#endif
