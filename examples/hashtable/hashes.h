/* The two hash functions of the cuckoo table. */
#ifndef EXAMPLES_HASHTABLE_HASHES_H
#define EXAMPLES_HASHTABLE_HASHES_H

#include <stddef.h>
#include <stdint.h>

/* Tests narrow the hashes to make keys collide in both. */
#ifndef HASHTABLE_HASH_MASK
#define HASHTABLE_HASH_MASK 0xFFFFFFFFu
#endif

/* Daniel J. Bernstein's second function: times 33, plus the next byte. */
static inline uint32_t djb2(const unsigned char* key, size_t size) {
  uint32_t hash = 5381;
  for (size_t i = 0; i < size; i++) hash = hash * 33 + key[i];
  return hash & HASHTABLE_HASH_MASK;
}

/* Bob Jenkins's function that takes one byte at a time. */
static inline uint32_t jenkins(const unsigned char* key, size_t size) {
  uint32_t hash = 0;
  for (size_t i = 0; i < size; i++) {
    hash += key[i];
    hash += hash << 10;
    hash ^= hash >> 6;
  }
  hash += hash << 3;
  hash ^= hash >> 11;
  hash += hash << 15;
  return hash & HASHTABLE_HASH_MASK;
}

#endif
