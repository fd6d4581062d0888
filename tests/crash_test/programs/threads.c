/*
 * Four threads change counters of their own and one that they share, under a lock: `threads POOL N`.  MISSING_LOG: the
 * shared one is not logged.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "nvm/nvm.h"

enum { workers = 4 };

struct counters {
  uint64_t shared;
  uint64_t own[workers];
};

static NVM_POOL* pool;
static struct counters* all;
static long rounds;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void must(int condition, const char* what) {
  if (!condition) {
    fprintf(stderr, "%s: %s\n", what, nvm_errormsg());
    exit(2);
  }
}

static void* work(void* number) {
  uint64_t* own = &all->own[(intptr_t)number];
  for (long i = 0; i < rounds; ++i) {
    pthread_mutex_lock(&lock);
    must(nvm_tx_begin(pool) == 0, "begin");
    must(nvm_tx_log(own, sizeof *own) == 0, "log");
    ++*own;
#ifndef MISSING_LOG
    must(nvm_tx_log(&all->shared, sizeof all->shared) == 0, "log");
#endif
    ++all->shared;
    must(nvm_tx_commit(pool) == 0, "commit");
    pthread_mutex_unlock(&lock);
  }
  return NULL;
}

int main(int argc, char** argv) {
  must(argc == 3, "usage: threads POOL N");
  rounds = strtol(argv[2], NULL, 10);
  pool = nvm_pool_create(argv[1], 2 << 20);
  must(pool != NULL, "pool");
  must(nvm_tx_begin(pool) == 0, "begin");
  all = nvm_calloc(pool, 1, 1, sizeof *all);
  must(all != NULL && nvm_pool_set_root(pool, all) == 0 && nvm_tx_commit(pool) == 0, "create");
  pthread_t threads[workers];
  for (intptr_t i = 0; i < workers; ++i) {
    must(pthread_create(&threads[i], NULL, work, (void*)i) == 0, "thread");
  }
  for (int i = 0; i < workers; ++i) {
    pthread_join(threads[i], NULL);
  }
  printf("%" PRIu64 "\n", all->shared);
  return nvm_pool_close(pool) == 0 ? 0 : 2;
}
