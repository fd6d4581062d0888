// States that a power cut may leave of a pool on ssd: a program is run once, its writes and syncs of the file are
// recorded, and states are made from them.
//
// A state is a content that the file may have at a moment of the run.  Every write before a sync that has returned is
// in it; a sector that was written later may have any of its versions since then, or the one before, independently of
// the other sectors.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "cli/proof_pool.hpp"

namespace nvm::cli {

struct power_cut_settings {
  std::string path;    // of the pool to make, on ssd; the caller removes it
  std::string state;   // file for the states, in the same or a faster place; the caller removes it
  double seconds = 2;  // for the states; the run itself takes at most a quarter of that
  std::uint64_t seed = 1;
  bool syncs_do_nothing = false;  // as on a device, or a file system, that does not keep its word
  std::atomic<double>* share = nullptr;
  const std::atomic<bool>* stopped = nullptr;
};

struct power_cut_outcome {
  std::string problem;  // why there was no trial; empty: there was
  std::uint64_t transactions = 0;
  std::uint64_t writes = 0;
  std::uint64_t syncs = 0;
  std::uint64_t states = 0;
  std::string fault;  // of the first state that is wrong; empty: none was
};

// No other thread may use files through the library meanwhile.
[[nodiscard]] power_cut_outcome run_power_cuts(const power_cut_settings& settings);

}  // namespace nvm::cli
