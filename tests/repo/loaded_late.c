/* A program that knows nothing of the library loads it late, uses it, unloads it, and does so again. Much of what the
 * C library keeps for thread-local memory of such libraries is taken already.
 *
 * usage: loaded_late <libholdfast.so> <folder> */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

static __thread char of_the_program[1000];

typedef void* (*create_call)(const char*, unsigned long);
typedef int (*close_call)(void*);
typedef const char* (*message_call)(void);

static int turn(const char* library, const char* pool_path) {
  void* const loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (loaded == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  const create_call create = (create_call)dlsym(loaded, "nvm_pool_create");
  const close_call close_pool = (close_call)dlsym(loaded, "nvm_pool_close");
  const message_call message = (message_call)dlsym(loaded, "nvm_errormsg");
  if (create == NULL || close_pool == NULL || message == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  void* const pool = create(pool_path, 8 << 20);
  const int failed = pool == NULL || close_pool(pool) != 0;
  if (failed) fprintf(stderr, "%s\n", message());
  (void)unlink(pool_path);
  return failed || dlclose(loaded) != 0;
}

int main(int count, char** arguments) {
  if (count != 3) return 2;
  of_the_program[0] = 1;
  char path[4096];
  snprintf(path, sizeof path, "%s/late.%ld.nvm", arguments[2], (long)getpid());
  (void)unlink(path);
  for (int i = 0; i < 2; i++) {
    if (turn(arguments[1], path) != 0) {
      fprintf(stderr, "turn %d failed\n", i);
      return 1;
    }
  }
  return of_the_program[0] == 1 ? 0 : 1;
}
