// A profile: what one run of a program compiled with -fnvm-profile leaves behind for `holdfast advise`.
//
// Text, one record a line, fields separated by one blank. Records come in this order, but a file, unit or place stands
// before whatever refers to it:
//
//   holdfast-profile 1
//   build <hex>                      build id of the program
//   program <text>
//   clock <accesses> <ticks> <ns>    of the whole run: counted accesses, time stamps, nanoseconds
//   settings <depth> <burst> <lines> frames of a call path; accesses of a burst; lines of the modelled cache
//   file <id> <md5 or -> <text>
//   unit <file> <folder> <command>   a source and how it was compiled; any number
//   place <id> <file or 0> <line> <column> <function> <called or -> <place around or 0>
//   site <id> <kind> <n> <place>*n <18 counters>
//   edge <site> <free or realloc> <place> <count>
//   sum <16 hex digits>              XXH3 of all bytes before this line
//
// Ids of each kind are 1, 2, 3 in order; what a record refers to stands before it.  <text> has %hh for bytes that are
// no graphic ASCII and for the percent sign; an empty one is %.  docs/advisor.md says what is counted.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nvm::advisor {

inline constexpr char profile_magic[] = "holdfast-profile";
inline constexpr std::uint32_t profile_version = 1;  // raise it with any change above

inline constexpr std::size_t path_depth_max = 16;  // frames
inline constexpr std::size_t path_depth_default = 4;
inline constexpr std::uint32_t burst_default = 4096;  // accesses
inline constexpr std::uint32_t cache_lines = 32768;   // 2 MiB
inline constexpr std::size_t sites_max = 1 << 15;
inline constexpr std::size_t build_id_max = 64;  // hex digits

// The counters of a site, in the order of its record.
enum class counter : std::uint8_t {
  objects,
  bytes,    // asked for, by allocations and by growth
  largest,  // bytes of one object
  frees,
  reallocs,
  live_objects,  // when the run ended
  live_bytes,
  peak_bytes,       // live at one time
  object_accesses,  // sum of lifetimes, counted in accesses of the program
  object_ticks,     // in time stamps
  byte_ticks,       // sum of bytes times lifetime
  loads,
  stores,
  read_bytes,
  written_bytes,
  lines_logged,  // first store to a line in a burst
  lines_in,      // read into the modelled cache
  lines_out      // written back from it
};
inline constexpr std::size_t counter_count = static_cast<std::size_t>(counter::lines_out) + 1;

enum class site_kind : std::uint8_t {
  path = 0,     // an allocation by this call path, innermost first
  durable = 1,  // what lies in pools
  nowhere = 2   // allocations that no compiled call led to, and those beyond sites_max
};

}  // namespace nvm::advisor
