/* Transactions of memcached's threads, and the item locks that they keep until these are committed.
 *
 * A section is the work of memcached under an item lock.  If it has changed nothing of the pool, its lock is let go at
 * its end, as without a pool.  Otherwise the lock is kept: a thread that wants it waits until the change is durable.
 * So no thread sees, or changes again, what a crash would take back.
 *
 * A thread never waits for an item lock while it keeps others: it commits first.  Between two sections each key is as a
 * whole command has left it, so a commit there is as good as one before the reply.  Chunks that are freed go back to
 * their class after the commit: before it a crash would bring back the item that was in them. */
#include "restart_turns.h"

#include <stdlib.h>

#include "memcached.h"
#include "restart.h"

NVM_POOL* pool_heap;

enum { LOCK_USED = 1, LOCK_KEPT = 2 };
/* Bytes that a transaction announces at most before it ends with the section: a log on a file system has an end. */
#define TURN_BYTES ((size_t)4 << 20)

static pthread_mutex_t* locks;
static uint32_t lock_count;

struct freed {
  void* chunk;
  size_t size;
  unsigned int id;
};

static _Thread_local struct {
  bool is_open; /* it has a transaction, hence changes */
  uint32_t changes;
  size_t bytes;
  unsigned int turns;
  uint8_t* state;  /* of each lock */
  uint32_t* begun; /* of each lock that is used: `changes` when its section began */
  uint32_t* kept;
  uint32_t kept_count;
  struct freed* freed;
  size_t freed_count, freed_room;
} turn;

bool pool_is_on(void) { return pool_heap != NULL; }

static void need(int good, const char* what) {
  if (!good) pool_give_up(what, nvm_errormsg());
}

/* ---- changes ---- */

void pool_changes(const void* p, size_t n) {
  if (pool_heap == NULL) return;
  if (!turn.is_open) {
    need(nvm_tx_begin(pool_heap) == 0, "begin");
    turn.is_open = true;
  }
  ++turn.changes;
  turn.bytes += n;
  if (n != 0) need(nvm_tx_log(p, n) == 0, "log");
}

void pool_links(item* it) {
  if (pool_heap == NULL) return;
  char* begin = (char*)&it->h_next; /* the links before it are those of LRU lists */
  if ((it->it_flags & ITEM_CHUNKED) == 0) {
    pool_changes(begin, (size_t)((char*)it + ITEM_ntotal(it) - begin));
    return;
  }
  item_chunk* ch = (item_chunk*)ITEM_schunk(it);
  pool_changes(begin, (size_t)((char*)(ch + 1) - begin));
  for (ch = ch->next; ch != NULL; ch = ch->next) pool_changes(ch, sizeof *ch + (size_t)ch->used);
}

bool pool_frees(void* chunk, size_t size, unsigned int id) {
  if (!turn.is_open) return false;
  if (turn.freed_count == turn.freed_room) {
    turn.freed_room = turn.freed_room == 0 ? 64 : 2 * turn.freed_room;
    turn.freed = realloc(turn.freed, turn.freed_room * sizeof *turn.freed);
    if (turn.freed == NULL) pool_give_up("free", "there is no memory");
  }
  turn.freed[turn.freed_count++] = (struct freed){chunk, size, id};
  return true;
}

static void let_go(void) {
  for (size_t i = 0; i < turn.freed_count; ++i) slabs_free(turn.freed[i].chunk, turn.freed[i].size, turn.freed[i].id);
  turn.freed_count = 0;
  for (uint32_t i = 0; i < turn.kept_count; ++i) {
    uint8_t* state = &turn.state[turn.kept[i]];
    *state &= (uint8_t)~LOCK_KEPT;
    if (*state == 0) mutex_unlock(&locks[turn.kept[i]]);
  }
  turn.kept_count = 0;
}

void pool_turn(void) {
  if (!turn.is_open) return;
  need(nvm_tx_commit(pool_heap) == 0, "commit");
  turn.is_open = false;
  turn.bytes = 0;
  let_go();
}

void pool_turn_now_and_then(void) {
  if (++turn.turns % 64 == 0) pool_turn();
}

/* Takes the chunk back in the transaction that has freed it: its old content is kept for a crash.  So eviction in a
 * full pool needs no commit of its own. */
static item* taken_back(unsigned int id) {
  for (size_t i = turn.freed_count, looked = 0; i-- > 0 && looked < 16; ++looked) {
    item* it = turn.freed[i].chunk;
    if (turn.freed[i].id != id || (it->it_flags & ITEM_CHUNKED) != 0) continue;
    turn.freed[i] = turn.freed[--turn.freed_count];
    pool_changes(it, slabs_size((int)id));
    /* The slab mover looks at flags, key and item lock of what is in a page under this lock: none is another item's. */
    slabs_mlock();
    it->it_flags = 0;
    it->slabs_clsid = (uint8_t)id;
    it->refcount = 1;
    slabs_munlock();
    return it;
  }
  return NULL;
}

item* pool_reuses(size_t size, unsigned int id) {
  if (turn.freed_count == 0) return NULL;
  item* it = taken_back(id);
  if (it != NULL) return it;
  pool_turn();
  return slabs_alloc(size, id, 0);
}

/* ---- item locks ---- */

void pool_locks(pthread_mutex_t* all, uint32_t count) {
  locks = all;
  lock_count = count;
}

static uint32_t number_of(const pthread_mutex_t* lock) {
  if (turn.state == NULL) {
    turn.state = calloc(lock_count, sizeof *turn.state);
    turn.begun = calloc(lock_count, sizeof *turn.begun);
    turn.kept = calloc(lock_count, sizeof *turn.kept);
    if (turn.state == NULL || turn.begun == NULL || turn.kept == NULL) pool_give_up("lock", "there is no memory");
  }
  return (uint32_t)(lock - locks);
}

static void use(uint32_t number) {
  turn.state[number] |= LOCK_USED;
  turn.begun[number] = turn.changes;
}

void pool_lock(pthread_mutex_t* lock) {
  if (pool_heap == NULL) {
    mutex_lock(lock);
    return;
  }
  const uint32_t number = number_of(lock);
  if (turn.bytes > TURN_BYTES) pool_turn();
  if (turn.state[number] != LOCK_KEPT && pthread_mutex_trylock(lock) != 0) {
    pool_turn();
    mutex_lock(lock);
  }
  use(number);
}

int pool_trylock(pthread_mutex_t* lock) {
  if (pool_heap == NULL) return pthread_mutex_trylock(lock);
  const uint32_t number = number_of(lock);
  if ((turn.state[number] & LOCK_USED) != 0) return -1;
  if (turn.state[number] == 0 && pthread_mutex_trylock(lock) != 0) return -1;
  use(number);
  return 0;
}

void pool_unlock(pthread_mutex_t* lock) {
  if (pool_heap == NULL) {
    mutex_unlock(lock);
    return;
  }
  const uint32_t number = number_of(lock);
  uint8_t* state = &turn.state[number];
  *state &= (uint8_t)~LOCK_USED;
  if (*state == LOCK_KEPT) return;
  if (turn.is_open && turn.changes != turn.begun[number]) {
    *state = LOCK_KEPT;
    turn.kept[turn.kept_count++] = number;
  } else {
    mutex_unlock(lock);
  }
}
