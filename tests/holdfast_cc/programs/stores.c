/* Stores that are no assignments: each is taken back by an abort, and kept by a commit. */
/* LIBRARIES: -latomic */
#include <immintrin.h>
#include <nvm/nvm.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "new_pool.h"

#pragma clang diagnostic ignored "-Watomic-alignment" /* large ones are meant */

enum { BYTES = 1 << 16 };
struct row {
  uint32_t a, b, c, d, e;
};
typedef struct {
  char text[40];
} name;
#define CASE __attribute__((noinline)) static void

CASE one_field_of_each_row(unsigned char* o) {
  struct row* r = (struct row*)o;
  for (int i = 0; i < 256; i++) r[i].c = (uint32_t)i + 1;
}
CASE rows_that_are_chosen(unsigned char* o) {
  struct row* r = (struct row*)o;
  for (int i = 0; i < 256; i++) {
    if (r[i].a % 3 == 1) r[i].b = r[i].a + 7;
  }
}
CASE list_of_arguments(unsigned char* o, ...) {
  va_list* kept = (va_list*)(o + 64);
  va_start(*kept, o);
  o[0] = (unsigned char)va_arg(*kept, int);
  va_end(*kept);
}
CASE arguments(unsigned char* o) { list_of_arguments(o, 42, 43); }
CASE jump_buffer(unsigned char* o) {
  if (__builtin_setjmp((void**)(o + 8)) == 0) o[0] ^= 255;
}
CASE state_of_the_processor(unsigned char* o) { _fxsave(o + 512); }
CASE control_of_floating_point(unsigned char* o) {
  unsigned* at = (unsigned*)(o + 128);
  __asm__ volatile("stmxcsr %0" : "=m"(*at));
  *(unsigned*)o = _mm_getcsr() + 1;
}
CASE assembly_says_so(unsigned char* o) { __asm__ volatile("movb $7, 30000(%0)" ::"r"(o) : "memory"); }
CASE assembly_has_a_number(unsigned char* o) {
  __asm__ volatile("movq $7, 100(%0)" ::"r"((uintptr_t)o + 2000) : "memory");
}
CASE assembly_reads_and_writes(unsigned char* o) { __asm__ volatile("incl %0" : "+m"(*(int*)(o + 16))); }
CASE by_mask(unsigned char* o) {
  _mm_maskmoveu_si128(_mm_set1_epi8(9), _mm_set1_epi64x((long long)0x80ff00ff0080ff00ull), (char*)o + 100);
}
CASE past_the_cache(unsigned char* o) { _mm_stream_si128((__m128i*)(o + 256), _mm_set1_epi8(3)); }
CASE large_atomic(unsigned char* o) {
  name n = {"new"};
  *(_Atomic name*)(o + 64) = n;
}
CASE large_atomic_is_exchanged(unsigned char* o) {
  name n = {"new"};
  __atomic_exchange((name*)(o + 64), &n, (name*)(o + 128), __ATOMIC_SEQ_CST);
}
CASE large_atomic_is_compared(unsigned char* o) {
  name n = {"newer"};
  name* expected = (name*)(o + 128);
  for (int i = 0; i < 2; i++)
    __atomic_compare_exchange((name*)(o + 64), expected, &n, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}
CASE large_atomic_is_read(unsigned char* o) { __atomic_load((name*)(o + 64), (name*)(o + 320), __ATOMIC_SEQ_CST); }
CASE long_double_atomic(unsigned char* o) {
  _Atomic(long double)* at = (_Atomic(long double)*)(o + 64);
  *at = 1.5L;
  *at *= 2;
}

static const struct test {
  void (*run)(unsigned char*);
  const char* name;
} tests[] = {
#define TEST(f) {f, #f}
    TEST(one_field_of_each_row),
    TEST(rows_that_are_chosen),
    TEST(arguments),
    TEST(jump_buffer),
    TEST(state_of_the_processor),
    TEST(control_of_floating_point),
    TEST(assembly_says_so),
    TEST(assembly_has_a_number),
    TEST(assembly_reads_and_writes),
    TEST(by_mask),
    TEST(past_the_cache),
    TEST(large_atomic),
    TEST(large_atomic_is_exchanged),
    TEST(large_atomic_is_compared),
    TEST(large_atomic_is_read),
    TEST(long_double_atomic),
};

static int run(NVM_POOL* pool, unsigned char* o, unsigned char* before, const struct test* t) {
  memcpy(before, o, BYTES);
  nvm_tx_begin(pool);
  t->run(o);
  const int stored = memcmp(before, o, BYTES) != 0;
  nvm_tx_abort(pool);
  if (!stored || memcmp(before, o, BYTES) != 0) {
    fprintf(stderr, "%s: %s\n", t->name, stored ? "an abort did not take it back" : "stored nothing");
    return 1;
  }
  nvm_tx_begin(pool);
  t->run(o);
  return nvm_tx_commit(pool) != 0;
}

int main(int argc, char** argv) {
  (void)argc;
  NVM_POOL* pool = new_pool(argv[1], 8 << 20);
  unsigned char* before = malloc(BYTES);
  if (pool == NULL || before == NULL) return 2;
  nvm_tx_begin(pool);
  unsigned char* o = nvm_alloc(pool, 1, BYTES);
  for (unsigned i = 0; i < BYTES; i++) o[i] = (unsigned char)(i * 7 + i / 251);
  nvm_pool_set_root(pool, o);
  nvm_tx_commit(pool);
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
    if (run(pool, o, before, &tests[i]) != 0) return 1;
  }
  // What was committed is what the next process finds, also where the home of objects is written later.
  memcpy(before, o, BYTES);
  if (nvm_pool_close(pool) != 0 || (pool = nvm_pool_open(argv[1])) == NULL) return 2;
  if (memcmp(before, nvm_pool_get_root(pool), BYTES) != 0) {
    fputs("a commit did not keep it\n", stderr);
    return 1;
  }
  free(before);
  puts("done");
  return nvm_pool_close(pool);
}
