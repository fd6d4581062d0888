/* Says what it was told: a line when a transaction of the language has ended, which is when it lasts.
 *
 * usage: told <transactions a thread>   "THREAD NUMBER" for each that has ended; every third makes the pool grow
 *        told 0                         "THREAD NUMBER NUMBER" of what is there: the number, and what was stored beside
 * it
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "nvm/itm.h"

enum { THREADS = 2, PLACES = 8, LARGE = 400 << 10 };

struct of_thread {
  uint64_t newest, beside[PLACES];
  char* kept;
};
struct state {
  struct of_thread of[THREADS];
};

static struct state* state;
static uint64_t transactions;

static void* work(void* argument) {
  const uintptr_t thread = (uintptr_t)argument;
  struct of_thread* mine = &state->of[thread];
  for (uint64_t n = 1; n <= transactions; ++n) {
    __transaction_atomic {
      mine->newest = n;
      mine->beside[n % PLACES] = n;
      if (n % 3 == 0) {
        char* made = malloc(LARGE);
        if (made != NULL) made[0] = 1; /* else the commit ends the process */
        mine->kept = made;
      }
    }
    char line[64];
    const int bytes = snprintf(line, sizeof line, "%d %llu\n", (int)thread, (unsigned long long)n);
    if (write(1, line, (size_t)bytes) != bytes) _exit(3);
  }
  return NULL;
}

int main(int count, char** words) {
  transactions = count == 2 ? strtoull(words[1], NULL, 10) : 0;
  state = nvm_itm_root(sizeof *state);
  if (state == NULL) return 1;
  if (transactions == 0) {
    for (int t = 0; t < THREADS; ++t) {
      const struct of_thread* of = &state->of[t];
      printf("%d %llu %llu\n", t, (unsigned long long)of->newest,
             (unsigned long long)(of->newest == 0 ? 0 : of->beside[of->newest % PLACES]));
    }
    return 0;
  }
  pthread_t threads[THREADS];
  for (uintptr_t t = 0; t < THREADS; ++t) {
    if (pthread_create(&threads[t], NULL, work, (void*)t) != 0) return 1;
  }
  for (int t = 0; t < THREADS; ++t) pthread_join(threads[t], NULL);
  return 0;
}
