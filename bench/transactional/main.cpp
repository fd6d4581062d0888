// What does a transaction on byte-addressable memory cost, beside libpmemobj and beside the machine's own limit?
#include "harness/runner.hpp"
#include "transactional/questions.hpp"

int main(int argc, char** argv) {
  using namespace nvm::bench;
  return answer(argc, argv,
                {.question = "Transactions on byte-addressable memory, beside libpmemobj",
                 .directory = "/dev/shm",
                 .threads = {1, 2}},
                [](runner& r, const options& o) {
                  for (const unsigned threads : o.threads)  // one thread first, see harness/workers.hpp
                    for (auto* question : {alloc_benchmarks, overwrite_benchmarks, sps_benchmarks, ycsb_benchmarks})
                      for (const benchmark& b : question(o, threads)) r.run(b);
                });
}
