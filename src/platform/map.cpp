#include "platform/map.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "platform/memory_watch.hpp"
#include "platform/process.hpp"

namespace nvm::platform {
namespace {

std::mutex guard;  // of everything below; a leaf lock
bool reserved = false;
using granule_set = std::array<std::uint64_t, granule_count / 64>;  // one bit for each
granule_set taken{};
// Taken granules that belong to no slot: the kernel could not replace the mapping that is left in them.
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

// Bytes from the start of the window that stay reserved all the time.
std::uint64_t reserved_bytes = 0;

// Replaces the mappings of the range by an inaccessible reservation.
bool put_reservation(std::uintptr_t base, std::uint64_t bytes) noexcept {
  return ::mmap(reinterpret_cast<void*>(base), bytes, PROT_NONE, reserve_flags | MAP_FIXED, -1, 0) != MAP_FAILED;
}
// The same for a range whose slot was given back; the part that does not stay reserved is unmapped.
bool free_range(std::uintptr_t base, std::uint64_t bytes) noexcept {
  const std::uint64_t offset = base - window_base;
  const std::uint64_t kept = offset < reserved_bytes ? std::min(bytes, reserved_bytes - offset) : 0;
  if (kept != 0 && !put_reservation(base, kept)) return false;
  return kept == bytes || ::munmap(reinterpret_cast<void*>(base + kept), bytes - kept) == 0;
}

// Reserves a range in which nothing may lie yet.
status reserve(std::uintptr_t base, std::uint64_t bytes, const char* what) noexcept {
  void* const wanted = reinterpret_cast<void*>(base);
  void* const got = ::mmap(wanted, bytes, PROT_NONE, reserve_flags | MAP_FIXED_NOREPLACE, -1, 0);
  if (got == wanted) return {};
  if (got != MAP_FAILED) {  // a kernel before 4.17 takes the address as a hint
    ::munmap(got, bytes);
    errno = EEXIST;
  }
  if (errno != EEXIST) {
    return fail(
        errc::address, "cannot reserve %s at 0x%" PRIxPTR " (0x%" PRIx64 " bytes): %s%s", what, base, bytes,
        std::strerror(errno),
        errno == ENOMEM ? " (is the address space limited, ulimit -v? HOLDFAST_WINDOW_BITS=0 reserves less)" : "");
  }
  return fail(errc::address, "%s at 0x%" PRIxPTR " (0x%" PRIx64 " bytes) is taken by another mapping of this process%s",
              what, base, bytes,
              with_thread_sanitizer() && NVM_WINDOW_BITS > 40
                  ? ": ThreadSanitizer keeps these addresses; link a library that was built with the preset tsan"
                  : "");
}

// HOLDFAST_WINDOW_BITS=n: 2^n bytes, 0: only the open pools. Valgrind keeps a record of reserved memory, which would
// take all memory of a machine for the whole window.
result<std::uint64_t> bytes_to_reserve() noexcept {
  const char* const asked = std::getenv("HOLDFAST_WINDOW_BITS");
  if (asked == nullptr || *asked == 0) return under_valgrind() ? 0 : window_bytes;
  char* end = nullptr;
  const unsigned long bits = std::strtoul(asked, &end, 10);
  if (*asked < '0' || *asked > '9' || *end != 0 || (bits != 0 && (bits < granule_shift || bits > NVM_WINDOW_BITS))) {
    return fail(errc::invalid, "HOLDFAST_WINDOW_BITS is '%.32s', expected 0 or a number from %u to %d", asked,
                granule_shift, NVM_WINDOW_BITS);
  }
  return bits == 0 ? 0 : std::uint64_t{1} << bits;
}

// Tries again to give back ranges that could not be given back.
void give_back_left() noexcept {
  for (std::uint64_t g = 0; g < granule_count && left_count != 0; ++g) {
    if (!is_in(left, g) || !free_range(window_base + (g << granule_shift), granule_bytes)) continue;
    put(left, g, false);
    put(taken, g, false);
    --left_count;
  }
}

status reserve_locked() noexcept {
  if (reserved) return {};
  // Otherwise a child forked while another thread holds the lock could take no slot.
  static const status handled =
      at_fork([]() noexcept { guard.lock(); }, []() noexcept { guard.unlock(); }, []() noexcept { guard.unlock(); });
  if (!handled) return handled;
  const auto bytes = bytes_to_reserve();
  if (!bytes) return bytes.error();
  if (*bytes != 0) {
    if (status s = reserve(window_base, *bytes, "the address window"); !s) return s;
  }
  reserved_bytes = *bytes;
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
  if (base - window_base + bytes > reserved_bytes) {
    // A slot on the border is reserved from there on.
    const std::uintptr_t from = std::max(base, window_base + reserved_bytes);
    if (auto s = reserve(from, base + bytes - from, "the range of a pool"); !s) return s.error();
  }
  for (std::uint64_t g = first; g < first + count; ++g) put(taken, g, true);
  return slot{base, bytes};
}

status slot::map(int descriptor, std::uint64_t bytes, int flags, const char* how, std::uint64_t hidden_from) noexcept {
  NVM_ASSERT(base_ != 0 && bytes <= bytes_);
  const int access = hidden_from < bytes ? PROT_NONE : PROT_READ | PROT_WRITE;
  void* const got = ::mmap(base(), bytes, access, flags | MAP_FIXED, descriptor, 0);
  if (got == MAP_FAILED) {
    const int code = errno;
    // A failed MAP_FIXED may have removed the reservation. If this fails, too, give_back() tries again.
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
  return hidden_from < bytes ? show(hidden_from) : status{};
}

status slot::show(std::uint64_t bytes) noexcept {
  if (::mprotect(base(), bytes, PROT_READ | PROT_WRITE) == 0) return {};
  return fail(errc::system, "cannot make %" PRIu64 " bytes of the pool file accessible: %s", bytes,
              std::strerror(errno));
}

status slot::put_over(int descriptor, std::uint64_t from, std::uint64_t to) noexcept {
  NVM_ASSERT(base_ != 0 && from <= to && to <= bytes_);
  // Inaccessible until show(): in a process that locks its memory the kernel makes the pages of what is accessible.
  void* const got = ::mmap(base() + from, to - from, PROT_NONE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, descriptor,
                           static_cast<off_t>(from));
  if (got != MAP_FAILED && ::madvise(got, to - from, MADV_DONTFORK) == 0) return {};
  return fail(errc::system, "cannot map %" PRIu64 " bytes of memory over the pool's at 0x%" PRIxPTR ": %s", to - from,
              base_ + from, std::strerror(errno));
}

status slot::map_shared(int descriptor, std::uint64_t bytes, std::uint64_t hidden_from) noexcept {
  return map(descriptor, bytes, MAP_SHARED, "shared", hidden_from);
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

status slot::map_private(int descriptor, std::uint64_t bytes, std::uint64_t hidden_from) noexcept {
  return map(descriptor, bytes, MAP_PRIVATE | MAP_NORESERVE, "private", hidden_from);
}

void slot::give_back() noexcept {
  if (base_ == 0) return;
  const std::lock_guard lock{guard};
  give_back_in_child();
}

void slot::give_back_in_child() noexcept {
  if (base_ == 0) return;
  // If the kernel has no room for the bookkeeping of a new mapping the old one stays: until the next slot is taken.
  const bool done = free_range(base_, bytes_);
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
