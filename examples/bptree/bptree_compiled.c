/* The tree of NV-Tree: leaves hold their entries unsorted, new ones are appended, and each leaf links to the next; the
 * inner nodes (bptree_index.h) are a separate structure that only leads to leaves. */
#include "bptree_compiled.h"

#include <stdlib.h>
#include <string.h>

#include "bptree_index.h"

#define NEW(type, bytes) ((struct type*)nvm_alloc(bptree_pool, NVM_TYPE_ID(type), bytes))
#define DELETE(object)   nvm_free(bptree_pool, object)
NVM_POOL* bptree_pool;

enum {
  LEAF_ENTRIES = 61,                 /* makes a leaf 1008 bytes: 16 cache lines with an allocator's 16-byte header */
  MERGE_BELOW = LEAF_ENTRIES / 4,    /* a leaf with fewer entries looks for a neighbour to join */
  MERGED_MAX = LEAF_ENTRIES * 3 / 4, /* and joins it if so many remain, so that the next put does not split them */
  OVERWRITE_MAX = 4096, /* a value up to this size is overwritten by one of the same size, a larger one replaced */
};

NVM_STRUCT value {
  size_t size;
  unsigned char bytes[];
};

NVM_STRUCT entry {
  uint64_t key;
  NVM_PTR(struct value) value;
};

NVM_STRUCT leaf {
  uint64_t low; /* no key of this leaf is lower, none of an earlier leaf is as high; constant */
  NVM_PTR(struct leaf) next;
  uint64_t count;
  _Alignas(16) struct entry entries[LEAF_ENTRIES]; /* the first `count`, each key once, in no order */
};

struct bptree {
  struct leaf* first;
  struct bptree_index index;
};

static int build_index(bptree* tree) {
  bptree_index_clear(&tree->index);
  for (struct leaf* leaf = tree->first; leaf != NULL; leaf = leaf->next) {
    if (bptree_index_reserve(&tree->index)) return -1;
    bptree_index_insert(&tree->index, leaf->low, leaf);
  }
  return 0;
}

static void after_abort(NVM_POOL* pool, enum nvm_tx_event event, void* tree) {
  if (pool != NULL && event == NVM_TX_ON_ABORT && build_index(tree)) abort();
}

/* A tree of these leaves. */
static bptree* over(struct leaf* first) {
  bptree* tree = calloc(1, sizeof *tree);
  if (tree == NULL) return NULL;
  tree->first = first;
  if (build_index(tree) == 0) return tree;
  bptree_forget(tree);
  return NULL;
}

bptree* bptree_open(void) { return over(nvm_pool_get_root(bptree_pool)); }

bptree* bptree_create(void) {
  struct leaf* first = NEW(leaf, sizeof *first);
  if (first == NULL) return NULL;
  first->low = 0;
  first->next = NULL;
  first->count = 0;
  nvm_pool_set_root(bptree_pool, first);
  bptree* tree = over(first);
  if (tree == NULL) DELETE(first);
  return tree;
}

void bptree_forget(bptree* tree) {
  if (tree == NULL) return;
  bptree_index_clear(&tree->index);
  free(tree);
}

void bptree_destroy(bptree* tree) {
  for (struct leaf* leaf = tree != NULL ? tree->first : NULL; leaf != NULL;) {
    struct leaf* next = leaf->next;
    for (uint64_t i = 0; i < leaf->count; i++) DELETE(leaf->entries[i].value);
    DELETE(leaf);
    leaf = next;
  }
  bptree_forget(tree);
}

static struct value* make_value(const void* bytes, size_t size) {
  if (size > SIZE_MAX - sizeof(struct value)) return NULL;
  struct value* value = NEW(value, sizeof *value + size);
  if (value == NULL) return NULL;
  value->size = size;
  if (size > 0) memcpy(value->bytes, bytes, size);
  return value;
}

static struct entry* find_entry(struct leaf* leaf, uint64_t key) {
  for (uint64_t i = 0; i < leaf->count; i++) {
    if (leaf->entries[i].key == key) return &leaf->entries[i];
  }
  return NULL;
}

static int by_key(const void* a, const void* b) {
  uint64_t x = ((const struct entry*)a)->key, y = ((const struct entry*)b)->key;
  return (x > y) - (x < y);
}

static uint64_t copy_sorted(const struct leaf* leaf, struct entry* sorted) {
  memcpy(sorted, leaf->entries, leaf->count * sizeof *sorted);
  qsort(sorted, leaf->count, sizeof *sorted, by_key);
  return leaf->count;
}

/* Moves the upper half of a full leaf into a new one after it, which is returned. */
static struct leaf* split(struct leaf* left) {
  struct leaf* right = NEW(leaf, sizeof *right);
  if (right == NULL) return NULL;
  struct entry sorted[LEAF_ENTRIES];
  copy_sorted(left, sorted);
  const uint64_t kept = LEAF_ENTRIES / 2;
  right->low = sorted[kept].key;
  right->next = left->next;
  right->count = LEAF_ENTRIES - kept;
  memcpy(right->entries, &sorted[kept], right->count * sizeof *sorted);

  /* What stays after position `kept` fills the holes before it. */
  uint64_t from = kept;
  for (uint64_t i = 0; i < kept; i++) {
    if (left->entries[i].key < right->low) continue;
    while (left->entries[from].key >= right->low) from++;
    left->entries[i] = left->entries[from++];
  }
  left->next = right;
  left->count = kept;
  return right;
}

int bptree_put(bptree* tree, uint64_t key, const void* bytes, size_t size) {
  NVM_ATOMIC(bptree_pool);
  struct leaf* leaf = bptree_index_find(&tree->index, key);
  struct entry* entry = find_entry(leaf, key);
  if (entry != NULL && entry->value->size == size && size <= OVERWRITE_MAX) {
    if (size > 0) memcpy(entry->value->bytes, bytes, size);
    return 0;
  }
  struct value* value = make_value(bytes, size);
  if (value == NULL) return -1;
  if (entry != NULL) {
    DELETE(entry->value);
    entry->value = value;
    return 0;
  }

  struct leaf* right = NULL;
  if (leaf->count == LEAF_ENTRIES) {
    if (nvm_tx_on(bptree_pool, NVM_TX_ON_ABORT, after_abort, tree)) abort();
    if (bptree_index_reserve(&tree->index) || (right = split(leaf)) == NULL) {
      DELETE(value);
      return -1;
    }
    if (key >= right->low) leaf = right;
  }
  entry = &leaf->entries[leaf->count];
  entry->key = key;
  entry->value = value;
  leaf->count++;
  if (right != NULL) bptree_index_insert(&tree->index, right->low, right);
  return 1;
}

const void* bptree_get(bptree* tree, uint64_t key, size_t* size) {
  struct entry* entry = find_entry(bptree_index_find(&tree->index, key), key);
  if (entry == NULL) return NULL;
  *size = entry->value->size;
  return entry->value->bytes;
}

/* Moves all of `right` into `left`, the leaf before it. */
static void merge(struct leaf* left, struct leaf* right) {
  memcpy(&left->entries[left->count], right->entries, right->count * sizeof right->entries[0]);
  left->next = right->next;
  left->count += right->count;
  DELETE(right);
}

int bptree_remove(bptree* tree, uint64_t key) {
  NVM_ATOMIC(bptree_pool);
  struct leaf* leaf = bptree_index_find(&tree->index, key);
  struct entry* entry = find_entry(leaf, key);
  if (entry == NULL) return 0;
  DELETE(entry->value);
  *entry = leaf->entries[leaf->count - 1];
  leaf->count--;

  if (leaf->count >= MERGE_BELOW) return 1;
  struct leaf *left = bptree_index_before(&tree->index, key), *right = bptree_index_after(&tree->index, key);
  if (left != NULL && left->count + leaf->count <= MERGED_MAX) {
    right = leaf;
  } else if (right != NULL && leaf->count + right->count <= MERGED_MAX) {
    left = leaf;
  } else {
    return 1;
  }
  if (nvm_tx_on(bptree_pool, NVM_TX_ON_ABORT, after_abort, tree)) abort();
  bptree_index_remove(&tree->index, right->low);
  merge(left, right);
  return 1;
}

int bptree_scan(bptree* tree, uint64_t first, uint64_t last, bptree_visit visit, void* argument) {
  struct entry sorted[LEAF_ENTRIES];
  for (struct leaf* leaf = bptree_index_find(&tree->index, first); leaf != NULL; leaf = leaf->next) {
    if (leaf->low > last) break;
    uint64_t count = copy_sorted(leaf, sorted);
    for (uint64_t i = 0; i < count; i++) {
      if (sorted[i].key < first) continue;
      if (sorted[i].key > last) return 0;
      int stop = visit(sorted[i].key, sorted[i].value->bytes, sorted[i].value->size, argument);
      if (stop != 0) return stop;
    }
  }
  return 0;
}

uint64_t bptree_count(const bptree* tree) {
  uint64_t count = 0;
  for (const struct leaf* leaf = tree->first; leaf != NULL; leaf = leaf->next) count += leaf->count;
  return count;
}

const char* bptree_check(bptree* tree) {
  if (tree->first == NULL || tree->first->low != 0) return "the first leaf does not begin at key 0";
  for (const struct leaf* leaf = tree->first; leaf != NULL; leaf = leaf->next) {
    if (leaf->count > LEAF_ENTRIES) return "a leaf counts more entries than fit";
    if (leaf->next != NULL && leaf->next->low <= leaf->low) return "the leaves are out of order";
    if (bptree_index_find(&tree->index, leaf->low) != leaf) return "the index leads to another leaf";
    struct entry sorted[LEAF_ENTRIES];
    uint64_t count = copy_sorted(leaf, sorted);
    for (uint64_t i = 0; i < count; i++) {
      if (sorted[i].key < leaf->low) return "a key is below its leaf";
      if (leaf->next != NULL && sorted[i].key >= leaf->next->low) return "a key belongs to a later leaf";
      if (i > 0 && sorted[i - 1].key == sorted[i].key) return "a leaf has a key twice";
      if (sorted[i].value == NULL) return "a key has no value";
    }
  }
  return bptree_index_check(&tree->index);
}
