/* One transaction for each thing that the pass does, each leaving a sum over the state that is right only if the whole
 * transaction is there, or none of it.
 *
 * usage: transformations POOL [check]: does what is left to do; or says whether the state is whole (exit code 1: not).
 */
#include <nvm/nvm.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

NVM_STRUCT node {
  NVM_PTR(NVM_STRUCT node) next;
  uint64_t number;
};
NVM_STRUCT state {
  uint64_t done;
  uint64_t sum;
  int64_t row[24];
  int32_t narrow[48];
  uint8_t bytes[64];
  char text[40];
  uint64_t apart[32];
  NVM_PTR(NVM_STRUCT node) list;
};

typedef char* copier(char*, const char*);
static copier* const copiers[] = {strcpy, strcat};

static uint64_t mix(uint64_t h, const void* p, size_t n) {
  const uint8_t* b = p;
  for (size_t i = 0; i < n; i++) h = (h ^ b[i]) * 0x100000001B3u;
  return h;
}
static uint64_t sum_of(const struct state* s) {
  uint64_t h = mix(s->done, s->row, sizeof s->row);
  h = mix(h, s->narrow, sizeof s->narrow);
  h = mix(h, s->bytes, sizeof s->bytes);
  h = mix(h, s->text, sizeof s->text);
  h = mix(h, s->apart, sizeof s->apart);
  for (const struct node* n = s->list; n != NULL; n = n->next) h = mix(h, &n->number, sizeof n->number);
  return h;
}

static void hoisted(NVM_POOL* pool, struct state* s) {
  (void)pool;
  for (int i = 0; i < 24; i++) s->row[i] = s->row[i] * 3 + i;
}
static void backwards(NVM_POOL* pool, struct state* s) {
  (void)pool;
  for (int i = 23; i >= 0; i--) s->row[i] ^= i + 7;
}
static void masked(NVM_POOL* pool, struct state* s) {
  (void)pool;
  for (int i = 0; i < 48; i++) {
    if (s->row[i % 24] & 4) s->narrow[i] += i;
  }
}
static void merged(NVM_POOL* pool, struct state* s) {
  (void)pool;
  s->bytes[3] = 1, s->bytes[4] = 2, s->bytes[2] = 3;
  s->bytes[5] ^= 0x55;
}
static void batched(NVM_POOL* pool, struct state* s) {
  (void)pool;
  s->apart[0] += 1, s->apart[9] += 2, s->apart[18] += 3, s->apart[27] += 4;
}
static void dominated(NVM_POOL* pool, struct state* s) {
  (void)pool;
  s->apart[4] += 1;
  if (s->apart[4] % 2) s->apart[4] *= 5;
  s->apart[4] ^= 0xF0F0;
}
static void levels(NVM_POOL* pool, struct state* s) {
  s->apart[5] = 1;
  nvm_tx_begin(pool);
  s->apart[5] = 2;
  s->row[1] = 99;
  nvm_tx_abort(pool);
  s->apart[5] += 10;
  nvm_tx_begin(pool);
  s->row[2] += 5;
  nvm_tx_commit(pool);
}
static void fresh(NVM_POOL* pool, struct state* s) {
  struct node* n = nvm_alloc(pool, NVM_TYPE_ID(node), sizeof *n);
  if (n == NULL) return;
  n->next = s->list;
  n->number = s->done;
  s->list = n;
}
static void freed(NVM_POOL* pool, struct state* s) {
  struct node* n = s->list;
  if (n == NULL) return;
  s->list = n->next;
  nvm_free(pool, n);
}
static void precompiled(NVM_POOL* pool, struct state* s) {
  (void)pool;
  snprintf(s->text, sizeof s->text, "round %u", (unsigned)s->done);
  strcat(s->text, "!");
}
static void wrapped(NVM_POOL* pool, struct state* s) {
  (void)pool;
  copiers[s->done % 2](s->text, "x");
}
static void blocks(NVM_POOL* pool, struct state* s) {
  (void)pool;
  memset(s->bytes + 8, (int)s->done, 20 + s->done % 8);
  memmove(s->bytes + 30, s->bytes, 16);
  memcpy(s->apart + 20, s->row, 4 * sizeof s->row[0]);
}
static void atomic(NVM_POOL* pool, struct state* s) {
  (void)pool;
  __atomic_fetch_add(&s->apart[6], 3, __ATOMIC_SEQ_CST);
  __atomic_store_n(&s->apart[7], s->done, __ATOMIC_RELEASE);
}
static void either(NVM_POOL* pool, struct state* s) {
  (void)pool;
  uint64_t local[2] = {0, 0};
  uint64_t* where = s->done % 2 ? &s->apart[10] : local;
  *where = s->done;
  s->apart[11] += local[0];
}
typedef void work(NVM_POOL*, struct state*);
static work* const all[] = {hoisted,     backwards, masked, merged, batched, dominated, levels, fresh,
                            precompiled, wrapped,   blocks, atomic, either,  fresh,     freed};
enum { WORKS = sizeof all / sizeof all[0], ROUNDS = 2 };

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  NVM_POOL* pool = nvm_pool_open(argv[1]);
  if (pool == NULL && nvm_errno() == NVM_E_NOT_FOUND) pool = nvm_pool_create(argv[1], 256 << 10);
  if (pool == NULL) {
    fprintf(stderr, "%s\n", nvm_errormsg());
    return 2;
  }
  struct state* s = nvm_pool_get_root(pool);
  if (argc > 2) {
    const int whole = s == NULL || s->sum == sum_of(s);
    if (!whole) fprintf(stderr, "the sum is wrong behind transaction %u\n", (unsigned)s->done);
    nvm_pool_close(pool);
    return whole ? 0 : 1;
  }
  if (s == NULL) {
    nvm_tx_begin(pool);
    s = nvm_calloc(pool, NVM_TYPE_ID(state), 1, sizeof *s);
    if (s == NULL) return 2;
    s->sum = sum_of(s);
    nvm_pool_set_root(pool, s);
    nvm_tx_commit(pool);
  }
  while (s->done < WORKS * ROUNDS) {
    nvm_tx_begin(pool);
    all[s->done % WORKS](pool, s);
    s->done++;
    s->sum = sum_of(s);
    if (nvm_tx_commit(pool) != 0) return 2;
  }
  printf("%u transactions, %016llx\n", (unsigned)s->done, (unsigned long long)s->sum);
  return nvm_pool_close(pool) == 0 ? 0 : 2;
}
