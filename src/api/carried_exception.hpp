// An exception that leaves a function of the caller (a visitor, a decision) in the middle of an operation: it is kept,
// the operation ends in order, and then it goes on to the caller.  While such a function runs the thread is outside of
// the library's call (platform/lost_pages.hpp).
#pragma once

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>

#include "pool/pool.hpp"

namespace nvm::api {

class carried_exception {
 public:
  // f() gets data of this pool, whose pages may be lost meanwhile.
  void of(const pool_file& file) noexcept { file_ = &file; }
  // Returns f(); `stop` if f throws, and from then on without calling it; likewise once pages of the pool are lost.
  template <class F, class R>
  [[nodiscard]] R call(F&& f, R stop) noexcept {
    if (thrown_ || (file_ != nullptr && file_->lost())) return stop;
    try {
      const platform::out_of_call theirs;
      return std::forward<F>(f)();
    } catch (...) {
      thrown_ = std::current_exception();
      return stop;
    }
  }
  // Throws the exception that was kept, after the operation.
  void go_on() {
    if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
  }

 private:
  std::exception_ptr thrown_;
  const pool_file* file_ = nullptr;
};

// Calls f() in a place that cannot be left: an exception ends the process with a message, which names the function
// `what`.
template <class F>
auto call_without_exceptions(const char* what, F&& f) noexcept {
  try {
    const platform::out_of_call theirs;
    return std::forward<F>(f)();
  } catch (...) {
    std::fprintf(stderr, "holdfast: an exception has left %s, which must not throw\n", what);
    std::abort();
  }
}

}  // namespace nvm::api
