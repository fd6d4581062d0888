/* A list whose stores the compiler logs: `compiled POOL N`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvm/nvm.h"

struct node {
  struct node* next;
  char text[24];
};

struct list {
  struct node* first;
  unsigned long length;
};

static void add(NVM_POOL* pool, struct list* list, long number) {
  if (nvm_tx_begin(pool) != 0) {
    abort();
  }
  struct node* n = nvm_alloc(pool, 2, sizeof *n);
  if (n == NULL) {
    abort();
  }
  memset(n->text, 0, sizeof n->text);
  snprintf(n->text, sizeof n->text, "number %ld", number);
  n->next = list->first;
  list->first = n;
  list->length++;
  if (nvm_tx_commit(pool) != 0) {
    abort();
  }
}

int main(int argc, char** argv) {
  NVM_POOL* pool = argc == 3 ? nvm_pool_create(argv[1], 2 << 20) : NULL;
  if (pool == NULL || nvm_tx_begin(pool) != 0) {
    fprintf(stderr, "%s\n", nvm_errormsg());
    return 2;
  }
  struct list* list = nvm_calloc(pool, 1, 1, sizeof *list);
  if (list == NULL || nvm_pool_set_root(pool, list) != 0 || nvm_tx_commit(pool) != 0) {
    return 2;
  }
  for (long i = strtol(argv[2], NULL, 10); i > 0; --i) {
    add(pool, list, i);
  }
  printf("%lu\n", list->length);
  return nvm_pool_close(pool) == 0 ? 0 : 2;
}
