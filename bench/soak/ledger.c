#include "ledger.h"

#include <string.h>

enum { chains = 4096, type_ledger = 1, type_note = 2 };

struct note {
  struct note* next;
  uint64_t key;
  uint64_t count;
  unsigned char bytes[];
};
struct ledger {
  struct note* first[chains];
};

static uint64_t chain_of(uint64_t key) { return key * 0x9E3779B97F4A7C15u >> 52; }

struct ledger* ledger_in(NVM_POOL* pool) {
  struct ledger* all = nvm_pool_get_root(pool);
  if (all != NULL || nvm_tx_begin(pool) != 0) return all;
  all = nvm_calloc(pool, type_ledger, 1, sizeof *all);
  if (all != NULL && nvm_pool_set_root(pool, all) == 0 && nvm_tx_commit(pool) == 0) return all;
  (void)nvm_tx_abort(pool);
  return NULL;
}

static int end(NVM_POOL* pool, int good) {
  if (good) return nvm_tx_commit(pool) == 0 ? 1 : -1;
  (void)nvm_tx_abort(pool);
  return -1;
}

/* The link that leads to the note, or to the end of its chain. */
static struct note** link_to(struct ledger* all, uint64_t key) {
  struct note** link = &all->first[chain_of(key)];
  while (*link != NULL && (*link)->key != key) link = &(*link)->next;
  return link;
}

int ledger_put(NVM_POOL* pool, struct ledger* all, uint64_t key, const void* bytes, size_t count) {
  if (nvm_tx_begin(pool) != 0) return -1;
  struct note** const link = link_to(all, key);
  struct note* const old = *link;
  struct note* const made = nvm_alloc(pool, type_note, sizeof *made + count);
  if (made == NULL) return end(pool, 0);
  made->next = old == NULL ? NULL : old->next;
  made->key = key;
  made->count = count;
  memcpy(made->bytes, bytes, count);
  *link = made;
  return end(pool, old == NULL || nvm_free(pool, old) == 0);
}

int ledger_remove(NVM_POOL* pool, struct ledger* all, uint64_t key) {
  struct note** const link = link_to(all, key);
  struct note* const old = *link;
  if (old == NULL) return 0;
  if (nvm_tx_begin(pool) != 0) return -1;
  *link = old->next;
  return end(pool, nvm_free(pool, old) == 0);
}

const void* ledger_get(const struct ledger* all, uint64_t key, size_t* count) {
  for (const struct note* n = all->first[chain_of(key)]; n != NULL; n = n->next) {
    if (n->key != key) continue;
    *count = n->count;
    return n->bytes;
  }
  return NULL;
}

void ledger_each(const struct ledger* all, void (*visit)(uint64_t key, size_t count, void* argument), void* argument) {
  for (unsigned i = 0; i < chains; ++i) {
    for (const struct note* n = all->first[i]; n != NULL; n = n->next) visit(n->key, n->count, argument);
  }
}
