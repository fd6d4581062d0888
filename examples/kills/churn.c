/* Random puts, replacements and removals in a tree or a table, in the same order each time, as a program to be killed.
 *
 * The number of steps done is a value in the structure itself, changed by the same transaction as the step: a durable
 * run that was killed goes on with the next one.  Some steps are transactions of several changes, some are begun, and
 * taken back.  At the end the contents are written; they must be those of the volatile program.
 *
 * usage: churn --structure tree|table --result FILE [--passes N] [--check] [--report-progress]
 *              [--pool PATH [--medium shm|ssd]] [--engine log]   (the durable program)
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(CHURN_COMPILED)
#include "compiled_structures.h"
#elif defined(CHURN_DURABLE)
#include "bptree/bptree_durable.h"
#include "hashtable/hashtable_durable.h"
#else
#include "bptree/bptree_volatile.h"
#include "hashtable/hashtable_volatile.h"
#endif

enum {
  KEYS = 6000,
  STEPS_OF_PASS = 250,
  VALUE_MAX = 20000,
};
static const uint64_t steps_key = UINT64_MAX;

struct options {
  const char *structure, *result, *pool, *medium, *engine; /* engine: NULL, or log */
  uint64_t passes;
  int check, report_progress;
};

/* Exactly one of the two is used. */
static bptree* tree;
static hashtable* table;

static int put(uint64_t key, const void* bytes, size_t size) {
  return tree != NULL ? bptree_put(tree, key, bytes, size) : hashtable_put(table, &key, sizeof key, bytes, size);
}

static int drop(uint64_t key) {
  return tree != NULL ? bptree_remove(tree, key) : hashtable_remove(table, &key, sizeof key);
}

static const void* get(uint64_t key, size_t* size) {
  return tree != NULL ? bptree_get(tree, key, size) : hashtable_get(table, &key, sizeof key, size);
}

static const char* check(void) { return tree != NULL ? bptree_check(tree) : hashtable_check(table); }

static void say(const struct options* options, const char* line) {
  if (!options->report_progress) return;
  puts(line);
  fflush(stdout);
}

#ifdef CHURN_DURABLE

static NVM_POOL* pool;

static int begin(void) { return nvm_tx_begin(pool); }
static int commit(void) { return nvm_tx_commit(pool); }
static void give_up(void) { nvm_tx_abort(pool); }
static const int can_abort = 1;

static int make_pool(const struct options* options, const nvm_pool_options* how) {
  char* partial = malloc(strlen(options->pool) + sizeof ".new");
  if (partial == NULL) return -1;
  strcpy(partial, options->pool);
  strcat(partial, ".new");
  remove(partial);
  pool = nvm_pool_create_with(partial, how);
  int is_tree = strcmp(options->structure, "tree") == 0;
  if (pool != NULL && is_tree) tree = bptree_create(pool);
  if (pool != NULL && !is_tree) table = hashtable_create(pool);
  int failed = tree == NULL && table == NULL;
  bptree_close(tree);
  hashtable_close(table);
  if (!failed) failed = nvm_pool_close(pool) || rename(partial, options->pool);
  free(partial);
  return failed ? -1 : 0;
}

static int open_structure(const struct options* options) {
  /* Small at first, so that it grows. */
  nvm_pool_options how = {.size = 1 << 20, .medium = NVM_MEDIUM_DETECT};
  if (options->medium != NULL) how.medium = strcmp(options->medium, "shm") == 0 ? NVM_MEDIUM_SHM : NVM_MEDIUM_SSD;
  if (options->engine != NULL) how.engine = NVM_ENGINE_LOG;
  say(options, "opening");
  pool = nvm_pool_open_with(options->pool, &how);
  if (pool == NULL && nvm_errno() == NVM_E_NOT_FOUND && make_pool(options, &how) == 0) {
    pool = nvm_pool_open_with(options->pool, &how);
  }
  nvm_pool_info info;
  if (pool == NULL || nvm_pool_get_info(pool, &info)) return -1;
  char line[128];
  snprintf(line, sizeof line, "opened recovered_transactions=%llu recovery_ns=%llu",
           (unsigned long long)info.recovered_transactions, (unsigned long long)info.recovery_ns);
  say(options, line);
  tree = bptree_open(pool);
  table = tree == NULL ? hashtable_open(pool) : NULL;
  return tree != NULL || table != NULL ? 0 : -1;
}

static const char* reason(void) { return nvm_errormsg(); }
static int close_structure(void) {
  bptree_close(tree);
  hashtable_close(table);
  return nvm_pool_close(pool);
}

#else

static int begin(void) { return 0; }
static int commit(void) { return 0; }
static void give_up(void) {}
static const int can_abort = 0;

static int open_structure(const struct options* options) {
  if (strcmp(options->structure, "tree") == 0) {
    tree = bptree_create();
  } else {
    table = hashtable_create();
  }
  return tree != NULL || table != NULL ? 0 : -1;
}

static const char* reason(void) { return "memory is out"; }
static int close_structure(void) {
  bptree_close(tree);
  hashtable_close(table);
  return 0;
}

#endif

/* A well-mixed number for each step and use (splitmix64). */
static uint64_t mixed(uint64_t step, uint64_t use) {
  uint64_t z = (step * 64 + use + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

static int change(uint64_t step, uint64_t use) {
  static unsigned char value[VALUE_MAX];
  uint64_t choice = mixed(step, use), key = mixed(step, use + 1) % KEYS;
  /* Spells of more puts, then of more removals, each twice as long as the one before: structures and pool fill and
   * empty, in a short run and in a long one. */
  int puts_prevail = 1;
  for (uint64_t spell = step / 64 + 1; spell > 1; spell /= 2) puts_prevail = !puts_prevail;
  unsigned puts_of_eight = puts_prevail ? 6 : 2;
  if (choice % 8 >= puts_of_eight) return drop(key);
  size_t most = choice / 8 % 64 == 0 ? VALUE_MAX : choice / 8 % 8 == 0 ? 5000 : 300;
  /* One size often: a value of the same size is overwritten in place. */
  size_t size = choice / 512 % 4 == 0 ? 128 : choice / 2048 % most;
  memset(value, (int)(choice >> 40), size);
  return put(key, value, size);
}

static int do_step(uint64_t step) {
  unsigned changes = mixed(step, 0) % 8 == 0 ? 10 : 1;
  if (can_abort && mixed(step, 1) % 8 == 0) {
    if (begin()) return -1;
    for (unsigned i = 0; i < 5; i++) {
      if (change(step, 30 + 2 * i) < 0) return -1;
    }
    give_up();
  }
  if (begin()) return -1;
  uint64_t done = step + 1;
  int failed = put(steps_key, &done, sizeof done) < 0;
  for (unsigned i = 0; i < changes && !failed; i++) failed = change(step, 2 + 2 * i) < 0;
  if (!failed) return commit();
  give_up();
  return -1;
}

static int write_result(const char* path) {
  char* partial = malloc(strlen(path) + sizeof ".new");
  if (partial == NULL) return -1;
  strcpy(partial, path);
  strcat(partial, ".new");
  FILE* out = fopen(partial, "wb");
  for (uint64_t key = 0; out != NULL && key < KEYS; key++) {
    size_t size = 0;
    const unsigned char* bytes = get(key, &size);
    if (bytes == NULL) continue;
    /* FNV-1a of the value. */
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < size; i++) hash = (hash ^ bytes[i]) * 0x100000001B3u;
    fprintf(out, "%llu %zu %016llx\n", (unsigned long long)key, size, (unsigned long long)hash);
  }
  int failed = out == NULL || ferror(out);
  if (out != NULL && fclose(out) != 0) failed = 1;
  if (!failed) failed = rename(partial, path);
  if (failed) fprintf(stderr, "%s: cannot be written: %s\n", partial, strerror(errno));
  free(partial);
  return failed ? -1 : 0;
}

static int run(const struct options* options) {
  uint64_t steps = options->passes * STEPS_OF_PASS, percent = 0;
  size_t size = 0;
  const void* known = get(steps_key, &size);
  uint64_t step = 0;
  if (known != NULL) memcpy(&step, known, sizeof step);
  for (; step < steps; step++) {
    if (do_step(step)) {
      fprintf(stderr, "step %llu: %s\n", (unsigned long long)step, reason());
      return 1;
    }
    if (step * 100 / steps == percent) continue;
    percent = step * 100 / steps;
    char line[32];
    snprintf(line, sizeof line, "progress %llu", (unsigned long long)percent);
    say(options, line);
  }
  say(options, "progress 100");
  return write_result(options->result) ? 1 : 0;
}

static int parse(int argc, char** argv, struct options* options) {
  for (int i = 1; i < argc; i++) {
    const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
    if (strcmp(name, "--check") == 0) {
      options->check = 1;
      continue;
    }
    if (strcmp(name, "--report-progress") == 0) {
      options->report_progress = 1;
      continue;
    }
    if (strcmp(name, "--structure") == 0) {
      options->structure = value;
    } else if (strcmp(name, "--result") == 0) {
      options->result = value;
    } else if (strcmp(name, "--pool") == 0) {
      options->pool = value;
    } else if (strcmp(name, "--medium") == 0) {
      options->medium = value;
    } else if (strcmp(name, "--engine") == 0 && strcmp(value, "log") == 0) {
      options->engine = value; /* the volatile program has no use for it */
    } else if (strcmp(name, "--passes") == 0) {
      options->passes = strtoull(value, NULL, 10);
    } else {
      return -1;
    }
    i++;
  }
  if (options->structure == NULL || options->result == NULL || options->passes == 0) return -1;
  if (can_abort != (options->pool != NULL)) return -1;
  return strcmp(options->structure, "tree") == 0 || strcmp(options->structure, "table") == 0 ? 0 : -1;
}

static int sound(const struct options* options) {
  const char* fault = options->check ? check() : NULL;
  if (fault != NULL) fprintf(stderr, "the structure is damaged: %s\n", fault);
  return fault == NULL;
}

int main(int argc, char** argv) {
  struct options options = {.passes = 1};
  if (parse(argc, argv, &options)) {
    fprintf(stderr, "usage: %s --structure tree|table --result FILE [--passes N] [--check] [--report-progress]%s\n",
            argv[0], can_abort ? " --pool PATH [--medium shm|ssd] [--engine log]" : "");
    return 2;
  }
  if (open_structure(&options)) {
    fprintf(stderr, "%s\n", reason());
    return 1;
  }
  int code = sound(&options) ? run(&options) : 1;
  if (code == 0 && !sound(&options)) code = 1;
  if (close_structure()) code = 1;
  return code;
}
