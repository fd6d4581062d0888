/* Memory that the next process would find: a counter, by the root of the program's store. */
#include <nvm/nvm.h>
#include <nvm/placed.h>
#include <stdio.h>

int main(void) {
  NVM_PLACED_START;
  struct nvm_pool* pool = nvm_placed_pool();
  if (pool == NULL) return 2;
  long* n = nvm_pool_get_root(pool);
  if (n == NULL) {
    nvm_placed_free(nvm_placed_malloc(100)); /* gone */
    nvm_placed_strdup("left behind");
    if (nvm_tx_begin(pool) != 0) return 3;
    n = nvm_placed_calloc(1, sizeof *n);
    nvm_pool_set_root(pool, n);
    if (nvm_tx_commit(pool) != 0) return 4;
  }
  {
    NVM_ATOMIC(pool);
    ++*n;
  }
  printf("%ld\n", *n);
  return 0;
}
