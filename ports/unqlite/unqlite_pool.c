/* See unqlite_pool.h. */
#include "unqlite_pool.h"

#include <nvm/space.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unqlite.h"

#define PREFIX "pool:"

struct open_engine {
  struct open_engine* next;
  NVM_POOL* pool;
  void* engine;
  /* Guards what follows, and is held while a transaction begins and ends: scripts come without the database's mutex. */
  pthread_mutex_t turn;
  pthread_t owner; /* of the transaction, where one is open */
  unsigned calls;  /* calls that are under way, one inside the other */
  int is_open;
  int is_begun; /* by unqlite_begin(): the transaction does not end with the call */
  int is_manual;
};
static struct open_engine* all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list */

/* UNQLITE_POOLS names a folder: databases in memory become new pools there.  For tests. */
static const char* folder(void) { return getenv("UNQLITE_POOLS"); }
static int is_memory(const char* name) {
  return name == NULL || *name == 0 || strcmp(name, ":mem:") == 0 || strcmp(name, ":memory:") == 0;
}
int unqlite_pool_named(const char* name) {
  return is_memory(name) ? folder() != NULL : strncmp(name, PREFIX, sizeof PREFIX - 1) == 0;
}

static struct open_engine* of(void* engine) {
  if (!nvm_is_durable(engine)) return NULL;
  pthread_mutex_lock(&lock);
  struct open_engine* found = all;
  while (found != NULL && found->engine != engine) found = found->next;
  pthread_mutex_unlock(&lock);
  return found;
}

/* The engine of a call, its turn taken: leave() gives it back; NULL: it is in no pool. */
static struct open_engine* enter(void* engine) {
  struct open_engine* e = of(engine);
  if (e != NULL) pthread_mutex_lock(&e->turn);
  return e;
}
static int leave(struct open_engine* e, int rc) {
  pthread_mutex_unlock(&e->turn);
  return rc;
}

/* ---- with the turn ---- */

static void end(struct open_engine* e) { e->is_open = e->is_begun = 0; }
/* A thread that ends: the library has rolled its transactions back, before destructors of keys run. */
static void thread_ended(void* unused) {
  (void)unused;
  pthread_mutex_lock(&lock);
  for (struct open_engine* e = all; e != NULL; e = e->next) {
    pthread_mutex_lock(&e->turn);
    if (e->is_open && pthread_equal(e->owner, pthread_self())) {
      end(e);
      e->calls = 0;
    }
    pthread_mutex_unlock(&e->turn);
  }
  pthread_mutex_unlock(&lock);
}
static pthread_key_t ending; /* of threads that have begun a transaction */
static int has_ending;
static void make_ending(void) { has_ending = pthread_key_create(&ending, thread_ended) == 0; }

static int committed(struct open_engine* e) {
  end(e);
  return nvm_tx_commit(e->pool) == 0 ? UNQLITE_OK : UNQLITE_IOERR;
}
static int rolled_back(struct open_engine* e) {
  end(e);
  return nvm_tx_abort(e->pool) == 0 ? UNQLITE_OK : UNQLITE_IOERR;
}
static int opened(struct open_engine* e) {
  if (e->is_open) return pthread_equal(e->owner, pthread_self()) ? UNQLITE_OK : UNQLITE_BUSY;
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  if (pthread_once(&once, make_ending) != 0 || !has_ending || pthread_setspecific(ending, e) != 0) return UNQLITE_NOMEM;
  if (nvm_tx_begin(e->pool) != 0) return UNQLITE_IOERR;
  e->is_open = 1;
  e->owner = pthread_self();
  return UNQLITE_OK;
}

/* ---- opening ---- */

static NVM_POOL* open_pool(const char* path) {
  nvm_pool_options options = {0};
  uint32_t medium = NVM_MEDIUM_DETECT;
  options.size = (uint64_t)16 << 20;
  options.capacity = (uint64_t)64 << 30;
  options.relocation = NVM_RELOCATE_NEVER; /* records have addresses in them */
  /* On a file system a transaction may have half of the log; in memory a log grows by itself. */
  if (nvm_medium_for(path, &medium) != 0) return NULL;
  if (medium == NVM_MEDIUM_SSD) options.log_bytes = (uint64_t)256 << 20;
  return nvm_pool_open_or_create(path, &options);
}

static void* root_of(NVM_POOL* pool, unsigned bytes) {
  void* root = NULL;
  if (nvm_pool_read_root(pool, &root) != 0) return NULL;
  if (root == NULL) {
    root = nvm_calloc(pool, NVM_TYPE_ID(unqlite_engine), 1, bytes);
    return root != NULL && nvm_pool_set_root(pool, root) == 0 ? root : NULL;
  }
  const uint32_t type = nvm_type_of(pool, root);
  const size_t found = nvm_size_of(pool, root);
  if (type == NVM_TYPE_ID(unqlite_engine) && found == bytes) return root;
  fprintf(stderr,
          "unqlite: the pool was made by another program: its root has type %08x and %zu bytes, expected %08x and %u\n",
          type, found, NVM_TYPE_ID(unqlite_engine), bytes);
  return NULL;
}

void* unqlite_pool_open(const char* name, unsigned bytes) {
  char path[4096];
  static unsigned number;
  if (is_memory(name)) {
    pthread_mutex_lock(&lock);
    snprintf(path, sizeof path, "%s/%ld-%u", folder(), (long)getpid(), number++);
    pthread_mutex_unlock(&lock);
  } else {
    snprintf(path, sizeof path, "%s", name + sizeof PREFIX - 1);
  }
  struct open_engine* e = calloc(1, sizeof *e);
  if (e == NULL) return NULL;
  pthread_mutex_init(&e->turn, NULL);
  e->pool = open_pool(path);
  if (is_memory(name)) unlink(path);
  if (e->pool == NULL || opened(e) != UNQLITE_OK) goto failed;
  e->calls = 1;
  e->engine = root_of(e->pool, bytes);
  if (e->engine == NULL) {
    (void)rolled_back(e);
    goto failed;
  }
  pthread_mutex_lock(&lock);
  e->next = all;
  all = e;
  pthread_mutex_unlock(&lock);
  return e->engine;

failed:
  if (nvm_errno() != NVM_OK) fprintf(stderr, "unqlite: %s\n", nvm_errormsg());
  if (e->pool != NULL) (void)nvm_pool_close(e->pool);
  pthread_mutex_destroy(&e->turn);
  free(e);
  return NULL;
}

void unqlite_pool_close(void* engine) {
  struct open_engine* e = enter(engine);
  if (e == NULL) return;
  if (e->is_open) (void)rolled_back(e);
  (void)leave(e, UNQLITE_OK);
  pthread_mutex_lock(&lock);
  struct open_engine** at = &all;
  while (*at != e) at = &(*at)->next;
  *at = e->next;
  pthread_mutex_unlock(&lock);
  if (nvm_pool_close(e->pool) != 0) fprintf(stderr, "unqlite: %s\n", nvm_errormsg());
  pthread_mutex_destroy(&e->turn);
  free(e);
}

/* ---- transactions ---- */

int unqlite_pool_call(void* engine) {
  struct open_engine* e = enter(engine);
  if (e == NULL) return UNQLITE_OK;
  const int rc = opened(e);
  if (rc == UNQLITE_OK) ++e->calls;
  return leave(e, rc);
}
int unqlite_pool_done(void* engine, int rc) {
  struct open_engine* e = enter(engine);
  if (e == NULL) return rc;
  if (--e->calls == 0 && !e->is_begun && !e->is_manual && e->is_open) {
    const int by = rc == UNQLITE_OK ? committed(e) : rolled_back(e);
    if (rc == UNQLITE_OK) rc = by;
  }
  return leave(e, rc);
}
int unqlite_pool_begin(void* engine) {
  struct open_engine* e = enter(engine);
  if (e == NULL) return UNQLITE_OK;
  const int rc = opened(e);
  if (rc == UNQLITE_OK) e->is_begun = 1;
  return leave(e, rc);
}
/* A script may do this, too: the transaction around it goes on then. */
static int ended(void* engine, int (*by)(struct open_engine*)) {
  struct open_engine* e = enter(engine);
  if (e == NULL) return UNQLITE_OK;
  if (!e->is_open) return leave(e, UNQLITE_OK);
  if (!pthread_equal(e->owner, pthread_self())) return leave(e, UNQLITE_BUSY);
  const int rc = by(e);
  return leave(e, rc == UNQLITE_OK && e->calls != 0 ? opened(e) : rc);
}
int unqlite_pool_commit(void* engine) { return ended(engine, committed); }
int unqlite_pool_rollback(void* engine) { return ended(engine, rolled_back); }
int unqlite_pool_manual(void* engine) {
  struct open_engine* e = enter(engine);
  if (e == NULL) return UNQLITE_OK;
  e->is_manual = 1;
  return leave(e, UNQLITE_OK);
}

void* unqlite_pool_alloc(void* backend, unsigned bytes) {
  NVM_SCOPE(nvm_pool_of(backend));
  return nvm_malloc(bytes);
}
