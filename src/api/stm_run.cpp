// nvm_stm_run(): a barrier transaction whose body is a function of C, left by longjmp where it has to start again.
//
// A program may leave the body by a longjmp of its own.  Then the transaction is still open and nothing ends it: later
// work of the thread would be part of it, and lost.  Each thread knows the frames of its runs (left_frames.hpp).  The
// next run finds one that was left, rolls its level back, and fails.  Code of holdfast-cc asks where setjmp() returns
// again.
#include <csetjmp>

#include "api/pool_object.hpp"
#include "api/stm_runs.hpp"
#include "base/inlining.hpp"
#include "nvm/stm.h"
#include "platform/platform.hpp"

namespace nvm::api {
bool end_left_runs(const void* later) noexcept {
  if (nvm_stm_of_thread == nullptr) return false;
  open_runs& runs = runs_of(nvm_stm_of_thread);
  bool any = false;
  while (runs.count != 0 && is_left(runs.open[runs.count - 1].of, static_cast<const char*>(later))) {
    const unsigned level = runs.open[--runs.count].level;
    while (nvm_stm_of_thread != nullptr && nvm_stm_depth(nvm_stm_of_thread) >= level && level != 0) {
      nvm_stm_rollback(nvm_stm_of_thread);
      any = true;
    }
  }
  return any;
}

}  // namespace nvm::api

namespace api = nvm::api;

namespace {
struct run_frame {
  std::jmp_buf home;
  nvm_stm* volatile tx = nullptr;
};
void jump_home(nvm_stm* /*tx*/, int why, void* argument) { std::longjmp(static_cast<run_frame*>(argument)->home, why); }
}  // namespace

extern "C" {

int nvm_stm_run(NVM_POOL* pool, int (*body)(nvm_stm*, void*), void* argument) {
  const char* const frame = static_cast<const char*>(__builtin_frame_address(0));
  if (nvm_stm_of_thread != nullptr) {
    if (api::end_left_runs(frame)) {
      return api::report(nvm::fail(nvm::errc::no_transaction,
                                   "longjmp has left the body of nvm_stm_run(): what was open there was rolled back, "
                                   "and nothing is done now"));
    }
    if (nvm_stm_of_thread != nullptr) nvm_stm_check(nvm_stm_of_thread);
  }
  const bool inner = nvm_stm_of_thread != nullptr;
  const unsigned around = inner ? api::runs_of(nvm_stm_of_thread).count : 0;
  run_frame f;
  // Nothing below changes a variable that is looked at after longjmp.
  const int why = setjmp(f.home);
  if (nvm_stm_of_thread != nullptr) api::runs_of(nvm_stm_of_thread).count = around;
  switch (why) {
    case NVM_STM_CONFLICT:
    case NVM_STM_RETRY:
      if (inner) nvm_stm_unwind(nvm_stm_of_thread);
      break;
    case NVM_STM_CANCEL:
      return nvm_stm_code(f.tx);
    case NVM_STM_FAILED:
      return -1;
    default:
      break;
  }
  nvm_stm* tx = nvm_stm_begin(pool, jump_home, &f);
  if (tx == nullptr) return -1;
  f.tx = tx;
  const unsigned level = nvm_stm_depth(tx);
  api::open_runs& runs = api::runs_of(tx);
  if (around < api::open_runs::most) {
    runs.open[around] = {{frame, __builtin_return_address(0)}, level};
    runs.count = around + 1;
  }
  int code = 0;
  try {
    code = body(tx, argument);
  } catch (...) {
    runs.count = around;
    // A body in C++ that throws is rolled back like one that returns an error, unless its level has ended already.
    if (nvm_stm_depth(tx) == level) nvm_stm_rollback(tx);
    throw;
  }
  runs.count = around;
  if (code != 0) {
    nvm_stm_rollback(tx);
    return code;
  }
  return nvm_stm_commit(tx);
}

}  // extern "C"
