// What do the parts of regions cost, below the C interface?  How long readers and writers wait for each other, how long
// runs of pages are found, how evenly memory is written (Lewat: section IV-F, figures 15 and 16).
#include <CLI/CLI.hpp>
#include <string>

#include "media/media.hpp"
#include "region/questions.hpp"

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
                {.question = "Waits, runs of pages and wear of regions",
                 .directory = "/dev/shm",
                 .threads = {1, 2},
                 .runs = 5,
                 .emulations = preset},
                [](runner& r, const options& o) {
                  for (const auto measure : {measure_waits, measure_runs, measure_wear}) {
                    r.attempt([&] { measure(r, o); });
                  }
                });
}
