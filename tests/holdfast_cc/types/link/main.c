// Prints the types that the program knows; with an argument, those after loading that library, too.
#include <dlfcn.h>
#include <stdio.h>

#include "node.h"

static int show(const nvm_type_info* t, void* n) {
  printf("%s%s:%lu", (*(int*)n)++ == 0 ? "" : " ", t->name, (unsigned long)t->size);
  return 0;
}
static void show_all(void) {
  int n = 0;
  if (nvm_pool_each_type(NULL, show, &n) != 0) printf("%s", nvm_errormsg());
  puts("");
}
#ifdef WITH_PART
uint32_t (*const part)(void) = part_id;
#endif

int main(int argc, char** argv) {
  (void)NVM_TYPE_ID(node);
  show_all();
  if (argc < 2) return 0;
  void* library = dlopen(argv[1], RTLD_NOW);
  if (library == NULL) {
    puts(dlerror());
    return 1;
  }
  show_all();
  dlclose(library);
  show_all();
  library = dlopen(argv[1], RTLD_NOW);
  show_all();
  return library == NULL;
}
