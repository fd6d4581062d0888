// Items that are changed where they are, after a log has their old bytes: what software does that knows nothing of
// wear, as a peer of what regions do (Lewat, section VII-F, has HEAPO in that place).
//
// An item has one place for good, of its size.  A change stores the old bytes with their checksum in a ring, one fence;
// then the new ones in place, one fence.  Nothing is said about recovery: what counts is where lines are written back.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/base.hpp"
#include "media/media.hpp"

namespace nvm::bench {

template <media M>
class items_in_place {
 public:
  // Of item i size_of(i) bytes, and a header of 16.
  template <class Size>
  items_in_place(M& medium, std::uint64_t items, std::uint64_t ring_bytes, Size&& size_of)
      : medium_{medium}, ring_bytes_{ring_bytes} {
    std::uint64_t end = ring_bytes;
    for (std::uint64_t i = 0; i < items; ++i) {
      places_.push_back(end);
      end += round_up(header_bytes + size_of(i), std::uint64_t{16});
    }
    bytes_ = round_up(end, page_bytes);
    memory_.resize(bytes_ + page_bytes);
  }
  void watch() { medium_.watch(base(), bytes_); }

  void create(std::uint64_t i, std::span<const std::byte> from) {
    const std::uint64_t size = from.size();
    std::memcpy(at(i) + header_bytes, from.data(), size);
    log(at(i), header_bytes);
    std::memcpy(at(i), &size, sizeof size);
    settle(at(i), header_bytes + size);
  }
  void drop(std::uint64_t i) {
    log(at(i), header_bytes);
    std::memset(at(i), 0, header_bytes);
    settle(at(i), header_bytes);
  }
  void write(std::uint64_t i, std::uint64_t offset, std::span<const std::byte> from) {
    std::byte* const to = at(i) + header_bytes + offset;
    log(to, from.size());
    std::memcpy(to, from.data(), from.size());
    settle(to, from.size());
  }
  void read(std::uint64_t i, std::span<std::byte> to) { std::memcpy(to.data(), at(i) + header_bytes, to.size()); }

 private:
  static constexpr std::uint64_t page_bytes = 4096;
  static constexpr std::uint64_t header_bytes = 16;
  static constexpr std::uint64_t record_bytes = 40;

  [[nodiscard]] std::byte* base() noexcept {
    return reinterpret_cast<std::byte*>(round_up(reinterpret_cast<std::uintptr_t>(memory_.data()), page_bytes));
  }
  [[nodiscard]] std::byte* at(std::uint64_t i) noexcept { return base() + places_[i]; }
  void log(const std::byte* old, std::uint64_t bytes) {
    const std::uint64_t all = round_up(record_bytes + bytes, std::uint64_t{8});
    if (end_ + all > ring_bytes_) end_ = 0;
    const std::uint64_t record[5] = {++number_, static_cast<std::uint64_t>(old - base()), bytes,
                                     checksum(old, bytes, 0), 0};
    std::memcpy(base() + end_, record, record_bytes);
    std::memcpy(base() + end_ + record_bytes, old, bytes);
    settle(base() + end_, all);
    end_ += all;
  }
  void settle(const std::byte* p, std::uint64_t bytes) {
    medium_.flush(p, bytes);
    medium_.fence(edge{"bench/in-place"});
  }

  M& medium_;
  const std::uint64_t ring_bytes_;
  std::vector<std::uint64_t> places_;
  std::uint64_t bytes_ = 0;
  std::vector<std::byte> memory_;
  std::uint64_t end_ = 0;
  std::uint64_t number_ = 0;
};

}  // namespace nvm::bench
