// Emulated latency for libpmemobj: definitions of the few functions of libpmem that it writes back and waits by, which
// call libpmem's and then wait as harness/emulation.hpp says.
//
// A library to be preloaded, so that runs without emulation execute libpmem's own functions and nothing else.  What to
// emulate comes by the environment, HOLDFAST_BENCH_EMULATION="fence_ns writeback_ns bandwidth": options.cpp sets both.
// pmem_persist() needs no definition: it calls the other two.
#include <dlfcn.h>
#include <libpmem.h>

#include <cstdio>
#include <cstdlib>

#include "harness/emulation.hpp"

namespace {

using nvm::bench::emulation;

const emulation& settings() noexcept {
  static const emulation known = [] {
    emulation e;
    unsigned long long fence = 0, writeback = 0, bandwidth = 0;
    const char* text = std::getenv("HOLDFAST_BENCH_EMULATION");
    if (text != nullptr && std::sscanf(text, "%llu %llu %llu", &fence, &writeback, &bandwidth) == 3)
      e = {fence, writeback, bandwidth};
    return e;
  }();
  return known;
}

thread_local nvm::bench::emulated_batch batch;

void wrote(const void* p, std::size_t bytes) noexcept {
  const auto first = reinterpret_cast<std::uintptr_t>(p) / 64;
  if (bytes != 0) batch.wrote((reinterpret_cast<std::uintptr_t>(p) + bytes - 1) / 64 - first + 1);
}

template <class Function>
Function* next_definition(const char* name) noexcept {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// What a copy with these flags still has to wait for.
void* done(void* to, std::size_t bytes, unsigned flags) noexcept {
  if ((flags & PMEM_F_MEM_NOFLUSH) != 0) return to;
  wrote(to, bytes);
  if ((flags & PMEM_F_MEM_NODRAIN) == 0) batch.fence(settings());
  return to;
}

}  // namespace

#define NVM_BENCH_INTERPOSE extern "C" __attribute__((visibility("default")))

NVM_BENCH_INTERPOSE void pmem_flush(const void* p, size_t bytes) {
  static auto* const next = next_definition<void(const void*, size_t)>("pmem_flush");
  next(p, bytes);
  wrote(p, bytes);
}
NVM_BENCH_INTERPOSE void pmem_drain(void) {
  static auto* const next = next_definition<void()>("pmem_drain");
  next();
  batch.fence(settings());
}
NVM_BENCH_INTERPOSE void* pmem_memcpy(void* to, const void* from, size_t bytes, unsigned flags) {
  static auto* const next = next_definition<void*(void*, const void*, size_t, unsigned)>("pmem_memcpy");
  next(to, from, bytes, flags);
  return done(to, bytes, flags);
}
NVM_BENCH_INTERPOSE void* pmem_memmove(void* to, const void* from, size_t bytes, unsigned flags) {
  static auto* const next = next_definition<void*(void*, const void*, size_t, unsigned)>("pmem_memmove");
  next(to, from, bytes, flags);
  return done(to, bytes, flags);
}
NVM_BENCH_INTERPOSE void* pmem_memset(void* to, int byte, size_t bytes, unsigned flags) {
  static auto* const next = next_definition<void*(void*, int, size_t, unsigned)>("pmem_memset");
  next(to, byte, bytes, flags);
  return done(to, bytes, flags);
}
