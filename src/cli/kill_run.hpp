// Kills a process that works on a real pool, again and again, and looks at what each kill left.
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
  const std::atomic<bool>* stopped = nullptr;  // true: it is enough
};

struct kill_outcome {
  std::uint64_t kills = 0;
  std::uint64_t kills_of_recovery = 0;  // of them: while the pool was being opened after the kill before
  std::uint64_t transactions = 0;       // acknowledged, all processes together
  std::string fault;                    // of the first kill that left something wrong; empty: none did
};

// Kills at least once, also when the time is over before.  Children end with this process.
[[nodiscard]] kill_outcome run_kills(const kill_settings& settings);

}  // namespace nvm::cli
