// The workloads of footprint.hpp on jemalloc: a program of its own, started by bench-logheap with libjemalloc.so.2
// preloaded, for the library's thread-local memory has no room in a process that is running already.
//
// usage: bench-jemalloc-footprint W1|W2|W3 BYTES PER_TRANSACTION
// prints: live, taken and settled bytes, objects (footprint.hpp).  Exit code 3: jemalloc is not there.
#include <dlfcn.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include "logheap/footprint.hpp"

namespace nvm::bench {
namespace {

class jemalloc final : public footprint_heap {
 public:
  jemalloc()
      : mallctl_(reinterpret_cast<control>(dlsym(RTLD_DEFAULT, "mallctl"))),
        allocate_(reinterpret_cast<allocation>(dlsym(RTLD_DEFAULT, "mallocx"))),
        free_(reinterpret_cast<release_call>(dlsym(RTLD_DEFAULT, "dallocx"))) {}
  bool exists() const { return mallctl_ != nullptr && allocate_ != nullptr && free_ != nullptr; }

  std::uint64_t allocate(std::uint64_t size) override {
    void* const p = allocate_(size, 0);
    if (p == nullptr) throw std::runtime_error("no memory");
    std::memset(p, 1, size);
    return reinterpret_cast<std::uint64_t>(p);
  }
  void release(std::uint64_t object, std::uint64_t /*size*/) override { free_(reinterpret_cast<void*>(object), 0); }
  // Resident: pages of objects and the allocator's own, and pages that are free and not given back yet.
  std::uint64_t bytes() override {
    std::uint64_t epoch = 1;
    mallctl_("epoch", nullptr, nullptr, &epoch, sizeof epoch);
    std::size_t value = 0;
    std::size_t length = sizeof value;
    if (mallctl_("stats.resident", &value, &length, nullptr, 0) != 0)
      throw std::runtime_error("jemalloc has no statistics");
    return value;
  }
  void settle() override {
    mallctl_("thread.tcache.flush", nullptr, nullptr, nullptr, 0);
    mallctl_("arena.4096.purge", nullptr, nullptr, nullptr, 0);  // of all arenas
  }

 private:
  using control = int (*)(const char*, void*, std::size_t*, void*, std::size_t);
  using allocation = void* (*)(std::size_t, int);
  using release_call = void (*)(void*, int);
  control mallctl_;
  allocation allocate_;
  release_call free_;
};

}  // namespace
}  // namespace nvm::bench

int main(int argc, char** argv) {
  using namespace nvm::bench;
  if (argc != 4) return 2;
  jemalloc heap;
  if (!heap.exists()) return 3;
  try {
    for (const footprint_workload& w : footprint_workloads) {
      if (std::string{argv[1]} != w.name) continue;
      const footprint f = run_footprint(heap, w, std::strtoull(argv[2], nullptr, 10),
                                        static_cast<unsigned>(std::strtoul(argv[3], nullptr, 10)));
      std::printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", f.live_bytes, f.taken_bytes, f.settled_bytes,
                  f.objects);
      return 0;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 2;
}
