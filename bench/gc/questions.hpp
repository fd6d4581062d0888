// Questions about collection, one file each.
#pragma once

#include <vector>

#include "harness/options.hpp"
#include "harness/runner.hpp"
#include "harness/statistics.hpp"

namespace nvm::bench {

inline nlohmann::ordered_json document_of(const std::vector<double>& all) {
  const spread s = spread_of(all);
  return {{"median", s.median}, {"min", s.min}, {"max", s.max}, {"sample", all}};
}

void measure_marking(runner& r, const options& o);        // marking.cpp
void measure_dying(runner& r, const options& o);          // dying.cpp
void measure_year(runner& r, const options& o);           // year.cpp
void measure_store_garbage(runner& r, const options& o);  // store_garbage.cpp
void measure_beside(runner& r, const options& o);         // beside.cpp

}  // namespace nvm::bench
