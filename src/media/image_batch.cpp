#include "media/image_batch.hpp"

#include <algorithm>
#include <cstring>

namespace nvm {
namespace {

template <class T>
T load(const std::byte* p) noexcept {
  // relaxed: the capture is ordered by the order's mutex or by the owner of the range; the word only
  // must not be torn.
  return __atomic_load_n(reinterpret_cast<const T*>(p), __ATOMIC_RELAXED);
}

bool aligned(const std::byte* p) noexcept { return reinterpret_cast<std::uintptr_t>(p) % 8 == 0; }

// One pass over a piece of a line; true if it found `to` as it left it.
bool read_piece(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  bool same = true;
  while (bytes != 0) {
    if (aligned(from) && bytes >= 8) {
      const auto word = load<std::uint64_t>(from);
      same &= std::memcmp(to, &word, 8) == 0;
      std::memcpy(to, &word, 8);
      to += 8, from += 8, bytes -= 8;
    } else {
      const auto byte = std::byte{load<std::uint8_t>(from)};
      same &= *to == byte;
      *to++ = byte;
      ++from, --bytes;
    }
  }
  return same;
}

}  // namespace

void capture(std::byte* to, const void* from, std::size_t bytes) noexcept {
  const auto* in = static_cast<const std::byte*>(from);
  while (bytes != 0) {
    const std::size_t in_line = line_bytes - reinterpret_cast<std::uintptr_t>(in) % line_bytes;
    const std::size_t count = std::min(bytes, in_line);
    read_piece(to, in, count);
    // One word is whole by itself. Several are read until two passes agree: otherwise a flag could be captured without
    // bytes that its thread stored before it in the same line.
    while (!(count <= 8 && aligned(in)) && !read_piece(to, in, count)) {
      // acquire: the second pass may not be read before the first.
      __atomic_thread_fence(__ATOMIC_ACQUIRE);
    }
    to += count, in += count, bytes -= count;
  }
}

bool image_batch::reserve(std::size_t capacity) noexcept {
  if (capacity <= capacity_) return true;
  void* grown = std::realloc(bytes_, capacity);
  if (grown == nullptr) return false;
  bytes_ = static_cast<std::byte*>(grown);
  capacity_ = capacity;
  return true;
}

bool image_batch::make_room(std::size_t more) noexcept {
  const std::size_t needed = used_ + more;
  if (needed > capacity_ && !reserve(std::max<std::size_t>(round_up(needed, 4096), 2 * capacity_))) {
    out_of_memory_ = true;
  }
  return !out_of_memory_;
}

void image_batch::add_straight(const void* p, std::size_t bytes, std::uint64_t sum) noexcept {
  if (bytes == 0 || out_of_memory_ || !make_room(layout::straight_entry_bytes)) return;
  const layout::ring_entry entry{.offset = reinterpret_cast<std::uintptr_t>(p) | layout::straight_bit, .bytes = bytes};
  std::memcpy(bytes_ + used_, &entry, sizeof entry);
  const layout::straight_rest rest{.sum = sum, .home_lsn = 0};  // publish() knows that
  std::memcpy(bytes_ + used_ + sizeof entry, &rest, sizeof rest);
  used_ += layout::straight_entry_bytes;
  ++count_;
}

void image_batch::add_for(const void* p, const void* from, std::size_t bytes) noexcept {
  if (bytes == 0 || out_of_memory_ || !make_room(layout::ring_entry_bytes(bytes))) return;
  const layout::ring_entry entry{.offset = reinterpret_cast<std::uintptr_t>(p), .bytes = bytes};
  std::memcpy(bytes_ + used_, &entry, sizeof entry);
  std::byte* data = bytes_ + used_ + sizeof entry;
  // A word may be shared with protocols that change it by compare-and-swap; longer ranges are owned.
  if (bytes <= line_bytes) {
    capture(data, from, bytes);
  } else {
    std::memcpy(data, from, bytes);
  }
  std::memset(data + bytes, 0, round_up(bytes, 8) - bytes);
  used_ += layout::ring_entry_bytes(bytes);
  ++count_;
}

}  // namespace nvm
