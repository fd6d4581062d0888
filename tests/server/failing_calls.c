/* Preloaded into a server: while $HOLDFAST_FAILING/NAME exists (NAME: fdatasync, growth, fallocate, pwrite) calls of
 * NAME fail with the number that the file holds. growth: the fdatasync that follows a fallocate of the same thread. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static __thread int has_grown;

static int failure_of(const char* name) {
  const char* const folder = getenv("HOLDFAST_FAILING");
  if (folder == NULL) return 0;
  char path[4096];
  char number[16] = "";
  snprintf(path, sizeof path, "%s/%s", folder, name);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t bytes = read(file, number, sizeof number - 1);
  close(file);
  return bytes > 0 ? atoi(number) : 0;
}

static int fails(int code) {
  if (code != 0) errno = code;
  return code;
}

int fdatasync(int file) {
  const int grown = has_grown;
  has_grown = 0;
  if (fails(failure_of("fdatasync")) || (grown && fails(failure_of("growth")))) return -1;
  return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(file);
}

int fallocate(int file, int mode, off_t offset, off_t bytes) {
  has_grown = 1;
  if (fails(failure_of("fallocate"))) return -1;
  return ((int (*)(int, int, off_t, off_t))dlsym(RTLD_NEXT, "fallocate"))(file, mode, offset, bytes);
}

ssize_t pwrite(int file, const void* from, size_t bytes, off_t offset) {
  if (fails(failure_of("pwrite"))) return -1;
  return ((ssize_t(*)(int, const void*, size_t, off_t))dlsym(RTLD_NEXT, "pwrite"))(file, from, bytes, offset);
}
