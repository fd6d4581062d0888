// The cases of crash tests of lock-free structures and of regions: each story, on each variant of its structure, under
// each model of the variant's medium.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "scenarios.hpp"

namespace nvm::tests {

template <class Story, class Variant>
struct on_model {
  Story of;
  Variant with;
  explore::model under;
};

// For INSTANTIATE_TEST_SUITE_P.
struct name_of_case {
  template <class Story, class Variant>
  std::string operator()(const testing::TestParamInfo<on_model<Story, Variant>>& i) const {
    return identifier(i.param.of.name) + "_" + name_of(i.param.under) + "_" + i.param.with.name;
  }
};

template <class Story, class Variant>
std::vector<on_model<Story, Variant>> cases_of(const std::vector<Story>& stories,
                                               const std::vector<Variant>& variants) {
  using explore::model;
  std::vector<on_model<Story, Variant>> all;
  for (const Story& s : stories) {
    for (const Variant& v : variants) {
      if (v.image) {
        if (s.on_ssd) all.push_back({s, v, model::ssd});
        continue;
      }
      for (const model m : {model::x86, model::torn8, model::eadr}) all.push_back({s, v, m});
    }
  }
  return all;
}

}  // namespace nvm::tests
