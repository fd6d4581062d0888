// Device: a block device over the machine's image, which reports each write and sync.
//
// For subjects of the model ssd: the image is the content of the file, recovery reads and writes it through this
// device, and a crash leaves of each sector any prefix of its writes since the last sync.
#pragma once

#include <cstring>
#include <mutex>

#include "base/bits.hpp"
#include "explore/machine.hpp"
#include "media/block_device.hpp"

namespace nvm::explore {

class device final : public block_device {
 public:
  explicit device(machine& m) noexcept : machine_{m} {}
  ~device() = default;

  status write(std::uint64_t offset, const void* from, std::size_t bytes, site s = site::here()) noexcept override {
    const std::lock_guard held{lock_};
    if (!range_inside(offset, bytes, machine_.size())) {
      return fail(errc::no_space, "write of %zu bytes at offset %llu: the device has %zu", bytes,
                  static_cast<unsigned long long>(offset), machine_.size());
    }
    std::memcpy(machine_.base() + offset, from, bytes);
    machine_.block_write(offset, bytes, s);
    return {};
  }
  status read(std::uint64_t offset, void* to, std::size_t bytes) noexcept override {
    if (!range_inside(offset, bytes, machine_.size())) {
      return fail(errc::corrupt, "read of %zu bytes at offset %llu: the device has %zu", bytes,
                  static_cast<unsigned long long>(offset), machine_.size());
    }
    std::memcpy(to, machine_.base() + offset, bytes);
    return {};
  }
  status sync(edge e) noexcept override {
    const std::lock_guard held{lock_};
    machine_.block_sync(e);
    return {};
  }
  result<std::uint64_t> size() noexcept override { return std::uint64_t{machine_.size()}; }

 private:
  machine& machine_;
  std::mutex lock_;
};

}  // namespace nvm::explore
