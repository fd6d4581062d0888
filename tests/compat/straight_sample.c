#include "straight_sample.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "nvm/region.h"

enum { VALUES = 3, BYTES = 72 * 1024, CHANGED_AT = 5000, ADDED = 70 * 1024 };
static const char* const straight_set = "large values";
static char bytes[BYTES + ADDED];

/* Mostly zeros: images are text. */
static void fill(uint64_t rid, unsigned round) {
  memset(bytes, 0, sizeof bytes);
  for (size_t at = 0; at + 32 <= sizeof bytes; at += 2048) {
    snprintf(bytes + at, 32, "value %lu, %u, at %lu", (unsigned long)rid, round, (unsigned long)at);
  }
}

/* Written, and written anew; changed in a small part; one is dropped, and one is added to. */
int straight_sample_fill(NVM_POOL* pool) {
  nvm_regions* set = nvm_regions_open(pool, straight_set, NULL);
  if (set == NULL) return -1;
  for (uint64_t rid = 1; rid <= VALUES; ++rid) {
    fill(rid, 1);
    if (nvm_region_create_with(set, rid, bytes, BYTES, 0) != 0) return -1;
  }
  fill(1, 2);
  if (nvm_region_write(set, 1, 0, bytes, BYTES) != 0) return -1;
  if (nvm_region_write(set, 1, CHANGED_AT, "changed", 7) != 0) return -1;
  if (nvm_region_drop(set, 2) != 0) return -1;
  fill(3, 1);
  return nvm_region_append(set, 3, bytes + BYTES, ADDED, NULL);
}

int straight_sample_verify(NVM_POOL* pool) {
  static char found[sizeof bytes + 1];
  nvm_regions* set = nvm_regions_open(pool, straight_set, NULL);
  if (set == NULL) {
    printf("%s\n", nvm_errormsg());
    return -1;
  }
  for (uint64_t rid = 1; rid <= VALUES; rid += 2) {
    fill(rid, rid == 1 ? 2 : 1);
    if (rid == 1) memcpy(bytes + CHANGED_AT, "changed", 7);
    const int64_t n = rid == 1 ? BYTES : BYTES + ADDED;
    if (nvm_region_read(set, rid, 0, found, sizeof found) == n && memcmp(found, bytes, (size_t)n) == 0) continue;
    printf("region %lu: is another\n", (unsigned long)rid);
    return -1;
  }
  uint64_t size = 0;
  return nvm_region_size(set, 2, &size) == 0 ? -1 : 0;
}
