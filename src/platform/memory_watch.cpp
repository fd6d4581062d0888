#include "platform/memory_watch.hpp"

#include "platform/map.hpp"

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#define NVM_KNOWS_VALGRIND 1
#endif

#if defined(__SANITIZE_ADDRESS__)
#define NVM_SANITIZED_LIBRARY 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define NVM_SANITIZED_LIBRARY 1
#endif
#endif

// Functions of AddressSanitizer's run-time, null in a program without one.
extern "C" {
[[gnu::weak]] void __asan_poison_memory_region(const volatile void* p, std::size_t bytes);
[[gnu::weak]] void __asan_unpoison_memory_region(const volatile void* p, std::size_t bytes);
[[gnu::weak]] void __tsan_init();
}

namespace nvm::platform {

bool under_valgrind() noexcept {
#ifdef NVM_KNOWS_VALGRIND
  return RUNNING_ON_VALGRIND != 0;
#else
  return false;
#endif
}

bool with_thread_sanitizer() noexcept { return __tsan_init != nullptr; }

namespace memory_watch {

[[gnu::cold]] watcher ask() noexcept {
  watcher w = watcher::none;
#ifndef NVM_SANITIZED_LIBRARY
  if (__asan_poison_memory_region != nullptr && __asan_unpoison_memory_region != nullptr) w = watcher::sanitizer;
#endif
  if (under_valgrind()) w = watcher::memcheck;
  found.store(w, std::memory_order_relaxed);
  return w;
}

[[gnu::cold]] void set_accessible(const void* p, std::size_t bytes, bool accessible) noexcept {
  if (bytes == 0 || !in_window(p)) return;
#ifdef NVM_KNOWS_VALGRIND
  if (found.load(std::memory_order_relaxed) == watcher::memcheck) {
    if (accessible) {
      (void)VALGRIND_MAKE_MEM_DEFINED(p, bytes);
    } else {
      (void)VALGRIND_MAKE_MEM_NOACCESS(p, bytes);
    }
    return;
  }
#endif
  if (accessible) {
    __asan_unpoison_memory_region(p, bytes);
  } else {
    __asan_poison_memory_region(p, bytes);
  }
}

}  // namespace memory_watch
}  // namespace nvm::platform
