// Direct media: the mapping is the durable memory.
//
//   shm   tmpfs; survives the process.  Stores in program order are enough (none), or real
//         instructions to rehearse and to measure.
//   dax   fsdax with MAP_SYNC, devdax; survives power loss: clwb, clflushopt or clflush, then sfence.
//   auto  caches are flushed by the platform: fence only.
//
// One type for the three: the instruction is data, chosen when the pool is opened, and the branch on
// it lies outside the loop over lines.  There is no other state: any thread may use one object.
#pragma once

#include <cstring>

#include "media/concept.hpp"
#include "platform/platform.hpp"

namespace nvm {

class direct_media {
 public:
  static constexpr bool atomic_batches = false;
  using batch = no_batch;

  direct_media() noexcept = default;
  // The processor has `with`: the caller asked isa::has().
  explicit direct_media(isa::write_back with) noexcept : with_{with} {}

  [[nodiscard]] isa::write_back instruction() const noexcept { return with_; }

  void flush(const void* p, std::size_t bytes, site = site::here()) noexcept {
    if (with_ > isa::write_back::fence_only) isa::write_back_lines(p, bytes, with_);
  }
  // Non-temporal where the destination has to reach memory anyway: no line is read first, none is left in the cache.
  void copy(void* to, const void* from, std::size_t bytes, site = site::here()) noexcept {
    if (with_ > isa::write_back::fence_only && (reinterpret_cast<std::uintptr_t>(to) | bytes) % line_bytes == 0) {
      isa::stream_lines(to, from, bytes);
      return;
    }
    if (with_ <= isa::write_back::fence_only || bytes < 2 * line_bytes) {
      std::memcpy(to, from, bytes);
      flush(to, bytes);
      return;
    }
    isa::copy_nontemporal(to, from, bytes);
    // The partial lines at both ends went through the cache.
    const auto begin = reinterpret_cast<std::uintptr_t>(to);
    if (begin % line_bytes != 0) isa::write_back_lines(to, 1, with_);
    if ((begin + bytes) % line_bytes != 0) isa::write_back_lines(static_cast<std::byte*>(to) + bytes - 1, 1, with_);
  }
  void fence(edge) noexcept {
    if (with_ == isa::write_back::none) {
      // A killed process loses no cache: its stores only have to be made in program order.
      isa::compiler_fence();
      return;
    }
    isa::store_fence();
  }
  void fence_by_rmw(edge) noexcept { isa::compiler_fence(); }
  [[nodiscard]] bool stores_survive() const noexcept { return with_ <= isa::write_back::fence_only; }
  [[nodiscard]] lsn_t last_lsn() noexcept { return 0; }
  status durable(lsn_t) noexcept { return {}; }

 private:
  isa::write_back with_ = isa::write_back::none;
};
static_assert(media<direct_media>);

}  // namespace nvm
