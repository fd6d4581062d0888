// User and groups for which this process acts, as file systems ask.
#pragma once

#include <cstdint>
#include <vector>

#include "base/base.hpp"

namespace nvm::platform {

struct identity {
  std::uint32_t user = 0;
  std::uint32_t group = 0;
  std::vector<std::uint32_t> groups;  // others that it is in

  [[nodiscard]] bool is_in(std::uint32_t wanted) const noexcept {
    if (wanted == group) return true;
    for (const std::uint32_t g : groups) {
      if (g == wanted) return true;
    }
    return false;
  }
};

// The present effective ones.
[[nodiscard]] result<identity> identity_of_process() noexcept;

}  // namespace nvm::platform
