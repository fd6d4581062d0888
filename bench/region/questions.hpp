// What is asked of the parts of regions, one file each.
#pragma once

#include "harness/options.hpp"
#include "harness/runner.hpp"

namespace nvm::bench {

void measure_waits(runner& r, const options& o);  // waits.cpp: Lewat, section IV-F
void measure_runs(runner& r, const options& o);   // runs.cpp: Fig. 16
void measure_wear(runner& r, const options& o);   // wear.cpp: Fig. 15

}  // namespace nvm::bench
