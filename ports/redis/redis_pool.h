/* Redis' data sets in a Holdfast pool.  REDIS_POOL names it; without that Redis is as it was.
 *
 * Memory that Redis allocates after it has started is durable, except memory that ends with a connection.  A
 * transaction is always open; it ends once a turn of the event loop, before replies leave. */
#ifndef REDIS_POOL_H
#define REDIS_POOL_H

#include <nvm/malloc.h>
#include <stdint.h>

struct dict;
struct redisObject;

int pool_is_on(void);
/* At the start of main(): the hash function of a pool's dictionaries, which is kept in it. */
void pool_seed(uint8_t* seed);
/* In place of loadDataFromDisk(): the databases are those of the pool; a new one gets what Redis' own files have. */
void pool_attach(void);
/* Commits; if that fails, the process ends, and no reply has left. */
void pool_turn(void);
/* Called before other clients may get replies in the midst of a turn, or of a command as a script is: commits earlier
 * changes, except inside of such a command. */
void pool_before_replies(void);
/* The same before EXEC, if one of its commands may be such a one: no script may call them. */
void pool_before_exec(uint64_t flags_of_commands);
/* While a new pool gets its first contents these come in transactions of bounded size. */
void pool_loads(void);
/* For a value that becomes part of a database, which gets a reference to it: the value itself, or a durable copy
 * without a reference. */
struct redisObject* pool_value(struct redisObject* value);
/* The same for an argument, to which the client has the reference. */
struct redisObject* pool_argument(struct redisObject* argument);
/* The copy of a library's name under which it joins others: a library of functions may have come or changed. */
void* pool_library_name(struct dict* libraries, const void* name);
/* bioCreateLazyFreeJob(); with a pool at once, of a database after the turn. */
void pool_lazy_free(void (*job)(void* arguments[]), int count, ...);
/* Whether the time of last use is worth a durable store. */
int pool_stores_lru(unsigned before, unsigned now);

#endif
