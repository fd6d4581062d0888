/* Cuckoo hashing (Pagh and Rodler) with buckets of four slots: DJB2 names a bucket in the first half of the table,
 * Jenkins's function one in the second half, and an item stands in one of the two.  An insertion that finds both full
 * moves items to their other buckets along the shortest path to a free slot.
 *
 * Growth is incremental, so that no call takes time in proportion to the table: a table of twice the buckets becomes
 * `now`, and each insertion moves two buckets of `old` into it.  A table is a directory of segments that are allocated
 * when they get their first item. */
#include "hashtable_compiled.h"

#include <stdlib.h>
#include <string.h>

#include "hashes.h"

#define NEW(type, bytes) ((struct type*)nvm_alloc(hashtable_pool, NVM_TYPE_ID(type), bytes))
#define DELETE(object)   nvm_free(hashtable_pool, object)
NVM_POOL* hashtable_pool;

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
NVM_STRUCT item {
  NVM_PTR(struct item) next;
  size_t key_size, value_size;
  unsigned char bytes[]; /* the key, then at the next multiple of 8 the value */
};

NVM_STRUCT slot {
  uint32_t djb2, jenkins;    /* of all items of the chain; no other slot has the same two */
  NVM_PTR(struct item) item; /* NULL: the slot is free */
};

NVM_STRUCT bucket {              /* one cache line */
  struct slot slot[SLOTS];
};

NVM_STRUCT level {
  uint64_t buckets;                 /* even */
  NVM_PTR(struct bucket) segment[]; /* NULL: all buckets of it are empty */
};

NVM_STRUCT hashtable {
  NVM_PTR(struct level) now;
  NVM_PTR(struct level) old; /* NULL when the table is not growing */
  uint64_t moved;            /* buckets of `old` that have been emptied, from the first */
};

static uint64_t segment_count(uint64_t buckets) { return (buckets + SEGMENT_BUCKETS - 1) / SEGMENT_BUCKETS; }

static struct level* make_level(uint64_t buckets) {
  size_t bytes = sizeof(struct level) + segment_count(buckets) * sizeof(struct bucket*);
  struct level* level = NEW(level, bytes);
  if (level == NULL) return NULL;
  memset(level, 0, bytes);
  level->buckets = buckets;
  return level;
}

static struct bucket* bucket_at(const struct level* level, uint64_t index) {
  char* segment = (char*)level->segment[index / SEGMENT_BUCKETS];
  if (segment == NULL) return NULL;
  segment += -(uintptr_t)segment % LINE;
  return (struct bucket*)segment + index % SEGMENT_BUCKETS;
}

static int make_segment(struct level* level, uint64_t index) {
  uint64_t first = index - index % SEGMENT_BUCKETS, count = level->buckets - first;
  if (count > SEGMENT_BUCKETS) count = SEGMENT_BUCKETS;
  size_t bytes = count * sizeof(struct bucket) + LINE;
  struct bucket* segment = NEW(bucket, bytes);
  if (segment == NULL) return -1;
  memset(segment, 0, bytes);
  level->segment[index / SEGMENT_BUCKETS] = segment;
  return 0;
}

hashtable* hashtable_create(void) {
  hashtable* table = NEW(hashtable, sizeof *table);
  if (table == NULL) return NULL;
  table->now = make_level(FIRST_BUCKETS);
  table->old = NULL;
  table->moved = 0;
  if (table->now != NULL) return table;
  DELETE(table);
  return NULL;
}

static void free_level(struct level* level) {
  if (level == NULL) return;
  for (uint64_t i = 0; i < level->buckets; i++) {
    struct bucket* bucket = bucket_at(level, i);
    for (unsigned s = 0; bucket != NULL && s < SLOTS; s++) {
      for (struct item* item = bucket->slot[s].item; item != NULL;) {
        struct item* next = item->next;
        DELETE(item);
        item = next;
      }
    }
  }
  for (uint64_t i = 0; i < segment_count(level->buckets); i++) DELETE(level->segment[i]);
  DELETE(level);
}

void hashtable_destroy(hashtable* table) {
  if (table == NULL) return;
  free_level(table->now);
  free_level(table->old);
  DELETE(table);
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
  if (table->old == NULL) return find_in_level(table->now, djb2, jenkins);
  int moved = first_bucket(table->old, djb2) < table->moved || second_bucket(table->old, jenkins) < table->moved;
  struct slot* slot = find_in_level(moved ? table->now : table->old, djb2, jenkins);
  return slot != NULL ? slot : find_in_level(moved ? table->old : table->now, djb2, jenkins);
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

static struct item* make_item(const void* key, size_t key_size, const void* value, size_t value_size) {
  if (key_size > SIZE_MAX / 4 || value_size > SIZE_MAX / 4) return NULL;
  struct item* item = NEW(item, sizeof *item + value_offset(key_size) + value_size);
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
 * -1: memory is out. */
static int place(hashtable* table, uint32_t djb2, uint32_t jenkins, struct item* item, struct slot* from) {
  struct level* level = table->now;
  struct place path[MOVES_MAX];
  unsigned length = find_path(level, djb2, jenkins, path);
  if (length == 0) return 0;
  if (bucket_at(level, path[0].bucket) == NULL && make_segment(level, path[0].bucket)) return -1;
  struct slot* slots[MOVES_MAX];
  for (unsigned i = 0; i < length; i++) slots[i] = &bucket_at(level, path[i].bucket)->slot[path[i].slot];

  for (unsigned i = 0; i + 1 < length; i++) *slots[i] = *slots[i + 1];
  *slots[length - 1] = (struct slot){djb2, jenkins, item};
  if (from != NULL) from->item = NULL;
  return 1;
}

/* Moves the next buckets of a table that is growing.  What finds no room is tried again by the next call. */
static int move_some(hashtable* table) {
  for (unsigned i = 0; i < MOVED_BUCKETS && table->old != NULL; i++) {
    struct level* old = table->old;
    struct bucket* bucket = bucket_at(old, table->moved);
    for (unsigned s = 0; bucket != NULL && s < SLOTS; s++) {
      struct slot* slot = &bucket->slot[s];
      if (slot->item == NULL) continue;
      int placed = place(table, slot->djb2, slot->jenkins, slot->item, slot);
      if (placed <= 0) return placed;
    }
    uint64_t segment = table->moved / SEGMENT_BUCKETS;
    uint64_t end = segment + 1 < segment_count(old->buckets) ? (segment + 1) * SEGMENT_BUCKETS : old->buckets;
    table->moved = bucket != NULL ? table->moved + 1 : end;
    if (table->moved < end) continue;
    DELETE(old->segment[segment]);
    old->segment[segment] = NULL;
    if (end < old->buckets) continue;
    DELETE(old);
    table->old = NULL;
    table->moved = 0;
  }
  return 0;
}

static int grow(hashtable* table) {
  struct level* next = table->now->buckets <= UINT32_MAX / 2 ? make_level(2 * table->now->buckets) : NULL;
  if (next == NULL) return -1;
  table->old = table->now;
  table->now = next;
  table->moved = 0;
  return 0;
}

int hashtable_put(hashtable* table, const void* key, size_t key_size, const void* value, size_t value_size) {
  NVM_ATOMIC(hashtable_pool);
  uint32_t first = djb2(key, key_size), second = jenkins(key, key_size);
  struct slot* slot = find_slot(table, first, second);
  struct item** link = slot != NULL ? find_link(slot, key, key_size) : NULL;
  struct item* known = link != NULL ? *link : NULL;
  if (known != NULL && known->value_size == value_size && value_size <= OVERWRITE_MAX) {
    if (value_size > 0) memcpy(known->bytes + value_offset(key_size), value, value_size);
    return 0;
  }
  struct item* item = make_item(key, key_size, value, value_size);
  if (item == NULL) return -1;
  if (link != NULL) {
    if (known != NULL) item->next = known->next;
    *link = item;
    DELETE(known);
    return known == NULL;
  }

  if (move_some(table) < 0) {
    DELETE(item);
    return -1;
  }
  int placed = place(table, first, second, item, NULL);
  /* A table that is growing already is half empty: no room there means hashes that were made to collide. */
  if (placed == 0 && table->old == NULL && grow(table) == 0) placed = place(table, first, second, item, NULL);
  if (placed <= 0) {
    DELETE(item);
    return -1;
  }
  return 1;
}

const void* hashtable_get(hashtable* table, const void* key, size_t key_size, size_t* value_size) {
  struct slot* slot = find_slot(table, djb2(key, key_size), jenkins(key, key_size));
  struct item* item = slot != NULL ? *find_link(slot, key, key_size) : NULL;
  if (item == NULL) return NULL;
  *value_size = item->value_size;
  return item->bytes + value_offset(key_size);
}

int hashtable_remove(hashtable* table, const void* key, size_t key_size) {
  NVM_ATOMIC(hashtable_pool);
  struct slot* slot = find_slot(table, djb2(key, key_size), jenkins(key, key_size));
  struct item** link = slot != NULL ? find_link(slot, key, key_size) : NULL;
  if (link == NULL || *link == NULL) return 0;
  struct item* item = *link;
  *link = item->next;
  DELETE(item);
  return 1;
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
  int stop = scan_level(table->now, visit, argument);
  return stop != 0 ? stop : scan_level(table->old, visit, argument);
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
      if (level == table->old && i < table->moved && bucket->slot[s].item != NULL) {
        return "an item was left behind in a bucket that counts as moved";
      }
      const char* finding = check_slot(table, level, i, &bucket->slot[s]);
      if (finding != NULL) return finding;
    }
  }
  return NULL;
}

const char* hashtable_check(hashtable* table) {
  const char* finding = check_level(table, table->now);
  return finding != NULL ? finding : check_level(table, table->old);
}
