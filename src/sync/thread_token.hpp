// A number that tells this thread from all others alive, and a small ordinal that spreads threads over lanes.
#pragma once

#include <atomic>
#include <cstdint>

namespace nvm {

// Never 0, never reused in a process.
inline std::uint64_t thread_token() noexcept {
  static constinit std::atomic<std::uint64_t> next{1};
  // relaxed: only uniqueness matters.
  thread_local constinit std::uint64_t mine = 0;
  if (mine == 0) mine = next.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

}  // namespace nvm
