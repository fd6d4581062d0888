#include "aligned_sample.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* In the root, in this order, from 32 bytes on: each twice as much as the one before. */
enum { SAMPLES = 8, SAMPLE_TYPE = 5 };
struct samples {
  unsigned char* of[SAMPLES];
};
static size_t alignment_of(int i) { return (size_t)32 << i; }
static size_t size_of(int i) { return 20 + (size_t)i * 61; }

int aligned_sample_fill(NVM_POOL* pool) {
  if (nvm_tx_begin(pool) != 0) return -1;
  struct samples* root = nvm_calloc(pool, 1, 1, sizeof *root);
  if (root == NULL || nvm_pool_set_root(pool, root) != 0) return -1;
  for (int i = 0; i < SAMPLES; ++i) {
    root->of[i] = nvm_alloc_aligned(pool, SAMPLE_TYPE, size_of(i), alignment_of(i));
    if (root->of[i] == NULL) return -1;
    memset(root->of[i], 'a' + i, size_of(i));
  }
  return nvm_tx_commit(pool);
}

static int differs(int i, const char* what) {
  printf("object %d: %s is another\n", i, what);
  return -1;
}

int aligned_sample_verify(NVM_POOL* pool) {
  const struct samples* root = nvm_pool_get_root(pool);
  if (root == NULL) return differs(-1, "the root");
  for (int i = 0; i < SAMPLES; ++i) {
    const unsigned char* p = root->of[i];
    if ((uintptr_t)p % alignment_of(i) != 0) return differs(i, "the alignment");
    if (nvm_size_of(pool, p) != size_of(i)) return differs(i, "the size");
    if (nvm_type_of(pool, p) != SAMPLE_TYPE) return differs(i, "the type");
    for (size_t k = 0; k < size_of(i); ++k) {
      if (p[k] != 'a' + i) return differs(i, "a byte");
    }
  }
  return 0;
}

int aligned_sample_interrupt(NVM_POOL* pool) {
  struct samples* root = nvm_pool_get_root(pool);
  if (nvm_tx_begin(pool) != 0 || nvm_tx_log(root->of[1], size_of(1)) != 0) return -1;
  memset(root->of[1], 'z', size_of(1));
  if (nvm_free(pool, root->of[2]) != 0) return -1;
  return nvm_alloc_aligned(pool, SAMPLE_TYPE, 100, 4096) == NULL ? -1 : 0;
}
