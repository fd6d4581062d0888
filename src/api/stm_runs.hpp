// The runs of nvm_stm_run() that a thread has open, kept with its transaction: frames that longjmp has left are found
// by what stood in them.
#pragma once

#include "api/left_frames.hpp"

struct nvm_stm;

namespace nvm::api {

struct open_runs {
  struct run {
    marked_frame of;  // of nvm_stm_run()
    unsigned level;
  };
  static constexpr unsigned most = 8;  // levels inside of these are taken to live as long as these
  run open[most];
  unsigned count = 0;
};

// The runs of the thread's transaction; none are open when the outermost level begins.
[[nodiscard]] open_runs& runs_of(nvm_stm* of) noexcept;

}  // namespace nvm::api
