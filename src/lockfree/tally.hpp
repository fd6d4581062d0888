// Tallies: how many entries a structure with volatile links has, counted when the pool is closed.  Nothing else tells
// that one is missing, since no durable link leads to a node.
//
/// at rest   S the number; F it                     (all that was done is durable; the number may come later, or never)
/// open      S 0; F it;                  | lockfree/E19  it is gone before any thread changes anything
// So a process that finds a tally finds as many entries, or damage.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/base.hpp"
#include "lockfree/lockfree_layout.hpp"
#include "media/media.hpp"

namespace nvm::lockfree {

// nullopt: they were not counted since the last change, or the word fails its check.  `at`: offset of the word.
[[nodiscard]] inline std::optional<std::uint64_t> tally_in(const layout::entry& e, std::uint64_t at) noexcept {
  if (e.tally == 0 || !word_holds(e.tally, word_seed(at))) return std::nullopt;
  return e.tally & checked_mask;
}
// Written back, not fenced.
template <media M>
void set_tally(M& medium, layout::entry& e, std::uint64_t at, std::uint64_t entries) noexcept {
  // relaxed: no other thread is there.
  std::atomic_ref<std::uint64_t>{e.tally}.store(seal_word(entries, word_seed(at)), std::memory_order_relaxed);
  medium.flush(&e.tally, sizeof(std::uint64_t));
}
template <media M>
void clear_tally(M& medium, layout::entry& e) noexcept {
  if (e.tally == 0) return;
  // relaxed: as above.
  std::atomic_ref<std::uint64_t>{e.tally}.store(0, std::memory_order_relaxed);
  medium.flush(&e.tally, sizeof e.tally);
}

}  // namespace nvm::lockfree
