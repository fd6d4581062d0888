/* Objects that no root leads to: the next run begins without them. */
#include <nvm/nvm.h>
#include <nvm/placed.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int count(void* object, uint32_t type, size_t size, void* to) {
  (void)object;
  (void)type;
  (void)size;
  ++*(int*)to;
  return 0;
}

int main(int argc, char** argv) {
  NVM_PLACED_START;
  int objects = 0;
  if (nvm_pool_each(nvm_placed_pool(), count, &objects) != 0) return 2;
  printf("%d\n", objects);
  for (int k = 0; k < 100; ++k) {
    char* p = nvm_placed_malloc(k);
    if (p == NULL || !nvm_is_durable(p)) return 3;
    memset(p, k, k);
    p = nvm_placed_realloc(p, 1000);
    for (int n = 0; n < k; ++n) {
      if (p[n] != k) return 4;
    }
    if (nvm_placed_size(p) != 1000) return 5;
  }
  char* plain = nvm_placed_realloc(NULL, 10); /* by address: nothing yet, so ordinary */
  if (nvm_is_durable(plain)) return 6;
  nvm_placed_free(plain);
  char* aligned = nvm_placed_aligned(64, 100);
  if ((uintptr_t)aligned % 64 != 0 || !nvm_is_durable(aligned)) return 7;
  if (strcmp(nvm_placed_strndup("abcdef", 3), "abc") != 0) return 8;
  char *in = NVM_PLACED(nvm_placed_malloc_here(5)), *out = nvm_placed_malloc_here(5);
  if (!nvm_is_durable(in) || nvm_is_durable(out)) return 9;
  if (nvm_placed_calloc((size_t)-1, 16) != NULL) return 10;
  nvm_placed_free(NULL);
  if (argc > 1 && strcmp(argv[1], "abort") == 0) abort();
  return 0;
}
