// Tables of a layer's functions by the kind of log of a pool. No code compares kinds of logs (tools/tree_rules.py):
// each layer has a table of its functions, with a row for each kind.
//
// The start of an engine is in src/engine/direct.cpp, recovery of its log in src/engine/recover_image.cpp, its check in
// src/care/check.cpp and its repair in src/care/repair_image.cpp.
#pragma once

#include <array>
#include <cstddef>

#include "pool/engines.hpp"

namespace nvm {

inline constexpr std::size_t log_kinds = static_cast<std::size_t>(log_kind::none) + 1;  // `none` is the last

// Rows have a member `kind`, and stand in the order of the kinds.
template <class Row>
class log_table {
 public:
  consteval explicit log_table(const std::array<Row, log_kinds>& rows) : rows_{rows} {
    for (std::size_t i = 0; i < log_kinds; ++i) {
      if (rows[i].kind != static_cast<log_kind>(i)) throw "the rows are not in the order of log_kind";
    }
  }
  [[nodiscard]] constexpr const Row& operator[](log_kind kind) const noexcept {
    return rows_[static_cast<std::size_t>(kind)];
  }

 private:
  std::array<Row, log_kinds> rows_;
};

}  // namespace nvm
