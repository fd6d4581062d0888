#include "platform/forked_memory.hpp"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>

#include "platform/sentence.hpp"

namespace nvm::platform {
namespace {

constexpr std::size_t missed_max = 16;  // further ones get no message

struct missed_memory {
  std::atomic<std::uintptr_t> at{0};  // 0: none
  std::uint64_t bytes = 0;
  char name[256] = "";
};
// Written by one thread, as a child has no other then; read by the handler.
constinit std::array<missed_memory, missed_max> missed{};
constinit struct sigaction before{};
constinit bool installed = false;

void on_fault(int number, siginfo_t* info, void*) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (const missed_memory& m : missed) {
    // acquire: pairs with the release in miss_in_child().
    const std::uintptr_t from = m.at.load(std::memory_order_acquire);
    if (from == 0 || at - from >= m.bytes) continue;
    char text[512];
    sentence said{text, sizeof text};
    said << "holdfast: process " << static_cast<std::uint64_t>(::getpid()) << " accessed " << info->si_addr
         << " in pool " << m.name
         << ": a forked child does not have the pools of its parent (nvm_pool_after_fork() opens one that the parent "
            "has given up, nvm/malloc.h)\n";
    const ssize_t written = ::write(STDERR_FILENO, said.text(), said.bytes());
    (void)written;
    break;
  }
  (void)::sigaction(number, &before, nullptr);
}

}  // namespace

void miss_in_child(const std::byte* at, std::uint64_t bytes, const char* name) noexcept {
  for (missed_memory& m : missed) {
    if (m.at.load(std::memory_order_relaxed) != 0) continue;
    m.bytes = bytes;
    sentence{m.name, sizeof m.name} << name;
    m.at.store(reinterpret_cast<std::uintptr_t>(at), std::memory_order_release);
    break;
  }
  if (installed) return;
  struct sigaction mine{};
  mine.sa_sigaction = on_fault;
  mine.sa_flags = SA_SIGINFO | SA_ONSTACK;
  (void)::sigemptyset(&mine.sa_mask);
  installed = ::sigaction(SIGSEGV, &mine, &before) == 0;
}

void miss_no_more(const std::byte* at) noexcept {
  for (missed_memory& m : missed) {
    if (m.at.load(std::memory_order_relaxed) == reinterpret_cast<std::uintptr_t>(at)) {
      m.at.store(0, std::memory_order_relaxed);
    }
  }
}

}  // namespace nvm::platform
