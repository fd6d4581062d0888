// The run-time half of the recording pass: one attached set of hooks, one thread.
//
// The globals are written only by attach and detach, while no instrumented store of another thread into the range can
// happen; a store by a foreign thread is an error that stops the program, because the trace would be wrong.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "nvm/record.h"

namespace {

nvm_rec_hooks hooks{};
void* owner = nullptr;

[[noreturn, gnu::cold]] void stop(const char* why, const nvm_rec_site* site) {
  std::fprintf(stderr, "holdfast: recorder: %s (at %s:%u)\n", why, site == nullptr ? "?" : site->file,
               site == nullptr ? 0 : site->line);
  std::abort();
}

inline void check_thread(const nvm_rec_site* site) {
  if (__builtin_expect(owner != __builtin_thread_pointer(), 0)) {
    stop("a thread other than the recording one touched the watched range", site);
  }
}

}  // namespace

extern "C" {

std::uintptr_t __nvm_rec_base = 0;
std::size_t __nvm_rec_bytes = 0;
std::int64_t __nvm_rec_steps = INT64_MAX;

void __nvm_rec_store(const void* p, std::size_t bytes, const nvm_rec_site* site) {
  if (bytes == 0) return;
  check_thread(site);
  if (hooks.store != nullptr) hooks.store(hooks.self, p, bytes, site);
}

void __nvm_rec_string(const char* p, const nvm_rec_site* site) { __nvm_rec_store(p, std::strlen(p) + 1, site); }

void __nvm_rec_masked(const void* p, std::size_t lane_bytes, std::uint64_t mask, const nvm_rec_site* site) {
  const auto* base = static_cast<const char*>(p);
  while (mask != 0) {
    const auto first = static_cast<unsigned>(__builtin_ctzll(mask));
    const std::uint64_t rest = mask >> first;
    const unsigned run = ~rest == 0 ? 64 : static_cast<unsigned>(__builtin_ctzll(~rest));
    __nvm_rec_store(base + first * lane_bytes, run * lane_bytes, site);
    if (first + run >= 64) return;
    mask &= ~std::uint64_t{0} << (first + run);
  }
}

void __nvm_rec_rmw(const void* p, std::size_t bytes, const nvm_rec_site* site) {
  // Other threads' locked operations outside the range are ignored.
  if (owner != __builtin_thread_pointer()) {
    if (reinterpret_cast<std::uintptr_t>(p) - __nvm_rec_base < __nvm_rec_bytes) check_thread(site);
    return;
  }
  if (hooks.rmw != nullptr) hooks.rmw(hooks.self, p, bytes, site);
}

void __nvm_rec_flush(const void* p, const nvm_rec_site* site) {
  if (owner == __builtin_thread_pointer() && hooks.flush != nullptr) hooks.flush(hooks.self, p, site);
}

void __nvm_rec_fence(const nvm_rec_site* site) {
  if (owner == __builtin_thread_pointer() && hooks.fence != nullptr) hooks.fence(hooks.self, site);
}

void __nvm_rec_load(const void* p, std::size_t bytes, const nvm_rec_site* site) {
  if (bytes == 0) return;
  check_thread(site);
  if (hooks.load != nullptr) hooks.load(hooks.self, p, bytes, site);
}

void __nvm_rec_access(const void* p, const nvm_rec_site* site) {
  if (owner == __builtin_thread_pointer() && hooks.access != nullptr) hooks.access(hooks.self, p, site);
}

void __nvm_rec_step_limit(void) {
  __nvm_rec_steps = INT64_MAX;
  if (owner == __builtin_thread_pointer() && hooks.step_limit != nullptr) hooks.step_limit(hooks.self);
}

void nvm_rec_attach(const nvm_rec_hooks* h, const void* base, std::size_t bytes) {
  if (__nvm_rec_bytes != 0 || owner != nullptr) stop("attached twice", nullptr);
  hooks = *h;
  owner = __builtin_thread_pointer();
  __nvm_rec_base = reinterpret_cast<std::uintptr_t>(base);
  __nvm_rec_bytes = bytes;
}

void nvm_rec_detach(void) {
  __nvm_rec_bytes = 0;
  __nvm_rec_base = 0;
  __nvm_rec_steps = INT64_MAX;
  owner = nullptr;
  hooks = nvm_rec_hooks{};
}

}  // extern "C"
