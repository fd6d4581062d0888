#include "counted_sample.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "nvm/lockfree.h"
#include "nvm/region.h"

enum { ENTRIES = 40, REGIONS = 12 };
static const struct {
  const char* name;
  uint32_t kind;
  uint32_t flags;
} structures[] = {{"a list of words", NVM_LF_LIST, NVM_LF_VOLATILE_LINKS},
                  {"a hash table of bytes", NVM_LF_HASH, NVM_LF_VOLATILE_LINKS | NVM_LF_BYTES},
                  {"a skip list of bytes", NVM_LF_SKIP_LIST, NVM_LF_VOLATILE_LINKS | NVM_LF_BYTES}};
enum { STRUCTURES = sizeof structures / sizeof *structures };
static const char* const set_name = "a set";

static int differs(const char* what, uint64_t key) {
  printf("%s %lu: is another\n", what, (unsigned long)key);
  return -1;
}

static nvm_lf* open_structure(NVM_POOL* pool, int i) {
  nvm_lf_options o;
  memset(&o, 0, sizeof o);
  o.kind = structures[i].kind;
  o.flags = structures[i].flags;
  return nvm_lf_open(pool, structures[i].name, &o);
}
static size_t key_of(uint64_t n, char* key) { return (size_t)snprintf(key, 16, "key-%lu", (unsigned long)(n * 7919)); }
static size_t value_of(uint64_t n, char* value) {
  const size_t bytes = 1 + n * 13 % 60;
  memset(value, 'a' + (int)(n % 26), bytes);
  return bytes;
}
/* Every fourth entry is removed. */
static int is_there(uint64_t n) { return n % 4 != 3; }

int counted_sample_fill_structures(NVM_POOL* pool) {
  char key[16];
  char value[64];
  for (int i = 0; i < STRUCTURES; ++i) {
    nvm_lf* lf = open_structure(pool, i);
    if (lf == NULL) return -1;
    const int of_bytes = (structures[i].flags & NVM_LF_BYTES) != 0;
    for (uint64_t n = 0; n < ENTRIES; ++n) {
      const size_t bytes = value_of(n, value);
      const int put =
          of_bytes ? nvm_lf_put(lf, key, key_of(n, key), value, bytes, n, 0) : nvm_lf_put64(lf, n * 7919, n, 0);
      if (put != 1) return -1;
    }
    for (uint64_t n = 0; n < ENTRIES; ++n) {
      if (is_there(n)) continue;
      if ((of_bytes ? nvm_lf_remove(lf, key, key_of(n, key)) : nvm_lf_remove64(lf, n * 7919)) != 1) return -1;
    }
  }
  return 0;
}

int counted_sample_verify_structures(NVM_POOL* pool) {
  char key[16];
  char value[64];
  char found[64];
  for (int i = 0; i < STRUCTURES; ++i) {
    nvm_lf* lf = open_structure(pool, i);
    if (lf == NULL) return differs(nvm_errormsg(), 0);
    const int of_bytes = (structures[i].flags & NVM_LF_BYTES) != 0;
    for (uint64_t n = 0; n < ENTRIES; ++n) {
      uint64_t word = 0;
      size_t bytes = 0;
      const int there = of_bytes ? nvm_lf_get(lf, key, key_of(n, key), found, sizeof found, &bytes)
                                 : nvm_lf_get64(lf, n * 7919, &word);
      if (there != is_there(n)) return differs(structures[i].name, n);
      if (there == 0) continue;
      const size_t wanted = value_of(n, value);
      const int same = of_bytes ? bytes == wanted && memcmp(found, value, wanted) == 0 : word == n;
      if (!same) return differs(structures[i].name, n);
    }
  }
  return 0;
}

/* One in three has pages of its own; one has a replica, one two copies. */
static size_t region_of(uint64_t rid, char* bytes) {
  const size_t n = rid % 3 == 0 ? 2100 + rid : 20 + rid;
  memset(bytes, 'a' + (int)rid, n);
  return n;
}
static int write_by(nvm_regions* set, uint64_t rid, unsigned mode) {
  char bytes[4096];
  const size_t n = region_of(rid, bytes);
  if (nvm_region_begin(set, rid, mode) != 0 || nvm_region_write(set, rid, 0, bytes, n) != 0) return -1;
  return nvm_region_commit(set, rid);
}

int counted_sample_fill_regions(NVM_POOL* pool) {
  char bytes[4096];
  nvm_regions* set = nvm_regions_open(pool, set_name, NULL);
  if (set == NULL) return -1;
  for (uint64_t rid = 1; rid <= REGIONS + 2; ++rid) {
    if (nvm_region_create_with(set, rid, bytes, region_of(rid, bytes), 0) != 0) return -1;
  }
  if (nvm_region_drop(set, REGIONS + 1) != 0 || nvm_region_drop(set, REGIONS + 2) != 0) return -1;
  return write_by(set, 1, NVM_REGION_REPLICA) != 0 ? -1 : write_by(set, 2, NVM_REGION_ALTERNATE);
}

int counted_sample_verify_regions(NVM_POOL* pool) {
  char bytes[4096];
  char found[4096];
  nvm_regions* set = nvm_regions_open(pool, set_name, NULL);
  if (set == NULL) return differs(nvm_errormsg(), 0);
  for (uint64_t rid = 1; rid <= REGIONS; ++rid) {
    const size_t n = region_of(rid, bytes);
    if (nvm_region_read(set, rid, 0, found, sizeof found) != (int64_t)n || memcmp(found, bytes, n) != 0) {
      return differs("region", rid);
    }
  }
  uint64_t size = 0;
  if (nvm_region_size(set, REGIONS + 1, &size) == 0) return differs("region", REGIONS + 1);
  return 0;
}
