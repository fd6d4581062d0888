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
#include <initializer_list>

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
  std::uint64_t logged_bytes = 0;  // see watch_length()
  std::uint64_t dirty_bytes = 0;

  double lines() const noexcept {
    return static_cast<double>(clwb + clflushopt + clflush) + static_cast<double>(streamed_bytes) / 64.0;
  }
  std::uint64_t fences() const noexcept { return sfence + mfence; }
  step_counts operator-(const step_counts& before) const noexcept;
};

// What the length argument of a function says about the bytes that a library makes durable.
struct watched_function {
  const void* function;         // null: not watched
  unsigned argument;            // which one is the length: 1 is the first
  bool logs;                    // the bytes go to the library's log: counted in logged_bytes
  bool dirties;                 // the bytes are written back: counted in dirty_bytes
  unsigned flags_argument = 0;  // 0: none; else an argument that says by one of `unless` that nothing is written back
  std::uint64_t unless = 0;
};

// Watches these functions from now on, and no others; at most 8.
void watch_lengths(std::initializer_list<watched_function> functions) noexcept;

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
