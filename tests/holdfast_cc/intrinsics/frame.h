/* What generated cases are compiled into. Each stores from `s` into `m`; it is run
 *   in a transaction on a durable object, and taken back: the bytes must be those of before;
 *   in a transaction that commits, and on ordinary memory: the bytes must be the same;
 *   on other ordinary memory once more: what differs there, differs by itself, as random numbers do.
 *
 * usage: program POOL FIRST: the cases from that number on. Prints the name of each before it, and after it one of
 * restored, nothing (stored), varies (restored, but no two runs store the same), LOST, DIFFERS. */
#include <nvm/nvm.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <x86intrin.h>

enum { ROUNDS = 3, BYTES = 1 << 17, SOURCE_BYTES = 1 << 14, ALIGNED = 64, WORDS_AT = 8192, HALVES_AT = 12288 };
typedef void stores(unsigned char* m, unsigned char* s);
struct a_case {
  const char* name;
  stores* run;
};
#define CASE __attribute__((noinline)) static void

/* Read where a count must not be known to the compiler. */
static volatile long some = 200;

static void fill(unsigned char* m) {
  for (unsigned i = 0; i < BYTES; i++) m[i] = (unsigned char)(i * 7 + i / 251);
}
/* Bytes with and without their top bits, others in each round; and, further on, numbers of lanes. */
static void fill_source(unsigned char* s, unsigned round) {
  uint64_t x = 88172645463325252u + round;
  for (unsigned i = 0; i < SOURCE_BYTES; i++) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    s[i] = (unsigned char)x;
  }
  for (unsigned i = 0; i < 16; i++) {
    ((int64_t*)(s + WORDS_AT))[i] = (int64_t)i * 24 % 200;
    ((int32_t*)(s + HALVES_AT))[i] = (int32_t)i * 24 % 200;
  }
}

/* Matrix registers, where the processor and the system have them: 16 rows of 64 bytes each. */
static int have_tiles(void) {
  return __builtin_cpu_supports("amx-tile") && syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18) == 0;
}
__attribute__((target("amx-tile"))) static void set_tiles(void) {
  struct {
    unsigned char palette, row, none[14];
    uint16_t columns[16];
    unsigned char rows[16];
  } how = {.palette = 1};
  for (int k = 0; k < 8; k++) how.columns[k] = 64, how.rows[k] = 16;
  _tile_loadconfig(&how);
}

static const char* judge(NVM_POOL* pool, const struct a_case* c, unsigned char* o, unsigned char* s,
                         unsigned char* plain[2], int tiles) {
  for (int k = 0; k < 2; k++) {
    memcpy(plain[k], o, BYTES);
    if (tiles) set_tiles();
    c->run(plain[k], s);
  }
  unsigned char* before = malloc(BYTES);
  memcpy(before, o, BYTES);
  nvm_tx_begin(pool);
  if (tiles) set_tiles();
  c->run(o, s);
  const int stored = memcmp(before, o, BYTES) != 0;
  nvm_tx_abort(pool);
  const int back = memcmp(before, o, BYTES) == 0;
  nvm_tx_begin(pool);
  if (tiles) set_tiles();
  c->run(o, s);
  nvm_tx_commit(pool);
  const int varies = memcmp(plain[0], plain[1], BYTES) != 0;
  const int same = memcmp(plain[0], o, BYTES) == 0;
  const int expected = memcmp(plain[0], before, BYTES) != 0;
  free(before);
  if (!back) return "LOST";
  if (!varies && (!same || stored != expected)) return "DIFFERS";
  if (varies) return "varies";
  return stored ? "restored" : "nothing";
}

static int run_all(const struct a_case* all, size_t cases, char** arguments) {
  nvm_pool_options how = {0};
  how.size = 16 << 20;
#ifdef POOL_ENGINE
  how.engine = POOL_ENGINE;
#endif
  NVM_POOL* pool = nvm_pool_create_with(arguments[1], &how);
  unsigned char* s = aligned_alloc(ALIGNED, SOURCE_BYTES);
  unsigned char* plain[2] = {aligned_alloc(ALIGNED, BYTES), aligned_alloc(ALIGNED, BYTES)};
  if (pool == NULL || s == NULL || plain[0] == NULL || plain[1] == NULL) return 2;
  const int tiles = have_tiles();
  nvm_tx_begin(pool);
  unsigned char* o = nvm_alloc(pool, 1, BYTES + ALIGNED);
  nvm_tx_commit(pool);
  if (o == NULL) return 2;
  o += (ALIGNED - (uintptr_t)o % ALIGNED) % ALIGNED;
  for (size_t k = (size_t)atol(arguments[2]); k < cases; k++) {
    const char* said = "nothing";
    printf("%s ", all[k].name), fflush(stdout);
    for (unsigned round = 0; round < ROUNDS; round++) {
      fill_source(s, round);
      nvm_tx_begin(pool);
      fill(o);
      nvm_tx_commit(pool);
      const char* now = judge(pool, &all[k], o, s, plain, tiles);
      if (strcmp(now, "nothing") != 0 && strcmp(said, "LOST") != 0 && strcmp(said, "DIFFERS") != 0) said = now;
    }
    puts(said), fflush(stdout);
  }
  return nvm_pool_close(pool) != 0;
}
