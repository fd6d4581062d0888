// nvm_tx_run(): a transaction whose body is a function of C, left by longjmp where a call inside of it could only end
// the process otherwise.
#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <iterator>

#include "api/pool_object.hpp"
#include "api/tx_runs.hpp"
#include "nvm/compiled.h"
#include "nvm/malloc.h"

namespace nvm::api {

void tx_runs::fail_innermost(errc code, const char* later) noexcept {
  const thread_transactions& mine = thread_transactions::mine();
  const auto goes_on = [&](const run& r) {
    return is_open(r.of, later) && std::ranges::any_of(mine.open(), [&](const entry& e) {
             return e.pool == r.pool && e.transaction->depth() >= r.level;
           });
  };
  while (count_ != 0 && !goes_on(open_[count_ - 1])) --count_;
  // A call of the library that waits for a function of the program, as a visitor, cannot be left.
  if (count_ == 0 || platform::is_called_back()) return;
  failure_ = code;
  (void)std::snprintf(sentence_, sizeof sentence_, "%s", last_message());
  std::longjmp(*open_[count_ - 1].home, 1);
}

}  // namespace nvm::api

namespace api = nvm::api;

extern "C" {

int nvm_tx_run(NVM_POOL* pool, int (*body)(void*), void* argument) {
  if (body == nullptr) return api::report(nvm::fail(nvm::errc::invalid, "nvm_tx_run() without a function"));
  const char* const frame = static_cast<const char*>(__builtin_frame_address(0));
  nvm_jump_mark before;
  __nvm_jump_mark(&before);
  if (before.count > std::size(before.open)) {
    return api::report(nvm::fail(nvm::errc::invalid, "nvm_tx_run() with transactions of %lu pools open, at most %zu",
                                 before.count, std::size(before.open)));
  }
  if (nvm_tx_begin(pool) != 0) return -1;
  const unsigned level = nvm_tx_depth(pool);
  api::tx_runs& runs = api::thread_transactions::mine().runs();
  runs.forget_left(frame);
  const unsigned around = runs.count();
  const nvm::platform::not_called_back here;
  std::jmp_buf home;
  // Nothing below changes a variable that is looked at after longjmp.
  if (setjmp(home) != 0) {
    runs.leave_down_to(around);
    if (__nvm_jump_back(&before) != 0) return -1;
    return api::report(nvm::fail(runs.failure(), "%s", runs.sentence()));
  }
  runs.enter({{frame, __builtin_return_address(0)}, &home, pool, level});
  int code = 0;
  try {
    code = body(argument);
  } catch (...) {
    runs.leave_down_to(around);
    (void)__nvm_jump_back(&before);
    throw;
  }
  runs.leave_down_to(around);
  const unsigned now = nvm_tx_depth(pool);
  if (code == 0 && now == level) return nvm_tx_commit(pool);
  if (__nvm_jump_back(&before) != 0) return -1;
  if (code != 0) return code;
  return api::report(now < level ? nvm::fail(nvm::errc::no_transaction,
                                             "the body of nvm_tx_run() has ended its transaction: %u levels are open, "
                                             "expected %u",
                                             now, level)
                                 : nvm::fail(nvm::errc::tx_open,
                                             "the body of nvm_tx_run() has left levels open, which are rolled back: "
                                             "found %u, expected %u",
                                             now, level));
}

}  // extern "C"
