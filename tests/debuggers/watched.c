/* A program that uses objects of a pool rightly, then reads one byte that belongs to no object.
 *
 * usage: watched <pool> <engine> <what>   what: nothing, overflow, large-overflow, freed, aborted, reopened, realloc */
#include <nvm/nvm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { objects = 60, large = 9000 };

static NVM_POOL* pool;
static char* object[objects];

static size_t size_of(int i) { return i == objects - 1 ? large : (size_t)(20 + 13 * i); }

static void must(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "%s: %s\n", what, nvm_errormsg());
  exit(3);
}

static char* make(size_t bytes) {
  char* const p = nvm_alloc(pool, 1, bytes);
  must(p != NULL, "nvm_alloc");
  memset(p, 1, bytes);
  return p;
}

/* Objects come, go, grow and come back by an abort; nobody may complain. */
static void use_rightly(void) {
  for (int i = 0; i < objects; i++) {
    must(nvm_tx_begin(pool) == 0, "begin");
    object[i] = make(size_of(i));
    if (i == 0) must(nvm_pool_set_root(pool, object[0]) == 0, "root");
    must(nvm_tx_commit(pool) == 0, "commit");
  }
  for (int i = 10; i < 30; i++) {
    must(nvm_tx_begin(pool) == 0, "begin");
    must(nvm_free(pool, object[i]) == 0, "free");
    must((i % 2 != 0 ? nvm_tx_abort(pool) : nvm_tx_commit(pool)) == 0, "end");
    if (i % 2 != 0) must(object[i][size_of(i) - 1] == 1, "an object that an abort brought back");
  }
  for (int i = 0; i < 40; i++) { /* also as runs of pages, whose pages become extents and runs again */
    must(nvm_tx_begin(pool) == 0, "begin");
    char* p = make((size_t)(100 + i * 700));
    p = nvm_realloc(pool, p, 1, (size_t)(110 + i * 700));
    must(p != NULL, "nvm_realloc");
    memset(p, 2, (size_t)(110 + i * 700));
    must(i % 3 == 0 ? nvm_tx_abort(pool) == 0 : nvm_free(pool, p) == 0 && nvm_tx_commit(pool) == 0, "end");
  }
  for (int i = 0; i < 10; i++) {
    must(nvm_tx_begin(pool) == 0, "begin");
    must(nvm_tx_log(object[i], size_of(i)) == 0, "nvm_tx_log");
    memset(object[i], 7, size_of(i));
    must(nvm_tx_commit(pool) == 0, "commit");
  }
}

static char touch(const char* what) {
  if (strcmp(what, "overflow") == 0) return object[1][size_of(1)];
  if (strcmp(what, "large-overflow") == 0) return object[objects - 1][large];
  if (strcmp(what, "freed") == 0) return object[10][5];
  if (strcmp(what, "aborted") == 0) {
    must(nvm_tx_begin(pool) == 0, "begin");
    const char* const p = make(100);
    must(nvm_tx_abort(pool) == 0, "abort");
    return p[50];
  }
  if (strcmp(what, "realloc") == 0) {
    must(nvm_tx_begin(pool) == 0, "begin");
    must(nvm_realloc(pool, object[5], 1, 5000) != NULL, "realloc");
    must(nvm_tx_commit(pool) == 0, "commit");
    return object[5][3];
  }
  return 0;
}

int main(int count, char** arguments) {
  if (count != 4) return 2;
  const nvm_pool_options options = {.size = 8 << 20, .engine = (uint32_t)atoi(arguments[2])};
  (void)unlink(arguments[1]);
  pool = nvm_pool_create_with(arguments[1], &options);
  must(pool != NULL, "create");
  use_rightly();
  int seen = touch(arguments[3]);
  must(nvm_pool_close(pool) == 0, "close");
  pool = nvm_pool_open(arguments[1]);
  must(pool != NULL, "open");
  const char* const root = nvm_pool_get_root(pool);
  must(root != NULL && root[size_of(0) - 1] == 7, "the root after opening");
  if (strcmp(arguments[3], "reopened") == 0) seen += root[size_of(0)];
  must(nvm_pool_close(pool) == 0, "close");
  (void)unlink(arguments[1]);
  printf("used rightly %d\n", seen);
  return 0;
}
