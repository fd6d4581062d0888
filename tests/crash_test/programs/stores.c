/*
 * Accounts in object stores, and N transfers between them: `stores POOL N [kind]`.  Each store has an account, receipts
 * that its root leads to, and a lock-free structure (of that kind, nvm_lf_kind) with the number of each receipt; the
 * pool has one with the number of each transfer.  With a planted bug if one of these is defined:
 *
 *   MISSING_LOG     a balance in a store is not logged
 *   OUTSIDE         a receipt is filled in after its transaction, which has linked it
 *   HALF            a transaction for the store that pays, and one for the store that is paid
 *   NUMBER_FIRST    a receipt's number is in the store's structure before the receipt is durable
 *   DONE_FIRST      the transfer's number is in the pool's structure before the transfer is durable
 *
 * Built to log by hand; says what the stores hold at the end.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "nvm/crash_test.h"
#include "nvm/nvm.h"
#include "nvm/store_lockfree.h"

enum { tenants = 3, opening = 100, receipts_max = 4 };
enum { type_account = 1, type_receipt = 2 };

struct receipt {
  struct receipt* older;
  uint64_t number; /* from 1 on, without a gap */
  int64_t amount;
};

struct account {
  int64_t balance;
  uint64_t receipts;      /* ever written */
  struct receipt* newest; /* those that are kept */
};

static void must(int condition, const char* what) {
  if (condition) {
    return;
  }
  fprintf(stderr, "%s: %s\n", what, nvm_errormsg());
  exit(2);
}

static void log_range(const void* p, size_t n) { must(nvm_tx_log(p, n) == 0, "log"); }

static nvm_store* tenant(NVM_POOL* pool, int number, unsigned flags) {
  char name[32];
  snprintf(name, sizeof name, "tenant/%d", number);
  return nvm_store_attach(pool, name, flags);
}

/* ---- transfers ---- */

struct open_tenant {
  nvm_store* store;
  struct account* account;
  nvm_lf* numbers;
};

static void write_receipt(NVM_POOL* pool, struct open_tenant* of, int64_t amount) {
  struct account* a = of->account;
  struct receipt* r = nvm_store_alloc(of->store, type_receipt, sizeof *r);
  must(r != NULL, "receipt");
  r->number = a->receipts + 1;
#ifdef OUTSIDE
  r->amount = 0;
#else
  r->amount = amount;
#endif
  r->older = a->newest;
  log_range(&a->newest, sizeof a->newest);
  a->newest = r;
  log_range(&a->receipts, sizeof a->receipts);
  a->receipts++;
#ifndef MISSING_LOG
  log_range(&a->balance, sizeof a->balance);
#endif
  a->balance += amount;
  struct receipt** last = &a->newest;
  for (int kept = 0; *last != NULL && kept < receipts_max; ++kept) {
    last = &(*last)->older;
  }
  if (*last != NULL) {
    struct receipt* gone = *last;
    log_range(last, sizeof *last);
    *last = NULL;
    must(nvm_free(pool, gone) == 0, "free");
  }
}

static void put_number(struct open_tenant* of, uint64_t number) {
  must(nvm_lf_put64(of->numbers, number, number, 0) >= 0, "number");
  if (number > receipts_max) {
    must(nvm_lf_remove64(of->numbers, number - receipts_max) >= 0, "old number");
  }
}

static void transfer(NVM_POOL* pool, struct open_tenant* from, struct open_tenant* to, int64_t amount) {
#ifdef NUMBER_FIRST
  put_number(to, to->account->receipts + 1);
#endif
  must(nvm_tx_begin(pool) == 0, "begin");
  write_receipt(pool, from, -amount);
#ifdef HALF
  must(nvm_tx_commit(pool) == 0, "commit");
  must(nvm_tx_begin(pool) == 0, "begin");
#endif
  write_receipt(pool, to, amount);
  must(nvm_tx_commit(pool) == 0, "commit");
#ifdef OUTSIDE
  to->account->newest->amount = amount;
#endif
  put_number(from, from->account->receipts);
#ifndef NUMBER_FIRST
  put_number(to, to->account->receipts);
#endif
}

/* All accounts in one transaction. */
static void make_accounts(NVM_POOL* pool, struct open_tenant* all) {
  must(nvm_tx_begin(pool) == 0, "begin");
  for (int i = 0; i < tenants; ++i) {
    struct account* a = nvm_store_calloc(all[i].store, type_account, 1, sizeof *a);
    must(a != NULL && nvm_store_set_root(all[i].store, a) == 0, "account");
    a->balance = opening;
  }
  must(nvm_tx_commit(pool) == 0, "commit");
}

/* ---- what is right ---- */

struct numbers_found {
  uint64_t highest;
};
static int note_highest(uint64_t key, uint64_t value, void* argument) {
  struct numbers_found* f = argument;
  (void)value;
  f->highest = key > f->highest ? key : f->highest;
  return 0;
}
static int highest_of(nvm_lf* lf, uint64_t* highest) {
  struct numbers_found f = {0};
  if (nvm_lf_each64(lf, note_highest, &f) != 0 || nvm_lf_close(lf) != 0) {
    return -1;
  }
  *highest = f.highest;
  return 0;
}

static int wrong(const char* what, int64_t found, int64_t expected) {
  fprintf(stderr, "%s: %" PRId64 ", not %" PRId64, what, found, expected);
  return 1;
}

/* Of one tenant: its balance and receipts; 0: it has none yet. */
static int look_at(nvm_store* s, int64_t* balance, uint64_t* receipts) {
  const struct account* a = nvm_store_get_root(s);
  if (a == NULL) {
    return 0;
  }
  uint64_t number = a->receipts;
  for (const struct receipt* r = a->newest; r != NULL; r = r->older, --number) {
    if (r->number != number) {
      return wrong("number of a receipt", (int64_t)r->number, (int64_t)number) == 1 ? -1 : 0;
    }
  }
  nvm_lf_options there = {0};
  there.mode = 1;
  nvm_lf* numbers = nvm_lf_open_in(s, "numbers", &there);
  uint64_t highest = 0;
  if (numbers == NULL ? nvm_errno() != NVM_E_NOT_FOUND : highest_of(numbers, &highest) != 0) {
    fprintf(stderr, "numbers: %s", nvm_errormsg());
    return -1;
  }
  if (highest > a->receipts) {
    return wrong("highest number in the structure", (int64_t)highest, (int64_t)a->receipts) == 1 ? -1 : 0;
  }
  /* Numbers are durable when their calls return: those of the newest transfer alone may be missing. */
  if (highest + 2 < a->receipts) {
    return wrong("highest number in the structure", (int64_t)highest, (int64_t)a->receipts) == 1 ? -1 : 0;
  }
  *balance += a->balance;
  *receipts += a->receipts;
  return 1;
}

int nvm_crash_check(NVM_POOL* pool) {
  int64_t total = 0;
  uint64_t receipts = 0;
  int accounts = 0;
  for (int i = 0; i < tenants; ++i) {
    nvm_store* s = tenant(pool, i, 0);
    if (s == NULL && nvm_errno() == NVM_E_NOT_FOUND) {
      continue;
    }
    if (s == NULL) {
      fprintf(stderr, "tenant %d: %s", i, nvm_errormsg());
      return 1;
    }
    const int found = look_at(s, &total, &receipts);
    if (found < 0 || nvm_store_detach(s) != 0) {
      return 1;
    }
    accounts += found;
  }
  if (accounts != 0 && accounts != tenants) {
    return wrong("accounts", accounts, tenants);
  }
  if (total != (int64_t)accounts * opening) {
    return wrong("total", total, accounts * opening);
  }
  nvm_lf_options there = {0};
  there.mode = 1;
  nvm_lf* done = nvm_lf_open(pool, "done", &there);
  uint64_t highest = 0;
  if (done == NULL ? nvm_errno() != NVM_E_NOT_FOUND : highest_of(done, &highest) != 0) {
    fprintf(stderr, "done: %s", nvm_errormsg());
    return 1;
  }
  return highest * 2 > receipts || (highest + 1) * 2 < receipts
             ? wrong("transfers done", (int64_t)highest, (int64_t)receipts / 2)
             : 0;
}

int main(int argc, char** argv) {
  must(argc == 3 || argc == 4, "usage: stores POOL N [KIND]");
  nvm_lf_options kind = {0};
  kind.kind = argc == 4 ? (uint32_t)strtoul(argv[3], NULL, 10) : NVM_LF_HASH;
  kind.expected = 16;
  NVM_POOL* pool = nvm_pool_open(argv[1]);
  if (pool == NULL) {
    nvm_pool_options options = {0};
    options.size = 4 << 20;
    pool = nvm_pool_create_with(argv[1], &options);
  }
  must(pool != NULL, "pool");
  struct open_tenant all[tenants];
  for (int i = 0; i < tenants; ++i) {
    all[i].store = tenant(pool, i, NVM_STORE_CREATE);
    must(all[i].store != NULL, "store");
  }
  if (nvm_store_get_root(all[0].store) == NULL) {
    make_accounts(pool, all);
  }
  nvm_lf* done = nvm_lf_open(pool, "done", &kind);
  must(done != NULL, "structure of the pool");
  for (int i = 0; i < tenants; ++i) {
    all[i].account = nvm_store_get_root(all[i].store);
    all[i].numbers = nvm_lf_open_in(all[i].store, "numbers", &kind);
    must(all[i].account != NULL && all[i].numbers != NULL, "structure of a store");
  }
  uint64_t before = 0;
  for (int i = 0; i < tenants; ++i) {
    before += all[i].account->receipts;
  }
  const uint64_t transfers = strtoul(argv[2], NULL, 10);
  for (uint64_t n = before / 2 + 1; n <= before / 2 + transfers; ++n) {
#ifdef DONE_FIRST
    must(nvm_lf_put64(done, n, n, 0) >= 0, "done");
#endif
    transfer(pool, &all[n % tenants], &all[(n * n + 1) % tenants], (int64_t)(n % 7));
#ifndef DONE_FIRST
    must(nvm_lf_put64(done, n, n, 0) >= 0, "done");
#endif
  }
  for (int i = 0; i < tenants; ++i) {
    printf("%" PRId64 " after %" PRIu64 " receipts\n", all[i].account->balance, all[i].account->receipts);
    must(nvm_lf_close(all[i].numbers) == 0 && nvm_store_detach(all[i].store) == 0, "detach");
  }
  must(nvm_lf_close(done) == 0, "close");
  return nvm_pool_close(pool) == 0 ? 0 : 2;
}
