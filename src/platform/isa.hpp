// Processor: write-back of cache lines, store fence, non-temporal copy, time-stamp counter.
//
// The one place with inline assembly.  Every statement clobbers memory: the compiler may not move a
// store over a write-back.  The assembler knows every instruction without -march flags; which of them
// this processor has is asked once, by cpuid.  Only src/media issues what is declared here.
//
// A tool that watches stores does not see inline assembly: write-backs and fences are reported by the
// medium (recorder), and copy_nontemporal() is used only where the destination is reported too.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nvm::isa {

// How dirty lines get to the persistence domain.
enum class write_back : std::uint8_t {
  none,        // order of stores is enough: memory survives what the pool must survive
  fence_only,  // caches are flushed by the platform (eADR, GPF, battery)
  clflush,
  clflushopt,
  clwb,
};

struct cpu_features {
  bool clflush = false;
  bool clflushopt = false;
  bool clwb = false;
  bool invariant_tsc = false;  // ticks at one rate in every power state
};

// Asked once a process.
[[nodiscard]] const cpu_features& cpu() noexcept;
[[nodiscard]] bool has(write_back) noexcept;
// clwb, else clflushopt, else clflush.
[[nodiscard]] write_back best_write_back() noexcept;
[[nodiscard]] const char* name_of(write_back) noexcept;

#if !defined(__x86_64__)
#error "Holdfast knows the write-back instructions of x86-64 only"
#endif

// Begins write-back of each line that [p, p + bytes) touches.  Weakly ordered except clflush: sfence()
// ends it.  `with` is one of the three instructions, checked by the caller with has().
inline void write_back_lines(const void* p, std::size_t bytes, write_back with) noexcept {
  if (bytes == 0) return;
  constexpr std::uintptr_t line = 64;
  auto at = reinterpret_cast<std::uintptr_t>(p) & ~(line - 1);
  const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(p) + bytes;
  switch (with) {
    case write_back::clwb:
      for (; at < end; at += line) asm volatile("clwb (%0)" ::"r"(at) : "memory");
      return;
    case write_back::clflushopt:
      for (; at < end; at += line) asm volatile("clflushopt (%0)" ::"r"(at) : "memory");
      return;
    case write_back::clflush:
      for (; at < end; at += line) asm volatile("clflush (%0)" ::"r"(at) : "memory");
      return;
    case write_back::none:
    case write_back::fence_only:
      return;
  }
}

// Completes earlier stores, write-backs and non-temporal stores of this thread before later stores.
inline void store_fence() noexcept { asm volatile("sfence" ::: "memory"); }

// The compiler keeps the order of stores; the processor keeps it anyway (total store order).
inline void compiler_fence() noexcept { asm volatile("" ::: "memory"); }

// Copies whole lines past the cache, partial lines at both ends by ordinary stores; needs write-back of these two lines
// and a store_fence() to be durable.
void copy_nontemporal(void* to, const void* from, std::size_t bytes) noexcept;

// The same for whole lines; `to` is aligned to one.  Needs a store_fence() only.
inline void stream_lines(void* to, const void* from, std::size_t bytes) noexcept {
  auto* out = static_cast<std::byte*>(to);
  const auto* in = static_cast<const std::byte*>(from);
  for (const std::byte* const end = in + bytes; in != end; out += 64, in += 64) {
    asm volatile(
        "movups (%1), %%xmm0\n\tmovups 16(%1), %%xmm1\n\tmovups 32(%1), %%xmm2\n\tmovups 48(%1), %%xmm3\n\t"
        "movntdq %%xmm0, (%0)\n\tmovntdq %%xmm1, 16(%0)\n\tmovntdq %%xmm2, 32(%0)\n\tmovntdq %%xmm3, 48(%0)"
        :
        : "r"(out), "r"(in)
        : "memory", "xmm0", "xmm1", "xmm2", "xmm3");
  }
}

// Time-stamp counter; not ordered with neighbouring instructions, as is right for a pause.
[[nodiscard]] inline std::uint64_t ticks() noexcept {
  std::uint32_t low = 0, high = 0;
  asm volatile("rdtsc" : "=a"(low), "=d"(high));
  return std::uint64_t{high} << 32 | low;
}

// Ticks a nanosecond, measured once against the monotonic clock (takes 5 ms the first time).
[[nodiscard]] double ticks_per_ns() noexcept;

inline void spin_hint() noexcept { asm volatile("pause" ::: "memory"); }

// Keeps this thread busy for `ns` nanoseconds; by the monotonic clock if the counter is not invariant.
void spin_ns(std::uint64_t ns) noexcept;

}  // namespace nvm::isa
