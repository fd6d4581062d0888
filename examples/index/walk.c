/* Reading the whole index. */
#include <stdio.h>
#include <string.h>

#include "index.h"

typedef int (*word_visit)(const struct word* word, void* argument);

/* Depth: a few levels for the words that share a bucket. */
static int visit_tree(const struct word* word, word_visit visit, void* argument) {
  if (word == NULL) return 0;
  int stop = visit(word, argument);
  for (unsigned i = 0; stop == 0 && i < 4; i++) stop = visit_tree(word->child[i], visit, argument);
  return stop;
}

int index_each(const struct index* index, word_visit visit, void* argument) {
  int stop = 0;
  for (unsigned i = 0; stop == 0 && i < INDEX_BUCKETS; i++) stop = visit_tree(index->bucket[i], visit, argument);
  return stop;
}

struct walk {
  const struct index* index;
  const char* fault;
  uint64_t words, blocks, postings;
};

static int check_word(const struct word* word, void* argument) {
  struct walk* walk = argument;
  uint64_t postings = 0;
  struct posting newer = {UINT32_MAX, UINT32_MAX};
  for (const struct block* block = word->newest; block != NULL; block = block->older) {
    if (block->used == 0 || block->used > block->capacity) walk->fault = "a block of postings counts too many or none";
    for (uint32_t i = block->used; walk->fault == NULL && i-- > 0;) {
      struct posting posting = block->posting[i];
      if (posting.file > newer.file || (posting.file == newer.file && posting.position >= newer.position)) {
        walk->fault = "a word's postings are out of order";
      } else if (posting.file >= walk->index->files || posting.position >= walk->index->file[posting.file].words) {
        walk->fault = "a posting lies after what was read of its text";
      }
      newer = posting;
    }
    if (walk->fault != NULL) return 1;
    postings += block->used;
    walk->blocks++;
  }
  if (postings != word->count) walk->fault = "a word's count is not the number of its postings";
  walk->postings += postings;
  walk->words++;
  return walk->fault != NULL;
}

const char* index_find_fault(const struct index* index, uint64_t* words, uint64_t* blocks) {
  struct walk walk = {index, NULL, 0, 0, 0};
  if (index_each(index, check_word, &walk) != 0) return walk.fault;
  uint64_t read = 0;
  for (uint64_t i = 0; i < index->files; i++) {
    if (index->file[i].read > index->file[i].bytes) return "more was read of a text than it has";
    read += index->file[i].words;
  }
  if (walk.postings != read) return "the texts' words are not all in the index, or some are twice";
  *words = walk.words;
  *blocks = walk.blocks;
  return NULL;
}

int index_compare_texts(const struct index* index, const struct options* options) {
  int same = index->files == (uint64_t)options->files * options->passes;
  for (uint64_t i = 0; same && i < index->files; i++) {
    const char* name = options->file[i % options->files];
    int64_t bytes = text_bytes(name);
    if (bytes < 0) return -1;
    same = strcmp(index->file[i].name, name) == 0 && index->file[i].bytes == (uint64_t)bytes;
  }
  if (same) return 0;
  fprintf(stderr, "%s: its index is of other texts than these, or they have changed\n", options->pool);
  return -1;
}
