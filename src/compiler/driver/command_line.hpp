// A command line of cc: which arguments are ours, and what Clang will do with the rest.
//
// It is read with Clang's own table of options and LLVM's parser, so that a value is never taken for an option or an
// input, and the other way round.
#pragma once

#include <string>
#include <vector>

#include "options.hpp"

namespace nvm::compiler::driver {

// Whether code of an instruction set can use durable memory.
enum class target {
  ours,       // the one for which the run-time was compiled
  too_small,  // its addresses do not reach durable memory
  other,
};

struct command_line {
  settings ours;
  std::vector<std::string> theirs;  // in their order; response files are replaced by their contents
  std::vector<std::string> wrong;   // faults of our options
  std::string target_name;          // as asked for; empty: this machine's
  target machine = target::ours;
  bool internal = false;  // -cc1 and its kin: Clang calls itself
  bool links = false;     // something may be linked, but not by -r
  bool libraries = true;  // the compiler's own libraries are wanted
  bool linked_statically = false;
  bool headers = true;  // the compiler's own headers are wanted
  bool asks_version = false;
  bool asks_help = false;
  std::string completed;  // --autocomplete=: the text to complete, after the last comma
};

[[nodiscard]] command_line read_command_line(int count, char** arguments);

}  // namespace nvm::compiler::driver
