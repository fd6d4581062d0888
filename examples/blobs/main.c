/* A client of the blob store, the same each time, as a program to be killed: uploads in pieces that come in any order,
 * logs that grow and are cut, ranges that are written, removals.
 *
 * Which change comes next follows from how many were done, and that the store says: a run that was killed goes on with
 * the next one.  At the end name, size and hash of each blob are written; they must be those of the volatile program.
 *
 * usage: blobs --result FILE [--passes N] [--check] [--report-progress] [--pool PATH [--medium shm|ssd]]
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blobs.h"

#ifdef BLOBS_DURABLE
static const int durable = 1;
#else
static const int durable = 0;
#endif

enum {
  PIECES = 12,
  APPENDS = 6,
  CHANGES_OF_PASS = 1 + PIECES + 1 + APPENDS + 3,
  OBJECTS = 40,
  LOGS = 4,
  PIECE_MAX = 24000,
  LOG_MAX = 100000,
};

struct options {
  const char *result, *pool, *medium;
  uint64_t passes;
  int check, report_progress;
};

static int reports;

static void say(const char* line) {
  if (!reports) return;
  puts(line);
  fflush(stdout);
}

/* A well-mixed number for each change and use (splitmix64). */
static uint64_t mixed(uint64_t change, uint64_t use) {
  uint64_t z = (change * 64 + use + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

static unsigned char bytes[PIECE_MAX];

static void fill(uint64_t change, size_t size) {
  for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
    uint64_t word = mixed(change, 1000 + i);
    memcpy(bytes + i, &word, size - i < sizeof word ? size - i : sizeof word);
  }
}

/* "object-17" or "log-2" */
static const char* named(const char* kind, uint64_t number) {
  static char name[32];
  snprintf(name, sizeof name, "%s-%llu", kind, (unsigned long long)number);
  return name;
}

/* One object a pass, of pieces of one size, small in most passes. */
static size_t piece_size(uint64_t pass) {
  static const size_t most[4] = {60, 600, 5000, PIECE_MAX};
  return 1 + mixed(pass, 40) % most[mixed(pass, 41) % 4];
}

static int to_log(blobs* store, uint64_t change, uint64_t log) {
  size_t size = 1 + mixed(change, 2) % (mixed(change, 3) % 8 == 0 ? 4000 : 300);
  fill(change, size);
  return blobs_append(store, named("log", log), bytes, size);
}

static int cut_log(blobs* store, uint64_t change, uint64_t log) {
  unsigned char last;
  const char* name = named("log", log);
  int long_enough = blobs_read(store, name, LOG_MAX, &last, 1) == 1;
  return blobs_cut(store, name, long_enough ? 0 : 1 + mixed(change, 4) % LOG_MAX);
}

/* The upload that a pass begins.  Logs are made as uploads, too, one in each of the first passes. */
static uint64_t upload_of(uint64_t pass) { return pass + 1 + (pass < LOGS ? pass : LOGS); }

static int begin_upload(blobs* store, uint64_t pass) {
  uint64_t upload = 0, expected = upload_of(pass);
  if (blobs_upload(store, &upload)) return -1;
  if (upload == expected) return 0;
  fprintf(stderr, "found upload %llu, expected %llu\n", (unsigned long long)upload, (unsigned long long)expected);
  return -1;
}

static int in_pieces(blobs* store, uint64_t pass, uint64_t change, unsigned number) {
  size_t size = piece_size(pass);
  fill(change, size);
  /* In the order of their places, or from all sides. */
  unsigned place = pass % 2 == 0 ? number : (number * 5 + (unsigned)(pass % PIECES)) % PIECES;
  return blobs_piece(store, upload_of(pass), place * size, bytes, size);
}

static int do_change(blobs* store, uint64_t change) {
  uint64_t pass = change / CHANGES_OF_PASS, choice = mixed(change, 0);
  unsigned step = (unsigned)(change % CHANGES_OF_PASS);
  if (step == 0) return begin_upload(store, pass);
  if (step <= PIECES) return in_pieces(store, pass, change, step - 1);
  if (step == PIECES + 1) return blobs_name(store, upload_of(pass), named("object", mixed(pass, 42) % OBJECTS));
  if (step <= PIECES + 1 + APPENDS) return to_log(store, change, pass % LOGS);
  if (step == CHANGES_OF_PASS - 3 && choice % 8 == 0) return cut_log(store, change, choice / 8 % LOGS);
  const char* name = named("object", choice / 64 % OBJECTS);
  if (step == CHANGES_OF_PASS - 1 && choice % 3 == 0) return blobs_remove(store, name);
  size_t size = 1 + choice / 4096 % (choice % 2 == 0 ? 64 : 3000);
  fill(change, size);
  return blobs_write(store, name, mixed(change, 1) % (piece_size(pass) * PIECES), bytes, size);
}

/* ---- the result -------------------------------------------------------------------------------------------------- */

struct listing {
  blobs* store;
  FILE* out;
};

static int list_blob(const char* name, uint64_t size, void* argument) {
  const struct listing* to = argument;
  uint64_t hash = 0xCBF29CE484222325u, at = 0; /* FNV-1a */
  while (at < size) {
    int64_t n = blobs_read(to->store, name, at, bytes, sizeof bytes);
    if (n <= 0) return 1;
    for (int64_t i = 0; i < n; i++) hash = (hash ^ bytes[i]) * 0x100000001B3u;
    at += (uint64_t)n;
  }
  fprintf(to->out, "%s %llu %016llx\n", name, (unsigned long long)size, (unsigned long long)hash);
  return 0;
}

static int by_line(const void* a, const void* b) { return strcmp(*(char* const*)a, *(char* const*)b); }

/* Sorts the lines of a text into a file; 0, or -1. */
static int write_sorted(char* text, FILE* out) {
  size_t lines = 0;
  for (const char* c = text; *c != 0; c++) lines += *c == '\n';
  char** line = calloc(lines + 1, sizeof *line);
  if (line == NULL) return -1;
  for (size_t i = 0; i < lines; i++) {
    line[i] = text;
    text = strchr(text, '\n');
    *text++ = 0;
  }
  qsort(line, lines, sizeof *line, by_line);
  for (size_t i = 0; i < lines; i++) fprintf(out, "%s\n", line[i]);
  free(line);
  return 0;
}

static int write_result(blobs* store, const char* path) {
  char *partial = malloc(strlen(path) + sizeof ".new"), *text = NULL;
  size_t length = 0;
  struct listing to = {store, open_memstream(&text, &length)};
  if (partial == NULL || to.out == NULL) return -1;
  int failed = blobs_each(store, list_blob, &to) != 0;
  if (fclose(to.out) != 0) failed = 1;
  strcpy(partial, path);
  strcat(partial, ".new");
  FILE* out = fopen(partial, "wb");
  if (out == NULL || failed || write_sorted(text, out) || ferror(out)) failed = 1;
  if (out != NULL && fclose(out) != 0) failed = 1;
  if (!failed) failed = rename(partial, path);
  if (failed) fprintf(stderr, "%s: cannot be written: %s\n", partial, strerror(errno));
  free(partial);
  free(text);
  return failed ? -1 : 0;
}

/* ---- the program ------------------------------------------------------------------------------------------------- */

static int run(blobs* store, const struct options* options) {
  uint64_t changes = options->passes * CHANGES_OF_PASS, percent = 0, change = 0;
  if (blobs_changes(store, &change)) return -1;
  for (; change < changes; change++) {
    if (do_change(store, change) < 0) {
      fprintf(stderr, "change %llu: %s\n", (unsigned long long)change, blobs_reason());
      return -1;
    }
    if (change * 100 / changes == percent) continue;
    percent = change * 100 / changes;
    char line[32];
    snprintf(line, sizeof line, "progress %llu", (unsigned long long)percent);
    say(line);
  }
  say("progress 100");
  return write_result(store, options->result);
}

static int sound(blobs* store, const struct options* options) {
  const char* fault = options->check ? blobs_check(store) : NULL;
  if (fault != NULL) fprintf(stderr, "the store is damaged: %s\n", fault);
  return fault == NULL;
}

static int parse(int argc, char** argv, struct options* options) {
  for (int i = 1; i < argc; i++) {
    const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
    if (strcmp(name, "--check") == 0) {
      options->check = 1;
      continue;
    }
    if (strcmp(name, "--report-progress") == 0) {
      options->report_progress = 1;
      continue;
    }
    if (strcmp(name, "--result") == 0) {
      options->result = value;
    } else if (strcmp(name, "--pool") == 0) {
      options->pool = value;
    } else if (strcmp(name, "--medium") == 0 && (strcmp(value, "shm") == 0 || strcmp(value, "ssd") == 0)) {
      options->medium = value;
    } else if (strcmp(name, "--passes") == 0) {
      options->passes = strtoull(value, NULL, 10);
    } else {
      return -1;
    }
    i++;
  }
  return options->result == NULL || options->passes == 0 || durable != (options->pool != NULL) ? -1 : 0;
}

int main(int argc, char** argv) {
  struct options options = {.passes = 1};
  if (parse(argc, argv, &options)) {
    fprintf(stderr, "usage: %s --result FILE [--passes N] [--check] [--report-progress]%s\n", argv[0],
            durable ? " --pool PATH [--medium shm|ssd]" : "");
    return 2;
  }
  reports = options.report_progress;
  say("opening");
  blobs* store = blobs_open(options.pool, options.medium, say);
  if (store == NULL) {
    fprintf(stderr, "%s\n", blobs_reason());
    return 1;
  }
  int failed = !sound(store, &options) || run(store, &options) || !sound(store, &options);
  if (blobs_close(store)) {
    fprintf(stderr, "%s\n", blobs_reason());
    failed = 1;
  }
  return failed;
}
