// What Clang's syntax tree says of a source: calls by their place, uses of free() and its kin, where main begins.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "advisor/profile.hpp"

namespace nvm::advisor::rewriter {

// Where a name is spelled.
struct token {
  std::string file;
  std::size_t offset = 0;
  std::string macro;    // whose definition spells it; empty: none
  std::string refused;  // why it cannot be edited; empty: it can
  auto operator<=>(const token&) const = default;
};

// Why objects of a type should not be durable.
struct hazard {
  std::string kind = "ok";  // ok, pointer, callback, lock, unknown
  std::string text;
};

struct call {
  std::string file;  // as the debug information has it
  std::uint32_t line = 0, column = 0;
  std::string called;
  token name;                      // of the function that is called
  std::size_t begin = 0, end = 0;  // of the whole call in name.file; 0, 0: not written in one piece
  std::string function;            // around it
  std::string type;                // of what the result points to; empty: not known
  hazard why;                      // of that type
  bool returned = false;           // by the function around it: a wrapper
  bool changes_main = false;
};

// What is found in all sources.
struct findings {
  std::vector<call> calls;
  std::set<std::pair<std::string, token>> by_address;  // name, place
  std::map<std::string, std::size_t> mains;            // file -> offset after the opening brace
  std::string main_refused;
  std::set<std::string> forks;      // "file:line"
  std::vector<std::string> errors;  // of the compiler, by source
};

// Whether uses of the name are found by their address.
[[nodiscard]] bool is_by_address(const std::string& name);
// The call that takes an allocation's place: of a chosen site, or one that is durable inside of NVM_PLACED; empty: this
// is no allocation.
[[nodiscard]] std::string placed_name(const std::string& called, bool here);

// Parses a source as it was compiled, without the plugins, and adds what it finds.
void look_at(const unit& u, const std::string& path, findings& to);

}  // namespace nvm::advisor::rewriter
