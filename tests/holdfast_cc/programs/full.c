/* A store of a full pool whose old bytes have no room: nvm_tx_run() is left, everything is as before, and the program
 * goes on. */
#include <nvm/malloc.h>
#include <nvm/nvm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef POOL_ENGINE
#define POOL_ENGINE NVM_ENGINE_DETECT
#endif
enum { BYTES = 5 << 20, ONCE = 256 };

static NVM_POOL* pool;
static char* bytes;

static void expect(long found, long expected, const char* what) {
  if (found == expected) return;
  fprintf(stderr, "%s: found %ld, expected %ld (%s)\n", what, found, expected, nvm_errormsg());
  exit(1);
}

__attribute__((noinline)) static void store_some(char* at, int c, long n) {
  for (long i = 0; i < n; i++) at[i] = (char)(c + (i & 3));
}
static int store_all(void* with) {
  NVM_ATOMIC(pool);
  for (long at = 0; at < BYTES; at += ONCE) store_some(bytes + at, *(int*)with, ONCE);
  return 0;
}
static int store_few(void* with) {
  store_some(bytes, *(int*)with, 64);
  return *(int*)with == 9 ? 3 : 0;
}

static void fill(void) {
  for (long n = 1 << 20; n >= 64; n /= 2) {
    for (;;) {
      nvm_tx_begin(pool);
      if (nvm_alloc(pool, 0, n) == NULL || nvm_tx_commit(pool) != 0) break;
    }
    if (nvm_tx_depth(pool) != 0) nvm_tx_abort(pool);
  }
}

int main(int argc, char** argv) {
  nvm_pool_options how;
  memset(&how, 0, sizeof how);
  how.size = how.capacity = 16 << 20;
  how.engine = POOL_ENGINE;
  pool = argc < 2 ? NULL : nvm_pool_create_with(argv[1], &how);
  if (pool == NULL) return 2;
  nvm_tx_begin(pool);
  bytes = nvm_calloc(pool, 1, BYTES, 1);
  if (bytes == NULL) return 2;
  memset(bytes, 1, BYTES);
  nvm_pool_set_root(pool, bytes);
  expect(nvm_tx_commit(pool), 0, "commit of the object");
  fill();

  int with = 5;
  expect(nvm_tx_run(pool, store_all, &with), -1, "a body that stores everywhere");
  const int code = nvm_errno();
  expect(code == NVM_E_NO_SPACE || code == NVM_E_LOG_FULL || code == NVM_E_MUST_ABORT, 1, "a code that says why");
  expect(nvm_tx_depth(pool), 0, "depth after it");
  for (long i = 0; i < BYTES; i++) expect(bytes[i], 1, "a byte after it");

  with = 7;
  expect(nvm_tx_run(pool, store_few, &with), 0, "a body that stores little");
  expect(bytes[5], 8, "a byte of it");
  with = 9;
  expect(nvm_tx_run(pool, store_few, &with), 3, "a body that wants it back");
  expect(bytes[5], 8, "a byte after it");
  expect(nvm_pool_close(pool), 0, "close");
  puts("done");
  return 0;
}
