// The allocations of runs.cpp by jemalloc: a program of its own, started with libjemalloc.so.2 preloaded.
//
// usage: bench-jemalloc-runs SIZE THREADS PAIRS
// prints: nanoseconds of a pair.  Exit code 3: jemalloc is not there.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "region/allocations.hpp"

int main(int argc, char** argv) {
  using allocation = void* (*)(std::size_t, int);
  using release_call = void (*)(void*, int);
  const auto allocate = reinterpret_cast<allocation>(dlsym(RTLD_DEFAULT, "mallocx"));
  const auto release = reinterpret_cast<release_call>(dlsym(RTLD_DEFAULT, "dallocx"));
  if (allocate == nullptr || release == nullptr || argc != 4) return 3;
  const nvm::bench::allocation_load l{std::strtoull(argv[1], nullptr, 10),
                                      static_cast<unsigned>(std::strtoul(argv[2], nullptr, 10)),
                                      std::strtoull(argv[3], nullptr, 10)};
  struct heap {
    allocation take;
    release_call give;
    std::uint64_t size;
    std::vector<void*> all;
    void allocate(std::uint64_t i) {
      all[i] = take(size, 0);
      if (all[i] == nullptr) std::exit(3);
      *static_cast<volatile std::uint64_t*>(all[i]) = i;
    }
    void release(std::uint64_t i) { give(all[i], 0); }
  };
  std::printf("%.1f\n", time_allocations(l, [&](unsigned) {
                return heap{allocate, release, l.size, std::vector<void*>(l.kept())};
              }));
  return 0;
}
