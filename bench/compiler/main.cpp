// What do log calls that the compiler places cost more than those placed by hand?
#include "harness/runner.hpp"
#include "transactional/questions.hpp"

int main(int argc, char** argv) {
  using namespace nvm::bench;
  const options o = parse_options(argc, argv,
                                  {.question = "Structures whose stores the compiler logs, beside log calls by hand",
                                   .directory = "/dev/shm",
                                   .threads = {1},
                                   .records = 200'000,
                                   .quick_records = 2'000});
  runner r(o);
  for (const benchmark& b : ycsb_benchmarks(o, 1)) r.run(b);
  return r.finish();
}
