// What the objects of a site would cost in each medium, and which sites gain most.
//
// With counts of the site, coefficients c of the medium, T transactions (one for each burst that logs a line of it, at
// most as many as there were bursts):
//
//   time    lines_in * (read_ns + miss_share * miss_ns) + lines_out * write_ns + objects * alloc_ns
//           + lines_logged * log_ns + T * commit_ns
//   energy  512 * (lines_in * read_pj + (lines_out + lines_logged * log_lines) * write_pj)
//           + bytes x lifetime * static_mw
//   wear    (lines_out + lines_logged * log_lines) / (lines of peak_bytes * endurance): share of a cell's life
//
// HEAPO's profiler takes each load and store for one of the memory, and no static part: access_model::instructions has
// energy 8 * (read_bytes * read_pj + written_bytes * write_pj), static energy beside it.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "advisor/profile.hpp"

namespace nvm::advisor {

enum class medium : std::uint8_t { dram, shm, nvm, ssd, tier };
inline constexpr std::array<std::string_view, 5> medium_names = {"dram", "shm", "nvm", "ssd", "tier"};

struct medium_costs {
  double read_ns = 0, write_ns = 0, alloc_ns = 0, log_ns = 0, commit_ns = 0, log_lines = 0;
  double read_pj = 0, write_pj = 0, static_mw = 0, endurance = 0, miss_share = 0, miss_ns = 0;
};

class costs {
 public:
  // The coefficients of coefficients.txt.
  [[nodiscard]] static costs usual();
  [[nodiscard]] static std::string_view text() noexcept;
  // Replaces what `text` names; false: `problem` says which line is wrong, and nothing was replaced.
  [[nodiscard]] bool replace(std::string_view text, std::string& problem);
  [[nodiscard]] const medium_costs& of(medium m) const noexcept { return all_[static_cast<std::size_t>(m)]; }

 private:
  std::array<medium_costs, medium_names.size()> all_{};
};

enum class access_model : std::uint8_t { lines, instructions };

struct assumptions {
  access_model model = access_model::lines;
  bool transactions = true;  // the program's stores are inside transactions
};

struct price {
  double time_ns = 0;
  double access_pj = 0, static_pj = 0;
  double wear = 0;

  [[nodiscard]] double energy_pj() const noexcept { return access_pj + static_pj; }
};

[[nodiscard]] price price_of(const site& s, const profile& run, const medium_costs& c, const assumptions& a);

enum class measure : std::uint8_t { time, energy, wear };
[[nodiscard]] double value_of(const price& p, measure m) noexcept;

struct ranked_site {
  std::uint32_t number = 0;  // in the profile
  std::array<price, medium_names.size()> prices{};
  double gain = 0;             // what the target saves against DRAM; for wear there is no such comparison, so never
                               // above 0
  medium best = medium::dram;  // the cheapest by that measure; the first of equal ones
};

// Path sites by falling gain, equal ones by falling bytes, then by number.
[[nodiscard]] std::vector<ranked_site> rank(const profile& run, const costs& c, const assumptions& a, medium target,
                                            measure by);

}  // namespace nvm::advisor
