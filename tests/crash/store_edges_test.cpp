// Each fence and flush of object stores is necessary: without it some story fails.  Each one of the sources is known
// here.
#include <gtest/gtest.h>

#include <cstdio>
#include <regex>
#include <set>

#include "edge_survivors.hpp"
#include "store_player.hpp"

namespace nvm::tests {
namespace {

using explore::model;
using explore::mutation_report;
using explore::subject;

bool is_own(const std::string& place) {
  // Those of pages for lock-free structures: lockfree_edges_test.cpp.
  if (place == "store/E12" || place == "store/E13") return false;
  return place.starts_with("store/") || place.find("space/space_stores.hpp") != std::string::npos ||
         place.find("space/space_store_visits.hpp") != std::string::npos;
}
std::vector<place_in_sources> ours(const std::regex& what, bool by_line) {
  std::vector<place_in_sources> all = places_in_sources({"space"}, what, by_line);
  std::erase_if(all, [&](const place_in_sources& p) { return !is_own(p.text); });
  return all;
}
std::vector<subject> all_subjects(bool ssd) {
  std::vector<subject> all;
  for (const store_story& s : store_stories()) {
    if (ssd) {
      if (s.on_ssd) all.push_back(store_subject(s, store_ground::ssd));
      continue;
    }
    all.push_back(store_subject(s, store_ground::undo));
    if (s.on_others) all.push_back(store_subject(s, store_ground::redo));
  }
  return all;
}
const mutation_report& score() {
  static const mutation_report r = [] {
    auto o = store_options(model::torn8);
    o.nested_every = 256;
    o.idempotence_every = 0;
    o.after_every = 1;
    o.full_points_max = 4;
    mutation_report made = mutation_score(all_subjects(false), o, {}, {}, is_own);
    std::printf("%s\n", made.text().c_str());
    return made;
  }();
  return r;
}

TEST(store_edges, are_all_necessary) { expect_all_necessary(score()); }

TEST(store_edges, are_all_known_by_label) {
  const auto labels = ours(std::regex{R"re(edge\{"([^"]+)"\})re"}, false);
  EXPECT_GE(labels.size(), 10U);
  expect_labels_met(places_met(score()), labels);
}
TEST(store_edges, are_all_known_by_flush_site) {
  const auto sites = ours(std::regex{R"re(\bmedium_\.flush\()re"}, true);
  EXPECT_GE(sites.size(), 4U);
  expect_sites_met(places_met(score()), sites);
}

}  // namespace
}  // namespace nvm::tests
