/* The pool of memcached's items: where it begins, what is made anew when it is opened.  See restart.h. */
#include "restart.h"

#include <inttypes.h>
#include <nvm/nvm.h>
#include <nvm/space.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "memcached.h"
#include "restart_turns.h"

void do_item_link_q(item* it);

#define ROOT_MAGIC     UINT64_C(0x31642d6368636d6d) /* "mmchc-d1" */
#define CAS_OF_AN_OPEN 40                           /* bits: each open has CAS numbers of its own */

struct pool_root {
  uint64_t magic;
  uint64_t opens;
  uint64_t started; /* the moment that item times count from */
  uint64_t oldest_live, oldest_cas;
  char* pages;
  uint64_t page_bytes; /* of all pages */
  uint64_t hashpower;  /* of `table` */
  item** table;
  item** old_table; /* while the table grows: buckets that have not moved yet */
  char hash[16];    /* the function */
  char settings[2048];
};

static struct pool_root* root;
static const char* path;
static struct {
  restart_check_cb check;
  restart_save_cb save;
  void* data;
  const char* tag;
} settings_of;

void pool_give_up(const char* what, const char* why) {
  fprintf(stderr, "memcached: pool %s: %s: %s\n", path, what, why);
  _exit(1);
}
static void need(int good, const char* what) {
  if (!good) pool_give_up(what, nvm_errormsg());
}

/* ---- the settings ---- */

void restart_register(const char* tag, restart_check_cb ccb, restart_save_cb scb, void* data) {
  settings_of.tag = tag;
  settings_of.check = ccb;
  settings_of.save = scb;
  settings_of.data = data;
}

struct written {
  char* text;
  size_t bytes, room;
};
void restart_set_kv(void* ctx, const char* key, const char* fmt, ...) {
  struct written* w = ctx;
  char value[1024];
  va_list all;
  va_start(all, fmt);
  vsnprintf(value, sizeof value, fmt, all);
  va_end(all);
  const int n = snprintf(w->text + w->bytes, w->room - w->bytes, "%s %s\n", key, value);
  if (n < 0 || (size_t)n >= w->room - w->bytes) pool_give_up("settings", "they are too long");
  w->bytes += (size_t)n;
}

struct reading {
  const char* next;
  char line[1200];
  char* checked; /* the last key that was handed out */
};
/* A value that is not a setting is told as it is now. */
static const char* now_of(const char* key, char* room, size_t bytes) {
  const uint64_t now = (uint64_t)time(NULL);
  const uint64_t told = now > root->started + 1 ? now - 1 : root->started + 1;
  if (strcmp(key, "current_time") == 0) {
    snprintf(room, bytes, "%" PRIu64, told - root->started);
  } else if (strcmp(key, "stop_time") == 0) {
    snprintf(room, bytes, "%" PRIu64, now - 1);
  } else if (strcmp(key, "process_started") == 0) {
    snprintf(room, bytes, "%" PRIu64, root->started);
  } else if (strcmp(key, "current_cas") == 0) {
    snprintf(room, bytes, "%" PRIu64, root->opens << CAS_OF_AN_OPEN);
  } else if (strcmp(key, "oldest_cas") == 0) {
    snprintf(room, bytes, "%" PRIu64, root->oldest_cas);
  } else if (strcmp(key, "oldest_live") == 0) {
    snprintf(room, bytes, "%" PRIu64, root->oldest_live);
  } else if (strcmp(key, "hashpower") == 0) {
    snprintf(room, bytes, "%" PRIu64, root->hashpower);
  } else if (strcmp(key, "mmap_oldbase") == 0) {
    snprintf(room, bytes, "%p", (void*)root->pages);
  } else {
    return NULL;
  }
  return room;
}
enum restart_get_kv_ret restart_get_kv(void* ctx, char** key, char** val) {
  static char now[64];
  struct reading* r = ctx;
  const size_t bytes = strcspn(r->next, "\n");
  if (r->next[bytes] != '\n') return RESTART_DONE;
  if (bytes >= sizeof r->line) return RESTART_BADLINE;
  memcpy(r->line, r->next, bytes);
  r->line[bytes] = 0;
  r->next += bytes + 1;
  char* space = strchr(r->line, ' ');
  if (space == NULL) return RESTART_BADLINE;
  *space = 0;
  *key = r->checked = r->line;
  *val = (char*)now_of(r->line, now, sizeof now);
  if (*val == NULL) *val = space + 1;
  return RESTART_OK;
}

static void check_settings(void) {
  struct reading r = {root->settings, "", NULL};
  if (root->settings[sizeof root->settings - 1] != 0) pool_give_up("settings", "they are damaged");
  if (settings_of.check(settings_of.tag, &r, settings_of.data) != 0) {
    char why[1300];
    snprintf(why, sizeof why, "the pool was made with another value of '%s'",
             r.checked != NULL ? r.checked : "nothing");
    pool_give_up("settings", why);
  }
  if (strncmp(root->hash, settings.hash_algorithm, sizeof root->hash) != 0)
    pool_give_up("settings", "the pool was made with another value of 'hash_algorithm'");
}

/* ---- opening ---- */

static void make_root(size_t limit) {
  need(nvm_tx_begin(pool_heap) == 0, "begin");
  root = nvm_calloc(pool_heap, NVM_TYPE_ID(memcached_root), 1, sizeof *root);
  char* pages = nvm_alloc(pool_heap, NVM_TYPE_ID(memcached_pages), limit);
  need(root != NULL && pages != NULL && nvm_pool_set_root(pool_heap, root) == 0, "make room for items");
  root->magic = ROOT_MAGIC;
  root->started = (uint64_t)process_started;
  root->pages = pages;
  root->page_bytes = limit;
  snprintf(root->hash, sizeof root->hash, "%s", settings.hash_algorithm);
  struct written w = {root->settings, 0, sizeof root->settings};
  settings_of.save(settings_of.tag, &w, settings_of.data);
  need(nvm_tx_commit(pool_heap) == 0, "commit");
}

static NVM_POOL* open_pool(size_t limit) {
  nvm_pool_options options = {0};
  uint32_t medium = NVM_MEDIUM_DETECT;
  options.size = limit + limit / 32 + ((uint64_t)32 << 20);
  options.capacity = 2 * options.size + ((uint64_t)1 << 30);
  options.relocation = NVM_RELOCATE_NEVER;                 /* items have addresses in them */
  const char* emulated = getenv("MEMCACHED_POOL_EMULATE"); /* to measure with: memory as slow as a paper's */
  if (emulated != NULL && *emulated != 0) need(nvm_emulation_preset(emulated, &options.emulation) == 0, "emulation");
  /* On a file system a transaction may have half of the log; in memory a log grows by itself. */
  need(nvm_medium_for(path, &medium) == 0, "find its medium");
  if (medium == NVM_MEDIUM_SSD) {
    options.log_bytes = 8 * (uint64_t)settings.item_size_max;
    if (options.log_bytes < (uint64_t)64 << 20) options.log_bytes = (uint64_t)64 << 20;
  }
  NVM_POOL* pool = nvm_pool_open_or_create(path, &options);
  need(pool != NULL, "open");
  return pool;
}

bool restart_mmap_open(const size_t limit, const char* file, void** mem_base) {
  path = file;
  if (limit == 0 || limit % (size_t)settings.slab_page_size != 0)
    pool_give_up("settings", "-m has to be a multiple of the size of a slab page");
  if (settings.drop_privileges) pool_give_up("settings", "drop_privileges forbids what a pool needs");
  pool_heap = open_pool(limit);
  void* found = NULL;
  need(nvm_pool_read_root(pool_heap, &found) == 0, "root");
  const bool is_new = found == NULL;
  if (is_new) {
    make_root(limit);
  } else {
    root = found;
    const size_t bytes = nvm_size_of(pool_heap, root);
    if (bytes != sizeof *root || root->magic != ROOT_MAGIC) {
      char why[160];
      snprintf(why, sizeof why,
               "the pool was made by another program: its root has %zu bytes and begins with %016" PRIx64
               ", expected %zu and %016" PRIx64,
               bytes, bytes < sizeof root->magic ? 0 : root->magic, sizeof *root, ROOT_MAGIC);
      pool_give_up("open", why);
    }
    check_settings();
    if (nvm_size_of(pool_heap, root->pages) != limit)
      pool_give_up("open", "the pool is damaged: its pages are not there");
  }
  need(nvm_tx_begin(pool_heap) == 0, "begin");
  ++root->opens;
  need(nvm_tx_commit(pool_heap) == 0, "commit");
  *mem_base = root->pages;
  return !is_new;
}

void restart_mmap_close(void) {
  pool_turn();
  need(nvm_pool_close(pool_heap) == 0, "close");
  pool_heap = NULL;
}

void pool_flushes(void) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  if (pool_heap == NULL) return;
  pool_turn();
  pthread_mutex_lock(&lock); /* until the commit: others may flush too */
  need(nvm_tx_begin(pool_heap) == 0, "begin");
  root->oldest_live = settings.oldest_live;
  root->oldest_cas = settings.oldest_cas;
  need(nvm_tx_commit(pool_heap) == 0, "commit");
  pthread_mutex_unlock(&lock);
}

/* ---- the hash table ---- */

static uint64_t buckets_of(item** table) {
  const size_t bytes = nvm_size_of(pool_heap, table);
  if (root->hashpower > 63 || (bytes != sizeof(item*) << root->hashpower))
    pool_give_up("open", "the pool is damaged: its hash table is not there");
  return UINT64_C(1) << root->hashpower;
}

/* An item that a chain names has to be one. */
static bool is_in_pages(const void* p, size_t bytes) {
  const uintptr_t offset = (uintptr_t)p - (uintptr_t)root->pages;
  return offset < root->page_bytes && bytes <= root->page_bytes - offset && offset % CHUNK_ALIGN_BYTES == 0;
}
static void damaged(const item* it, const char* how) {
  char why[120];
  snprintf(why, sizeof why, "the pool is damaged: item at %p %s", (const void*)it, how);
  pool_give_up("open", why);
}
static void need_item(item* it) {
  if (!is_in_pages(it, sizeof *it) || !is_in_pages(it, (size_t)(ITEM_key(it) - (char*)it) + it->nkey + 1))
    damaged(it, "is in no page");
}

/* The last process had not moved these buckets yet. */
static void finish_growth(void) {
  const uint64_t mask = buckets_of(root->table) - 1;
  const uint64_t old_count = (mask + 1) / 2;
  if (nvm_size_of(pool_heap, root->old_table) != old_count * sizeof(item*))
    pool_give_up("open", "the pool is damaged: its former hash table is not there");
  for (uint64_t b = 0; b < old_count; ++b) {
    if (root->old_table[b] == NULL) continue;
    need(nvm_tx_begin(pool_heap) == 0, "begin");
    uint64_t left = root->page_bytes / sizeof(item);
    for (item *it = root->old_table[b], *next; it != NULL; it = next) {
      need_item(it);
      if (left-- == 0) pool_give_up("open", "the pool is damaged: a chain has no end");
      next = it->h_next;
      item** to = &root->table[hash(ITEM_key(it), it->nkey) & mask];
      it->h_next = *to;
      *to = it;
    }
    root->old_table[b] = NULL;
    need(nvm_tx_commit(pool_heap) == 0, "commit");
  }
  need(nvm_tx_begin(pool_heap) == 0 && nvm_free(pool_heap, root->old_table) == 0, "free the former hash table");
  root->old_table = NULL;
  need(nvm_tx_commit(pool_heap) == 0, "commit");
}

/* A new table beside the one that is there; NULL: there is no room. */
static item** make_table(uint64_t buckets) {
  need(nvm_tx_begin(pool_heap) == 0, "begin");
  item** table = nvm_calloc(pool_heap, NVM_TYPE_ID(memcached_table), buckets, sizeof(item*));
  if (table == NULL) {
    need(nvm_tx_abort(pool_heap) == 0, "abort");
    return NULL;
  }
  root->old_table = root->table;
  root->table = table;
  root->hashpower = (uint64_t)__builtin_ctzll(buckets);
  need(nvm_tx_commit(pool_heap) == 0, "commit");
  return table;
}
void* pool_first_table(size_t buckets, size_t bytes) {
  if (pool_heap == NULL) return calloc(buckets, bytes);
  if (root->table == NULL) return make_table(buckets);
  if (root->old_table != NULL) finish_growth();
  if (buckets_of(root->table) != buckets) pool_give_up("open", "the pool is damaged: its hash table has another size");
  return root->table;
}
void* pool_next_table(size_t buckets, size_t bytes) {
  if (pool_heap == NULL) return calloc(buckets, bytes);
  pool_turn();
  return make_table(buckets);
}
void pool_free_table(void* table) {
  if (pool_heap == NULL) {
    free(table);
    return;
  }
  need(nvm_free(pool_heap, table) == 0, "free the former hash table");
  root->old_table = NULL;
}

/* ---- volatile parts ---- */

/* Which chunks of the pages belong to items: a bit for each 64 bytes, less than any chunk has; and the class of each
 * page. */
static struct {
  uint64_t* live;
  uint8_t* class_of_page;
} found;

/* Notes a chunk of a class; `bytes` of it are used. */
static void note_chunk(const item* head, const void* chunk, unsigned int id, size_t bytes) {
  const uint64_t offset = (uint64_t)((const char*)chunk - root->pages);
  const uint64_t page = offset / (uint64_t)settings.slab_page_size;
  const size_t size = id < MAX_NUMBER_OF_SLAB_CLASSES ? slabs_size((int)id) : 0;
  if (id == 0 || size == 0 || bytes > size || offset % (uint64_t)settings.slab_page_size % size != 0)
    damaged(head, "is in no slab class");
  if (found.class_of_page[page] != 0 && found.class_of_page[page] != id) damaged(head, "is in a page of another class");
  found.class_of_page[page] = (uint8_t)id;
  uint64_t* word = &found.live[offset / 64 / 64];
  const uint64_t bit = UINT64_C(1) << (offset / 64 % 64);
  if ((*word & bit) != 0) damaged(head, "is there twice");
  *word |= bit;
}

/* Chunks of a large item: links back, and to the head, are made anew. */
static void take_chunks(item* it) {
  item_chunk* ch = (item_chunk*)ITEM_schunk(it);
  if ((size_t)((char*)(ch + 1) - root->pages) > root->page_bytes) damaged(it, "is cut off");
  note_chunk(it, it, ch->orig_clsid, (size_t)((char*)(ch + 1) - (char*)it));
  uint64_t bytes = 0;
  ch->head = it;
  ch->prev = NULL;
  for (item_chunk* next = ch->next; next != NULL; ch = next, next = ch->next) {
    if (!is_in_pages(next, sizeof *next) || next->used < 0 || next->used > next->size) damaged(it, "has a bad chunk");
    note_chunk(it, next, next->slabs_clsid, sizeof *next + (size_t)next->used);
    next->prev = ch;
    next->head = it;
    next->refcount = 0;
    next->it_flags = ITEM_CHUNK;
    bytes += (uint64_t)next->used;
  }
  if (bytes != (uint64_t)it->nbytes) damaged(it, "has lost chunks");
}

static void take_item(item* it) {
  if (it->nbytes < 2) damaged(it, "has no value");
  it->it_flags = (it->it_flags & (ITEM_CAS | ITEM_FETCHED | ITEM_ACTIVE | ITEM_CHUNKED | ITEM_CFLAGS | ITEM_TOKEN_SENT |
                                  ITEM_STALE | ITEM_KEY_BINARY)) |
                 ITEM_LINKED;
  it->refcount = 1;
  it->next = it->prev = NULL;
  if ((it->it_flags & ITEM_CHUNKED) != 0) {
    take_chunks(it);
  } else {
    note_chunk(it, it, ITEM_clsid(it), ITEM_ntotal(it));
  }
  if (!settings.lru_segmented) it->slabs_clsid = (uint8_t)(ITEM_clsid(it) | COLD_LRU);
  do_item_link_q(it);
  STATS_LOCK();
  stats_state.curr_bytes += ITEM_ntotal(it);
  stats_state.curr_items += 1;
  STATS_UNLOCK();
}

static void take_table(void) {
  const uint64_t buckets = buckets_of(root->table);
  for (uint64_t b = 0; b < buckets; ++b) {
    for (item* it = root->table[b]; it != NULL; it = it->h_next) {
      need_item(it);
      if ((hash(ITEM_key(it), it->nkey) & (buckets - 1)) != b) damaged(it, "is in a wrong bucket");
      take_item(it);
    }
  }
}

/* A page without items is free for any class; in others the chunks that are no item's are free. */
static void take_page(char* page, unsigned int id) {
  if (id == 0) {
    memset(page, 0, sizeof(item));
    slabs_fixup(page, 0);
    return;
  }
  const size_t size = slabs_size((int)id);
  for (size_t at = 0; at + size <= (size_t)settings.slab_page_size; at += size) {
    item* it = (item*)(page + at);
    const uint64_t offset = (uint64_t)(page - root->pages) + at;
    if ((found.live[offset / 64 / 64] >> (offset / 64 % 64) & 1) == 0) {
      memset(it, 0, sizeof *it);
      it->it_flags = ITEM_SLABBED;
      it->slabs_clsid = (uint8_t)id;
    }
    /* The head of a large item has the class of all of it. */
    const uint8_t own = it->slabs_clsid;
    it->slabs_clsid = (uint8_t)id;
    slabs_fixup(page + at, (int)at);
    it->slabs_clsid = own;
  }
}

unsigned int restart_fixup(void* old_base) {
  (void)old_base;
  const uint64_t pages = root->page_bytes / (uint64_t)settings.slab_page_size;
  found.live = calloc(root->page_bytes / 64 / 64 + 1, sizeof *found.live);
  found.class_of_page = calloc(pages, 1);
  if (found.live == NULL || found.class_of_page == NULL) pool_give_up("open", "there is no memory");
  take_table();
  for (uint64_t p = 0; p < pages; ++p)
    take_page(root->pages + p * (uint64_t)settings.slab_page_size, found.class_of_page[p]);
  free(found.live);
  free(found.class_of_page);
  if (settings.verbose > 0) fprintf(stderr, "pool %s: %llu items\n", path, (unsigned long long)stats_state.curr_items);
  return 0;
}
