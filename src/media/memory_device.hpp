// A block device in memory that forgets: it reports writes and syncs to a sink, builds states that a power cut may
// leave, and fails on demand.
//
// Between syncs each sector keeps every version it was given; after a crash it holds one of them, or
// the one before, independently of the others.  After a failed sync the unsynced versions can never become durable,
// even if later syncs succeed, though reads still return them: as with Linux's page cache.  For tests and for the
// explorer.  Any thread may call.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "media/block_device.hpp"

namespace nvm {

class device_sink {
 public:
  virtual void write(std::uint64_t offset, std::span<const std::byte> bytes) noexcept = 0;
  virtual void sync(edge e) noexcept = 0;

 protected:
  ~device_sink() = default;
};

class memory_device final : public block_device {
 public:
  explicit memory_device(std::size_t bytes) : now_(bytes), durable_(bytes) {}
  // What a crash left.
  explicit memory_device(std::vector<std::byte> content) : now_{content}, durable_{std::move(content)} {}
  // The device as a process finds it after a killed predecessor: all writes, synced or not.
  struct after_kill {
    const memory_device& device;
  };
  explicit memory_device(after_kill left) {
    const std::lock_guard held{left.device.lock_};
    now_ = left.device.now_;
    durable_ = left.device.durable_;
    unsynced_ = left.device.unsynced_;
  }
  ~memory_device() = default;

  status write(std::uint64_t offset, const void* from, std::size_t bytes, site = site::here()) noexcept override;
  status read(std::uint64_t offset, void* to, std::size_t bytes) noexcept override;
  status sync(edge e) noexcept override;
  result<std::uint64_t> size() noexcept override;

  // Called under the device's lock; nullptr: no call.
  void report_to(device_sink* sink) noexcept;

  // The k-th write, read or sync from now on fails with EIO, and all later ones if `for_ever`; 0: none.
  // A write that fails has written some of its sectors.
  void fail_call(std::uint64_t k, bool for_ever = false) noexcept;
  [[nodiscard]] std::uint64_t calls() const noexcept;

  // Content after a crash: for each unsynced version list `choose(sector, versions)` returns how many of
  // its versions, oldest first, reached the device: 0 to `versions`.
  template <class Choose>
  [[nodiscard]] std::vector<std::byte> crash(Choose&& choose) const {
    const std::lock_guard held{lock_};
    std::vector<std::byte> left = durable_;
    for (const auto& [sector, versions] : unsynced_) {
      const std::size_t reached = choose(sector, versions.size());
      if (reached == 0) continue;
      const std::vector<std::byte>& last = versions[reached - 1];
      std::copy(last.begin(), last.end(), left.begin() + static_cast<std::ptrdiff_t>(sector * sector_bytes));
    }
    return left;
  }
  [[nodiscard]] std::vector<std::byte> crash_losing_all_unsynced() const {
    return crash([](std::uint64_t, std::size_t) { return std::size_t{0}; });
  }
  [[nodiscard]] std::vector<std::byte> crash_keeping_all() const {
    return crash([](std::uint64_t, std::size_t versions) { return versions; });
  }
  // What reads return now.
  [[nodiscard]] std::vector<std::byte> content() const;
  // Edge and number of syncs so far.
  [[nodiscard]] std::uint64_t syncs(const char* name) const;
  [[nodiscard]] std::uint64_t syncs() const;

 private:
  [[nodiscard]] bool fails() noexcept;
  void store(std::uint64_t offset, const std::byte* from, std::size_t bytes);

  mutable std::mutex lock_;
  std::vector<std::byte> now_;
  std::vector<std::byte> durable_;
  // By sector number: contents it was given since the last sync, oldest first.
  std::map<std::uint64_t, std::vector<std::vector<std::byte>>> unsynced_;
  std::map<std::string, std::uint64_t> syncs_;
  device_sink* sink_ = nullptr;
  std::uint64_t calls_ = 0;
  std::uint64_t fail_at_ = 0;
  bool fail_for_ever_ = false;
};

}  // namespace nvm
