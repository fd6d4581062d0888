// Workloads that no person thought of: all short sequences of an alphabet of operations, and long random ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "../random_seed.hpp"
#include "subjects.hpp"

namespace nvm::tests {

// The alphabet; every letter is applicable in every state.
enum class letter : std::uint8_t {
  put_small,
  put_medium,
  put_large,
  replace,
  remove,
  update,
  swap,
  aborted_put,
  nested_abort,
  nested_commit,
  long_log,
  put_many,
  by_other_lane,
  grow,
  change_root,
};
inline constexpr unsigned letters = 15;
[[nodiscard]] const char* name_of(letter l) noexcept;

// Number of sequences of exactly `length` letters, and the k-th of them.
[[nodiscard]] std::uint64_t sequences(unsigned length) noexcept;
[[nodiscard]] std::vector<letter> sequence(unsigned length, std::uint64_t k);
// Explores crashes from the last letter's first event on: those before it belong to the shorter sequence.
[[nodiscard]] explore::subject sequence_subject(const std::vector<letter>& s, kind_of_medium kind);

// `operations` letters chosen at random, with checkpoints and closes between on ssd.
[[nodiscard]] explore::subject random_subject(std::uint64_t seed, unsigned operations, kind_of_medium kind);

}  // namespace nvm::tests
