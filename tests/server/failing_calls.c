/* Preloaded into a program: makes chosen calls of it fail. The file $NVM_FAILING_CALLS holds "NAME ERRNO SKIP [MOST]":
 * MOST calls of NAME (fdatasync, fallocate, pwrite, malloc) or all fail with ERRNO after the first SKIP since the file
 * is there; where ERRNO is less than 0, the process is killed there by signal -ERRNO.  The name "growth" is that of the
 * fdatasync after a fallocate of the same thread. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_long seen;

static int refuses(const char* name) {
  const char* path = getenv("NVM_FAILING_CALLS");
  char text[64] = "";
  char wanted[32] = "";
  int number = 0;
  long skip = 0;
  long most = LONG_MAX;
  if (path == NULL) return 0;
  const int kept = errno;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    atomic_store(&seen, 0);
    errno = kept;
    return 0;
  }
  const ssize_t bytes = read(file, text, sizeof text - 1);
  close(file);
  errno = kept;
  if (bytes <= 0 || sscanf(text, "%31s %d %ld %ld", wanted, &number, &skip, &most) < 3) return 0;
  if (strcmp(wanted, name) != 0) return 0;
  const long before = atomic_fetch_add(&seen, 1);
  if (before < skip || before - skip >= most) return 0;
  if (number < 0) kill(getpid(), -number);
  errno = number;
  return 1;
}

#define SEEN_BY_ALL __attribute__((visibility("default")))

static _Thread_local int grew;

SEEN_BY_ALL int fdatasync(int file) {
  static int (*real)(int);
  if (real == NULL) real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
  const int after_growth = grew;
  grew = 0;
  if (refuses("fdatasync") || (after_growth && refuses("growth"))) return -1;
  return real(file);
}

SEEN_BY_ALL int fallocate(int file, int mode, off_t from, off_t bytes) {
  static int (*real)(int, int, off_t, off_t);
  if (real == NULL) real = (int (*)(int, int, off_t, off_t))dlsym(RTLD_NEXT, "fallocate");
  grew = 1;
  return refuses("fallocate") ? -1 : real(file, mode, from, bytes);
}

SEEN_BY_ALL ssize_t pwrite(int file, const void* bytes, size_t count, off_t to) {
  static ssize_t (*real)(int, const void*, size_t, off_t);
  if (real == NULL) real = (ssize_t(*)(int, const void*, size_t, off_t))dlsym(RTLD_NEXT, "pwrite");
  return refuses("pwrite") ? -1 : real(file, bytes, count, to);
}

/* A sanitizer's own malloc() cannot be replaced. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OWN_MALLOC 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define OWN_MALLOC 0
#endif
#endif
#ifndef OWN_MALLOC
void* __libc_malloc(size_t);

SEEN_BY_ALL void* malloc(size_t bytes) { return refuses("malloc") ? NULL : __libc_malloc(bytes); }
#endif
