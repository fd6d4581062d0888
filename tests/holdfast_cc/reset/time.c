/* What an open takes where each of N objects has fields that are zero after it: `time POOL N`. */
#include <nvm/malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

NVM_STRUCT item {
  NVM_PTR(struct item) next;
  char text[72];
  int fd NVM_RESET;
  unsigned hits NVM_RESET;
};

static double now_ms(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}
static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  enum { OPENS = 5 };
  double took[OPENS];
  const unsigned long n = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
  nvm_pool_options o = {0};
  o.size = (size_t)(n * 160) + (16 << 20);
  NVM_POOL* pool = n == 0 ? NULL : nvm_pool_create_with(argv[1], &o);
  if (pool == NULL) return 2;
  for (unsigned long k = 0; k < n;) {
    if (nvm_tx_begin(pool) != 0) return 2;
    struct item* last = nvm_pool_get_root(pool);
    for (unsigned i = 0; i < 500 && k < n; ++i, ++k) {
      struct item* t = nvm_calloc(pool, NVM_TYPE_ID(struct item), 1, sizeof *t);
      if (t == NULL) return 2;
      t->next = last;
      last = t;
    }
    if (nvm_pool_set_root(pool, last) != 0 || nvm_tx_commit(pool) != 0) return 2;
  }
  for (unsigned i = 0; i < OPENS; ++i) {
    for (struct item* t = nvm_pool_get_root(pool); t != NULL; t = t->next) {
      t->fd = 1;
      t->hits = 1;
    }
    if (nvm_pool_close(pool) != 0) return 2;
    const double before = now_ms();
    pool = nvm_pool_open(argv[1]);
    took[i] = now_ms() - before;
    if (pool == NULL) return 2;
    for (const struct item* t = nvm_pool_get_root(pool); t != NULL; t = t->next) {
#ifndef STAYS
      if (t->fd != 0 || t->hits != 0) return 1;
#endif
    }
  }
  qsort(took, OPENS, sizeof took[0], ascending);
  printf("%lu objects: an open takes %.2f ms\n", n, took[OPENS / 2]);
  return nvm_pool_close(pool) != 0;
}
