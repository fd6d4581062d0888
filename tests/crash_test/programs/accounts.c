/* Accounts and a list of transfers, all by barrier transactions: the total never changes, each transfer that is listed
 * is counted.  usage: accounts <pool> <transfers> [back]   (back: stores go home at the commit)
 *
 * -DPLAIN_STORE and -DHALF plant a bug: a store that the transaction does not know of, and a transfer in two halves. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvm/stm.h"

enum { accounts = 6, opening = 100, listed_max = 8 };

typedef struct transfer {
  struct transfer* next;
  uint64_t from, to, amount;
} transfer;

typedef struct bank {
  uint64_t balance[accounts];
  uint64_t done; /* transfers */
  uint64_t listed;
  transfer* last;
} bank;

typedef struct order {
  NVM_POOL* pool;
  bank* b;
  uint64_t from, to, amount;
} order;

static int found(nvm_stm* tx, void* argument) {
  order* o = argument;
  o->b = nvm_stm_alloc(tx, 1, sizeof *o->b);
  if (o->b == NULL) return 1;
  memset(o->b, 0, sizeof *o->b);
  for (int i = 0; i < accounts; i++) o->b->balance[i] = opening;
  return nvm_stm_set_root(tx, o->b);
}

static int take(nvm_stm* tx, void* argument) {
  order* o = argument;
  uint64_t have = nvm_stm_load64(tx, &o->b->balance[o->from]);
  if (have < o->amount) return 2;
  nvm_stm_store64(tx, &o->b->balance[o->from], have - o->amount);
  return 0;
}

static int give(nvm_stm* tx, void* argument) {
  order* o = argument;
  uint64_t have = nvm_stm_load64(tx, &o->b->balance[o->to]);
#ifdef PLAIN_STORE
  o->b->balance[o->to] = have + o->amount;
#else
  nvm_stm_store64(tx, &o->b->balance[o->to], have + o->amount);
#endif
  return 0;
}

static int list(nvm_stm* tx, void* argument) {
  order* o = argument;
  bank* b = o->b;
  uint64_t listed = nvm_stm_load64(tx, &b->listed);
  while (listed >= listed_max) { /* the oldest are at the end of the chain: drop the newest, it is simpler */
    transfer* t = nvm_stm_load_pointer(tx, &b->last);
    nvm_stm_store_pointer(tx, &b->last, nvm_stm_load_pointer(tx, &t->next));
    if (nvm_stm_free(tx, t) != 0) return 1;
    listed--;
  }
  transfer* t = nvm_stm_alloc(tx, 2, sizeof *t);
  if (t == NULL) return 1;
  t->next = nvm_stm_load_pointer(tx, &b->last); /* memory of this transaction: plain stores */
  t->from = o->from;
  t->to = o->to;
  t->amount = o->amount;
  nvm_stm_store_pointer(tx, &b->last, t);
  nvm_stm_store64(tx, &b->listed, listed + 1);
  nvm_stm_store64(tx, &b->done, nvm_stm_load64(tx, &b->done) + 1);
  return 0;
}

static int move_money(nvm_stm* tx, void* argument) {
  order* o = argument;
  int code = take(tx, o);
  if (code == 0) code = give(tx, o);
  if (code != 0) return code;
  return nvm_stm_run(NULL, list, o); /* a level of its own */
}

/* What holdfast crash-test asks of every state. */
int nvm_crash_check(NVM_POOL* pool);
int nvm_crash_check(NVM_POOL* pool) {
  bank* b = nvm_pool_get_root(pool);
  if (b == NULL) return 0;
  uint64_t total = 0, listed = 0;
  for (int i = 0; i < accounts; i++) total += b->balance[i];
  for (transfer* t = b->last; t != NULL && listed <= listed_max; t = t->next) listed++;
  if (total != (uint64_t)accounts * opening) {
    fprintf(stderr, "total is %lu\n", (unsigned long)total);
    return 1;
  }
  if (listed != b->listed) {
    fprintf(stderr, "listed is %lu, entries are %lu\n", (unsigned long)b->listed, (unsigned long)listed);
    return 1;
  }
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  nvm_pool_options options = {.size = 1 << 20};
  NVM_POOL* pool = nvm_pool_open(argv[1]);
  if (pool == NULL) pool = nvm_pool_create_with(argv[1], &options);
  if (pool == NULL) {
    fprintf(stderr, "%s\n", nvm_errormsg());
    return 1;
  }
  if (argc > 3 && nvm_stm_set_policy(pool, NVM_STM_POLICY_WRITE_BACK) != 0) return 1;
  order o = {.pool = pool, .b = nvm_pool_get_root(pool)};
  if (o.b == NULL && nvm_stm_run(pool, found, &o) != 0) return 1;
  unsigned seed = 1;
  for (int i = atoi(argv[2]); i > 0; i--) {
    seed = seed * 1103515245u + 12345u;
    o.from = (seed >> 8) % accounts;
    o.to = (seed >> 16) % accounts;
    o.amount = (seed >> 20) % 40;
#ifdef HALF
    if (nvm_stm_run(pool, take, &o) == 0 && nvm_stm_run(pool, give, &o) != 0) return 1;
#else
    int code = nvm_stm_run(pool, move_money, &o);
    if (code != 0 && code != 2) {
      fprintf(stderr, "%d: %s\n", code, nvm_errormsg());
      return 1;
    }
#endif
  }
  if (nvm_crash_check(pool) != 0) return 1;
  return nvm_pool_close(pool) == 0 ? 0 : 1;
}
