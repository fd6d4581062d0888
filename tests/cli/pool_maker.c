/* Pools in the states that the tests of the tool need.
 *
 *   cli_pool_maker PATH MEDIUM fill   makes a pool with objects of five types and closes it; prints what is in it
 *   cli_pool_maker PATH MEDIUM hold   opens it, prints "ready", closes it at the end of standard input
 *   cli_pool_maker PATH MEDIUM read   the same, read-only
 *   cli_pool_maker PATH MEDIUM die    opens it, commits an object of type 6, changes the root in a transaction that is
 *                                     never over, and kills itself
 *   cli_pool_maker PATH MEDIUM structures   makes a pool with lock-free structures of words and of bytes, and closes it
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvm/lockfree.h"
#include "nvm/nvm.h"

struct kind {
  uint32_t type;
  size_t bytes;
  unsigned count;
};
/* Fine slots, coarse slots, and runs of pages. */
static const struct kind kinds[] = {{1, 24, 200}, {2, 200, 100}, {3, 1000, 60}, {4, 5000, 10}, {5, 100000, 2}};
enum { kind_count = sizeof kinds / sizeof kinds[0], freed_every = 5, batch = 20, batch_bytes = 50000 };

static _Noreturn void give_up(const char* what) {
  fprintf(stderr, "%s: %s (%s)\n", what, nvm_errormsg(), nvm_error_name(nvm_errno()));
  exit(1);
}

static void require(int answer, const char* what) {
  if (answer != 0) {
    give_up(what);
  }
}

/* Objects of one kind, some in each transaction; every fifth is freed by the transaction after.  Returns the first. */
static void* add_objects(NVM_POOL* pool, const struct kind* kind) {
  void* first = NULL;
  void* unwanted[batch];
  unsigned unwanted_count = 0;
  for (unsigned made = 0; made < kind->count || unwanted_count != 0;) {
    require(nvm_tx_begin(pool), "begin");
    while (unwanted_count != 0) {
      require(nvm_free(pool, unwanted[--unwanted_count]), "free");
    }
    for (unsigned i = 0; i < batch && i * kind->bytes < batch_bytes && made < kind->count; ++i, ++made) {
      unsigned char* object = nvm_alloc(pool, kind->type, kind->bytes);
      if (object == NULL) {
        give_up("allocate");
      }
      memset(object, (int)(kind->type * 16 + made % 16), kind->bytes);
      if (first == NULL) {
        first = object;
      }
      if (made % freed_every == freed_every - 1) {
        unwanted[unwanted_count++] = object;
      }
    }
    require(nvm_tx_commit(pool), "commit");
  }
  return first;
}

static void fill(const char* path, uint32_t medium) {
  const nvm_pool_options options = {.size = 1 << 20, .capacity = 4 << 20, .medium = medium, .lanes = 8};
  NVM_POOL* pool = nvm_pool_create_with(path, &options);
  if (pool == NULL) {
    give_up("create");
  }
  for (unsigned k = 0; k < kind_count; ++k) {
    void* first = add_objects(pool, &kinds[k]);
    if (k == 0) {
      require(nvm_pool_set_root(pool, first), "set root");
    }
    printf("%u %zu %u\n", kinds[k].type, kinds[k].bytes, kinds[k].count - kinds[k].count / freed_every);
  }
  require(nvm_pool_close(pool), "close");
}

static NVM_POOL* open_pool(const char* path, uint32_t medium, uint32_t read_only) {
  const nvm_pool_options options = {.medium = medium, .read_only = read_only};
  NVM_POOL* pool = nvm_pool_open_with(path, &options);
  if (pool == NULL) {
    give_up("open");
  }
  return pool;
}

static void hold(const char* path, uint32_t medium, uint32_t read_only) {
  NVM_POOL* pool = open_pool(path, medium, read_only);
  puts("ready");
  fflush(stdout);
  while (getchar() != EOF) {
  }
  require(nvm_pool_close(pool), "close");
}

static _Noreturn void die(const char* path, uint32_t medium) {
  NVM_POOL* pool = open_pool(path, medium, 0);
  require(nvm_tx_begin(pool), "begin");
  if (nvm_calloc(pool, 6, 1, 64) == NULL) {
    give_up("allocate");
  }
  require(nvm_tx_commit(pool), "commit");
  require(nvm_tx_begin(pool), "begin");
  void* root = nvm_pool_get_root(pool);
  require(nvm_tx_log(root, 24), "log");
  memset(root, 0xEE, 24);
  raise(SIGKILL);
  abort();
}

/* "words-KIND": 100 keys from 0 on, each with its square; "bytes-KIND": "key-N" with "value-N", and one that is no
 * text. */
static void add_structures(const char* path, uint32_t medium) {
  static const char* const names[] = {"list", "hash", "skiplist", "tree"};
  nvm_pool_options options = {.size = 8 << 20, .medium = medium};
  NVM_POOL* pool = nvm_pool_create_with(path, &options);
  if (pool == NULL) {
    give_up("create");
  }
  for (uint32_t kind = NVM_LF_LIST; kind <= NVM_LF_TREE; ++kind) {
    char name[32];
    snprintf(name, sizeof name, "words-%s", names[kind - 1]);
    nvm_lf* words = nvm_lf_open(pool, name, &(nvm_lf_options){.kind = kind});
    snprintf(name, sizeof name, "bytes-%s", names[kind - 1]);
    nvm_lf* bytes = nvm_lf_open(pool, name, &(nvm_lf_options){.kind = kind, .flags = NVM_LF_BYTES});
    if (words == NULL || bytes == NULL) {
      give_up("open a structure");
    }
    for (uint64_t n = 0; n < 100; ++n) {
      char key[16];
      char value[16];
      const int key_bytes = snprintf(key, sizeof key, "key-%d", (int)n);
      const int value_bytes = snprintf(value, sizeof value, "value-%d", (int)n);
      if (nvm_lf_put64(words, n, n * n, 0) != 1 ||
          nvm_lf_put(bytes, key, (size_t)key_bytes, value, (size_t)value_bytes, 0, 0) != 1) {
        give_up("put");
      }
    }
    if (nvm_lf_put(bytes, "\xff\x00", 2, "\n\xfe", 2, 0, 0) != 1) {
      give_up("put");
    }
  }
  require(nvm_pool_close(pool), "close");
}

int main(int argc, char** argv) {
  static const char* const media[] = {"detect", "shm", "dax", "auto", "ssd"};
  uint32_t medium = 0;
  while (argc == 4 && medium < 5 && strcmp(argv[2], media[medium]) != 0) {
    ++medium;
  }
  if (argc != 4 || medium == 5) {
    fprintf(stderr, "usage: cli_pool_maker PATH MEDIUM fill|hold|read|die|structures\n");
    return 2;
  }
  if (strcmp(argv[3], "fill") == 0) {
    fill(argv[1], medium);
  } else if (strcmp(argv[3], "hold") == 0) {
    hold(argv[1], medium, 0);
  } else if (strcmp(argv[3], "read") == 0) {
    hold(argv[1], medium, 1);
  } else if (strcmp(argv[3], "die") == 0) {
    die(argv[1], medium);
  } else if (strcmp(argv[3], "structures") == 0) {
    add_structures(argv[1], medium);
  } else {
    fprintf(stderr, "cli_pool_maker: no action %s\n", argv[3]);
    return 2;
  }
  return 0;
}
