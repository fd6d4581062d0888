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
const mutation_report& score() {
  static const mutation_report r = [] {
    std::vector<subject> subjects;
    for (const logheap_story& s : logheap_stories()) subjects.push_back(logheap_subject({}, s));
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
