/* What an allocation and its release cost here, in processor time: in the C library, and in the program's store.
   Objects of 16 to 256 bytes in turn, some hundred alive at a time.  Between two of them the program does something
   else, which touches as much memory as a first cache has, and is subtracted. */
#include <nvm/placed.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { alive = 256, rounds = 50000, other_bytes = 32768 };

static volatile char other[other_bytes];

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}

static void* nothing(size_t size) { return (void*)&other[size]; }
static void no_end(void* object) { (void)object; }

static double round_ns(void* (*make)(size_t), void (*end)(void*)) {
  static void* there[alive];
  double best = 1e18;
  for (int run = 0; run < 5; ++run) {
    const double start = now_ns();
    for (unsigned k = 0; k < rounds; ++k) {
      const unsigned at = k * 2654435761U >> 24;
      end(there[at]);
      for (unsigned n = 0; n < other_bytes; n += 64) ++other[n];
      there[at] = make(16 + k % 16 * 16);
      if (there[at] == NULL) abort();
      *(volatile char*)there[at] = 1;
    }
    const double ns = (now_ns() - start) / rounds;
    if (ns < best) best = ns;
    for (int k = 0; k < alive; ++k) {
      end(there[k]);
      there[k] = NULL;
    }
  }
  return best;
}

int main(void) {
  NVM_PLACED_START;
  const double alone = round_ns(nothing, no_end);
  printf("%.1f %.1f\n", round_ns(malloc, free) - alone, round_ns(nvm_placed_malloc, nvm_placed_free) - alone);
  return 0;
}
