// What a recovery says.
#pragma once

#include <string>

#include "tx/tx.hpp"

namespace nvm::tests {

struct outcome {
  errc code = errc::ok;
  std::string message;
  tx::recovery_report report;
};

}  // namespace nvm::tests
