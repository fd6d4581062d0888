#include "compiler/itm/guard.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <mutex>

#include "nvm/compiled.h"

namespace nvm::itm {
namespace {

constexpr std::uintptr_t page_bytes = 4096;
constexpr std::size_t store_bytes_max = 64;        // of one instruction
constexpr std::uint64_t trap_after_one = 1U << 8;  // the processor's trap flag
constexpr long page_fault_by_store = 2;            // bit of the error code that the processor pushes

// One irrevocable transaction runs at a time, so there is one guard.
struct guarded_pool {
  // The owner: address of its thread_state.  Read by any thread that faults.
  std::atomic<const thread_state*> owner{nullptr};
  std::atomic<bool> up{false};  // pages are read-only at this moment
  std::uintptr_t begin = 0, end = 0;
  // Pages opened for the store that is made in a single step; an instruction's bytes lie in two at most.
  std::uintptr_t open_pages[2] = {};
  unsigned open_count = 0;
};
constinit guarded_pool guarded;
struct sigaction fault_before, trap_before;

void protect(std::uintptr_t begin, std::uintptr_t end, int access) noexcept {
  if (mprotect(reinterpret_cast<void*>(begin), end - begin, access) != 0)
    fatal("the pool's pages cannot be %s: %s", access == PROT_READ ? "guarded" : "opened", std::strerror(errno));
}

void raise_guard() noexcept {
  protect(guarded.begin, guarded.end, PROT_READ);
  // seq_cst, here and in the handler: a thread that meets the closed page sees that the guard is up.
  guarded.up.store(true);
}

void lower_guard() noexcept {
  protect(guarded.begin, guarded.end, PROT_READ | PROT_WRITE);
  guarded.up.store(false);
}

// Not ours: handled as without this handler.
void pass_on(const struct sigaction& before, int signal, siginfo_t* info, void* context) noexcept {
  if ((before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction != nullptr) {
    before.sa_sigaction(signal, info, context);
  } else if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN) {
    // A fault that is ignored comes again; with the default action in place the process ends as it should.
    struct sigaction standard{};
    standard.sa_handler = SIG_DFL;
    (void)sigaction(signal, &standard, nullptr);
    if (signal == SIGTRAP) (void)raise(signal);
  } else {
    before.sa_handler(signal);
  }
}

// Announces the bytes that the trapped instruction may store: from the address on, not beyond the end of the object
// (other threads may change the bytes after it) or of the page.
void announce(std::uintptr_t address) noexcept {
  std::uintptr_t end = std::min(address + store_bytes_max, (address / page_bytes + 1) * page_bytes);
  const void* start = nullptr;
  if (const std::size_t bytes = __nvm_object_around(reinterpret_cast<void*>(address), &start); bytes != 0)
    end = std::min(end, reinterpret_cast<std::uintptr_t>(start) + bytes);
  nvm_stm_log(this_thread.stm, reinterpret_cast<void*>(address), end - address);
}

void on_fault(int signal, siginfo_t* info, void* context) noexcept {
  auto* machine = &static_cast<ucontext_t*>(context)->uc_mcontext;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  const bool stores = (machine->gregs[REG_ERR] & page_fault_by_store) != 0;
  if (info->si_code != SEGV_ACCERR || !stores || address - guarded.begin >= guarded.end - guarded.begin)
    return pass_on(fault_before, signal, info, context);
  const int error = errno;
  thread_state& t = this_thread;
  if (guarded.owner.load() != &t) {
    // Another thread's store is repeated until the guard is down. If it is down and the store traps again, the trap is
    // not the guard's.
    [[gnu::tls_model("initial-exec")]] static thread_local constinit std::uintptr_t unguarded = 0;
    if (guarded.owner.load() != nullptr) {
      unguarded = 0;
    } else if (unguarded != address) {
      unguarded = address;
    } else {
      return pass_on(fault_before, signal, info, context);
    }
    const timespec moment{0, 100'000};
    (void)nanosleep(&moment, nullptr);
    errno = error;
    return;
  }
  if (guarded.open_count == 2) fatal("an instruction at %p stores in three pages", info->si_addr);
  const std::uintptr_t page = address / page_bytes * page_bytes;
  lower_guard();
  announce(address);
  raise_guard();
  guarded.open_pages[guarded.open_count++] = page;
  for (unsigned k = 0; k < guarded.open_count; ++k)
    protect(guarded.open_pages[k], guarded.open_pages[k] + page_bytes, PROT_READ | PROT_WRITE);
  machine->gregs[REG_EFL] |= trap_after_one;
  errno = error;
}

void on_trap(int signal, siginfo_t* info, void* context) noexcept {
  if (guarded.owner.load() != &this_thread || guarded.open_count == 0)
    return pass_on(trap_before, signal, info, context);
  const int error = errno;
  auto* machine = &static_cast<ucontext_t*>(context)->uc_mcontext;
  for (; guarded.open_count != 0; --guarded.open_count) {
    const std::uintptr_t page = guarded.open_pages[guarded.open_count - 1];
    protect(page, page + page_bytes, PROT_READ);
  }
  machine->gregs[REG_EFL] &= ~static_cast<greg_t>(trap_after_one);
  errno = error;
}

void install_handlers() noexcept {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction ours{};
    ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    (void)sigemptyset(&ours.sa_mask);
    ours.sa_sigaction = on_fault;
    if (sigaction(SIGSEGV, &ours, &fault_before) != 0) fatal("no handler for faults: %s", std::strerror(errno));
    ours.sa_sigaction = on_trap;
    if (sigaction(SIGTRAP, &ours, &trap_before) != 0) fatal("no handler for traps: %s", std::strerror(errno));
  });
}

}  // namespace

void begin_guard(thread_state& t) noexcept {
  NVM_POOL* pool = t.rest->pool;
  if (pool == nullptr) return;
  nvm_pool_info info;
  if (nvm_pool_get_info(pool, &info) != 0) fatal("the pool cannot be guarded: %s", nvm_errormsg());
  install_handlers();
  guarded.begin = info.home != 0 ? info.home : info.base;
  guarded.end = guarded.begin + (info.home != 0 ? info.home_bytes : info.file_bytes / page_bytes * page_bytes);
  guarded.owner.store(&t);
  raise_guard();
}

void end_guard(thread_state& t) noexcept {
  if (guarded.owner.load() != &t) return;
  lower_guard();
  guarded.owner.store(nullptr);
}

guard_lifted::guard_lifted() noexcept : was_up_{guarded.owner.load() == &this_thread} {
  if (was_up_) lower_guard();
}

guard_lifted::~guard_lifted() {
  if (was_up_) raise_guard();
}

}  // namespace nvm::itm
