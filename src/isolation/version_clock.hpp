// The order of all transactions of this process that write: each draws a version when it commits, while it holds what
// it wrote.  Versions are drawn by participants (participants.hpp), which know whether they are alone.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/base.hpp"

namespace nvm::isolation {

class version_clock {
 public:
  [[nodiscard]] static version_clock& of_process() noexcept { return process_; }

  // acquire: pairs with next(): a thread that sees a version sees what its transaction did before it drew it.
  [[nodiscard]] std::uint64_t now() const noexcept { return last_.load(std::memory_order_acquire); }
  // seq_cst: also the full barrier between the locks that a committer has taken and its last look at what it has read.
  [[nodiscard]] std::uint64_t next() noexcept { return last_.fetch_add(1, std::memory_order_seq_cst) + 1; }
  // For the favourite, while no other thread can draw.  release: pairs with now().
  [[nodiscard]] std::uint64_t next_alone() noexcept {
    const std::uint64_t version = last_.load(std::memory_order_relaxed) + 1;
    last_.store(version, std::memory_order_release);
    return version;
  }

 private:
  alignas(line_bytes) std::atomic<std::uint64_t> last_{0};
  static version_clock process_;
};
inline constinit version_clock version_clock::process_{};

}  // namespace nvm::isolation
