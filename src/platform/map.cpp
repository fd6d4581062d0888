#include "platform/map.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <mutex>

#include "platform/process.hpp"

namespace nvm::platform {
namespace {

std::mutex guard;  // of everything below; a leaf lock
bool reserved = false;
using granule_set = std::array<std::uint64_t, granule_count / 64>;  // one bit for each
granule_set taken{};
// Of those, granules of no slot, in which a mapping is left that the kernel could not replace.
granule_set left{};
std::uint64_t left_count = 0;

constexpr int reserve_flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

bool is_in(const granule_set& set, std::uint64_t granule) noexcept {
  return (set[granule / 64] >> (granule % 64) & 1) != 0;
}
void put(granule_set& set, std::uint64_t granule, bool value) noexcept {
  const std::uint64_t bit = std::uint64_t{1} << (granule % 64);
  set[granule / 64] = value ? set[granule / 64] | bit : set[granule / 64] & ~bit;
}

// Replaces whatever the range maps by an inaccessible reservation.
bool put_reservation(std::uintptr_t base, std::uint64_t bytes) noexcept {
  return ::mmap(reinterpret_cast<void*>(base), bytes, PROT_NONE, reserve_flags | MAP_FIXED, -1, 0) != MAP_FAILED;
}

// What could not be given back before.
void give_back_left() noexcept {
  for (std::uint64_t g = 0; g < granule_count && left_count != 0; ++g) {
    if (!is_in(left, g) || !put_reservation(window_base + (g << granule_shift), granule_bytes)) continue;
    put(left, g, false);
    put(taken, g, false);
    --left_count;
  }
}

status reserve_locked() noexcept {
  if (reserved) return {};
  // A child forked while another thread holds the lock could take no slot otherwise.
  static const status handled =
      at_fork([]() noexcept { guard.lock(); }, []() noexcept { guard.unlock(); }, []() noexcept { guard.unlock(); });
  if (!handled) return handled;
  void* const wanted = reinterpret_cast<void*>(window_base);
  void* const got = ::mmap(wanted, window_bytes, PROT_NONE, reserve_flags | MAP_FIXED_NOREPLACE, -1, 0);
  if (got == MAP_FAILED) {
    if (errno == EEXIST) {
      return fail(errc::address,
                  "the address window at 0x%" PRIxPTR " (2^%d bytes) is taken by another mapping of this process",
                  window_base, NVM_WINDOW_BITS);
    }
    return fail(errc::address, "cannot reserve the address window at 0x%" PRIxPTR " (2^%d bytes): %s%s", window_base,
                NVM_WINDOW_BITS, std::strerror(errno),
                errno == ENOMEM ? " (is the address space limited, ulimit -v?)" : "");
  }
  if (got != wanted) {  // a kernel before 4.17 takes the address as a hint
    ::munmap(got, window_bytes);
    return fail(errc::address, "the address window at 0x%" PRIxPTR " (2^%d bytes) is not free", window_base,
                NVM_WINDOW_BITS);
  }
  reserved = true;
  return {};
}

}  // namespace

status reserve_window() noexcept {
  const std::lock_guard lock{guard};
  return reserve_locked();
}

result<slot> slot::take(std::uintptr_t base, std::uint64_t bytes) noexcept {
  if (bytes == 0) return fail(errc::invalid, "a slot of 0 bytes");
  if (bytes > window_bytes) {
    return fail(errc::too_large, "a pool may grow to %" PRIu64 " bytes, the address window has %" PRIu64, bytes,
                window_bytes);
  }
  bytes = round_up(bytes, granule_bytes);
  if (base % granule_bytes != 0 || base < window_base || !range_inside(base - window_base, bytes, window_bytes)) {
    return fail(errc::address,
                "address 0x%" PRIxPTR " (%" PRIu64 " bytes): expected a multiple of 0x%" PRIx64
                " inside the window at 0x%" PRIxPTR " (2^%d bytes)",
                base, bytes, granule_bytes, window_base, NVM_WINDOW_BITS);
  }
  const std::lock_guard lock{guard};
  if (auto s = reserve_locked(); !s) return s.error();
  give_back_left();
  const std::uint64_t first = (base - window_base) >> granule_shift;
  const std::uint64_t count = bytes >> granule_shift;
  for (std::uint64_t g = first; g < first + count; ++g) {
    if (is_in(left, g)) {
      return fail(errc::address,
                  "addresses 0x%" PRIxPTR " .. 0x%" PRIxPTR ": what a closed pool has left there stays: %s", base,
                  base + bytes, std::strerror(errno));
    }
    if (is_in(taken, g)) {
      return fail(errc::address, "addresses 0x%" PRIxPTR " .. 0x%" PRIxPTR " are taken by another open pool", base,
                  base + bytes);
    }
  }
  for (std::uint64_t g = first; g < first + count; ++g) put(taken, g, true);
  return slot{base, bytes};
}

status slot::map(int descriptor, std::uint64_t bytes, int flags, const char* how) noexcept {
  NVM_ASSERT(base_ != 0 && bytes <= bytes_);
  void* const got = ::mmap(base(), bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED, descriptor, 0);
  if (got == MAP_FAILED) {
    const int code = errno;
    // A failed MAP_FIXED may have removed the reservation already.  If that fails, too, give_back() tries again.
    (void)put_reservation(base_, bytes_);
    errno = code;
    return fail(errc::system, "cannot map %" PRIu64 " bytes of the pool file %s at 0x%" PRIxPTR ": %s", bytes, how,
                base_, std::strerror(code));
  }
  // A child that stored to the pool would be a second owner.
  if (::madvise(got, bytes, MADV_DONTFORK) != 0) {
    const int code = errno;
    (void)put_reservation(base_, bytes_);
    errno = code;
    return fail(errc::system, "cannot keep the mapping from forked children: %s", std::strerror(code));
  }
  return {};
}

status slot::map_shared(int descriptor, std::uint64_t bytes) noexcept {
  return map(descriptor, bytes, MAP_SHARED, "shared");
}

status slot::map_shared_sync(int descriptor, std::uint64_t bytes) noexcept {
  if (auto s = map(descriptor, bytes, MAP_SHARED_VALIDATE | MAP_SYNC, "with MAP_SYNC"); !s) {
    const int code = errno;
    if (code == EOPNOTSUPP || code == EINVAL) {
      return fail(
          errc::medium,
          "the file does not lie on memory that write-back instructions make durable: the kernel refused MAP_SYNC "
          "(%s); use medium ssd here, or a DAX file system on persistent memory",
          std::strerror(code));
    }
    return s.error();
  }
  return {};
}

status slot::map_private(int descriptor, std::uint64_t bytes) noexcept {
  return map(descriptor, bytes, MAP_PRIVATE | MAP_NORESERVE, "private");
}

void slot::give_back() noexcept {
  if (base_ == 0) return;
  const std::lock_guard lock{guard};
  give_back_in_child();
}

void slot::give_back_in_child() noexcept {
  if (base_ == 0) return;
  // If the kernel has no room for the bookkeeping of a new mapping the old one stays: until the next slot is taken.
  const bool done = put_reservation(base_, bytes_);
  const std::uint64_t first = (base_ - window_base) >> granule_shift;
  for (std::uint64_t g = first; g < first + (bytes_ >> granule_shift); ++g) {
    put(done ? taken : left, g, !done);
    left_count += done ? 0 : 1;
  }
  base_ = bytes_ = 0;
}

std::uint64_t page_bytes() noexcept {
  static const auto bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace nvm::platform
