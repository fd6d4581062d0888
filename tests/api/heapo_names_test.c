/* A program written from HEAPO's section II-A, compiled as C11 and as C++20: it makes a store, builds a list in it,
 * comes back to it, and gives it up.
 *
 * usage: heapo_names_test FOLDER */
#include <stdio.h>
#include <string.h>

#include "nvm/heapo.h"

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

struct node {
  struct node* next;
  int number;
};

int main(int argc, char** argv) {
  char path[4096];
  int i;
  int sum = 0;
  if (argc != 2) return 2;
  snprintf(path, sizeof path, "%s/heapo_names.nvm", argv[1]);
  remove(path);
  heapo_use(nvm_pool_create(path, 16 << 20));
  MUST(heapo_pool != NULL);

  MUST(heapo_map("list") == -1 && nvm_errno() == NVM_E_NOT_FOUND);
  MUST(heapo_create("list") == 0 && heapo_create("list") == -1 && nvm_errno() == NVM_E_EXISTS);
  MUST(heapo_malloc("list", 8) == NULL && nvm_errno() == NVM_E_NOT_FOUND);
  MUST(heapo_map("list") == 0 && heapo_map("list") == 0);
  MUST(heapo_get_prime_object("list") == NULL);
  for (i = 0; i < 10; ++i) {
    /* One transaction: the object and the way to it. */
    MUST(nvm_tx_begin(heapo_pool) == 0);
    struct node* n = AS(struct node*) heapo_malloc("list", sizeof *n);
    MUST(n != NULL);
    n->next = AS(struct node*) heapo_get_prime_object("list");
    n->number = i;
    MUST(heapo_set_prime_object("list", n) == 0);
    MUST(nvm_tx_commit(heapo_pool) == 0);
  }
  char* text = AS(char*) heapo_malloc("list", 6);
  MUST(text != NULL);
  memcpy(text, "hello", 6);
  text = AS(char*) heapo_realloc("list", text, 100000);
  MUST(text != NULL && strcmp(text, "hello") == 0 && nvm_store_of(text) == nvm_store_find(heapo_pool, "list"));
  MUST(heapo_free("list", text) == 0 && heapo_free("list", &sum) == -1);
  MUST(heapo_unmap("list") == 0 && heapo_unmap("list") == -1);
  MUST(nvm_pool_close(heapo_pool) == 0);

  heapo_use(nvm_pool_open(path));
  MUST(heapo_pool != NULL && heapo_map("list") == 0);
  for (struct node* n = AS(struct node*) heapo_get_prime_object("list"); n != NULL; n = n->next) sum += n->number;
  MUST(sum == 45);
  MUST(heapo_delete("list") == -1 && nvm_errno() == NVM_E_BUSY);
  MUST(heapo_unmap("list") == 0 && heapo_delete("list") == 0 && heapo_map("list") == -1);
  MUST(nvm_pool_close(heapo_pool) == 0);
  remove(path);
  return 0;
}
