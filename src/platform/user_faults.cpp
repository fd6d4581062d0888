#include "platform/user_faults.hpp"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstring>

#include "platform/descriptor.hpp"
#include "platform/map.hpp"
#include "platform/memory_watch.hpp"

namespace nvm::platform {
namespace {

// Both are newer than the oldest headers with which we compile.
#if defined(UFFD_USER_MODE_ONLY)
constexpr int user_mode_only = UFFD_USER_MODE_ONLY;
#else
constexpr int user_mode_only = 1;
#endif
#if defined(USERFAULTFD_IOC_NEW)
constexpr unsigned long new_from_device = USERFAULTFD_IOC_NEW;
#else
constexpr unsigned long new_from_device = _IO(0xAA, 0x00);
#endif

#if defined(UFFD_FEATURE_WP_HUGETLBFS_SHMEM)
constexpr std::uint64_t feature_protected_files = UFFD_FEATURE_WP_HUGETLBFS_SHMEM;
#else
constexpr std::uint64_t feature_protected_files = std::uint64_t{1} << 12;
#endif

constexpr int descriptor_flags = O_CLOEXEC | O_NONBLOCK;
constexpr int reserve_here_flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;

// Opens the descriptor through the device, whose rights the administrator gives; -1: no device, or no right to it.
int from_device() noexcept {
  const int device = open_descriptor("/dev/userfaultfd", O_RDWR);
  if (device < 0) return -1;
  const int fd = above_standard(::ioctl(device, new_from_device, descriptor_flags));
  ::close(device);
  return fd;
}

std::uintptr_t address_of(const void* p) noexcept { return reinterpret_cast<std::uintptr_t>(p); }

user_faults::outcome outcome_of(int error) noexcept {
  switch (error) {
    case EEXIST:
      return user_faults::outcome::present;
    case ENOMEM:
      return user_faults::outcome::no_memory;
    default:  // ESRCH: the process ends; ENOENT: another mapping is there
      return user_faults::outcome::gone;
  }
}

}  // namespace

status user_faults::open_descriptors(std::uint64_t features) noexcept {
  if (under_valgrind()) {
    // Under Valgrind one thread runs at a time: the thread that waits for a page would stop the thread that has to
    // bring it.
    return fail(errc::system,
                "Valgrind runs one thread at a time, and pages that are made when they are touched need two");
  }
  in_system_calls_ = true;
  faults_ = open_user_faults(descriptor_flags);
  if (faults_ < 0) faults_ = from_device();
  if (faults_ < 0) {
    in_system_calls_ = false;
    faults_ = open_user_faults(descriptor_flags | user_mode_only);
  }
  if (faults_ < 0) {
    const int code = errno;
    const char* hint = code == EPERM    ? " (a filter of system calls, or a kernel before 5.11 with "
                                          "vm.unprivileged_userfaultfd=0)"
                       : code == ENOSYS ? " (the kernel has none)"
                                        : "";
    return fail(errc::system, "userfaultfd is not permitted: %s%s", std::strerror(code), hint);
  }
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = features;
  if (::ioctl(faults_, UFFDIO_API, &api) != 0) {
    return fail(errc::system, "userfaultfd: the kernel speaks another version: %s", std::strerror(errno));
  }
  stop_ = open_events();
  if (stop_ < 0) return fail(errc::system, "userfaultfd: no eventfd: %s", std::strerror(errno));
  return {};
}

result<user_faults> user_faults::open(std::byte* base, std::uint64_t bytes) noexcept {
  NVM_ASSERT(address_of(base) % page_bytes() == 0 && bytes % page_bytes() == 0 && bytes != 0);
  user_faults made;
  if (status s = made.open_descriptors(0); !s) return s.error();
  made.base_ = base;
  made.bytes_ = bytes;
  if (status s = made.map(); !s) return s.error();
  return made;
}

// The range is inaccessible until the kernel asks us for its pages: so no access can find zeros in between, and no page
// is filled in a process that locks its memory (mlockall).
status user_faults::map() noexcept {
  const auto failed = [this](const char* what) {
    const int code = errno;
    errno = code;
    return fail(errc::system, "%" PRIu64 " bytes at 0x%" PRIxPTR ": %s: %s", bytes_, address_of(base_), what,
                std::strerror(code));
  };
  if (::mmap(base_, bytes_, PROT_NONE, reserve_here_flags, -1, 0) == MAP_FAILED) return failed("cannot be reserved");
  if (::madvise(base_, bytes_, MADV_DONTFORK) != 0) return failed("cannot be kept from forked children");
  // One page at a time comes and goes.  An error means that the kernel has no huge pages.
  (void)::madvise(base_, bytes_, MADV_NOHUGEPAGE);
  uffdio_register r{};
  r.range.start = address_of(base_);
  r.range.len = bytes_;
  r.mode = UFFDIO_REGISTER_MODE_MISSING;
  if (::ioctl(faults_, UFFDIO_REGISTER, &r) != 0) return failed("userfaultfd does not take them");
  constexpr std::uint64_t needed =
      std::uint64_t{1} << _UFFDIO_COPY | std::uint64_t{1} << _UFFDIO_ZEROPAGE | std::uint64_t{1} << _UFFDIO_WAKE;
  if ((r.ioctls & needed) != needed) return fail(errc::system, "userfaultfd cannot install pages in this kernel");
  if (::mprotect(base_, bytes_, PROT_READ | PROT_WRITE) != 0) {
    return failed(errno == ENOMEM ? "cannot be made accessible (vm.overcommit_memory=2 counts all of them)"
                                  : "cannot be made accessible");
  }
  return {};
}

result<user_faults> user_faults::open_shared(std::byte* base, std::uint64_t bytes, int descriptor,
                                             std::uint64_t hidden_from) noexcept {
  NVM_ASSERT(address_of(base) % page_bytes() == 0 && bytes % page_bytes() == 0 && hidden_from % page_bytes() == 0 &&
             hidden_from < bytes);
  user_faults made;
  if (status s = made.open_descriptors(UFFD_FEATURE_MINOR_SHMEM); !s) return s.error();
  made.base_ = base + hidden_from;
  made.bytes_ = bytes - hidden_from;
  if (status s = made.hide(descriptor, hidden_from); !s) {
    made.base_ = nullptr;  // nothing is hidden
    return s.error();
  }
  return made;
}

status user_faults::hide(int descriptor, std::uint64_t hidden_from) noexcept {
  const auto failed = [&](const char* what) {
    const int code = errno;
    if (twin_ != nullptr) ::munmap(twin_, twin_bytes_);
    twin_ = nullptr;
    errno = code;
    return fail(errc::system, "%" PRIu64 " bytes at 0x%" PRIxPTR ": %s: %s", bytes_, address_of(base_), what,
                std::strerror(code));
  };
  void* const twin =
      ::mmap(nullptr, hidden_from + bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  if (twin == MAP_FAILED) return failed("cannot be mapped twice");
  twin_ = static_cast<std::byte*>(twin);
  twin_bytes_ = hidden_from + bytes_;
  if (::madvise(twin_, twin_bytes_, MADV_DONTFORK) != 0) return failed("cannot be kept from forked children");
  uffdio_register r{};
  r.range.start = address_of(base_);
  r.range.len = bytes_;
  r.mode = UFFDIO_REGISTER_MODE_MINOR;
  if (::ioctl(faults_, UFFDIO_REGISTER, &r) != 0) return failed("userfaultfd does not take them");
  if ((r.ioctls & std::uint64_t{1} << _UFFDIO_CONTINUE) == 0) {
    errno = ENOTSUP;
    return failed("userfaultfd cannot show pages");
  }
  // Threads lose sight of pages that they have seen.
  if (::madvise(base_, bytes_, MADV_DONTNEED) != 0) return failed("cannot be hidden");
  return {};
}

result<user_faults> user_faults::open_swapped(std::byte* base, std::uint64_t bytes, bool shared) noexcept {
  NVM_ASSERT(address_of(base) % page_bytes() == 0 && bytes % page_bytes() == 0 && bytes != 0);
  user_faults made;
  const std::uint64_t features = UFFD_FEATURE_MISSING_SHMEM | (shared ? feature_protected_files : 0);
  if (status s = made.open_descriptors(features); !s) return s.error();
  if (!made.in_system_calls_) {
    return fail(errc::system,
                "userfaultfd serves programs alone here: vm.unprivileged_userfaultfd=1, CAP_SYS_PTRACE or a right to "
                "/dev/userfaultfd lets system calls wait for pages, too");
  }
  uffdio_register r{};
  r.range.start = address_of(base);
  r.range.len = bytes;
  r.mode = UFFDIO_REGISTER_MODE_MISSING | (shared ? UFFDIO_REGISTER_MODE_WP : 0);
  if (::ioctl(made.faults_, UFFDIO_REGISTER, &r) != 0) {
    return fail(errc::system, "userfaultfd does not take the mapping: %s", std::strerror(errno));
  }
  // One page at a time comes and goes.  An error means that the kernel has no huge pages.
  (void)::madvise(base, bytes, MADV_NOHUGEPAGE);
  made.base_ = base;
  made.bytes_ = bytes;
  made.swapped_ = true;
  return made;
}

std::size_t user_faults::wait(std::span<fault> faults) noexcept {
  constexpr std::size_t messages_max = 16;
  for (;;) {
    std::array<pollfd, 2> both{{{faults_, POLLIN, 0}, {stop_, POLLIN, 0}}};
    if (::poll(both.data(), both.size(), -1) < 0) continue;  // EINTR, or the kernel has no memory at the moment
    if (both[1].revents != 0) return 0;
    std::array<uffd_msg, messages_max> messages;
    const ssize_t got = ::read(faults_, messages.data(), sizeof(uffd_msg) * std::min(messages_max, faults.size()));
    if (got <= 0) continue;  // another thread was faster
    std::size_t count = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(got) / sizeof(uffd_msg); ++i) {
      const auto& what = messages[i].arg.pagefault;
      if (messages[i].event != UFFD_EVENT_PAGEFAULT) continue;
      faults[count++] = {reinterpret_cast<std::byte*>(round_down(what.address, page_bytes())),
                         (what.flags & UFFD_PAGEFAULT_FLAG_WRITE) != 0, (what.flags & UFFD_PAGEFAULT_FLAG_WP) != 0};
    }
    if (count != 0) return count;
  }
}

void user_faults::stop() noexcept {
  // The event is never read, so that every waiting thread sees it; it is full after 2^64 calls.
  if (::eventfd_write(stop_, 1) != 0) NVM_ASSERT(errno == EAGAIN);
}

user_faults::outcome user_faults::install(std::byte* page, const std::byte* contents) noexcept {
  return install(page, contents, 1, false);
}

user_faults::outcome user_faults::install(std::byte* page, const std::byte* contents, std::uint64_t count,
                                          bool guarded) noexcept {
  std::uint64_t done = 0;
  while (done < count * page_bytes()) {
    uffdio_copy copy{};
    copy.dst = address_of(page) + done;
    copy.src = address_of(contents) + done;
    copy.len = count * page_bytes() - done;
    copy.mode = guarded ? UFFDIO_COPY_MODE_WP : 0;
    if (::ioctl(faults_, UFFDIO_COPY, &copy) == 0) break;
    // EAGAIN: the mappings of the process are being changed, or only a part was done.
    if (errno != EAGAIN) return outcome_of(errno);
    if (copy.copy > 0) done += static_cast<std::uint64_t>(copy.copy);
  }
  return outcome::installed;
}

user_faults::outcome user_faults::install_zeros(std::byte* page) noexcept { return install_zeros(page, 1); }

user_faults::outcome user_faults::install_zeros(std::byte* page, std::uint64_t count) noexcept {
  std::uint64_t done = 0;
  while (done < count * page_bytes()) {
    uffdio_zeropage zero{};
    zero.range = {address_of(page) + done, count * page_bytes() - done};
    if (::ioctl(faults_, UFFDIO_ZEROPAGE, &zero) == 0) break;
    if (errno != EAGAIN) return outcome_of(errno);
    if (zero.zeropage > 0) done += static_cast<std::uint64_t>(zero.zeropage);
  }
  return outcome::installed;
}

bool user_faults::protect(std::byte* page, std::uint64_t count) noexcept {
  uffdio_writeprotect w{};
  w.range = {address_of(page), count * page_bytes()};
  w.mode = UFFDIO_WRITEPROTECT_MODE_WP;
  while (::ioctl(faults_, UFFDIO_WRITEPROTECT, &w) != 0) {
    if (errno != EAGAIN) return false;
  }
  return true;
}

void user_faults::unprotect(std::byte* page, std::uint64_t count) noexcept {
  uffdio_writeprotect w{};
  w.range = {address_of(page), count * page_bytes()};
  // An error: the range is not mapped any more, and no thread waits.
  while (::ioctl(faults_, UFFDIO_WRITEPROTECT, &w) != 0 && errno == EAGAIN) {
  }
}

user_faults::outcome user_faults::refuse(std::byte* page) noexcept {
  const int empty = open_empty_file("holdfast lost page");
  void* const there =
      empty < 0 ? MAP_FAILED
                : ::mmap(page, page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, empty, 0);
  if (empty >= 0) ::close(empty);
  // Without a descriptor, or memory for the mapping, an access is SIGSEGV.
  if (there == MAP_FAILED && ::mmap(page, page_bytes(), PROT_NONE, reserve_here_flags, -1, 0) == MAP_FAILED) {
    return outcome::no_memory;
  }
  (void)::madvise(page, page_bytes(), MADV_DONTFORK);
  return outcome::gone;
}

user_faults::outcome user_faults::show(std::byte* page) noexcept {
  uffdio_continue shown{};
  shown.range = {address_of(page), page_bytes()};
  while (::ioctl(faults_, UFFDIO_CONTINUE, &shown) != 0) {
    if (errno == EAGAIN) continue;
    // EEXIST: another thread was faster. EFAULT: the file has lost this page, and the kernel makes one.
    const bool there = errno == EEXIST || errno == EFAULT;
    wake(page);
    return there ? outcome::present : outcome_of(errno);
  }
  return outcome::installed;
}

void user_faults::show(std::byte* page, std::uint64_t count) noexcept {
  uffdio_continue shown{};
  shown.range = {address_of(page), count * page_bytes()};
  if (::ioctl(faults_, UFFDIO_CONTINUE, &shown) == 0) return;
  for (std::uint64_t i = 0; i < count; ++i) (void)show(page + i * page_bytes());
}

void user_faults::show_all() noexcept {
  if (base_ == nullptr || twin_ == nullptr) return;
  uffdio_range range{address_of(base_), bytes_};
  (void)::ioctl(faults_, UFFDIO_UNREGISTER, &range);  // wakes all; fails after the range was unmapped
}

void user_faults::wake(std::byte* page) noexcept {
  uffdio_range range{address_of(page), page_bytes()};
  (void)::ioctl(faults_, UFFDIO_WAKE, &range);  // fails after the range was unmapped: no thread waits then
}

void user_faults::forget_in_child() noexcept {
  // The second mapping does not exist here, and requests through the descriptor would change the parent's memory.
  if (twin_ != nullptr || swapped_) base_ = twin_ = nullptr;
  close();
}

void user_faults::close() noexcept {
  // The new mapping ends the registration, too: a thread that still waits is woken and finds no memory.
  if (twin_ != nullptr) {
    show_all();
    ::munmap(twin_, twin_bytes_);
  } else if (swapped_ && base_ != nullptr) {
    uffdio_range range{address_of(base_), bytes_};
    (void)::ioctl(faults_, UFFDIO_UNREGISTER, &range);  // fails after the range was unmapped
  } else if (base_ != nullptr) {
    (void)::mmap(base_, bytes_, PROT_NONE, reserve_here_flags, -1, 0);
  }
  if (faults_ >= 0) ::close(faults_);
  if (stop_ >= 0) ::close(stop_);
  base_ = twin_ = nullptr;
  faults_ = stop_ = -1;
}

}  // namespace nvm::platform
