#include "homes_sample.h"

#include <stdio.h>
#include <string.h>

#include "nvm/store_kv.h"

/* So many that the trie bursts; those with an odd number have a new name, each fifth was deleted. */
enum { HOMES = 24, BURST = 6, KEYS = 20 };

static void name_of(unsigned i, int renamed, char* name) {
  snprintf(name, 40, renamed ? "/srv/moved/%u" : "/srv/robots/%u", i);
}
static int is_there(unsigned i) { return i % 5 != 4; }
static int is_renamed(unsigned i) { return i % 2 == 1; }

struct item {
  uint64_t number;
  char text[32];
};

static int fill_one(NVM_POOL* pool, nvm_store* s, unsigned i) {
  if (nvm_tx_begin(pool) != 0) return -1;
  struct item* o = nvm_store_alloc(s, 7, sizeof *o);
  if (o == NULL) return -1;
  memset(o, 0, sizeof *o);
  o->number = i;
  snprintf(o->text, sizeof o->text, "item of store %u", i);
  if (nvm_store_set_root(s, o) != 0 || nvm_tx_commit(pool) != 0) return -1;
  if (i % 10 != 0) return 0;
  nvm_kv_options how = {0};
  how.index = i % 20 == 0 ? NVM_KV_BTREE : NVM_KV_LIST;
  nvm_kv* kv = nvm_kv_open_in(s, "entries", &how);
  for (unsigned k = 0; k < KEYS; ++k) {
    if (kv == NULL || nvm_kv_put(kv, &k, sizeof k, o->text, strlen(o->text)) != 0) return -1;
  }
  return nvm_kv_close(kv);
}

int homes_sample_fill(NVM_POOL* pool) {
  char name[40];
  char other[40];
  nvm_stores_options all = {0};
  all.burst = BURST;
  if (nvm_stores_configure(pool, &all) != 0) return -1;
  for (unsigned i = 0; i < HOMES; ++i) {
    nvm_store_options o = {0};
    o.mode = 0666;
    o.quota = i % 3 == 0 ? 1 << 16 : 0;
    name_of(i, 0, name);
    if (nvm_store_create(pool, name, &o) != 0) return -1;
    nvm_store* s = nvm_store_attach(pool, name, 0);
    if (s == NULL || fill_one(pool, s, i) != 0 || nvm_store_detach(s) != 0) return -1;
    name_of(i, 1, other);
    if (!is_there(i) && nvm_store_delete(pool, name) != 0) return -1;
    if (is_there(i) && is_renamed(i) && nvm_store_rename(pool, name, other) != 0) return -1;
  }
  return 0;
}

static int wrong(const char* name, const char* what) {
  printf("store %s: %s: %s\n", name, what, nvm_errormsg());
  return -1;
}
static int verify_entries(nvm_store* s, const struct item* o, unsigned i, const char* name) {
  nvm_kv_options how = {0};
  how.mode = NVM_KV_OPEN_ONLY;
  nvm_kv* kv = nvm_kv_open_in(s, "entries", &how);
  if ((kv != NULL) != (i % 10 == 0)) return wrong(name, "its key-value store");
  if (kv == NULL) return 0;
  for (unsigned k = 0; k < KEYS; ++k) {
    char found[32];
    size_t bytes = 0;
    if (nvm_kv_get(kv, &k, sizeof k, found, sizeof found, &bytes) != 1 || bytes != strlen(o->text) ||
        memcmp(found, o->text, bytes) != 0)
      return wrong(name, "an entry");
  }
  if (nvm_kv_size(kv) != KEYS) return wrong(name, "the number of entries");
  return nvm_kv_close(kv);
}

int homes_sample_verify(NVM_POOL* pool) {
  char name[40];
  for (unsigned i = 0; i < HOMES; ++i) {
    name_of(i, is_renamed(i), name);
    nvm_store* s = nvm_store_attach(pool, name, 0);
    if ((s != NULL) != is_there(i)) return wrong(name, "whether it is there");
    if (s == NULL) continue;
    const struct item* o = nvm_store_get_root(s);
    if (o == NULL || o->number != i) return wrong(name, "its root");
    if (verify_entries(s, o, i, name) != 0) return -1;
    nvm_store_info info;
    if (nvm_store_stat(pool, name, &info) != 0 || info.mode != 0666 || info.number != i + 1 ||
        info.quota != (i % 3 == 0 ? 1 << 16 : 0))
      return wrong(name, "what it says of itself");
    if (nvm_store_detach(s) != 0) return wrong(name, "detaching");
  }
  return 0;
}
