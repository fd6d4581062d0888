/* A program written from Lewat's Table II, compiled as C11 and as C++20.
 *
 * usage: lewat_names_test FOLDER */
#include <stdio.h>
#include <string.h>

#include "nvm/lewat.h"

/* What the paper prints is C; C++ wants the conversion spelled. */
#ifdef __cplusplus
#define AS(T) (T)
#else
#define AS(T)
#endif

#define MUST(what)                                                                   \
  do {                                                                               \
    if (!(what)) {                                                                   \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #what, nvm_errormsg()); \
      return 1;                                                                      \
    }                                                                                \
  } while (0)

/* What cannot be written is told at the end, also where a transaction of several regions begins meanwhile. */
static int is_told_beside_another(lewat_rid rid, char* addr) {
  char seen[4096];
  MUST(stx_start(rid) == 0);
  p_write(rid, "HELLO", addr + 10, 5);
  p_write(rid, "x", addr + 5000, 1);
  mtx_abort(mtx_start());
  MUST(stx_end(rid) == -1);
  MUST(p_get(rid, seen) == seen && memcmp(seen + 10, "hello", 5) == 0);
  return 0;
}

/* A region that is freed in a transaction of several is gone with its end, or there after its abort. */
static int is_freed_with_the_transaction(lewat_rid rid, lewat_rid other) {
  lewat_tid tid = mtx_start();
  p_free(rid);
  mtx_abort(tid);
  MUST(p_attach(rid) != NULL);
  /* It was taken up before, once by this transaction, and once by one of its own. */
  tid = mtx_start();
  MUST(stx_start(rid) == 0);
  p_free(rid);
  mtx_abort(tid);
  MUST(p_attach(rid) != NULL);
  MUST(stx_start(rid) == 0);
  tid = mtx_start();
  p_free(rid);
  MUST(mtx_end(tid) == 0);
  stx_abort(rid);
  MUST(p_attach(rid) != NULL);
  tid = mtx_start();
  p_free(rid);
  MUST(p_malloc(other, 10) != NULL);
  MUST(mtx_end(tid) == 0);
  MUST(p_attach(rid) == NULL && p_attach(other) != NULL);
  tid = mtx_start();
  p_free(rid); /* there is none */
  MUST(mtx_end(tid) == -1);
  return 0;
}

/* A transaction of one region, begun before one of several, ends by itself. */
static int ends_beside_another(lewat_rid one, lewat_rid two) {
  char seen[4096];
  MUST(stx_start(one) == 0);
  p_write(one, "alone", p_attach(one), 5);
  const lewat_tid tid = mtx_start();
  MUST(stx_start(two) == 0);
  p_write(two, "with", p_attach(two), 4);
  p_free(77); /* there is none: of the other transaction */
  MUST(stx_end(two) == 0 && stx_end(one) == 0);
  mtx_abort(tid);
  MUST(p_get(one, seen) == seen && memcmp(seen, "alone", 5) == 0);
  MUST(p_get(two, seen) == seen && memcmp(seen, "both", 4) == 0);
  return 0;
}

int main(int argc, char** argv) {
  char path[4096];
  char seen[4096];
  const lewat_rid one = 1, two = 2;
  if (argc != 2) return 2;
  snprintf(path, sizeof path, "%s/lewat_names.nvm", argv[1]);
  remove(path);
  NVM_POOL* pool = nvm_pool_create(path, 16 << 20);
  MUST(pool != NULL);
  lewat_use(nvm_regions_open(pool, "regions", NULL));
  MUST(lewat_set != NULL);

  char* addr = AS(char*) p_malloc(one, 100);
  MUST(addr != NULL && p_malloc(one, 100) == NULL && p_attach(two) == NULL);
  p_write(one, "hello", addr + 10, 5);
  MUST(p_get(one, seen) == seen && memcmp(seen + 10, "hello", 5) == 0 && seen[0] == 0);
  MUST(p_append(one, "tail", 4) == 0 && p_truncate(one, 102) == 0);
  MUST(p_get(one, seen) == seen && memcmp(seen + 100, "ta", 2) == 0);

  MUST(stx_start(one) == 0);
  p_write(one, "HELLO", addr + 10, 5);
  stx_abort(one);
  MUST(p_get(one, seen) == seen && memcmp(seen + 10, "hello", 5) == 0);
  MUST(stx_start(one, NVM_REGION_COPY) == 0);
  p_write(one, "HELLO", addr + 10, 5);
  MUST(stx_end(one) == 0);
  MUST(p_get(one, seen) == seen && memcmp(seen + 10, "HELLO", 5) == 0);
  MUST(stx_start(one, LEWAT_REWBL) == 0);
  p_write(one, "hello", addr + 10, 5);
  MUST(stx_end(one) == 0);
  MUST(p_get(one, seen) == seen && memcmp(seen + 10, "hello", 5) == 0);
  /* What cannot be written is told at the end. */
  MUST(stx_start(one) == 0);
  p_write(one, "x", addr + 5000, 1);
  MUST(stx_end(one) == -1);

  MUST(p_malloc(two, 10) != NULL);
  MUST(is_told_beside_another(one, addr) == 0);
  lewat_tid tid = mtx_start();
  MUST(tid != 0 && mtx_start() == 0);
  MUST(stx_start(one) == 0 && stx_start(two, NVM_REGION_CHECKED) == 0);
  p_write(one, "both", p_attach(one), 4);
  p_write(two, "both", p_attach(two), 4);
  MUST(stx_end(one) == 0 && stx_end(two) == 0);
  mtx_abort(tid);
  MUST(p_get(two, seen) == seen && seen[0] == 0);
  tid = mtx_start();
  MUST(stx_start(one) == 0 && stx_start(two) == 0);
  p_write(one, "both", p_attach(one), 4);
  p_write(two, "both", p_attach(two), 4);
  MUST(mtx_end(tid + 1) == -1 && mtx_end(tid) == 0);
  MUST(p_get(one, seen) == seen && memcmp(seen, "both", 4) == 0);
  MUST(p_get(two, seen) == seen && memcmp(seen, "both", 4) == 0);
  MUST(ends_beside_another(one, two) == 0);
  MUST(p_malloc(3, 10) != NULL && is_freed_with_the_transaction(3, 4) == 0);

  MUST(nvm_pool_close(pool) == 0);
  pool = nvm_pool_open(path);
  MUST(pool != NULL);
  lewat_use(nvm_regions_open(pool, "regions", NULL));
  MUST(p_get(two, seen) == seen && memcmp(seen, "both", 4) == 0);
  p_free(two);
  MUST(p_attach(two) == NULL);
  MUST(nvm_pool_close(pool) == 0);
  return remove(path);
}
