// nvm/placed.h: a store of the program's own, and allocation in it.
//
// Only attach() and its callees know what the store is: a pool of its own.  Objects are of type char, bytes without
// pointers.
//
// Threads: any.  The store is attached once, by the thread that runs main, before others begin; NVM_PLACED is each
// thread's own.
#include "nvm/placed.h"

#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "nvm/nvm.h"

namespace {

NVM_POOL* pool = nullptr;
bool is_off = false;
thread_local unsigned inside;  // NVM_PLACED, levels

constexpr std::uint32_t bytes_type = nvm_type_id_of_name("char");
constexpr std::uint64_t size_at_first = std::uint64_t{8} << 20;
constexpr std::uint64_t capacity = std::uint64_t{16} << 30;

[[noreturn]] void stop(const char* path, const char* why) {
  std::fprintf(stderr, "holdfast: the program's store %s: %s\n", path, why);
  std::exit(1);
}

// One folder for each user, to which no other user can write.
void own_folder(char* to, std::size_t room) {
  std::snprintf(to, room, "/dev/shm/holdfast-%u", static_cast<unsigned>(geteuid()));
  if (mkdir(to, 0700) != 0 && errno != EEXIST) stop(to, std::strerror(errno));
  struct stat s{};
  if (lstat(to, &s) != 0) stop(to, std::strerror(errno));
  if (!S_ISDIR(s.st_mode) || s.st_uid != geteuid() || (s.st_mode & 022) != 0)
    stop(to, "expected a folder of this user that no other user can write to");
}

// The program's path, with '%' for '/'; of one that is too long its end, after a number made of all of it.
void store_name(char* to, std::size_t room) {
  char program[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
  if (n <= 0) stop("/proc/self/exe", std::strerror(errno));
  program[n] = '\0';
  char folder[64];
  own_folder(folder, sizeof folder);
  constexpr ssize_t name_max = 200;
  std::uint64_t sum = 14695981039346656037U;
  for (ssize_t k = 0; k < n; ++k) {
    sum = (sum ^ static_cast<unsigned char>(program[k])) * 1099511628211U;
    if (program[k] == '/') program[k] = '%';
  }
  const char* const shown = program + (n <= name_max ? 0 : n - name_max);
  char number[24] = "";
  if (n > name_max) std::snprintf(number, sizeof number, "%016llx", static_cast<unsigned long long>(sum));
  const int made = std::snprintf(to, room, "%s/%s%s.nvm", folder, number, shown);
  if (made < 0 || static_cast<std::size_t>(made) >= room) stop(shown, "its name is too long");
}

int is_any(void*, std::uint32_t, std::size_t, void*) { return 1; }

NVM_POOL* open_store(const char* path) {
  nvm_pool_options o{};
  o.size = size_at_first;
  o.capacity = capacity;
  o.relocation = NVM_RELOCATE_NEVER;
  o.untyped = NVM_UNTYPED_BYTES;
  NVM_POOL* p = nvm_pool_open_or_create(path, &o);
  if (p == nullptr) stop(path, nvm_errormsg());
  return p;
}

// Objects to which no root leads are of an earlier run, which this one cannot reach: the file is made anew while it is
// owned.
NVM_POOL* without_leftovers(const char* path, NVM_POOL* p) {
  void* root = nullptr;
  if (nvm_pool_read_root(p, &root) != 0) stop(path, nvm_errormsg());
  if (root != nullptr) return p;
  const int some = nvm_pool_each(p, is_any, nullptr);
  if (some < 0) stop(path, nvm_errormsg());
  if (some == 0) return p;
  if (unlink(path) != 0) stop(path, std::strerror(errno));
  NVM_POOL* fresh = open_store(path);
  if (nvm_pool_close(p) != 0) stop(path, nvm_errormsg());
  return fresh;
}

void attach() {
  char path[PATH_MAX];
  const char* named = std::getenv("HOLDFAST_PLACED");
  if (named != nullptr && std::strcmp(named, "off") == 0) {
    is_off = true;
    return;
  }
  if (named != nullptr && *named != '\0') {
    std::snprintf(path, sizeof path, "%s", named);
  } else {
    store_name(path, sizeof path);
  }
  pool = without_leftovers(path, open_store(path));
}

// ---- objects --------------------------------------------------------------------------------------------------------

// Begins a level of its own, and waits for a lane if need be; false: none could begin.
bool begin() {
  while (nvm_tx_begin(pool) != 0) {
    if (nvm_errno() != NVM_E_NO_LANE) return false;
    sched_yield();
  }
  return true;
}

void* no_memory() {
  errno = ENOMEM;
  return nullptr;
}

// Runs `make` in a level of its own; the object that it returns exists from then on.
template <class Make>
void* durably(Make make) {
  if (!begin()) return no_memory();
  void* p = make();
  if (p == nullptr) {
    (void)nvm_tx_abort(pool);
    return no_memory();
  }
  return nvm_tx_commit(pool) == 0 ? p : no_memory();
}

std::size_t at_least_one(std::size_t size) { return size == 0 ? 1 : size; }

[[noreturn]] void misused(const char* call, const void* object) {
  std::fprintf(stderr, "holdfast: %s of %p: %s\n", call, object, nvm_errormsg());
  std::abort();
}

// A child of fork() has none of the parent's objects: it cannot free them either.
bool is_child() { return nvm_errno() == NVM_E_FORKED; }

void free_durable(void* object) {
  if (!begin()) {
    if (is_child()) return;
    misused("nvm_placed_free", object);
  }
  NVM_POOL* const owner = nvm_pool_of(object);
  const bool freed = owner == pool && nvm_free(pool, object) == 0;
  if (!freed) {
    (void)nvm_tx_abort(pool);
    misused("nvm_placed_free", object);
  }
  if (nvm_tx_commit(pool) != 0) misused("nvm_placed_free", object);
}

void* resize_durable(void* object, std::size_t size) {
  if (size == 0) {
    free_durable(object);
    return nullptr;
  }
  return durably([&] { return nvm_realloc(pool, object, bytes_type, size); });
}

bool product(std::size_t a, std::size_t b, std::size_t& to) { return !__builtin_mul_overflow(a, b, &to); }

}  // namespace

#define NVM_PLACED_CALL extern "C" __attribute__((visibility("default")))

NVM_PLACED_CALL int nvm_placed_start(void) {
  if (pool == nullptr && !is_off) attach();
  return pool != nullptr ? 1 : 0;
}
NVM_PLACED_CALL NVM_POOL* nvm_placed_pool(void) { return pool; }

NVM_PLACED_CALL void* nvm_placed_malloc(std::size_t size) {
  if (pool == nullptr) return std::malloc(size);
  return durably([&] { return nvm_alloc(pool, bytes_type, at_least_one(size)); });
}
NVM_PLACED_CALL void* nvm_placed_calloc(std::size_t count, std::size_t size) {
  if (pool == nullptr) return std::calloc(count, size);
  std::size_t all = 0;
  if (!product(count, size, all)) return no_memory();
  return durably([&] { return nvm_calloc(pool, bytes_type, 1, at_least_one(all)); });
}
NVM_PLACED_CALL char* nvm_placed_strndup(const char* text, std::size_t most) {
  if (pool == nullptr) return strndup(text, most);
  const std::size_t length = strnlen(text, most);
  return static_cast<char*>(durably([&]() -> void* {
    auto* p = static_cast<char*>(nvm_alloc(pool, bytes_type, length + 1));
    if (p == nullptr) return nullptr;
    std::memcpy(p, text, length);
    p[length] = '\0';
    return p;
  }));
}
NVM_PLACED_CALL char* nvm_placed_strdup(const char* text) {
  return pool == nullptr ? strdup(text) : nvm_placed_strndup(text, std::strlen(text));
}
NVM_PLACED_CALL void* nvm_placed_aligned(std::size_t alignment, std::size_t size) {
  if (pool == nullptr) return memalign(alignment, size);
  return durably([&] { return nvm_alloc_aligned(pool, bytes_type, at_least_one(size), alignment); });
}
NVM_PLACED_CALL void* nvm_placed_grow(void* object, std::size_t size) {
  return object == nullptr ? nvm_placed_malloc(size) : nvm_placed_realloc(object, size);
}

NVM_PLACED_CALL void* nvm_placed_realloc(void* object, std::size_t size) {
  return nvm_is_durable(object) != 0 ? resize_durable(object, size) : std::realloc(object, size);
}
NVM_PLACED_CALL void* nvm_placed_reallocarray(void* object, std::size_t count, std::size_t size) {
  std::size_t all = 0;
  return product(count, size, all) ? nvm_placed_realloc(object, all) : no_memory();
}
NVM_PLACED_CALL void nvm_placed_free(void* object) {
  if (nvm_is_durable(object) == 0) return std::free(object);
  const int before = errno;
  free_durable(object);
  errno = before;
}
NVM_PLACED_CALL std::size_t nvm_placed_size(void* object) {
  return nvm_is_durable(object) != 0 ? nvm_size_of(pool, object) : malloc_usable_size(object);
}

NVM_PLACED_CALL void nvm_placed_enter(void) { ++inside; }
NVM_PLACED_CALL void* nvm_placed_leave(void* object) {
  --inside;
  return object;
}
NVM_PLACED_CALL void* nvm_placed_malloc_here(std::size_t size) {
  return inside != 0 ? nvm_placed_malloc(size) : std::malloc(size);
}
NVM_PLACED_CALL void* nvm_placed_calloc_here(std::size_t count, std::size_t size) {
  return inside != 0 ? nvm_placed_calloc(count, size) : std::calloc(count, size);
}
NVM_PLACED_CALL char* nvm_placed_strdup_here(const char* text) {
  return inside != 0 ? nvm_placed_strdup(text) : strdup(text);
}
NVM_PLACED_CALL char* nvm_placed_strndup_here(const char* text, std::size_t most) {
  return inside != 0 ? nvm_placed_strndup(text, most) : strndup(text, most);
}
NVM_PLACED_CALL void* nvm_placed_aligned_here(std::size_t alignment, std::size_t size) {
  return inside != 0 ? nvm_placed_aligned(alignment, size) : memalign(alignment, size);
}
NVM_PLACED_CALL void* nvm_placed_grow_here(void* object, std::size_t size) {
  return inside != 0 ? nvm_placed_grow(object, size) : nvm_placed_realloc(object, size);
}
