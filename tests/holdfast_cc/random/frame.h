/* What all random programs share: the state, how transactions are begun and ended, and what is done with them.
 *
 * usage: program POOL MODE [TRANSACTION [STEP]]
 *   run      prints the state's digest after each transaction; before it commits each is first done and taken back
 *   crash    like run up to TRANSACTION, in which the process ends before the commit, or, compiled with -DSTEPS, at
 * STEP of it digest   prints how many transactions are done, and the digest The twin (-DTWIN) only knows run, and keeps
 * its state in ordinary memory.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef TWIN
#define NVM_STRUCT      struct
#define NVM_PTR(T)      T*
#define NVM_WEAK_PTR(T) T*
#else
#include <nvm/gc.h>
#include <nvm/nvm.h>

#include "../programs/new_pool.h"
#endif

NVM_STRUCT inner {
  int32_t a;
  int16_t b;
  uint8_t c[5];
  uint64_t d;
};
NVM_STRUCT node {
  NVM_PTR(struct node) next;
  uint32_t n;
  uint8_t bytes[24];
};
NVM_STRUCT state {
  uint64_t done;
  int64_t i64[8];
  int32_t i32[40];
  int16_t i16[16];
  uint8_t u8[64];
  struct inner in[4];
  double f64[8];
  float f32[12];
  NVM_PTR(struct node) list;
  NVM_WEAK_PTR(struct node) newest; /* the last that was pushed, if it is there still */
  uint32_t nodes;
  char text[40];
};

typedef void transaction(struct state* s, struct state* o, uint64_t x);
extern transaction* const transactions[];
extern const unsigned transaction_count;

static void fail(const char* what) {
#ifndef TWIN
  fprintf(stderr, "%s: %s\n", what, nvm_errormsg());
#else
  fprintf(stderr, "%s\n", what);
#endif
  exit(1);
}

#ifdef STEPS
static uint64_t steps, crash_at;
static void step(void) {
  if (++steps == crash_at) _Exit(9);
}
#define STEP() step()
#else
#define STEP() ((void)0)
#endif

typedef void* copier(void*, const void*, size_t);
static copier* const copiers[2] __attribute__((unused)) = {memcpy, memmove};

__attribute__((unused)) static int by_value(const void* a, const void* b) {
  int64_t x, y;
  memcpy(&x, a, 8), memcpy(&y, b, 8);
  return (x > y) - (x < y);
}

#ifdef TWIN

enum { NODES_MAX = 64, LEVELS_MAX = 8 };
static struct world {
  struct state s;
  struct node node[NODES_MAX];
  uint8_t used[NODES_MAX];
} world, kept[LEVELS_MAX];
static unsigned levels;

static void begin(void) {
  if (levels == LEVELS_MAX) fail("too many levels");
  kept[levels++] = world;
}
static void commit(void) { levels--; }
static void take_back(void) { world = kept[--levels]; }
static struct node* new_node(void) {
  for (unsigned i = 0; i < NODES_MAX; i++) {
    if (!world.used[i]) return world.used[i] = 1, &world.node[i];
  }
  fail("too many nodes");
  return NULL;
}
static void drop_node(struct node* n) { world.used[n - world.node] = 0; }
static void unlinked(struct node* n) {
  if (world.s.newest == n) world.s.newest = NULL;
  drop_node(n);
}
static uint32_t newest_of(const struct state* s) { return s->newest == NULL ? 0 : s->newest->n + 1; }

#else /* not TWIN */

static NVM_POOL* pool;
static void begin(void) {
  if (nvm_tx_begin(pool)) fail("begin");
}
static void commit(void) {
  if (nvm_tx_commit(pool)) fail("commit");
}
static void take_back(void) {
  if (nvm_tx_abort(pool)) fail("abort");
}
static struct node* new_node(void) {
  struct node* n = nvm_alloc(pool, NVM_TYPE_ID(node), sizeof *n);
  if (n == NULL) fail("alloc");
  return n;
}
static void drop_node(struct node* n) {
  if (nvm_free(pool, n)) fail("free");
}
#ifdef POOL_COLLECT
/* A node that nothing refers to any more goes by itself, and the weak pointer to it becomes null.  One that was made
 * and unlinked in one transaction stays for the collector. */
static void unlinked(struct node* n) { (void)n; }
static uint32_t newest_of(const struct state* s) {
  uint32_t found = 0;
  if (s->newest != NULL && nvm_object_around(pool, s->newest) != s->newest) fail("weak pointer");
  const struct node* n = nvm_weak_get(&s->newest);
  for (const struct node* l = s->list; l != NULL && n != NULL; l = l->next) {
    if (l == n) found = n->n + 1;
  }
  if (n != NULL && nvm_drop(n)) fail("drop");
  return found;
}
static int is_node(void* object, uint32_t type, size_t size, void* count) {
  (void)object, (void)size;
  if (type == NVM_TYPE_ID(node)) ++*(unsigned*)count;
  return 0;
}
/* As many nodes are left as are linked, and counts were what pointers say. */
static void expect_no_garbage(const struct state* s) {
  unsigned nodes = 0;
  nvm_gc_report swept;
  if (nvm_settle(pool, NULL) || nvm_gc(pool, NULL, &swept)) fail("collect");
  const uint32_t newest = newest_of(s);
  if (nvm_pool_each(pool, is_node, &nodes)) fail("each");
  if (nodes == s->nodes && swept.mended_counts == 0 && (newest == 0) == (s->newest == NULL)) return;
  fprintf(stderr, "found %u nodes, expected %u; %u counts were wrong\n", nodes, (unsigned)s->nodes,
          (unsigned)swept.mended_counts);
  exit(4);
}
#else
static void unlinked(struct node* n);
static uint32_t newest_of(const struct state* s) { return s->newest == NULL ? 0 : s->newest->n + 1; }
static void expect_no_garbage(const struct state* s) { (void)s; }
#endif

#endif

static struct state* top; /* the durable one, whichever a function was given */

#if !defined(TWIN) && !defined(POOL_COLLECT)
static void unlinked(struct node* n) {
  if (top->newest == n) top->newest = NULL;
  drop_node(n);
}
#endif

__attribute__((unused)) static void push(uint32_t number) {
  struct state* s = top;
  if (s->nodes >= 20) return;
  struct node* n = new_node();
  n->next = s->list;
  n->n = number;
  for (unsigned i = 0; i < sizeof n->bytes; i++) n->bytes[i] = (uint8_t)(number + i);
  s->list = n;
  s->newest = n;
  s->nodes++;
}
__attribute__((unused)) static void pop(void) {
  struct state* s = top;
  struct node* n = s->list;
  if (n == NULL) return;
  s->list = n->next;
  s->nodes--;
  unlinked(n);
}

static uint64_t mix(uint64_t h, const void* p, size_t n) {
  const uint8_t* b = p;
  for (size_t i = 0; i < n; i++) h = (h ^ b[i]) * 0x100000001B3u;
  return h;
}
static uint64_t digest(const struct state* s) {
  uint64_t h = 0xCBF29CE484222325u;
  h = mix(h, s->i64, sizeof s->i64);
  h = mix(h, s->i32, sizeof s->i32);
  h = mix(h, s->i16, sizeof s->i16);
  h = mix(h, s->u8, sizeof s->u8);
  for (unsigned i = 0; i < 4; i++) {
    h = mix(h, &s->in[i].a, 4);
    h = mix(h, &s->in[i].b, 2);
    h = mix(h, s->in[i].c, 5);
    h = mix(h, &s->in[i].d, 8);
  }
  h = mix(h, s->f64, sizeof s->f64);
  h = mix(h, s->f32, sizeof s->f32);
  h = mix(h, s->text, sizeof s->text);
  h = mix(h, &s->nodes, sizeof s->nodes);
  for (const struct node* n = s->list; n != NULL; n = n->next) {
    h = mix(h, &n->n, sizeof n->n);
    h = mix(h, n->bytes, sizeof n->bytes);
  }
  const uint32_t newest = newest_of(s);
  return mix(h, &newest, sizeof newest);
}

/* The structure in ordinary memory that transactions get, too: as before each of them. */
static struct state other;
static void do_one(struct state* s, unsigned k) {
  top = s;
  memset(&other, (int)k + 1, sizeof other);
  other.list = other.newest = NULL, other.nodes = 0, other.text[39] = 0;
  transactions[k](s, &other, 0x9E3779B97F4A7C15u * (k + 1));
  s->text[39] = 0;
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const char* mode = argv[2];
  unsigned last = argc > 3 ? (unsigned)atoi(argv[3]) : transaction_count;
  (void)last, (void)mode;
#ifdef STEPS
  if (argc > 4) crash_at = (uint64_t)atoll(argv[4]);
#endif
#ifdef TWIN
  struct state* s = &world.s;
#else
#ifdef POOL_COLLECT
  const nvm_pool_options how = {.collect = POOL_COLLECT};
  pool = nvm_pool_open_with(argv[1], &how);
#else
  pool = nvm_pool_open(argv[1]);
#endif
  if (pool == NULL && nvm_errno() == NVM_E_NOT_FOUND) pool = new_pool(argv[1], 1 << 20);
  if (pool == NULL) fail("pool");
  struct state* s = nvm_pool_get_root(pool);
  if (s == NULL) {
    begin();
    s = nvm_calloc(pool, NVM_TYPE_ID(state), 1, sizeof *s);
    if (s == NULL || nvm_pool_set_root(pool, s)) fail("root");
    commit();
  }
  if (strcmp(mode, "digest") == 0) {
    printf("%" PRIu64 " %016" PRIx64 "\n", s->done, digest(s));
    expect_no_garbage(s);
    return nvm_pool_close(pool) != 0;
  }
#endif
  printf("%" PRIu64 " %016" PRIx64 "\n", s->done, digest(s));
  for (unsigned k = (unsigned)s->done; k < transaction_count; k++) {
#ifndef TWIN
    if (strcmp(mode, "run") == 0) {
      const uint64_t before = digest(s);
      begin();
      do_one(s, k);
      take_back();
      if (digest(s) != before) {
        fprintf(stderr, "transaction %u leaves something behind when it is taken back\n", k);
        return 3;
      }
    }
#ifdef STEPS
    steps = k == last ? 0 : UINT64_MAX / 2;
#endif
#endif
    begin();
    do_one(s, k);
    s->done++;
#ifndef TWIN
    if (k == last && strcmp(mode, "crash") == 0) _Exit(9);
#endif
    commit();
    printf("%u %016" PRIx64 "\n", k + 1, digest(s));
  }
#ifndef TWIN
  expect_no_garbage(s);
  if (nvm_pool_close(pool)) fail("close");
#endif
  return 0;
}
