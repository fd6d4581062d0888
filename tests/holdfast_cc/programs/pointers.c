/* Precompiled functions that are called through pointers are logged for. */
#include <nvm/nvm.h>
#include <stdio.h>
#include <string.h>

#include "new_pool.h"

typedef char* copier(char*, const char*);
typedef void* setter(void*, int, size_t);
static copier* const copiers[] = {strcpy, strcat};
static setter* volatile set = memset;

int main(int argc, char** argv) {
  (void)argc;
  NVM_POOL* pool = new_pool(argv[1], 1 << 20);
  if (pool == NULL) return 2;
  nvm_tx_begin(pool);
  char* text = nvm_calloc(pool, 1, 1, 64);
  strcpy(text, "before");
  nvm_pool_set_root(pool, text);
  nvm_tx_commit(pool);
  text = nvm_pool_get_root(pool);
  for (unsigned i = 0; i < 3; i++) {
    nvm_tx_begin(pool);
    if (i < 2) {
      copiers[i](text, "after");
    } else {
      set(text, 'x', 10);
    }
    nvm_tx_abort(pool);
    if (strcmp(text, "before") != 0) {
      fprintf(stderr, "pointer %u: found '%s', expected 'before'\n", i, text);
      return 1;
    }
  }
  if (copiers[0] != strcpy) {
    fputs("two pointers to strcpy differ\n", stderr);
    return 1;
  }
  puts("done");
  return 0;
}
