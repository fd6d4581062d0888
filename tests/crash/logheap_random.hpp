// Random workloads of the log-structured heap: transactions of several threads, cleaning, processes that end or close
// it.
#pragma once

#include "logheap_player.hpp"

namespace nvm::tests {

[[nodiscard]] explore::subject random_logheap_subject(std::uint64_t seed, unsigned operations,
                                                      const logheap_variant& v);

}  // namespace nvm::tests
