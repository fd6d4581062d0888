/* What the calls of cases.txt are compiled into: each is made on durable memory in a transaction that is aborted, and
 * the memory compared.  Prints what differs, and the number of calls that wrote something. */
#define _GNU_SOURCE
#include <argz.h>
#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <envz.h>
#include <err.h>
#include <execinfo.h>
#include <fcntl.h>
#include <fenv.h>
#include <getopt.h>
#include <glob.h>
#include <grp.h>
#include <iconv.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <libgen.h>
#include <locale.h>
#include <math.h>
#include <mntent.h>
#include <monetary.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/ether.h>
#include <netinet/in.h>
#include <nvm/nvm.h>
#include <poll.h>
#include <printf.h>
#include <pthread.h>
#include <pty.h>
#include <pwd.h>
#include <regex.h>
#include <resolv.h>
#include <sched.h>
#include <search.h>
#include <semaphore.h>
#include <setjmp.h>
#include <shadow.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/timex.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <termios.h>
#include <threads.h>
#include <time.h>
#include <uchar.h>
#include <ucontext.h>
#include <unistd.h>
#include <wchar.h>
#include <wordexp.h>

enum { memory_bytes = 16384 };

/* Not static: the compiler knows nothing of their values. */
int one = 1;
const char* text = "some text, some more";
const wchar_t* wide = L"wide";
const char* name;
int in, nothing;
FILE *stream, *null;
char trash[1000];
wchar_t wtrash[1000];
struct tm calendar = {.tm_mday = 5, .tm_mon = 3, .tm_year = 101};

struct a_case {
  const char* call;
  void (*before)(char* m, wchar_t* w);
  void (*run)(char* m, wchar_t* w);
};

extern int __xpg_strerror_r(int, char*, size_t);
static int compare(const void* a, const void* b) { return *(const char*)a - *(const char*)b; }
static int compare_r(const void* a, const void* b, void* more) { return (void)more, compare(a, b); }
static void* thread(void* p) { return (void)p, &one; }
static int thrd(void* p) { return (void)p, 5; }
__attribute__((noinline)) static void print_list(char* m, int n, const char* format, ...) {
  va_list list;
  va_start(list, format);
  if (n == 1) vsnprintf(m, 0x7fffffff, format, list);
  va_end(list);
  va_start(list, format);
  vsprintf(m + 100, format, list);
  va_end(list);
}
__attribute__((noinline)) static void scan_list(const char* from, const char* format, ...) {
  va_list list;
  va_start(list, format);
  vsscanf(from, format, list);
  va_end(list);
}
#define NVM_LIST(name, format_type, ...)                                         \
  __attribute__((noinline)) static void name(void* m, format_type format, ...) { \
    va_list list;                                                                \
    va_start(list, format);                                                      \
    __VA_ARGS__;                                                                 \
    va_end(list);                                                                \
  }
NVM_LIST(vasprint_list, const char*, vasprintf((char**)m, format, list))
NVM_LIST(vprint_list, const char*, ((int*)m)[1] = vfprintf(null, format, list))
NVM_LIST(vwprint_list, const wchar_t*, vswprintf((wchar_t*)m, 100, format, list))
static void vfscan_list(const char* format, ...) {
  va_list list;
  va_start(list, format);
  vfscanf(stream, format, list);
  va_end(list);
}
static void vwscan_list(const wchar_t* format, ...) {
  va_list list;
  va_start(list, format);
  vswscanf(wide, format, list);
  va_end(list);
}
/* warn() writes to the standard error. */
static void warn_at(int* m) {
  FILE* const before = stderr;
  stderr = null;
  warnx("%d%n", one, m);
  stderr = before;
}
static void getpwent_of(char* m) {
  setpwent();
  getpwent_r((struct passwd*)m, m + 512, 1000, (struct passwd**)(m + 256));
  endpwent();
}
static ucontext_t* came_from;
static void go_back(void) { setcontext(came_from); }
/* To another stack and back: the context that is returned to is durable. */
static void swapcontext_back(ucontext_t* m, ucontext_t* other) {
  static char stack[65536];
  getcontext(other);
  other->uc_stack.ss_sp = stack;
  other->uc_stack.ss_size = sizeof stack;
  other->uc_link = NULL;
  came_from = m;
  makecontext(other, go_back, 0);
  swapcontext(m, other);
}
static int full_socket(void) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || write(ends[0], "message", 7) != 7) abort();
  return ends[1];
}
static int waiting_socket(void) {
  struct sockaddr_un where = {AF_UNIX, {0}};
  socklen_t bytes = sizeof where;
  const int listens = socket(AF_UNIX, SOCK_STREAM, 0);
  const int calls = socket(AF_UNIX, SOCK_STREAM, 0);
  if (bind(listens, (struct sockaddr*)&where, sizeof where.sun_family) != 0 || listen(listens, 1) != 0) abort();
  if (getsockname(listens, (struct sockaddr*)&where, &bytes) != 0) abort();
  if (connect(calls, (struct sockaddr*)&where, bytes) != 0) abort();
  return listens;
}
static int terminal(void) {
  static int known = -1;
  if (known < 0) known = posix_openpt(O_RDWR | O_NOCTTY);
  return known;
}
static pid_t fork_quickly(void) {
  const pid_t child = fork();
  if (child == 0) _exit(3);
  return child;
}

static int run_all(const struct a_case* all, size_t count, const char* pool_name) {
  unsetenv("TZ");
  setvbuf(stdout, NULL, _IOLBF, 0);
  static char file[] = "/tmp/holdfast-libc-XXXXXX";
  in = mkstemp(file);
  if (in < 0 || write(in, text, strlen(text)) < 0) abort();
  name = file;
  stream = fopen(file, "r");
  null = fopen("/dev/null", "w");
  nothing = fileno(null);
  NVM_POOL* pool = nvm_pool_create(pool_name, 64 << 20);
  if (pool == NULL || stream == NULL) {
    fprintf(stderr, "%s\n", nvm_errormsg());
    return 1;
  }
  nvm_tx_begin(pool);
  char* m = nvm_alloc(pool, 1, memory_bytes);
  nvm_pool_set_root(pool, m);
  nvm_tx_commit(pool);
  static char before[memory_bytes];
  size_t wrote = 0;
  int wrong = 0;
  for (size_t k = 0; k < count; ++k) {
    lseek(in, 0, SEEK_SET);
    fclose(stream);
    stream = fopen(file, "r");
    nvm_tx_begin(pool);
    memset(m, 0x5a, memory_bytes);
    all[k].before(m, (wchar_t*)m);
    nvm_tx_commit(pool);
    memcpy(before, m, memory_bytes);
    nvm_tx_begin(pool);
    all[k].run(m, (wchar_t*)m);
    const int changed = memcmp(before, m, memory_bytes) != 0;
    nvm_tx_abort(pool);
    wrote += (size_t)changed;
    if (!changed) printf("nothing written: %s\n", all[k].call);
    for (size_t i = 0; i < memory_bytes; ++i) {
      if (before[i] == m[i]) continue;
      printf("not taken back, at %zu: %s\n", i, all[k].call);
      ++wrong;
      break;
    }
  }
  printf("%zu calls, %zu wrote, %d were not taken back\n", count, wrote, wrong);
  unlink(file);
  return nvm_pool_close(pool) != 0 || wrong != 0 || wrote * 20 < count * 19;
}
