// What is asked of the log-structured heap, one file each (LSNVMM, sections 5.3 and 5.4).
#pragma once

#include "harness/options.hpp"
#include "harness/runner.hpp"

namespace nvm::bench {

void measure_fragmentation(runner& r, const options& o);  // fragmentation.cpp: Fig. 9
void measure_cleaning(runner& r, const options& o);       // cleaning.cpp: Fig. 7's LSC, Fig. 11
void measure_fast_cleaning(runner& r, const options& o);  // fast_cleaning.cpp: Fig. 10
void measure_recovery(runner& r, const options& o);       // recovery.cpp: Fig. 12, Fig. 13
void measure_traffic(runner& r, const options& o);        // traffic.cpp: Fig. 8

}  // namespace nvm::bench
