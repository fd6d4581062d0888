// Texts of the driver about itself, all made from the table of options.
#pragma once

#include <string>

#include "options.hpp"

namespace nvm::compiler::driver {

[[nodiscard]] std::string text_of(document what);

// "-fnvm-unsafe=<tab>what ...", one a line: our options that begin so, as Clang's --autocomplete= prints its own.
[[nodiscard]] std::string completions_of(std::string_view beginning);

}  // namespace nvm::compiler::driver
