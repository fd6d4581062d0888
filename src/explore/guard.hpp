// Guard: runs code that may fault, hang or assert, and comes back with a sentence.
//
// Faults arrive on a stack of their own, so that endless recursion is one of them.  Hangs in instrumented code end at a
// number of steps, which is deterministic; in other code after seconds of processor time.  Jumping out of a handler
// leaks what the interrupted code held, but a pure recovery holds nothing. Calls of the library that a jump leaves have
// ended (platform/lost_pages.hpp).
#pragma once

#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

#include "platform/platform.hpp"

namespace nvm::explore {

class guard {
 public:
  guard();   // installs the handlers
  ~guard();  // puts the former ones back
  guard(const guard&) = delete;
  guard& operator=(const guard&) = delete;

  // Runs f(); true if it returned.  Otherwise why() says what happened.  Exceptions count as failures.
  template <class F>
  bool run(std::int64_t steps_max, F&& f) {
    begin(steps_max);
    if (sigsetjmp(environment_, 0) != 0) {
      platform::go_back_to(call_depth_);
      end();
      return false;
    }
    armed_ = 1;
    const bool returned = call(f);
    end();
    return returned;
  }
  [[nodiscard]] std::string why() const;
  // Steps that the last run took, if its code was instrumented.
  [[nodiscard]] std::int64_t steps() const noexcept { return steps_; }

  // To be called where a step limit is hit.
  static void step_limit_reached();

 private:
  template <class F>
  bool call(F& f) {
    try {
      f();
      return true;
    } catch (const std::exception& e) {
      exception_ = e.what();
    } catch (...) {
      exception_ = "an exception of unknown type";
    }
    cause_ = cause_exception;
    return false;
  }
  void begin(std::int64_t steps_max) noexcept;
  void end() noexcept;
  static void on_signal(int number, siginfo_t* info, void* context);
  static void on_tick(int number);
  void jump(int cause) noexcept;

  static constexpr int cause_steps = 1000;
  static constexpr int cause_time = 1001;
  static constexpr int cause_exception = 1002;
  static constexpr int handled_[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

  sigjmp_buf environment_;
  volatile sig_atomic_t armed_ = 0;
  volatile std::uint64_t runs_ = 0;
  std::uint64_t ticked_run_ = 0;
  int ticks_ = 0;
  int cause_ = 0;
  unsigned char call_depth_ = 0;
  const void* fault_address_ = nullptr;
  std::int64_t steps_max_ = 0;
  std::int64_t steps_ = 0;
  std::string exception_;
  struct sigaction former_[5];
  struct sigaction former_tick_;
  stack_t former_stack_;
  std::vector<char> stack_;
};

}  // namespace nvm::explore
