// When to kill: moments spread over creation, recovery and all of the work, in the measure of what was seen so far.
#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "child.hpp"

namespace kills {

// What a life has come to, as its output tells.
enum class phase { starting, opening, working, finishing };

class moments {
 public:
  // lives: how many lives a run is to be cut into.
  moments(std::uint64_t seed, unsigned lives) : random_(seed), lives_(lives) {}

  // A kill is due this long after the life enters a phase.
  struct choice {
    phase from;
    seconds delay;
  };
  choice choose(bool pool_exists, unsigned percent_done);

  // Durations seen: from start to the opening of the pool, of the opening (of a new or of an existing pool), of the
  // whole work of a run, of writing the result.
  void saw_start(seconds s) { average(start_, s); }
  void saw_opening(bool existing, seconds s) { average(existing ? recovery_ : creation_, s); }
  void saw_work(seconds s) { average(work_, s); }
  void saw_finish(seconds s) { average(finish_, s); }

 private:
  static void average(seconds& known, seconds seen) { known = known.count() == 0 ? seen : 0.8 * known + 0.2 * seen; }
  seconds up_to(seconds most) { return most * std::uniform_real_distribution<>(0, 1)(random_); }

  std::mt19937_64 random_;
  unsigned lives_;
  seconds start_{0}, creation_{0}, recovery_{0}, work_{0}, finish_{0};
};

}  // namespace kills
