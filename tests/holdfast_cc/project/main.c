/* main <pool> [die]: counts its runs; "die" ends it in the middle of a transaction.  No call of the log anywhere. */
#include <nvm/nvm.h>
#include <stdio.h>
#include <stdlib.h>

#include "counter.h"

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, nvm_errormsg());
  return 1;
}

int main(int argc, char** argv) {
  NVM_POOL* pool = nvm_pool_open(argv[1]);
  if (pool == NULL) pool = nvm_pool_create(argv[1], 8 << 20);
  if (pool == NULL) return fail("pool");

  if (nvm_tx_begin(pool) != 0) return fail("begin");
  void* root;
  if (nvm_pool_read_root(pool, &root) != 0) return fail("root");
  struct counter* counter = root;
  if (counter == NULL) {
    counter = nvm_calloc(pool, 1, 1, sizeof *counter);
    if (counter == NULL || nvm_pool_set_root(pool, counter) != 0) return fail("root");
  }
  counter_add(counter, 1);
  if (nvm_tx_commit(pool) != 0) return fail("commit");

  if (nvm_tx_begin(pool) != 0) return fail("begin");
  counter_add(counter, -1000);
  if (argc > 2) _Exit(7);
  nvm_tx_abort(pool);
  printf("%ld %s\n", counter->runs, counter->last);
  return nvm_pool_close(pool) == 0 ? 0 : fail("close");
}
