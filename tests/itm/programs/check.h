/* Checks of the language programs: each prints nothing when it holds. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>

static int failures;
#define CHECK(condition)                                                            \
  do {                                                                              \
    if (!(condition)) {                                                             \
      fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      failures++;                                                                   \
    }                                                                               \
  } while (0)

#endif
