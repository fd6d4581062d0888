/* A pool that leads to a function, a table, a text and a function of the C library. */
#include <nvm/describe.h>
#include <nvm/static.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int operation(int, int);
typedef void sorting(void*, size_t, size_t, int (*)(const void*, const void*));

NVM_STRUCT hook {
  NVM_STATIC_PTR(operation) call;
  NVM_STATIC_PTR(const int) number;
  NVM_STATIC_PTR(const char) text;
  NVM_STATIC_PTR(sorting) sort;
};

#ifdef PADDED
int before(int a) { return a * 3; }
const int others[100] = {1};
#endif
#ifndef WITHOUT
static int add(int a, int b) { return a + b; }
#else
static int sum(int a, int b) { return a + b; }
#define add sum
#endif
static const int table[] = {10, 20, 30, 40};

#ifdef DESCRIBED
NVM_DESCRIBE(struct hook, NVM_STATIC(call, void), NVM_STATIC(number, int), NVM_STATIC(text, char),
             NVM_STATIC(sort, void));
NVM_STATIC_FUNCTION_AS("program.c:add", add);
NVM_STATIC_OBJECT_AS("program.c:table", table);
static const char red[] = "red";
NVM_STATIC_OBJECT_AS("\"red\"", red);
NVM_STATIC_FUNCTION(qsort);
#endif

static int by_size(const void* a, const void* b) { return *(const int*)a - *(const int*)b; }

static int make(NVM_POOL* pool) {
  struct hook* h;
  if (nvm_tx_begin(pool) != 0 || (h = (struct hook*)nvm_alloc(pool, NVM_TYPE_ID(struct hook), sizeof *h)) == NULL)
    return -1;
  h->call = add;
  h->number = &table[2];
  h->text = "red";
  h->sort = qsort;
  if (nvm_pool_set_root(pool, h) != 0 || nvm_tx_commit(pool) != 0) return -1;
  puts("made");
  return 0;
}

static int show(NVM_POOL* pool) {
  const struct hook* h = (const struct hook*)nvm_pool_get_root(pool);
  int list[] = {3, 1, 2};
  h->sort(list, 3, sizeof list[0], by_size);
  printf("add %d, table %d, text %s, sort of libc %s\n", h->call(2, 3), *h->number, h->text,
         list[0] == 1 && list[2] == 3 ? "works" : "fails");
  return 0;
}

int main(int argc, char** argv) {
  NVM_POOL* pool = NULL;
  int failed = -1;
  if (argc != 3) return 2;
  pool = strcmp(argv[1], "make") == 0 ? nvm_pool_create(argv[2], 4 << 20) : nvm_pool_open(argv[2]);
  if (pool != NULL) failed = strcmp(argv[1], "make") == 0 ? make(pool) : show(pool);
  if (failed != 0) printf("%s\n", nvm_errormsg());
  if (pool != NULL && nvm_pool_close(pool) != 0) failed = -1;
#ifdef PADDED
  return failed != 0 || before(1) + others[0] != 4;
#else
  return failed != 0;
#endif
}
