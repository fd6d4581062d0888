#ifndef UTIL_H
#define UTIL_H
/* clang-format off */
/* A macro that frees, in a header of the program. */
#define DROP(p) do { free(p); (p) = NULL; } while (0)
static inline char *twice(const char *s) {
  char *r = malloc(2 * strlen(s) + 1);
  strcpy(r, s);
  strcat(r, s);
  return r;
}
#endif
