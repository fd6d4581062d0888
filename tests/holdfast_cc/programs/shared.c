/* shared.c POOL WHAT: two threads and their transactions; a checked build reports those that share bytes. */
#include <nvm/nvm.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "new_pool.h"

NVM_STRUCT thing {
  long number;
  char text[200];
};

static const char* what;
static NVM_POOL* pool;
static struct thing* t;
static sem_t first_has_stored, second_has_stored;

static int is(const char* name) { return strcmp(what, name) == 0; }
static void must(int good) {
  if (good) return;
  fprintf(stderr, "%s\n", nvm_errormsg());
  exit(1);
}

__attribute__((noinline)) static void store_first(struct thing* p) {
  if (is("ranges")) {
    memset(p->text, 'f', 130); /* LINE ranges-first */
  } else if (is("neighbours")) {
    p->text[0] = 'f';
  } else {
    p->number = 1; /* LINE same-first */
  }
}
__attribute__((noinline)) static void store_second(struct thing* p) {
  if (is("ranges")) {
    p->text[129] = 's'; /* LINE ranges */
    p->text[130] = 's';
  } else if (is("neighbours")) {
    p->text[1] = 's';
  } else {
    p->number = 2; /* LINE same */
  }
}

/* What a program does that lets go of its locks here. */
static void hand_over(NVM_POOL* p, enum nvm_tx_event event, void* argument) {
  (void)p, (void)event, (void)argument;
  sem_post(&first_has_stored);
  sem_wait(&second_has_stored);
}

static void* second(void* argument) {
  sem_wait(&first_has_stored);
  must(nvm_tx_begin(pool) == 0);
  store_second(t);
  must(nvm_tx_commit(pool) == 0);
  sem_post(&second_has_stored);
  return argument;
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  what = argv[2];
  pool = new_pool(argv[1], 1 << 20);
  must(pool != NULL && nvm_tx_begin(pool) == 0);
  t = nvm_calloc(pool, NVM_TYPE_ID(thing), 1, sizeof *t);
  must(t != NULL && nvm_pool_set_root(pool, t) == 0 && nvm_tx_commit(pool) == 0);
  sem_init(&first_has_stored, 0, 0);
  sem_init(&second_has_stored, 0, 0);
  pthread_t other;
  must(pthread_create(&other, NULL, second, NULL) == 0);
  must(nvm_tx_begin(pool) == 0);
  if (is("ordered")) must(nvm_tx_on(pool, NVM_TX_ON_ORDERED, hand_over, NULL) == 0);
  must(nvm_tx_begin(pool) == 0); /* a level inside, of the same transaction */
  store_first(t);
  if (is("level")) {
    must(nvm_tx_abort(pool) == 0);
  } else {
    must(nvm_tx_commit(pool) == 0);
    store_first(t);
  }
  if (is("committed")) must(nvm_tx_commit(pool) == 0);
  if (is("aborted")) must(nvm_tx_abort(pool) == 0);
  if (!is("ordered")) {
    sem_post(&first_has_stored);
    sem_wait(&second_has_stored);
  }
  if (is("committed") || is("aborted")) must(nvm_tx_begin(pool) == 0);
  store_first(t);
  must(nvm_tx_commit(pool) == 0);
  pthread_join(other, NULL);
  must(nvm_pool_close(pool) == 0);
  puts("done");
  return 0;
}
