/* Each argument does one thing that a checked build reports; `nothing` does none of them. */
#include <nvm/nvm.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "new_pool.h"

NVM_STRUCT thing {
  NVM_PTR(NVM_STRUCT thing) next;
  long number;
  char text[48];
};

void change_unlogged(char* p); /* elsewhere.c, compiled without the pass */
void read_only(const char* p);
struct buried {
  long bytes;
  char* where;
};
void change_buried(const struct buried* b);
__attribute__((naked)) static void bare(char* p) { __asm__("xorb $0x55, (%rdi)\n\tret"); }
/* Not those of the C library. */
void warn(int code);
int insque(long a, long b);

/* Here nobody knows at compile time that it is durable. */
__attribute__((noinline)) static void keep(char* p) { setvbuf(stderr, p, 0, 48); /* LINE kept */ }

__attribute__((noinline)) static void post(char* p) { sem_post((sem_t*)p); /* LINE lock */ }

static NVM_POOL* fresh_pool(const char* name) {
  NVM_POOL* pool = new_pool(name, 1 << 20);
  if (pool == NULL) {
    fprintf(stderr, "%s\n", nvm_errormsg());
    exit(1);
  }
  return pool;
}

static struct thing* first_thing(NVM_POOL* pool) {
  nvm_tx_begin(pool);
  struct thing* t = nvm_calloc(pool, NVM_TYPE_ID(thing), 1, sizeof *t);
  nvm_pool_set_root(pool, t);
  nvm_tx_commit(pool);
  return nvm_pool_get_root(pool);
}

int main(int argc, char** argv) {
  const char* what = argc > 3 ? argv[3] : "nothing";
  NVM_POOL* pool = fresh_pool(argv[1]);
  NVM_POOL* other = fresh_pool(argv[2]);
  struct thing* t = first_thing(pool);
  struct thing* u = first_thing(other);
  struct thing on_the_stack = {0};
  nvm_tx_begin(pool);
  nvm_tx_begin(other);
  t->number = 1;
  t->next = t;
  t->next = NULL;
  on_the_stack.next = t;
  read_only(t->text);
  warn(7);
  insque(5, 6);
  nvm_tx_log(t->text, 4);
  change_unlogged(t->text);
  if (strcmp(what, "volatile") == 0) t->next = &on_the_stack; /* LINE volatile */
  if (strcmp(what, "heap") == 0) t->next = malloc(sizeof *t); /* LINE heap */
  if (strcmp(what, "foreign") == 0) t->next = u;              /* LINE foreign */
  void (*volatile pointer)(char*) = change_unlogged;
  struct buried inside = {4, t->text + 20};
  if (strcmp(what, "pointer") == 0) pointer(t->text + 8);  /* LINE pointer */
  if (strcmp(what, "buried") == 0) change_buried(&inside); /* LINE buried */
  if (strcmp(what, "kept") == 0) keep(t->text);
  if (strcmp(what, "unlogged") == 0) change_unlogged(t->text + 8); /* LINE unlogged */
  if (strcmp(what, "lock") == 0) post(t->text + 16);
  if (strcmp(what, "naked") == 0) bare(t->text + 8); /* LINE naked */
  nvm_tx_commit(other);
  if (strcmp(what, "ended") == 0) u->number = 7; /* LINE ended */
  nvm_tx_commit(pool);
  if (strcmp(what, "outside") == 0) t->number = 7;                        /* LINE outside */
  if (strcmp(what, "memset") == 0) memset(t->text, argc, sizeof t->text); /* LINE memset */
  if (strcmp(what, "strcpy") == 0) strcpy(t->text, argv[0]);              /* LINE strcpy */
  puts("done");
  return 0;
}
