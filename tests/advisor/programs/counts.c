/* Accesses that can be counted by hand.  Each function says what its site has; volatile keeps the compiler from making
   fewer. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pair {
  volatile uint64_t a;
  volatile uint32_t b;
};

/* 2 objects: 3 stores of 8, 2 loads of 4. */
static __attribute__((noinline)) void scalars(void) {
  for (int k = 0; k < 2; ++k) {
    struct pair* p = malloc(sizeof *p);
    p->a = 1;
    if (k == 1) {
      p->a = 2;
      (void)p->b;
      (void)p->b;
    }
    free(p);
  }
}

/* 640 bytes at a multiple of 64: a memset is 10 stores of 64, a memcpy into it 2 (100 bytes from byte 0), out of it 2
   loads. */
static __attribute__((noinline)) void blocks(volatile size_t bytes) {
  static char from[128];
  char* p = aligned_alloc(64, 640);
  memset(p, 1, 640);
  memcpy(p, from, bytes);
  memcpy(from, p, bytes);
  free(p);
}

/* strlen of 99 characters and a zero: 100 bytes in 2 lines. */
static __attribute__((noinline)) size_t texts(void) {
  char* p = aligned_alloc(64, 128);
  memset(p, 'x', 99);
  p[99] = 0;
  const size_t n = strlen(p);
  free(p);
  return n;
}

static __attribute__((noinline)) void* wrapped(size_t n) {
  void* p = malloc(n);
  if (p == NULL) abort();
  return p;
}
/* One site for each caller: 3 stores here. */
static __attribute__((noinline)) void first_caller(void) {
  volatile char* p = wrapped(3);
  for (int k = 0; k < 3; ++k) p[k] = 0;
  free((void*)p);
}
/* 5 here. */
static __attribute__((noinline)) void second_caller(void) {
  volatile char* p = wrapped(5);
  for (int k = 0; k < 5; ++k) p[k] = 0;
  free((void*)p);
}

/* Recursion is one frame: one site with 10 objects. */
static __attribute__((noinline)) void deep(int n) {
  volatile int* p = malloc(sizeof *p);
  *p = n;
  if (n > 1) deep(n - 1);
  free((void*)p);
}

/* An object keeps its site: 1 object, 4 reallocs, and 5 stores of 4 bytes. */
static __attribute__((noinline)) void grows(void) {
  volatile int* p = malloc(sizeof *p);
  p[0] = 1;
  for (int n = 10; n <= 100000; n *= 10) {
    p = realloc((void*)p, n * sizeof *p);
    p[n - 1] = 1;
  }
  free((void*)p);
}

/* More than 16 MiB: 3 stores, at both ends and in the middle; moved, 2 more; what is smaller afterwards, 1. */
static __attribute__((noinline)) void huge(void) {
  const size_t mib = 1 << 20;
  volatile char* p = malloc(20 * mib);
  p[0] = p[10 * mib] = p[20 * mib - 1] = 1;
  p = realloc((void*)p, 50 * mib);
  if (p[10 * mib] != 1) abort();
  p[40 * mib] = p[50 * mib - 1] = 1;
  p = realloc((void*)p, 1000);
  p[999] = p[0];
  free((void*)p);
}
/* The same addresses, for another site. */
static __attribute__((noinline)) void huge_again(void) {
  volatile char* p = malloc(30 << 20);
  p[25 << 20] = 1;
  p[100] = 1;
  free((void*)p);
}

/* The C library allocates for the call: 2 sites. */
static __attribute__((noinline)) void by_library(void) {
  char* volatile a = strdup("eleven char");
  char* b = NULL;
  if (asprintf(&b, "%d", 7) < 0) abort();
  free(a);
  free(b);
}

/* 100 stores to 2 lines of one burst: 2 lines are logged where the object is older than the burst. */
static volatile uint64_t* kept;
static __attribute__((noinline)) void keep(void) { kept = aligned_alloc(64, 128); }
static __attribute__((noinline)) void logs(void) {
  for (int k = 0; k < 100; ++k) kept[k % 16] = k;
}
/* The next 10 bursts of 4,096 accesses, of which each stores to one line at least once. */
static __attribute__((noinline)) void bursts(void) {
  for (int k = 0; k < 40960; ++k) kept[0] = k;
}

/* After a longjmp the path is right again: the site is called by after_jump, not by thrower. */
static jmp_buf back;
static __attribute__((noinline)) void thrower(void) {
  void* volatile p = malloc(7);
  free(p);
  longjmp(back, 1);
}
static __attribute__((noinline)) void after_jump(void) {
  if (setjmp(back) == 0) thrower();
  void* volatile p = wrapped(9);
  free(p);
}

/* Called back by code that was not compiled so. */
static __attribute__((noinline)) int compare(const void* a, const void* b) {
  void* volatile p = malloc(11);
  free(p);
  return *(const int*)a - *(const int*)b;
}

int main(void) {
  scalars();
  blocks(100);
  if (texts() != 99) return 1;
  first_caller();
  second_caller();
  deep(10);
  grows();
  huge();
  huge_again();
  by_library();
  keep();
  bursts();
  logs();
  after_jump();
  int numbers[] = {2, 1};
  qsort(numbers, 2, sizeof *numbers, compare);
  free((void*)kept);
  return 0;
}
