// What is asked of the log-structured heap, one file each (LSNVMM, sections 5.2 to 5.4).
#pragma once

#include "harness/options.hpp"
#include "harness/runner.hpp"

namespace nvm::bench {

void measure_fragmentation(runner& r, const options& o);  // fragmentation.cpp: Fig. 9
void measure_cleaning(runner& r, const options& o);       // cleaning.cpp: Fig. 7's LSC, Fig. 11
void measure_fast_cleaning(runner& r, const options& o);  // fast_cleaning.cpp: Fig. 10
void measure_recovery(runner& r, const options& o);       // recovery.cpp: Fig. 12, Fig. 13
void measure_traffic(runner& r, const options& o);        // traffic.cpp: Fig. 8
void measure_wear(runner& r, const options& o);           // wear.cpp
void measure_hits(runner& r, const options& o);           // hits.cpp: Fig. 5

}  // namespace nvm::bench
