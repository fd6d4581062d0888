// What does the log-structured heap cost beside its mapping: memory that it cannot use, cleaning, recovery, write
// traffic?  LSNVMM, sections 5.3 and 5.4, on one heap over memory.  --emulate makes memory slower where cleaning is
// measured, and nowhere else.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <string>

#include "logheap/questions.hpp"
#include "media/media.hpp"

namespace {

nvm::bench::emulation preset(const std::string& name) {
  const auto s = nvm::latency_preset(name);
  if (!s) throw CLI::ValidationError("--emulate", "no settings are called " + name);
  return {s->fence_ns, s->writeback_ns, s->bandwidth_bytes_s};
}

}  // namespace

int main(int argc, char** argv) {
  using namespace nvm::bench;
  return answer(argc, argv,
                {.question = "Fragmentation, cleaning, recovery and write traffic of the log-structured heap",
                 .directory = "/dev/shm",
                 .threads = {1, 2},
                 .runs = 5,
                 .records = 100'000,
                 .quick_records = 2'000,
                 .emulations = preset},
                [](runner& r, const options& o) {
                  for (const auto measure : {measure_fragmentation, measure_fast_cleaning, measure_cleaning,
                                             measure_recovery, measure_traffic, measure_wear, measure_hits}) {
                    r.attempt([&] { measure(r, o); });
                  }
                });
}
