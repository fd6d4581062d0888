// Address window and mappings of pool files.
//
// The window (NVM_WINDOW_BASE, NVM_WINDOW_BITS) is reserved once per process, when the first slot is taken, by an
// inaccessible mapping that costs no memory: nothing else of the process can lie in it, so "inside the window" means
// "durable" by one shift and one compare.  A slot is the range of one pool; its file is mapped over the whole of it,
// also beyond the file's end, where an access faults until the file has grown.  A slot that is given back is reserved
// again.  HOLDFAST_WINDOW_BITS=n in the environment keeps only the first 2^n bytes reserved, 0 none, which is the
// default under Valgrind: a slot elsewhere is reserved when it is taken, and its range must be free.  Mappings are not
// inherited by a forked child, which keeps the reservation; give_back_in_child() mends it.
//
// Threads: slots may be taken and given back by any thread at any time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/base.hpp"
#include "nvm/nvm.h"

namespace nvm::platform {

inline constexpr std::uintptr_t window_base = NVM_WINDOW_BASE;
inline constexpr std::uint64_t window_bytes = std::uint64_t{1} << NVM_WINDOW_BITS;
static_assert(window_base % window_bytes == 0, "the window is aligned to its size");

// Slots begin at multiples of a granule: 1 GiB of the full window, 32 MiB of the small one that thread sanitizers need.
inline constexpr unsigned granule_shift = NVM_WINDOW_BITS - 15;
inline constexpr std::uint64_t granule_bytes = std::uint64_t{1} << granule_shift;
inline constexpr std::uint64_t granule_count = window_bytes >> granule_shift;

[[nodiscard]] inline bool in_window(const void* p) noexcept {
  return (reinterpret_cast<std::uintptr_t>(p) >> NVM_WINDOW_BITS) == (window_base >> NVM_WINDOW_BITS);
}

// Reserves the window if this process has not yet.  errc::address if something lies in it already.
[[nodiscard]] status reserve_window() noexcept;

class slot {
 public:
  // Takes [base, base + bytes), rounded up to whole granules.  errc::address if any part is taken or lies outside the
  // window, or if `base` is not a multiple of a granule; errc::too_large if the window can never hold `bytes`.
  [[nodiscard]] static result<slot> take(std::uintptr_t base, std::uint64_t bytes) noexcept;

  slot() noexcept = default;
  slot(slot&& other) noexcept : base_{other.base_}, bytes_{other.bytes_} { other.base_ = other.bytes_ = 0; }
  slot& operator=(slot&& other) noexcept {
    if (this != &other) {
      give_back();
      base_ = other.base_;
      bytes_ = other.bytes_;
      other.base_ = other.bytes_ = 0;
    }
    return *this;
  }
  ~slot() { give_back(); }

  // Map the first `bytes` of the file `descriptor` at the slot's base; at most one mapping at a time.
  // Stores reach the file; processes that map it see each other's.  From `hidden_from` on, whole pages are inaccessible
  // until show(): otherwise, in a process that locks its memory (mlockall), the mapping would fill holes of the file.
  [[nodiscard]] status map_shared(int descriptor, std::uint64_t bytes, std::uint64_t hidden_from = all) noexcept;
  // The same, and the file system's own metadata is durable before a store can be: write-back instructions suffice.
  // errc::medium if the kernel or the file system does not grant it.
  [[nodiscard]] status map_shared_sync(int descriptor, std::uint64_t bytes) noexcept;
  // Stores stay in this process. Pages that were not stored to show the file.
  [[nodiscard]] status map_private(int descriptor, std::uint64_t bytes, std::uint64_t hidden_from = all) noexcept;
  // In the mapping, whole pages from byte `from` to `to` become those of another file, at the same places in it.
  [[nodiscard]] status put_over(int descriptor, std::uint64_t from, std::uint64_t to) noexcept;
  // The first `bytes` bytes of a mapping are accessible.
  [[nodiscard]] status show(std::uint64_t bytes) noexcept;

  // Removes the mapping, reserves the range again, and frees it.
  void give_back() noexcept;
  // give_back() for the handler that runs in a forked child, where the range is unmapped already and other threads'
  // locks stay locked for ever.
  void give_back_in_child() noexcept;

  [[nodiscard]] std::byte* base() const noexcept { return reinterpret_cast<std::byte*>(base_); }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  slot(std::uintptr_t base, std::uint64_t bytes) noexcept : base_{base}, bytes_{bytes} {}
  static constexpr std::uint64_t all = ~std::uint64_t{0};
  [[nodiscard]] status map(int descriptor, std::uint64_t bytes, int flags, const char* how,
                           std::uint64_t hidden_from = all) noexcept;

  std::uintptr_t base_ = 0;
  std::uint64_t bytes_ = 0;  // whole granules
};

// Page size of the machine.
[[nodiscard]] std::uint64_t page_bytes() noexcept;

}  // namespace nvm::platform
