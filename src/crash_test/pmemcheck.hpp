// Store logs of pmemcheck (Valgrind's tool for persistent memory): entries separated by '|', their fields by ';'.
//
//   START, STOP                          recording began, ended
//   REGISTER_FILE;path;address;size;offset   a file is mapped there
//   STORE;address;value;size[;frame...]  with stack traces the innermost frame comes first
//   FLUSH;address;size
//   FENCE
//
// Numbers are hexadecimal, with or without 0x.  Other words in capitals, and words that end in .BEGIN or .END,
// are for the tool that usually reads the log; they are passed over.  A log may be anything: the first entry that does
// not fit refuses it, with line and entry.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "crash_test/recording.hpp"

namespace nvm::crash_test {

// One session, of the file that the log registers (`file`: the one to take if there are several; empty: the only one).
// Its image is `base`, the file's content when the log began, extended by zeros to what the log touches.  The whole log
// is one operation.  nullopt with the reason, which begins with "line N, entry M: " where an entry is to blame.  A file
// of which the log touches more than `image_max` bytes is refused.
[[nodiscard]] std::optional<recording> read_pmemcheck(std::string_view log, std::vector<std::byte> base,
                                                      std::string_view file, std::string& problem,
                                                      std::uint64_t image_max = image_bytes_max);

}  // namespace nvm::crash_test
