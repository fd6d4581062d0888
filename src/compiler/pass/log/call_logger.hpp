// Calls of functions whose code is elsewhere: if a *.unsafe file describes one, its writes are logged before the call;
// writes of others are checked after the call, in a checked build.
#pragma once

#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/IR/InstrTypes.h>

#include <string>

#include "unsafe_file.hpp"

namespace nvm::compiler {

struct described_call {
  llvm::CallBase& call;
  const unsafe_function& function;
  const llvm::TargetLibraryInfo& libc;
  bool everything;  // variables are logged, too
  bool check;       // every range with its place
};

// For a function that may be the program's own, with a name of the C library's: the part of the description that needs
// no look into memory; and it may use transactions.
[[nodiscard]] unsafe_function guessed(const unsafe_function& f);
// The mismatch with the description, in words; empty: none.
[[nodiscard]] std::string misfit(const described_call& c);
// Warns of arguments that do not fit the description, and of provably durable ones through which unknown bytes are
// written. False: the call cannot be logged.
[[nodiscard]] bool fits(const described_call& c);
// Whether some of its writes may go to durable memory.
[[nodiscard]] bool may_write_durable(const described_call& c);
// Makes the code that logs it.
void log_call(const described_call& c);

// A checked build: the durable objects that the call gets, also inside a structure in a variable, are compared after
// it.
void watch_call(llvm::CallBase& c, const llvm::TargetLibraryInfo& libc);

}  // namespace nvm::compiler
