/* An ordered map from numbers to numbers for transactional code: a treap whose priorities are hashes of the keys, so
 * that its shape depends on the keys in it and not on the order in which they came. */
#ifndef TREAP_H
#define TREAP_H

#include <stdint.h>
#include <stdlib.h>

#define SAFE __attribute__((transaction_safe))

typedef struct treap_node {
  struct treap_node *left, *right;
  uint64_t key;
  void* value;
} treap_node;

SAFE static inline uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

SAFE static inline void* treap_find(treap_node* n, uint64_t key) {
  while (n != NULL && n->key != key) n = key < n->key ? n->left : n->right;
  return n == NULL ? NULL : n->value;
}

/* The key is not there. */
SAFE static void treap_insert(treap_node** place, uint64_t key, void* value) {
  while (*place != NULL && mix((*place)->key) >= mix(key))
    place = key < (*place)->key ? &(*place)->left : &(*place)->right;
  treap_node* fresh = malloc(sizeof *fresh);
  fresh->key = key;
  fresh->value = value;
  /* What was here is split into what is less and what is more. */
  treap_node* rest = *place;
  *place = fresh;
  treap_node **less = &fresh->left, **more = &fresh->right;
  while (rest != NULL) {
    if (rest->key < key) {
      *less = rest;
      less = &rest->right;
      rest = rest->right;
    } else {
      *more = rest;
      more = &rest->left;
      rest = rest->left;
    }
  }
  *less = NULL;
  *more = NULL;
}

/* Returns the value that the key had; NULL if it is not there. */
SAFE static void* treap_remove(treap_node** place, uint64_t key) {
  while (*place != NULL && (*place)->key != key) place = key < (*place)->key ? &(*place)->left : &(*place)->right;
  treap_node* gone = *place;
  if (gone == NULL) return NULL;
  void* value = gone->value;
  treap_node *a = gone->left, *b = gone->right;
  while (a != NULL && b != NULL) {
    if (mix(a->key) >= mix(b->key)) {
      *place = a;
      place = &a->right;
      a = a->right;
    } else {
      *place = b;
      place = &b->left;
      b = b->left;
    }
  }
  *place = a != NULL ? a : b;
  free(gone);
  return value;
}

#endif
