#include <gtest/gtest.h>

#include <string>

#include "advisor/prices.hpp"
#include "profile_text.hpp"

namespace nvm::advisor {
namespace {

// 2 bursts (8,192 accesses of 4,096) and one that had begun; 2 ns for a time stamp.
profile run_of(const std::string& sites) {
  std::string problem;
  const std::string places =
      "file 1 - /a.c\nplace 1 1 1 1 f malloc 0\nplace 2 1 2 1 f malloc 0\nplace 3 1 3 1 f malloc 0\n";
  auto p = read_profile(summed(header_text() + places + sites), problem);
  EXPECT_TRUE(p.has_value()) << problem;
  return p.value_or(profile{});
}

//                          objects bytes largest frees reallocs live live_bytes peak
const std::string hand_site =
    "site 1 0 1 1 10 1000 100 10 0 0 0 1000"
    // object_accesses object_ticks byte_ticks
    " 0 0 536870912000"
    // loads stores read written logged in out
    " 500 300 4000 2400 2 40 30\n";

medium_costs hand_costs() {
  medium_costs c;
  c.read_ns = 100;
  c.write_ns = 50;
  c.alloc_ns = 7;
  c.log_ns = 11;
  c.commit_ns = 1000;
  c.log_lines = 2;
  c.read_pj = 2;
  c.write_pj = 10;
  c.static_mw = 100;
  c.endurance = 1000;
  c.miss_share = 0.5;
  c.miss_ns = 20;
  return c;
}

TEST(prices, are_those_computed_by_hand) {
  const profile run = run_of(hand_site);
  const price p = price_of(run.sites[0], run, hand_costs(), {});
  // 40 * (100 + 0.5 * 20) + 30 * 50 + 10 * 7 + 2 * 11 + min(2, 3) * 1000
  EXPECT_DOUBLE_EQ(p.time_ns, 4400 + 1500 + 70 + 22 + 2000);
  // 512 * (40 * 2 + (30 + 2 * 2) * 10)
  EXPECT_DOUBLE_EQ(p.access_pj, 512 * (80 + 340));
  // 500 GiB-ticks of 2 ns at 100 mW a GiB: 1e-6 GiB s * 100 mW = 1e-4 mJ = 1e5 pJ
  EXPECT_NEAR(p.static_pj, 1e5, 1e-3);
  EXPECT_DOUBLE_EQ(p.energy_pj(), p.access_pj + p.static_pj);
  // (30 + 2 * 2) lines over ceil(1000 / 64) = 16 lines that take 1000 writes each
  EXPECT_DOUBLE_EQ(p.wear, 34.0 / 16000);
}

TEST(prices, without_transactions_have_neither_log_nor_commits) {
  const profile run = run_of(hand_site);
  const price p = price_of(run.sites[0], run, hand_costs(), {access_model::lines, false});
  EXPECT_DOUBLE_EQ(p.time_ns, 4400 + 1500 + 70);
  EXPECT_DOUBLE_EQ(p.access_pj, 512 * (80 + 300));
  EXPECT_DOUBLE_EQ(p.wear, 30.0 / 16000);
}

TEST(prices, of_instructions_are_the_papers) {
  const profile run = run_of(hand_site);
  const price p = price_of(run.sites[0], run, hand_costs(), {access_model::instructions, true});
  EXPECT_DOUBLE_EQ(p.access_pj, 8 * (4000.0 * 2 + 2400.0 * 10));
  EXPECT_NEAR(p.static_pj, 1e5, 1e-3);
}

TEST(prices, have_no_more_transactions_than_bursts) {
  std::string many = hand_site;
  many.replace(many.find(" 2 40 30"), 8, " 900 40 30");
  const profile run = run_of(many);
  const price p = price_of(run.sites[0], run, hand_costs(), {});
  EXPECT_DOUBLE_EQ(p.time_ns, 4400 + 1500 + 70 + 900 * 11 + 3 * 1000);
}

TEST(prices, of_what_never_wears_and_of_nothing_are_finite) {
  const profile run = run_of("site 1 0 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
  medium_costs c = hand_costs();
  EXPECT_EQ(price_of(run.sites[0], run, c, {}).wear, 0);
  c.endurance = 0;
  const price p = price_of(run.sites[0], run, c, {});
  EXPECT_EQ(p.wear, 0);
  EXPECT_EQ(p.time_ns, 0);
  EXPECT_EQ(p.energy_pj(), 0);
}

// Cold and long-lived: refresh costs more than its few writes.  Hot: writes cost more.  Gone at once: nothing.
TEST(ranking, puts_first_what_gains_most) {
  const std::string cold = "site 1 0 1 1 1 1000000 1000000 0 0 1 1000000 1000000 0 0 1000000000000000 1 1 8 8 1 1 1\n";
  const std::string hot = "site 2 0 1 2 1 64 64 1 0 0 0 64 0 0 64000 9 9 9 9 0 1 100000\n";
  const std::string still = "site 3 0 1 3 1 64 64 1 0 0 0 64 0 0 0 0 0 0 0 0 0 0\n";
  const profile run = run_of(cold + hot + still);
  const auto all = rank(run, costs::usual(), {}, medium::nvm, measure::energy);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].number, 1U);
  EXPECT_EQ(all[0].best, medium::nvm);
  EXPECT_GT(all[0].gain, 0);
  EXPECT_EQ(all[1].number, 3U);
  EXPECT_EQ(all[1].gain, 0);
  EXPECT_EQ(all[1].best, medium::dram);
  EXPECT_EQ(all[2].number, 2U);
  EXPECT_LT(all[2].gain, 0);
  EXPECT_NE(all[2].best, medium::nvm);
  const auto by_time = rank(run, costs::usual(), {}, medium::nvm, measure::time);
  EXPECT_EQ(by_time[0].number, 3U);
  EXPECT_EQ(by_time[0].best, medium::dram);
  EXPECT_EQ(by_time[2].number, 2U);
}

TEST(ranking, leaves_out_what_is_no_path) {
  const profile run =
      run_of("site 1 1 0 0 0 0 0 0 0 0 0 0 0 0 1 1 1 1 0 1 1\nsite 2 2 0 1 1 1 0 0 1 1 1 1 1 1 1 1 1 1 0 1 1\n");
  EXPECT_TRUE(rank(run, costs::usual(), {}, medium::nvm, measure::energy).empty());
}

TEST(costs, that_are_part_of_the_program_are_all_there) {
  costs c;
  std::string problem;
  ASSERT_TRUE(c.replace(costs::text(), problem)) << problem;
  EXPECT_DOUBLE_EQ(c.of(medium::nvm).write_pj, 16.82);
  EXPECT_DOUBLE_EQ(c.of(medium::dram).read_pj, 1.17);
  EXPECT_DOUBLE_EQ(c.of(medium::nvm).endurance, 1e8);
  EXPECT_DOUBLE_EQ(costs::usual().of(medium::nvm).read_ns, 305);
  // Each coefficient of each medium stands in the text, with its source after the number.
  for (const std::string_view m : medium_names) {
    for (const char* name : {"read_ns", "write_ns", "alloc_ns", "log_ns", "commit_ns", "log_lines", "read_pj",
                             "write_pj", "static_mw", "endurance", "miss_share", "miss_ns"}) {
      bool found = false;
      std::string_view rest = costs::text();
      while (!rest.empty()) {
        const std::string line{rest.substr(0, rest.find('\n'))};
        rest.remove_prefix(std::min(line.size() + 1, rest.size()));
        found =
            found || (line.starts_with(std::string{m} + " ") && line.find(" " + std::string{name} + " ") != line.npos);
      }
      EXPECT_TRUE(found) << m << " " << name;
    }
  }
}

TEST(costs, of_a_file_replace_those_it_names_and_no_others) {
  costs c = costs::usual();
  std::string problem;
  ASSERT_TRUE(c.replace("# mine\n\n nvm  read_ns 150 measured\n", problem)) << problem;
  EXPECT_DOUBLE_EQ(c.of(medium::nvm).read_ns, 150);
  EXPECT_DOUBLE_EQ(c.of(medium::nvm).write_ns, costs::usual().of(medium::nvm).write_ns);
}

TEST(costs, that_are_wrong_are_refused_whole) {
  const std::pair<const char*, const char*> wrong[] = {
      {"pcm read_ns 1 x", "expected dram, shm, nvm, ssd or tier"},
      {"nvm red_ns 1 x", "no coefficient 'red_ns'"},
      {"nvm read_ns -1 x", "expected a number from 0"},
      {"nvm read_ns nan x", "expected a number from 0"},
      {"nvm read_ns 1e300 x", "expected a number from 0"},
      {"nvm read_ns 1ns x", "expected a number from 0"},
      {"nvm read_ns 1", "where the number is from is missing"},
  };
  for (const auto& [text, reason] : wrong) {
    costs c = costs::usual();
    std::string problem;
    EXPECT_FALSE(c.replace(std::string{"nvm write_ns 1 x\n"} + text + "\n", problem)) << text;
    EXPECT_TRUE(problem.starts_with("line 2: ")) << problem;
    EXPECT_NE(problem.find(reason), std::string::npos) << problem;
    EXPECT_DOUBLE_EQ(c.of(medium::nvm).write_ns, costs::usual().of(medium::nvm).write_ns);
  }
}

}  // namespace
}  // namespace nvm::advisor
