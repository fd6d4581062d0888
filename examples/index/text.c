#define _POSIX_C_SOURCE 200809L /* stat */
#include "text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int text_read(struct text* text, const char* path) {
  text->bytes = NULL;
  text->size = 0;
  FILE* file = fopen(path, "rb");
  size_t room = 0;
  while (file != NULL && !feof(file)) {
    if (text->size == room) {
      room = 2 * room + 65536;
      unsigned char* grown = realloc(text->bytes, room);
      if (grown == NULL) break;
      text->bytes = grown;
    }
    text->size += fread(text->bytes + text->size, 1, room - text->size, file);
    if (ferror(file)) break;
  }
  if (file != NULL && feof(file)) {
    fclose(file);
    return 0;
  }
  fprintf(stderr, "%s: cannot be read: %s\n", path, strerror(errno));
  if (file != NULL) fclose(file);
  text_free(text);
  return -1;
}

int64_t text_bytes(const char* path) {
  struct stat facts;
  if (stat(path, &facts) != 0) {
    fprintf(stderr, "%s: cannot be read: %s\n", path, strerror(errno));
    return -1;
  }
  if (!S_ISREG(facts.st_mode)) {
    fprintf(stderr, "%s: expected a regular file\n", path);
    return -1;
  }
  return facts.st_size;
}

void text_free(struct text* text) {
  free(text->bytes);
  text->bytes = NULL;
  text->size = 0;
}

static int is_of_word(unsigned char c) {
  return (c >= '0' && c <= '9') || (text_fold(c) >= 'a' && text_fold(c) <= 'z') || c >= 0x80;
}

int text_next_word(const struct text* text, size_t* offset, struct span* word) {
  size_t at = *offset;
  while (at < text->size && !is_of_word(text->bytes[at])) at++;
  word->bytes = text->bytes + at;
  size_t first = at;
  while (at < text->size && is_of_word(text->bytes[at])) at++;
  word->size = at - first;
  *offset = at;
  return word->size > 0;
}
