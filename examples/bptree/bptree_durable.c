/* The tree of NV-Tree: leaves hold their entries unsorted, new ones are appended, and each leaf links to the next; the
 * inner nodes (bptree_index.h) are a separate structure that only leads to leaves.
 *
 * Crash behaviour: a transaction changes leaves and values, whole or not at all.  The index follows as the last step
 * before commit, when nothing but the commit can fail; a hook throws it away if the transaction aborts after all. */
#include "bptree_durable.h"

#include <stdlib.h>
#include <string.h>

#include "bptree_index.h"

enum {
  LEAF_ENTRIES = 61,                 /* makes a leaf 1008 bytes: 16 cache lines with an allocator's 16-byte header */
  MERGE_BELOW = LEAF_ENTRIES / 4,    /* a leaf with fewer entries looks for a neighbour to join */
  MERGED_MAX = LEAF_ENTRIES * 3 / 4, /* and joins it if so many remain, so that the next put does not split them */
  OVERWRITE_MAX = 4096, /* a value up to this size is overwritten by one of the same size, a larger one replaced */
};

struct value {
  size_t size;
  unsigned char bytes[];
};

struct entry {
  uint64_t key;
  struct value* value;
};

struct leaf {
  uint64_t low; /* no key of this leaf is lower, none of an earlier leaf is as high; constant */
  struct leaf* next;
  uint64_t count;
  _Alignas(16) struct entry entries[LEAF_ENTRIES]; /* the first `count`, each key once, in no order */
};

struct root {
  struct leaf* first;
};

enum { TYPE_ROOT = 0x42500001, TYPE_LEAF, TYPE_VALUE };

struct bptree {
  NVM_POOL* pool;
  struct root* root;
  struct bptree_index index;
  int stale; /* the index is to be built again */
};

bptree* bptree_create(NVM_POOL* pool) {
  if (nvm_tx_begin(pool)) return NULL;
  struct root* root = nvm_alloc(pool, TYPE_ROOT, sizeof *root);
  struct leaf* first = nvm_alloc(pool, TYPE_LEAF, sizeof *first);
  if (root == NULL || first == NULL || nvm_pool_set_root(pool, root)) {
    nvm_tx_abort(pool);
    return NULL;
  }
  first->low = 0;
  first->next = NULL;
  first->count = 0;
  root->first = first;
  if (nvm_tx_commit(pool)) return NULL;
  return bptree_open(pool);
}

bptree* bptree_open(NVM_POOL* pool) {
  struct root* root = nvm_pool_get_root(pool);
  if (root == NULL || nvm_type_of(pool, root) != TYPE_ROOT) return NULL;
  bptree* tree = calloc(1, sizeof *tree);
  if (tree == NULL) return NULL;
  tree->pool = pool;
  tree->root = root;
  if (bptree_reindex(tree)) {
    bptree_close(tree);
    return NULL;
  }
  return tree;
}

void bptree_close(bptree* tree) {
  if (tree == NULL) return;
  bptree_index_clear(&tree->index);
  free(tree);
}

int bptree_reindex(bptree* tree) {
  bptree_index_clear(&tree->index);
  tree->stale = 1;
  for (struct leaf* leaf = tree->root->first; leaf != NULL; leaf = leaf->next) {
    if (bptree_index_reserve(&tree->index)) return -1;
    bptree_index_insert(&tree->index, leaf->low, leaf);
  }
  tree->stale = 0;
  return 0;
}

/* An index that an aborted transaction left behind is built again before its first use. */
static int ready(bptree* tree) { return tree->stale ? bptree_reindex(tree) : 0; }

static void on_abort(NVM_POOL* pool, enum nvm_tx_event event, void* argument) {
  (void)pool;
  (void)event;
  ((bptree*)argument)->stale = 1;
}

/* To be called in a transaction that is going to change the index, while it can still fail. */
static int prepare_index(bptree* tree) {
  if (bptree_index_reserve(&tree->index)) return -1;
  return nvm_tx_on(tree->pool, NVM_TX_ON_ABORT, on_abort, tree);
}

static int give_up(bptree* tree) {
  nvm_tx_abort(tree->pool);
  return -1;
}

static struct value* make_value(bptree* tree, const void* bytes, size_t size) {
  if (size > SIZE_MAX - sizeof(struct value)) return NULL;
  struct value* value = nvm_alloc(tree->pool, TYPE_VALUE, sizeof *value + size);
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
static struct leaf* split(bptree* tree, struct leaf* left) {
  struct leaf* right = nvm_alloc(tree->pool, TYPE_LEAF, sizeof *right);
  if (right == NULL) return NULL;
  struct entry sorted[LEAF_ENTRIES];
  copy_sorted(left, sorted);
  const uint64_t kept = LEAF_ENTRIES / 2;
  right->low = sorted[kept].key;
  right->next = left->next;
  right->count = LEAF_ENTRIES - kept;
  memcpy(right->entries, &sorted[kept], right->count * sizeof *sorted);

  nvm_range ranges[1 + LEAF_ENTRIES / 2] = {{&left->next, sizeof left->next + sizeof left->count}};
  size_t announced = 1;
  for (uint64_t i = 0; i < kept; i++) {
    if (left->entries[i].key < right->low) continue;
    ranges[announced++] = (nvm_range){&left->entries[i], sizeof left->entries[i]};
  }
  if (nvm_tx_log_many(ranges, announced)) return NULL;

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
  if (ready(tree) || nvm_tx_begin(tree->pool)) return -1;
  struct leaf* leaf = bptree_index_find(&tree->index, key);
  struct entry* entry = find_entry(leaf, key);
  if (entry != NULL && entry->value->size == size && size <= OVERWRITE_MAX) {
    if (size > 0 && nvm_tx_log(entry->value->bytes, size)) return give_up(tree);
    if (size > 0) memcpy(entry->value->bytes, bytes, size);
    return nvm_tx_commit(tree->pool);
  }
  struct value* value = make_value(tree, bytes, size);
  if (value == NULL) return give_up(tree);
  if (entry != NULL) {
    if (nvm_free(tree->pool, entry->value)) return give_up(tree);
    if (nvm_tx_log(&entry->value, sizeof entry->value)) return give_up(tree);
    entry->value = value;
    return nvm_tx_commit(tree->pool);
  }

  struct leaf* right = NULL;
  if (leaf->count == LEAF_ENTRIES) {
    if (prepare_index(tree) || (right = split(tree, leaf)) == NULL) return give_up(tree);
    if (key >= right->low) leaf = right;
  }
  entry = &leaf->entries[leaf->count];
  nvm_range ranges[] = {{entry, sizeof *entry}, {&leaf->count, sizeof leaf->count}};
  if (nvm_tx_log_many(ranges, 2)) return give_up(tree);
  entry->key = key;
  entry->value = value;
  leaf->count++;
  if (right != NULL) bptree_index_insert(&tree->index, right->low, right);
  return nvm_tx_commit(tree->pool) ? -1 : 1;
}

const void* bptree_get(bptree* tree, uint64_t key, size_t* size) {
  if (ready(tree)) return NULL;
  struct entry* entry = find_entry(bptree_index_find(&tree->index, key), key);
  if (entry == NULL) return NULL;
  *size = entry->value->size;
  return entry->value->bytes;
}

/* Moves all of `right` into `left`, the leaf before it. */
static int merge(bptree* tree, struct leaf* left, struct leaf* right) {
  nvm_range ranges[] = {{&left->next, sizeof left->next + sizeof left->count},
                        {&left->entries[left->count], right->count * sizeof right->entries[0]}};
  if (nvm_tx_log_many(ranges, right->count > 0 ? 2 : 1)) return -1;
  memcpy(&left->entries[left->count], right->entries, right->count * sizeof right->entries[0]);
  left->next = right->next;
  left->count += right->count;
  return nvm_free(tree->pool, right);
}

int bptree_remove(bptree* tree, uint64_t key) {
  if (ready(tree)) return -1;
  struct leaf* leaf = bptree_index_find(&tree->index, key);
  struct entry* entry = find_entry(leaf, key);
  if (entry == NULL) return 0;
  if (nvm_tx_begin(tree->pool)) return -1;
  if (nvm_free(tree->pool, entry->value)) return give_up(tree);
  nvm_range ranges[] = {{entry, sizeof *entry}, {&leaf->count, sizeof leaf->count}};
  if (nvm_tx_log_many(ranges, 2)) return give_up(tree);
  *entry = leaf->entries[leaf->count - 1];
  leaf->count--;

  if (leaf->count >= MERGE_BELOW) return nvm_tx_commit(tree->pool) ? -1 : 1;
  struct leaf *left = bptree_index_before(&tree->index, key), *right = bptree_index_after(&tree->index, key);
  if (left != NULL && left->count + leaf->count <= MERGED_MAX) {
    right = leaf;
  } else if (right != NULL && leaf->count + right->count <= MERGED_MAX) {
    left = leaf;
  } else {
    return nvm_tx_commit(tree->pool) ? -1 : 1;
  }
  if (prepare_index(tree) || merge(tree, left, right)) return give_up(tree);
  bptree_index_remove(&tree->index, right->low);
  return nvm_tx_commit(tree->pool) ? -1 : 1;
}

int bptree_scan(bptree* tree, uint64_t first, uint64_t last, bptree_visit visit, void* argument) {
  if (ready(tree)) return -1;
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
  for (const struct leaf* leaf = tree->root->first; leaf != NULL; leaf = leaf->next) count += leaf->count;
  return count;
}

static int count_objects(void* object, uint32_t type_id, size_t size, void* argument) {
  (void)object, (void)size;
  uint64_t* objects = argument;
  objects[0] += type_id == TYPE_LEAF;
  objects[1] += type_id == TYPE_VALUE;
  return 0;
}

const char* bptree_check(bptree* tree) {
  uint64_t leaves = 0, values = 0, objects[2] = {0, 0};
  if (ready(tree)) return "memory is out";
  if (tree->root->first == NULL || tree->root->first->low != 0) return "the first leaf does not begin at key 0";
  for (const struct leaf* leaf = tree->root->first; leaf != NULL; leaf = leaf->next) {
    if (nvm_type_of(tree->pool, leaf) != TYPE_LEAF) return "a leaf is no live object";
    if (leaf->count > LEAF_ENTRIES) return "a leaf counts more entries than fit";
    if (leaf->next != NULL && leaf->next->low <= leaf->low) return "the leaves are out of order";
    if (bptree_index_find(&tree->index, leaf->low) != leaf) return "the index leads to another leaf";
    struct entry sorted[LEAF_ENTRIES];
    uint64_t count = copy_sorted(leaf, sorted);
    leaves++;
    values += count;
    for (uint64_t i = 0; i < count; i++) {
      if (sorted[i].key < leaf->low) return "a key is below its leaf";
      if (leaf->next != NULL && sorted[i].key >= leaf->next->low) return "a key belongs to a later leaf";
      if (i > 0 && sorted[i - 1].key == sorted[i].key) return "a leaf has a key twice";
      const struct value* value = sorted[i].value;
      if (nvm_type_of(tree->pool, value) != TYPE_VALUE) return "a value is no live object";
      if (nvm_size_of(tree->pool, value) != sizeof *value + value->size) return "a value has another size";
    }
  }
  nvm_pool_each(tree->pool, count_objects, objects);
  if (objects[0] != leaves) return "the pool has leaves that the tree has lost";
  if (objects[1] != values) return "the pool has values that the tree has lost";
  return bptree_index_check(&tree->index);
}
