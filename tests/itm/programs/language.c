/* What C code may do in transactions, one function for each; it has to come out the same with every library that has
 * the Intel TM ABI, with every optimisation, and whether or not the memory is durable.  Bit-fields are not among it:
 * GCC 12 stores the whole byte.
 */
#include <complex.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "itm_calls.h"
#include "nvm/itm.h"

#define SAFE  __attribute__((transaction_safe))
#define APART __attribute__((noinline)) /* not noclone: GCC 12 would call the function itself and not its clone */

typedef float vector4 __attribute__((vector_size(16)));
typedef double vector8 __attribute__((vector_size(32)));

struct __attribute__((packed)) packed {
  char first;
  uint16_t two;
  uint32_t four;
  uint64_t eight;
  double number;
};

struct shared {
  uint8_t u1;
  uint16_t u2;
  uint32_t u4;
  uint64_t u8;
  float f;
  double d;
  long double e;
  _Complex float cf;
  _Complex double cd;
  _Complex long double ce;
  vector4 v4;
  vector8 v8;
  struct packed packed;
  char text[64];
  char other[64];
  int numbers[100];
  uint64_t counter, second;
  struct node* list;
};

struct node {
  struct node* next;
  uint64_t value;
  char filler[100];
};

static struct shared* s;
static __thread uint64_t of_thread;
static uint64_t global;

/* ---- types ---- */

static void loads_and_stores_every_type(void) {
  __transaction_atomic {
    s->u1 = 1;
    s->u2 = 2;
    s->u4 = 3;
    s->u8 = 4;
    s->f = 1.5f;
    s->d = 2.5;
    s->e = 3.5L;
    s->cf = 1.0f + 2.0f * I;
    s->cd = 3.0 + 4.0 * I;
    s->ce = 5.0L + 6.0L * I;
    s->v4 = (vector4){1, 2, 3, 4};
    s->v8 = (vector8){5, 6, 7, 8};
  }
  CHECK(s->u1 == 1 && s->u2 == 2 && s->u4 == 3 && s->u8 == 4 && s->f == 1.5f && s->d == 2.5 && s->e == 3.5L);
  CHECK(s->cf == 1.0f + 2.0f * I && s->cd == 3.0 + 4.0 * I && s->ce == 5.0L + 6.0L * I);
  CHECK(s->v4[3] == 4 && s->v8[0] == 5);
  __transaction_atomic { /* read and written: the other barriers */
    s->u1 += 1;
    s->u2 += 1;
    s->u4 += 1;
    s->u8 += 1;
    s->f += 1;
    s->d += 1;
    s->e += 1;
    s->cf *= 2;
    s->cd *= 2;
    s->ce *= 2;
    s->v4 += s->v4;
    s->v8 += s->v8;
    s->u8 += s->u4 + s->u1;
    s->d += s->f;
  }
  CHECK(s->u1 == 2 && s->u2 == 3 && s->u4 == 4 && s->u8 == 11 && s->f == 2.5f && s->d == 6.0 && s->e == 4.5L);
  CHECK(s->cf == 2.0f + 4.0f * I && s->cd == 6.0 + 8.0 * I && s->ce == 10.0L + 12.0L * I);
  CHECK(s->v4[3] == 8 && s->v8[0] == 10);
}

static void reaches_places_that_are_not_aligned(void) {
  __transaction_atomic {
    s->packed.first = 'x';
    s->packed.two = 0x1234;
    s->packed.four = 0x12345678;
    s->packed.eight = 0x123456789ABCDEF0;
    s->packed.number = 0.25;
  }
  CHECK(s->packed.first == 'x' && s->packed.two == 0x1234 && s->packed.four == 0x12345678);
  __transaction_atomic {
    s->packed.two++;
    s->packed.four++;
    s->packed.eight++;
    s->packed.number *= 2;
  }
  CHECK(s->packed.first == 'x' && s->packed.two == 0x1235 && s->packed.four == 0x12345679);
  CHECK(s->packed.eight == 0x123456789ABCDEF1 && s->packed.number == 0.5);
}

SAFE APART static void copy_text(char* to, const char* from, size_t n) { memcpy(to, from, n); }
SAFE APART static void move_text(char* to, const char* from, size_t n) { memmove(to, from, n); }
SAFE APART static void fill_text(char* to, int byte, size_t n) { memset(to, byte, n); }

static void copies_moves_and_fills(void) {
  char mine[64] = "what was in the frame", back[64] = "";
  __transaction_atomic {
    copy_text(s->text, mine, sizeof mine);
    copy_text(s->other, s->text, sizeof mine);
    s->other[0] = 'W';
    copy_text(back, s->other, sizeof back);
  }
  CHECK(strcmp(s->text, "what was in the frame") == 0 && strcmp(back, "What was in the frame") == 0);
  __transaction_atomic {
    move_text(s->text + 4, s->text, 22);
    fill_text(s->text, '-', 4);
    fill_text(s->other + 1, 'x', 0);
  }
  CHECK(strcmp(s->text, "----what was in the frame") == 0);
  struct packed whole;
  __transaction_atomic {
    whole = s->packed; /* structures are copied by the same calls */
    whole.first = 'y';
    s->packed = whole;
    memset(s->numbers, 0, sizeof s->numbers);
  }
  CHECK(s->packed.first == 'y' && s->packed.eight == 0x123456789ABCDEF1);
}

/* ---- memory that is the thread's own ---- */

SAFE APART static void add_to_all(int* numbers, int count, int what) {
  for (int k = 0; k < count; ++k) numbers[k] += what;
}

SAFE APART static int works_in_its_frame(int seed) {
  int numbers[50];
  for (int k = 0; k < 50; ++k) numbers[k] = seed + k;
  add_to_all(numbers, 50, 1);
  __transaction_atomic {
    add_to_all(numbers, 50, 100);
    s->counter += 1000;
    if (seed == 7) __transaction_cancel; /* takes back what it did in this frame, too */
  }
  int sum = 0;
  for (int k = 0; k < 50; ++k) sum += numbers[k];
  return sum;
}

static void rolls_back_frames_that_live_on(void) {
  s->counter = 0;
  int kept = 0, dropped = 0;
  __transaction_atomic {
    kept = works_in_its_frame(6);
    dropped = works_in_its_frame(7);
  }
  CHECK(kept == 50 * 6 + 1225 + 50 + 5000 && dropped == 50 * 7 + 1225 + 50);
  CHECK(s->counter == 1000);
}

static void restores_its_variables_when_cancelled(void) {
  int local = 1, array[10] = {0};
  uint64_t before = global;
  of_thread = 5;
  __transaction_atomic {
    local = 2;
    add_to_all(array, 10, 3);
    of_thread++;
    global++;
    s->u4 = 77;
    __transaction_cancel;
  }
  CHECK(local == 1 && array[0] == 0 && array[9] == 0 && of_thread == 5 && global == before && s->u4 != 77);
  __transaction_atomic {
    local = 2;
    add_to_all(array, 10, 3);
    of_thread++;
    global++;
  }
  CHECK(local == 2 && array[9] == 3 && of_thread == 6 && global == before + 1);
}

/* ---- nesting ---- */

SAFE APART static void add_and_maybe_cancel(uint64_t n, int cancel) {
  __transaction_atomic {
    s->second += n;
    if (cancel) __transaction_cancel;
  }
}

static void cancels_the_innermost_transaction(void) {
  s->counter = s->second = 0;
  __transaction_atomic {
    s->counter = 1;
    s->second = 10;
    __transaction_atomic {
      s->counter = 2;
      add_and_maybe_cancel(5, 0);
      __transaction_atomic {
        s->counter = 3;
        add_and_maybe_cancel(100, 1);
        if (s->second == 15) __transaction_cancel;
      }
      s->second += s->counter;
    }
  }
  CHECK(s->counter == 2 && s->second == 17);
}

__attribute__((transaction_may_cancel_outer)) APART static void cancel_everything(void) {
  __transaction_atomic {
    s->counter = 9;
    __transaction_cancel [[outer]];
  }
}

static void cancels_the_outermost_transaction(void) {
  s->counter = 4;
  int after = 0;
  __transaction_atomic [[outer]] {
    s->counter = 5;
    __transaction_atomic {
      s->second = 6;
      cancel_everything();
    }
    after = 1;
  }
  CHECK(s->counter == 4 && s->second == 17 && after == 0);
  CHECK(_ITM_inTransaction() == 0);
}

/* ---- memory ---- */

static void allocates_and_frees(void) {
  __transaction_atomic {
    for (uint64_t k = 0; k < 10; ++k) {
      struct node* n = k % 2 == 0 ? malloc(sizeof *n) : calloc(1, sizeof *n);
      n->value = k;
      n->next = s->list;
      s->list = n;
    }
  }
  __transaction_atomic { /* none of this happens */
    struct node* n = malloc(sizeof *n);
    n->next = NULL;
    struct node* old = s->list;
    s->list = n;
    while (old != NULL) {
      struct node* next = old->next;
      free(old);
      old = next;
    }
    free(NULL);
    __transaction_cancel;
  }
  uint64_t sum = 0, count = 0;
  __transaction_atomic {
    sum = count = 0;
    while (s->list != NULL) {
      struct node* n = s->list;
      s->list = n->next;
      sum = sum * 10 + n->value;
      count++;
      free(n);
    }
  }
  CHECK(count == 10 && sum == 9876543210);
  __transaction_atomic { /* born and gone in one */
    void* p = malloc(1000);
    free(p);
    s->counter = p != NULL;
  }
  CHECK(s->counter == 1);
}

/* ---- calls ---- */

SAFE APART static uint64_t twice(uint64_t n) {
  s->counter++;
  return n * 2;
}
SAFE APART static uint64_t thrice(uint64_t n) {
  s->counter++;
  return n * 3;
}
typedef uint64_t (*safe_call)(uint64_t) SAFE;
typedef uint64_t (*any_call)(uint64_t);
static safe_call calls[2] = {twice, thrice};

__attribute__((transaction_callable)) APART static uint64_t callable(uint64_t n) {
  s->second += n;
  return n + 1;
}
__attribute__((noinline)) static uint64_t without_clone(uint64_t n) {
  s->second += n; /* a plain store to what may be durable */
  s->text[63] = 'z';
  return n + (uint64_t)_ITM_inTransaction();
}
static any_call other_calls[2] = {callable, without_clone};

static void calls_through_pointers(void) {
  s->counter = s->second = 0;
  uint64_t sum = 0;
  for (int k = 0; k < 4; ++k) {
    __transaction_atomic { sum += calls[k % 2](10); }
  }
  CHECK(sum == 100 && s->counter == 4);
  uint64_t a = 0, b = 0;
  __transaction_relaxed {
    s->second = 100;
    a = other_calls[0](5);
    s->second += 1;
  }
  CHECK(a == 6 && s->second == 106);
  __transaction_relaxed {
    s->second = 200;
    b = other_calls[1](5);
    s->second += 1;
    s->list = malloc(sizeof *s->list); /* with barriers again, or still without */
  }
  CHECK(b == 7 && s->second == 206 && s->text[63] == 'z');
  __transaction_relaxed {
    free(s->list);
    s->list = NULL;
  }
}

/* ---- irrevocable ---- */

static int how_in_the_middle;
static void goes_irrevocable(FILE* out, uint64_t n) {
  __transaction_relaxed {
    s->counter = n;
    if (n > 3) {
      fprintf(out, "%d", (int)s->counter);
      how_in_the_middle = _ITM_inTransaction();
      s->counter++;
      memset(s->text, 'i', 40);
      s->d = 0.125;
    }
    s->second = s->counter;
  }
}
static void is_irrevocable_from_the_start(FILE* out) {
  __transaction_relaxed {
    s->counter += 5;
    fflush(out);
    s->numbers[99] = (int)s->counter;
  }
}

static void runs_what_cannot_be_undone(void) {
  FILE* out = fopen("/dev/null", "w");
  goes_irrevocable(out, 2);
  CHECK(s->counter == 2 && s->second == 2);
  goes_irrevocable(out, 10);
  CHECK(s->counter == 11 && s->second == 11 && s->text[39] == 'i' && s->d == 0.125);
  CHECK(how_in_the_middle == 2);
  is_irrevocable_from_the_start(out);
  CHECK(s->counter == 16 && s->numbers[99] == 16);
  fclose(out);
}

/* ---- calls of the ABI ---- */

static char order[16];
static void note(void* what) { strcat(order, what); }

static void runs_actions(void) {
  CHECK(_ITM_inTransaction() == 0 && _ITM_getTransactionId() == 1);
  CHECK(_ITM_versionCompatible(90) == 1 && strlen(_ITM_libraryVersion()) > 3);
  int inside = 0;
  uint64_t id = 0;
  order[0] = 0;
  __transaction_atomic {
    s->counter = 1;
    inside = _ITM_inTransaction();
    id = _ITM_getTransactionId();
    _ITM_addUserCommitAction(note, 1, "a");
    _ITM_addUserUndoAction(note, "u");
    _ITM_addUserCommitAction(note, 1, "b");
  }
  CHECK(inside == 1 && id > 1 && strcmp(order, "ab") == 0);
  order[0] = 0;
  __transaction_atomic {
    s->counter = 2;
    _ITM_addUserUndoAction(note, "1");
    _ITM_addUserCommitAction(note, 1, "a");
    _ITM_addUserUndoAction(note, "2");
    __transaction_cancel;
  }
  CHECK(s->counter == 1 && strcmp(order, "21") == 0);
}

/* ---- threads ---- */

enum { rounds = 500, places = 8 };
static uint64_t restarts;

static void* contend(void* argument) {
  uint64_t tries = 0, r = (uint64_t)(uintptr_t)argument;
  for (int k = 0; k < rounds; ++k) {
    int from, to, local = k;
    double weight = k * 0.5;
    r = r * 6364136223846793005u + 1442695040888963407u;
    from = (int)(r >> 40) % places;
    to = (int)(r >> 50) % places;
    __transaction_atomic {
      tries++; /* not shared, restored when the transaction is run again */
      local += 1;
      weight *= 2;
      s->numbers[from] -= local;
      for (int j = 0; j < places; ++j) global += (uint64_t)(s->numbers[j] == -1234567);
      s->numbers[to] += local;
    }
    if (local != k + 1 || weight != k * 1.0) {
      __transaction_atomic { restarts++; }
    }
  }
  return (void*)(uintptr_t)tries;
}

static void isolates_threads(void) {
  for (int k = 0; k < 100; ++k) s->numbers[k] = 0;
  pthread_t threads[4];
  for (uintptr_t k = 0; k < 4; ++k) pthread_create(&threads[k], NULL, contend, (void*)(k + 1));
  for (int k = 0; k < 4; ++k) {
    void* tries = NULL;
    pthread_join(threads[k], &tries);
    CHECK((uintptr_t)tries == rounds);
  }
  int sum = 0;
  for (int k = 0; k < places; ++k) sum += s->numbers[k];
  CHECK(sum == 0 && restarts == 0);
}

int main(void) {
  s = nvm_itm_root(sizeof *s);
  if (s == NULL) return 1;
  loads_and_stores_every_type();
  reaches_places_that_are_not_aligned();
  copies_moves_and_fills();
  rolls_back_frames_that_live_on();
  restores_its_variables_when_cancelled();
  cancels_the_innermost_transaction();
  cancels_the_outermost_transaction();
  allocates_and_frees();
  calls_through_pointers();
  runs_what_cannot_be_undone();
  runs_actions();
  isolates_threads();
  printf("%d failures\n", failures);
  return failures != 0;
}
