#include "stores_sample.h"

#include <stdio.h>
#include <string.h>

static const struct {
  const char* name;
  enum nvm_kv_index index;
} samples[] = {{"a list", NVM_KV_LIST},
               {"a hash table", NVM_KV_HASH},
               {"a B+tree", NVM_KV_BTREE},
               {"a red-black tree", NVM_KV_RBTREE}};
enum { STORES = sizeof samples / sizeof *samples };

static void key_of(unsigned n, char* key) { snprintf(key, 9, "key%05u", n * 7919 % 100000); }
/* Every third value is given in place of another, every fifth entry is removed. */
static size_t value_of(unsigned n, char* value) {
  const size_t bytes = n % 3 == 0 ? 5 : 3 + n * 5 % 90;
  memset(value, 'a' + (int)(n % 26), bytes);
  return bytes;
}
static int is_there(unsigned n) { return n % 5 != 0; }

static int fill_one(nvm_kv* kv) {
  char key[16];
  char value[100];
  for (unsigned n = 0; n < STORES_SAMPLE_KEYS; ++n) {
    key_of(n, key);
    if (n % 3 == 0 && nvm_kv_put(kv, key, 8, "first", 5) != 0) return -1;
    if (nvm_kv_put(kv, key, 8, value, value_of(n, value)) != 0) return -1;
  }
  for (unsigned n = 0; n < STORES_SAMPLE_KEYS; ++n) {
    key_of(n, key);
    if (!is_there(n) && nvm_kv_remove(kv, key, 8) != 1) return -1;
  }
  return 0;
}

int stores_sample_fill(NVM_POOL* pool) {
  for (unsigned i = 0; i < STORES; ++i) {
    nvm_kv_options o = {0};
    o.index = samples[i].index;
    nvm_kv* kv = nvm_kv_open(pool, samples[i].name, &o);
    if (kv == NULL || fill_one(kv) != 0 || nvm_kv_close(kv) != 0) return -1;
  }
  return 0;
}

static int verify_one(nvm_kv* kv) {
  char key[16];
  char value[100];
  char found[100];
  int64_t entries = 0;
  for (unsigned n = 0; n < STORES_SAMPLE_KEYS; ++n) {
    size_t bytes = 0;
    key_of(n, key);
    const size_t expected = value_of(n, value);
    if (nvm_kv_get(kv, key, 8, found, sizeof found, &bytes) != is_there(n)) return -1;
    if (is_there(n) && (bytes != expected || memcmp(found, value, bytes) != 0)) return -1;
    entries += is_there(n);
  }
  nvm_kv_statistics s;
  return nvm_kv_size(kv) == entries ? nvm_kv_get_statistics(kv, &s) : -1;
}

int stores_sample_verify(NVM_POOL* pool) {
  for (unsigned i = 0; i < STORES; ++i) {
    nvm_kv_options o = {0};
    o.index = samples[i].index;
    o.mode = NVM_KV_OPEN_ONLY;
    nvm_kv* kv = nvm_kv_open(pool, samples[i].name, &o);
    if (kv == NULL || verify_one(kv) != 0) {
      printf("%s: %s\n", samples[i].name, nvm_errormsg());
      return -1;
    }
    if (nvm_kv_close(kv) != 0) return -1;
  }
  return 0;
}
