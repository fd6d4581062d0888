// The handle of a lock-free structure in the C interface, and what of it both of its sources use: lockfree_open.cpp,
// which makes and closes handles, and lockfree.cpp, operations.
#pragma once

#include <atomic>
#include <cstdint>

#include "api/named.hpp"
#include "api/pool_object.hpp"
#include "api/thread_places.hpp"
#include "nvm/store_lockfree.h"

struct nvm_lf {
  nvm::api::debugger_view seen;  // first
  NVM_POOL* pool = nullptr;
  nvm::api::open_structure* of = nullptr;
  nvm::api::open_structures* all = nullptr;
  bool waits = true;
  bool verifies = false;    // what it reads
  std::uint32_t opens = 0;  // less closings; written under the lock of `all`
};

namespace nvm::api {

// The open structures of one pool, or of one object store; outlives it while threads refer to it.
// One handle for each name, whether it waits (0) or not (1), and does not verify (0) or does (2).
struct open_structures : named<nvm_lf, structure_side, 4>, std::enable_shared_from_this<open_structures> {
  nvm_store* home = nullptr;              // the object store that they lie in; nullptr: they are the pool's own
  std::shared_ptr<thread_places> places;  // of the side; threads that have one keep them
  // A number that no other side has had in this process: `number` of each side that is opened.
  [[nodiscard]] static unsigned next_number() noexcept;
};

inline constexpr words structures{"lock-free structure", "lock-free structures"};

inline status usable_by_structures(const NVM_POOL* pool) noexcept {
  if (status s = usable_pool(pool); !s) return s;
  if (pool->file->read_only()) {
    return fail(errc::read_only, "%s: lock-free structures of a pool that is opened read-only are out of reach",
                pool->file->path());
  }
  return {};
}
// Whether threads work there besides the calling one, if that was there last.
[[nodiscard]] bool others_use(const open_structures& all) noexcept;

inline status usable(const nvm_lf* lf) noexcept {
  if (status s = usable_handle(lf, structures); !s) return s;
  // relaxed: the thread that closes has let nobody else call.
  if (std::atomic_ref<std::uint32_t>{const_cast<std::uint32_t&>(lf->opens)}.load(std::memory_order_relaxed) != 0)
      [[likely]]
    return {};
  return fail(errc::invalid, "the lock-free structure was closed");
}

}  // namespace nvm::api
