// Transactions of every engine, for layers that call them through open_transaction.
#pragma once

#include <cstdint>

#include "tx/aligned_object.hpp"
#include "tx/change_watch.hpp"
#include "tx/first_failure.hpp"
#include "tx/home_reader.hpp"
#include "tx/hook.hpp"
#include "tx/open_transaction.hpp"
#include "tx/reference_log.hpp"

namespace nvm::tx {

struct recovery_report {
  std::uint64_t replayed_intents = 0;
  std::uint64_t rolled_back = 0;
  std::uint64_t completed = 0;  // committed, and not wholly applied
  std::uint64_t freed_log_runs = 0;
};

}  // namespace nvm::tx
