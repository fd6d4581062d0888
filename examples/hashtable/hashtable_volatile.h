/* A cuckoo hash table in ordinary memory: the original of hashtable_durable.h.
 *
 * Keys and values are any bytes.  Not for several threads at a time: the program keeps a lock. */
#ifndef EXAMPLES_HASHTABLE_VOLATILE_H
#define EXAMPLES_HASHTABLE_VOLATILE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hashtable hashtable;

/* NULL when memory is out. */
hashtable* hashtable_create(void);
/* Frees the table and everything in it. */
void hashtable_destroy(hashtable* table);
static inline void hashtable_close(hashtable* table) { hashtable_destroy(table); }

/* Stores a copy of a value under a copy of a key.  1: a new key, 0: another value for a known one, -1: memory is out
 * and nothing is changed.  An insertion may also move a few items of a table that is growing, never more.  It fails too
 * when more keys share both of their buckets than these hold, in a table that is growing already: keys made to collide.
 */
int hashtable_put(hashtable* table, const void* key, size_t key_size, const void* value, size_t value_size);
/* The value of a key, 8-byte aligned, and its size; it stays in place until the key is put again or removed.  NULL: no
 * such key. */
const void* hashtable_get(hashtable* table, const void* key, size_t key_size, size_t* value_size);
/* 1: removed, 0: no such key. */
int hashtable_remove(hashtable* table, const void* key, size_t key_size);

/* Visits every item, in no order, until `visit` returns non-zero, and returns that value.  The visitor must not change
 * the table. */
typedef int (*hashtable_visit)(const void* key, size_t key_size, const void* value, size_t value_size, void* argument);
int hashtable_scan(hashtable* table, hashtable_visit visit, void* argument);

/* Counts the keys by a walk through the whole table. */
uint64_t hashtable_count(hashtable* table);
/* Walks everything.  NULL, or the first fault as a sentence. */
const char* hashtable_check(hashtable* table);

#ifdef __cplusplus
}
#endif
#endif
