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

  // What this thread's last fail() said, in level `level` of the transaction; not if there was a failure before.
  errc note(errc code, unsigned level) noexcept {
    if (code_ != errc::ok) return code;
    code_ = code;
    level_ = level;
    std::snprintf(sentence_, sizeof sentence_, "%s", last_message());
    return code;
  }
  // A level was rolled back, `depth` are left: what failed in it is over.
  void levels_left(unsigned depth) noexcept {
    if (level_ > depth) clear();
  }
  // A level was refused and rolled back, `depth` are left: the one around it must not become half of what it was.
  void concerns(unsigned depth) noexcept { level_ = std::min(level_, depth); }
  void clear() noexcept { code_ = errc::ok; }

  // Fails as it did.
  [[nodiscard]] errc again() const noexcept { return fail(code_, "%s", sentence_); }
  // Refuses what is asked for since.
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
