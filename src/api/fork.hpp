// Pictures: private copies of pools that a forked child has of its parent's, at the same addresses.
//
// The thread that forks makes the copy before the child exists.  In the child it moves to the pool's addresses; in the
// parent it is given up.  The page map and the pages that are not free are copied.
#pragma once

#include <atomic>
#include <cstddef>

struct nvm_pool;

namespace nvm::api {

// Forgets the picture of a pool that is being closed.
void forget_picture(nvm_pool* pool) noexcept;

// For a child that has opened a pool of its own: transactions that the forking thread had open in a pool of the parent
// must not be in the way of transactions at the same addresses.
void forget_transactions_of_parent() noexcept;

// Whether this process is a child with a picture.  relaxed: set before the child runs.
extern constinit std::atomic<bool> has_pictures;
[[nodiscard]] bool in_picture_slowly(const void* p) noexcept;
[[nodiscard]] inline bool in_picture(const void* p) noexcept {
  return has_pictures.load(std::memory_order_relaxed) && in_picture_slowly(p);
}
// Bytes of the object at `payload` in a picture; 0: there is none.
[[nodiscard]] std::size_t bytes_in_picture(const void* payload) noexcept;

}  // namespace nvm::api
