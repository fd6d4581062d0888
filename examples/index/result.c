/* The index as text: a line for each file, then one for each word, sorted by the words' bytes:
 * the word, its count, and file:position of each occurrence, in the order of reading. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index.h"

struct list {
  const struct word** word;
  size_t count, room;
};

static int collect(const struct word* word, void* argument) {
  struct list* list = argument;
  if (list->count == list->room) {
    list->room = 2 * list->room + 1024;
    const struct word** grown = realloc(list->word, list->room * sizeof *grown);
    if (grown == NULL) return -1;
    list->word = grown;
  }
  list->word[list->count++] = word;
  return 0;
}

static int by_text(const void* a, const void* b) {
  const struct word *x = *(const struct word* const*)a, *y = *(const struct word* const*)b;
  int order = memcmp(x->text, y->text, x->size < y->size ? x->size : y->size);
  return order != 0 ? order : (x->size > y->size) - (x->size < y->size);
}

/* Blocks lead from the newest to the oldest; the result goes the other way. */
static int write_word(FILE* out, const struct word* word) {
  size_t blocks = 0;
  for (const struct block* block = word->newest; block != NULL; block = block->older) blocks++;
  const struct block** in_order = malloc((blocks + 1) * sizeof *in_order);
  if (in_order == NULL) return -1;
  size_t at = blocks;
  for (const struct block* block = word->newest; block != NULL; block = block->older) in_order[--at] = block;

  fwrite(word->text, 1, word->size, out);
  fprintf(out, "\t%llu", (unsigned long long)word->count);
  for (size_t b = 0; b < blocks; b++) {
    for (uint32_t i = 0; i < in_order[b]->used; i++) {
      struct posting posting = in_order[b]->posting[i];
      fprintf(out, " %u:%u", (unsigned)posting.file, (unsigned)posting.position);
    }
  }
  putc('\n', out);
  free(in_order);
  return 0;
}

static int write_index(const struct index* index, FILE* out) {
  for (uint64_t i = 0; i < index->files; i++) {
    const struct file* file = &index->file[i];
    fprintf(out, "# file %llu: %s, %llu words\n", (unsigned long long)i, file->name, (unsigned long long)file->words);
  }
  struct list list = {NULL, 0, 0};
  int failed = index_each(index, collect, &list);
  if (!failed && list.count > 0) qsort(list.word, list.count, sizeof list.word[0], by_text);
  for (size_t i = 0; !failed && i < list.count; i++) failed = write_word(out, list.word[i]);
  free(list.word);
  if (failed) errno = ENOMEM;
  return failed || ferror(out) ? -1 : 0;
}

int index_write_result(const struct index* index, const char* path) {
  char* partial = malloc(strlen(path) + sizeof ".new");
  if (partial == NULL) return -1;
  strcpy(partial, path);
  strcat(partial, ".new");
  FILE* out = fopen(partial, "wb");
  int failed = out == NULL || write_index(index, out);
  if (out != NULL && fclose(out) != 0) failed = 1;
  if (!failed) failed = rename(partial, path);
  if (failed) fprintf(stderr, "%s: cannot be written: %s\n", partial, strerror(errno));
  free(partial);
  return failed ? -1 : 0;
}
