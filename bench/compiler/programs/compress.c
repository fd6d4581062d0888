/* A compressor after LZ77 with hash chains, and its inverse, over text that it makes itself: a CPU-bound program whose
 * stores go through pointers of all kinds.
 *
 * usage: compress [ROUNDS]; prints the compressed size, and stops with 1 if the text does not come back. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 1 << 15, HASHES = 1 << 14, MATCH_MIN = 4, MATCH_MAX = 255, CHAIN_MAX = 32, TEXT = 4 << 20 };

struct matcher {
  int32_t head[HASHES];
  int32_t previous[WINDOW];
};

struct output {
  uint8_t* bytes;
  size_t size, capacity;
};

static void emit(struct output* out, uint8_t byte) {
  if (out->size == out->capacity) {
    out->capacity = out->capacity * 2 + 64;
    out->bytes = realloc(out->bytes, out->capacity);
    if (out->bytes == NULL) exit(2);
  }
  out->bytes[out->size++] = byte;
}

static uint32_t hash_of(const uint8_t* p) {
  uint32_t word;
  memcpy(&word, p, sizeof word);
  return word * 2654435761u >> 18;
}

static void insert(struct matcher* m, const uint8_t* text, size_t at) {
  uint32_t hash = hash_of(text + at);
  m->previous[at % WINDOW] = m->head[hash];
  m->head[hash] = (int32_t)at;
}

static size_t match_length(const uint8_t* a, const uint8_t* b, size_t most) {
  size_t n = 0;
  while (n < most && a[n] == b[n]) n++;
  return n;
}

static void compress(const uint8_t* text, size_t size, struct matcher* m, struct output* out) {
  memset(m->head, 0xFF, sizeof m->head);
  for (size_t at = 0; at < size;) {
    size_t best = 0, distance = 0, most = size - at < MATCH_MAX ? size - at : MATCH_MAX;
    if (most >= MATCH_MIN) {
      int32_t candidate = m->head[hash_of(text + at)];
      for (int tries = 0; candidate >= 0 && at - (size_t)candidate < WINDOW && tries < CHAIN_MAX; tries++) {
        size_t n = match_length(text + candidate, text + at, most);
        if (n > best) best = n, distance = at - (size_t)candidate;
        int32_t next = m->previous[candidate % WINDOW];
        if (next >= candidate) break;
        candidate = next;
      }
    }
    size_t step = 1;
    if (best >= MATCH_MIN) {
      emit(out, (uint8_t)best);
      emit(out, (uint8_t)distance);
      emit(out, (uint8_t)(distance >> 8));
      step = best;
    } else {
      emit(out, 0);
      emit(out, text[at]);
    }
    for (size_t i = 0; i < step; i++, at++) {
      if (size - at >= MATCH_MIN) insert(m, text, at);
    }
  }
}

static void expand(const uint8_t* bytes, size_t size, struct output* out) {
  for (size_t at = 0; at < size;) {
    size_t length = bytes[at++];
    if (length == 0) {
      emit(out, bytes[at++]);
      continue;
    }
    size_t distance = bytes[at] | (size_t)bytes[at + 1] << 8;
    at += 2;
    for (size_t i = 0; i < length; i++) emit(out, out->bytes[out->size - distance]);
  }
}

/* Words of a made-up language, some of them often. */
static void make_text(uint8_t* text, size_t size) {
  uint64_t state = 42;
  for (size_t at = 0; at < size;) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    uint64_t word = (state >> 33) % 3000;
    word = word * word / 3000;
    for (unsigned i = 0; i < 2 + word % 9 && at < size; i++) text[at++] = (uint8_t)('a' + (word * (i + 7) >> i) % 26);
    if (at < size) text[at++] = ' ';
  }
}

int main(int argc, char** argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 1;
  uint8_t* text = malloc(TEXT);
  struct matcher* matcher = malloc(sizeof *matcher);
  if (text == NULL || matcher == NULL) return 2;
  make_text(text, TEXT);
  for (int round = 0; round < rounds; round++) {
    struct output packed = {0}, back = {0};
    compress(text, TEXT, matcher, &packed);
    expand(packed.bytes, packed.size, &back);
    if (back.size != TEXT || memcmp(back.bytes, text, TEXT) != 0) {
      fprintf(stderr, "the text does not come back\n");
      return 1;
    }
    if (round == 0) printf("%zu\n", packed.size);
    free(packed.bytes);
    free(back.bytes);
  }
  return 0;
}
