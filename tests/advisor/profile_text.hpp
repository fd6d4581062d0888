// Profiles for tests: written as text, with the sum that belongs to it.
#pragma once

#include <fmt/core.h>

#include <string>

#include "advisor/profile_format.hpp"
#include "base/checksum.hpp"

namespace nvm::advisor {

inline std::string summed(const std::string& body) {
  return body + fmt::format("sum {:016x}\n", checksum(body.data(), body.size(), profile_version));
}

// A header; 1,000 time stamps are 2,000 ns.
inline std::string header_text(const std::string& build = "ab12") {
  return "holdfast-profile 1\nbuild " + build + "\nprogram /bin/p\nclock 8192 1000 2000\nsettings 4 4096 32768\n";
}

// Two files, a call of malloc in a wrapper, two callers, and a strdup.
inline std::string body_text(const std::string& build = "ab12") {
  return header_text(build) +
         "file 1 0123456789abcdef0123456789abcdef /src/a%20b.c\n"
         "unit 1 /src clang%20-O2%20a.c\n"
         "place 1 1 10 3 xmalloc malloc 0\n"
         "place 2 1 20 5 make xmalloc 0\n"
         "site 1 0 2 1 2 100 6400 64 40 0 60 3840 6400 1000 2000 128000 300 200 2400 1600 50 20 10\n"
         "file 2 - /src/b.c\n"
         "place 3 2 7 9 main xmalloc 2\n"
         "site 2 0 2 1 3 1 10 10 0 2 1 10 10 5 6 7 8 9 10 11 12 13 14\n"
         "site 3 1 0 0 0 0 0 0 0 0 0 0 0 0 70 80 90 100 0 1 2\n"
         "edge 1 free 2 40\n"
         "edge 2 realloc 3 2\n";
}

inline std::string profile_text(const std::string& build = "ab12") { return summed(body_text(build)); }

}  // namespace nvm::advisor
