// A pool that is trimmed while it is used survives a crash at any point, on each medium and under each model of it: no
// page loses what it holds, and no pool is longer than its file.  Each step of the order is needed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "store_player.hpp"
#include "subjects.hpp"
#include "today.hpp"

namespace nvm::tests {
namespace {

using explore::fault;
using explore::machine;
using explore::model;
using explore::report;
using explore::subject;
using explore::verdict;

constexpr std::uint64_t pages = 136;  // of 1 KiB: two chunks can go
constexpr std::uint64_t run_bytes = 4500;

std::uint64_t put(store_player& p, std::uint64_t bytes, std::uint8_t fill, unsigned lane = 0) {
  p.begin(lane);
  const std::uint64_t at = p.put_in_pool(bytes, fill, lane);
  at == 0 ? p.abort(lane) : p.commit(lane);
  return at;
}

void holes_in_the_midst(store_player& p) {
  std::uint64_t all[6];
  for (unsigned i = 0; i < 6; ++i) all[i] = put(p, run_bytes, static_cast<std::uint8_t>(i + 1), i % 2);
  p.one_free(all[1]);
  p.one_free(all[3], 1);
  (void)p.trim_pool();
  all[1] = put(p, run_bytes, 0x11);
  p.one_free(all[4]);
  (void)p.trim_pool();
}
void an_end_that_is_cut_off(store_player& p) {
  // Runs come from the end.
  const std::uint64_t a = put(p, run_bytes, 1);
  const std::uint64_t b = put(p, 10 * 1024, 2, 1);
  const std::uint64_t c = put(p, 7 * 1024, 3);
  (void)put(p, 300, 4);
  p.one_free(a);
  p.one_free(b);
  p.one_free(c, 1);
  (void)p.trim_pool();
  (void)put(p, run_bytes, 5);
}
// What lanes could make again leads beyond the end.
void an_end_that_lanes_have_just_left(store_player& p) {
  (void)put(p, 300, 9);
  p.begin(0);
  p.begin(1);
  const std::uint64_t a = p.put_in_pool(run_bytes, 1, 0);
  p.commit(0);
  const std::uint64_t b = put(p, run_bytes, 2, 0);
  p.abort(1);
  p.one_free(a, 0);
  p.one_free(b, 1);
  (void)p.trim_pool();
  (void)put(p, 500, 3, 1);
}
void extents_that_became_empty(store_player& p) {
  std::uint64_t all[12];
  for (unsigned i = 0; i < 12; ++i) all[i] = put(p, 900, static_cast<std::uint8_t>(i + 1), i % 2);
  for (unsigned i = 0; i < 12; ++i) p.one_free(all[i], (i + 1) % 2);
  (void)p.trim_pool();
  (void)put(p, 900, 0x21);
}
void a_transaction_that_is_open_meanwhile(store_player& p) {
  const std::uint64_t a = put(p, run_bytes, 1);
  const std::uint64_t b = put(p, run_bytes, 2);
  p.one_free(a);
  p.begin(1);
  (void)p.put_in_pool(run_bytes, 3, 1);
  p.free(b, 1);
  (void)p.trim_pool();
  p.commit(1);
  (void)p.trim_pool();
}
// Committed and ordered while the pool is being trimmed, but nothing has waited for the device.
void a_free_that_is_not_durable_yet(store_player& p) {
  struct later {
    store_player& p;
    std::uint64_t payload;
  } l{p, put(p, run_bytes, 1)};
  (void)put(p, 300, 4);
  trim_wishes w;
  w.context = &l;
  w.progress = [](void* raw, std::uint64_t done, std::uint64_t) noexcept {
    auto& of = *static_cast<later*>(raw);
    if (done == 0 || of.payload == 0) return true;
    of.p.begin();
    of.p.free(of.payload);
    of.p.commit_ordered();
    of.payload = 0;
    return true;
  };
  (void)p.trim_pool(w);
}
struct trim_story {
  const char* name;
  void (*steps)(store_player&);
};
constexpr trim_story stories[] = {
    {"holes_in_the_midst", holes_in_the_midst},
    {"an_end_that_is_cut_off", an_end_that_is_cut_off},
    {"an_end_that_lanes_have_just_left", an_end_that_lanes_have_just_left},
    {"extents_that_became_empty", extents_that_became_empty},
    {"a_transaction_that_is_open_meanwhile", a_transaction_that_is_open_meanwhile},
    {"a_free_that_is_not_durable_yet", a_free_that_is_not_durable_yet},
};

subject trim_subject(const trim_story& s, store_ground on) {
  subject made = store_subject_from(s.name, s.steps, on, new_store_image(on, pages));
  made.recover = [recover = made.recover](machine& m) -> verdict {
    if (!ends_in_its_file(m)) return fault("the pool is longer than its file");
    if (verdict v = recover(m)) return v;
    return ends_in_its_file(m) ? explore::pass() : fault("after recovery the pool is longer than its file");
  };
  return made;
}

struct trim_case {
  trim_story of;
  store_ground on;
  model under;
};
std::vector<trim_case> cases() {
  std::vector<trim_case> all;
  for (const trim_story& s : stories) {
    all.push_back({s, store_ground::ssd, model::ssd});
    for (const model m : {model::x86, model::torn8}) all.push_back({s, store_ground::undo, m});
    for (const store_ground g : {store_ground::redo, store_ground::mnemosyne, store_ground::mnemosyne_undo}) {
      all.push_back({s, g, model::torn8});
    }
  }
  return all;
}

class trim_crash : public testing::TestWithParam<trim_case> {};
TEST_P(trim_crash, loses_nothing) {
  const auto& [of, on, under] = GetParam();
  const report r = explore_today(trim_subject(of, on), store_options(under));
  EXPECT_TRUE(r.clean()) << r.text();
  std::printf("%s\n", r.text().c_str());
}
INSTANTIATE_TEST_SUITE_P(stories, trim_crash, testing::ValuesIn(cases()),
                         [](const testing::TestParamInfo<trim_case>& i) {
                           return std::string{i.param.of.name} + "_" + explore::name_of(i.param.under) + "_" +
                                  name_of(i.param.on);
                         });

// ---- each step is needed -------------------------------------------------------------------------------------------

bool finds(plant bug, const trim_story& s, store_ground on, model under) {
  planted_bug = bug;
  explore::options o = store_options(under);
  o.print_violations = false;
  const bool found = explore::explore(trim_subject(s, on), o).finds_violation();
  planted_bug = plant::none;
  return found;
}

TEST(trim_steps, lose_a_page_that_has_no_blocks_before_it_is_durable_that_it_is_free) {
  EXPECT_TRUE(finds(plant::hole_before_free, stories[5], store_ground::ssd, model::ssd));
}
TEST(trim_steps, leave_a_pool_that_is_longer_than_its_file_if_that_is_cut_first) {
  for (const store_ground g : {store_ground::undo, store_ground::redo, store_ground::mnemosyne}) {
    EXPECT_TRUE(finds(plant::cut_before_size, stories[1], g, model::torn8)) << name_of(g);
  }
  EXPECT_TRUE(finds(plant::cut_before_size, stories[1], store_ground::ssd, model::ssd));
}
TEST(trim_steps, leave_a_log_that_leads_beyond_the_end_if_lanes_are_not_settled) {
  EXPECT_TRUE(finds(plant::cut_under_record, stories[2], store_ground::undo, model::torn8));
  EXPECT_TRUE(finds(plant::cut_under_record, stories[2], store_ground::redo, model::torn8));
}

// The fences and syncs that the order takes: of the superblock, of lanes, of the log and its header.
TEST(trim_steps, need_each_fence_of_theirs) {
  for (const char* label : {"pool/E1", "lane/E2", "lane/E3"}) {
    explore::options o = store_options(model::torn8);
    o.print_violations = false;
    bool found = false;
    for (const trim_story& s : stories) {
      found = found ||
              explore::explore(trim_subject(s, store_ground::undo), o, explore::without(edge{label})).finds_violation();
    }
    EXPECT_TRUE(found) << label;
  }
}

}  // namespace
}  // namespace nvm::tests
