#include "media/latency_media.hpp"

#include <cstdlib>
#include <cstring>

namespace nvm {

std::uint64_t measure_dram_bandwidth() noexcept {
  // Larger than any second-level cache, and written often enough that the first pass, which faults the
  // pages in, does not count.
  constexpr std::size_t bytes = std::size_t{64} << 20;
  void* buffer = std::malloc(bytes);
  if (buffer == nullptr) return 0;
  double best_ns = 0;
  for (int pass = 0; pass < 4; ++pass) {
    const std::uint64_t start = isa::ticks();
    std::memset(buffer, pass, bytes);
    isa::compiler_fence();
    const double ns = static_cast<double>(isa::ticks() - start) / isa::ticks_per_ns();
    if (pass != 0 && (best_ns == 0 || ns < best_ns)) best_ns = ns;
  }
  std::free(buffer);
  return static_cast<std::uint64_t>(static_cast<double>(bytes) / best_ns * 1e9);
}

std::optional<latency_settings> latency_preset(std::string_view name) noexcept {
  if (name == "off") return latency_settings{};
  if (name == "lsnvmm") return latency_settings{.fence_ns = 500, .bandwidth_bytes_s = 1'000'000'000};
  if (name == "log-free") return latency_settings{.fence_ns = 125};
  if (name == "breeze")
    return latency_settings{.fence_ns = 100, .writeback_ns = 40, .bandwidth_bytes_s = measure_dram_bandwidth() / 8};
  return std::nullopt;
}

}  // namespace nvm
