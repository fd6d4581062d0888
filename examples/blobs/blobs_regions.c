/* The blob store in a durable pool: a region for each blob.
 *
 * Regions of the one set that the pool has:
 *   0                     { calls counted, uploads so far }
 *   the upload's number   the bytes of a blob, or of an upload that has no name yet
 *   NAMES | hash          the names of that hash, one after the other: { blob, length (1), name }
 * Each change is a group of the regions that it touches, the count among them, and takes the count first: so changes
 * wait for each other, and none can be told NVM_E_BUSY.
 */
#include <nvm/region.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "blobs.h"

static const uint64_t counts_region = 0;
static const uint64_t names_bit = (uint64_t)1 << 63;

enum { ENTRY_HEAD = sizeof(uint64_t) + 1 };

struct counts {
  uint64_t changes, uploads;
};

struct blobs {
  NVM_POOL* pool;
  nvm_regions* set;
};

/* The names of one hash. */
struct bucket {
  uint64_t rid;
  unsigned char* bytes;
  size_t size;
};

const char* blobs_reason(void) { return nvm_errormsg(); }

static uint64_t names_region(const char* name) {
  uint64_t hash = 0xCBF29CE484222325u; /* FNV-1a */
  for (; *name != 0; name++) hash = (hash ^ (unsigned char)*name) * 0x100000001B3u;
  return hash | names_bit;
}

/* 1: there is none. */
static int load_bucket(blobs* store, uint64_t rid, struct bucket* out) {
  uint64_t size = 0;
  out->rid = rid;
  out->bytes = NULL;
  out->size = 0;
  if (nvm_region_size(store->set, rid, &size)) return nvm_errno() == NVM_E_NOT_FOUND ? 1 : -1;
  out->bytes = malloc(size + 1);
  if (out->bytes == NULL) return -1;
  int64_t got = nvm_region_read(store->set, rid, 0, out->bytes, size);
  if (got >= 0) out->size = (size_t)got;
  return got < 0 ? -1 : 0;
}

/* Where the entry that begins here ends; NULL: it is longer than the bucket. */
static const unsigned char* entry_end(const struct bucket* in, const unsigned char* entry) {
  size_t left = (size_t)(in->bytes + in->size - entry);
  if (left < ENTRY_HEAD || left - ENTRY_HEAD < entry[sizeof(uint64_t)]) return NULL;
  return entry + ENTRY_HEAD + entry[sizeof(uint64_t)];
}

static uint64_t entry_blob(const unsigned char* entry) {
  uint64_t blob;
  memcpy(&blob, entry, sizeof blob);
  return blob;
}

static unsigned char* find_entry(const struct bucket* in, const char* name) {
  size_t length = strlen(name);
  const unsigned char* end;
  for (unsigned char* entry = in->bytes; entry < in->bytes + in->size; entry = (unsigned char*)end) {
    end = entry_end(in, entry);
    if (end == NULL) return NULL; /* blobs_check() says so */
    if (entry[sizeof(uint64_t)] == length && memcmp(entry + ENTRY_HEAD, name, length) == 0) return entry;
  }
  return NULL;
}

/* *blob: 0 when the name is absent. */
static int look_up(blobs* store, const char* name, uint64_t* blob) {
  struct bucket in;
  int code = load_bucket(store, names_region(name), &in);
  const unsigned char* entry = code == 0 ? find_entry(&in, name) : NULL;
  *blob = entry != NULL ? entry_blob(entry) : 0;
  free(in.bytes);
  return code < 0 ? -1 : 0;
}

/* ---- changes ----------------------------------------------------------------------------------------------------- */

/* Begins a change; what it counts is in *now, and becomes durable with the rest. */
static nvm_region_group* begin(blobs* store, struct counts* now) {
  nvm_region_group* group = nvm_region_group_begin(store->set, &counts_region, 1);
  if (group == NULL) return NULL;
  if (nvm_region_read(store->set, counts_region, 0, now, sizeof *now) == (int64_t)sizeof *now) {
    now->changes++;
    return group;
  }
  nvm_region_group_abort(group);
  return NULL;
}

/* failed: nothing of the change happens. */
static int end(blobs* store, nvm_region_group* group, const struct counts* now, int failed) {
  if (!failed) failed = nvm_region_write(store->set, counts_region, 0, now, sizeof *now);
  if (!failed) return nvm_region_group_commit(group);
  nvm_region_group_abort(group);
  return -1;
}

static int join(nvm_region_group* group, uint64_t rid) {
  return nvm_region_group_join(group, rid, NVM_REGION_ADAPTIVE);
}

/* Leads a name to a blob, or nowhere if that is 0; *was: where it led, or 0. */
static int lead(blobs* store, nvm_region_group* group, const char* name, uint64_t blob, uint64_t* was) {
  struct bucket in;
  size_t length = strlen(name);
  int absent = load_bucket(store, names_region(name), &in), failed = absent < 0;
  unsigned char* entry = absent == 0 ? find_entry(&in, name) : NULL;
  *was = entry != NULL ? entry_blob(entry) : 0;
  if (!failed && absent == 1 && blob != 0) failed = nvm_region_group_create(group, in.rid, 0);
  if (!failed && absent == 0) failed = join(group, in.rid);
  if (!failed && entry != NULL && blob != 0) {
    failed = nvm_region_write(store->set, in.rid, (uint64_t)(entry - in.bytes), &blob, sizeof blob);
  } else if (!failed && entry != NULL) {
    /* Those after it take its place. */
    const unsigned char* after = entry + ENTRY_HEAD + length;
    size_t moved = (size_t)(in.bytes + in.size - after), left = in.size - ENTRY_HEAD - length;
    if (left == 0) {
      failed = nvm_region_group_drop(group, in.rid);
    } else {
      if (moved != 0) failed = nvm_region_write(store->set, in.rid, (uint64_t)(entry - in.bytes), after, moved);
      if (!failed) failed = nvm_region_truncate(store->set, in.rid, left);
    }
  } else if (!failed && blob != 0) {
    unsigned char made[ENTRY_HEAD + BLOBS_NAME_MAX];
    memcpy(made, &blob, sizeof blob);
    made[sizeof blob] = (unsigned char)length;
    memcpy(made + ENTRY_HEAD, name, length);
    failed = nvm_region_append(store->set, in.rid, made, ENTRY_HEAD + length, NULL);
  }
  free(in.bytes);
  return failed ? -1 : 0;
}

static int drop(nvm_region_group* group, uint64_t blob) {
  if (blob == 0) return 0;
  return join(group, blob) || nvm_region_group_drop(group, blob);
}

int blobs_changes(blobs* store, uint64_t* count) {
  struct counts now;
  if (nvm_region_read(store->set, counts_region, 0, &now, sizeof now) < 0) return -1;
  *count = now.changes;
  return 0;
}

int blobs_upload(blobs* store, uint64_t* upload) {
  struct counts now;
  nvm_region_group* group = begin(store, &now);
  if (group == NULL) return -1;
  *upload = ++now.uploads;
  return end(store, group, &now, nvm_region_group_create(group, *upload, 0));
}

/* Bytes within a region or after its end. */
static int put(blobs* store, uint64_t rid, uint64_t at, const void* bytes, size_t size) {
  uint64_t length = 0;
  if (nvm_region_size(store->set, rid, &length)) return -1;
  if (at + size > length && nvm_region_truncate(store->set, rid, at + size)) return -1;
  return nvm_region_write(store->set, rid, at, bytes, size);
}

int blobs_piece(blobs* store, uint64_t upload, uint64_t at, const void* bytes, size_t size) {
  struct counts now;
  nvm_region_group* group = begin(store, &now);
  if (group == NULL) return -1;
  return end(store, group, &now, join(group, upload) || put(store, upload, at, bytes, size));
}

int blobs_name(blobs* store, uint64_t upload, const char* name) {
  struct counts now;
  uint64_t was = 0;
  nvm_region_group* group = begin(store, &now);
  if (group == NULL) return -1;
  return end(store, group, &now, join(group, upload) || lead(store, group, name, upload, &was) || drop(group, was));
}

int blobs_append(blobs* store, const char* name, const void* bytes, size_t size) {
  struct counts now;
  uint64_t blob = 0, was = 0;
  nvm_region_group* group = begin(store, &now);
  if (group == NULL) return -1;
  int failed = look_up(store, name, &blob);
  if (!failed && blob != 0) failed = join(group, blob);
  if (!failed && blob == 0) {
    blob = ++now.uploads;
    failed = nvm_region_group_create(group, blob, 0) || lead(store, group, name, blob, &was);
  }
  if (!failed) failed = nvm_region_append(store->set, blob, bytes, size, NULL);
  return end(store, group, &now, failed);
}

int blobs_write(blobs* store, const char* name, uint64_t at, const void* bytes, size_t size) {
  struct counts now;
  uint64_t blob = 0, length = 0;
  nvm_region_group* group = begin(store, &now);
  if (group == NULL) return -1;
  int failed = look_up(store, name, &blob);
  if (!failed && blob != 0) failed = join(group, blob) || nvm_region_size(store->set, blob, &length);
  int absent = blob == 0 || at > length || size > length - at;
  if (!failed && !absent) failed = nvm_region_write(store->set, blob, at, bytes, size);
  return end(store, group, &now, failed) ? -1 : absent;
}

int blobs_cut(blobs* store, const char* name, uint64_t size) {
  struct counts now;
  uint64_t blob = 0;
  nvm_region_group* group = begin(store, &now);
  if (group == NULL) return -1;
  int failed = look_up(store, name, &blob);
  if (!failed && blob != 0) failed = join(group, blob) || nvm_region_truncate(store->set, blob, size);
  return end(store, group, &now, failed) ? -1 : blob == 0;
}

int blobs_remove(blobs* store, const char* name) {
  struct counts now;
  uint64_t was = 0;
  nvm_region_group* group = begin(store, &now);
  if (group == NULL) return -1;
  int failed = lead(store, group, name, 0, &was) || drop(group, was);
  return end(store, group, &now, failed) ? -1 : was == 0;
}

/* ---- reads ------------------------------------------------------------------------------------------------------- */

int64_t blobs_read(blobs* store, const char* name, uint64_t at, void* to, size_t size) {
  uint64_t blob = 0;
  if (look_up(store, name, &blob)) return -1;
  return blob == 0 ? -1 : nvm_region_read(store->set, blob, at, to, size);
}

struct walk {
  blobs* store;
  int (*visit)(const char* name, uint64_t size, void* argument);
  void* argument;
  const char* fault;
  uint64_t names, buckets;
};

static int visit_bucket(uint64_t rid, uint64_t bytes, void* argument) {
  (void)bytes;
  struct walk* w = argument;
  struct bucket in;
  if ((rid & names_bit) == 0) return 0;
  w->buckets++;
  int code = load_bucket(w->store, rid, &in) < 0 ? -1 : 0;
  const unsigned char* end = in.bytes;
  for (const unsigned char* entry = in.bytes; code == 0 && entry < in.bytes + in.size; entry = end) {
    char name[BLOBS_NAME_MAX + 1] = "";
    uint64_t size = 0;
    end = entry_end(&in, entry);
    if (end == NULL) w->fault = "a name is longer than its region";
    if (end == NULL) break;
    memcpy(name, entry + ENTRY_HEAD, entry[sizeof(uint64_t)]);
    w->names++;
    if (names_region(name) != rid) w->fault = "a name is in a region of another hash";
    if (nvm_region_size(w->store->set, entry_blob(entry), &size)) w->fault = "a name leads to no blob";
    if (w->visit != NULL) code = w->visit(name, size, w->argument);
  }
  free(in.bytes);
  return code;
}

int blobs_each(blobs* store, int (*visit)(const char* name, uint64_t size, void* argument), void* argument) {
  struct walk w = {store, visit, argument, NULL, 0, 0};
  return nvm_region_each(store->set, visit_bucket, &w);
}

const char* blobs_check(blobs* store) {
  struct walk w = {store, NULL, NULL, NULL, 0, 0};
  struct counts now;
  uint64_t regions = 0;
  if (nvm_region_each(store->set, visit_bucket, &w) < 0 || nvm_regions_count(store->set, &regions) ||
      nvm_region_read(store->set, counts_region, 0, &now, sizeof now) < 0) {
    return nvm_errormsg();
  }
  /* The rest are uploads that have no name yet. */
  if (w.fault == NULL && regions < 1 + w.buckets + w.names) return "two names lead to one blob";
  if (w.fault == NULL && regions > 1 + w.buckets + now.uploads) return "more blobs than were made";
  return w.fault;
}

/* ---- the pool ---------------------------------------------------------------------------------------------------- */

blobs* blobs_open(const char* path, const char* medium, void (*opened)(const char* line)) {
  blobs* store = calloc(1, sizeof *store);
  if (store == NULL) return NULL;
  /* Small at first, so that it grows. */
  nvm_pool_options how = {.size = 1 << 20, .medium = NVM_MEDIUM_DETECT};
  if (medium != NULL) how.medium = strcmp(medium, "shm") == 0 ? NVM_MEDIUM_SHM : NVM_MEDIUM_SSD;
  store->pool = nvm_pool_open_with(path, &how);
  if (store->pool == NULL && nvm_errno() == NVM_E_NOT_FOUND) store->pool = nvm_pool_create_with(path, &how);
  /* What a crash has left of regions is repaired here, not when the pool is opened. */
  struct timespec before, after;
  clock_gettime(CLOCK_MONOTONIC, &before);
  if (store->pool != NULL) store->set = nvm_regions_open(store->pool, "blobs", NULL);
  clock_gettime(CLOCK_MONOTONIC, &after);
  nvm_pool_info info;
  if (store->set != NULL && nvm_pool_get_info(store->pool, &info) == 0) {
    int64_t ns = (after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec;
    char line[128];
    snprintf(line, sizeof line, "opened recovered_transactions=%llu recovery_ns=%llu",
             (unsigned long long)info.recovered_transactions, (unsigned long long)info.recovery_ns + (uint64_t)ns);
    opened(line);
    struct counts none = {0, 0};
    int failed = nvm_region_create_with(store->set, counts_region, &none, sizeof none, sizeof none);
    if (!failed || nvm_errno() == NVM_E_EXISTS) return store;
  }
  if (store->pool != NULL) nvm_pool_close(store->pool);
  free(store);
  return NULL;
}

int blobs_close(blobs* store) {
  int code = nvm_pool_close(store->pool);
  free(store);
  return code;
}
