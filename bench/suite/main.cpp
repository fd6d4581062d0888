// What does a transaction cost with each engine, for the structures and workloads that papers measure with?
#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>

#include "harness/runner.hpp"
#include "suite/questions.hpp"
#if NVM_BENCH_HOLDFAST
#include <nvm/nvm.h>
#endif

namespace {

nvm::bench::emulation preset(const std::string& name) {
#if NVM_BENCH_HOLDFAST
  nvm_emulation e{};
  if (nvm_emulation_preset(name.c_str(), &e) == 0) return {e.fence_ns, e.writeback_ns, e.bandwidth_bytes_s};
#endif
  throw std::runtime_error("no preset of emulated memory is called " + name);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace nvm::bench;
  return answer(argc, argv,
                {.question = "The transactional suite: every engine, the papers' workloads",
                 .directory = "/dev/shm",
                 .threads = {1, 2},
                 .runs = 5,
                 .quick_records = 20'000,
                 .emulations = preset},
                [](runner& r, options& o) {
                  // There a record costs milliseconds to load.
                  if (!is_memory(o.directory))
                    o.records = std::min<std::uint64_t>(o.records, o.full_or_quick(5'000, 500));
                  for (const unsigned threads : o.threads)  // one thread first, see harness/workers.hpp
                    for (auto* question : {swap_benchmarks, map_benchmarks, insert_benchmarks, store_benchmarks})
                      for (const benchmark& b : question(o, threads)) r.run(b);
                });
}
