// Profiles in memory: read from hostile bytes, and several runs of one build as one.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "advisor/profile_format.hpp"

namespace nvm::advisor {

struct source_file {
  std::string path;
  std::string md5;  // empty: not known
};

struct unit {
  std::uint32_t file = 0;
  std::string folder;
  std::string command;
};

struct place {
  std::uint32_t file = 0;  // number of a file, from 1; 0: no debug information
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  std::string function;
  std::string called;        // empty: through a pointer
  std::uint32_t around = 0;  // number of the place that the function was inlined at
};

struct site {
  site_kind kind = site_kind::path;
  std::vector<std::uint32_t> path;  // numbers of places, innermost first
  std::array<std::uint64_t, counter_count> counts{};

  [[nodiscard]] std::uint64_t operator[](counter c) const noexcept { return counts[static_cast<std::size_t>(c)]; }
};

enum class edge_kind_in_file : std::uint8_t { free, realloc };
struct edge {
  std::uint32_t site = 0;  // number, from 1
  edge_kind_in_file kind = edge_kind_in_file::free;
  std::uint32_t place = 0;
  std::uint64_t count = 0;
};

struct profile {
  std::string build;  // hexadecimal; empty: the program has none
  std::string program;
  std::uint64_t runs = 1;
  std::uint64_t accesses = 0, ticks = 0, ns = 0;
  std::uint64_t depth = 0, burst = 0, lines = 0;
  std::vector<source_file> files;
  std::vector<unit> units;
  std::vector<place> places;
  std::vector<site> sites;
  std::vector<edge> edges;

  // By number, which must not be 0.
  [[nodiscard]] const source_file& file(std::uint32_t n) const noexcept { return files[n - 1]; }
  [[nodiscard]] const place& at(std::uint32_t n) const noexcept { return places[n - 1]; }
  // The innermost place of a site and the places that it was inlined into, then the same of the next; at most
  // path_depth_max.
  [[nodiscard]] std::vector<std::uint32_t> whole_path(const site& s) const;
};

// The largest profile that is read.
inline constexpr std::size_t profile_bytes_max = std::size_t{256} << 20;

// No value: `problem` says which line is wrong and what was expected there.
[[nodiscard]] std::optional<profile> read_profile(std::string_view text, std::string& problem);
// Adds `more` to `all`; false: they are of two builds, or were counted in different ways, and `all` is unchanged.
[[nodiscard]] bool merge(profile& all, const profile& more, std::string& problem);

}  // namespace nvm::advisor
