// Token: one explored state as at most 64 characters.
//
// A state is found again by its path: at each depth the crash point and either the row of a tier (the enumeration is
// deterministic) or, after shrinking, the few units that are not at "high".  The form that fits is printed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "explore/frontier.hpp"

namespace nvm::explore {

struct state_path {
  struct cut {
    std::uint32_t unit = 0;  // place among the units that matter at the point
    std::uint32_t value = 0;
  };
  struct crash {
    std::uint64_t point = 0;
    unsigned tier = 0;  // number, from 0
    std::uint64_t row = 0;
    bool is_explicit = false;  // tier and row do not count: all units are high but these
    std::vector<cut> cuts;
  };
  // For concurrent code: at choice `point` of the scheduler candidate number `candidate` ran instead of the first.
  struct turn {
    std::uint32_t point = 0;
    std::uint32_t candidate = 0;
    friend bool operator==(const turn&, const turn&) = default;
  };
  model persistency = model::x86;
  std::uint32_t trace_code = 0;     // of the recorded run and the subject's name
  std::uint32_t mutation_code = 0;  // 0: none
  std::uint64_t seed = 0;
  std::optional<std::vector<turn>> schedule;
  std::vector<crash> crashes;  // by depth; empty only if the run of a schedule itself failed
};

inline constexpr std::size_t token_characters_max = 64;

// Empty if it does not fit.
[[nodiscard]] std::string encode(const state_path& p);
[[nodiscard]] std::optional<state_path> decode(std::string_view token);

// The token that the user wants replayed: NVM_REPLAY, or --replay on the command line of this process; or empty.
[[nodiscard]] const std::string& wanted_token();

}  // namespace nvm::explore
