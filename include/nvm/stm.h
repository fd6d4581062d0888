/* Holdfast: barrier transactions, isolated from each other.  Public C interface (C11).
 *
 * Inside a transaction every load and store of shared memory is a call; in return any number of threads run
 * transactions on the same data as if one after the other.  Changes of a pool's memory become durable at the commit,
 * all or nothing; changes of the program's own memory are isolated only.  A transaction that meets another is rolled
 * back and run again from its start: the call in which that happens does not return.
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
 * A transaction always reads one state of memory, even if it is going to be rolled back: it never sees half of another.
 *
 * One object is accessed by barriers or by announced stores (nvm_tx_log), never by both at the same time, and a thread
 * that has a transaction of one kind open cannot begin one of the other kind (NVM_E_TX_OPEN).  Memory that threads use
 * inside transactions is used outside of them only after no transaction can reach it: see nvm_stm_quiesce().
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

/* Runs body until it commits; with a transaction open in this thread already, as a savepoint (closed nesting).  `pool`
 * is the pool whose data may be written and where objects are allocated; the memory of other pools can only be read.
 * NULL: volatile memory only, or inside another transaction the pool of that.
 *
 * 0: committed, and durable (on ssd the call waits, also for data that was only read).  Any other value but one: rolled
 * back; it is what body returned, the code given to nvm_stm_cancel(), or -1 with nvm_errno() (a full pool, no memory,
 * I/O ...).  The one exception is -1 with NVM_E_IN_DOUBT: the transaction was ordered, others may have seen it, and the
 * sync failed; the next open finds all of it or none (nvm_tx_commit()).  A transaction that changed nothing fails with
 * NVM_E_IO when it cannot know whether the data it read are durable.  C only: a conflict leaves body by longjmp, after
 * the ABORT hooks, so body must not hold anything that has to be given back.  Local variables of the caller that body
 * changes keep, after a conflict, their values from the last attempt. */
NVM_API int nvm_stm_run(NVM_POOL *pool, int (*body)(nvm_stm *tx, void *argument), void *argument);

/* Rolls the innermost level back and leaves it: its nvm_stm_run() returns `code` (not 0).  If something had failed in
 * the transaction, or `code` is nvm_errno(), nvm_errormsg() names that failure; otherwise it says that the transaction
 * was cancelled, and nvm_errno() is NVM_E_MUST_ABORT. */
NVM_API void nvm_stm_cancel(nvm_stm *tx, int code) NVM_NORETURN;
/* Rolls everything back, and starts again after something that was read has changed: a wait for a condition. */
NVM_API void nvm_stm_retry(nvm_stm *tx) NVM_NORETURN;
/* From here on no conflict rolls the transaction back: others wait until it ends.  Meant for actions that cannot be
 * undone.  If something was read or written before, the call may start the transaction again, once. */
NVM_API void nvm_stm_become_irrevocable(nvm_stm *tx);
NVM_API int nvm_stm_is_irrevocable(const nvm_stm *tx);
/* Whether all stores of this transaction are in place already, so that code without barriers sees them: always with
 * write-through; while irrevocable on every pool but one with the redo engine on direct media. */
NVM_API int nvm_stm_is_in_place(const nvm_stm *tx);

/* The open barrier transaction of this thread; NULL: none. */
NVM_API nvm_stm *nvm_stm_current(void);
/* Nesting depth, 1 for the outermost level; 0: the transaction was rolled back, and its body is still to be left. */
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
/* Locks the bytes [p, p + n) and keeps the old ones, for stores without barriers of this transaction, which must be in
 * place (nvm_stm_is_in_place()). */
NVM_API void nvm_stm_log(nvm_stm *tx, const void *p, size_t n);
/* Prepares stores by barriers to these ranges, so that they wait together instead of one by one: memory that is not in
 * the cache is fetched; on a write-through pool the ranges are announced, with one fence for all.  Never needed; fails
 * as a store does. */
NVM_API void nvm_stm_expect(nvm_stm *tx, const nvm_range *ranges, size_t count);
NVM_API void nvm_stm_fill(nvm_stm *tx, void *to, int byte, size_t n);
NVM_API int nvm_stm_compare(nvm_stm *tx, const void *shared, const void *mine, size_t n); /* memcmp */

/* ---- objects ----------------------------------------------------------------------------------------------------- */

/* Allocates an object of the transaction's pool, contents unspecified.  Its memory is private until the commit: plain
 * stores are allowed, cost nothing, and vanish with the object.  A plain store of an inner level into an object of an
 * outer one stays when the inner level is rolled back.  NULL: nvm_errno(), and the level can only be rolled back. */
NVM_API void *nvm_stm_alloc(nvm_stm *tx, uint32_t type_id, size_t size);
/* The same at a multiple of `alignment` bytes, as nvm_alloc_aligned(). */
NVM_API void *nvm_stm_alloc_aligned(nvm_stm *tx, uint32_t type_id, size_t size, size_t alignment);
/* Volatile memory as by malloc(), given back if the transaction is rolled back. */
NVM_API void *nvm_stm_malloc(nvm_stm *tx, size_t size);
/* Frees an object of the pool, or volatile memory that malloc() gave, when the transaction commits; volatile memory
 * waits until no other transaction can read it.  NULL is ignored.  -1 (NVM_E_BAD_POINTER): nvm_errno(), and the level
 * can only be rolled back. */
NVM_API int nvm_stm_free(nvm_stm *tx, void *object);
NVM_API int nvm_stm_set_root(nvm_stm *tx, void *object);
NVM_API void *nvm_stm_get_root(nvm_stm *tx);

/* As nvm_tx_on().  In the call that ends the outermost level ORDERED hooks run when the transaction is visible to
 * others, COMMIT hooks when it is durable.  ABORT hooks run also when a conflict starts the body again; those of an
 * inner level run at once when it is rolled back.  IN_DOUBT hooks run also after a transaction that only read, and
 * fails with NVM_E_IO since its data may not be durable. */
NVM_API int nvm_stm_on(nvm_stm *tx, enum nvm_tx_event event, nvm_tx_hook hook, void *argument);

/* ---- privatisation ----------------------------------------------------------------------------------------------- */

/* Waits for quiescence: transactions that began before a commit may still read memory which that commit made
 * unreachable.  After the call this memory can be used without barriers.  Inside a transaction: -1 (NVM_E_TX_OPEN).
 * Memory that goes to nvm_stm_free() needs no such wait. */
NVM_API int nvm_stm_quiesce(void);
/* Makes the commit of this transaction wait for quiescence before it returns, if it has written anything. */
NVM_API void nvm_stm_quiesce_at_commit(nvm_stm *tx);

/* ---- settings and counters --------------------------------------------------------------------------------------- */

enum nvm_stm_policy {
  NVM_STM_POLICY_ENGINE = 0,    /* as the engine works best: undo and mnemosyne-undo write-through, else write-back */
  NVM_STM_POLICY_WRITE_BACK = 1 /* stores are buffered and go home at the commit */
};
/* Sets the policy of the pool's barrier transactions that begin from now on; no thread may have one open. */
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

/* Reasons that a level's restart function is given.  That function leaves the level's body, by longjmp or an exception,
 * and must not return.
 *
 * CONFLICT, RETRY: everything was rolled back.  In the frame of an inner level call nvm_stm_unwind(), which calls the
 * restart function of the level around; in the frame of the outermost one call nvm_stm_begin() again: it continues the
 * same series of attempts (which waits a little, and in the end lets it run alone).
 * CANCEL, FAILED: this level was rolled back and left; nvm_stm_code() is the code given to nvm_stm_cancel(), or
 * nvm_errno(). */
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
/* Calls the restart function again if the transaction was rolled back and its body goes on all the same (it swallowed
 * an exception); otherwise does nothing. */
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
