#include "moved_sample.h"

#include <nvm/describe.h>

struct moved_node {
  struct moved_node* next;
  struct moved_node* itself;
  long number;
};
NVM_DESCRIBE(struct moved_node, NVM_POINTER(next, struct moved_node), NVM_POINTER(itself, struct moved_node),
             NVM_FIELD(number));

int moved_sample_fill(NVM_POOL* pool) {
  struct moved_node* nodes[MOVED_SAMPLE_NODES];
  if (nvm_tx_begin(pool) != 0) return 1;
  for (int i = 0; i < MOVED_SAMPLE_NODES; ++i) {
    nodes[i] = i % 2 != 0
                   ? nvm_alloc_aligned(pool, NVM_TYPE_ID(struct moved_node), sizeof *nodes[i], MOVED_SAMPLE_ALIGNMENT)
                   : nvm_alloc(pool, NVM_TYPE_ID(struct moved_node), sizeof *nodes[i]);
    if (nodes[i] == NULL) return 2;
  }
  for (int i = 0; i < MOVED_SAMPLE_NODES; ++i) {
    nodes[i]->next = nodes[(i + 1) % MOVED_SAMPLE_NODES];
    nodes[i]->itself = i == 3 ? NULL : nodes[i];
    nodes[i]->number = i;
  }
  if (nvm_pool_set_root(pool, nodes[0]) != 0) return 3;
  return nvm_tx_commit(pool) != 0 ? 4 : 0;
}

int moved_sample_verify(NVM_POOL* pool) {
  const struct moved_node* const root = nvm_pool_get_root(pool);
  const struct moved_node* n = root;
  for (int i = 0; i < MOVED_SAMPLE_NODES; ++i) {
    if (n == NULL || nvm_pool_of(n) != pool) return 1;
    if (n->number != i) return 2;
    if (n->itself != (i == 3 ? NULL : n)) return 3;
    if (i % 2 != 0 && (uintptr_t)n % MOVED_SAMPLE_ALIGNMENT != 0) return 4;
    n = n->next;
  }
  return n == root ? 0 : 5;
}
