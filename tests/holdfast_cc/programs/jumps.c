/* longjmp across transactions: what was begun since setjmp is rolled back; a transaction that has ended cannot be gone
 * back into. */
#include <nvm/nvm.h>
#include <nvm/stm.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "new_pool.h"

static jmp_buf back;
static NVM_POOL* pool;
static long* number;

static void expect(long found, long expected, const char* what) {
  if (found == expected) return;
  fprintf(stderr, "%s: found %ld, expected %ld\n", what, found, expected);
  exit(1);
}

static int leave_barriers(nvm_stm* tx, void* to) {
  nvm_stm_store64(tx, to, 70);
  longjmp(back, 1);
}
static int store_seven(nvm_stm* tx, void* to) {
  nvm_stm_store64(tx, to, 7);
  return 0;
}

static void store_and_leave(long n, int levels) {
  for (int i = 0; i < levels; i++) {
    nvm_tx_begin(pool);
    *number = n + i;
  }
  longjmp(back, 1);
}

int main(int argc, char** argv) {
  pool = new_pool(argv[1], 1 << 20);
  if (pool == NULL) return 2;
  nvm_tx_begin(pool);
  number = nvm_calloc(pool, 1, 1, sizeof *number);
  nvm_pool_set_root(pool, number);
  nvm_tx_commit(pool);

  /* Out of all of them. */
  if (setjmp(back) == 0) store_and_leave(10, 3);
  expect(nvm_tx_depth(pool), 0, "depth after a jump out of three levels");
  expect(*number, 0, "number after a jump out of three levels");

  /* Out of the inner ones, and the outer one goes on. */
  nvm_tx_begin(pool);
  *number = 1;
  if (setjmp(back) == 0) store_and_leave(20, 2);
  expect(nvm_tx_depth(pool), 1, "depth after a jump out of two levels of three");
  expect(*number, 1, "number after a jump out of two levels of three");
  *number += 1;
  nvm_tx_commit(pool);
  expect(*number, 2, "number after the commit");

  /* Without a transaction in between nothing happens. */
  nvm_tx_begin(pool);
  *number = 3;
  volatile int times = 0;
  if (setjmp(back) == 0 || times < 3) {
    times++;
    *number += 1;
    longjmp(back, 1);
  }
  nvm_tx_commit(pool);
  expect(*number, 6, "number after three jumps inside a transaction");

  /* Out of a barrier transaction. */
  if (setjmp(back) == 0) nvm_stm_run(pool, leave_barriers, number);
  expect(nvm_stm_current() != NULL, 0, "a barrier transaction after a jump out of it");
  expect(*number, 6, "number after a jump out of a barrier transaction");
  expect(nvm_stm_run(pool, store_seven, number), 0, "the barrier transaction after it");
  expect(*number, 7, "number after that");

  if (argc > 2 && strcmp(argv[2], "ended") == 0) {
    nvm_tx_begin(pool);
    if (setjmp(back) == 0) { /* LINE ended */
      nvm_tx_commit(pool);
      longjmp(back, 1);
    }
    puts("not reached");
  }
  puts("done");
  return 0;
}
