/* Counts words: a program that knows nothing of durable memory.  Commands, a line each, on standard input:
 *   add WORD    counts it once more
 *   drop WORD   forgets it
 *   count WORD  says how often it was added
 *   words       says how many words there are */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entry {
  struct entry* next;
  unsigned long count;
  char word[];
};
struct table {
  size_t buckets, words;
  struct entry** first;
};

static size_t bucket_of(const struct table* t, const char* word) {
  size_t hash = 5381;
  for (; *word != '\0'; ++word) hash = hash * 33 + (unsigned char)*word;
  return hash % t->buckets;
}

static struct table* make_table(size_t buckets) {
  struct table* t = malloc(sizeof *t);
  if (t == NULL) abort();
  t->buckets = buckets;
  t->words = 0;
  t->first = calloc(buckets, sizeof(struct entry*));
  if (t->first == NULL) abort();
  return t;
}

/* Twice as many buckets: each entry goes to another list. */
static void grow(struct table* t) {
  const size_t before = t->buckets;
  struct entry** const old = t->first;
  struct entry** const first = calloc(2 * before, sizeof *first);
  if (first == NULL) return;
  t->first = first;
  t->buckets = 2 * before;
  for (size_t i = 0; i < before; ++i) {
    for (struct entry *e = old[i], *next; e != NULL; e = next) {
      next = e->next;
      struct entry** const to = &first[bucket_of(t, e->word)];
      e->next = *to;
      *to = e;
    }
  }
  free(old);
}

/* The link that leads to the word's entry, or to nothing. */
static struct entry** link_of(struct table* t, const char* word) {
  struct entry** link = &t->first[bucket_of(t, word)];
  while (*link != NULL && strcmp((*link)->word, word) != 0) link = &(*link)->next;
  return link;
}

static void add(struct table* t, const char* word) {
  struct entry* e = *link_of(t, word);
  if (e == NULL) {
    if (t->words == t->buckets) grow(t);
    e = malloc(sizeof *e + strlen(word) + 1);
    if (e == NULL) abort();
    strcpy(e->word, word);
    e->count = 0;
    struct entry** const link = link_of(t, word);
    e->next = *link;
    *link = e;
    ++t->words;
  }
  ++e->count;
}

static void drop(struct table* t, const char* word) {
  struct entry** const link = link_of(t, word);
  struct entry* const e = *link;
  if (e == NULL) return;
  *link = e->next;
  --t->words;
  free(e);
}

static void answer(struct table* t, const char* command, const char* word) {
  if (strcmp(command, "add") == 0 && *word != '\0') {
    add(t, word);
    printf("ok\n");
  } else if (strcmp(command, "drop") == 0) {
    drop(t, word);
    printf("ok\n");
  } else if (strcmp(command, "count") == 0) {
    const struct entry* const e = *link_of(t, word);
    printf("%lu\n", e == NULL ? 0 : e->count);
  } else if (strcmp(command, "words") == 0) {
    printf("%zu\n", t->words);
  } else {
    printf("unknown command\n");
  }
}

int main(void) {
  char line[256], command[256], word[256];
  struct table* t = make_table(4);
  while (fgets(line, sizeof line, stdin) != NULL) {
    command[0] = word[0] = '\0';
    sscanf(line, "%255s %255s", command, word);
    answer(t, command, word);
    fflush(stdout);
  }
  return 0;
}
