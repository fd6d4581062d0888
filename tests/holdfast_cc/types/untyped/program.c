/* A program that was written for malloc(): objects without types lead to functions, tables, texts and a file. */
#include <nvm/malloc.h>
#include <nvm/static.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct operations {
  const char* name;
  int (*call)(int, int);
};
struct object {
  const struct operations* does;
  int (*call)(int, int);
  const char* text;
  FILE* out;
  int* counter;
  unsigned long number; /* what looks like a token is none */
};

#ifdef PADDED
int before(int a) { return a * 3; }
const int others[100] = {1};
#endif
static int add(int a, int b) { return a + b; }
#ifndef WITHOUT
static int times(int a, int b) { return a * b; }
#else
#define times add
#endif
static const struct operations arithmetic = {"arithmetic", times};

static int* counter_of(void) {
  static int counts[4] = {7, 8, 9, 10};
  return counts;
}

static int make(NVM_POOL* pool) {
  struct object* o;
  if (nvm_tx_begin(pool) != 0) return -1;
  {
    NVM_SCOPE(pool);
    o = nvm_malloc(sizeof *o);
  }
  if (o == NULL) return -1;
  o->does = &arithmetic;
  o->call = add;
  o->text = &"red"[1];
  o->out = stdout;
  o->counter = counter_of() + 2;
  o->number = 0x5A00001000000004;
  if (nvm_pool_set_root(pool, o) != 0 || nvm_tx_commit(pool) != 0) return -1;
  puts("made");
  return 0;
}

static int show(NVM_POOL* pool) {
  const struct object* o = nvm_pool_get_root(pool);
  fprintf(o->out, "%s %d, %d, %s, %d, %lx\n", o->does->name, o->does->call(3, 4), o->call(3, 4), o->text, *o->counter,
          o->number);
  return 0;
}

int main(int argc, char** argv) {
  NVM_POOL* pool;
  int failed = -1;
  if (argc != 3) return 2;
  if (nvm_static("stdout", stdout, sizeof *stdout) != 0) return 2;
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
