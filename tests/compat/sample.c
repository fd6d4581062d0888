#include "sample.h"

#include <stdint.h>
#include <string.h>

enum { TYPE_ROOT = 1, TYPE_NODE = 2, TYPE_BLOB = 3 };
enum { NODES_MADE = 20, NODES_FREED = 6 }; /* every third is freed again, the last two are not */
enum { BLOB_BYTES = 3000, BIG_BYTES = 10000, MARK_EVERY = 512 };

struct node {
  uint64_t key;
  struct node* next;
  char text[40];
};

struct root {
  uint64_t count;
  struct node* head;
  unsigned char* blob;
  unsigned char* big;
};

nvm_pool_options sample_options(void) {
  nvm_pool_options o;
  memset(&o, 0, sizeof o);
  o.size = 256 * 1024;
  o.capacity = 1024 * 1024;
  o.lanes = 2;
  return o;
}

static void set_text(struct node* n, uint64_t key) {
  static const char word[] = "node of a golden image, number ";
  memset(n->text, 0, sizeof n->text);
  memcpy(n->text, word, sizeof word - 1);
  n->text[sizeof word - 1] = (char)('a' + key % 26);
}

static void set_marks(unsigned char* bytes, size_t n, unsigned char first) {
  for (size_t at = 0; at < n; at += MARK_EVERY) bytes[at] = (unsigned char)(first + at / MARK_EVERY);
}

static int marks_hold(const unsigned char* bytes, size_t n, unsigned char first) {
  for (size_t at = 0; at < n; ++at) {
    const unsigned char expected = at % MARK_EVERY == 0 ? (unsigned char)(first + at / MARK_EVERY) : 0;
    if (bytes[at] != expected) return 0;
  }
  return 1;
}

static int push(NVM_POOL* pool, struct root* r, uint64_t key) {
  if (nvm_tx_begin(pool) != 0) return -1;
  struct node* n = nvm_alloc(pool, TYPE_NODE, sizeof *n);
  if (n == NULL || nvm_tx_log(r, offsetof(struct root, blob)) != 0) {
    nvm_tx_abort(pool);
    return -1;
  }
  n->key = key;
  set_text(n, key);
  n->next = r->head;
  r->head = n;
  r->count += 1;
  return nvm_tx_commit(pool);
}

/* Frees the node after `before`. */
static int drop_next(NVM_POOL* pool, struct root* r, struct node* before) {
  struct node* gone = before->next;
  if (nvm_tx_begin(pool) != 0) return -1;
  if (nvm_tx_log(&r->count, sizeof r->count) != 0 || nvm_tx_log(&before->next, sizeof before->next) != 0 ||
      nvm_free(pool, gone) != 0) {
    nvm_tx_abort(pool);
    return -1;
  }
  before->next = gone->next;
  r->count -= 1;
  return nvm_tx_commit(pool);
}

int sample_fill(NVM_POOL* pool) {
  if (nvm_tx_begin(pool) != 0) return 1;
  struct root* r = nvm_calloc(pool, TYPE_ROOT, 1, sizeof *r);
  if (r == NULL) return 2;
  r->blob = nvm_calloc(pool, TYPE_BLOB, 1, BLOB_BYTES);
  r->big = nvm_calloc(pool, TYPE_BLOB, 1, BIG_BYTES);
  if (r->blob == NULL || r->big == NULL) return 3;
  set_marks(r->blob, BLOB_BYTES, 0x40);
  set_marks(r->big, BIG_BYTES, 0x80);
  if (nvm_pool_set_root(pool, r) != 0 || nvm_tx_commit(pool) != 0) return 4;
  for (uint64_t key = 0; key < NODES_MADE; ++key) {
    if (push(pool, r, key) != 0) return 5;
  }
  struct node* n = r->head;
  for (unsigned freed = 0; freed < NODES_FREED; ++freed) {
    n = n->next;
    if (drop_next(pool, r, n) != 0) return 6;
    n = n->next;
  }
  return 0;
}

int sample_interrupt(NVM_POOL* pool) {
  struct root* r = nvm_pool_get_root(pool);
  if (nvm_tx_begin(pool) != 0) return 1;
  if (nvm_tx_log(r, sizeof *r) != 0) return 2;
  r->count = 999;
  struct node* n = nvm_alloc(pool, TYPE_NODE, sizeof *n);
  if (n == NULL) return 3;
  n->next = r->head;
  r->head = n;
  if (nvm_tx_log(r->blob, 100) != 0) return 4;
  memset(r->blob, 0xEE, 100);
  if (nvm_free(pool, r->big) != 0) return 5;
  r->big = NULL;
  return 0;
}

int sample_verify(NVM_POOL* pool) {
  const struct root* r = nvm_pool_get_root(pool);
  if (r == NULL) return 1;
  if (nvm_type_of(pool, r) != TYPE_ROOT || nvm_size_of(pool, r) != sizeof *r) return 2;
  if (r->count != NODES_MADE - NODES_FREED) return 3;
  /* Keys from 19 down; of each three the third was dropped, six times. */
  uint64_t key = NODES_MADE;
  unsigned seen = 0;
  for (const struct node* n = r->head; n != NULL; n = n->next, ++seen) {
    key -= 1;
    if (seen != 0 && seen % 2 == 0 && seen <= 2 * NODES_FREED) key -= 1;
    struct node expected;
    set_text(&expected, key);
    if (n->key != key || memcmp(n->text, expected.text, sizeof n->text) != 0) return 4;
    if (nvm_type_of(pool, n) != TYPE_NODE || nvm_size_of(pool, n) != sizeof *n) return 5;
  }
  if (seen != r->count || key != 0) return 6;
  if (nvm_size_of(pool, r->blob) != BLOB_BYTES || !marks_hold(r->blob, BLOB_BYTES, 0x40)) return 7;
  if (nvm_size_of(pool, r->big) != BIG_BYTES || !marks_hold(r->big, BIG_BYTES, 0x80)) return 8;
  return 0;
}
