/* gawk's persistent heap over a Holdfast pool.
 *
 * A transaction is open from pma_init() on; pma_commit() ends it and begins the next.  The stores of gawk into its heap
 * are logged by holdfast-cc.  A process that dies, by SIGKILL or by gawk's fatal(), leaves the heap as it was at the
 * last commit.  gawk does not free objects that only the dead process knew, its parse tree and temporary values;
 * collect() frees them at the next open.
 */
#define _GNU_SOURCE /* SEEK_DATA */
#include <config.h>

#include "pma.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <nvm/gc.h>
#include <nvm/malloc.h>
#include <nvm/space.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

const char pma_version[] = "(Holdfast)";
int pma_errno;

/* The pool's root.  Objects of the heap point to tables and functions of the program, which -fnvm-statics puts right in
 * another process and in another build; another version of gawk may lay objects out in another way. */
struct root {
  char version[32];
  void* gawks;
};

static NVM_POOL* heap;
static struct root* root;
static unsigned long records_per_commit = 1, records;

/* Frees objects that only the dead process knew.  gawk does not describe its types: every word may be a pointer. */
static int collect(void) {
  nvm_gc_options options = {0};
  options.conservative = 1;
  options.threads = 1;
  return nvm_gc(heap, &options, NULL);
}

/* ---- open -------------------------------------------------------------------------------------------------------- */

/* Whether a file is as gawk's manual tells one to make it: nothing but zeros, mostly holes. */
static int is_blank(int fd) {
  char bytes[1 << 16];
  ssize_t count = 0;
  /* On a file that is one hole this leaves nothing to read. */
  if (lseek(fd, 0, SEEK_DATA) < 0) (void)lseek(fd, 0, errno == ENXIO ? SEEK_END : SEEK_SET);
  while ((count = read(fd, bytes, sizeof bytes)) > 0) {
    if (bytes[0] != 0 || memcmp(bytes, bytes + 1, (size_t)count - 1) != 0) break;
  }
  return count == 0;
}

/* The failure of a call that is not the library's. */
static NVM_POOL* failed(const char* what, const char* file) {
  fprintf(stderr, "holdfast: %s %s: %s\n", what, file, strerror(errno));
  return NULL;
}

/* The descriptor of a blank file, which no other process replaces while it is open; -1: there is none, -2: no lock. */
static int take_blank(const char* file, struct stat* status) {
  struct stat now;
  /* A lock on NFS needs a file that is open for writing; a pipe would wait. */
  const int fd = open(file, O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  int found = -1;
  if (fd < 0) return -1;
  if (fstat(fd, status) == 0 && S_ISREG(status->st_mode) && is_blank(fd)) {
    /* The process that had the lock before may have put a heap there. */
    if (flock(fd, LOCK_EX) != 0) {
      (void)failed("lock", file);
      found = -2;
    } else if (fstat(fd, status) == 0 && stat(file, &now) == 0 && now.st_dev == status->st_dev &&
               now.st_ino == status->st_ino && is_blank(fd)) {
      return fd;
    }
  }
  close(fd);
  return found;
}

/* Makes the name of a file in the folder of `file` durable. */
static int sync_folder(const char* file) {
  char folder[PATH_MAX];
  const char* slash = strrchr(file, '/');
  if (slash == NULL) {
    strcpy(folder, ".");
  } else {
    snprintf(folder, sizeof folder, "%.*s", slash == file ? 1 : (int)(slash - file), file);
  }
  const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int synced = fd < 0 ? -1 : fsync(fd);
  if (fd >= 0) close(fd);
  return synced;
}

/* Puts a heap in the place of a blank file, which stays if that is refused.  Under the blank file's lock. */
static NVM_POOL* replace_blank(const char* file, const nvm_pool_options* options) {
  char beside[PATH_MAX];
  if (snprintf(beside, sizeof beside, "%s.holdfast-new", file) >= (int)sizeof beside) {
    errno = ENAMETOOLONG;
    return failed("name a heap beside", file);
  }
  /* Of a process that was killed here. */
  if (unlink(beside) != 0 && errno != ENOENT) return failed("remove", beside);
  NVM_POOL* pool = nvm_pool_create_with(beside, options);
  if (pool == NULL) return NULL;
  /* A pool is opened under the name that it will have. */
  if (nvm_pool_close(pool) != 0) return NULL;
  if (rename(beside, file) != 0 || sync_folder(file) != 0) return failed("replace", file);
  return nvm_pool_open_or_create(file, options);
}

/* Behind links: all parts of the way to a heap see one file. */
static NVM_POOL* open_heap(const char* name) {
  char behind[PATH_MAX];
  struct stat status;
  nvm_pool_options options = {0};
  uint32_t medium = NVM_MEDIUM_DETECT;
  const char* file = realpath(name, behind);
  if (file == NULL && errno != ENOENT) return failed("find", name);
  if (file == NULL) file = name; /* the library follows a link to no file */
  if (nvm_medium_for(file, &medium) != 0) return NULL;
  /* On a file system the log takes whole transactions, and END rules are one. */
  if (medium == NVM_MEDIUM_SSD) options.log_bytes = (uint64_t)256 << 20;
  const int blank = take_blank(file, &status);
  if (blank == -2) return NULL;
  if (blank < 0) return nvm_pool_open_or_create(file, &options);
  options.size = (uint64_t)status.st_size;
  options.mode = (status.st_mode & 0775) | 0600;
  NVM_POOL* pool = replace_blank(file, &options);
  close(blank);
  return pool;
}

static int find_root(void) {
  void* found = NULL;
  if (nvm_pool_read_root(heap, &found) != 0) return -1;
  root = found;
  if (root == NULL) {
    if (nvm_tx_begin(heap) != 0) return -1;
    root = nvm_calloc(heap, 0, 1, sizeof *root);
    if (root == NULL || nvm_pool_set_root(heap, root) != 0) return -1;
    strncpy(root->version, PACKAGE_STRING, sizeof root->version - 1);
    return nvm_tx_commit(heap);
  }
  const int is_gawks =
      nvm_size_of(heap, root) == sizeof *root && memchr(root->version, 0, sizeof root->version) != NULL;
  if (is_gawks && strcmp(root->version, PACKAGE_STRING) == 0) return 0;
  fprintf(stderr, "holdfast: the heap was made by %s, expected " PACKAGE_STRING "\n",
          is_gawks ? root->version : "another program");
  return -1;
}

int pma_init(int verbose, const char* file) {
  if (file == NULL) return 0;
  heap = open_heap(file);
  if (heap != NULL && find_root() == 0 && collect() == 0 && nvm_tx_next(heap) == 0) {
    const char* every = getenv("GAWK_PERSIST_RECORDS");
    if (every != NULL && strtoul(every, NULL, 10) > 0) records_per_commit = strtoul(every, NULL, 10);
    (void)nvm_scope_begin(heap);
    return 0;
  }
  if (verbose > 0 && nvm_errno() != NVM_OK) fprintf(stderr, "holdfast: %s: %s\n", file, nvm_errormsg());
  pma_errno = nvm_errno();
  return 1;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* The heap is the scope of gawk's only thread, once it is open. */
void* pma_malloc(size_t size) { return nvm_malloc(size); }

void* pma_calloc(size_t count, size_t size) { return nvm_malloc_zeroed(count, size); }

void* pma_realloc(void* p, size_t size) { return nvm_malloc_resize(p, size == 0 ? 1 : size); }

void pma_free(void* p) { nvm_malloc_free(p); }

void* pma_scratch_alloc(size_t size) {
  void* p = calloc(1, size);
  if (p == NULL) {
    fprintf(stderr, "holdfast: no memory for %zu bytes\n", size);
    exit(2);
  }
  return p;
}

void pma_set_root(void* p) { root->gawks = p; }

void* pma_get_root(void) { return root->gawks; }

/* ---- children ---------------------------------------------------------------------------------------------------- */

const char* pma_command;

pid_t pma_fork(const char* command) {
  static char* copy;
  free(copy);
  copy = strdup(command);
  if (copy == NULL) return -1;
  pma_command = copy;
  return fork();
}

/* ---- transactions ------------------------------------------------------------------------------------------------ */

void pma_commit_now(void) {
  if (heap == NULL) return;
  if (nvm_tx_next(heap) != 0) {
    fprintf(stderr, "holdfast: commit: %s\n", nvm_errormsg());
    exit(2);
  }
  records = 0;
}

void pma_commit(void) {
  if (heap != NULL && ++records >= records_per_commit) pma_commit_now();
}
