/* NVM_ATOMIC: however the block is left its transaction is over, and what a failed one wrote is not there.
 *
 * usage: atomic_blocks_test FOLDER */
#include <nvm/nvm.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static NVM_POOL* pool;
static long* number;

static void set(long n) {
  nvm_tx_log(number, sizeof *number);
  *number = n;
}

static int by_return(long n) {
  NVM_ATOMIC(pool);
  set(n);
  return nvm_tx_depth(pool) == 1 ? 7 : 8;
}

static void by_leaving_a_loop(long n) {
  for (int i = 0; i < 3; i++) {
    NVM_ATOMIC(pool);
    set(n + i);
    if (i == 1) break;
    continue;
  }
}

static int without_room(long n) {
  NVM_ATOMIC(pool);
  set(n);
  return nvm_alloc(pool, 1, (size_t)1 << 42) == NULL ? -1 : 0;
}

static int given_up(long n) {
  NVM_ATOMIC(pool);
  set(n);
  nvm_tx_abort(pool);
  return -1;
}

static int nested(long n) {
  NVM_ATOMIC(pool);
  set(n);
  by_return(n + 1);
  given_up(n + 2);
  return *number == n + 1 ? 0 : 1;
}

static void expect(long found, long expected, const char* what) {
  if (found == expected && nvm_tx_depth(pool) == 0) return;
  fprintf(stderr, "%s: found %ld in a transaction of depth %u, expected %ld in none\n", what, found, nvm_tx_depth(pool),
          expected);
  exit(1);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  char* path = malloc(strlen(argv[1]) + 64);
  sprintf(path, "%s/atomic-%ld.pool", argv[1], (long)getpid());
  pool = nvm_pool_create(path, 1 << 20);
  if (pool == NULL) {
    fprintf(stderr, "%s\n", nvm_errormsg());
    return 1;
  }
  nvm_tx_begin(pool);
  number = nvm_calloc(pool, 1, 1, sizeof *number);
  nvm_pool_set_root(pool, number);
  nvm_tx_commit(pool);

  expect(by_return(1), 7, "what a block returns");
  expect(*number, 1, "left by return");
  by_leaving_a_loop(10);
  expect(*number, 11, "left by break and continue");
  expect(without_room(20), -1, "what a block without room returns");
  expect(*number, 11, "after a block without room");
  expect(given_up(30), -1, "what a block returns that was given up");
  expect(*number, 11, "after a block that was given up");
  expect(nested(40), 0, "what nested blocks return");
  expect(*number, 41, "after nested blocks");
  nvm_tx_begin(pool);
  by_return(50);
  nvm_tx_abort(pool);
  expect(*number, 41, "after a block in a transaction that was aborted");

  /* What cannot begin ends the process. */
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    freopen("/dev/null", "w", stderr);
    by_return(60);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT) {
    fprintf(stderr, "a block in a forked child ended with status %d, expected SIGABRT\n", status);
    return 1;
  }
  if (nvm_pool_close(pool)) return 1;
  pool = nvm_pool_open(path);
  expect(pool != NULL ? *(long*)nvm_pool_get_root(pool) : -1, 41, "after opening again");
  nvm_pool_close(pool);
  unlink(path);
  free(path);
  return 0;
}
