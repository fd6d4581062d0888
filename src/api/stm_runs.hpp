// The runs of nvm_stm_run() that a thread has open, kept with its transaction: frames that longjmp has left are found
// by what stood in them.
#pragma once

struct nvm_stm;

namespace nvm::api {

struct open_runs {
  struct run {
    const char* frame;    // where the frame of nvm_stm_run() has the address of the frame before
    const void* returns;  // the word after it
    unsigned level;
  };
  static constexpr unsigned most = 8;  // levels inside of these are taken to live as long as these
  run open[most];
  unsigned count = 0;
};

// The runs of the thread's transaction; none are open when the outermost level begins.
[[nodiscard]] open_runs& runs_of(nvm_stm* of) noexcept;

}  // namespace nvm::api
