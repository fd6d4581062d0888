#define _POSIX_C_SOURCE 200809L /* lstat */
#include "options.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "text.h"

static const char default_folder[] = "/usr/share/common-licenses";

static void print_usage(const char* program, int durable) {
  fprintf(stderr,
          "usage: %s %s--result FILE [--passes N] [--check] [--report-progress] [--files TEXT...]\n"
          "  Indexes the words of texts, by default those of %s.\n",
          program, durable ? "--pool PATH [--medium shm|ssd] " : "", default_folder);
}

static int add_file(struct options* options, const char* path) {
  char** grown = realloc(options->file, (options->files + 1) * sizeof *grown);
  if (grown == NULL) return -1;
  options->file = grown;
  options->file[options->files] = malloc(strlen(path) + 1);
  if (options->file[options->files] == NULL) return -1;
  strcpy(options->file[options->files++], path);
  return 0;
}

static int by_name(const void* a, const void* b) { return strcmp(*(char* const*)a, *(char* const*)b); }

/* The regular files of the default folder, sorted by name; its links name texts that are there already. */
static int add_default_files(struct options* options) {
  DIR* folder = opendir(default_folder);
  if (folder == NULL) {
    fprintf(stderr, "no text found: %s: %s; name some with --files\n", default_folder, strerror(errno));
    return -1;
  }
  int failed = 0;
  for (struct dirent* entry; !failed && (entry = readdir(folder)) != NULL;) {
    char path[sizeof default_folder + sizeof entry->d_name];
    struct stat facts;
    snprintf(path, sizeof path, "%s/%s", default_folder, entry->d_name);
    if (lstat(path, &facts) == 0 && S_ISREG(facts.st_mode)) failed = add_file(options, path);
  }
  closedir(folder);
  if (failed) {
    fprintf(stderr, "memory is out\n");
    return -1;
  }
  if (options->files == 0) {
    fprintf(stderr, "no text found: %s has no file; name some with --files\n", default_folder);
    return -1;
  }
  qsort(options->file, options->files, sizeof options->file[0], by_name);
  return 0;
}

static int parse(int argc, char** argv, struct options* options) {
  int files_named = 0;
  for (int i = 1; i < argc; i++) {
    const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
    if (strcmp(name, "--report-progress") == 0) {
      options->report_progress = 1;
    } else if (strcmp(name, "--check") == 0) {
      options->check = 1;
    } else if (strcmp(name, "--files") == 0) {
      files_named = 1;
      while (i + 1 < argc && strncmp(argv[i + 1], "--", 2) != 0) {
        if (add_file(options, argv[++i])) return -1;
      }
    } else if (value == NULL) {
      fprintf(stderr, "%s: unknown option, or its value is missing\n", name);
      print_usage(argv[0], options->durable);
      return -1;
    } else if (strcmp(name, "--pool") == 0) {
      options->pool = argv[++i];
    } else if (strcmp(name, "--medium") == 0) {
      options->medium = argv[++i];
    } else if (strcmp(name, "--result") == 0) {
      options->result = argv[++i];
    } else if (strcmp(name, "--passes") == 0) {
      char* end;
      unsigned long passes = strtoul(argv[++i], &end, 10);
      if (*end != '\0' || passes < 1 || passes > 100000) {
        fprintf(stderr, "--passes %s: expected 1 .. 100000\n", value);
        return -1;
      }
      options->passes = (unsigned)passes;
    } else {
      fprintf(stderr, "%s: unknown option\n", name);
      print_usage(argv[0], options->durable);
      return -1;
    }
  }
  if (!files_named) return add_default_files(options);
  if (options->files > 0) return 0;
  fprintf(stderr, "no text found: --files names none\n");
  return -1;
}

int options_parse(int argc, char** argv, int durable, struct options* options) {
  memset(options, 0, sizeof *options);
  options->passes = 1;
  options->durable = durable;
  int unreadable = parse(argc, argv, options);
  for (unsigned i = 0; !unreadable && i < options->files; i++) unreadable = text_bytes(options->file[i]) < 0;
  if (!unreadable) {
    if (options->medium != NULL && strcmp(options->medium, "shm") != 0 && strcmp(options->medium, "ssd") != 0) {
      fprintf(stderr, "--medium %s: expected shm or ssd\n", options->medium);
    } else if (options->result == NULL) {
      fprintf(stderr, "--result is missing\n");
    } else if ((options->pool != NULL) != durable) {
      fprintf(stderr, durable ? "--pool is missing\n" : "--pool: this program keeps its index in volatile memory\n");
    } else {
      return 0;
    }
    print_usage(argv[0], durable);
  }
  options_free(options);
  return -1;
}

void options_free(struct options* options) {
  for (unsigned i = 0; i < options->files; i++) free(options->file[i]);
  free(options->file);
  options->file = NULL;
  options->files = 0;
}
