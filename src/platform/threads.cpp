#include "platform/threads.hpp"

#include <sched.h>

namespace nvm::platform {

unsigned processors() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  // Affinity and not the number of processors: a container or taskset may leave us few of many.
  if (::sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
    return static_cast<unsigned>(CPU_COUNT(&set));
  const unsigned all = std::thread::hardware_concurrency();
  return all == 0 ? 1 : all;
}

}  // namespace nvm::platform
