/* A bank, an ordered map and a queue, changed together by several threads with transactions of the language.
 *
 * usage: ledger <operations> <threads> [<seconds between signs of life>]
 *
 * What an operation does follows from its number, and the answer does not depend on the order in which operations run.
 * How far each thread is stands beside the data and changes in the same transaction, so that a run that was killed goes
 * on where it was: each operation is done once.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "nvm/itm.h"
#include "treap.h"

#define ACCOUNTS    256
#define KEYS        512
#define THREADS_MAX 16

struct item { /* of the queue */
  struct item* next;
  uint64_t operation;
  char text[24];
};

struct entry { /* of the map */
  uint64_t count;
  double weight;
  char name[16];
};

struct ledger {
  uint64_t done[THREADS_MAX]; /* operations that a thread has completed */
  uint64_t threads;
  int64_t account[ACCOUNTS];
  treap_node* map;
  uint64_t entries;
  struct item *first, *last;
  uint64_t queued, taken, taken_sum;
  uint64_t refused, milestones;
};

static struct ledger* ledger;
static uint64_t operations, threads;
static uint64_t attempts; /* volatile: how often a transfer was tried */

/* Nothing is left of a transfer that it refuses. */
SAFE static void transfer(uint64_t r) {
  const int64_t amount = (int64_t)(r % 1000);
  __transaction_atomic {
    ledger->account[r / 1000 % ACCOUNTS] -= amount;
    ledger->account[r / 512000 % ACCOUNTS] += amount;
    if (amount % 10 == 7) __transaction_cancel;
    attempts++;
  }
  if (amount % 10 == 7) ledger->refused++;
}

SAFE static void change_entry(uint64_t r) {
  const uint64_t key = r % KEYS;
  struct entry* e = treap_find(ledger->map, key);
  if (e == NULL) {
    e = calloc(1, sizeof *e);
    char name[16] = "entry ........";
    for (int k = 0; k < 8; ++k) name[6 + k] = (char)('a' + (key >> (2 * k)) % 4);
    memcpy(e->name, name, sizeof name);
    treap_insert(&ledger->map, key, e);
    ledger->entries++;
  }
  e->count++;
  e->weight += 0.5;
  if (e->count == 8) { /* eight of a key are one less */
    free(treap_remove(&ledger->map, key));
    ledger->entries--;
  }
}

SAFE static void enqueue(uint64_t operation) {
  struct item* i = malloc(sizeof *i);
  i->next = NULL;
  i->operation = operation;
  memset(i->text, 'q', sizeof i->text);
  if (ledger->last == NULL)
    ledger->first = i;
  else
    ledger->last->next = i;
  ledger->last = i;
  ledger->queued++;
}

SAFE static int take(void) {
  struct item* i = ledger->first;
  if (i == NULL) return 0;
  ledger->first = i->next;
  if (i->next == NULL) ledger->last = NULL;
  ledger->taken++;
  ledger->taken_sum += i->operation + (uint64_t)(i->text[23] - 'q');
  free(i);
  return 1;
}

/* No transactional clone: it runs irrevocably, and its stores are plain. */
__attribute__((noinline, noclone)) static void milestone(FILE* where) {
  ledger->milestones++;
  fputc('.', where);
}

static void* work(void* argument) {
  const uint64_t me = (uint64_t)(uintptr_t)argument;
  FILE* nowhere = fopen("/dev/null", "w");
  for (;;) {
    uint64_t done;
    __transaction_atomic { done = ledger->done[me]; }
    const uint64_t operation = done * threads + me;
    if (operation >= operations) break;
    const uint64_t r = mix(operation);
    if (operation % 1000 == 999) {
      __transaction_relaxed {
        milestone(nowhere);
        ledger->done[me]++;
      }
      continue;
    }
    __transaction_atomic {
      transfer(r);
      change_entry(r >> 20);
      if (operation % 2 == 0)
        enqueue(operation);
      else
        take();
      ledger->done[me]++;
    }
  }
  fclose(nowhere);
  return NULL;
}

static uint64_t sum_of_map(const treap_node* n, uint64_t depth) {
  if (n == NULL) return 0;
  const struct entry* e = n->value;
  uint64_t sum = mix(n->key * 16 + e->count) + (uint64_t)(e->weight * 4) + depth;
  for (int k = 0; k < 16; ++k) sum = sum * 31 + (unsigned char)e->name[k];
  return sum + sum_of_map(n->left, depth + 1) + sum_of_map(n->right, depth + 1);
}

int main(int count, char** arguments) {
  if (count < 3) return 2;
  operations = strtoull(arguments[1], NULL, 10);
  threads = strtoull(arguments[2], NULL, 10);
  if (threads == 0 || threads > THREADS_MAX) return 2;
  ledger = nvm_itm_root(sizeof *ledger);
  if (ledger == NULL) return 1;
  if (ledger->threads == 0) {
    __transaction_atomic { ledger->threads = threads; }
  } else if (ledger->threads != threads) {
    fprintf(stderr, "the ledger was begun by %" PRIu64 " threads\n", ledger->threads);
    return 2;
  }
  fprintf(stderr, "%s\n", ledger->done[0] == 0 ? "begins" : "goes on");

  pthread_t thread[THREADS_MAX];
  for (uint64_t k = 0; k < threads; ++k) {
    if (pthread_create(&thread[k], NULL, work, (void*)(uintptr_t)k) != 0) return 1;
  }
  for (uint64_t k = 0; k < threads; ++k) pthread_join(thread[k], NULL);

  uint64_t done = 0;
  for (uint64_t k = 0; k < threads; ++k) done += ledger->done[k];
  int64_t total = 0;
  uint64_t digest = 0;
  for (int k = 0; k < ACCOUNTS; ++k) {
    total += ledger->account[k];
    digest = mix(digest ^ (uint64_t)ledger->account[k]);
  }
  int more = 1;
  while (more) {
    __transaction_atomic { more = take(); }
  }
  printf("operations %" PRIu64 " refused %" PRIu64 " milestones %" PRIu64 "\n", done, ledger->refused,
         ledger->milestones);
  printf("accounts: total %" PRId64 " digest %016" PRIx64 "\n", total, digest);
  printf("map: entries %" PRIu64 " digest %016" PRIx64 "\n", ledger->entries, sum_of_map(ledger->map, 0));
  printf("queue: in %" PRIu64 " out %" PRIu64 " sum %" PRIu64 "\n", ledger->queued, ledger->taken, ledger->taken_sum);
  return total == 0 && done == operations && ledger->queued == ledger->taken ? 0 : 1;
}
