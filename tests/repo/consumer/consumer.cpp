// The same from C++.
#include <nvm/nvm.h>
#include <cstdio>
#include <cstring>

int main() {
  NVM_POOL* pool = nvm_pool_open("/nonexistent/pool.nvm");
  if (pool != nullptr || nvm_errno() != NVM_E_NOT_FOUND || std::strlen(nvm_errormsg()) == 0) {
    std::fprintf(stderr, "open of a missing file: %s (%d)\n", nvm_errormsg(), nvm_errno());
    return 1;
  }
  return 0;
}
