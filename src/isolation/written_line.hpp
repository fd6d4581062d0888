// A line of memory that a transaction has written and nobody else sees yet: what a write set is made of, and what an
// engine takes home.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/base.hpp"

namespace nvm::isolation {

struct written_line {
  std::uint64_t line;                      // address / line_bytes
  std::uint64_t mask;                      // of the bytes written; bit i: byte i
  alignas(8) std::byte bytes[line_bytes];  // those not in `mask`: unspecified
};

}  // namespace nvm::isolation
