// The runs of nvm_tx_run() that a thread has open: the places to which a call goes that could not do what the program
// relies on.
#pragma once

#include <csetjmp>

#include "api/left_frames.hpp"
#include "base/result.hpp"

struct nvm_pool;

namespace nvm::api {

// Of one thread.
class tx_runs {
 public:
  struct run {
    marked_frame of;  // of nvm_tx_run()
    std::jmp_buf* home;
    const nvm_pool* pool;
    unsigned level;  // of its transaction there
  };

  // Forgets the runs whose frames were left; `later` lies in a frame that was entered after those that were not.
  void forget_left(const char* later) noexcept {
    while (count_ != 0 && is_left(open_[count_ - 1].of, later)) --count_;
  }
  [[nodiscard]] unsigned count() const noexcept { return count_; }
  // Runs inside of `most` others are left with the innermost of these.
  void enter(const run& r) noexcept {
    if (count_ < most) open_[count_++] = r;
  }
  void leave_down_to(unsigned count) noexcept { count_ = count; }

  // Goes back to the innermost run, which rolls back what was begun since and fails with this code and this thread's
  // last message; returns where none is open.
  void fail_innermost(errc code, const char* later) noexcept;
  // Of the failure that went back.
  [[nodiscard]] errc failure() const noexcept { return failure_; }
  [[nodiscard]] const char* sentence() const noexcept { return sentence_; }

 private:
  static constexpr unsigned most = 8;
  run open_[most] = {};
  unsigned count_ = 0;
  errc failure_ = errc::ok;
  char sentence_[400] = "";
};

}  // namespace nvm::api
