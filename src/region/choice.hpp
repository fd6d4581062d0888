// Which technique changes a region (Lewat, section IV-E): by the paper's thresholds, or by what each costs on this
// machine and medium.
#pragma once

#include <cstdint>

#include "log/log.hpp"
#include "region/costs.hpp"
#include "region/face.hpp"

namespace nvm::region {

// A change of a region.
struct shape {
  std::uint64_t changed = 0;  // bytes of it
  std::uint64_t over = 0;     // changed bytes that the region has already
  std::uint64_t before = 0;   // bytes of the region
  std::uint64_t after = 0;    // written ones, as it will be
  bool in_run = false;
};

inline constexpr std::uint64_t checked_max = 512;  // bytes of one record with a checksum

// Half and more by copy, few bytes by a record with a checksum, the rest by one with a mark.
[[nodiscard]] constexpr technique by_thresholds(const shape& s) noexcept {
  if (s.changed <= checked_max) return technique::record;
  return 2 * s.over >= s.before ? technique::copy : technique::marked;
}

// Picoseconds until the call returns, and for later write-backs home, which delay other calls.
[[nodiscard]] constexpr std::uint64_t cost_of(technique t, const shape& s, const write_costs& c) noexcept {
  const auto lines = [](std::uint64_t bytes) { return ceil_div(bytes, line_bytes); };
  const std::uint64_t record = lines(sizeof(nvm::layout::redo_record) + 8 + s.changed) * c.copied_line;
  const std::uint64_t home = (lines(s.changed) + 1) * c.line;
  switch (t) {
    case technique::record:
      return record + s.changed * c.byte + c.fence + home;
    case technique::marked:
      return record + c.line + 2 * std::uint64_t{c.fence} + home;
    case technique::copy: {
      // Put together, then copied; the record of the header, and its home; page map entries of the new run and the old.
      const std::uint64_t places = s.in_run ? 2 * std::uint64_t{c.line} : c.line;
      return lines(s.after) * c.copied_line + s.after * c.byte + 2 * std::uint64_t{c.fence} + 2 * c.copied_line +
             c.line + places;
    }
    default:
      return ~std::uint64_t{0};
  }
}
[[nodiscard]] constexpr technique by_costs(const shape& s, const write_costs& c) noexcept {
  technique best = technique::record;
  for (const technique t : {technique::marked, technique::copy}) {
    if (cost_of(t, s, c) < cost_of(best, s, c)) best = t;
  }
  return best;
}

}  // namespace nvm::region
