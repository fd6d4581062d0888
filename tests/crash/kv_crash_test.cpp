// Key-value stores survive a crash at any point, recovery crashed too, over each engine, medium and model of it, with
// every index: each recovered pool holds the stores as they were before or after the call that was cut, and nothing
// else.
#include <gtest/gtest.h>

#include <cstdio>

#include "base/plant.hpp"
#include "kv_stories.hpp"
#include "scenarios.hpp"
#include "today.hpp"
#include "workloads.hpp"

namespace nvm::tests {
namespace {

using explore::explore;
using explore::model;
using explore::report;

struct kv_case {
  kv_story of;
  enum nvm_kv_index index;
  kind_of_medium on;
  model under;
};
std::vector<kv_case> cases() {
  std::vector<kv_case> all;
  for (const kv_story& s : kv_stories()) {
    for (const auto index : kv_indexes) {
      if (index == NVM_KV_REGIONS && !s.alone) continue;
      for (const model m : each_model) {
        for (const auto& kind : kinds_that([&](const auto& k) { return k.part.key_values.has(m); })) {
          all.push_back({s, index, kind, m});
        }
      }
    }
  }
  return all;
}
explore::options options_of(const kv_story& s, model m, enum nvm_kv_index index) {
  explore::options o = options_for(s, m);
  if (index == NVM_KV_REGIONS) o.nested_every *= 8;  // their recovery writes back ten times as much
  return o;
}
class kv_crash : public testing::TestWithParam<kv_case> {};

TEST_P(kv_crash, leaves_whole_calls) {
  const kv_case& c = GetParam();
  const report r = explore_today(subject_of(c.of, c.on, c.index), options_of(c.of, c.under, c.index));
  EXPECT_TRUE(r.clean()) << r.text();
  std::printf("%s\n", r.text().c_str());
}
INSTANTIATE_TEST_SUITE_P(stories, kv_crash, testing::ValuesIn(cases()), [](const auto& i) {
  return identifier(i.param.of.name) + "_" + nvm_kv_index_name(i.param.index) + "_" + name_of(i.param.under) + "_" +
         name_of(i.param.on);
});

// In an object store, the same and what becomes of them with it.
struct home_case {
  kv_story of;
  enum nvm_kv_index index;
  kind_of_medium on;
  model under;
};
std::vector<home_case> home_cases() {
  std::vector<home_case> all;
  for (const auto& kind : kinds_that([](const auto& k) { return k.part.key_values.any(); })) {
    for (const model m : each_model) {
      if (!kind.part.key_values.has(m)) continue;
      for (const auto index : {NVM_KV_HASH, NVM_KV_BTREE}) {
        for (const kv_story& s : kv_stories_at_home()) all.push_back({s, index, kind, m});
        for (const char* name : {"entries come and go", "values have every size", "batches span stores",
                                 "the pool is full in the middle of a batch", "stores come and go"}) {
          all.push_back({kv_story_named(name), index, kind, m});
        }
      }
    }
  }
  return all;
}
class kv_at_home : public testing::TestWithParam<home_case> {};
TEST_P(kv_at_home, leaves_whole_calls) {
  const home_case& c = GetParam();
  const report r =
      explore_today(subject_of(c.of, c.on, c.index, kv_home::object_store), options_of(c.of, c.under, c.index));
  EXPECT_TRUE(r.clean()) << r.text();
  std::printf("%s\n", r.text().c_str());
}
INSTANTIATE_TEST_SUITE_P(stories, kv_at_home, testing::ValuesIn(home_cases()), [](const auto& i) {
  return identifier(i.param.of.name) + "_" + nvm_kv_index_name(i.param.index) + "_" + name_of(i.param.under) + "_" +
         name_of(i.param.on);
});

// One for each engine that has stores.
bool has_key_values_with_checksums(const kind_of_medium& k) {
  return k.part.key_values.any() && k.validation == log::validation::checksum;
}
model widest_model_of(const kind_of_medium& k) { return is_image(k) ? model::ssd : model::torn8; }

class kv_calls : public testing::TestWithParam<enum nvm_kv_index> {};
INSTANTIATE_TEST_SUITE_P(on, kv_calls, testing::ValuesIn(kv_indexes),
                         [](const auto& i) { return std::string{nvm_kv_index_name(i.param)}; });

// Or no token that a failure prints would lead back to it.
TEST_P(kv_calls, of_one_seed_begin_alike) {
  const auto image = [&](std::uint64_t seed) {
    return random_kv_subject(seed, 30, kind_of_medium::redo, GetParam()).image;
  };
  EXPECT_EQ(image(7), image(7));
  EXPECT_NE(image(7), image(8));
}

// Another seed with each commit; ./dev explore goes on from there.
TEST_P(kv_calls, at_random_leave_whole_calls) {
  for (const auto& kind : kinds_that(has_key_values_with_checksums)) {
    for (std::uint64_t k = 0; k < 2; ++k) {
      const auto o = options_of(kv_story_named("entries come and go"), widest_model_of(kind), GetParam());
      const report r = explore(random_kv_subject(seed_from_environment() * 17 + k, 40, kind, GetParam()), o);
      EXPECT_TRUE(r.clean()) << r.text();
    }
  }
}

// ---- the explorer sees what it is for -------------------------------------------------------------------------------

class kv_faults : public testing::TestWithParam<enum nvm_kv_index> {};
INSTANTIATE_TEST_SUITE_P(of, kv_faults, testing::ValuesIn(kv_indexes),
                         [](const auto& i) { return std::string{nvm_kv_index_name(i.param)}; });

// The bug is in the story, not in what was before it.
bool finds(const kv_story& s, const kind_of_medium& on, enum nvm_kv_index index, plant bug,
           const explore::mutation& without = {}) {
  const explore::subject told = subject_of(s, on, index);
  explore::options o = options_for(s, widest_model_of(on));
  o.print_violations = false;
  o.after_every = 0;  // in a pool that is damaged nobody lives
  planted_bug = bug;
  const bool found = explore(told, o, without).finds_violation();
  planted_bug = plant::none;
  return found;
}

TEST_P(kv_faults, a_word_changed_past_its_transaction_is_found) {
  if (GetParam() == NVM_KV_REGIONS) GTEST_SKIP() << "takes part in none";
  const kv_story& s = kv_story_named("it grows and shrinks");
  for (const auto& kind : kinds_that(has_key_values_with_checksums)) {
    EXPECT_TRUE(finds(s, kind, GetParam(), plant::store_past_barriers)) << name_of(kind);
  }
}

TEST_P(kv_faults, a_store_kept_from_the_engine_is_found) {
  if (GetParam() == NVM_KV_REGIONS) GTEST_SKIP() << "announces none";
  EXPECT_TRUE(
      finds(kv_story_named("it grows at its end"), kind_of_medium::direct, GetParam(), plant::store_not_announced));
}

// A directory, or a header, that a link leads to before it is there.
TEST(kv_at_home_faults, fences_that_are_missing_are_found) {
  const kv_story& s = kv_stories_at_home().front();
  const auto finds_at_home = [&](const kind_of_medium& on, const char* label) {
    explore::options o = options_for(s, widest_model_of(on));
    o.print_violations = false;
    o.after_every = 0;
    return explore(subject_of(s, on, NVM_KV_BTREE, kv_home::object_store), o, explore::without(edge{label}))
        .finds_violation();
  };
  for (const char* label : {"undo/E1", "undo/E2", "undo/E3"})
    EXPECT_TRUE(finds_at_home(kind_of_medium::direct, label)) << label;
  EXPECT_TRUE(finds_at_home(kind_of_medium::redo, "redo/E2"));
  EXPECT_TRUE(finds_at_home(kind_of_medium::image, "image/E1"));
}

// Stores have no fence of their own: those of the engines are missed through them.
TEST_P(kv_faults, fences_that_are_missing_are_found) {
  const kv_story& s = kv_story_named("entries come and go");
  if (GetParam() == NVM_KV_REGIONS) {
    // Those of regions: an entry of any size, and one that moves to a place of its own.
    EXPECT_TRUE(finds(s, kind_of_medium::direct, GetParam(), plant::none, explore::without(edge{"redo/E2"})));
    EXPECT_TRUE(finds(kv_story_named("values have every size"), kind_of_medium::direct, GetParam(), plant::none,
                      explore::without(edge{"region/E2"})));
    EXPECT_TRUE(finds(s, kind_of_medium::image, GetParam(), plant::none, explore::without(edge{"image/E1"})));
    return;
  }
  for (const char* label : {"undo/E1", "undo/E2", "undo/E3"}) {
    EXPECT_TRUE(finds(s, kind_of_medium::direct, GetParam(), plant::none, explore::without(edge{label}))) << label;
  }
  EXPECT_TRUE(finds(s, kind_of_medium::redo, GetParam(), plant::none, explore::without(edge{"redo/E1"})));
  EXPECT_TRUE(finds(s, kind_of_medium::redo, GetParam(), plant::none, explore::without(edge{"redo/E2"})));
  EXPECT_TRUE(finds(s, kind_of_medium::image, GetParam(), plant::none, explore::without(edge{"image/E1"})));
}

}  // namespace
}  // namespace nvm::tests
