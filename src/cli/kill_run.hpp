// Kills a process that works on a real pool, again and again, and judges the state after each kill.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "cli/proof_pool.hpp"

namespace nvm::cli {

struct kill_settings {
  std::string path;          // of a pool of proof_pool::create()
  std::uint32_t medium = 0;  // enum nvm_medium
  double seconds = 3;
  std::uint64_t seed = 1;
  std::function<bool(NVM_POOL*, std::uint64_t)> step = proof_pool::step;
  std::atomic<double>* share = nullptr;        // of the time that has passed
  const std::atomic<bool>* stopped = nullptr;  // true: stop early
};

struct kill_outcome {
  std::uint64_t kills = 0;
  std::uint64_t kills_of_recovery = 0;  // of them: during the open after the previous kill
  std::uint64_t transactions = 0;       // acknowledged, all processes together
  std::string fault;                    // of the first kill that left something wrong; empty: none did
};

// Kills at least once, even if the time is over before, and goes on for half a minute until a transaction was
// acknowledged.  Children end with this process.
[[nodiscard]] kill_outcome run_kills(const kill_settings& settings);

}  // namespace nvm::cli
