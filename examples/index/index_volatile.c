/* The index in ordinary memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index.h"

static void free_words(struct word* word) {
  if (word == NULL) return;
  for (unsigned i = 0; i < 4; i++) free_words(word->child[i]);
  for (struct block* block = word->newest; block != NULL;) {
    struct block* older = block->older;
    free(block);
    block = older;
  }
  free(word);
}

int index_close(struct index* index) {
  for (unsigned i = 0; i < INDEX_BUCKETS; i++) free_words(index->bucket[i]);
  for (uint64_t i = 0; i < index->files; i++) free(index->file[i].name);
  free(index->file);
  free(index);
  return 0;
}

static int list_texts(struct index* index, const struct options* options) {
  uint64_t files = (uint64_t)options->files * options->passes;
  index->file = calloc(files, sizeof index->file[0]);
  if (index->file == NULL) return -1;
  index->files = files;
  for (uint64_t i = 0; i < files; i++) {
    const char* name = options->file[i % options->files];
    int64_t bytes = text_bytes(name);
    if (bytes < 0) return -1;
    struct file* file = &index->file[i];
    file->bytes = (uint64_t)bytes;
    file->name = malloc(strlen(name) + 1);
    if (file->name == NULL) return -1;
    strcpy(file->name, name);
  }
  return 0;
}

struct index* index_open(const struct options* options) {
  struct index* index = calloc(1, sizeof *index);
  if (index != NULL && list_texts(index, options) == 0) return index;
  fprintf(stderr, "the index cannot be made\n");
  if (index != NULL) index_close(index);
  return NULL;
}

int index_check(const struct index* index) {
  uint64_t words, blocks;
  const char* fault = index_find_fault(index, &words, &blocks);
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
  struct word* word = malloc(sizeof *word + span->size);
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
    block = malloc(sizeof *block + capacity * sizeof block->posting[0]);
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

int index_add(struct index* index, uint32_t number, const struct text* text) {
  struct file* file = &index->file[number];
  if (file->read == file->bytes) return 0;
  size_t offset = file->read;
  uint64_t position = file->words;
  struct span span;
  int words = 0;
  while (words < CHUNK_WORDS && text_next_word(text, &offset, &span)) {
    struct word* word = find_or_make(index, &span);
    if (word == NULL || add_posting(word, (struct posting){number, (uint32_t)position})) {
      fprintf(stderr, "memory is out\n");
      return -1;
    }
    position++;
    words++;
  }
  file->read = offset;
  file->words = position;
  return words;
}
