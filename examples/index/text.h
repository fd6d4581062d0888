/* A text in memory and its words: runs of letters and digits, and of bytes that are not ASCII. */
#ifndef EXAMPLES_INDEX_TEXT_H
#define EXAMPLES_INDEX_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct text {
  unsigned char* bytes;
  size_t size;
};

/* Reads a whole file.  -1 after a message on stderr. */
int text_read(struct text* text, const char* path);
/* Bytes of a regular file; -1 after a message on stderr. */
int64_t text_bytes(const char* path);
void text_free(struct text* text);

struct span {
  const unsigned char* bytes;
  size_t size;
};

/* The first word at or after *offset; *offset becomes its end.  0 when there is none, *offset is the text's end. */
int text_next_word(const struct text* text, size_t* offset, struct span* word);

/* ASCII letters count as small ones. */
static inline unsigned char text_fold(unsigned char c) { return c >= 'A' && c <= 'Z' ? (unsigned char)(c | 0x20) : c; }

#endif
