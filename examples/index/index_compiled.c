/* The index in a durable pool, of which it is the root; the compiler logs its stores.
 *
 * Crash behaviour: the index is made by one transaction, in a file that gets its name only afterwards; then each chunk
 * of words is one transaction together with the place in the text that it comes to.  The pool grows as it must. */
#include <nvm/nvm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index.h"

static NVM_POOL* pool;

static int complain(void) {
  fprintf(stderr, "%s\n", nvm_errormsg());
  return -1;
}

static int list_texts(struct index* index, const struct options* options) {
  uint64_t files = (uint64_t)options->files * options->passes;
  index->file = nvm_calloc(pool, NVM_TYPE_ID(file), files, sizeof index->file[0]);
  if (index->file == NULL) return -1;
  index->files = files;
  for (uint64_t i = 0; i < files; i++) {
    const char* name = options->file[i % options->files];
    int64_t bytes = text_bytes(name);
    if (bytes < 0) return -1;
    struct file* file = &index->file[i];
    file->bytes = (uint64_t)bytes;
    file->name = nvm_alloc(pool, NVM_TYPE_ID(char), strlen(name) + 1);
    if (file->name == NULL) return -1;
    strcpy(file->name, name);
  }
  return 0;
}

/* Makes the pool under another name: a pool that has the right name has its index. */
static int make_pool(const struct options* options, const nvm_pool_options* how) {
  char* partial = malloc(strlen(options->pool) + sizeof ".new");
  if (partial == NULL) return -1;
  strcpy(partial, options->pool);
  strcat(partial, ".new");
  remove(partial);
  int failed = -1;
  pool = nvm_pool_create_with(partial, how);
  if (pool != NULL && nvm_tx_begin(pool) == 0) {
    struct index* index = nvm_calloc(pool, NVM_TYPE_ID(index), 1, sizeof *index);
    if (index == NULL || list_texts(index, options) || nvm_pool_set_root(pool, index)) {
      nvm_tx_abort(pool);
    } else {
      failed = nvm_tx_commit(pool) || nvm_pool_close(pool);
    }
  }
  if (failed) {
    fprintf(stderr, "%s: cannot be made: %s\n", partial, nvm_errormsg());
  } else if (rename(partial, options->pool)) {
    perror(options->pool);
    failed = -1;
  }
  free(partial);
  return failed;
}

static void say(const struct options* options, const char* what) {
  if (!options->report_progress) return;
  puts(what);
  fflush(stdout);
}

static void say_opened(const struct options* options) {
  nvm_pool_info info;
  char line[128];
  if (nvm_pool_get_info(pool, &info)) {
    complain();
    return;
  }
  snprintf(line, sizeof line, "opened recovered_transactions=%llu recovery_ns=%llu",
           (unsigned long long)info.recovered_transactions, (unsigned long long)info.recovery_ns);
  say(options, line);
}

struct index* index_open(const struct options* options) {
  nvm_pool_options how = {0};
  if (options->medium != NULL) how.medium = strcmp(options->medium, "shm") == 0 ? NVM_MEDIUM_SHM : NVM_MEDIUM_SSD;
  say(options, "opening");
  pool = nvm_pool_open_with(options->pool, &how);
  if (pool == NULL && nvm_errno() == NVM_E_NOT_FOUND) {
    if (make_pool(options, &how)) return NULL;
    pool = nvm_pool_open_with(options->pool, &how);
  }
  if (pool == NULL) {
    complain();
    return NULL;
  }
  say_opened(options);
  struct index* index = nvm_pool_get_root(pool);
  if (index == NULL || nvm_type_of(pool, index) != NVM_TYPE_ID(index)) {
    fprintf(stderr, "%s: the pool's root is no index\n", options->pool);
    return NULL;
  }
  return index_compare_texts(index, options) == 0 ? index : NULL;
}

int index_close(struct index* index) {
  (void)index;
  return nvm_pool_close(pool) == 0 ? 0 : complain();
}

static int count_object(void* object, uint32_t type_id, size_t size, void* argument) {
  (void)object, (void)type_id, (void)size;
  ++*(uint64_t*)argument;
  return 0;
}

int index_check(const struct index* index) {
  uint64_t words = 0, blocks = 0, objects = 0;
  const char* fault = index_find_fault(index, &words, &blocks);
  nvm_pool_each(pool, count_object, &objects);
  if (fault == NULL && objects != 2 + index->files + words + blocks)
    fault = "the pool has objects that the index has lost";
  if (fault == NULL) return 0;
  fprintf(stderr, "the index is damaged: %s\n", fault);
  return -1;
}

static uint64_t hash_of(const struct span* word) {
  uint64_t hash = 0xCBF29CE484222325u; /* FNV-1a, and a last mix: both ends of it are used */
  for (size_t i = 0; i < word->size; i++) hash = (hash ^ text_fold(word->bytes[i])) * 0x100000001B3u;
  return (hash ^ hash >> 32) * 0x9E3779B97F4A7C15u;
}

static int is_word(const struct word* word, uint64_t hash, const struct span* span) {
  if (word->hash != hash || word->size != span->size) return 0;
  for (size_t i = 0; i < span->size; i++) {
    if (word->text[i] != text_fold(span->bytes[i])) return 0;
  }
  return 1;
}

/* The pointer to a word, or the NULL where it belongs. */
static struct word** find_link(struct index* index, uint64_t hash, const struct span* span) {
  struct word** link = &index->bucket[hash % INDEX_BUCKETS];
  for (uint64_t bits = hash; *link != NULL && !is_word(*link, hash, span); bits <<= 2)
    link = &(*link)->child[bits >> 62];
  return link;
}

static struct word* find_or_make(struct index* index, const struct span* span) {
  uint64_t hash = hash_of(span);
  struct word** link = find_link(index, hash, span);
  if (*link != NULL) return *link;
  struct word* word = nvm_alloc(pool, NVM_TYPE_ID(word), sizeof *word + span->size);
  if (word == NULL) return NULL;
  memset(word, 0, sizeof *word);
  word->hash = hash;
  word->size = span->size;
  for (size_t i = 0; i < span->size; i++) word->text[i] = text_fold(span->bytes[i]);
  *link = word;
  return word;
}

static int add_posting(struct word* word, struct posting posting) {
  struct block* block = word->newest;
  if (block == NULL || block->used == block->capacity) {
    uint32_t capacity = block == NULL ? FIRST_POSTINGS : 2 * block->capacity;
    if (capacity > MOST_POSTINGS) capacity = MOST_POSTINGS;
    block = nvm_alloc(pool, NVM_TYPE_ID(block), sizeof *block + capacity * sizeof block->posting[0]);
    if (block == NULL) return -1;
    block->older = word->newest;
    block->used = 0;
    block->capacity = capacity;
    word->newest = block;
  }
  block->posting[block->used] = posting;
  block->used++;
  word->count++;
  return 0;
}

static int give_up(void) {
  complain();
  nvm_tx_abort(pool);
  return -1;
}

int index_add(struct index* index, uint32_t number, const struct text* text) {
  struct file* file = &index->file[number];
  if (file->read == file->bytes) return 0;
  if (nvm_tx_begin(pool)) return complain();
  size_t offset = file->read;
  uint64_t position = file->words;
  struct span span;
  int words = 0;
  while (words < CHUNK_WORDS && text_next_word(text, &offset, &span)) {
    struct word* word = find_or_make(index, &span);
    if (word == NULL || add_posting(word, (struct posting){number, (uint32_t)position})) return give_up();
    position++;
    words++;
  }
  file->read = offset;
  file->words = position;
  return nvm_tx_commit(pool) ? complain() : words;
}
