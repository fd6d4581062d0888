/* The index: for each word its count and where it stands, and how far each text has been read.
 *
 * index_volatile.c keeps it in ordinary memory; index_compiled.c keeps it in a pool, its stores logged by holdfast-cc,
 * and index_durable.c does it with log calls placed by hand.  The rest of the program is the same.  All of it is one
 * structure, so that a durable run that was killed goes on exactly where its last transaction ended. */
#ifndef EXAMPLES_INDEX_INDEX_H
#define EXAMPLES_INDEX_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "options.h"
#include "text.h"

/* What the compiler is told of the structures that may be durable. */
#ifdef INDEX_DURABLE
#include <nvm/nvm.h>
#else
#define NVM_STRUCT struct
#define NVM_PTR(T) T*
#endif

enum {
  INDEX_BUCKETS = 4096,
  CHUNK_WORDS = 64,    /* added at a time: by one transaction, where there are transactions */
  FIRST_POSTINGS = 4,  /* in a word's first block; each further block holds twice as many */
  MOST_POSTINGS = 256, /* up to this */
};

NVM_STRUCT posting {
  uint32_t file;
  uint32_t position; /* in words from the text's beginning */
};

NVM_STRUCT block {
  NVM_PTR(struct block) older;
  uint32_t used, capacity;
  struct posting posting[];
};

/* Words of one bucket form a tree: a word's hash, two bits at a time, leads to it.  So the table is never rebuilt. */
NVM_STRUCT word {
  NVM_PTR(struct word) child[4];
  uint64_t hash;
  uint64_t count;
  NVM_PTR(struct block) newest;
  size_t size;
  unsigned char text[]; /* with small letters */
};

NVM_STRUCT file {
  NVM_PTR(char) name;
  uint64_t bytes;
  uint64_t read;  /* bytes that are in the index */
  uint64_t words; /* words that are in the index */
};

NVM_STRUCT index {
  uint64_t files; /* texts, each pass counted: file i is text i modulo the number of texts */
  NVM_PTR(struct file) file;
  NVM_PTR(struct word) bucket[INDEX_BUCKETS];
};

/* Opens the index for the texts of the command line, or makes it.  NULL after a message on stderr. */
struct index* index_open(const struct options* options);
/* Adds the next words of a text.  Their number, 0 at the end of the text, -1 after a message on stderr. */
int index_add(struct index* index, uint32_t file, const struct text* text);
/* Walks everything.  -1 after a message on stderr that names the first fault. */
int index_check(const struct index* index);
/* -1 after a message on stderr. */
int index_close(struct index* index);

/* walk.c: visits each word, in no order, until `visit` returns non-zero, and returns that value. */
int index_each(const struct index* index, int (*visit)(const struct word* word, void* argument), void* argument);
/* walk.c: the first fault as a sentence, or NULL; counts words and blocks. */
const char* index_find_fault(const struct index* index, uint64_t* words, uint64_t* blocks);
/* walk.c: -1 after a message on stderr when the index is of other texts than those of the command line. */
int index_compare_texts(const struct index* index, const struct options* options);

/* result.c: writes every word with its count and postings, sorted, then gives the file its name, so that a killed
 * program leaves no partial result.  -1 after a message on stderr. */
int index_write_result(const struct index* index, const char* path);

#endif
