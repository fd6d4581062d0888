#include "inner_sample.h"

#include <stdio.h>
#include <string.h>

#include "nvm/store_lockfree.h"

enum { KEYS = 40 };

static const struct {
  const char* name;
  uint32_t kind;
  uint32_t flags;
} structures[] = {{"a list", NVM_LF_LIST, NVM_LF_BYTES},
                  {"a hash table", NVM_LF_HASH, 0},
                  {"a skip list", NVM_LF_SKIP_LIST, NVM_LF_BYTES},
                  {"a tree", NVM_LF_TREE, 0}};
enum { STRUCTURES = sizeof structures / sizeof *structures };

static nvm_lf* opened(nvm_store* s, unsigned i) {
  nvm_lf_options o = {0};
  o.kind = structures[i].kind;
  o.flags = structures[i].flags;
  return nvm_lf_open_in(s, structures[i].name, &o);
}
/* Each third key was removed. */
static int is_there(uint64_t k) { return k % 3 != 2; }

static int fill_one(nvm_lf* lf, int bytes) {
  for (uint64_t k = 0; k < KEYS; ++k) {
    char text[32];
    const int n = snprintf(text, sizeof text, "value of %u", (unsigned)k);
    const int put = bytes ? nvm_lf_put(lf, &k, sizeof k, text, (size_t)n, k, 0) : nvm_lf_put64(lf, k, k * k, 0);
    if (put != 1) return -1;
  }
  for (uint64_t k = 0; k < KEYS; ++k) {
    if (is_there(k)) continue;
    if ((bytes ? nvm_lf_remove(lf, &k, sizeof k) : nvm_lf_remove64(lf, k)) != 1) return -1;
  }
  return 0;
}

int inner_sample_fill(NVM_POOL* pool) {
  nvm_store* const s = nvm_store_attach(pool, "shelf", NVM_STORE_CREATE);
  if (s == NULL) return -1;
  for (unsigned i = 0; i < STRUCTURES; ++i) {
    nvm_lf* const lf = opened(s, i);
    if (lf == NULL || fill_one(lf, structures[i].flags != 0) != 0) return -1;
  }
  return 0;
}

static int verify_one(nvm_lf* lf, int bytes, const char* name) {
  uint64_t count = 0;
  if (nvm_lf_get_count(lf, &count) != 0) return -1;
  uint64_t expected = 0;
  for (uint64_t k = 0; k < KEYS; ++k) {
    char text[32];
    char found[32];
    size_t n = 0;
    uint64_t word = 0;
    (void)snprintf(text, sizeof text, "value of %u", (unsigned)k);
    const int got = bytes ? nvm_lf_get(lf, &k, sizeof k, found, sizeof found, &n) : nvm_lf_get64(lf, k, &word);
    const int good =
        got == is_there(k) && (got == 0 || (bytes ? n == strlen(text) && memcmp(found, text, n) == 0 : word == k * k));
    expected += is_there(k) ? 1 : 0;
    if (good) continue;
    fprintf(stderr, "%s: key %u: found %d\n", name, (unsigned)k, got);
    return -1;
  }
  if (count == expected) return 0;
  fprintf(stderr, "%s: %u entries\n", name, (unsigned)count);
  return -1;
}

int inner_sample_verify(NVM_POOL* pool) {
  nvm_store* const s = nvm_store_attach(pool, "shelf", 0);
  if (s == NULL) return -1;
  for (unsigned i = 0; i < STRUCTURES; ++i) {
    nvm_lf* const lf = opened(s, i);
    if (lf == NULL || verify_one(lf, structures[i].flags != 0, structures[i].name) != 0) return -1;
    if (nvm_lf_close(lf) != 0) return -1;
  }
  return nvm_store_detach(s);
}
