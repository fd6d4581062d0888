/* Calls the installed library and fails in a way that needs no file. */
#include <nvm/nvm.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  NVM_POOL* pool = nvm_pool_open("/nonexistent/pool.nvm");
  if (pool != NULL || nvm_errno() != NVM_E_NOT_FOUND || strlen(nvm_errormsg()) == 0) {
    fprintf(stderr, "open of a missing file: %s (%d)\n", nvm_errormsg(), nvm_errno());
    return 1;
  }
  return 0;
}
