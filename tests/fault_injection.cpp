#include "fault_injection.hpp"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace nvm::tests {

constinit injection injected;

bool injection::refuses(fault kind) noexcept {
  if (auto* const w = watch.load()) w(kind, false);
  const long first = first_.load();
  if (first == 0 || kind_.load() != kind || paused_.load()) return false;
  const long number = ++seen_;
  if (alternating_ ? (number - first) % 2 != 0 : number < first || (number > first && !lasting_)) return false;
  struck_ = true;
  ++refused_;
  ++refused_here_;
  errno = error_;
  return true;
}

bool poison_page(void* page) noexcept {
  // Of headers after 6.6.
  struct poison_request {
    uffdio_range range;
    __u64 mode;
    __s64 updated;
  };
  constexpr unsigned long poison = _IOWR(UFFDIO, 0x08, poison_request);
  constexpr __u64 feature_poison = __u64{1} << 14;
  const int fd = static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC));
  if (fd < 0) return false;
  const uffdio_range range{reinterpret_cast<std::uintptr_t>(page), 4096};
  uffdio_api api{UFFD_API, feature_poison, 0};
  uffdio_register registered{range, UFFDIO_REGISTER_MODE_MISSING, 0};
  poison_request request{range, 0, 0};
  return ::ioctl(fd, UFFDIO_API, &api) == 0 && ::ioctl(fd, UFFDIO_REGISTER, &registered) == 0 &&
         ::ioctl(fd, poison, &request) == 0;
}

}  // namespace nvm::tests

using nvm::tests::fault;
using nvm::tests::injected;

namespace {

bool is_bad(int descriptor, off_t from, std::size_t bytes) noexcept {
  const auto& bad = injected.bad;
  struct ::stat s{};
  if (bad.inode == 0 || ::fstat(descriptor, &s) != 0 || s.st_ino != bad.inode || s.st_dev != bad.device) return false;
  return bad.offset < from + static_cast<off_t>(bytes) && from < bad.offset + 4096;
}

}  // namespace

extern "C" {

// ---- memory

void* __real_malloc(std::size_t bytes);
void* __real_calloc(std::size_t count, std::size_t bytes);
void* __real_realloc(void* p, std::size_t bytes);
void* __real_aligned_alloc(std::size_t alignment, std::size_t bytes);
void* __wrap_malloc(std::size_t bytes) { return injected.refuses(fault::memory) ? nullptr : __real_malloc(bytes); }
void* __wrap_aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return injected.refuses(fault::memory) ? nullptr : __real_aligned_alloc(alignment, bytes);
}
void* __wrap_calloc(std::size_t count, std::size_t bytes) {
  return injected.refuses(fault::memory) ? nullptr : __real_calloc(count, bytes);
}
void* __wrap_realloc(void* p, std::size_t bytes) {
  return injected.refuses(fault::memory) ? nullptr : __real_realloc(p, bytes);
}

void* __real_mmap(void* at, std::size_t bytes, int rights, int flags, int file, off_t offset);
void* __wrap_mmap(void* at, std::size_t bytes, int rights, int flags, int file, off_t offset) {
  const bool table = at == nullptr && (flags & MAP_ANONYMOUS) != 0;
  if (injected.refuses(table ? fault::memory : fault::map)) return MAP_FAILED;
  if (injected.plays_dax && (flags & MAP_SYNC) == MAP_SYNC)
    flags = (flags & ~(MAP_SYNC | MAP_SHARED_VALIDATE)) | MAP_SHARED;
  void* const made = __real_mmap(at, bytes, rights, flags, file, offset);
  if (made == MAP_FAILED) return made;
  if (at == nullptr) ++injected.mappings;
  if (file >= 0 && is_bad(file, offset, bytes)) {
    void* const page = static_cast<char*>(made) + (injected.bad.offset - offset);
    if (injected.bad.poisoned) {
      if (!nvm::tests::poison_page(page)) std::abort();
      return made;
    }
    // After the end of a file there is nothing that could be read.
    const int empty = ::memfd_create("empty", MFD_CLOEXEC);
    if (__real_mmap(page, 4096, rights, MAP_SHARED | MAP_FIXED, empty, 0) == MAP_FAILED) std::abort();
    ::close(empty);
  }
  return made;
}
int __real_munmap(void* at, std::size_t bytes);
int __wrap_munmap(void* at, std::size_t bytes) {
  --injected.mappings;
  return __real_munmap(at, bytes);
}
int __real_madvise(void* at, std::size_t bytes, int advice);
int __wrap_madvise(void* at, std::size_t bytes, int advice) {
  return injected.refuses(fault::advise) ? -1 : __real_madvise(at, bytes, advice);
}
int __real_mprotect(void* at, std::size_t bytes, int rights);
int __wrap_mprotect(void* at, std::size_t bytes, int rights) {
  return injected.refuses(fault::advise) ? -1 : __real_mprotect(at, bytes, rights);
}

// ---- files

int __real_open(const char* path, int flags, unsigned mode);
int __wrap_open(const char* path, int flags, unsigned mode) {
  return injected.refuses(fault::open) ? -1 : __real_open(path, flags, mode);
}
int __real_close(int descriptor);
int __wrap_close(int descriptor) {
  const int closed = __real_close(descriptor);
  return injected.refuses(fault::close) ? -1 : closed;
}
ssize_t __real_pread(int descriptor, void* to, std::size_t bytes, off_t offset);
ssize_t __wrap_pread(int descriptor, void* to, std::size_t bytes, off_t offset) {
  if (injected.refuses(fault::read)) return -1;
  if (is_bad(descriptor, offset, bytes)) {
    errno = EIO;
    return -1;
  }
  return __real_pread(descriptor, to, bytes, offset);
}
ssize_t __real_pwrite(int descriptor, const void* from, std::size_t bytes, off_t offset);
ssize_t __wrap_pwrite(int descriptor, const void* from, std::size_t bytes, off_t offset) {
  return injected.refuses(fault::write) ? -1 : __real_pwrite(descriptor, from, bytes, offset);
}
int __real_fdatasync(int descriptor);
int __wrap_fdatasync(int descriptor) {
  if (injected.refuses(fault::sync)) return -1;
  const int made = __real_fdatasync(descriptor);
  if (made == 0) injected.made(fault::sync);
  return made;
}
int __real_fsync(int descriptor);
int __wrap_fsync(int descriptor) { return injected.refuses(fault::sync) ? -1 : __real_fsync(descriptor); }
int __real_msync(void* at, std::size_t bytes, int flags);
int __wrap_msync(void* at, std::size_t bytes, int flags) {
  return injected.refuses(fault::sync) ? -1 : __real_msync(at, bytes, flags);
}
int __real_fallocate(int descriptor, int mode, off_t offset, off_t bytes);
int __wrap_fallocate(int descriptor, int mode, off_t offset, off_t bytes) {
  if (injected.refuses(fault::room)) return -1;
  const int made = __real_fallocate(descriptor, mode, offset, bytes);
  if (made == 0) injected.made(fault::room);
  return made;
}
int __real_ftruncate(int descriptor, off_t bytes);
int __wrap_ftruncate(int descriptor, off_t bytes) {
  return injected.refuses(fault::room) ? -1 : __real_ftruncate(descriptor, bytes);
}
int __real_fstat(int descriptor, struct ::stat* out);
int __wrap_fstat(int descriptor, struct ::stat* out) {
  return injected.refuses(fault::facts) ? -1 : __real_fstat(descriptor, out);
}
int __real_fstatfs(int descriptor, struct ::statfs* out);
int __wrap_fstatfs(int descriptor, struct ::statfs* out) {
  return injected.refuses(fault::facts) ? -1 : __real_fstatfs(descriptor, out);
}
int __real_fcntl(int descriptor, int command, void* argument);
int __wrap_fcntl(int descriptor, int command, void* argument) {
  return injected.refuses(fault::lock) ? -1 : __real_fcntl(descriptor, command, argument);
}
int __real_rename(const char* from, const char* to);
int __wrap_rename(const char* from, const char* to) {
  return injected.refuses(fault::name) ? -1 : __real_rename(from, to);
}
int __real_link(const char* from, const char* to);
int __wrap_link(const char* from, const char* to) { return injected.refuses(fault::name) ? -1 : __real_link(from, to); }
int __real_renameat2(int at, const char* from, int to_at, const char* to, unsigned flags);
int __wrap_renameat2(int at, const char* from, int to_at, const char* to, unsigned flags) {
  return injected.refuses(fault::name) ? -1 : __real_renameat2(at, from, to_at, to, flags);
}
int __real_linkat(int at, const char* from, int to_at, const char* to, int flags);
int __wrap_linkat(int at, const char* from, int to_at, const char* to, int flags) {
  return injected.refuses(fault::name) ? -1 : __real_linkat(at, from, to_at, to, flags);
}
}

namespace {
void* allocate(std::size_t bytes) noexcept { return injected.refuses(fault::memory) ? nullptr : __real_malloc(bytes); }
void* allocate(std::size_t bytes, std::align_val_t alignment) noexcept {
  const auto a = static_cast<std::size_t>(alignment);
  return injected.refuses(fault::memory) ? nullptr : __real_aligned_alloc(a, (bytes + a - 1) / a * a);
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
// What a new expression calls if a constructor throws: replaced too, or it would meet memory of another malloc.
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t, const std::nothrow_t&) noexcept { std::free(p); }
