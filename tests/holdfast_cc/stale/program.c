/* Fields that need no log: what an abort, a commit and a kill leave of them. */
#include <nvm/malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum colour { RED, GREEN };
struct entry {
  long value;
  unsigned long last_use NVM_STALE_OK;
  unsigned hits[4] NVM_STALE_OK;
  enum colour colour NVM_STALE_OK;
};

static int touch(struct entry* e, unsigned i) {
  e->last_use += 10;
  e->hits[i]++;
  e->colour = GREEN;
  return (int)e->value;
}
static int failed(const char* what) {
  printf("%s: %s\n", what, nvm_errormsg());
  return 1;
}

int main(int argc, char** argv) {
  struct entry* e;
  nvm_statistics before, after;
  NVM_POOL* pool = NULL;
  if (argc != 3) return 2;
  if (strcmp(argv[1], "make") == 0) {
    nvm_pool_options o = {0};
    o.size = 4 << 20;
    pool = nvm_pool_create_with(argv[2], &o);
    if (pool == NULL || nvm_tx_begin(pool) != 0) return failed("create");
    e = nvm_calloc(pool, 0, 1, sizeof *e);
    if (e == NULL || nvm_pool_set_root(pool, e) != 0) return failed("allocate");
    e->value = 1;
    e->last_use = 100;
    if (nvm_tx_commit(pool) != 0) return failed("commit");
  } else {
    pool = nvm_pool_open(argv[2]);
    if (pool == NULL) return failed("open");
    e = nvm_pool_get_root(pool);
    printf("%ld %d %d %d\n", e->value, e->last_use % 10 == 0 && e->last_use >= 100,
           e->hits[0] == 0 && e->hits[2] <= 4000, e->colour == RED || e->colour == GREEN);
  }
  /* An abort leaves such a field as it was stored, and takes back the others. */
  if (nvm_tx_begin(pool) != 0) return failed("begin");
  e->value = 7;
  e->last_use = 200;
  if (nvm_tx_abort(pool) != 0) return failed("abort");
  printf("after abort %ld %lu\n", e->value, e->last_use);
  /* Turns that change nothing else cost nothing durable. */
  if (nvm_pool_get_statistics(pool, &before) != 0) return failed("statistics");
  for (unsigned i = 0; i < 1000; ++i) {
    if (nvm_tx_next(pool) != 0) return failed("next");
    (void)touch(e, 2);
  }
  if (nvm_tx_commit(pool) != 0 || nvm_pool_get_statistics(pool, &after) != 0) return failed("commit");
  printf("logged %lu\n", (unsigned long)(after.logged_bytes - before.logged_bytes));
  (void)fflush(stdout);
  if (strcmp(argv[1], "kill") == 0) (void)kill(getpid(), SIGKILL);
  return nvm_pool_close(pool) != 0;
}
