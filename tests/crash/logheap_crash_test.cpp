// The log-structured heap survives a crash at any point: each committed transaction is there as a whole, others not at
// all, whatever was being cleaned, recovered, closed or loaded; planted bugs are found.
#include <gtest/gtest.h>

#include <cctype>
#include <cstdio>

#include "../random_seed.hpp"
#include "logheap_random.hpp"
#include "today.hpp"

namespace nvm::tests {
namespace {

using explore::explore;
using explore::model;
using explore::report;

struct on_model {
  logheap_story of;
  logheap_variant with;
  model under;
};
std::string identifier(std::string text) {
  for (char& c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return text;
}
std::string name_of_case(const testing::TestParamInfo<on_model>& i) {
  return identifier(i.param.of.name) + "_" + name_of(i.param.under) + "_" + i.param.with.name;
}
const logheap_variant one_log{"one_log", false};
std::vector<on_model> cases() {
  std::vector<on_model> all;
  for (const logheap_story& s : logheap_stories()) {
    for (const model m : {model::x86, model::torn8}) {
      all.push_back({s, {}, m});
      all.push_back({s, one_log, m});
    }
  }
  return all;
}

class logheap_stories_crash : public testing::TestWithParam<on_model> {};

TEST_P(logheap_stories_crash, loses_nothing_that_was_committed) {
  const auto& [of, with, under] = GetParam();
  const report r = explore_today(logheap_subject(with, of), logheap_options(under));
  EXPECT_TRUE(r.clean()) << r.text();
  std::printf("%s\n", r.text().c_str());
}
INSTANTIATE_TEST_SUITE_P(stories, logheap_stories_crash, testing::ValuesIn(cases()), name_of_case);

TEST(logheap_crash, takes_no_block_of_a_use_that_a_crash_has_prevented) {
  explore::two_crashes s = copies_left_in_a_free_chunk();
  std::size_t starts = 0;
  s.then = [&starts, then = s.then](std::vector<std::byte> image) {
    ++starts;
    return then(std::move(image));
  };
  for (const model m : {model::x86, model::torn8}) {
    const report r = explore::explore(s, logheap_options(m));
    EXPECT_TRUE(r.clean()) << r.text();
  }
  EXPECT_GT(starts, 0U);
}

TEST(logheap_crash, of_random_transactions_loses_nothing_that_was_committed) {
  std::uint64_t seed = 1000 * seed_from_environment();
  for (const logheap_variant& with : {logheap_variant{}, one_log}) {
    for (const model m : {model::x86, model::torn8, model::eadr}) {
      explore::options o = logheap_options(m);
      o.nesting = 2;
      o.exhaustive_max = 64;
      const report r = explore(random_logheap_subject(++seed, 120, with), o);
      EXPECT_TRUE(r.clean()) << r.text();
      std::printf("%s\n", r.text().c_str());
    }
  }
}

bool finds(plant bug, const char* story, model m) {
  planted_bug = bug;
  explore::options o = logheap_options(m);
  o.print_violations = false;
  const bool found = explore(logheap_subject({}, logheap_story_named(story)), o).finds_violation();
  planted_bug = plant::none;
  return found;
}
TEST(logheap_planted, a_chunk_recycled_while_its_blocks_are_wanted_as_peers_is_found) {
  for (const model m : {model::x86, model::torn8}) {
    EXPECT_TRUE(finds(plant::recycled_without_through, "a block's peer is cleaned away", m));
  }
}
TEST(logheap_planted, a_tombstone_let_go_before_what_it_hides_is_found) {
  for (const model m : {model::x86, model::torn8}) {
    EXPECT_TRUE(finds(plant::tombstone_let_go, "a tombstone outlives what it hides", m));
  }
}
TEST(logheap_planted, addresses_that_go_to_another_size_before_the_log_has_forgotten_them_are_found) {
  for (const model m : {model::x86, model::torn8}) {
    EXPECT_TRUE(finds(plant::addresses_left_early, "home addresses go to objects of another size", m));
  }
}

}  // namespace
}  // namespace nvm::tests
