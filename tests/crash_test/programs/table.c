/*
 * A hash table in a pool, changed N times: `table POOL N`.  With a planted bug if one of these is defined:
 *
 *   MISSING_LOG     the number of entries is not logged
 *   OUTSIDE         a field is stored after its transaction
 *   PUBLISH_FIRST   the root is set in one transaction, the table filled after it
 *   LOG_TOO_LATE    the value is logged after its store
 *   FOREIGN         a field is stored by code that is not recorded
 *   KILLED          no bug: the process is killed after some transactions
 *   BROKEN_LINK     a transaction ends between two changes that belong together: only nvm_crash_check() can tell
 *
 * Built to log by hand; says what the table holds at the end.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvm/crash_test.h"
#include "nvm/nvm.h"

#ifdef FOREIGN
void foreign_store(uint64_t* to, uint64_t value);
#endif

enum { buckets = 64, no_key = 1000000 };

struct entry {
  struct entry* next;
  uint64_t key;
  uint64_t value;
};

struct table {
  uint64_t count;
  uint64_t last_key;
  struct entry* chains[buckets];
};

static void must(int condition, const char* what) {
  if (condition) {
    return;
  }
  fprintf(stderr, "%s: %s\n", what, nvm_errormsg());
  exit(2);
}

static void log_range(const void* p, size_t n) { must(nvm_tx_log(p, n) == 0, "log"); }

static struct table* make_table(NVM_POOL* pool) {
  must(nvm_tx_begin(pool) == 0, "begin");
#ifdef PUBLISH_FIRST
  struct table* t = nvm_alloc(pool, 1, sizeof *t);
  must(t != NULL && nvm_pool_set_root(pool, t) == 0, "create");
  must(nvm_tx_commit(pool) == 0, "commit");
  memset(t, 0, sizeof *t);
  t->last_key = no_key;
#else
  struct table* t = nvm_calloc(pool, 1, 1, sizeof *t);
  must(t != NULL && nvm_pool_set_root(pool, t) == 0, "create");
  t->last_key = no_key;
  must(nvm_tx_commit(pool) == 0, "commit");
#endif
  return t;
}

static void put(NVM_POOL* pool, struct table* t, uint64_t key, uint64_t value) {
  struct entry** chain = &t->chains[key % buckets];
  struct entry* e = *chain;
  must(nvm_tx_begin(pool) == 0, "begin");
  while (e != NULL && e->key != key) {
    e = e->next;
  }
  if (e != NULL) {
#ifdef LOG_TOO_LATE
    e->value = value;
    log_range(&e->value, sizeof e->value);
#else
    log_range(&e->value, sizeof e->value);
    e->value = value;
#endif
  } else {
    e = nvm_alloc(pool, 2, sizeof *e);
    must(e != NULL, "alloc");
    e->key = key;
    e->value = value;
    e->next = *chain;
    log_range(chain, sizeof *chain);
    *chain = e;
#ifdef BROKEN_LINK
    must(nvm_tx_commit(pool) == 0, "commit");
    must(nvm_tx_begin(pool) == 0, "begin");
#endif
#ifndef MISSING_LOG
    log_range(&t->count, sizeof t->count);
#endif
    t->count++;
  }
#ifndef OUTSIDE
  log_range(&t->last_key, sizeof t->last_key);
#ifdef FOREIGN
  foreign_store(&t->last_key, key);
#else
  t->last_key = key;
#endif
#endif
  must(nvm_tx_commit(pool) == 0, "commit");
#ifdef OUTSIDE
  t->last_key = key;
#endif
}

static void drop(NVM_POOL* pool, struct table* t, uint64_t key) {
  struct entry** link = &t->chains[key % buckets];
  while (*link != NULL && (*link)->key != key) {
    link = &(*link)->next;
  }
  if (*link == NULL) {
    return;
  }
  struct entry* gone = *link;
  must(nvm_tx_begin(pool) == 0, "begin");
  log_range(link, sizeof *link);
  *link = gone->next;
  log_range(&t->count, sizeof t->count);
  t->count--;
  must(nvm_free(pool, gone) == 0, "free");
  must(nvm_tx_commit(pool) == 0, "commit");
}

static uint64_t entries_of(const struct table* t) {
  uint64_t n = 0;
  for (int i = 0; i < buckets; ++i) {
    for (const struct entry* e = t->chains[i]; e != NULL; e = e->next) {
      ++n;
    }
  }
  return n;
}

int nvm_crash_check(NVM_POOL* pool) {
  const struct table* t = nvm_pool_get_root(pool);
  if (t == NULL || entries_of(t) == t->count) {
    return 0;
  }
  fprintf(stderr, "count is %" PRIu64 ", entries are %" PRIu64, t->count, entries_of(t));
  return 1;
}

int main(int argc, char** argv) {
  must(argc == 3, "usage: table POOL N");
  NVM_POOL* pool = nvm_pool_open(argv[1]);
  if (pool == NULL) {
    nvm_pool_options options = {0};
    options.size = 2 << 20;
#ifdef ON_SSD
    options.medium = NVM_MEDIUM_SSD;
#endif
    pool = nvm_pool_create_with(argv[1], &options);
  }
  must(pool != NULL, "pool");
  struct table* t = nvm_pool_get_root(pool);
  if (t == NULL) {
    t = make_table(pool);
  }
  uint64_t state = 88172645463325252ULL;
  for (long i = strtol(argv[2], NULL, 10); i > 0; --i) {
#ifdef KILLED
    if (i == 1) raise(SIGKILL);
#endif
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    if (state >> 61 == 0) {
      drop(pool, t, state % 256);
    } else {
      put(pool, t, state % 256, state >> 8);
    }
  }
  uint64_t sum = t->count * 31 + t->last_key;
  for (int i = 0; i < buckets; ++i) {
    for (const struct entry* e = t->chains[i]; e != NULL; e = e->next) {
      sum = sum * 1099511628211ULL + (e->key ^ e->value);
    }
  }
  printf("%" PRIu64 " entries, %016" PRIx64 "\n", t->count, sum);
  return nvm_pool_close(pool) == 0 ? 0 : 2;
}
