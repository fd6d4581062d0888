// Counts the instructions that make memory durable, exactly and alike for every system.
//
// The processor's trap flag stops the calling thread after each instruction; the handler looks at the bytes of the next
// one. Nothing is linked into a library, wrapped or preloaded, so the timed runs execute the very code that a user's
// program executes, and no system counts itself. A step costs microseconds: a few operations are counted, apart from
// the timed ones.
//
// Only the calling thread is seen. A library that writes back from a thread of its own is counted by its statistics.
#pragma once

#include <cstdint>

namespace nvm::bench {

struct step_counts {
  std::uint64_t instructions = 0;
  std::uint64_t clwb = 0;            // lines
  std::uint64_t clflushopt = 0;      // lines
  std::uint64_t clflush = 0;         // lines
  std::uint64_t streamed_bytes = 0;  // by non-temporal stores and movdir64b
  std::uint64_t sfence = 0;
  std::uint64_t mfence = 0;
  std::uint64_t waiting_fences = 0;  // those of both kinds that had something to wait for: a write-back since the last
  // Locked instructions (and xchg with memory) with a write-back outstanding: they wait for it as a fence would, though
  // nobody asked for one.
  std::uint64_t waiting_locks = 0;
  std::uint64_t watched_bytes = 0;

  double lines() const noexcept {
    return static_cast<double>(clwb + clflushopt + clflush) + static_cast<double>(streamed_bytes) / 64.0;
  }
  std::uint64_t fences() const noexcept { return sfence + mfence; }
  step_counts operator-(const step_counts& before) const noexcept;
};

// The third argument of each call that reaches `function` is added to watched_bytes: memcpy-like functions through
// which a library is known to write its log. One function at a time; null: none.
void watch_length_argument(const void* function) noexcept;

// While an object of this class lives, its thread is stepped and counted. One at a time in the process.
class step_counter {
 public:
  step_counter();
  ~step_counter();
  step_counter(const step_counter&) = delete;
  step_counter& operator=(const step_counter&) = delete;

  // Counts of all stepping since the process started; may be read while stepping.
  static step_counts counts() noexcept;
};

// False where the process cannot step itself (a sanitizer owns the signal, a debugger holds the process).
bool can_step() noexcept;

}  // namespace nvm::bench
