// A batch of an image medium: ranges captured one after the other into the bytes of a record to be.
#pragma once

#include <cstdlib>

#include "media/concept.hpp"
#include "media/ring_layout.hpp"

namespace nvm {

// Copies [from, from + bytes) as other threads may be changing it: per 64-byte line a moment's state,
// since stores to one line become durable in program order.  Aligned words are read whole.
void capture(std::byte* to, const void* from, std::size_t bytes) noexcept;

class image_batch {
 public:
  // Bytes that the stores inside publish() may add without an announcement.
  static constexpr std::size_t allowance_bytes = 1024;

  image_batch() noexcept = default;
  image_batch(const image_batch&) = delete;
  image_batch& operator=(const image_batch&) = delete;
  ~image_batch() { std::free(bytes_); }

  // Captures the range now. Without memory for it the batch cannot be published any more (errc::no_memory).
  void add(const void* p, std::size_t bytes, site = site::here()) noexcept { add_for(p, p, bytes); }
  // The same of bytes that are elsewhere now.  The caller stores them to `p` when the batch is published, and no other
  // thread stores there, or captures what is there, before that.
  void add_for(const void* p, const void* from, std::size_t bytes) noexcept;
  // Adds a range that write_straight() has brought to its place, with the sum that it returned.
  void add_straight(const void* p, std::size_t bytes, std::uint64_t sum) noexcept;
  // Announces the most that the stores inside publish() will add, so that room for it is found before they run. Calls
  // add up; needed only beyond the allowance.
  void expect(std::size_t ranges, std::size_t bytes) noexcept {
    expected_ += ranges * (sizeof(layout::ring_entry) + 8) + bytes;
  }
  void clear() noexcept {
    used_ = sizeof(layout::ring_record);
    expected_ = 0;
    count_ = 0;
    out_of_memory_ = false;
  }
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  // Size of the record so far.
  [[nodiscard]] std::uint64_t record_bytes() const noexcept { return round_up(used_, layout::ring_unit); }
  // The same with the ranges that publish() will still add.
  [[nodiscard]] std::uint64_t record_bytes_max() const noexcept {
    return round_up(used_ + (expected_ > allowance_bytes ? expected_ : allowance_bytes), layout::ring_unit);
  }

 private:
  friend class image_media;
  [[nodiscard]] bool reserve(std::size_t capacity) noexcept;
  [[nodiscard]] bool make_room(std::size_t more) noexcept;

  // Room for the header, then entries whose offset is still the address they came from.
  std::byte* bytes_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t used_ = sizeof(layout::ring_record);
  std::size_t expected_ = 0;
  std::uint32_t count_ = 0;
  bool out_of_memory_ = false;
};

}  // namespace nvm
