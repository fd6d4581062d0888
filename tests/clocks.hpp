// The thread sanitizer's clocks, in tests whose pages are brought by a thread (base/brought_first.hpp): when they are
// full, after some four million locks and atomics, the sanitizer takes all its locks, one of which a thread may hold
// that waits for a page.
#pragma once

#include <chrono>
#include <thread>

#include "base/brought_first.hpp"

#if defined(NVM_BY_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
#endif

namespace nvm::tests {

// Called while no thread uses such pages: the clocks have their whole range again.
inline void begin_clocks_anew() {
#if defined(NVM_BY_THREAD_SANITIZER)
  __tsan_flush_memory();
#endif
}

// Between rounds of a thread that goes on until others are done: how long they take does not fill the clocks.
inline void pause_between_rounds() { std::this_thread::sleep_for(std::chrono::microseconds{100}); }

}  // namespace nvm::tests
