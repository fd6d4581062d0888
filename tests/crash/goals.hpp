// How many unique crash states each part of the continuous run visits at least.  A part that falls short fails: it no
// longer does what it says, however green it is.  Of sequences of three operations each run has a third.
#pragma once

#include <cstdint>

namespace nvm::tests::goals {

inline constexpr std::uint64_t sequences_x86 = 2'400'000;
inline constexpr std::uint64_t sequences_torn8 = 3'300'000;
inline constexpr std::uint64_t sequences_ssd = 750'000;
inline constexpr std::uint64_t sequences_x86_redo = 400'000;
inline constexpr std::uint64_t sequences_torn8_redo = 650'000;
inline constexpr std::uint64_t random_x86_redo = 1'500'000;
inline constexpr std::uint64_t random_torn8_redo = 2'500'000;
inline constexpr std::uint64_t sequences_mnemosyne = 170'000;
inline constexpr std::uint64_t random_mnemosyne = 400'000;
inline constexpr std::uint64_t random_x86 = 3'000'000;
inline constexpr std::uint64_t random_torn8 = 3'000'000;
inline constexpr std::uint64_t random_ssd = 50'000;

}  // namespace nvm::tests::goals
