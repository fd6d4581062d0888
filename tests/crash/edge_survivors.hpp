// Tests of edges expect of a score that each place is shown necessary or waived, and that each place of the sources was
// met.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "explore/explore.hpp"
#include "source_places.hpp"

namespace nvm::tests {

// A place that no story shows necessary, and the reason why it may be one: a label, or a file and what its line says.
struct survivor {
  const char* place;
  const char* text;  // nullptr: `place` is a label
  const char* reason;
};
using survivor_list = std::vector<survivor>;

// lines: all of the sources in question.
inline std::vector<explore::waiver> waivers_of(const survivor_list& survivors,
                                               const std::vector<place_in_sources>& lines) {
  std::vector<explore::waiver> all;
  for (const survivor& s : survivors) {
    if (s.text == nullptr) {
      all.push_back({s.place, s.reason});
      continue;
    }
    for (const place_in_sources& l : lines) {
      if (l.text.starts_with(s.place) && l.line.find(s.text) != std::string::npos) all.push_back({l.text, s.reason});
    }
  }
  return all;
}

// shown_elsewhere: labels that another test shows necessary, and this one by chance.
inline void expect_all_necessary(const explore::mutation_report& score,
                                 const std::set<std::string>& shown_elsewhere = {}) {
  EXPECT_TRUE(score.clean());
  for (const auto& mutant : score.mutants) {
    if (shown_elsewhere.contains(mutant.change.place)) continue;
    EXPECT_TRUE(mutant.killed || !mutant.waived.empty()) << mutant.change.text();
    EXPECT_FALSE(mutant.killed && !mutant.waived.empty()) << mutant.change.text() << " needs no waiver";
  }
  std::printf("%zu of %zu places are shown necessary\n", score.killed(), score.mutants.size());
}

inline std::set<std::string> places_met(const explore::mutation_report& score) {
  std::set<std::string> met;
  for (const auto& mutant : score.mutants) met.insert(mutant.change.place);
  return met;
}

// known: whether a place need not be met.
using known_place = std::function<bool(const place_in_sources&)>;
inline bool none_known(const place_in_sources&) { return false; }
inline void expect_labels_met(const std::set<std::string>& met, const std::vector<place_in_sources>& labels,
                              const known_place& known = none_known) {
  for (const auto& l : labels) {
    EXPECT_TRUE(met.contains(l.text) || known(l)) << l.text << " is met by no story";
  }
}
inline void expect_sites_met(const std::set<std::string>& met, const std::vector<place_in_sources>& sites,
                             const known_place& known = none_known) {
  for (const auto& s : sites) {
    const bool is_met = std::any_of(met.begin(), met.end(), [&](const std::string& p) { return p.ends_with(s.text); });
    EXPECT_TRUE(is_met || known(s)) << s.text << " is met by no story: " << s.line;
  }
}

}  // namespace nvm::tests
