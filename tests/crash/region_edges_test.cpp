// Each fence and flush of regions, and of the runs that they get, is necessary: without it some story fails.  Each one
// of the sources is known here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <set>

#include "edge_survivors.hpp"
#include "region_stories.hpp"

namespace nvm::tests {
namespace {

using explore::model;
using explore::mutation_report;
using explore::options;
using explore::subject;

const survivor_list survivors{
    {"region/E5", nullptr, "nothing leads from the directory anywhere before region/E6, which fences the words too"},
    {"region/E19", nullptr,
     "the first record that changes the region is fenced later by the thread that opened the pool; here it does all "
     "parts"},
    {"region/partners.hpp", "older one's",
     "without it damage of the newer copy passes for a change that failed: no crash does that"},
    {"region/domain_open.hpp", "flush(copy", "what a crash has torn is no copy, and the next open makes it again"},
};

// Labels that name no fence.
const std::set<std::string> names_only{
    "region/E3",   // of publish(): the record becomes durable with image/E1
    "region/E20",  // of measure_costs(): nothing depends on what it orders
};
// space/E5 to E8 are those of all structures.
bool is_own(const std::string& place) {
  return place.find("region/") != std::string::npos || place.find("space_structures.hpp") != std::string::npos ||
         place == "space/E5" || place == "space/E6" || place == "space/E7" || place == "space/E8";
}
std::vector<place_in_sources> ours(const std::regex& what, bool by_line) {
  std::vector<place_in_sources> all = places_in_sources({"region", "space"}, what, by_line);
  std::erase_if(all, [&](const place_in_sources& p) { return !is_own(p.text); });
  return all;
}
const mutation_report& score() {
  static const mutation_report r = [] {
    std::vector<subject> subjects;
    for (const region_story& s : region_stories()) subjects.push_back(subject_of(s, {}));
    options o = region_options(model::torn8, {});
    o.full_points_max = 1;
    o.nested_every = 256;
    o.idempotence_every = 0;
    o.after_every = 64;
    const auto w = waivers_of(survivors, ours(std::regex{"."}, true));
    mutation_report made = mutation_score(subjects, o, w, {}, is_own);
    std::printf("%s\n", made.text().c_str());
    return made;
  }();
  return r;
}

// Captured into a batch: it is the batch that is written, and no region of these stories would be what it was without.
bool is_of_image_alone(const place_in_sources& site) { return site.line.find("logged - begin") != std::string::npos; }

TEST(region_edges, are_all_necessary) { expect_all_necessary(score()); }

TEST(region_edges, are_all_known) {
  const auto met = places_met(score());
  const auto labels = ours(std::regex{R"re(edge\{"([^"]+)"\})re"}, false);
  EXPECT_GE(labels.size(), 11U);
  expect_labels_met(met, labels, [](const place_in_sources& p) { return names_only.contains(p.text); });
  const auto sites = ours(std::regex{R"re(\b(medium_?|medium\(\))\.flush\(|\bcopy_out\(domain_)re"}, true);
  EXPECT_GE(sites.size(), 12U);
  expect_sites_met(met, sites, [](const place_in_sources& p) {
    // Regions leave no entries of pages in caches: lockfree_edges_test.
    return is_of_image_alone(p) || p.line.find("flush(index_.map.at(0)") != std::string::npos;
  });
}

// ---- straight writes, on ssd ----------------------------------------------------------------------------------------

bool is_of_straight_writes(const std::string& place) {
  static const auto writes = places_in_sources(
      {"media"}, std::regex{R"re(device_\.write\(offset, p,|move_header\(from, to\)|state\.checkpoint, run\.end\))re"},
      true);
  return place == "image/E5" || place == "replay/E3" ||
         std::any_of(writes.begin(), writes.end(), [&](const place_in_sources& w) { return place.ends_with(w.text); });
}
TEST(region_edges, of_straight_writes_are_all_necessary) {
  std::vector<subject> subjects;
  for (const region_story& s : straight_stories()) subjects.push_back(subject_of(s, region_variants().back()));
  options o = region_options(model::ssd, region_variants().back());
  o.idempotence_every = 0;
  o.after_every = 64;
  const mutation_report r = mutation_score(subjects, o, {}, {}, is_of_straight_writes);
  std::printf("%s\n", r.text().c_str());
  EXPECT_TRUE(r.clean());
  EXPECT_EQ(r.unexplained(), 0U);
  EXPECT_EQ(r.killed(), 5U);
}

region::statistics play(const region_story& s) {
  const explore::subject with = subject_of(s, {});
  explore::machine m(with.image.size());
  std::memcpy(m.base(), with.image.data(), with.image.size());
  explore::digest_history history;
  region_player p{m, history, {}};
  s.steps(p);
  return p.statistics();  // of its last process
}

// Otherwise the stories would prove nothing.
TEST(region_stories, use_every_technique_and_move_for_levelling) {
  region::statistics sum;
  for (const region_story& s : region_stories()) {
    const region::statistics of = play(s);
    for (unsigned i = 0; i < region::techniques; ++i) sum.changes[i] += of.changes[i];
    sum.levelled += of.levelled;
    sum.moved += of.moved;
    sum.transactions += of.transactions;
  }
  for (unsigned i = 0; i < region::techniques; ++i) EXPECT_GT(sum.changes[i], 8U) << i;
  EXPECT_GT(sum.levelled, 2U);
  EXPECT_GT(sum.moved, 0U);
  EXPECT_GT(sum.transactions, 100U);
}

// ---- planted bugs ---------------------------------------------------------------------------------------------------

bool finds(plant bug, const char* story, model m) {
  const region_variant on = m == model::ssd ? region_variants().back() : region_variant{};
  options o = region_options(m, on);
  o.print_violations = false;
  planted_bug = bug;
  const bool found = explore::explore(subject_of(region_story_named(story), on), o).finds_violation();
  planted_bug = plant::none;
  return found;
}

TEST(region_planted, a_record_replayed_over_what_was_added_beside_it_is_found) {
  for (const model m : {model::x86, model::torn8}) {
    EXPECT_TRUE(finds(plant::append_beside_record, "added to beside a record, in a slot", m)) << name_of(m);
    EXPECT_TRUE(finds(plant::append_beside_record, "added to beside a record, in a run", m)) << name_of(m);
  }
}
TEST(region_planted, a_record_replayed_into_what_has_taken_its_place_is_found) {
  for (const model m : {model::x86, model::torn8}) {
    EXPECT_TRUE(finds(plant::place_back_early, "places are used again", m)) << name_of(m);
    EXPECT_TRUE(finds(plant::place_back_early, "the last places are used again", m)) << name_of(m);
  }
}
TEST(region_planted, a_record_replayed_into_pages_that_were_withdrawn_is_found) {
  for (const model m : {model::x86, model::torn8}) {
    EXPECT_TRUE(finds(plant::tail_beside_record, "tails are withdrawn", m)) << name_of(m);
  }
}
TEST(region_planted, a_header_that_a_moved_region_has_left_is_found) {
  for (const char* story : {"one outgrows its place", "one moves for levelling", "64 bytes are written, copy"}) {
    EXPECT_TRUE(finds(plant::moved_header_kept, story, model::x86)) << story;
  }
}
// The player sees what a lease shows, without a crash.
TEST(region_planted, bytes_that_change_under_a_lease_are_found) {
  for (const plant bug : {plant::stored_under_lease, plant::leased_place_back}) {
    EXPECT_DEATH(
        {
          planted_bug = bug;
          play(region_story_named("one is leased"));
        },
        "keeping bytes under a lease failed");
  }
}
// ---- the mandatory traces of REWBL
TEST(region_planted, a_replica_that_is_named_before_it_is_filled_is_found) {
  for (const model m : {model::x86, model::torn8}) {
    EXPECT_TRUE(finds(plant::replica_not_filled, "a first write is given up", m)) << name_of(m);
  }
}
TEST(region_planted, a_change_while_the_replica_has_not_the_one_before_is_found) {
  for (const model m : {model::x86, model::torn8}) {
    EXPECT_TRUE(finds(plant::replica_left_behind, "600 bytes are updated in place", m)) << name_of(m);
  }
}
TEST(region_planted, a_replica_that_is_given_away_while_it_is_named_is_found) {
  EXPECT_TRUE(finds(plant::replica_given_early, "a replica is given away", model::x86));
  EXPECT_TRUE(finds(plant::replica_given_early, "a replica is given away", model::torn8));
}
TEST(region_planted, a_record_replayed_over_what_was_stored_in_place_is_found) {
  for (const model m : {model::x86, model::torn8}) {
    EXPECT_TRUE(finds(plant::replica_beside_record, "in place beside records", m)) << name_of(m);
    EXPECT_TRUE(finds(plant::replica_beside_record, "copies beside records", m)) << name_of(m);
  }
}
TEST(region_planted, the_sum_of_a_change_that_was_put_back_is_found) {
  for (const model m : {model::x86, model::torn8}) {
    EXPECT_TRUE(finds(plant::failed_sum_kept, "it is killed in place", m)) << name_of(m);
    EXPECT_TRUE(finds(plant::failed_sum_kept, "it is killed with two copies", m)) << name_of(m);
  }
}
TEST(region_planted, a_record_that_leaves_the_partner_is_found) {
  for (const model m : {model::x86, model::torn8}) {
    EXPECT_TRUE(finds(plant::partner_kept, "in place beside groups", m)) << name_of(m);
    EXPECT_TRUE(finds(plant::partner_kept, "copies beside groups", m)) << name_of(m);
  }
}
TEST(region_planted, a_record_of_a_region_whose_newest_copy_is_elsewhere_is_found) {
  for (const model m : {model::x86, model::torn8}) {
    EXPECT_TRUE(finds(plant::copy_not_home, "copies and a replica in turns", m)) << name_of(m);
  }
}
// Both roles, in either order.
TEST(region_planted, what_is_not_durable_in_the_replica_before_the_next_change_is_found) {
  options o = region_options(model::torn8, {});
  o.print_violations = false;
  const subject s = subject_of(region_story_named("600 bytes are updated in place"), {});
  for (const char* fence : {"region/E12", "region/E13"}) {
    EXPECT_TRUE(explore::explore(s, o, explore::without(edge{fence})).finds_violation()) << fence;
  }
}
TEST(region_planted, a_copy_that_is_published_before_it_is_durable_is_found) {
  for (const model m : {model::x86, model::torn8}) {
    options o = region_options(m, {});
    o.print_violations = false;
    const subject s = subject_of(region_story_named("5000 bytes are written, copy"), {});
    EXPECT_TRUE(explore::explore(s, o, explore::without(edge{"region/E2"})).finds_violation()) << name_of(m);
  }
}

// ---- the mandatory traces of straight writes
TEST(region_planted, straight_bytes_where_a_crash_may_show_others_are_found) {
  EXPECT_TRUE(finds(plant::straight_before_free, "pages are free soon", model::ssd));
}
TEST(region_planted, straight_bytes_under_a_record_of_before_are_found) {
  EXPECT_TRUE(finds(plant::straight_under_record, "pages are logged to, short", model::ssd));
  EXPECT_TRUE(finds(plant::straight_under_record, "pages are logged to, long", model::ssd));
}
TEST(region_planted, straight_bytes_over_unproved_ones_are_found) {
  EXPECT_TRUE(finds(plant::straight_over_unproved, "bytes go over unproved ones", model::ssd));
}
TEST(region_planted, torn_straight_bytes_that_count_are_found) {
  EXPECT_TRUE(finds(plant::straight_not_read, "bytes come straight", model::ssd));
}

}  // namespace
}  // namespace nvm::tests
