// Latency: makes memory as slow as the non-volatile memory of a paper.
//
// A batch is what one thread flushed between two fences.  The fence that ends it takes
//   max(fence_ns, bytes / bandwidth) + lines * writeback_ns
// more, spun on the time-stamp counter (LSNVMM, section 5.1; log-free, section 6.1; Breeze, section V-A). A fence with
// nothing to wait for has no delay.  As with the real instruction a fence waits for all write-backs of its thread,
// whichever medium they went to: the account is the thread's.
#pragma once

#include <optional>
#include <string_view>
#include <utility>

#include "media/concept.hpp"
#include "media/ordered_media.hpp"
#include "platform/platform.hpp"

namespace nvm {

struct latency_settings {
  std::uint32_t fence_ns = 0;
  std::uint32_t writeback_ns = 0;       // per line written back
  std::uint64_t bandwidth_bytes_s = 0;  // 0: unlimited
  [[nodiscard]] bool any() const noexcept { return (fence_ns | writeback_ns | bandwidth_bytes_s) != 0; }
};

// Bytes a second that one thread writes to DRAM, best of several passes; takes some 50 ms.
[[nodiscard]] std::uint64_t measure_dram_bandwidth() noexcept;

// "lsnvmm", "log-free", "breeze" (measures DRAM at the call), "off"; nothing for another name.
[[nodiscard]] std::optional<latency_settings> latency_preset(std::string_view name) noexcept;

// Cost of the calling thread's open batch so far.
struct latency_account {
  std::uint64_t lines = 0;
  double transfer_ns = 0;   // bytes / bandwidth
  double writeback_ns = 0;  // lines * writeback_ns
};
inline constinit thread_local latency_account this_thread_latency;

// Delay of the batch, in ns; 0 if nothing was flushed.
[[nodiscard]] constexpr double batch_delay_ns(const latency_account& a, const latency_settings& s) noexcept {
  if (a.lines == 0) return 0;
  const double latency = s.fence_ns;
  return (a.transfer_ns > latency ? a.transfer_ns : latency) + a.writeback_ns;
}

template <media M>
class latency_media {
 public:
  static constexpr bool atomic_batches = M::atomic_batches;
  using batch = typename M::batch;

  latency_media(M& inner, latency_settings settings) noexcept
      : inner_{inner},
        settings_{settings},
        line_transfer_ns_{
            settings.bandwidth_bytes_s == 0 ? 0 : 1e9 * line_bytes / static_cast<double>(settings.bandwidth_bytes_s)} {}

  void flush(const void* p, std::size_t bytes, site s = site::here()) noexcept {
    charge(p, bytes);
    inner_.flush(p, bytes, s);
  }
  void copy(void* to, const void* from, std::size_t bytes, site s = site::here()) noexcept {
    charge(to, bytes);
    copy_out(inner_, to, from, bytes, s);
  }
  void fence(edge e) noexcept {
    inner_.fence(e);
    wait_for_batch();
  }
  void fence_by_rmw(edge e) noexcept {
    nvm::fence_by_rmw(inner_, e);
    wait_for_batch();
  }
  [[nodiscard]] bool stores_survive() const noexcept { return nvm::stores_survive(inner_); }
  [[nodiscard]] lsn_t last_lsn() noexcept { return inner_.last_lsn(); }
  [[nodiscard]] bool is_durable(lsn_t lsn) noexcept { return nvm::is_durable(inner_, lsn); }
  status durable(lsn_t lsn) noexcept { return inner_.durable(lsn); }
  template <class F>
  result<lsn_t> publish(batch& b, F&& stores, edge e) noexcept
    requires atomic_batches
  {
    return inner_.publish(b, std::forward<F>(stores), e);
  }
  [[nodiscard]] status await_room(batch& b) noexcept
    requires atomic_batches
  {
    return nvm::await_room(inner_, b);
  }

  [[nodiscard]] M& inner() noexcept { return inner_; }
  [[nodiscard]] const latency_settings& settings() const noexcept { return settings_; }

 private:
  void wait_for_batch() noexcept {
    const double delay = batch_delay_ns(this_thread_latency, settings_);
    this_thread_latency = {};
    isa::spin_ns(static_cast<std::uint64_t>(delay));
  }
  void charge(const void* p, std::size_t bytes) noexcept {
    const std::uint64_t lines = lines_touched(p, bytes);
    latency_account& account = this_thread_latency;
    account.lines += lines;
    account.transfer_ns += static_cast<double>(lines) * line_transfer_ns_;
    account.writeback_ns += static_cast<double>(lines) * settings_.writeback_ns;
  }

  M& inner_;
  latency_settings settings_;
  double line_transfer_ns_;
};
static_assert(media<latency_media<ordered_media>>);

}  // namespace nvm
