// Memory whose pages a thread of ours brings (tier/, logheap/), under ThreadSanitizer.
//
// ThreadSanitizer makes a store with release order, and a read-modify-write of any order but relaxed, while it holds a
// lock of its own.  If the page is missing then, and another thread restarts the sanitizer's clocks, which takes all
// these locks, the thread that brings the page waits for the restart, and the restart for the page.
#pragma once

#include <atomic>

#if defined(__SANITIZE_THREAD__)
#define NVM_BY_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define NVM_BY_THREAD_SANITIZER 1
#endif
#endif

namespace nvm {

// Before such a store to `word`, an integer: makes its page present and writable by a relaxed one, for which the
// sanitizer holds no lock.  Nothing elsewhere.
template <class T>
void bring_first([[maybe_unused]] T* word) noexcept {
#ifdef NVM_BY_THREAD_SANITIZER
  std::atomic_ref<T>{*word}.fetch_or(0, std::memory_order_relaxed);
#endif
}

}  // namespace nvm
