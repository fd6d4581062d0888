/* Fields that mean nothing to the next process: zero after each open, and stored to without a log. */
#include <nvm/malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

NVM_STRUCT slot {
  int key;
  unsigned hits NVM_RESET;
};
NVM_STRUCT session {
  long value;
  pthread_mutex_t lock NVM_RESET;
  int fd NVM_RESET;
  char* cache NVM_RESET;
  struct {
    unsigned char bytes[6];
    double weight;
  } state NVM_RESET;
  unsigned counts[3] NVM_RESET;
  struct slot slots[2];
  NVM_PTR(struct session) next;
  NVM_PTR(struct session) last_used NVM_RESET;
  struct slot more[];
};
enum { MORE = 3, SESSIONS = 50 };
static const size_t bytes = sizeof(struct session) + MORE * sizeof(struct slot);

static void use(struct session* s, int k) {
  s->fd = k;
  s->cache += 8;
  s->state.bytes[k % 6]++;
  s->state.weight += 0.5;
  s->counts[k % 3] = 9;
  s->slots[k % 2].hits += 1;
  s->more[k % MORE].hits = 7;
  s->last_used = s;
}
static int is_reset(const struct session* s) {
  static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
  int all = memcmp(&s->lock, &unlocked, sizeof unlocked) == 0 && s->fd == 0 && s->cache == NULL;
  for (int k = 0; k < 6; ++k) all = all && s->state.bytes[k] == 0;
  for (int k = 0; k < 3; ++k) all = all && s->counts[k] == 0;
  for (int k = 0; k < 2; ++k) all = all && s->slots[k].hits == 0 && s->slots[k].key == k;
  for (int k = 0; k < MORE; ++k) all = all && s->more[k].hits == 0 && s->more[k].key == k;
  return all && s->state.weight == 0 && s->last_used == NULL;
}
static int failed(const char* what) {
  printf("%s: %s\n", what, nvm_errormsg());
  return 1;
}

int main(int argc, char** argv) {
  nvm_statistics before, after;
  NVM_POOL* pool = NULL;
  int good = 0;
  if (argc != 3) return 2;
  if (strcmp(argv[1], "make") == 0) {
    nvm_pool_options o = {0};
    o.size = 4 << 20;
    pool = nvm_pool_create_with(argv[2], &o);
    if (pool == NULL || nvm_tx_begin(pool) != 0) return failed("create");
    for (int n = 0; n < SESSIONS; ++n) {
      struct session* s = nvm_alloc(pool, NVM_TYPE_ID(struct session), bytes);
      if (s == NULL) return failed("allocate");
      memset(s, 0x55, bytes);
      s->value = n;
      s->next = nvm_pool_get_root(pool);
      for (int k = 0; k < 2; ++k) s->slots[k].key = k;
      for (int k = 0; k < MORE; ++k) s->more[k].key = k;
      if (nvm_pool_set_root(pool, s) != 0) return failed("root");
    }
    if (nvm_tx_commit(pool) != 0) return failed("commit");
  } else {
    pool = nvm_pool_open(argv[2]);
    if (pool == NULL) return failed("open");
    for (const struct session* s = nvm_pool_get_root(pool); s != NULL; s = s->next) good += is_reset(s);
    printf("%d reset\n", good);
  }
  struct session* const first = nvm_pool_get_root(pool);
  /* An abort takes back what stays, and nothing else. */
  if (nvm_tx_begin(pool) != 0) return failed("begin");
  first->value = -1;
  first->fd = 123;
  if (nvm_tx_abort(pool) != 0) return failed("abort");
  printf("after abort %ld %d\n", first->value, first->fd);
  if (strcmp(argv[1], "make") != 0 && pthread_mutex_lock(&first->lock) != 0) return failed("lock");
  if (nvm_pool_get_statistics(pool, &before) != 0) return failed("statistics");
  for (int k = 0; k < 100; ++k) {
    if (nvm_tx_next(pool) != 0) return failed("next");
    for (struct session* s = first; s != NULL; s = s->next) use(s, k);
  }
  if (nvm_tx_commit(pool) != 0 || nvm_pool_get_statistics(pool, &after) != 0) return failed("commit");
  printf("logged %lu\n", (unsigned long)(after.logged_bytes - before.logged_bytes));
  (void)fflush(stdout);
  if (strcmp(argv[1], "close") != 0) (void)kill(getpid(), SIGKILL);
  return nvm_pool_close(pool) != 0;
}
