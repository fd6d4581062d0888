// Calls of functions whose code is elsewhere: what those write that a *.unsafe file describes is logged before them;
// what others did is looked at after them, in a checked build.
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

// For a function that may be the program's own, with the name of one of the C library: what can be said of it without
// looking into memory, and that it may use transactions.
[[nodiscard]] unsafe_function guessed(const unsafe_function& f);
// What does not fit the description, in words; empty: all does.
[[nodiscard]] std::string misfit(const described_call& c);
// Warns of arguments that do not fit the description, and of provably durable ones through which unknown bytes are
// written.  False: nothing can be logged.
[[nodiscard]] bool fits(const described_call& c);
// Some of what it writes may be durable.
[[nodiscard]] bool may_write_durable(const described_call& c);
// The code that logs it.
void log_call(const described_call& c);

// A checked build: the durable objects that the call gets, also inside a structure in a variable, are compared after
// it.
void watch_call(llvm::CallBase& c, const llvm::TargetLibraryInfo& libc);

}  // namespace nvm::compiler
