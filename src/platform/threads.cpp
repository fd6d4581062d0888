#include "platform/threads.hpp"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "platform/map.hpp"

namespace nvm::platform {

namespace {

bool membarrier(int command) noexcept { return ::syscall(__NR_membarrier, command, 0, 0) == 0; }

// Asked when the library is loaded: while a process has one thread this takes a microsecond, later milliseconds.
const bool registered = [] {
#if defined(__SANITIZE_THREAD__)
  return false;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
  return false;
#endif
#endif
  return membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}();

// Taking a right from a page that is in use makes the kernel interrupt every processor that runs this process.
bool interrupt_all_processors() noexcept {
  void* page = ::mmap(nullptr, page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (page == MAP_FAILED) return false;
  // The page has to be in the translation buffers when its right is taken.
  static_cast<volatile char*>(page)[0] = 1;
  const bool done = ::mprotect(page, page_bytes(), PROT_READ) == 0;
  ::munmap(page, page_bytes());
  return done;
}

}  // namespace

signals_blocked::signals_blocked() noexcept {
  sigset_t all;
  sigfillset(&all);
  sigdelset(&all, SIGBUS);
  const int failed = ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  NVM_ASSERT(failed == 0);
}

signals_blocked::~signals_blocked() {
  const int failed = ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  NVM_ASSERT(failed == 0);
}

bool can_fence_all_threads() noexcept { return registered; }

void fence_all_threads() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  // A filter of system calls that was installed after registration may refuse a call that was granted before.
  if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) return;
  if (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) return;
  if (membarrier(MEMBARRIER_CMD_GLOBAL) || interrupt_all_processors()) return;
  std::abort();
}

unsigned processors() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  // Affinity, not the number of processors: a container or taskset may allow only few of many.
  if (::sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
    return static_cast<unsigned>(CPU_COUNT(&set));
  const unsigned all = std::thread::hardware_concurrency();
  return all == 0 ? 1 : all;
}

}  // namespace nvm::platform
