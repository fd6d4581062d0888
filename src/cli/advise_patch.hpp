// Verdicts and patch of holdfast-rewrite, which is a program of its own, since it links Clang.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/console.hpp"

namespace nvm::cli {

// Of one site.
struct rewrite_verdict {
  std::string kind;  // ok, pointer, callback, lock, unknown, call, macro, library
  std::string text;  // sentence
  std::string type;  // of the objects, as the source has it; empty: not known
};

struct rewrite_answer {
  failure problem;       // its message is empty: there was none
  bool missing = false;  // the program is not installed
  std::map<std::uint32_t, rewrite_verdict> verdicts;
  std::vector<std::string> remarks;  // "file:line: sentence"
  std::string patch;
};

struct rewrite_order {
  std::vector<std::string> profiles;
  std::vector<std::uint32_t> sites;  // chosen ones
  bool patch = false;                // else verdicts only, of all sites
  bool with_pointers = false;        // also sites whose objects point into volatile memory
};
[[nodiscard]] rewrite_answer ask_rewriter(const rewrite_order& order);

}  // namespace nvm::cli
