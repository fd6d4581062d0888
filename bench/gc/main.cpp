// Costs of collection, and how long a pool lasts with it and without.
#include "gc/questions.hpp"

int main(int argc, char** argv) {
  using namespace nvm::bench;
  return answer(
      argc, argv,
      {.question = "Marking what can be reached, what references that are counted free, and collections of stores",
       .directory = "/dev/shm",
       .threads = {1, 2},
       .runs = 7},
      [](runner& r, const options& o) {
        measure_marking(r, o);
#if NVM_BENCH_HOLDFAST
        r.attempt([&] { measure_dying(r, o); });
        r.attempt([&] { measure_year(r, o); });
        r.attempt([&] { measure_store_garbage(r, o); });
        r.attempt([&] { measure_beside(r, o); });
#endif
      });
}
