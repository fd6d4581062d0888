#include "explore/covering.hpp"

#include <bit>

namespace nvm::explore {

namespace {

// Calls f(word) for the first `count` words of `rows` bits with `weight` ones, in increasing order.
template <class F>
void each_of_weight(std::size_t rows, std::size_t weight, std::size_t count, F f) {
  std::uint64_t w = (std::uint64_t{1} << weight) - 1;
  for (std::size_t i = 0; i < count && (w >> rows) == 0; ++i) {
    f(i, w);
    const std::uint64_t low = w & (~w + 1);  // next larger word of equal weight
    const std::uint64_t ripple = w + low;
    w = ripple | (((w ^ ripple) >> 2) >> std::countr_zero(low));
  }
}

// Smallest number of rows whose words of half weight suffice for `columns`.
std::size_t rows_for(std::size_t columns) {
  std::size_t rows = 2;
  for (;; ++rows) {
    std::uint64_t choose = 1;
    for (std::size_t i = 1; i <= rows / 2; ++i) choose = choose * (rows + 1 - i) / i;
    if (choose >= columns) return rows;
  }
}

}  // namespace

covering_array covering_array::pairs(std::size_t columns) {
  const std::size_t rows = rows_for(columns);
  covering_array a(rows, columns);
  each_of_weight(rows, rows / 2, columns, [&](std::size_t column, std::uint64_t word) {
    for (std::size_t row = 0; row < rows; ++row) {
      if ((word >> row & 1) != 0) a.set(row, column);
    }
  });
  return a;
}

covering_array covering_array::triples(std::size_t columns) {
  if (columns <= 4) {
    // The orthogonal array of 8 rows: three free bits and their parity.
    covering_array a(8, columns);
    for (std::size_t row = 0; row < 8; ++row) {
      for (std::size_t column = 0; column < columns; ++column) {
        const bool high = column < 3 ? (row >> column & 1) != 0 : std::popcount(row) % 2 != 0;
        if (high) a.set(row, column);
      }
    }
    return a;
  }
  const std::size_t half = (columns + 1) / 2;
  const covering_array strong = triples(half);
  const covering_array weak = pairs(half);
  const std::size_t extra = strong.rows();
  covering_array a(extra + weak.rows() + 2, columns);  // two more: `weak` needs its all-low and all-high rows here
  for (std::size_t column = 0; column < columns; ++column) {
    const std::size_t of = column % half;
    const bool second = column >= half;
    for (std::size_t row = 0; row < extra; ++row) {
      if (strong.high(row, of)) a.set(row, column);
    }
    for (std::size_t row = 0; row < weak.rows(); ++row) {
      if (weak.high(row, of) != second) a.set(extra + row, column);
    }
    a.set(extra + weak.rows() + (second ? 1 : 0), column);  // rows (high | low) and (low | high)
  }
  return a;
}

}  // namespace nvm::explore
