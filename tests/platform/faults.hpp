// Does reading an address fault?  For tests of what is mapped.
#pragma once

#include <csetjmp>
#include <csignal>
#include <cstddef>

namespace nvm::tests {

// One thread at a time.
inline bool faults(const std::byte* p) {
  static sigjmp_buf back;
  struct ::sigaction action{}, old_segv{}, old_bus{};
  action.sa_handler = [](int) { siglongjmp(back, 1); };
  ::sigaction(SIGSEGV, &action, &old_segv);
  ::sigaction(SIGBUS, &action, &old_bus);
  volatile bool faulted = true;  // changed between sigsetjmp and siglongjmp
  if (sigsetjmp(back, 1) == 0) {
    [[maybe_unused]] const std::byte value = *static_cast<const volatile std::byte*>(p);
    faulted = false;
  }
  ::sigaction(SIGSEGV, &old_segv, nullptr);
  ::sigaction(SIGBUS, &old_bus, nullptr);
  return faulted;
}

}  // namespace nvm::tests
