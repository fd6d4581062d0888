// Results that hooks and callers are given agree with the state at the next open (told_run.hpp), for each engine,
// medium and interface, with a fault at each sync and growth.
//
// NVM_TOLD_RUNS: that many runs drawn at random, from NVM_TOLD_SEED on, beginning with run NVM_TOLD_FROM; otherwise a
// few numbers of each kind.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string_view>

#include "../scratch_folder.hpp"
#include "told_run.hpp"

namespace nvm::tests {
namespace {

long number_from(const char* name, long otherwise) {
  const char* const asked = std::getenv(name);
  return asked != nullptr ? std::atol(asked) : otherwise;
}

const told_ground* ground(std::string_view name) {
  return std::find_if(std::begin(told_grounds), std::end(told_grounds),
                      [&](const told_ground& g) { return g.name == name; });
}

constexpr fault told_kinds[] = {fault::sync, fault::room, fault::write};

bool makes_sense(const told_ground& on, told_face face, told_end end, fault kind) {
  if (!fits(on, face)) return false;
  const bool syncs = on.medium != NVM_MEDIUM_SHM;                // and writes
  if (end == told_end::killed_told) return kind == fault::sync;  // has no kind
  if (kind != fault::room && !syncs) return false;
  if (kind == fault::write) return end == told_end::fails || end == told_end::fails_on;
  return end != told_end::held || (on.medium == NVM_MEDIUM_SSD && kind == fault::sync);
}

class told : public testing::TestWithParam<told_ground> {
 protected:
  scratch_folder folder_{"told", false};
};
INSTANTIATE_TEST_SUITE_P(pools, told, testing::ValuesIn(told_grounds),
                         [](const auto& i) { return std::string{i.param.name}; });

TEST_P(told, is_what_the_next_open_shows) {
  if (number_from("NVM_TOLD_RUNS", 0) != 0) GTEST_SKIP() << "the campaign has all of them";
  long runs = 0;
  long struck_runs = 0;
  // Each is two processes and a pool of its own; what is told does not depend on the sanitizer.
  turns_of_build turns{7};  // no face has a multiple of so many cases
  for (const told_face face : told_faces) {
    for (const told_end end : told_ends) {
      for (const fault kind : told_kinds) {
        if (!makes_sense(GetParam(), face, end, kind) || !turns.takes()) continue;
        for (const long number : {1, 2, 5}) {
          bool struck = false;
          const auto variant = static_cast<unsigned>(runs % told_variants);
          EXPECT_EQ(run_told({&GetParam(), face, end, kind, number, variant}, folder_.path(""), struck), "");
          ++runs;
          if (!struck) break;
          ++struck_runs;
        }
      }
    }
  }
  EXPECT_GT(struck_runs, 0);
  std::printf("%ld runs, %ld of them with a fault\n", runs, struck_runs);
}

// What campaigns have found: a put was told NVM_E_IO, as one that was not begun, whose own sync was good and which was
// there, since the pool had failed before it returned.
TEST(told_before, is_never_told_undone_what_is_there) {
  if (number_from("NVM_TOLD_RUNS", 0) != 0) GTEST_SKIP() << "the campaign has all of them";
  scratch_folder folder{"told", false};
  for (unsigned run = 0; run < rounds_of_build(48U); ++run) {
    bool struck = false;
    const told_case c{ground("ssd"), told_face::structure, told_end::fails_on, fault::sync, 10 + run / 4, run % 4 + 4};
    EXPECT_EQ(run_told(c, folder.path(""), struck), "");
  }
}

// A thread brings home what another process has left unclosed; what a power cut leaves has it all.
TEST(told_before, keeps_what_was_there_before_the_threads_began) {
  if (number_from("NVM_TOLD_RUNS", 0) != 0) GTEST_SKIP() << "the campaign has all of them";
  scratch_folder folder{"told", false};
  for (unsigned run = 0; run < rounds_of_build(24U); ++run) {
    bool struck = false;
    const told_case c{ground("redo_on_ssd"), told_face::barriers, told_end::held, fault::sync, 1, 14};
    EXPECT_EQ(run_told(c, folder.path(""), struck), "");
  }
}

TEST(told_campaign, finds_nothing) {
  const long runs = number_from("NVM_TOLD_RUNS", 0);
  if (runs == 0) GTEST_SKIP() << "only when it is asked for";
  const long seed = number_from("NVM_TOLD_SEED", 1);
  scratch_folder folder{"told", false};
  long made = 0;
  long struck_runs = 0;
  for (long run = number_from("NVM_TOLD_FROM", 0); made < runs; ++run) {
    std::mt19937_64 random{static_cast<std::uint64_t>(seed) * 1'000'003 + static_cast<std::uint64_t>(run)};
    const auto any_of = [&](const auto& all) -> const auto& { return all[random() % std::size(all)]; };
    const fault kind = any_of(told_kinds);
    const told_case c{&any_of(told_grounds),
                      any_of(told_faces),
                      any_of(told_ends),
                      kind,
                      static_cast<long>(1 + random() % (kind == fault::room ? 6 : 24)),
                      static_cast<unsigned>(random() % told_variants)};
    if (!makes_sense(*c.on, c.face, c.end, c.kind)) continue;
    bool struck = false;
    ASSERT_EQ(run_told(c, folder.path(""), struck), "") << "NVM_TOLD_SEED=" << seed << " NVM_TOLD_FROM=" << run;
    ++made;
    struck_runs += struck ? 1 : 0;
    if (made % 500 == 0) {
      std::printf("%ld runs, %ld with a fault; next NVM_TOLD_FROM=%ld\n", made, struck_runs, run + 1);
      std::fflush(stdout);
    }
  }
  std::printf("seed %ld: %ld runs, %ld of them with a fault, nothing told that did not hold\n", seed, made,
              struck_runs);
}

}  // namespace
}  // namespace nvm::tests
