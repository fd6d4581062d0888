#include "media/memory_device.hpp"

#include <cerrno>
#include <cstring>

namespace nvm {

bool memory_device::fails() noexcept {
  ++calls_;
  return fail_at_ != 0 && (calls_ == fail_at_ || (fail_for_ever_ && calls_ > fail_at_));
}

// Gives each touched sector one more version.
void memory_device::store(std::uint64_t offset, const std::byte* from, std::size_t bytes) {
  std::memcpy(&now_[offset], from, bytes);
  for (std::uint64_t sector = offset / sector_bytes; sector * sector_bytes < offset + bytes; ++sector) {
    const auto begin = now_.begin() + static_cast<std::ptrdiff_t>(sector * sector_bytes);
    const auto left = static_cast<std::size_t>(now_.end() - begin);
    unsynced_[sector].emplace_back(begin, begin + static_cast<std::ptrdiff_t>(std::min(left, sector_bytes)));
  }
}

status memory_device::write(std::uint64_t offset, const void* from, std::size_t bytes, site) noexcept {
  const std::lock_guard held{lock_};
  if (!range_inside(offset, bytes, now_.size()))
    return fail(errc::no_space, "write of %zu bytes at offset %llu: the device has %zu", bytes,
                static_cast<unsigned long long>(offset), now_.size());
  const bool failing = fails();
  const std::size_t count = failing ? round_down(bytes / 2, sector_bytes) : bytes;
  if (sink_ != nullptr) sink_->write(offset, {static_cast<const std::byte*>(from), count});
  store(offset, static_cast<const std::byte*>(from), count);
  if (!failing) return {};
  errno = EIO;
  return fail(errc::io, "write of %zu bytes at offset %llu: injected", bytes, static_cast<unsigned long long>(offset));
}

status memory_device::read(std::uint64_t offset, void* to, std::size_t bytes) noexcept {
  const std::lock_guard held{lock_};
  if (!range_inside(offset, bytes, now_.size()))
    return fail(errc::corrupt, "read of %zu bytes at offset %llu: the device has %zu", bytes,
                static_cast<unsigned long long>(offset), now_.size());
  if (fails()) {
    errno = EIO;
    return fail(errc::io, "read of %zu bytes at offset %llu: injected", bytes, static_cast<unsigned long long>(offset));
  }
  std::memcpy(to, &now_[offset], bytes);
  return {};
}

status memory_device::sync(edge e) noexcept {
  const std::lock_guard held{lock_};
  if (fails()) {
    unsynced_.clear();
    errno = EIO;
    return fail(errc::io, "sync %s: injected", e.name);
  }
  if (sink_ != nullptr) sink_->sync(e);
  ++syncs_[e.name];
  for (const auto& [sector, versions] : unsynced_)
    std::copy(versions.back().begin(), versions.back().end(),
              durable_.begin() + static_cast<std::ptrdiff_t>(sector * sector_bytes));
  unsynced_.clear();
  return {};
}

result<std::uint64_t> memory_device::size() noexcept { return std::uint64_t{now_.size()}; }

void memory_device::report_to(device_sink* sink) noexcept {
  const std::lock_guard held{lock_};
  sink_ = sink;
}

void memory_device::fail_call(std::uint64_t k, bool for_ever) noexcept {
  const std::lock_guard held{lock_};
  fail_at_ = k == 0 ? 0 : calls_ + k;
  fail_for_ever_ = for_ever;
}

std::uint64_t memory_device::calls() const noexcept {
  const std::lock_guard held{lock_};
  return calls_;
}

std::vector<std::byte> memory_device::content() const {
  const std::lock_guard held{lock_};
  return now_;
}

std::uint64_t memory_device::syncs(const char* name) const {
  const std::lock_guard held{lock_};
  const auto found = syncs_.find(name);
  return found == syncs_.end() ? 0 : found->second;
}

std::uint64_t memory_device::syncs() const {
  const std::lock_guard held{lock_};
  std::uint64_t sum = 0;
  for (const auto& [name, count] : syncs_) sum += count;
  return sum;
}

}  // namespace nvm
