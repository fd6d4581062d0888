// Covering arrays cover, for every number of columns that matters, and stay as small as the plan counts on.
#include "explore/covering.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace nvm::explore {
namespace {

// All 2^t combinations of every t columns appear, counting the two constant rows if `with_constant_rows`.
void expect_pairs(const covering_array& a, std::size_t columns, bool with_constant_rows) {
  for (std::size_t i = 0; i < columns; ++i) {
    for (std::size_t j = i + 1; j < columns; ++j) {
      unsigned seen = with_constant_rows ? 0b1001U : 0U;
      for (std::size_t r = 0; r < a.rows(); ++r) seen |= 1U << (a.high(r, i) * 2 + a.high(r, j));
      ASSERT_EQ(seen, 0b1111U) << columns << " columns: " << i << ", " << j;
    }
  }
}
void expect_triples(const covering_array& a, std::size_t columns) {
  for (std::size_t i = 0; i < columns; ++i) {
    for (std::size_t j = i + 1; j < columns; ++j) {
      for (std::size_t k = j + 1; k < columns; ++k) {
        unsigned seen = 0;
        for (std::size_t r = 0; r < a.rows(); ++r) seen |= 1U << (a.high(r, i) * 4 + a.high(r, j) * 2 + a.high(r, k));
        ASSERT_EQ(seen, 0xFFU) << columns << " columns: " << i << ", " << j << ", " << k;
      }
    }
  }
}

TEST(covering_array, of_strength_two_shows_every_pair_of_columns_all_four_ways) {
  for (std::size_t n = 1; n <= 300; n = n < 40 ? n + 1 : n * 2) expect_pairs(covering_array::pairs(n), n, true);
}

TEST(covering_array, of_strength_three_shows_every_three_columns_all_eight_ways) {
  for (std::size_t n = 3; n <= 70; ++n) expect_triples(covering_array::triples(n), n);
}

TEST(covering_array, keeps_its_strength_when_columns_are_left_out) {
  covering_arrays arrays;
  for (std::size_t n : {3U, 5U, 6U, 11U, 33U}) {
    expect_pairs(arrays.pairs(n), n, true);
    expect_triples(arrays.triples(n), n);
  }
}

TEST(covering_array, grows_with_the_logarithm_of_its_columns) {
  EXPECT_EQ(covering_array::pairs(35).rows(), 7U);
  EXPECT_LE(covering_array::pairs(1000).rows(), 13U);
  EXPECT_EQ(covering_array::triples(4).rows(), 8U);
  EXPECT_LE(covering_array::triples(16).rows(), 21U);
  EXPECT_LE(covering_array::triples(1024).rows(), 90U);
}

// An explorer uses one at each depth of crashes inside recovery.
TEST(covering_arrays, keep_an_array_where_it_is_when_larger_ones_are_asked_for) {
  covering_arrays all;
  const covering_array& pairs = all.pairs(2);
  const covering_array& triples = all.triples(2);
  const covering_array was_pairs = pairs;
  const covering_array was_triples = triples;
  for (std::size_t columns = 4; columns <= 4096; columns *= 2) {
    (void)all.pairs(columns);
    (void)all.triples(columns);
  }
  EXPECT_EQ(&all.pairs(2), &pairs);
  EXPECT_EQ(&all.triples(2), &triples);
  ASSERT_EQ(pairs.rows(), was_pairs.rows());
  ASSERT_EQ(triples.rows(), was_triples.rows());
  for (std::size_t row = 0; row < pairs.rows(); ++row) EXPECT_EQ(pairs.high(row, 1), was_pairs.high(row, 1));
  for (std::size_t row = 0; row < triples.rows(); ++row) EXPECT_EQ(triples.high(row, 1), was_triples.high(row, 1));
}

}  // namespace
}  // namespace nvm::explore
