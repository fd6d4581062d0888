#include "platform/isa.hpp"

#include <cpuid.h>
#include <time.h>
#if __has_include(<sys/platform/x86.h>)
#define _Bool bool  // the header is C's
#include <sys/platform/x86.h>
#undef _Bool
#endif

#include <cstring>

namespace nvm::isa {
namespace {

#ifdef CPU_FEATURE_PRESENT
// glibc has asked at the start of the process.  Under a hypervisor each cpuid instruction leaves the guest: 10 us, more
// than all the rest of some calls that need the answer.
cpu_features detect() noexcept {
  cpu_features f;
  f.clflush = CPU_FEATURE_PRESENT(CLFSH);
  f.clflushopt = CPU_FEATURE_PRESENT(CLFLUSHOPT);
  f.clwb = CPU_FEATURE_PRESENT(CLWB);
  f.invariant_tsc = CPU_FEATURE_PRESENT(INVARIANT_TSC);
  return f;
}
#else
cpu_features detect() noexcept {
  cpu_features f;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d)) f.clflush = (d >> 19 & 1) != 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
    f.clflushopt = (b >> 23 & 1) != 0;
    f.clwb = (b >> 24 & 1) != 0;
  }
  if (__get_cpuid(0x8000'0007, &a, &b, &c, &d)) f.invariant_tsc = (d >> 8 & 1) != 0;
  return f;
}
#endif

std::uint64_t monotonic_ns() noexcept {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(t.tv_nsec);
}

// One reading of both clocks.  The pair of counter reads that lie closest together is used, so that an interrupt in
// between cannot skew the rate.
struct reading {
  std::uint64_t ticks;
  std::uint64_t ns;
};
reading read_both() noexcept {
  reading best{};
  std::uint64_t gap_min = ~std::uint64_t{0};
  for (int i = 0; i < 16; ++i) {
    const std::uint64_t before = ticks();
    const std::uint64_t ns = monotonic_ns();
    const std::uint64_t gap = ticks() - before;
    if (gap >= gap_min) continue;
    gap_min = gap;
    best = {before + gap / 2, ns};
  }
  return best;
}

double calibrate() noexcept {
  const reading first = read_both();
  constexpr std::uint64_t span_ns = 5'000'000;
  while (monotonic_ns() - first.ns < span_ns) spin_hint();
  const reading last = read_both();
  return static_cast<double>(last.ticks - first.ticks) / static_cast<double>(last.ns - first.ns);
}

}  // namespace

const cpu_features& cpu() noexcept {
  static const cpu_features features = detect();
  return features;
}

bool has(write_back with) noexcept {
  switch (with) {
    case write_back::none:
    case write_back::fence_only:
      return true;
    case write_back::clflush:
      return cpu().clflush;
    case write_back::clflushopt:
      return cpu().clflushopt;
    case write_back::clwb:
      return cpu().clwb;
  }
  return false;
}

write_back best_write_back() noexcept {
  if (cpu().clwb) return write_back::clwb;
  if (cpu().clflushopt) return write_back::clflushopt;
  return write_back::clflush;
}

const char* name_of(write_back with) noexcept {
  switch (with) {
    case write_back::none:
      return "none";
    case write_back::fence_only:
      return "fence";
    case write_back::clflush:
      return "clflush";
    case write_back::clflushopt:
      return "clflushopt";
    case write_back::clwb:
      return "clwb";
  }
  return "?";
}

void copy_nontemporal(void* to, const void* from, std::size_t bytes) noexcept {
  constexpr std::size_t line = 64;
  auto* out = static_cast<std::byte*>(to);
  const auto* in = static_cast<const std::byte*>(from);
  const std::size_t head = -reinterpret_cast<std::uintptr_t>(out) & (line - 1);
  if (bytes < head + line) {
    std::memcpy(out, in, bytes);
    return;
  }
  std::memcpy(out, in, head);
  out += head, in += head, bytes -= head;
  // Whole lines only: a line that is partly written past the cache costs a read of the rest.
  const std::size_t whole = bytes & ~(line - 1);
  stream_lines(out, in, whole);
  out += whole, in += whole, bytes -= whole;
  std::memcpy(out, in, bytes);
}

double ticks_per_ns() noexcept {
  static const double rate = calibrate();
  return rate;
}

void spin_ns(std::uint64_t ns) noexcept {
  if (ns == 0) return;
  if (!cpu().invariant_tsc) {
    const std::uint64_t end = monotonic_ns() + ns;
    while (monotonic_ns() < end) spin_hint();
    return;
  }
  const std::uint64_t start = ticks();
  const auto span = static_cast<std::uint64_t>(static_cast<double>(ns) * ticks_per_ns());
  // No pause instruction: it may take 140 cycles, half of the shortest delay that papers emulate.
  while (ticks() - start < span) compiler_fence();
}

}  // namespace nvm::isa
