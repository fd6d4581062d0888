#include "explore/guard.hpp"

#include <sys/time.h>

#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "nvm/record.h"

namespace nvm::explore {

namespace {
guard* current = nullptr;         // for signal handlers, which cannot find it otherwise; one explorer runs at a time
constexpr int hang_seconds = 10;  // of processor time in code that counts no steps
}  // namespace

guard::guard() : stack_(1 << 16) {
  if (current != nullptr) throw std::logic_error("explore: an exploration is running already");
  current = this;
  stack_t s{};
  s.ss_sp = stack_.data();
  s.ss_size = stack_.size();
  sigaltstack(&s, &former_stack_);
  struct sigaction a{};
  a.sa_sigaction = on_signal;
  a.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  for (std::size_t i = 0; i < std::size(handled_); ++i) sigaction(handled_[i], &a, &former_[i]);
  struct sigaction t{};
  t.sa_handler = on_tick;
  t.sa_flags = SA_ONSTACK | SA_RESTART | SA_NODEFER;
  sigaction(SIGPROF, &t, &former_tick_);
  const itimerval each_second{{1, 0}, {1, 0}};
  setitimer(ITIMER_PROF, &each_second, nullptr);
}

guard::~guard() {
  const itimerval off{};
  setitimer(ITIMER_PROF, &off, nullptr);
  sigaction(SIGPROF, &former_tick_, nullptr);
  for (std::size_t i = 0; i < std::size(handled_); ++i) sigaction(handled_[i], &former_[i], nullptr);
  sigaltstack(&former_stack_, nullptr);
  current = nullptr;
}

void guard::begin(std::int64_t steps_max) noexcept {
  cause_ = 0;
  call_depth_ = platform::call_depth();
  runs_ = runs_ + 1;
  steps_max_ = steps_max;
  __nvm_rec_steps = steps_max;
}

void guard::end() noexcept {
  armed_ = 0;
  steps_ = steps_max_ - __nvm_rec_steps;
  __nvm_rec_steps = INT64_MAX;
}

void guard::jump(int cause) noexcept {
  cause_ = cause;
  armed_ = 0;
  siglongjmp(environment_, 1);
}

void guard::on_signal(int number, siginfo_t* info, void*) {
  if (current != nullptr && current->armed_ != 0) {
    current->fault_address_ = info->si_addr;
    current->jump(number);
  }
  // Not ours: it happens as without this handler.
  struct sigaction plain{};
  plain.sa_handler = SIG_DFL;
  sigaction(number, &plain, nullptr);
  raise(number);
}

void guard::on_tick(int) {
  guard* g = current;
  if (g == nullptr || g->armed_ == 0) return;
  if (g->ticked_run_ != g->runs_) {
    g->ticked_run_ = g->runs_;
    g->ticks_ = 0;
  } else if (++g->ticks_ >= hang_seconds) {
    g->jump(cause_time);
  }
}

void guard::step_limit_reached() {
  if (current != nullptr && current->armed_ != 0) current->jump(cause_steps);
}

std::string guard::why() const {
  char text[160];
  switch (cause_) {
    case cause_steps:
      std::snprintf(text, sizeof text, "does not end: %lld steps taken", static_cast<long long>(steps_max_));
      return text;
    case cause_time:
      std::snprintf(text, sizeof text, "does not end: %d s of processor time", hang_seconds);
      return text;
    case cause_exception:
      return "throws: " + exception_;
    case SIGABRT:
      return "aborts (a failed assertion)";
    case SIGSEGV:
    case SIGBUS:
      std::snprintf(text, sizeof text, "faults: %s at address %p", cause_ == SIGBUS ? "SIGBUS" : "SIGSEGV",
                    fault_address_);
      return text;
    case SIGFPE:
      return "faults: SIGFPE (division)";
    default:
      return "faults: SIGILL";
  }
}

}  // namespace nvm::explore
