#include "moments.hpp"

#include <algorithm>

namespace kills {

moments::choice moments::choose(bool pool_exists, unsigned percent_done) {
  const unsigned percent = std::uniform_int_distribution<unsigned>(0, 99)(random_);
  // A little beyond the end of each phase, so that its last steps are met too.
  if (percent < 5) return {phase::starting, up_to(1.5 * start_)};
  if (percent < (pool_exists ? 35 : 60)) return {phase::opening, up_to(1.3 * (pool_exists ? recovery_ : creation_))};
  if (percent < 60 && percent_done >= 95) return {phase::finishing, up_to(1.2 * finish_)};
  // Uniform with mean work / lives; never so short that a run comes to no end.
  return {phase::working, up_to(std::max(2.0 * work_ / lives_, seconds(1e-3)))};
}

}  // namespace kills
