/* memcached's items in a Holdfast pool, in place of the memory file of a warm restart: -e FILE names the pool, and
 * the items in it survive a kill.  Without -e memcached is as it was.
 *
 * Durable are the pages with linked items and the hash table.  A thread's changes of them belong to its transaction,
 * and the item locks that protect the changes are kept until it is committed: before its replies leave, or before it
 * waits for a lock.  Links of LRU lists, reference counts, free chunks and statistics are volatile, and made anew at
 * the start. */
#ifndef RESTART_H
#define RESTART_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- what memcached has for a memory file ---- */

#define RESTART_TAG_MAXLEN 255
typedef uint64_t mc_ptr_t;
enum restart_get_kv_ret { RESTART_OK = 0, RESTART_NOTAG, RESTART_BADLINE, RESTART_DONE };
typedef int (*restart_check_cb)(const char* tag, void* ctx, void* data);
typedef int (*restart_save_cb)(const char* tag, void* ctx, void* data);
/* The functions that say with what settings a pool was made, and look at these when it is opened again.  There is one
 * pair. */
void restart_register(const char* tag, restart_check_cb ccb, restart_save_cb scb, void* data);
void restart_set_kv(void* ctx, const char* key, const char* fmt, ...);
enum restart_get_kv_ret restart_get_kv(void* ctx, char** key, char** val);
/* Opens or creates the pool; returns whether it has items.  If the pool is another program's, or was made with other
 * settings, the process ends with a sentence. */
bool restart_mmap_open(const size_t limit, const char* file, void** mem_base);
void restart_mmap_close(void);
/* Makes anew what is volatile, from the hash table. */
unsigned int restart_fixup(void* old_base);

/* ---- transactions ---- */

struct _stritem;

bool pool_is_on(void);
/* The n bytes at p of a linked item are about to change, or with n 0 a chain of the table is; under its item lock. */
void pool_changes(const void* p, size_t n);
/* The item, all of whose bytes are there, is about to become part of the table. */
void pool_links(struct _stritem* it);
/* Commits what this thread has changed, and lets go of the locks and chunks that wait for that.  If that fails, the
 * process ends, and no reply has left. */
void pool_turn(void);
/* The same, every 64th time. */
void pool_turn_now_and_then(void);
/* For a class without free chunks: a chunk that this thread has freed, or, after a commit, one of the class.  NULL:
 * none. */
struct _stritem* pool_reuses(size_t size, unsigned int id);
/* True: the chunk waits for the commit, which frees it; else the caller frees it. */
bool pool_frees(void* chunk, size_t size, unsigned int id);
/* flush_all has got its time. */
void pool_flushes(void);

/* The item locks; -1 of pool_trylock(): it is held. */
void pool_locks(pthread_mutex_t* locks, uint32_t count);
void pool_lock(pthread_mutex_t* lock);
int pool_trylock(pthread_mutex_t* lock);
void pool_unlock(pthread_mutex_t* lock);

/* ---- the hash table ---- */

/* In place of calloc() and free().  The first table is the pool's, or a new one; then the next one is made; the old one
 * is freed in the transaction that has moved its last bucket.  NULL: there is no room. */
void* pool_first_table(size_t buckets, size_t bytes);
void* pool_next_table(size_t buckets, size_t bytes);
void pool_free_table(void* table);

#endif
