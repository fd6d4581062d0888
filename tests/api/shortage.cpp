#include "shortage.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstdlib>
#include <new>

namespace nvm::tests {
constinit shortage memory;
}
using nvm::tests::memory;

extern "C" {
void* __real_malloc(std::size_t bytes);
void* __real_calloc(std::size_t count, std::size_t bytes);
void* __real_realloc(void* p, std::size_t bytes);
void* __wrap_malloc(std::size_t bytes) { return memory.refuses() ? nullptr : __real_malloc(bytes); }
void* __wrap_calloc(std::size_t count, std::size_t bytes) {
  return memory.refuses() ? nullptr : __real_calloc(count, bytes);
}
void* __real_mmap(void* at, std::size_t bytes, int rights, int flags, int file, off_t offset);
void* __wrap_realloc(void* p, std::size_t bytes) { return memory.refuses() ? nullptr : __real_realloc(p, bytes); }
// Large tables; where pools lie is not memory.
void* __wrap_mmap(void* at, std::size_t bytes, int rights, int flags, int file, off_t offset) {
  const bool table = at == nullptr && (flags & MAP_ANONYMOUS) != 0;
  if (!table || !memory.refuses()) return __real_mmap(at, bytes, rights, flags, file, offset);
  errno = ENOMEM;
  return MAP_FAILED;
}
}

namespace {
void* allocate(std::size_t bytes) noexcept { return memory.refuses() ? nullptr : __real_malloc(bytes); }
void* allocate(std::size_t bytes, std::align_val_t alignment) noexcept {
  const auto a = static_cast<std::size_t>(alignment);
  return memory.refuses() ? nullptr : std::aligned_alloc(a, (bytes + a - 1) / a * a);
}
void* or_throw(void* p) {
  if (p == nullptr) throw std::bad_alloc{};
  return p;
}
}  // namespace

// All of them: the sanitizers have some of their own that would not meet with ours.
void* operator new(std::size_t n) { return or_throw(allocate(n)); }
void* operator new[](std::size_t n) { return or_throw(allocate(n)); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return allocate(n); }
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept { return allocate(n); }
void* operator new(std::size_t n, std::align_val_t a) { return or_throw(allocate(n, a)); }
void* operator new[](std::size_t n, std::align_val_t a) { return or_throw(allocate(n, a)); }
void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept { return allocate(n, a); }
void* operator new[](std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept { return allocate(n, a); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
