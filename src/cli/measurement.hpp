// Measurements of `holdfast bench`: a few transactions of known shape, on a pool of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/console.hpp"
#include "nvm/nvm.h"

namespace nvm::cli {

// Durations of operations in nanoseconds.  Keeps every k-th, and doubles k whenever the room is full, so that quantiles
// are exact over an even sample in bounded memory; number, sum and maximum are over all.
class duration_sample {
 public:
  void add(std::uint64_t ns);
  void add(const duration_sample& other);
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  [[nodiscard]] std::uint64_t max() const noexcept { return max_; }
  [[nodiscard]] double mean() const noexcept;
  // Sorts the kept ones; `shares` are of 0 to 1, in any order.
  [[nodiscard]] std::vector<std::uint64_t> quantiles(std::span<const double> shares);

 private:
  static constexpr std::size_t kept_max = std::size_t{1} << 16;
  std::vector<std::uint32_t> kept_;  // saturated: 4 s
  std::uint64_t stride_ = 1;
  std::uint64_t count_ = 0;
  std::uint64_t sum_ = 0;
  std::uint64_t max_ = 0;
};

// A pool in a file whose name was removed: it vanishes with the process, however that ends.
class temporary_pool {
 public:
  // False: the library's last failure is about path().
  [[nodiscard]] bool create(const std::string& directory, const nvm_pool_options& options);
  temporary_pool() = default;
  ~temporary_pool();
  temporary_pool(const temporary_pool&) = delete;

  [[nodiscard]] NVM_POOL* get() const noexcept { return pool_; }
  [[nodiscard]] const nvm_pool_info& info() const noexcept { return info_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  NVM_POOL* pool_ = nullptr;
  nvm_pool_info info_{};
  std::string path_;
};

struct workload {
  std::string_view name;
  std::size_t bytes;  // of the objects it works on
  // One operation on `object`; false: the library's last failure says why.
  bool (*operate)(NVM_POOL* pool, void* object, std::size_t bytes, std::uint64_t turn);
};
[[nodiscard]] std::span<const workload> workloads() noexcept;

// Per operation, counted by the library's meter.
struct operation_cost {
  double fences = 0;
  double flushed_lines = 0;
  double logged_bytes = 0;
  double syncs = 0;
};

// Runs the workload in `threads` threads for `ns`, after a tenth of that to warm up.
[[nodiscard]] std::optional<failure> measure(const temporary_pool& pool, const workload& w, unsigned threads,
                                             std::uint64_t ns, duration_sample& out);
// Runs it in this thread a fixed number of times, on a pool that was created with a meter; for at most `ns`.
[[nodiscard]] std::optional<failure> count_costs(const temporary_pool& pool, const workload& w, std::uint64_t ns,
                                                 operation_cost& out);

}  // namespace nvm::cli
