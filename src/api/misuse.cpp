// Misuse: the program's handler, or a message with the place and the end of the process.
#include "api/misuse.hpp"

#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "api/pool_object.hpp"
#include "nvm/nvm.h"

namespace nvm::api {
namespace {

struct chosen {
  nvm_misuse_handler call = nullptr;
  void* argument = nullptr;
};
// Trivially destructible: programs make mistakes until their very last static destructor.
constinit std::mutex handler_lock;
constinit chosen handler;

chosen current_handler() noexcept {
  const std::lock_guard guard{handler_lock};
  return handler;
}

[[noreturn]] void say_and_abort(const nvm_misuse& m) noexcept {
  std::fprintf(stderr, "holdfast: misuse: %s (%s)\n", m.message, nvm_error_name(m.code));
  if (m.pool != nullptr) {
    std::fprintf(stderr, "holdfast: the address is %p, in pool %s\n", m.address, m.pool->file->path());
  } else {
    std::fprintf(stderr, "holdfast: the address is %p\n", m.address);
  }
  std::fputs("holdfast: called from ", stderr);
  platform::print_place(stderr, m.caller);
  std::fputs("holdfast: by these calls, innermost first:\n", stderr);
  std::fflush(stderr);
  platform::print_calls(stderr);
  std::abort();
}

}  // namespace

void misused(errc code, const void* address, const void* caller) {
  const nvm_misuse m{static_cast<int>(code), nvm_errormsg(), address, nvm_pool_of(address), caller};
  const chosen c = current_handler();
  if (c.call == nullptr) say_and_abort(m);
  c.call(&m, c.argument);
}

}  // namespace nvm::api

extern "C" {

void nvm_set_misuse_handler(nvm_misuse_handler call, void* argument) {
  const std::lock_guard guard{nvm::api::handler_lock};
  nvm::api::handler = {call, argument};
}

}  // extern "C"
