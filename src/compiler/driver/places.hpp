// Where the parts of Holdfast lie: in fixed places around the driver, in a build tree as in an installed one, so that a
// tree may be moved as a whole.
#pragma once

#include <string>

namespace nvm::compiler::driver {

struct places {
  std::string front_plugin;    // of Clang's front end
  std::string plugin;          // of its optimizer
  std::string record_plugin;   // of its optimizer, for -fnvm-record
  std::string profile_plugin;  // of its optimizer, for -fnvm-profile
  std::string libc_table;
  std::string headers;
  std::string libraries;
  std::string missing;  // a part that is missing; empty: none

  // The compiler and the dynamic linker look there by themselves.
  [[nodiscard]] bool headers_are_the_systems() const;
  [[nodiscard]] bool libraries_are_the_systems() const;
};

[[nodiscard]] places find_places();

}  // namespace nvm::compiler::driver
