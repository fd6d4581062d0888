/* Lengths that are larger than the object are cut at its end: nothing fails, and what lies after it is left alone. */
#include <limits.h>
#include <nvm/nvm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "new_pool.h"

enum { small = 32, middle = 4000, large = 1 << 20 };

/* A store that the compiler does not log. */
static void store_aside(char* p, char value) { __asm__ volatile("movb %1, (%0)" ::"r"(p), "q"(value)); }

__attribute__((noinline)) static void print(char* to, size_t room) { snprintf(to, room, "item %d", 7); }
__attribute__((noinline)) static void fill(char* to, size_t room) {
  int ends[2];
  if (pipe(ends) != 0 || write(ends[1], "read", 4) != 4 || read(ends[0], to, room) != 4) abort();
  close(ends[0]);
  close(ends[1]);
}
__attribute__((noinline)) static void link_of(char* to, size_t room) {
  if (readlink("/proc/self/exe", to, room) <= 0) abort();
}

static int fails(const char* what, unsigned bytes, unsigned at) {
  fprintf(stderr, "object of %u bytes, at %u: %s\n", bytes, at, what);
  return 1;
}

/* At `at` of an object: what is written is taken back, what another changes at the same time is not. */
static int try_at(NVM_POOL* pool, char* object, unsigned bytes, unsigned at, char* next) {
  static void (*const all[])(char*, size_t) = {print, fill, link_of};
  for (unsigned k = 0; k < sizeof all / sizeof *all; ++k) {
    nvm_tx_begin(pool);
    memset(object, 'a', bytes);
    memset(next, 'a', small);
    nvm_tx_commit(pool);
    nvm_tx_begin(pool);
    all[k](object + at, INT_MAX);
    if (object[at] == 'a') return fails("nothing was written", bytes, at);
    for (unsigned i = 0; i < small; ++i) store_aside(next + i, 'b');
    if (k == 0) store_aside(object + at + 20, 'b');
    nvm_tx_abort(pool);
    if (object[at] != 'a') return fails("what was written was not taken back", bytes, at);
    for (unsigned i = 0; i < small; ++i) {
      if (next[i] != 'b') return fails("an abort took back what was not announced", bytes, at);
    }
    if (k == 0 && object[at + 20] != 'b') return fails("more was logged than printed", bytes, at);
  }
  return 0;
}

static int try_object(NVM_POOL* pool, unsigned bytes) {
  nvm_tx_begin(pool);
  char* object = nvm_alloc(pool, 1, bytes);
  char* next = nvm_alloc(pool, 1, small);
  nvm_tx_commit(pool);
  if (object == NULL || next == NULL) return fails("no room", bytes, 0);
  if (try_at(pool, object, bytes, 0, next) != 0) return 1;
  return bytes == small ? 0 : try_at(pool, object, bytes, bytes - 3000, next);
}

/* Objects that nobody has looked at since the pool was opened. */
static int try_again(const char* path) {
  NVM_POOL* pool = nvm_pool_open(path);
  if (pool == NULL) return fails("the pool does not open", 0, 0);
  char* object = nvm_pool_get_root(pool);
  nvm_tx_begin(pool);
  print(object + large / 2, INT_MAX);
  fill(object + large / 2 + 100, INT_MAX);
  nvm_tx_abort(pool);
  if (object[large / 2] != 0 || object[large / 2 + 100] != 0) return fails("opened again: not taken back", large, 0);
  return nvm_pool_close(pool);
}

int main(int argc, char** argv) {
  (void)argc;
  NVM_POOL* pool = new_pool(argv[1], 64 << 20);
  if (pool == NULL) return 2;
  if (try_object(pool, small) || try_object(pool, middle) || try_object(pool, large)) return 1;
  nvm_tx_begin(pool);
  nvm_pool_set_root(pool, nvm_calloc(pool, 1, 1, large));
  nvm_tx_commit(pool);
  if (nvm_pool_close(pool) != 0 || try_again(argv[1]) != 0) return 1;
  puts("done");
  return 0;
}
