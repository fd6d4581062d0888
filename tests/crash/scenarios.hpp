// The scenarios that must always be explored, each a story that once was, or could be, a bug.
#pragma once

#include <string>
#include <vector>

#include "subjects.hpp"

namespace nvm::tests {

struct scenario {
  const char* name;
  void (*steps)(player&);
  crash_shape shape = {};
  bool on_direct = true;
  bool on_ssd = true;
  bool on_stm = true;
};

// Scenarios of barrier transactions alone.
[[nodiscard]] const std::vector<scenario>& barrier_scenarios();
// Of processes that are killed, on direct media.
[[nodiscard]] const std::vector<scenario>& killed_scenarios();
// Of all engines; `named` stops the program for a name that is none.
[[nodiscard]] const std::vector<scenario>& all_scenarios();
[[nodiscard]] const scenario& named(const char* name);
[[nodiscard]] inline explore::subject subject_of(const scenario& s, kind_of_medium kind) {
  return subject_on(kind, s.name, s.steps, s.shape);
}
// For the names of parametrised tests.
[[nodiscard]] std::string identifier(const char* name);

}  // namespace nvm::tests
