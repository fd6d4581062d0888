// A list that is larger than a test's limit of memory, and changes of it that can be checked.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "nvm/nvm.h"

namespace nvm::tests {

inline constexpr std::uint64_t mib = std::uint64_t{1} << 20;

// A list of blocks, each with its number and bytes that follow from it.
struct block {
  block* next;
  std::uint64_t number;
  std::uint64_t changed;  // times
  unsigned char bytes[3000];
};
struct root {
  block* first;
  std::uint64_t count;
  std::uint64_t changes;
};

inline void fill(block& b) {
  for (std::size_t i = 0; i < sizeof b.bytes; ++i) {
    b.bytes[i] = static_cast<unsigned char>(b.number * 7 + b.changed * 13 + i / (1 + b.number % 40));
  }
}
inline bool holds(const block& b) {
  block expected{nullptr, b.number, b.changed, {}};
  fill(expected);
  return std::memcmp(b.bytes, expected.bytes, sizeof b.bytes) == 0;
}

// `count` blocks, in transactions of ten.
inline void build(NVM_POOL* p, std::uint64_t count) {
  nvm_tx_begin(p);
  auto* r = static_cast<root*>(nvm_alloc(p, 1, sizeof(root)));
  ASSERT_NE(r, nullptr) << nvm_errormsg();
  *r = {};
  ASSERT_EQ(nvm_pool_set_root(p, r), 0);
  ASSERT_EQ(nvm_tx_commit(p), 0) << nvm_errormsg();
  for (std::uint64_t i = 0; i < count;) {
    nvm_tx_begin(p);
    ASSERT_EQ(nvm_tx_log(r, sizeof *r), 0) << nvm_errormsg();
    for (unsigned k = 0; k < 10 && i < count; ++k, ++i) {
      auto* b = static_cast<block*>(nvm_alloc(p, 2, sizeof(block)));
      ASSERT_NE(b, nullptr) << nvm_errormsg();
      b->next = r->first;
      b->number = i;
      b->changed = 0;
      fill(*b);
      r->first = b;
      ++r->count;
    }
    ASSERT_EQ(nvm_tx_commit(p), 0) << nvm_errormsg();
  }
}
// Blocks whose changes add up to what the root says; the rest is as it was built.
inline void verify(NVM_POOL* p, std::uint64_t count) {
  const auto* r = static_cast<const root*>(nvm_pool_get_root(p));
  ASSERT_NE(r, nullptr) << nvm_errormsg();
  std::uint64_t found = 0, changes = 0;
  for (const block* b = r->first; b != nullptr; b = b->next, ++found) {
    ASSERT_EQ(b->number, count - 1 - found);
    ASSERT_TRUE(holds(*b)) << b->number;
    changes += b->changed;
  }
  EXPECT_EQ(found, count);
  EXPECT_EQ(changes, r->changes);
}
inline void change(NVM_POOL* p, std::vector<block*>& blocks, std::mt19937& random, unsigned n) {
  auto* r = static_cast<root*>(nvm_pool_get_root(p));
  for (unsigned i = 0; i < n; ++i) {
    nvm_tx_begin(p);
    ASSERT_EQ(nvm_tx_log(&r->changes, 8), 0) << nvm_errormsg();
    const unsigned in_one = 1 + random() % 4;
    for (unsigned k = 0; k < in_one; ++k) {
      block* const b = blocks[random() % blocks.size()];
      ASSERT_EQ(nvm_tx_log(&b->changed, 8 + sizeof b->bytes), 0) << nvm_errormsg();
      ++b->changed;
      fill(*b);
      ++r->changes;
    }
    if (random() % 8 == 0) {
      ASSERT_EQ(nvm_tx_abort(p), 0) << nvm_errormsg();
    } else {
      ASSERT_EQ(nvm_tx_commit(p), 0) << nvm_errormsg();
    }
  }
}
inline std::vector<block*> all_of(NVM_POOL* p) {
  std::vector<block*> all;
  for (block* b = static_cast<root*>(nvm_pool_get_root(p))->first; b != nullptr; b = b->next) all.push_back(b);
  return all;
}

}  // namespace nvm::tests
