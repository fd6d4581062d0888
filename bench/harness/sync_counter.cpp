#include "harness/sync_counter.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

namespace {

std::atomic<std::uint64_t> waits{0};

// relaxed: a statistic that orders nothing.
void count_wait() noexcept { waits.fetch_add(1, std::memory_order_relaxed); }

// The definition that this one hides.
template <class Function>
Function* next_definition(const char* name) noexcept {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

bool writes_wait(int fd) noexcept {
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_DSYNC) != 0;  // O_SYNC contains the bit of O_DSYNC
}

}  // namespace

#define NVM_BENCH_INTERPOSE extern "C" __attribute__((visibility("default")))

NVM_BENCH_INTERPOSE int fsync(int fd) {
  static auto* const next = next_definition<int(int)>("fsync");
  count_wait();
  return next(fd);
}

NVM_BENCH_INTERPOSE int fdatasync(int fd) {
  static auto* const next = next_definition<int(int)>("fdatasync");
  count_wait();
  return next(fd);
}

NVM_BENCH_INTERPOSE int msync(void* start, size_t bytes, int flags) {
  static auto* const next = next_definition<int(void*, size_t, int)>("msync");
  if ((flags & MS_SYNC) != 0) count_wait();
  return next(start, bytes, flags);
}

NVM_BENCH_INTERPOSE int sync_file_range(int fd, off64_t offset, off64_t bytes, unsigned flags) {
  static auto* const next = next_definition<int(int, off64_t, off64_t, unsigned)>("sync_file_range");
  if ((flags & SYNC_FILE_RANGE_WAIT_AFTER) != 0) count_wait();
  return next(fd, offset, bytes, flags);
}

NVM_BENCH_INTERPOSE ssize_t pwrite(int fd, const void* bytes, size_t n, off_t offset) {
  static auto* const next = next_definition<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  if (writes_wait(fd)) count_wait();
  return next(fd, bytes, n, offset);
}

NVM_BENCH_INTERPOSE ssize_t pwrite64(int fd, const void* bytes, size_t n, off64_t offset) {
  static auto* const next = next_definition<ssize_t(int, const void*, size_t, off64_t)>("pwrite64");
  if (writes_wait(fd)) count_wait();
  return next(fd, bytes, n, offset);
}

namespace nvm::bench {

std::uint64_t durable_waits() noexcept { return waits.load(std::memory_order_relaxed); }

std::uint64_t device_bytes() noexcept {
  std::FILE* io = std::fopen("/proc/self/io", "r");
  if (io == nullptr) return 0;
  unsigned long long bytes = 0;
  char line[128];
  while (std::fgets(line, sizeof line, io) != nullptr)
    if (std::sscanf(line, "write_bytes: %llu", &bytes) == 1) break;
  std::fclose(io);
  return bytes;
}

}  // namespace nvm::bench
