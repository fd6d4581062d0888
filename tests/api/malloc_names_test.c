/* A source that names the C library's calls, and gets the family's. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvm/malloc.h"

#define NVM_MALLOC_NAMES
#include "nvm/malloc.h" /* again: now with the names */

struct word {
  struct word* next;
  char* text;
};

static struct word* push(struct word* first, const char* text) {
  struct word* w = calloc(1, sizeof *w);
  if (w == NULL) return first;
  w->text = strdup(text);
  w->text = realloc(w->text, 100);
  w->next = first;
  return w;
}

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, nvm_errormsg());
  return 1;
}

int main(int argc, char** argv) {
  char path[4096];
  snprintf(path, sizeof path, "%s/malloc_names.nvm", argc > 1 ? argv[1] : "/dev/shm");
  remove(path);
  NVM_POOL* pool = nvm_pool_create(path, 4 << 20);
  if (pool == NULL || nvm_tx_next(pool) != 0) return fail("create");
  struct word* volatile_ones = push(NULL, "volatile");
  struct word* durable = NULL;
  {
    NVM_SCOPE(pool);
    durable = push(push(NULL, "one"), "two");
  }
  if (nvm_is_durable(volatile_ones) || !nvm_is_durable(durable) || !nvm_is_durable(durable->next->text)) return 1;
  if (malloc_usable_size(durable->text) != 100) return 1;
  free(volatile_ones->text);
  free(volatile_ones);
  if (nvm_pool_set_root(pool, durable) != 0 || nvm_tx_commit(pool) != 0) return fail("commit");
  if (nvm_pool_close(pool) != 0) return fail("close");

  pool = nvm_pool_open(path);
  if (pool == NULL || nvm_tx_next(pool) != 0) return fail("open");
  durable = nvm_pool_get_root(pool);
  if (strcmp(durable->text, "two") != 0 || strcmp(durable->next->text, "one") != 0) return 1;
  free(durable->text);
  if (nvm_tx_commit(pool) != 0 || nvm_pool_close(pool) != 0) return fail("close");
  return remove(path) == 0 ? 0 : 1;
}
