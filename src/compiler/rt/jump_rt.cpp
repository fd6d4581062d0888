// setjmp() has returned again.
#include <cstdio>
#include <cstdlib>

#include "nvm/compiled.h"

extern "C" __attribute__((visibility("default"))) void __nvm_jump_landed(const nvm_jump_mark* mark,
                                                                         const nvm_site* site) {
  if (__nvm_jump_back(mark) == 0) return;
  std::fprintf(stderr, "%s:%u:%u: holdfast: %s (in %s)\n", site->file, site->line, site->column, nvm_errormsg(),
               site->function);
  std::abort();
}
