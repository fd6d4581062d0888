// Running Clang: in place of this process, or as a child whose output or exit code is wanted.
#pragma once

#include <string>
#include <vector>

namespace nvm::compiler::driver {

using arguments = std::vector<std::string>;

// Returns only on failure, with errno. Arguments too many for a command line go through a file in memory.
void become(const arguments& command);

// The exit code, 128 + the number of the signal that ended it, or -1 with errno.
[[nodiscard]] int run(const arguments& command);

// What it prints to standard output; empty and errno if it cannot be run.
[[nodiscard]] std::string output_of(const arguments& command);

}  // namespace nvm::compiler::driver
