// Random workloads of lock-free structures: calls of several threads on structures of each kind, processes that are
// killed in the middle of a call, that end, or close the pool.
#pragma once

#include "lockfree_player.hpp"

namespace nvm::tests {

[[nodiscard]] explore::subject random_lockfree_subject(std::uint64_t seed, unsigned operations,
                                                       const lockfree_variant& v);

}  // namespace nvm::tests
