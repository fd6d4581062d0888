/* A cuckoo hash table in a durable pool: the durable version of hashtable_volatile.h.
 *
 * Keys and values are any bytes.  Not for several threads at a time: the program keeps a lock.
 *
 * The table is the pool's root object; nothing of it is volatile.  Each change is a transaction, or a level of the one
 * that the caller has open. */
#ifndef EXAMPLES_HASHTABLE_DURABLE_H
#define EXAMPLES_HASHTABLE_DURABLE_H

#include <nvm/nvm.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hashtable hashtable;

/* Makes an empty table the root of a pool that has none, and opens it.  NULL: see nvm_errormsg(), or memory is out. */
hashtable* hashtable_create(NVM_POOL* pool);
/* Opens the table that is the root of a pool, at once.  NULL also when the root is no table. */
hashtable* hashtable_open(NVM_POOL* pool);
/* Frees the handle; the table stays in the pool. */
void hashtable_close(hashtable* table);

/* Stores a copy of a value under a copy of a key.  1: a new key, 0: another value for a known one, -1: nothing is
 * changed, see nvm_errormsg().  An insertion may also move a few items of a table that is growing, never more.  It
 * fails too when more keys share both of their buckets than these hold, in a table that is growing already: keys made
 * to collide. */
int hashtable_put(hashtable* table, const void* key, size_t key_size, const void* value, size_t value_size);
/* The value of a key, 8-byte aligned, and its size; it stays in place until the key is put again or removed.  NULL: no
 * such key. */
const void* hashtable_get(hashtable* table, const void* key, size_t key_size, size_t* value_size);
/* 1: removed, 0: no such key, -1: nothing is changed, see nvm_errormsg(). */
int hashtable_remove(hashtable* table, const void* key, size_t key_size);

/* Visits every item, in no order, until `visit` returns non-zero, and returns that value.  The visitor must not change
 * the table. */
typedef int (*hashtable_visit)(const void* key, size_t key_size, const void* value, size_t value_size, void* argument);
int hashtable_scan(hashtable* table, hashtable_visit visit, void* argument);

/* Counts the keys by a walk through the whole table. */
uint64_t hashtable_count(hashtable* table);
/* Walks everything, and compares it with what the pool holds of our types: what nothing leads to is a fault too.  NULL,
 * or the first fault as a sentence.  No transaction may be open in the pool. */
const char* hashtable_check(hashtable* table);

#ifdef __cplusplus
}
#endif
#endif
