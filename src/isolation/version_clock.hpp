// The order of all transactions of this process that write: each draws a version when it commits, while it holds what
// it wrote.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/base.hpp"

namespace nvm::isolation {

class version_clock {
 public:
  [[nodiscard]] static version_clock& of_process() noexcept { return process_; }

  // acquire: pairs with next(): whoever sees a version sees what its transaction did before it drew it.
  [[nodiscard]] std::uint64_t now() const noexcept { return last_.load(std::memory_order_acquire); }
  // seq_cst: also the full barrier between what a committer published before and what others look for after they read
  // the clock (log/redo_log.hpp).
  [[nodiscard]] std::uint64_t next() noexcept { return last_.fetch_add(1, std::memory_order_seq_cst) + 1; }

 private:
  alignas(line_bytes) std::atomic<std::uint64_t> last_{0};
  static version_clock process_;
};
inline constinit version_clock version_clock::process_{};

}  // namespace nvm::isolation
