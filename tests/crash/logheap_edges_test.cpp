// Each fence and flush of the log-structured heap is necessary: without it some story fails.  Each one of the sources
// is known here.
#include <gtest/gtest.h>

#include <cstdio>
#include <regex>

#include "edge_survivors.hpp"
#include "logheap_player.hpp"

namespace nvm::tests {
namespace {

using explore::model;
using explore::mutation_report;
using explore::options;
using explore::subject;

std::vector<place_in_sources> ours(const std::regex& what, bool by_line) {
  return places_in_sources({"logheap"}, what, by_line);
}
bool is_own(const std::string& place) { return place.find("logheap/") != std::string::npos; }
logheap_variant variant_of(const logheap_story& s) {
  return s.one_log ? logheap_variant{"one_log", false} : logheap_variant{};
}
const mutation_report& score() {
  static const mutation_report r = [] {
    std::vector<subject> subjects;
    for (const logheap_story& s : logheap_stories()) subjects.push_back(logheap_subject(variant_of(s), s));
    options o = logheap_options(model::torn8);
    o.full_points_max = 1;
    o.nested_every = 256;
    o.idempotence_every = 0;
    o.after_every = 64;
    o.print_violations = false;
    const survivor_list survivors{{"logheap/chunk_store.hpp", "flush(copy",
                                   "what a crash has torn is no copy, and the next open makes it again"}};
    const auto waived = waivers_of(survivors, ours(std::regex{"."}, true));
    mutation_report made = mutation_score(subjects, o, waived, logheap_pairs(), is_own);
    std::printf("%s\n", made.text().c_str());
    return made;
  }();
  return r;
}

TEST(logheap_edges, are_all_necessary) { expect_all_necessary(score()); }

// What 014 says of them: for each reason a story by itself.
TEST(logheap_edges, of_ends_are_necessary_for_each_reason) {
  struct {
    const char* label;
    const char* story;
  } const reasons[] = {
      {"logheap/E9", "copies go bad at any moment"},
      {"logheap/E9", "a cleaner moves half of what it has copied, and the heap is closed"},
      {"logheap/E10", "a thread's log is sealed by an allocation of another that comes to nothing"},
  };
  options o = logheap_options(model::torn8);
  o.print_violations = false;
  for (const auto& [label, name] : reasons) {
    const logheap_story& s = logheap_story_named(name);
    const subject of = logheap_subject(variant_of(s), s);
    EXPECT_TRUE(explore::explore(of, o).clean()) << name;
    EXPECT_TRUE(explore::explore(of, o, explore::without(edge{label})).finds_violation()) << label << ": " << name;
  }
}

TEST(logheap_edges, are_all_known) {
  const auto met = places_met(score());
  const auto labels = ours(std::regex{R"re(edge\{"([^"]+)"\})re"}, false);
  EXPECT_EQ(labels.size(), 11U);
  expect_labels_met(met, labels);
  const auto sites = ours(std::regex{R"re(\b(m|medium_|medium\(\))\.flush\()re"}, true);
  EXPECT_GE(sites.size(), 8U);
  expect_sites_met(met, sites);
}

}  // namespace
}  // namespace nvm::tests
