/* clang-format off */
/* Awkward C: macros, several calls a line, wrappers, conditional allocation, K&R, realloc of nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "util.h"

#define INTS(n) ((int *)malloc((n) * sizeof(int)))
#define ONE_OF(a, b) ((a) ? (a) : (b))
#define APPLY(f, n) f(n)

struct point { double x, y; };
struct link { struct link *next; int v; };
struct hook { void (*run)(int); };

static void *xmalloc(n)
  size_t n;
{
  void *p = malloc(n);
  if (p == NULL) exit(9);
  return p;
}

static char *save(const char *s) {
  return strcpy(xmalloc(strlen(s) + 1), s);
}

static struct point *points(int n) {
  struct point *p = xmalloc(n * sizeof *p);
  for (int k = 0; k < n; ++k) p[k].x = p[k].y = k;
  return p;
}

static void *pool_free_list[4];
static void release_all(void (*with)(void *)) {
  for (int k = 0; k < 4; ++k) with(pool_free_list[k]);
}

int main(int argc, char **argv)
{
  int *a = INTS(10), *b = malloc(20); char *c = strdup("see"), *d = argc > 5 ? malloc(10) : calloc(10, 1);
  struct point *p = points(8);
  struct link *l = malloc(sizeof *l);
  struct hook *h = (struct hook *)malloc(sizeof(struct hook));
  char *t = save("text"), *u = twice("ab");
  char *g = realloc(NULL, 16);
  long *z = APPLY(malloc, 8 * sizeof(long));
  int *none = ONE_OF(a, b);
  a[9] = 1; b[4] = 2; l->v = 3; l->next = NULL; h->run = NULL; z[7] = 4;
  strcpy(g, "grown");
  a = realloc(a, 400);
  a[99] = 5;
  c = realloc(c, 100);
  strcat(c, "-saw");
  printf("%d %d %d %ld %s %s %s %s %g %d\n", a[9] + a[99], b[4], l->v, z[7], c, t, u, g, p[7].y, none != NULL);
  pool_free_list[0] = z; pool_free_list[1] = d;
  release_all(free);
  DROP(a); DROP(b); free(c); free(p), free(l); free(h);
  free(t); free(u); free(g);
  return 0;
}
