// Tag of an allocation word: the lane that last changed it, and that lane's generation.
//
// A lane's last eight commit records are replayed by recovery, so an intent can be made again long after it was
// applied. That is harmless only while no other lane has changed the same word since.  A lane that is about to change a
// word whose tag names another lane settles the tag first: afterwards that lane's intents up to the tag's generation
// are durable and cannot be replayed.  Changes of one lane need no settling: its records are replayed in order.
#pragma once

#include <concepts>
#include <cstdint>

namespace nvm::log {

struct tag {
  std::uint64_t code = 0;  // 0: none; lane + 1 in the low 12 bits, generation above

  static constexpr tag make(unsigned lane, std::uint64_t generation) noexcept {
    return {generation << 12 | (lane + 1)};
  }
  [[nodiscard]] constexpr bool none() const noexcept { return code == 0; }
  [[nodiscard]] constexpr unsigned lane() const noexcept { return static_cast<unsigned>(code & 0xFFF) - 1; }
  [[nodiscard]] constexpr std::uint64_t generation() const noexcept { return code >> 12; }
};
inline constexpr unsigned lanes_max = 4094;

// All that space needs of the lanes: implemented by log::lanes, and by a recording double in space's tests.
template <class S>
concept settler = requires(S& s, tag t, unsigned lane) {
  // True: records are replayed in one order over all lanes, that of generations, and may store the contents of objects
  // besides intents. Then settle() does nothing.
  { S::ordered } -> std::convertible_to<bool>;
  // Returns once no intent of t's lane up to t's generation can be replayed.  No-op when t is none or of `lane`.
  // Must not be called while holding a lock that a committing thread takes (see space.hpp, lock order).
  { s.settle(t, lane) } noexcept;
  // The same also for `lane` itself: needed before memory to which intents refer gets another use.
  { s.settle_all(t) } noexcept;
};

// Settler of a pool without a log, or after the log can no longer be replayed.
struct nothing_logged {
  static constexpr bool ordered = false;
  void settle(tag, unsigned) noexcept {}
  void settle_all(tag) noexcept {}
};

}  // namespace nvm::log
