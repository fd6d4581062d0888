// Covering arrays over two levels: few rows such that every choice of t columns shows all 2^t combinations.
//
//   t = 2  columns are distinct subsets of the rows, none inside another (Sperner): with an all-low and an all-high row
//          beside them every pair is covered.  r rows serve C(r, r/2) columns: 35 columns, 7 rows.
//   t = 3  doubling (Roux): from A of strength 3 and B of strength 2, both of k columns, [A A; B ~B] has strength 3 and
//          2k columns: 16 columns, 21 rows.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

namespace nvm::explore {

class covering_array {
 public:
  // Strength 2 together with the all-low and the all-high row, which are not among the rows.
  static covering_array pairs(std::size_t columns);
  // Strength 3 by itself.
  static covering_array triples(std::size_t columns);

  [[nodiscard]] std::size_t rows() const noexcept { return rows_; }
  [[nodiscard]] std::size_t columns() const noexcept { return columns_; }
  [[nodiscard]] bool high(std::size_t row, std::size_t column) const noexcept {
    return (bits_[column * words_ + row / 64] >> (row % 64) & 1) != 0;
  }

 private:
  covering_array(std::size_t rows, std::size_t columns)
      : rows_{rows}, columns_{columns}, words_{rows / 64 + 1}, bits_(words_ * columns, 0) {}
  void set(std::size_t row, std::size_t column) noexcept {
    bits_[column * words_ + row / 64] |= std::uint64_t{1} << (row % 64);
  }

  std::size_t rows_;
  std::size_t columns_;
  std::size_t words_;
  std::vector<std::uint64_t> bits_;  // by column
};

// Arrays made once for each size that is a power of two; any number of columns up to it may be used. Returned arrays
// stay in place: a level of the explorer still uses its own while the level below asks for a larger one.
class covering_arrays {
 public:
  const covering_array& pairs(std::size_t columns) { return at(pairs_, columns, &covering_array::pairs); }
  const covering_array& triples(std::size_t columns) { return at(triples_, columns, &covering_array::triples); }

 private:
  static const covering_array& at(std::deque<covering_array>& of, std::size_t columns,
                                  covering_array (*make)(std::size_t)) {
    std::size_t i = 0;
    while ((std::size_t{1} << i) < columns) ++i;
    while (of.size() <= i) of.push_back(make(std::size_t{1} << of.size()));
    return of[i];
  }
  std::deque<covering_array> pairs_;
  std::deque<covering_array> triples_;
};

}  // namespace nvm::explore
