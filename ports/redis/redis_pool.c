/* Redis' databases in a pool: which pool, where they begin in it, when a transaction ends.
 *
 * The root has the two dictionaries of each database, and the code of each library of functions.  Objects point to
 * tables and functions of the program (types of dictionaries), which -fnvm-statics puts right in another process and in
 * another build; another version of Redis may lay objects out in another way, and is refused.
 *
 * A process that dies leaves the objects of its connections and its temporary values; they are freed at the next start,
 * conservatively: every word of Redis may be a pointer. */
#include "server.h" /* first: it says what system headers declare */

#include <nvm/gc.h>
#include <nvm/space.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "bio.h"
#include "functions.h"
#include "redis_pool.h"
#include "version.h"

void loadDataFromDisk(void);
void zmalloc_has(size_t bytes);
void lazyfreeFreeDatabase(void* parts[]);
extern int ProcessingEventsWhileBlocked;

struct pool_database {
  dict* keys;
  dict* expires;
};
struct pool_root {
  char version[24];
  dict* libraries; /* code by name; NULL: none yet, as in pools of a time when functions were not kept */
  uint8_t seed[16];
  uint64_t whole; /* it has all that it began with */
  uint64_t databases;
  struct pool_database database[];
};
_Static_assert(offsetof(struct pool_root, seed) == 32, "the root of pools that exist");

static NVM_POOL* heap;
static struct pool_root* root;

static const char* pool_path(void) { return getenv("REDIS_POOL"); }
int pool_is_on(void) { return heap != NULL; }

static void give_up(const char* what, const char* why) {
  fprintf(stderr, "redis-server: pool %s: %s: %s\n", pool_path(), what, why);
  /* Before the configuration there is no log. */
  if (server.logfile != NULL) serverLog(LL_WARNING, "pool %s: %s: %s", pool_path(), what, why);
  exit(1);
}
static void need(int good, const char* what) {
  if (!good) give_up(what, nvm_errormsg());
}

static NVM_POOL* open_pool(void) {
  nvm_pool_options options = {0};
  uint32_t medium = NVM_MEDIUM_DETECT;
  const char* bytes = getenv("REDIS_POOL_BYTES");
  options.size = (uint64_t)64 << 20;
  options.capacity = bytes != NULL ? memtoull(bytes, NULL) : (uint64_t)4 << 30;
  if (options.size > options.capacity) options.size = options.capacity;
  /* On a file system a turn may have half of the log; in memory a log grows by itself. */
  need(nvm_medium_for(pool_path(), &medium) == 0, "find its medium");
  if (medium == NVM_MEDIUM_SSD) options.log_bytes = (uint64_t)256 << 20;
  NVM_POOL* pool = nvm_pool_open_or_create(pool_path(), &options);
  need(pool != NULL, "open");
  return pool;
}

/* A new pool's root, which gets the seed, and that of an old one. */
static void find_root(const uint8_t seed[16]) {
  void* found = NULL;
  need(nvm_pool_read_root(heap, &found) == 0, "root");
  if (found == NULL) {
    const uint64_t databases = 1 << 14; /* as many as Redis can be asked for, and more */
    need(nvm_tx_begin(heap) == 0, "begin");
    root = nvm_calloc(heap, 0, 1, sizeof *root + databases * sizeof root->database[0]);
    need(root != NULL && nvm_pool_set_root(heap, root) == 0, "make the root");
    strncpy(root->version, REDIS_VERSION, sizeof root->version - 1);
    root->databases = databases;
    memcpy(root->seed, seed, sizeof root->seed);
    need(nvm_tx_commit(heap) == 0, "commit");
    return;
  }
  root = found;
  if (nvm_size_of(heap, root) < sizeof *root || memchr(root->version, 0, sizeof root->version) == NULL)
    give_up("open", "the pool was made by another program");
  if (strcmp(root->version, REDIS_VERSION) != 0) {
    char found[96];
    snprintf(found, sizeof found, "the pool was made by Redis %s, this is " REDIS_VERSION, root->version);
    give_up("open", found);
  }
}

static uint8_t process_seed[sizeof root->seed]; /* of all dictionaries of this process */

void pool_seed(uint8_t* seed) {
  if (pool_path() == NULL) return;
  heap = open_pool();
  find_root(seed);
  memcpy(seed, root->seed, sizeof root->seed);
  memcpy(process_seed, root->seed, sizeof process_seed);
  /* `dir` changes the folder before it is opened again. */
  char* path = realpath(pool_path(), NULL);
  if (path == NULL || setenv("REDIS_POOL", path, 1) != 0) give_up("open", strerror(errno));
  free(path);
  /* A daemon opens it again: a forked child has no pool. */
  need(nvm_pool_close(heap) == 0, "close");
  heap = NULL;
}

static void refuse_what_cannot_be(void) {
  if (server.cluster_enabled) give_up("configuration", "cluster mode keeps its slots in volatile memory");
  if (server.io_threads_num > 1 && server.io_threads_do_reads)
    give_up("configuration", "io-threads-do-reads: arguments are made by the thread that has the transaction");
  if (server.sentinel_mode) give_up("configuration", "a sentinel has no databases");
  if (moduleCount() != 0) give_up("configuration", "loadmodule: what a module makes has addresses of its library");
  server.enable_module_cmd = PROTECTED_ACTION_ALLOWED_NO;
}

/* Keeps the roots of the databases as they are now. */
static void keep_roots(void) {
  for (int i = 0; i < server.dbnum; i++) {
    struct pool_database* d = &root->database[i];
    if (d->keys != server.db[i].dict) d->keys = server.db[i].dict;
    if (d->expires != server.db[i].expires) d->expires = server.db[i].expires;
  }
}

/* What Redis and Lua make of a library belongs to the process; its code is kept, and loaded at the next start. */
static int library_joined;         /* since they were kept last */
static const dict* libraries_kept; /* what functionsLibGet() gave then */

void* pool_library_name(dict* libraries, const void* name) {
  library_joined = 1;
  return dictSdsDup(libraries, name);
}

/* A library joins under a copy of its name.  Where none has joined since, one that left shows in their number, or in
 * another dictionary, which begins empty. */
static int libraries_changed(const dict* now) {
  const unsigned long kept = root->libraries != NULL ? dictSize(root->libraries) : 0;
  return library_joined || now != libraries_kept || dictSize(now) != kept;
}

static void forget_libraries_not_in(dict* now) {
  dictIterator* each = dictGetSafeIterator(root->libraries);
  for (dictEntry* e; (e = dictNext(each)) != NULL;) {
    if (dictFind(now, dictGetKey(e)) == NULL) dictDelete(root->libraries, dictGetKey(e));
  }
  dictReleaseIterator(each);
}

/* Keeps the code of the libraries as they are now; what is the same already is not stored to. */
static void keep_libraries(void) {
  dict* now = functionsLibGet();
  if (!libraries_changed(now)) return;
  NVM_SCOPE(heap);
  library_joined = 0;
  libraries_kept = now;
  if (root->libraries == NULL) {
    if (dictSize(now) == 0) return;
    root->libraries = dictCreate(&hashDictType);
  }
  forget_libraries_not_in(now);
  dictIterator* each = dictGetIterator(now);
  for (dictEntry* e; (e = dictNext(each)) != NULL;) {
    const functionLibInfo* library = dictGetVal(e);
    const sds kept = dictFetchValue(root->libraries, library->name);
    if (kept != NULL && sdscmp(kept, library->code) == 0) continue;
    if (kept != NULL) dictDelete(root->libraries, library->name);
    dictAdd(root->libraries, sdsdup(library->name), sdsdup(library->code));
  }
  dictReleaseIterator(each);
}

static void load_libraries(void) {
  NVM_SCOPE(NULL);
  if (root->libraries == NULL) return;
  dictIterator* each = dictGetIterator(root->libraries);
  for (dictEntry* e; (e = dictNext(each)) != NULL;) {
    sds why = NULL;
    sds name = functionsCreateWithLibraryCtx(dictGetVal(e), 0, &why, functionsLibCtxGetCurrent(), 0);
    if (name == NULL) {
      char what[128];
      snprintf(what, sizeof what, "load the library %s of functions", (char*)dictGetKey(e));
      give_up(what, why != NULL ? why : "no reason is known");
    }
    sdsfree(name);
  }
  dictReleaseIterator(each);
}

static void take_database(redisDb* db, const struct pool_database* from) {
  dictRelease(db->dict);
  dictRelease(db->expires);
  db->dict = from->keys != NULL ? from->keys : dictCreate(&dbDictType);
  db->expires = from->expires != NULL ? from->expires : dictCreate(&dbExpiresDictType);
}

static int add_bytes(void* object, uint32_t type, size_t bytes, void* sum) {
  UNUSED(object);
  UNUSED(type);
  *(size_t*)sum += bytes;
  return 0;
}

void pool_attach(void) {
  if (pool_path() == NULL) {
    loadDataFromDisk();
    return;
  }
  refuse_what_cannot_be();
  if (server.aof_state != AOF_OFF) {
    serverLog(LL_WARNING, "appendonly: no file is written, which would need fork(); the pool is durable by itself");
    server.aof_enabled = 0;
    server.aof_state = AOF_OFF;
  }
  heap = open_pool();
  find_root(process_seed);
  if (memcmp(root->seed, process_seed, sizeof process_seed) != 0)
    give_up("open", "it is another file than at the start, and its hash function is another one");
  nvm_gc_options garbage = {0};
  garbage.conservative = 1;
  nvm_gc_report report = {0};
  need(nvm_gc(heap, &garbage, &report) == 0, "collect what the last process knew");
  /* A child that writes a snapshot has a copy of its own, which takes time and memory: only where one is asked for. */
  need(nvm_pool_set_fork(heap, NVM_FORK_PICTURE) == 0, "copies for children");
  resetServerSaveParams();
  nvm_pool_info info;
  size_t in_use = 0;
  need(nvm_pool_get_info(heap, &info) == 0, "information");
  /* Commands that need memory are refused before the pool is full. */
  if (server.maxmemory == 0) server.maxmemory = info.capacity / 10 * 7;
  need(nvm_pool_each(heap, add_bytes, &in_use) == 0, "count its bytes");
  zmalloc_has(in_use);
  need(nvm_tx_next(heap) == 0, "begin");
  need(nvm_scope_begin(heap).begun, "scope");
  if (!root->whole) {
    memset(root->database, 0, root->databases * sizeof root->database[0]);
    root->libraries = NULL;
  }
  for (int i = 0; i < server.dbnum; i++) take_database(&server.db[i], &root->database[i]);
  keep_roots();
  for (uint64_t i = (uint64_t)server.dbnum; i < root->databases; i++) {
    if (root->database[i].keys != NULL && dictSize(root->database[i].keys) != 0)
      give_up("configuration", "the pool has more databases than `databases` says");
  }
  load_libraries();
  if (!root->whole) {
    loadDataFromDisk();
    keep_roots();
    root->whole = 1;
  }
  pool_turn();
  serverLog(LL_NOTICE, "Pool %s: %llu keys in database 0, %llu objects of the last process freed", pool_path(),
            (unsigned long long)dictSize(server.db[0].dict), (unsigned long long)report.freed_objects);
}

/* Databases that were emptied in this turn.  When that is committed nothing leads to their dictionaries, which are
 * freed in transactions of bounded size; what a dead process leaves of them is collected at the next start. */
struct emptied {
  struct emptied* next;
  void* parts[2];
};
static struct emptied* emptied;

static void empty_after_the_turn(void* parts[2]) {
  NVM_SCOPE(NULL);
  struct emptied* one = zmalloc(sizeof *one);
  *one = (struct emptied){emptied, {parts[0], parts[1]}};
  emptied = one;
}

static void commit_if_large(void) {
  const uint64_t enough = (uint64_t)16 << 20;
  nvm_tx_room room;
  need(nvm_tx_get_room(heap, &room) == 0, "the log's room");
  if (room.used > (room.most != 0 && room.most / 4 < enough ? room.most / 4 : enough))
    need(nvm_tx_next(heap) == 0, "commit");
}

/* The dictionary still says how many there were. */
static void free_entries(dict* of) {
  for (int t = 0; t < 2; t++) {
    for (unsigned long i = 0; i < DICTHT_SIZE(of->ht_size_exp[t]); i++) {
      for (dictEntry* e; (e = of->ht_table[t][i]) != NULL; commit_if_large()) {
        of->ht_table[t][i] = e->next;
        dictFreeKey(of, e);
        dictFreeVal(of, e);
        zfree(e);
      }
    }
  }
}

static void free_emptied(void) {
  while (emptied != NULL) {
    struct emptied* one = emptied;
    emptied = one->next;
    for (int i = 0; i < 2; i++) free_entries(one->parts[i]);
    lazyfreeFreeDatabase(one->parts);
    zfree(one);
  }
  need(nvm_tx_next(heap) == 0, "commit");
}

void pool_turn(void) {
  if (heap == NULL) return;
  keep_roots();
  keep_libraries();
  need(nvm_tx_next(heap) == 0, "commit");
  if (emptied != NULL) free_emptied();
}

void pool_before_replies(void) {
  if (!server.in_exec && !ProcessingEventsWhileBlocked) pool_turn();
}
void pool_before_exec(uint64_t flags_of_commands) {
  if ((flags_of_commands & CMD_NOSCRIPT) != 0) pool_before_replies();
}

void pool_loads(void) {
  if (heap != NULL && server.loading && !root->whole) pool_turn();
}

robj* pool_value(robj* value) {
  if (heap == NULL || nvm_is_durable(value)) return value;
  robj* copy = dupStringObject(value);
  copy->refcount = 0;
  return copy;
}

robj* pool_argument(robj* argument) {
  robj* durable = pool_value(argument);
  if (durable == argument) return argument;
  durable->refcount = 1;
  decrRefCount(argument);
  return durable;
}

void pool_lazy_free(void (*job)(void* arguments[]), int count, ...) {
  void* arguments[2] = {NULL, NULL};
  va_list all;
  va_start(all, count);
  for (int i = 0; i < count && i < 2; i++) arguments[i] = va_arg(all, void*);
  va_end(all);
  if (heap != NULL && job == lazyfreeFreeDatabase) {
    empty_after_the_turn(arguments);
  } else if (heap != NULL) {
    job(arguments);
  } else {
    bioCreateLazyFreeJob(job, count, arguments[0], arguments[1]);
  }
}

/* Redis reads it for two things: which key to evict, and OBJECT IDLETIME. */
int pool_stores_lru(unsigned before, unsigned now) {
  if (heap == NULL) return 1;
  return before != now && (server.maxmemory_policy & MAXMEMORY_FLAG_LRU) != 0;
}
