/* Calls that holdfast-cc puts into the code it compiles.  Programs do not make them themselves.
 *
 * Threads: as in nvm.h; all calls are about the calling thread's transactions.
 */
#ifndef NVM_COMPILED_H
#define NVM_COMPILED_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "nvm/nvm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A place in the sources; constant.  Without debug information `line` is 0. */
struct nvm_site {
  const char *file;
  const char *function;
  uint32_t line;
  uint32_t column;
};

/* ---- the run-time, linked into the program (libnvm_rt.a) --------------------------------------------------------- */

/* Calls of a checked build (-fnvm-check).  A finding is printed with its place and ends the process; with
 * NVM_CHECK=report in the environment each place is reported once, and the program goes on.  What the file that
 * NVM_CHECK_SUPPRESSIONS names says of it is no finding (docs/compiler.md). */
void __nvm_log_at(const void *p, size_t n, const struct nvm_site *site);
void __nvm_log_masked_at(const void *p, size_t n, uint64_t mask, const struct nvm_site *site);
void __nvm_log_scattered_at(const void *const *lanes, size_t n, uint64_t mask, const struct nvm_site *site);
void __nvm_log_object_at(const void *p, const struct nvm_site *site);
/* Stores whose log call the compiler left out. */
void __nvm_expect_logged(const void *p, size_t n, const struct nvm_site *site);
void __nvm_expect_volatile(const void *p, const struct nvm_site *site);
/* `value` is about to be stored at `where`. */
void __nvm_check_pointer(const void *where, const void *value, const struct nvm_site *site);
/* A pair around the call of a function whose code is elsewhere and that gets p.  It compares the bytes, 64 KiB at most,
 * of the durable object around p; where p is a variable of n bytes, the bytes of the objects that it points to.  NULL:
 * there are none.  __nvm_watched() frees what __nvm_watch() returned. */
void *__nvm_watch(const void *p, size_t n);
void __nvm_watched(void *before, const char *function, const struct nvm_site *site);
/* The function is about to get p; what it writes there, and when, is unknown. */
void __nvm_lock_found(const void *p, const char *function, const struct nvm_site *site);
void __nvm_refused(const void *p, const char *function, const struct nvm_site *site);

/* Calls before those of the C library whose arguments do not say how much is written.  They log it, in a checked build
 * with the place; `site` is NULL in other builds.  The names are those in *.unsafe files. */
struct iovec;
struct msghdr;
struct mmsghdr;
struct option;
void __nvm_written_printf(const struct nvm_site *site, const char *format, ...);
void __nvm_written_vprintf(const struct nvm_site *site, const char *format, va_list list);
void __nvm_written_wprintf(const struct nvm_site *site, const wchar_t *format, ...);
void __nvm_written_vwprintf(const struct nvm_site *site, const wchar_t *format, va_list list);
void __nvm_written_scanf(const struct nvm_site *site, const char *format, ...);
void __nvm_written_vscanf(const struct nvm_site *site, const char *format, va_list list);
void __nvm_written_wscanf(const struct nvm_site *site, const wchar_t *format, ...);
void __nvm_written_vwscanf(const struct nvm_site *site, const wchar_t *format, va_list list);
void __nvm_written_vector(const struct nvm_site *site, const struct iovec *v, size_t count);
void __nvm_written_message(const struct nvm_site *site, const struct msghdr *m);
void __nvm_written_messages(const struct nvm_site *site, struct mmsghdr *all, size_t count);
void __nvm_written_tokens(const struct nvm_site *site, const char *text);
void __nvm_written_tokens_r(const struct nvm_site *site, const char *text, char **saved);
void __nvm_written_separated(const struct nvm_site *site, char **text);
void __nvm_written_wtokens(const struct nvm_site *site, const wchar_t *text, wchar_t **saved);
void __nvm_written_options(const struct nvm_site *site, const struct option *all);
/* Characters that printf would make, without the final 0; the largest number where it fails.  errno stays. */
size_t __nvm_printed(const char *format, ...);
size_t __nvm_vprinted(const char *format, va_list list);

/* State at setjmp().  When setjmp() returns again, transactions begun since are rolled back, innermost first; the
 * process ends if a transaction has ended that was open at the first return. */
struct nvm_jump_mark {
  uint64_t count;
  struct {
    NVM_POOL *pool;
    uint64_t depth;
  } open[4];
};
void __nvm_jump_landed(const struct nvm_jump_mark *mark, const struct nvm_site *site);

/* ---- of the library ---------------------------------------------------------------------------------------------- */

/* The bytes [p, p + n), inside the window, are about to be overwritten.  A transaction keeps the old ones, as by
 * nvm_tx_log(); if it cannot, the innermost nvm_tx_run() (nvm/malloc.h) is left, and without one the process ends, and
 * the next open rolls back.  Outside of a transaction nothing happens. */
NVM_API void __nvm_log(const void *p, size_t n);
/* The same for each of the ranges that is inside the window; those of one pool share a fence. */
NVM_API void __nvm_log_many(const nvm_range *ranges, size_t count);
/* Lane i of n bytes is about to be overwritten if bit i of mask is set. */
NVM_API void __nvm_log_masked(const void *p, size_t n, uint64_t mask);
/* n bytes at each of `lanes` whose bit of mask is set are about to be overwritten; others are not looked at. */
NVM_API void __nvm_log_scattered(const void *const *lanes, size_t n, uint64_t mask);
/* Unknown bytes of the object around p are about to be overwritten. */
NVM_API void __nvm_log_object(const void *p);

/* Remembers which transactions are open.  With more than four pools `count` says so, and nvm_jump_back() fails. */
NVM_API void __nvm_jump_mark(struct nvm_jump_mark *mark);
/* -1 (NVM_E_NO_TRANSACTION): a transaction that the mark names has ended, or a level of it. */
NVM_API int __nvm_jump_back(const struct nvm_jump_mark *mark);

enum nvm_cover {
  NVM_COVER_NO_POOL = 0,        /* no open pool holds the range */
  NVM_COVER_NO_TRANSACTION = 1, /* an open pool holds it; this thread has no transaction there */
  NVM_COVER_MISSING = 2,        /* the innermost level could not take back all of a store there */
  NVM_COVER_FULL = 3
};
NVM_API int __nvm_tx_covers(const void *p, size_t n);
/* Transactions of this thread that have ended, in all pools. */
NVM_API uint64_t __nvm_tx_ended(void);
/* A transaction of some thread, to ask later whether it is still open with all that it had announced. */
struct nvm_turn {
  uint64_t number; /* odd */
  uint32_t pool;   /* tells pools apart that were open at one address */
  uint32_t lane;
  uint64_t levels_aborted; /* inner ones, while the pool is open */
};
/* 1: this thread has a transaction open in the pool around p, and `turn` is that one.  O(1). */
NVM_API int __nvm_tx_turn(const void *p, struct nvm_turn *turn);
/* Whether a transaction is still open, also another thread's, in the pool around p, and has rolled no level back since;
 * this thread has one open there.  A transaction is over before its hooks run and before its end returns.  O(1). */
NVM_API int __nvm_tx_goes_on(const void *p, const struct nvm_turn *turn);
/* The live object that holds p, committed or of this thread's transaction: its start and size; 0 if there is none. */
NVM_API size_t __nvm_object_around(const void *p, const void **start);
/* Whether p is of this program or one of its libraries, and objects without a type may hold it (nvm/static.h). */
NVM_API int __nvm_leads_into_program(const void *p);
/* Number of the n bytes from p on that lie in the object around p; without an object, in the pool.  n if this thread
 * has no transaction in p's pool. */
NVM_API size_t __nvm_room(const void *p, size_t n);

#ifdef __cplusplus
}
#endif
#endif
