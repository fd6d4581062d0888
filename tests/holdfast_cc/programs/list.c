/* The linked list of Breeze's Fig. 5, and what can go wrong with it.  No call of the log anywhere. */
#include <nvm/nvm.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "new_pool.h"

NVM_STRUCT node {
  NVM_PTR(NVM_STRUCT node) next;
  long number;
  char data[32];
};
NVM_STRUCT list {
  NVM_PTR(NVM_STRUCT node) head;
  long count;
  long sum[64];
};

static void fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, nvm_errormsg());
  exit(1);
}

static void push(NVM_POOL* pool, struct list* list, long number) {
  struct node* n = nvm_alloc(pool, NVM_TYPE_ID(node), sizeof *n);
  if (n == NULL) fail("alloc");
  n->next = list->head;
  n->number = number;
  snprintf(n->data, sizeof n->data, "node %ld", number);
  list->head = n;
  list->count++;
  for (int i = 0; i < 64; i++) list->sum[i] += number * i;
}

static void check(const struct list* list) {
  long count = 0, total = 0;
  for (const struct node* n = list->head; n != NULL; n = n->next) {
    char expected[32];
    snprintf(expected, sizeof expected, "node %ld", n->number);
    if (strcmp(expected, n->data) != 0) {
      fprintf(stderr, "found '%s', expected '%s'\n", n->data, expected);
      exit(1);
    }
    total += n->number;
    count++;
  }
  if (count != list->count) {
    fprintf(stderr, "found %ld nodes, expected %ld\n", count, list->count);
    exit(1);
  }
  for (int i = 0; i < 64; i++) {
    if (list->sum[i] != total * i) {
      fprintf(stderr, "sum[%d]: found %ld, expected %ld\n", i, list->sum[i], total * i);
      exit(1);
    }
  }
}

/* Everything that an abort has to take back, by every kind of store. */
static void scribble(struct list* list, struct node* n) {
  memset(list->sum, 0xEE, sizeof list->sum);
  for (int i = 0; i < 64; i++) list->sum[i] = -i;
  strcpy(n->data, "overwritten");
  strcat(n->data, " twice");
  memcpy(n->data + 4, "abcd", 4);
  n->number ^= 5;
  __atomic_fetch_add(&list->count, 7, __ATOMIC_RELAXED);
  __atomic_store_n(&list->head, NULL, __ATOMIC_RELEASE);
  long numbers[64];
  for (int i = 0; i < 64; i++) numbers[i] = i * 3;
  struct list copy = *list;
  memcpy(copy.sum, numbers, sizeof numbers);
  *list = copy;
}

int main(int argc, char** argv) {
  const char* path = argv[1];
  long rounds = argc > 2 ? atol(argv[2]) : 10;
  NVM_POOL* pool = nvm_pool_open(path);
  if (pool == NULL) pool = new_pool(path, 8 << 20);
  if (pool == NULL) fail("pool");
  struct list* list = nvm_pool_get_root(pool);
  if (list == NULL) {
    nvm_tx_begin(pool);
    list = nvm_calloc(pool, NVM_TYPE_ID(list), 1, sizeof *list);
    if (list == NULL || nvm_pool_set_root(pool, list) != 0) fail("root");
    if (nvm_tx_commit(pool) != 0) fail("commit");
  }
  check(list);
  for (long i = 0; i < rounds; i++) {
    nvm_tx_begin(pool);
    push(pool, list, list->count + 1);
    if (nvm_tx_commit(pool) != 0) fail("commit");

    nvm_tx_begin(pool);
    push(pool, list, 1000);
    scribble(list, list->head);
    nvm_tx_abort(pool);
    check(list);

    /* No room for an object: what is written before the program gives up is taken back too. */
    nvm_tx_begin(pool);
    if (nvm_alloc(pool, 1, (size_t)1 << 40) != NULL) fail("an object of a terabyte");
    scribble(list, list->head);
    nvm_tx_abort(pool);
    check(list);

    /* A level that is taken back inside one that stays. */
    nvm_tx_begin(pool);
    push(pool, list, list->count + 1);
    nvm_tx_begin(pool);
    scribble(list, list->head);
    nvm_tx_abort(pool);
    check(list);
    if (nvm_tx_commit(pool) != 0) fail("commit");
    check(list);
  }
  if (argc > 3) { /* is killed in the middle of a transaction */
    nvm_tx_begin(pool);
    push(pool, list, 1000);
    scribble(list, list->head);
    raise(SIGKILL);
  }
  printf("%ld nodes\n", list->count);
  if (nvm_pool_close(pool) != 0) fail("close");
  return 0;
}
