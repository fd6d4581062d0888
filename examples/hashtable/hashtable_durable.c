/* Cuckoo hashing (Pagh and Rodler) with buckets of four slots: DJB2 names a bucket in the first half of the table,
 * Jenkins's function one in the second half, and an item stands in one of the two.  An insertion that finds both full
 * moves items to their other buckets along the shortest path to a free slot.
 *
 * Growth is incremental, so that no call takes time in proportion to the table: a table of twice the buckets becomes
 * `now`, and each insertion moves two buckets of `old` into it.  A table is a directory of segments that are allocated
 * when they get their first item.
 *
 * Crash behaviour: each call is a transaction; the slots of a path are announced together, under one fence. */
#include "hashtable_durable.h"

#include <stdlib.h>
#include <string.h>

#include "hashes.h"

enum {
  SLOTS = 4,
  LINE = 64,              /* a bucket is one cache line */
  SEGMENT_BUCKETS = 1000, /* with what aligns it to lines and an allocator's header, a segment is below 64 KiB */
  FIRST_BUCKETS = 64,
  MOVED_BUCKETS = 2,    /* moved by an insertion while the table grows */
  MOVES_MAX = 8,        /* moves that one insertion makes at most */
  SEARCH_MAX = 200,     /* buckets it looks at before the table grows: full to 95 % or so */
  OVERWRITE_MAX = 4096, /* a value up to this size is overwritten by one of the same size, a larger one replaced */
};

/* Items with equal keys in both hashes could fill both of their buckets; they form a chain instead. */
struct item {
  struct item* next;
  size_t key_size, value_size;
  unsigned char bytes[]; /* the key, then at the next multiple of 8 the value */
};

struct slot {
  uint32_t djb2, jenkins; /* of all items of the chain; no other slot has the same two */
  struct item* item;      /* NULL: the slot is free */
};

struct bucket {
  struct slot slot[SLOTS];
};

struct level {
  uint64_t buckets; /* even */
  void* segment[];  /* NULL: all buckets of it are empty */
};

struct root {
  struct level* now;
  struct level* old; /* NULL when the table is not growing */
  uint64_t moved;    /* buckets of `old` that have been emptied, from the first */
};

enum { TYPE_ROOT = 0x48540001, TYPE_LEVEL, TYPE_SEGMENT, TYPE_ITEM };

struct hashtable {
  NVM_POOL* pool;
  struct root* root;
};

static uint64_t segment_count(uint64_t buckets) { return (buckets + SEGMENT_BUCKETS - 1) / SEGMENT_BUCKETS; }

static struct level* make_level(NVM_POOL* pool, uint64_t buckets) {
  struct level* level =
      nvm_calloc(pool, TYPE_LEVEL, 1, sizeof *level + segment_count(buckets) * sizeof level->segment[0]);
  if (level != NULL) level->buckets = buckets;
  return level;
}

static struct bucket* bucket_at(const struct level* level, uint64_t index) {
  char* segment = level->segment[index / SEGMENT_BUCKETS];
  if (segment == NULL) return NULL;
  segment += -(uintptr_t)segment % LINE;
  return (struct bucket*)segment + index % SEGMENT_BUCKETS;
}

static int make_segment(NVM_POOL* pool, struct level* level, uint64_t index) {
  uint64_t first = index - index % SEGMENT_BUCKETS, count = level->buckets - first;
  if (count > SEGMENT_BUCKETS) count = SEGMENT_BUCKETS;
  void* segment = nvm_calloc(pool, TYPE_SEGMENT, 1, count * sizeof(struct bucket) + LINE);
  if (segment == NULL) return -1;
  void** link = &level->segment[index / SEGMENT_BUCKETS];
  if (nvm_tx_log(link, sizeof *link)) return -1;
  *link = segment;
  return 0;
}

hashtable* hashtable_create(NVM_POOL* pool) {
  if (nvm_tx_begin(pool)) return NULL;
  struct root* root = nvm_calloc(pool, TYPE_ROOT, 1, sizeof *root);
  if (root == NULL || (root->now = make_level(pool, FIRST_BUCKETS)) == NULL || nvm_pool_set_root(pool, root)) {
    nvm_tx_abort(pool);
    return NULL;
  }
  if (nvm_tx_commit(pool)) return NULL;
  return hashtable_open(pool);
}

hashtable* hashtable_open(NVM_POOL* pool) {
  struct root* root = nvm_pool_get_root(pool);
  if (root == NULL || nvm_type_of(pool, root) != TYPE_ROOT) return NULL;
  hashtable* table = malloc(sizeof *table);
  if (table == NULL) return NULL;
  table->pool = pool;
  table->root = root;
  return table;
}

void hashtable_close(hashtable* table) { free(table); }

static int give_up(hashtable* table) {
  nvm_tx_abort(table->pool);
  return -1;
}

/* DJB2 leaves the high bits of short keys alone, and the low ones weak; a multiplication spreads them. */
static uint64_t spread(uint32_t hash, uint64_t buckets) { return (uint32_t)(hash * 0x9E3779B1u) * buckets >> 32; }

static uint64_t first_bucket(const struct level* level, uint32_t djb2) { return spread(djb2, level->buckets / 2); }

static uint64_t second_bucket(const struct level* level, uint32_t jenkins) {
  return level->buckets / 2 + spread(jenkins, level->buckets / 2);
}

static struct slot* slot_in(struct bucket* bucket, uint32_t djb2, uint32_t jenkins) {
  for (unsigned s = 0; bucket != NULL && s < SLOTS; s++) {
    struct slot* slot = &bucket->slot[s];
    if (slot->djb2 == djb2 && slot->jenkins == jenkins && slot->item != NULL) return slot;
  }
  return NULL;
}

static struct slot* find_in_level(const struct level* level, uint32_t djb2, uint32_t jenkins) {
  struct bucket* first = bucket_at(level, first_bucket(level, djb2));
  struct bucket* second = bucket_at(level, second_bucket(level, jenkins));
  __builtin_prefetch(second); /* two misses at a time */
  struct slot* slot = slot_in(first, djb2, jenkins);
  return slot != NULL ? slot : slot_in(second, djb2, jenkins);
}

/* The slot with both hashes, if there is one.  A growing table is searched first where a key was before it grew, unless
 * one of its buckets there has been moved. */
static struct slot* find_slot(hashtable* table, uint32_t djb2, uint32_t jenkins) {
  const struct root* root = table->root;
  if (root->old == NULL) return find_in_level(root->now, djb2, jenkins);
  int moved = first_bucket(root->old, djb2) < root->moved || second_bucket(root->old, jenkins) < root->moved;
  struct slot* slot = find_in_level(moved ? root->now : root->old, djb2, jenkins);
  return slot != NULL ? slot : find_in_level(moved ? root->old : root->now, djb2, jenkins);
}

/* The pointer to the item with this key, or the NULL at the end of the slot's chain. */
static struct item** find_link(struct slot* slot, const void* key, size_t key_size) {
  struct item** link = &slot->item;
  while (*link != NULL && ((*link)->key_size != key_size || memcmp((*link)->bytes, key, key_size) != 0)) {
    link = &(*link)->next;
  }
  return link;
}

static size_t value_offset(size_t key_size) { return (key_size + 7) / 8 * 8; }

static struct item* make_item(hashtable* table, const void* key, size_t key_size, const void* value,
                              size_t value_size) {
  if (key_size > SIZE_MAX / 4 || value_size > SIZE_MAX / 4) return NULL;
  struct item* item = nvm_alloc(table->pool, TYPE_ITEM, sizeof *item + value_offset(key_size) + value_size);
  if (item == NULL) return NULL;
  item->next = NULL;
  item->key_size = key_size;
  item->value_size = value_size;
  memcpy(item->bytes, key, key_size);
  if (value_size > 0) memcpy(item->bytes + value_offset(key_size), value, value_size);
  return item;
}

struct place {
  uint64_t bucket;
  unsigned slot;
};

/* The shortest path for a new item: path[0] is free, the item of path[i] may move to path[i - 1], and the last one is
 * the new item's.  Returns its length, 0 when there is none. */
static unsigned find_path(const struct level* level, uint32_t djb2, uint32_t jenkins, struct place* path) {
  struct {
    uint64_t bucket;
    unsigned depth, parent, slot; /* an item in this slot of the parent may move here */
  } seen[SEARCH_MAX];
  seen[0].bucket = first_bucket(level, djb2);
  seen[1].bucket = second_bucket(level, jenkins);
  seen[0].depth = seen[1].depth = 1;
  unsigned count = 2;
  for (unsigned at = 0; at < count; at++) {
    const struct bucket* bucket = bucket_at(level, seen[at].bucket);
    unsigned slot = 0;
    while (bucket != NULL && slot < SLOTS && bucket->slot[slot].item != NULL) slot++;
    if (slot < SLOTS) {
      unsigned length = seen[at].depth;
      for (unsigned i = 0; i < length; i++) {
        path[i] = (struct place){seen[at].bucket, slot};
        slot = seen[at].slot;
        at = seen[at].parent;
      }
      return length;
    }
    for (slot = 0; slot < SLOTS && seen[at].depth < MOVES_MAX && count < SEARCH_MAX; slot++) {
      const struct slot* item = &bucket->slot[slot];
      uint64_t other =
          seen[at].bucket < level->buckets / 2 ? second_bucket(level, item->jenkins) : first_bucket(level, item->djb2);
      unsigned known = 0;
      while (known < count && seen[known].bucket != other) known++;
      if (known < count) continue;
      seen[count].bucket = other;
      seen[count].depth = seen[at].depth + 1;
      seen[count].parent = at;
      seen[count].slot = slot;
      count++;
    }
  }
  return 0;
}

/* Gives a chain of items a slot, and empties the slot `from` that it comes from, if any.  1: done, 0: no room for it,
 * -1: the transaction can only be given up. */
static int place(hashtable* table, uint32_t djb2, uint32_t jenkins, struct item* item, struct slot* from) {
  struct level* level = table->root->now;
  struct place path[MOVES_MAX];
  unsigned length = find_path(level, djb2, jenkins, path);
  if (length == 0) return 0;
  if (bucket_at(level, path[0].bucket) == NULL && make_segment(table->pool, level, path[0].bucket)) return -1;
  struct slot* slots[MOVES_MAX];
  nvm_range ranges[MOVES_MAX + 1];
  for (unsigned i = 0; i < length; i++) {
    slots[i] = &bucket_at(level, path[i].bucket)->slot[path[i].slot];
    ranges[i] = (nvm_range){slots[i], sizeof *slots[i]};
  }
  if (from != NULL) ranges[length] = (nvm_range){&from->item, sizeof from->item};
  if (nvm_tx_log_many(ranges, from != NULL ? length + 1 : length)) return -1;

  for (unsigned i = 0; i + 1 < length; i++) *slots[i] = *slots[i + 1];
  *slots[length - 1] = (struct slot){djb2, jenkins, item};
  if (from != NULL) from->item = NULL;
  return 1;
}

/* Moves the next buckets of a table that is growing.  What finds no room is tried again by the next call. */
static int move_some(hashtable* table) {
  struct root* root = table->root;
  for (unsigned i = 0; i < MOVED_BUCKETS && root->old != NULL; i++) {
    struct level* old = root->old;
    struct bucket* bucket = bucket_at(old, root->moved);
    for (unsigned s = 0; bucket != NULL && s < SLOTS; s++) {
      struct slot* slot = &bucket->slot[s];
      if (slot->item == NULL) continue;
      int placed = place(table, slot->djb2, slot->jenkins, slot->item, slot);
      if (placed <= 0) return placed;
    }
    uint64_t segment = root->moved / SEGMENT_BUCKETS;
    uint64_t end = segment + 1 < segment_count(old->buckets) ? (segment + 1) * SEGMENT_BUCKETS : old->buckets;
    if (nvm_tx_log(&root->moved, sizeof root->moved)) return -1;
    root->moved = bucket != NULL ? root->moved + 1 : end;
    if (root->moved < end) continue;
    if (nvm_free(table->pool, old->segment[segment])) return -1;
    if (nvm_tx_log(&old->segment[segment], sizeof old->segment[segment])) return -1;
    old->segment[segment] = NULL;
    if (end < old->buckets) continue;
    if (nvm_free(table->pool, old)) return -1;
    if (nvm_tx_log(&root->old, sizeof root->old)) return -1;
    root->old = NULL;
    root->moved = 0;
  }
  return 0;
}

static int grow(hashtable* table) {
  struct root* root = table->root;
  struct level* next = root->now->buckets <= UINT32_MAX / 2 ? make_level(table->pool, 2 * root->now->buckets) : NULL;
  if (next == NULL || nvm_tx_log(root, sizeof *root)) return -1;
  root->old = root->now;
  root->now = next;
  root->moved = 0;
  return 0;
}

int hashtable_put(hashtable* table, const void* key, size_t key_size, const void* value, size_t value_size) {
  if (nvm_tx_begin(table->pool)) return -1;
  uint32_t first = djb2(key, key_size), second = jenkins(key, key_size);
  struct slot* slot = find_slot(table, first, second);
  struct item** link = slot != NULL ? find_link(slot, key, key_size) : NULL;
  struct item* known = link != NULL ? *link : NULL;
  if (known != NULL && known->value_size == value_size && value_size <= OVERWRITE_MAX) {
    unsigned char* bytes = known->bytes + value_offset(key_size);
    if (value_size > 0 && nvm_tx_log(bytes, value_size)) return give_up(table);
    if (value_size > 0) memcpy(bytes, value, value_size);
    return nvm_tx_commit(table->pool);
  }
  struct item* item = make_item(table, key, key_size, value, value_size);
  if (item == NULL) return give_up(table);
  if (link != NULL) {
    if (nvm_free(table->pool, known) || nvm_tx_log(link, sizeof *link)) return give_up(table);
    if (known != NULL) item->next = known->next;
    *link = item;
    return nvm_tx_commit(table->pool) ? -1 : known == NULL;
  }

  if (move_some(table) < 0) return give_up(table);
  int placed = place(table, first, second, item, NULL);
  /* A table that is growing already is half empty: no room there means hashes that were made to collide. */
  if (placed == 0 && table->root->old == NULL && grow(table) == 0) placed = place(table, first, second, item, NULL);
  if (placed <= 0) return give_up(table);
  return nvm_tx_commit(table->pool) ? -1 : 1;
}

const void* hashtable_get(hashtable* table, const void* key, size_t key_size, size_t* value_size) {
  struct slot* slot = find_slot(table, djb2(key, key_size), jenkins(key, key_size));
  struct item* item = slot != NULL ? *find_link(slot, key, key_size) : NULL;
  if (item == NULL) return NULL;
  *value_size = item->value_size;
  return item->bytes + value_offset(key_size);
}

int hashtable_remove(hashtable* table, const void* key, size_t key_size) {
  struct slot* slot = find_slot(table, djb2(key, key_size), jenkins(key, key_size));
  struct item** link = slot != NULL ? find_link(slot, key, key_size) : NULL;
  if (link == NULL || *link == NULL) return 0;
  struct item* item = *link;
  if (nvm_tx_begin(table->pool)) return -1;
  if (nvm_free(table->pool, item) || nvm_tx_log(link, sizeof *link)) return give_up(table);
  *link = item->next;
  return nvm_tx_commit(table->pool) ? -1 : 1;
}

static int scan_level(struct level* level, hashtable_visit visit, void* argument) {
  for (uint64_t i = 0; level != NULL && i < level->buckets; i++) {
    struct bucket* bucket = bucket_at(level, i);
    for (unsigned s = 0; bucket != NULL && s < SLOTS; s++) {
      for (struct item* item = bucket->slot[s].item; item != NULL; item = item->next) {
        const unsigned char* value = item->bytes + value_offset(item->key_size);
        int stop = visit(item->bytes, item->key_size, value, item->value_size, argument);
        if (stop != 0) return stop;
      }
    }
  }
  return 0;
}

int hashtable_scan(hashtable* table, hashtable_visit visit, void* argument) {
  int stop = scan_level(table->root->now, visit, argument);
  return stop != 0 ? stop : scan_level(table->root->old, visit, argument);
}

static int count_one(const void* key, size_t key_size, const void* value, size_t value_size, void* argument) {
  (void)key, (void)key_size, (void)value, (void)value_size;
  ++*(uint64_t*)argument;
  return 0;
}

uint64_t hashtable_count(hashtable* table) {
  uint64_t count = 0;
  hashtable_scan(table, count_one, &count);
  return count;
}

static const char* check_slot(hashtable* table, struct level* level, uint64_t bucket, struct slot* slot) {
  if (slot->item == NULL) return NULL;
  uint64_t home = bucket < level->buckets / 2 ? first_bucket(level, slot->djb2) : second_bucket(level, slot->jenkins);
  if (home != bucket) return "an item stands in a bucket that is not one of its two";
  if (find_slot(table, slot->djb2, slot->jenkins) != slot) return "two slots have the same hashes";
  for (struct item* item = slot->item; item != NULL; item = item->next) {
    if (nvm_type_of(table->pool, item) != TYPE_ITEM) return "an item is no live object";
    if (nvm_size_of(table->pool, item) != sizeof *item + value_offset(item->key_size) + item->value_size) {
      return "an item has another size";
    }
    if (djb2(item->bytes, item->key_size) != slot->djb2) return "an item has another DJB2 hash than its slot";
    if (jenkins(item->bytes, item->key_size) != slot->jenkins) return "an item has another Jenkins hash than its slot";
    if (*find_link(slot, item->bytes, item->key_size) != item) return "a chain has a key twice";
  }
  return NULL;
}

static const char* check_level(hashtable* table, struct level* level) {
  for (uint64_t i = 0; level != NULL && i < level->buckets; i++) {
    struct bucket* bucket = bucket_at(level, i);
    for (unsigned s = 0; bucket != NULL && s < SLOTS; s++) {
      if (level == table->root->old && i < table->root->moved && bucket->slot[s].item != NULL) {
        return "an item was left behind in a bucket that counts as moved";
      }
      const char* finding = check_slot(table, level, i, &bucket->slot[s]);
      if (finding != NULL) return finding;
    }
  }
  return NULL;
}

/* What the table holds of each type, to be compared with what the pool holds. */
struct census {
  uint64_t levels, segments, items;
};

static int count_object(void* object, uint32_t type_id, size_t size, void* argument) {
  (void)object, (void)size;
  struct census* pool = argument;
  pool->levels += type_id == TYPE_LEVEL;
  pool->segments += type_id == TYPE_SEGMENT;
  pool->items += type_id == TYPE_ITEM;
  return 0;
}

static void count_level(const struct level* level, struct census* reached) {
  if (level == NULL) return;
  reached->levels++;
  for (uint64_t i = 0; i < segment_count(level->buckets); i++) reached->segments += level->segment[i] != NULL;
}

const char* hashtable_check(hashtable* table) {
  const char* finding = check_level(table, table->root->now);
  if (finding == NULL) finding = check_level(table, table->root->old);
  if (finding != NULL) return finding;
  struct census reached = {0, 0, hashtable_count(table)}, pool = {0, 0, 0};
  count_level(table->root->now, &reached);
  count_level(table->root->old, &reached);
  nvm_pool_each(table->pool, count_object, &pool);
  if (pool.levels != reached.levels) return "the pool has levels that the table has lost";
  if (pool.segments != reached.segments) return "the pool has segments that the table has lost";
  if (pool.items != reached.items) return "the pool has items that the table has lost";
  return NULL;
}
