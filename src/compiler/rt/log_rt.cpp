// What code that went through nvm_log_pass calls.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "nvm/nvm.h"

namespace {

// A program may have mapped memory of its own where pools could lie; nobody makes that durable.
bool in_no_pool(const void* p) { return nvm_errno() == NVM_E_BAD_POINTER && nvm_pool_of(p) == nullptr; }

}  // namespace

// [p, p + bytes) is about to be overwritten, by a store that cannot be called off.  Where its old bytes cannot be kept
// the process ends: the next open rolls the transaction back, while going on would make it impossible.  Outside of any
// transaction a store is the program's own affair; a checked build reports it.
extern "C" __attribute__((visibility("default"))) void __nvm_log(const void* p, std::size_t bytes) {
  if (nvm_tx_log(p, bytes) == 0) return;
  if (nvm_errno() == NVM_E_NO_TRANSACTION || in_no_pool(p)) return;
  std::fprintf(stderr, "holdfast: the old bytes of [%p, +%zu) cannot be kept: %s\n", p, bytes, nvm_errormsg());
  std::abort();
}

// Lanes of `bytes` bytes each whose bit in `mask` is set.
extern "C" __attribute__((visibility("default"))) void __nvm_log_masked(const void* p, std::size_t bytes,
                                                                        std::uint64_t mask) {
  const auto* lane = static_cast<const char*>(p);
  for (; mask != 0; mask >>= 1, lane += bytes) {
    if ((mask & 1) != 0) __nvm_log(lane, bytes);
  }
}

// The same in a checked build: a store that no transaction can take back is an error of the program, named with its
// caller.
extern "C" __attribute__((visibility("default"))) void __nvm_log_checked(const void* p, std::size_t bytes) {
  if (nvm_tx_log(p, bytes) == 0 || in_no_pool(p)) return;
  std::fprintf(stderr, "holdfast: store of %zu bytes to %p, from %p: %s\n", bytes, p, __builtin_return_address(0),
               nvm_errormsg());
  std::abort();
}
