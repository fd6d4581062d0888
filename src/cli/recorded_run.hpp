// A small program, compiled by holdfast-cc, then recorded and explored as `holdfast crash-test` does: states that a
// power cut may leave of a pool on memory that is written back by lines.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace nvm::cli {

struct recorded_outcome {
  std::string problem;  // why there was no trial; empty: there was
  std::uint64_t transactions = 0;
  std::uint64_t states = 0;
  std::string fault;  // of the first state that is wrong; empty: none was
};

// holdfast-cc beside this program, else in PATH; empty: there is none.
[[nodiscard]] std::string find_compiler();

// `folder`: for the program, the caller removes it.
[[nodiscard]] recorded_outcome run_recorded(const std::string& compiler, const std::string& folder, double seconds,
                                            std::uint64_t seed, std::atomic<double>* share);

}  // namespace nvm::cli
