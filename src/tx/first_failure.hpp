// Why a transaction allows only abort: the first failure in it.  A failure goes with its level when that is rolled
// back.
//
// Threads: one, that of the transaction.
#pragma once

#include <algorithm>
#include <cstdio>

#include "base/base.hpp"

namespace nvm::tx {

class first_failure {
 public:
  explicit operator bool() const noexcept { return code_ != errc::ok; }
  [[nodiscard]] errc code() const noexcept { return code_; }

  // Notes this thread's last fail() as a failure in level `level`, unless there was a failure before.
  errc note(errc code, unsigned level) noexcept {
    if (code_ != errc::ok) return code;
    code_ = code;
    level_ = level;
    std::snprintf(sentence_, sizeof sentence_, "%s", last_message());
    return code;
  }
  // A level was rolled back, `depth` are left: a failure in it is over.
  void levels_left(unsigned depth) noexcept {
    if (level_ > depth) clear();
  }
  // A level was refused and rolled back, `depth` are left: the enclosing one must not commit without it.
  void concerns(unsigned depth) noexcept { level_ = std::min(level_, depth); }
  void clear() noexcept { code_ = errc::ok; }

  // Fails again with the first failure's code and sentence.
  [[nodiscard]] errc again() const noexcept { return fail(code_, "%s", sentence_); }
  // Refuses a later request.
  [[nodiscard]] errc refuse() const noexcept {
    return fail_for(code_, errc::must_abort, "an earlier failure in this transaction allows only abort, because: %s",
                    sentence_);
  }

 private:
  errc code_ = errc::ok;
  unsigned level_ = 0;
  char sentence_[400];
};

}  // namespace nvm::tx
