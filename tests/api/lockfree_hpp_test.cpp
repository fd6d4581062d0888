// Maps and sets of C++ over lock-free structures: types of keys and values, order, iteration, updates, reopening.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "nvm/lockfree.hpp"
#include "scratch.hpp"

namespace {

struct visit_count {
  std::uint32_t visits;
  std::uint32_t bytes;
};
struct measured {
  double mean;
  std::int64_t count;
  std::array<char, 20> unit;
};
struct address {
  std::array<unsigned char, 16> octets;
};
enum class level : std::int16_t { low = -5, middle = 0, high = 7 };

static_assert(nvm::lf_map<std::uint64_t, double>::of_words);
static_assert(nvm::lf_map<std::int32_t, visit_count>::of_words);
static_assert(!nvm::lf_map<std::int32_t, measured>::of_words);
static_assert(!nvm::lf_map<std::string, std::uint64_t>::of_words);
static_assert(nvm::lf_set<level>::key_taken{} == level::middle);

class lockfree_in_cpp : public ::testing::TestWithParam<nvm_lf_kind> {
 protected:
  void SetUp() override {
    nvm_pool_options o{};
    o.size = 16 << 20;
    pool = nvm::pool::create(place.path().c_str(), o);
    ASSERT_TRUE(pool) << nvm_errormsg();
  }
  void reopen() {
    ASSERT_TRUE(pool->close()) << nvm_errormsg();
    pool = nvm::pool::open(place.path().c_str());
    ASSERT_TRUE(pool) << nvm_errormsg();
  }
  static bool is_sorted() { return GetParam() != NVM_LF_HASH; }
  template <class Map>
  Map open(const char* name) {
    auto made = Map::open(*pool, name, {GetParam()});
    EXPECT_TRUE(made) << nvm_errormsg();
    return std::move(*made);
  }
  // What a map holds is what the model holds, in its order where there is one.
  template <class K, class V, class Same>
  void expect_same(nvm::lf_map<K, V>& all, const std::map<K, V>& model, Same same) {
    auto seen = all.entries();
    auto expected = model.begin();
    std::size_t n = 0;
    for (const auto& [key, value] : seen) {
      if (is_sorted()) {
        ASSERT_NE(expected, model.end());
        EXPECT_TRUE(expected->first == key);
        ++expected;
      }
      const auto at = model.find(key);
      ASSERT_NE(at, model.end());
      EXPECT_TRUE(same(at->second, value));
      ++n;
    }
    EXPECT_EQ(seen.code(), NVM_OK);
    EXPECT_EQ(n, model.size());
    EXPECT_EQ(*all.size(), model.size());
  }

  nvm::tests::scratch place{false};
  std::optional<nvm::pool> pool;
};

TEST_P(lockfree_in_cpp, maps_numbers_in_their_order) {
  using map = nvm::lf_map<std::int64_t, double>;
  map all = open<map>("numbers");
  std::map<std::int64_t, double> model;
  constexpr auto lowest = std::numeric_limits<std::int64_t>::min();
  constexpr auto highest = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t k : {lowest, lowest + 1, std::int64_t{-1}, std::int64_t{0}, std::int64_t{1}, highest}) {
    model[k] = 0.5 * static_cast<double>(k);
  }
  for (int i = 0; i < 300; ++i) model[(i * 7919 % 300 - 150) * 10] = i;
  for (const auto& [k, v] : model) EXPECT_TRUE(all.put(k, v)) << nvm_errormsg();
  const auto same = [](double a, double b) { return a == b; };
  expect_same(all, model, same);
  if (is_sorted()) {
    auto from = all.entries_from(-15);
    auto expected = model.lower_bound(-15);
    std::size_t n = 0;
    for (const auto& [k, v] : from) {
      ASSERT_NE(expected, model.end());
      EXPECT_EQ(k, expected->first);
      EXPECT_EQ(v, expected->second);
      ++expected;
      ++n;
    }
    EXPECT_EQ(n, static_cast<std::size_t>(std::distance(model.lower_bound(-15), model.end())));
  } else {
    auto none = all.entries_from(0);
    EXPECT_TRUE(none.begin() == none.end());
    EXPECT_EQ(none.code(), NVM_E_TYPE_MISMATCH);
  }

  EXPECT_FALSE(all.insert(-1, 9)) << "it is there";
  EXPECT_EQ(all.insert(-1, 9).code(), NVM_OK);
  EXPECT_TRUE(all.insert(-3, 9));
  EXPECT_TRUE(all.replace(-3, 10));
  EXPECT_FALSE(all.replace(-4, 10));
  EXPECT_EQ(*all.get(-3), 10);
  EXPECT_TRUE(all.contains(-3));
  EXPECT_TRUE(all.remove(-3));
  EXPECT_FALSE(all.remove(-3));
  EXPECT_FALSE(all.get(-3));
  EXPECT_EQ(all.get(-3).code(), NVM_OK);
  reopen();
  EXPECT_FALSE(all.get(0));
  EXPECT_EQ(all.get(0).code(), NVM_E_INVALID) << "its pool was closed";
  all = open<map>("numbers");
  expect_same(all, model, same);
}

TEST_P(lockfree_in_cpp, maps_text_to_structures) {
  using map = nvm::lf_map<std::string, measured>;
  map all = open<map>("text");
  std::map<std::string, measured> model;
  for (int i = 0; i < 200; ++i) {
    model["a name that is rather long, number " + std::to_string(i)] = {0.25 * i, i, {"metres"}};
  }
  model[""] = {};
  model[std::string("a\0b", 3)] = {1, 2, {"x"}};
  for (const auto& [k, v] : model) EXPECT_TRUE(all.insert(k, v)) << nvm_errormsg();
  const auto same = [](const measured& a, const measured& b) {
    return a.mean == b.mean && a.count == b.count && a.unit == b.unit;
  };
  expect_same(all, model, same);
  EXPECT_EQ(all.get("a name that is rather long, number 7")->count, 7);

  const auto count = [](const std::optional<measured>& old) {
    measured m = old.value_or(measured{});
    ++m.count;
    return std::optional{m};
  };
  EXPECT_EQ(*all.update("new", count), nvm::lf_done::inserted);
  EXPECT_EQ(*all.update("new", count), nvm::lf_done::replaced);
  EXPECT_EQ(all.get("new")->count, 2);
  EXPECT_THROW((void)all.update("new", [](const auto&) -> std::optional<measured> { throw std::runtime_error{"no"}; }),
               std::runtime_error);
  EXPECT_EQ(all.get("new")->count, 2);
  const auto away = [](const auto&) { return std::optional<measured>{}; };
  EXPECT_EQ(*all.update("new", away), nvm::lf_done::removed);
  EXPECT_EQ(*all.update("new", away), nvm::lf_done::nothing);
  reopen();
  all = open<map>("text");
  expect_same(all, model, same);
}

TEST_P(lockfree_in_cpp, counts_from_several_threads) {
  using map = nvm::lf_map<std::string, std::string>;
  map all = open<map>("counts");
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        EXPECT_TRUE(all.update("n", [](const std::optional<std::string>& old) {
          return std::optional{old.value_or("") + "x"};
        })) << nvm_errormsg();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(*all.get("n"), std::string(300, 'x'));
}

TEST_P(lockfree_in_cpp, has_sets) {
  auto levels = open<nvm::lf_set<level>>("levels");
  EXPECT_TRUE(levels.insert(level::high));
  EXPECT_TRUE(levels.insert(level::low));
  EXPECT_TRUE(levels.insert(level::middle));
  EXPECT_FALSE(levels.insert(level::middle));
  std::vector<level> seen;
  for (const auto& [l, nothing] : levels.keys()) seen.push_back(l);
  EXPECT_EQ(seen.size(), 3U);
  if (is_sorted()) {
    EXPECT_EQ(seen, (std::vector{level::low, level::middle, level::high}));
    seen.clear();
    for (const auto& [l, nothing] : levels.keys_from(level::middle)) seen.push_back(l);
    EXPECT_EQ(seen, (std::vector{level::middle, level::high}));
  }
  EXPECT_TRUE(levels.remove(level::low));
  EXPECT_FALSE(levels.contains(level::low));
  EXPECT_EQ(*levels.size(), 2U);

  auto addresses = open<nvm::lf_set<address>>("addresses");
  address a{{1, 2, 3}};
  EXPECT_TRUE(addresses.insert(a));
  EXPECT_TRUE(addresses.contains(a));
  a.octets[15] = 1;
  EXPECT_FALSE(addresses.contains(a));
  for (const auto& [found, nothing] : addresses.keys()) EXPECT_EQ(found.octets[2], 3);
}

TEST_P(lockfree_in_cpp, tells_of_entries_that_are_of_another_type) {
  {
    auto texts = open<nvm::lf_map<std::string, std::string>>("mixed");
    EXPECT_TRUE(texts.put("short", "x"));
  }
  auto numbers = open<nvm::lf_map<std::string, std::uint64_t>>("mixed");
  EXPECT_EQ(numbers.get("short").code(), NVM_E_TYPE_MISMATCH);
  EXPECT_EQ(numbers.update("short", [](const auto& old) { return old; }).code(), NVM_E_TYPE_MISMATCH);
  auto all = numbers.entries();
  EXPECT_TRUE(all.begin() == all.end());
  EXPECT_EQ(all.code(), NVM_E_TYPE_MISMATCH);
  const bool opens = nvm::lf_map<std::uint64_t, std::uint64_t>::open(*pool, "mixed").has_value();
  EXPECT_FALSE(opens);
  EXPECT_EQ(nvm_errno(), NVM_E_TYPE_MISMATCH);
}

std::string name_of_kind(const ::testing::TestParamInfo<nvm_lf_kind>& info) {
  constexpr const char* names[] = {"", "list", "hash", "skip_list", "tree"};
  return names[info.param];
}
INSTANTIATE_TEST_SUITE_P(all, lockfree_in_cpp,
                         ::testing::Values(NVM_LF_LIST, NVM_LF_HASH, NVM_LF_SKIP_LIST, NVM_LF_TREE), name_of_kind);

}  // namespace
