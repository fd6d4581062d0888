/* The blob store in volatile memory: what the durable one must be equal to, whatever kills it. */
#include <stdlib.h>
#include <string.h>

#include "blobs.h"

/* In a list; an upload has an empty name. */
struct blob {
  struct blob* next;
  uint64_t upload;
  char name[BLOBS_NAME_MAX + 1];
  unsigned char* bytes;
  uint64_t size;
};

struct blobs {
  struct blob* first;
  uint64_t changes, uploads;
};

const char* blobs_reason(void) { return "memory is out, or there is no such blob"; }

static struct blob* find(blobs* store, const char* name) {
  struct blob* b = store->first;
  while (b != NULL && strcmp(b->name, name) != 0) b = b->next;
  return b;
}

static struct blob* find_upload(blobs* store, uint64_t upload) {
  struct blob* b = store->first;
  while (b != NULL && b->upload != upload) b = b->next;
  return b;
}

static struct blob* make(blobs* store, const char* name) {
  struct blob* b = calloc(1, sizeof *b);
  if (b == NULL) return NULL;
  strcpy(b->name, name);
  b->upload = ++store->uploads;
  b->next = store->first;
  return store->first = b;
}

static void drop(blobs* store, const struct blob* gone) {
  struct blob** at = &store->first;
  while (*at != gone) at = &(*at)->next;
  struct blob* b = *at;
  *at = b->next;
  free(b->bytes);
  free(b);
}

static int resize(struct blob* b, uint64_t size) {
  unsigned char* bytes = realloc(b->bytes, size + 1);
  if (bytes == NULL) return -1;
  b->bytes = bytes;
  if (size > b->size) memset(bytes + b->size, 0, size - b->size);
  b->size = size;
  return 0;
}

int blobs_changes(blobs* store, uint64_t* count) {
  *count = store->changes;
  return 0;
}

int blobs_upload(blobs* store, uint64_t* upload) {
  store->changes++;
  *upload = store->uploads + 1;
  return make(store, "") != NULL ? 0 : -1;
}

int blobs_piece(blobs* store, uint64_t upload, uint64_t at, const void* bytes, size_t size) {
  struct blob* b = find_upload(store, upload);
  store->changes++;
  if (b == NULL || (at + size > b->size && resize(b, at + size))) return -1;
  memcpy(b->bytes + at, bytes, size);
  return 0;
}

int blobs_name(blobs* store, uint64_t upload, const char* name) {
  struct blob *b = find_upload(store, upload), *was = find(store, name);
  store->changes++;
  if (b == NULL) return -1;
  if (was != NULL) drop(store, was);
  strcpy(b->name, name);
  return 0;
}

int blobs_append(blobs* store, const char* name, const void* bytes, size_t size) {
  struct blob* b = find(store, name);
  store->changes++;
  if (b == NULL) b = make(store, name);
  uint64_t at = b != NULL ? b->size : 0;
  if (b == NULL || resize(b, at + size)) return -1;
  memcpy(b->bytes + at, bytes, size);
  return 0;
}

int blobs_write(blobs* store, const char* name, uint64_t at, const void* bytes, size_t size) {
  struct blob* b = find(store, name);
  store->changes++;
  if (b == NULL || at > b->size || size > b->size - at) return 1;
  memcpy(b->bytes + at, bytes, size);
  return 0;
}

int blobs_cut(blobs* store, const char* name, uint64_t size) {
  struct blob* b = find(store, name);
  store->changes++;
  return b == NULL ? 1 : resize(b, size);
}

int blobs_remove(blobs* store, const char* name) {
  struct blob* b = find(store, name);
  store->changes++;
  if (b != NULL) drop(store, b);
  return b == NULL;
}

int64_t blobs_read(blobs* store, const char* name, uint64_t at, void* to, size_t size) {
  const struct blob* b = find(store, name);
  if (b == NULL || at > b->size) return -1;
  size_t n = size < b->size - at ? size : (size_t)(b->size - at);
  memcpy(to, b->bytes + at, n);
  return (int64_t)n;
}

int blobs_each(blobs* store, int (*visit)(const char* name, uint64_t size, void* argument), void* argument) {
  for (const struct blob* b = store->first; b != NULL; b = b->next) {
    int code = b->name[0] != 0 ? visit(b->name, b->size, argument) : 0;
    if (code != 0) return code;
  }
  return 0;
}

const char* blobs_check(blobs* store) {
  (void)store;
  return NULL;
}

blobs* blobs_open(const char* path, const char* medium, void (*opened)(const char* line)) {
  (void)path, (void)medium, (void)opened;
  return calloc(1, sizeof(blobs));
}

int blobs_close(blobs* store) {
  while (store->first != NULL) drop(store, store->first);
  free(store);
  return 0;
}
