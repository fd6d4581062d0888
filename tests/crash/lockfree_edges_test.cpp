// Each fence and flush of the lock-free structures, and of the pages that they get, is necessary: without it some story
// fails.  Each one of the sources is known here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "edge_survivors.hpp"
#include "lockfree_stories.hpp"

namespace nvm::tests {
namespace {

using explore::model;
using explore::mutation_report;
using explore::options;
using explore::subject;

constexpr const char* of_a_killed_process =
    "of what a process leaves in caches that is killed in the middle of an operation: stories end processes between "
    "operations, when this is durable";
const survivor_list survivors{
    {"lockfree/E8", nullptr,
     "what the page held before costs recovery a look, unless it was made up to look like links"},
    {"lockfree/active_areas.hpp", "flush(base_ + *table, bytes)", "see lockfree/E8"},
    {"lockfree/E19", nullptr, "a word of a table that comes back costs recovery a look"},
    {"lockfree/E20", nullptr,
     "to the recorder lockfree/E6 is a fence already; to the processor it is the next locked operation, and none "
     "comes"},
    {"lockfree/E23", nullptr, "takes two threads: see lockfree_schedules_test.cpp"},
    {"space/E6", nullptr, "whoever takes a run fences what he writes there before anything leads to it"},
    {"store/E12", nullptr, "see space/E6"},
    {"lockfree/durable.hpp", "flush(l, sizeof *l)",
     "the mark of a node that a process has deleted and not unlinked, which takes a kill between two stores"},
    {"lockfree/catalogue.hpp", "flush(base_ + line, count * 8)",
     "a word of a table that comes back costs recovery a look"},
    {"lockfree/node_heap.hpp", "flush(words, line_bytes)",
     "what was never linked is free to recovery, wiped or not: the check of a pool file tells it from what was linked"},
    {"lockfree/catalogue.hpp", "flush(base_ + at, 8)", of_a_killed_process},
    {"space/space_structures.hpp", "flush(index_.map.at(0)", of_a_killed_process},
    {"space/space_store_structures.hpp", "flush(of_.base_ + sizes().page_offset(w.c->page)", of_a_killed_process},
    {"lockfree/catalogue.hpp", "flush(base_ + f->root, root_bytes_max)", of_a_killed_process},
};

// Not in these stories: the twins with logs, structures with volatile links (lockfree_volatile_links_test.cpp), and the
// words of nodes that are changed in place.
bool is_told_elsewhere(const place_in_sources& p) {
  // Of words that are changed in place; of recoveries, of which few are crashed here.
  static const std::set<std::string> labels{"lockfree/E21", "lockfree/E24"};
  static const char* const lines[] = {
      "medium_.flush(&l, sizeof l);",  // of whoever meets a pending link, which takes two threads; of the skip list
      "medium_.flush(word, sizeof *word);",                      // store()
      "medium_.flush(slot, 8);",                                 // more lines than are remembered
      "medium_.flush(base_ + words_.word_offset(at.word), 8);",  // of a node that is given up late
  };
  const std::string file = p.text.substr(0, p.text.find(':'));
  const bool is_a_twin =
      std::filesystem::exists(std::string{HOLDFAST_SOURCES} + "/lockfree/logged" + file.substr(file.find('/')));
  if (labels.contains(p.text) || is_a_twin || file == "lockfree/sealed_memory.hpp" || file == "lockfree/rebuilt.hpp" ||
      file == "lockfree/tally.hpp" || p.text.starts_with("records/")) {
    return true;
  }
  return std::any_of(std::begin(lines), std::end(lines),
                     [&](const char* line) { return p.line.find(line) != std::string::npos; });
}

std::vector<place_in_sources> ours(const std::regex& what, bool by_line) {
  std::vector<place_in_sources> all = places_in_sources({"lockfree", "space"}, what, by_line);
  std::erase_if(all, [&](const place_in_sources& p) {
    return by_line ? !p.text.starts_with("lockfree/") && !p.text.starts_with("space/space_structures.hpp") &&
                         !p.text.starts_with("space/space_store_structures.hpp")
                   : !p.text.starts_with("lockfree/") && p.text != "space/E5" && p.text != "space/E6" &&
                         p.text != "store/E12" && p.text != "store/E13";
  });
  return all;
}
bool is_own(const std::string& place) {
  static const char* const ours[] = {"lockfree/", "space_structures.hpp", "space_store_structures.hpp"};
  static const std::set<std::string> labels{"space/E5", "space/E6", "store/E12", "store/E13"};
  return labels.contains(place) || std::any_of(std::begin(ours), std::end(ours),
                                               [&](const char* part) { return place.find(part) != std::string::npos; });
}
const mutation_report& score() {
  static const mutation_report r = [] {
    std::vector<subject> subjects;
    for (const lockfree_story& s : lockfree_stories()) {
      for (const lockfree_variant& v : lockfree_variants()) {
        if (!v.image && (!s.is_long || (v.all_at_once && !v.in_store))) subjects.push_back(subject_of(s, v));
      }
    }
    options o = lockfree_options(model::torn8, {});
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

TEST(lockfree_edges, are_all_necessary) {
  expect_all_necessary(score(), {"lockfree/E22"});  // of_marks_from_above_is_necessary
}

TEST(lockfree_edges, of_recovery_that_takes_nodes_out_of_levels_is_necessary) {
  options o = lockfree_options(model::torn8, {});
  o.nested_every = 1;
  o.print_violations = false;
  const subject s = subject_of(lockfree_story_named("two levels come and go"), {});
  EXPECT_TRUE(explore::explore(s, o, explore::without(edge{"lockfree/E24"})).finds_violation());
}

// The fault without it shows seldom, and only when the pool goes on to be used after the crash.
TEST(lockfree_edges, of_marks_from_above_is_necessary) {
  options o = lockfree_options(model::torn8, {});
  o.after_every = 1;
  o.print_violations = false;
  const subject s = subject_of(lockfree_story_named("levels come and go"), {});
  EXPECT_TRUE(explore::explore(s, o).clean());
  EXPECT_TRUE(explore::explore(s, o, explore::without(edge{"lockfree/E22"})).finds_violation());
}

// Without its mark recovery would not look for it, where nothing was allocated.
TEST(lockfree_edges, of_a_leaf_that_leaves_a_tree_without_its_mark_are_found) {
  options o = lockfree_options(model::torn8, {});
  o.print_violations = false;
  planted_bug = plant::leaf_not_marked;
  const bool found =
      explore::explore(subject_of(lockfree_story_named("a settled tree loses leaves"), {}), o).finds_violation();
  planted_bug = plant::none;
  EXPECT_TRUE(found);
}

// Recovery would count it: it is still linked, and recovery does not look there, where no area is active for another
// reason.
TEST(lockfree_edges, of_a_deletion_that_recovery_does_not_know_of_are_found) {
  options o = lockfree_options(model::x86, {});
  o.print_violations = false;
  for (const char* story : {"a settled list loses nodes", "a settled hash table loses nodes",
                            "a settled skip list loses nodes", "a settled tree loses leaves"}) {
    planted_bug = plant::deleted_unannounced;
    const bool found = explore::explore(subject_of(lockfree_story_named(story), {}), o).finds_violation();
    planted_bug = plant::none;
    EXPECT_TRUE(found) << story;
  }
}

// Its next node would be in pages that have another owner.
TEST(lockfree_edges, of_an_extent_that_goes_under_its_thread_are_found) {
  options o = lockfree_options(model::x86, {});
  o.print_violations = false;
  planted_bug = plant::extent_under_owner;
  const subject s = subject_of(lockfree_story_named("an extent stays under its thread"), {});
  const bool found = explore::explore(s, o).finds_violation();
  planted_bug = plant::none;
  EXPECT_TRUE(found);
}

TEST(lockfree_edges, are_all_known) {
  const auto met = places_met(score());
  const auto labels = ours(std::regex{R"re(edge\{"([^"]+)"\})re"}, false);
  EXPECT_GT(labels.size(), 15U);
  expect_labels_met(met, labels, is_told_elsewhere);
  const auto sites = ours(std::regex{R"re(\b(m|medium_|medium\(\))\.flush\()re"}, true);
  EXPECT_GE(sites.size(), 15U);
  expect_sites_met(met, sites, is_told_elsewhere);
}

}  // namespace
}  // namespace nvm::tests
