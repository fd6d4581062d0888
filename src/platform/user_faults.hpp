// Pages that this process itself fills, or puts right, when they are first touched (userfaultfd(2)).
//
// Missing pages (open()).  A range of anonymous private memory: a thread that touches a page that is missing waits
// until one is installed.  It is installed whole, in one step of the kernel: no thread ever sees a half filled page, or
// zeros before the contents. A page that is given back (drop_private_pages()) is missing again.
//
// Unshown pages (open_shared()). A mapping of a file in memory (tmpfs) whose pages exist but are hidden from threads
// until show(): their keeper works on them before through a second mapping, twin().  Linux 5.14.
//
// Swapped pages (open_swapped()).  A mapping of a file in memory of which some pages are holes: a thread that touches
// one waits until it is installed.  Pages can be protected: a thread that stores to one waits until the protection
// ends. Protection stays with a page that is unmapped and mapped again.  Linux 5.19.
//
// System calls.  With the right to it, a system call that meets a missing page waits like a thread does.  Without it
// (vm.unprivileged_userfaultfd is 0, no CAP_SYS_PTRACE, no right to /dev/userfaultfd) such a call fails with EFAULT,
// and the caller has to touch the pages before: in_system_calls() tells the two apart.
//
// fork().  A child inherits neither the pages nor the duty to fill them: the range is not mapped there, so that an
// access is SIGSEGV at once, and does not wait for a thread that the child lacks.  (Inherited, missing pages would read
// as zeros.)  The descriptors it has are of the parent's memory: forget_in_child() closes them.
//
// Threads: wait(), install(), install_zeros() and wake() by any number at any time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/base.hpp"

namespace nvm::platform {

class user_faults {
 public:
  enum class outcome : std::uint8_t {
    installed,
    present,    // another page was there already
    no_memory,  // the system has no page: nothing has changed
    gone,       // the range is no longer mapped, or the process ends
  };
  struct fault {
    std::byte* page = nullptr;
    bool to_store = false;  // the thread wants to store to it
    bool is_there = false;  // and the page is protected
  };

  // Maps [base, base + bytes), whole pages whose addresses the caller has reserved: all of them missing.  No memory is
  // used.  errc::system: the system does not grant it; the message says what is missing, and the range is still
  // reserved (inaccessible).
  [[nodiscard]] static result<user_faults> open(std::byte* base, std::uint64_t bytes) noexcept;

  // For a file whose first `bytes` bytes are mapped at `base`: hides the pages from byte `hidden_from` on. Their
  // contents do not change, and the mapping is as before when this object is destroyed. errc::system: the system does
  // not grant it, or the file is not in memory; nothing has changed.
  [[nodiscard]] static result<user_faults> open_shared(std::byte* base, std::uint64_t bytes, int descriptor,
                                                       std::uint64_t hidden_from) noexcept;

  // For [base, base + bytes), whole pages of a mapping of a file in memory. The mapping does not change, also when this
  // object is destroyed.  `shared`: stores reach the file, and pages can be protected; otherwise an installed page is
  // this process's own.  errc::system: the system does not grant it, or system calls would not wait for pages; nothing
  // has changed.
  [[nodiscard]] static result<user_faults> open_swapped(std::byte* base, std::uint64_t bytes, bool shared) noexcept;

  user_faults() noexcept = default;
  user_faults(user_faults&& other) noexcept
      : base_{std::exchange(other.base_, nullptr)},
        bytes_{std::exchange(other.bytes_, 0)},
        faults_{std::exchange(other.faults_, -1)},
        stop_{std::exchange(other.stop_, -1)},
        twin_{std::exchange(other.twin_, nullptr)},
        twin_bytes_{std::exchange(other.twin_bytes_, 0)},
        swapped_{other.swapped_},
        in_system_calls_{other.in_system_calls_} {}
  user_faults& operator=(user_faults&&) = delete;
  // Unmaps the pages and reserves their addresses again, inaccessible.  No thread may wait for a page.
  ~user_faults() { close(); }

  [[nodiscard]] bool in_system_calls() const noexcept { return in_system_calls_; }

  // Waits until threads need pages; returns how many of `faults` were filled, at least one.  0: stop() was called.  A
  // page may be named more than once, and may be present already.
  [[nodiscard]] std::size_t wait(std::span<fault> faults) noexcept;
  // All calls of wait(), under way or to come, return 0.
  void stop() noexcept;

  // Installs the page at `page` with these contents (page_bytes() of them), or with zeros, which take no memory until
  // it is stored to; the threads that wait for it go on.  About 2 us.
  [[nodiscard]] outcome install(std::byte* page, const std::byte* contents) noexcept;
  [[nodiscard]] outcome install_zeros(std::byte* page) noexcept;
  // The same of `count` pages with contents one after the other; `guarded`: protected from the start (swapped pages).
  // Any answer but `installed`: some of them may be installed.
  [[nodiscard]] outcome install(std::byte* page, const std::byte* contents, std::uint64_t count, bool guarded) noexcept;
  [[nodiscard]] outcome install_zeros(std::byte* page, std::uint64_t count) noexcept;
  // protect(): from now on stores to these pages wait, until unprotect(). After protect() no store is made without a
  // wait.
  [[nodiscard]] bool protect(std::byte* page, std::uint64_t count) noexcept;
  void unprotect(std::byte* page, std::uint64_t count) noexcept;
  // From now on the page does not exist: an access is SIGBUS, also of threads that wait for it, once they are woken.
  [[nodiscard]] outcome refuse(std::byte* page) noexcept;
  // Unshown pages: all of the file, at other addresses.
  [[nodiscard]] std::byte* twin() const noexcept { return twin_; }
  // Shows the page at `page` to threads, and lets those that wait for it go on. About 2 us.
  [[nodiscard]] outcome show(std::byte* page) noexcept;
  // The same for `count` pages from there on, some of which may be shown already, or lie outside of the file.
  void show(std::byte* page, std::uint64_t count) noexcept;
  // Shows all pages, for good.
  void show_all() noexcept;

  // Lets the threads that wait for the page try again.
  void wake(std::byte* page) noexcept;

  // In a forked child: closes the descriptors and reserves the addresses.
  void forget_in_child() noexcept;

 private:
  void close() noexcept;
  [[nodiscard]] status open_descriptors(std::uint64_t features) noexcept;
  [[nodiscard]] status map() noexcept;
  [[nodiscard]] status hide(int descriptor, std::uint64_t hidden_from) noexcept;

  std::byte* base_ = nullptr;  // nullptr: nothing is mapped
  std::uint64_t bytes_ = 0;
  int faults_ = -1;
  int stop_ = -1;                 // an eventfd, readable from stop() on
  std::byte* twin_ = nullptr;     // of unshown pages
  std::uint64_t twin_bytes_ = 0;  // with those that are not hidden
  bool swapped_ = false;          // the mapping is not ours
  bool in_system_calls_ = false;
};

}  // namespace nvm::platform
