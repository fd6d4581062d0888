// Fences of one call on a key-value store, on the engine that logs before it stores: counts, which no noise touches.
#include <string>

#include "kv_testing.hpp"

namespace nvm::tests {
namespace {

class kv_fences : public testing::TestWithParam<enum nvm_kv_index> {
 protected:
  const pool_place place{{"shm_undo", NVM_MEDIUM_SHM, NVM_ENGINE_UNDO}};
  pool p = [&] {
    nvm_pool_options o = place.options();
    o.meter = 1;
    return std::move(*pool::create(place.path().c_str(), o));
  }();
  kv open(const char* name, unsigned flags = 0) {
    nvm_kv_options o{};
    o.index = GetParam();
    o.flags = flags;
    kv s = std::move(*kv::open(p, name, o));
    // What the first calls of a thread do besides is done then.
    for (unsigned i = 0; i < 3; ++i) EXPECT_TRUE(s.put(number_key(i), std::string(100, 'v')));
    return s;
  }
  template <class Call>
  std::uint64_t fences_of(Call&& call) {
    nvm_statistics before{};
    nvm_statistics after{};
    EXPECT_EQ(nvm_pool_get_statistics(p.handle(), &before), 0);
    call();
    EXPECT_EQ(nvm_pool_get_statistics(p.handle(), &after), 0);
    return after.fences - before.fences;
  }
  // Changes `bytes` bytes of a value from `from` on.
  static void edit(kv& s, std::size_t from, std::size_t bytes) {
    struct piece {
      std::size_t from;
      std::size_t bytes;
    } which{from, bytes};
    EXPECT_EQ(nvm_kv_update(
                  s.handle(), number_key(1).data(), number_key(1).size(), 0,
                  [](void* value, std::size_t*, std::size_t, void* argument) {
                    const auto& w = *static_cast<const piece*>(argument);
                    for (std::size_t i = 0; i < w.bytes; ++i) static_cast<char*>(value)[w.from + i] ^= 1;
                    return 0;
                  },
                  &which),
              1);
  }
};
INSTANTIATE_TEST_SUITE_P(indexes, kv_fences, testing::ValuesIn(indexes),
                         [](const auto& p) { return std::string{nvm_kv_index_name(p.param)}; });

TEST_P(kv_fences, of_a_change_are_the_same_with_checksums) {
  kv plain = open("plain", NVM_KV_NO_CHECKSUMS);
  kv checked = open("checked");
  // All of the value, its last byte, and its first one, which is far from the checksum.
  for (const auto& [from, bytes] : {std::pair{0, 100}, std::pair{99, 1}, std::pair{0, 1}}) {
    const std::uint64_t without = fences_of([&] { edit(plain, from, bytes); });
    EXPECT_EQ(fences_of([&] { edit(checked, from, bytes); }), without) << from;
    EXPECT_EQ(without, 3U) << "old bytes; new bytes; the commit";
  }
  const std::string other(100, 'w');
  EXPECT_EQ(fences_of([&] { EXPECT_TRUE(checked.put(number_key(1), other)); }), 3U);
  // Sizes and figures change, too.
  const std::string shorter(90, 'w');
  EXPECT_EQ(fences_of([&] { EXPECT_TRUE(checked.put(number_key(1), shorter)); }), 3U);
  EXPECT_EQ(*checked.get(number_key(1)), shorter);
}

TEST_P(kv_fences, of_an_insertion_and_a_removal_are_those_of_one_announcement) {
  // Rotations are as many as there are.
  if (GetParam() == NVM_KV_RBTREE) return;
  kv s = open("store");
  EXPECT_EQ(fences_of([&] { EXPECT_TRUE(s.put(number_key(7), std::string(100, 'v'))); }), 3U);
  EXPECT_EQ(fences_of([&] { EXPECT_TRUE(*s.remove(number_key(7))); }), 3U);
}

}  // namespace
}  // namespace nvm::tests
