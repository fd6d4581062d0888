// NVM_LF_VERIFY_READS: a damaged entry is an error for readers with such a handle, and for no others.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "mended_pools.hpp"

namespace nvm::tests {
namespace {

class verified_reads : public testing::TestWithParam<subject> {};
std::string name_of_verified(const testing::TestParamInfo<subject>& i) { return i.param.name; }
INSTANTIATE_TEST_SUITE_P(
    structures, verified_reads,
    testing::Values(subject{"words_hash", NVM_LF_HASH, 0}, subject{"words_skip_list", NVM_LF_SKIP_LIST, 0},
                    subject{"bytes_list", NVM_LF_LIST, NVM_LF_BYTES}, subject{"bytes_hash", NVM_LF_HASH, NVM_LF_BYTES},
                    subject{"bytes_tree", NVM_LF_TREE, NVM_LF_BYTES},
                    subject{"bytes_hash_ssd", NVM_LF_HASH, NVM_LF_BYTES, NVM_ENGINE_REDO, true},
                    subject{"bytes_hash_volatile", NVM_LF_HASH, NVM_LF_BYTES | NVM_LF_VOLATILE_LINKS}),
    name_of_verified);

nvm_lf* open_with(NVM_POOL* pool, const subject& s, std::uint32_t flags) {
  nvm_lf_options o{};
  o.mode = 1;
  o.kind = s.kind;
  o.flags = s.flags | flags;
  return nvm_lf_open(pool, name, &o);
}
// 1: there, with the value; 2: with another one; 0, -1: as the call.
int read(nvm_lf* lf, const subject& s, std::uint64_t k) {
  const std::string key = key_of(s, k);
  const std::string expected = value_of(s, k);
  if (!s.of_bytes()) {
    std::uint64_t value = 0;
    const int there = nvm_lf_get64(lf, word_of(key), &value);
    return there == 1 && value != word_of(expected) ? 2 : there;
  }
  std::string value(expected.size(), 0);
  std::size_t bytes = 0;
  const int there = nvm_lf_get(lf, key.data(), key.size(), value.data(), value.size(), &bytes);
  return there == 1 && value != expected ? 2 : there;
}

TEST_P(verified_reads, fail_of_a_damaged_entry_alone) {
  ::setenv("HOLDFAST_ACCEPT_COPY", "1", 1);
  const subject& s = GetParam();
  pools p{s};
  const std::uint64_t before = s.of_bytes() ? (s.is_volatile() ? 40 : 32) + key_of(s, 41).size() : 16;
  p.bytes[p.head_of(41) + before + 4] ^= 0x20;
  NVM_POOL* pool = p.open_damaged();
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  nvm_lf* const trusting = open_with(pool, s, 0);
  nvm_lf* const verifying = open_with(pool, s, NVM_LF_VERIFY_READS);
  ASSERT_NE(trusting, nullptr) << nvm_errormsg();
  ASSERT_NE(verifying, nullptr) << nvm_errormsg();
  EXPECT_NE(trusting, verifying);
  EXPECT_EQ(read(trusting, s, 41), 2);
  EXPECT_EQ(read(verifying, s, 41), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_CORRUPT) << nvm_errormsg();
  for (std::uint64_t k = 0; k < keys; ++k) {
    if (k == 41) continue;
    EXPECT_EQ(read(verifying, s, k), 1) << k << ": " << nvm_errormsg();
  }
  if (s.of_bytes()) {
    const std::string key = key_of(s, 41);
    nvm_lf_entry e;
    EXPECT_EQ(nvm_lf_find(verifying, key.data(), key.size(), &e), -1);
    EXPECT_EQ(nvm_lf_find(trusting, key.data(), key.size(), &e), 1);
    bool is_asked = false;
    const auto decide = [](const nvm_lf_entry*, nvm_lf_change*, void* asked) {
      *static_cast<bool*>(asked) = true;
      return NVM_LF_KEEP;
    };
    EXPECT_EQ(nvm_lf_update(verifying, key.data(), key.size(), decide, &is_asked), -1);
    EXPECT_FALSE(is_asked);
    EXPECT_EQ(nvm_lf_update(trusting, key.data(), key.size(), decide, &is_asked), 0);
    EXPECT_TRUE(is_asked);
  }
  // A new entry takes its place.
  EXPECT_TRUE(put(verifying, s, key_of(s, 41), value_of(s, 41), 0));
  EXPECT_EQ(read(verifying, s, 41), 1);
  EXPECT_EQ(nvm_pool_close(pool), 0);
}

}  // namespace
}  // namespace nvm::tests
