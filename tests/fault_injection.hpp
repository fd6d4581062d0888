// Makes a chosen system call or allocation of the program fail; linked by holdfast_inject_faults(), which has the
// linker put itself before each of them.  Calls of other libraries are not seen.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <initializer_list>

#include "sanitized.hpp"

namespace nvm::tests {

// Of how many places one is tried, where each costs much more: under the address sanitizer.  Which one goes by the day,
// so that it sees all of them, too; places beside each other differ in little that it could see.
inline constexpr long fault_stride = by_address_sanitizer ? 12 : 1;

// Kinds of calls that fail together.
enum class fault : unsigned {
  memory,  // malloc and its kin, operator new, mmap of volatile tables
  map,     // mmap at a place of its own: the window, pools, reservations
  advise,  // madvise, mprotect
  open,
  read,   // pread
  write,  // pwrite
  sync,   // fdatasync, fsync, msync
  room,   // fallocate, ftruncate
  facts,  // fstat, fstatfs
  lock,   // fcntl
  name,   // rename, link
  close,  // the descriptor is gone all the same
};

// Which call fails; counts those of all threads while it is armed.
class injection {
 public:
  // From the `first` call of this kind on, which counts from 1: that one, or all while it is `lasting`.
  void arm(fault kind, int error, long first, bool lasting) noexcept {
    error_ = error;
    lasting_ = lasting;
    alternating_ = false;
    struck_ = false;
    paused_ = false;
    seen_ = 0;
    refused_ = 0;
    kind_ = kind;
    first_.store(first);
  }
  // Every second call of this kind: the odd ones (1) or the even ones (2).
  void arm_alternating(fault kind, int error, long phase) noexcept {
    arm(kind, error, 0, false);
    alternating_ = true;
    first_.store(phase);
  }
  void relieve() noexcept { first_.store(0); }
  void pause(bool yes) noexcept { paused_.store(yes); }
  [[nodiscard]] bool struck() const noexcept { return struck_; }
  // Calls that failed; of them, those of the calling thread.
  [[nodiscard]] long refused() const noexcept { return refused_; }
  [[nodiscard]] static long refused_here() noexcept { return refused_here_; }
  [[nodiscard]] int error() const noexcept { return error_; }

  // Decides over one call; errno is set if it fails.
  bool refuses(fault kind) noexcept;

  // Told of each sync and growth before it is made, and after it succeeded; may end the process.
  std::atomic<void (*)(fault kind, bool done)> watch{nullptr};
  void made(fault kind) noexcept {
    if (auto* const w = watch.load()) w(kind, true);
  }

  // Mappings that the program asked for, wherever they are, and still has.
  std::atomic<long> mappings{0};
  // The file system of pools grants MAP_SYNC.
  std::atomic<bool> plays_dax{false};
  // A page of files under this name cannot be read: neither by pread nor where it is mapped.  By a call that tests set.
  struct bad_page {
    dev_t device = 0;
    ino_t inode = 0;  // 0: none
    off_t offset = 0;
    bool poisoned = false;  // as memory with an uncorrectable error; else as after the end of a file
  } bad;

 private:
  static inline thread_local constinit long refused_here_ = 0;

  std::atomic<long> first_{0};  // 0: none
  std::atomic<long> seen_{0};
  std::atomic<bool> struck_{false};
  std::atomic<bool> lasting_{false};
  std::atomic<bool> alternating_{false};
  std::atomic<bool> paused_{false};
  std::atomic<long> refused_{0};
  std::atomic<fault> kind_{fault::memory};
  std::atomic<int> error_{0};
};
extern constinit injection injected;

// The page of a shared mapping, not touched yet, is as one with an uncorrectable error, until the process ends
// (userfaultfd, UFFDIO_POISON).  False: the kernel does not (before 6.6), or the process may not.
[[nodiscard]] bool poison_page(void* page) noexcept;

}  // namespace nvm::tests
