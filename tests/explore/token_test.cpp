// Tokens come back as they went, fit 64 characters or are refused, and rubbish is no token.
#include "explore/token.hpp"

#include <gtest/gtest.h>

#include <random>

namespace nvm::explore {
namespace {

bool equal(const state_path& a, const state_path& b) {
  if (a.persistency != b.persistency || a.trace_code != b.trace_code || a.mutation_code != b.mutation_code ||
      a.seed != b.seed || a.schedule != b.schedule || a.crashes.size() != b.crashes.size()) {
    return false;
  }
  for (std::size_t i = 0; i < a.crashes.size(); ++i) {
    const auto& x = a.crashes[i];
    const auto& y = b.crashes[i];
    if (x.point != y.point || x.tier != y.tier || x.is_explicit != y.is_explicit) return false;
    if (!x.is_explicit && x.row != y.row) return false;
    if (x.is_explicit && x.cuts.size() != y.cuts.size()) return false;
    for (std::size_t k = 0; x.is_explicit && k < x.cuts.size(); ++k) {
      if (x.cuts[k].unit != y.cuts[k].unit || x.cuts[k].value != y.cuts[k].value) return false;
    }
  }
  return true;
}

state_path random_path(std::mt19937_64& r) {
  const auto below = [&](std::uint64_t n) { return r() % n; };
  state_path p;
  p.persistency = static_cast<model>(below(4));
  p.trace_code = static_cast<std::uint32_t>(r());
  p.mutation_code = below(2) == 0 ? 0 : static_cast<std::uint32_t>(r());
  p.seed = below(1000);
  if (below(2) == 0) {
    p.schedule.emplace();
    std::uint32_t point = 0;
    for (std::uint64_t k = below(4); k > 0; --k) {
      point += 1 + static_cast<std::uint32_t>(below(300));
      p.schedule->push_back({point, 1 + static_cast<std::uint32_t>(below(3))});
    }
  }
  for (std::uint64_t d = 1 + below(p.schedule ? 2 : 4); d > 0; --d) {
    state_path::crash c;
    c.point = below(100'000);
    c.tier = static_cast<unsigned>(below(7));
    c.row = below(5'000);
    c.is_explicit = d == 1 && below(2) == 0;
    for (std::uint64_t k = below(4); c.is_explicit && k > 0; --k) {
      c.cuts.push_back({static_cast<std::uint32_t>(below(100)), static_cast<std::uint32_t>(below(300))});
    }
    p.crashes.push_back(c);
  }
  return p;
}

TEST(token, comes_back_as_it_went) {
  std::mt19937_64 r{1};
  for (int i = 0; i < 20'000; ++i) {
    const state_path p = random_path(r);
    const std::string token = encode(p);
    ASSERT_FALSE(token.empty());
    ASSERT_LE(token.size(), token_characters_max);
    const auto back = decode(token);
    ASSERT_TRUE(back.has_value()) << token;
    ASSERT_TRUE(equal(p, *back)) << token;
  }
}

TEST(token, that_does_not_fit_is_refused) {
  state_path p;
  state_path::crash c;
  c.is_explicit = true;
  for (std::uint32_t i = 0; i < 40; ++i) c.cuts.push_back({i, 1});
  p.crashes.push_back(c);
  EXPECT_TRUE(encode(p).empty());
}

TEST(token, made_of_rubbish_is_none) {
  EXPECT_FALSE(decode("").has_value());
  EXPECT_FALSE(decode("not a token").has_value());
  EXPECT_FALSE(decode(std::string(65, 'A')).has_value());
  std::mt19937_64 r{2};
  for (int i = 0; i < 50'000; ++i) {
    std::string s(r() % 70, ' ');
    for (char& ch : s) ch = static_cast<char>(r());
    if (const auto p = decode(s)) {
      EXPECT_LE(p->crashes.size(), 4U);
    }
  }
}

}  // namespace
}  // namespace nvm::explore
