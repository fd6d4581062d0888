// What does the log-structured heap cost beside its mapping: memory that it cannot use, cleaning, recovery, write
// traffic?  LSNVMM, sections 5.3 and 5.4, on one heap over memory.
#include <fmt/core.h>

#include <exception>

#include "logheap/questions.hpp"

int main(int argc, char** argv) {
  using namespace nvm::bench;
  const options o = parse_options(argc, argv,
                                  {.question = "Fragmentation, cleaning, recovery and write traffic of the "
                                               "log-structured heap",
                                   .directory = "/dev/shm",
                                   .threads = {1, 2},
                                   .runs = 5});
  runner r(o);
  bool failed = false;
  for (const auto measure :
       {measure_fragmentation, measure_fast_cleaning, measure_cleaning, measure_recovery, measure_traffic}) {
    try {
      measure(r, o);
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}\n", error.what());
      failed = true;
    }
  }
  return r.finish() != 0 || failed ? 1 : 0;
}
