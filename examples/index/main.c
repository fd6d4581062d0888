/* An index over texts.  Compiled with index_volatile.c it starts anew each time; with index_durable.c (INDEX_DURABLE)
 * it goes on where an earlier run, however it ended, had come to.
 *
 * Exit codes: 0 the result is written, 1 something failed, 2 the command line is wrong or there is no text. */
#include <stdio.h>
#include <stdlib.h>

#include "index.h"

#ifdef INDEX_DURABLE
static const int durable = 1;
#else
static const int durable = 0;
#endif

/* A line for each percent of all bytes, flushed at once, for whoever watches or kills this program. */
struct progress {
  int wanted;
  uint64_t total, done, percent;
};

static void report(struct progress* progress, uint64_t more) {
  progress->done += more;
  uint64_t percent = progress->total > 0 ? progress->done * 100 / progress->total : 100;
  if (!progress->wanted || percent == progress->percent) return;
  progress->percent = percent;
  printf("progress %llu\n", (unsigned long long)percent);
  fflush(stdout);
}

static int index_text(struct index* index, uint32_t number, struct progress* progress) {
  const struct file* file = &index->file[number];
  report(progress, file->read);
  if (file->read == file->bytes) return 0;
  struct text text;
  if (text_read(&text, file->name)) return -1;
  int words = -1;
  if (text.size != file->bytes) {
    fprintf(stderr, "%s: has changed while it was being indexed\n", file->name);
  } else {
    for (uint64_t before = file->read; (words = index_add(index, number, &text)) > 0; before = file->read) {
      report(progress, file->read - before);
    }
  }
  text_free(&text);
  return words;
}

static int run(struct index* index, const struct options* options) {
  struct progress progress = {options->report_progress, 0, 0, 100};
  for (uint64_t i = 0; i < index->files; i++) progress.total += index->file[i].bytes;
  uint64_t words = 0;
  for (uint64_t i = 0; i < index->files; i++) {
    if (index_text(index, (uint32_t)i, &progress)) return 1;
    words += index->file[i].words;
  }
  if (words == 0) {
    fprintf(stderr, "no text found: the files have no words\n");
    return 2;
  }
  if (options->check && index_check(index)) return 1;
  return index_write_result(index, options->result) ? 1 : 0;
}

int main(int argc, char** argv) {
  struct options options;
  if (options_parse(argc, argv, durable, &options)) return 2;
  struct index* index = index_open(&options);
  int code = 1;
  if (index != NULL) {
    if (!options.check || index_check(index) == 0) code = run(index, &options);
    if (index_close(index)) code = 1;
  }
  options_free(&options);
  return code;
}
