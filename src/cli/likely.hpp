// The expected word that an unexpected one was probably meant to be.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace nvm::cli {

// `; did you mean "check"?`, of the expected word that takes the fewest changes of letters; empty if none is near.
[[nodiscard]] std::string likely(std::string_view word, std::span<const std::string_view> expected);

}  // namespace nvm::cli
