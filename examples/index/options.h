/* Command line of the index programs, and the list of texts. */
#ifndef EXAMPLES_INDEX_OPTIONS_H
#define EXAMPLES_INDEX_OPTIONS_H

struct options {
  int durable;
  const char* pool;    /* durable program only */
  const char* medium;  /* "shm", "ssd", or NULL: what the path is */
  const char* result;  /* file to write the index to */
  int report_progress; /* print a line for each percent, for whoever watches */
  int check;           /* walk through the whole index when it is opened and when it is complete */
  unsigned passes;     /* how often the texts are read, each pass as texts of its own */
  unsigned files;      /* texts of one pass */
  char** file;         /* their paths */
};

/* Fills in the options, with the licence texts of a Debian system when no file is named.  -1 after a message on stderr:
 * the command line is wrong, or there is no text. */
int options_parse(int argc, char** argv, int durable, struct options* options);
void options_free(struct options* options);

#endif
