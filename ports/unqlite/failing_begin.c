#define _GNU_SOURCE
/* Preloaded: while the file that FAIL_BEGINS names is there, no transaction begins. */
#include <dlfcn.h>
#include <nvm/nvm.h>
#include <stdlib.h>
#include <unistd.h>

int nvm_tx_begin(NVM_POOL* pool) {
  const char* mark = getenv("FAIL_BEGINS");
  if (mark != NULL && access(mark, F_OK) == 0) return -1;
  /* Python has loaded the library for its module alone. */
  void* library = dlopen("libholdfast.so.0", RTLD_NOW | RTLD_NOLOAD);
  int (*real)(NVM_POOL*) = library != NULL ? (int (*)(NVM_POOL*))dlsym(library, "nvm_tx_begin") : NULL;
  return real != NULL ? real(pool) : -1;
}
