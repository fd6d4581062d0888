/* A list with fields that are zero after each open, stored to inside and outside of transactions: `reset POOL N`. */
#include <stdio.h>
#include <stdlib.h>

#include "nvm/malloc.h"

#ifdef STAYS
#undef NVM_RESET
#define NVM_RESET
#endif

NVM_STRUCT node {
  NVM_PTR(struct node) next;
  unsigned visits NVM_RESET;
  unsigned number;
};
NVM_STRUCT list {
  NVM_PTR(struct node) first;
  unsigned long calls NVM_RESET;
  NVM_PTR(struct node) newest NVM_RESET;
};

static void add(NVM_POOL* pool, struct list* list, unsigned number) {
  if (nvm_tx_begin(pool) != 0) {
    abort();
  }
  struct node* n = nvm_calloc(pool, NVM_TYPE_ID(struct node), 1, sizeof *n);
  if (n == NULL) {
    abort();
  }
  n->number = number;
  n->next = list->first;
  list->first = n;
  list->newest = n;
  if (n->next != NULL) {
    n->next->visits++;
  }
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
  struct list* list = nvm_calloc(pool, NVM_TYPE_ID(struct list), 1, sizeof *list);
  if (list == NULL || nvm_pool_set_root(pool, list) != 0 || nvm_tx_commit(pool) != 0) {
    return 2;
  }
  for (unsigned i = (unsigned)strtoul(argv[2], NULL, 10); i > 0; --i) {
    add(pool, list, i);
#ifndef STAYS
    list->calls++;
#endif
  }
  printf("%lu\n", list->calls);
  return nvm_pool_close(pool) == 0 ? 0 : 2;
}
