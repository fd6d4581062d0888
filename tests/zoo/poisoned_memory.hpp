// Memory of which pages are poisoned, as by an error that the device cannot correct.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace nvm::zoo {

inline constexpr std::size_t page_bytes = 4096;
inline constexpr std::size_t words_of_page = page_bytes / 8;

// Memory of which pages can be poisoned: an access to them is SIGBUS.
class poisoned_memory {
 public:
  static constexpr std::size_t pages = 3;
  poisoned_memory()
      : words_{static_cast<std::uint64_t*>(
            ::mmap(nullptr, pages * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))} {
    if (words_ == MAP_FAILED || ::pipe2(pipe_, O_CLOEXEC) != 0) ADD_FAILURE() << "no memory";
  }
  ~poisoned_memory() {
    if (faults_ >= 0) ::close(faults_);
    ::munmap(words_, pages * page_bytes);
    ::close(pipe_[0]);
    ::close(pipe_[1]);
  }
  poisoned_memory(const poisoned_memory&) = delete;
  poisoned_memory& operator=(const poisoned_memory&) = delete;

  [[nodiscard]] std::uint64_t* page(std::size_t i) const { return words_ + i * words_of_page; }
  // What a clear of bad blocks leaves: zeros.
  void clear(std::size_t i) const {
    if (::mmap(page(i), page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
        MAP_FAILED)
      ADD_FAILURE() << "no memory";
  }
  // As the kernel does it (UFFDIO_POISON); false: it cannot.
  bool poison_really(std::size_t i);
  // By a mapping of a file that has no such page: faults alike.
  bool poison(std::size_t i) {
    const int empty = ::memfd_create("holdfast-zoo", MFD_CLOEXEC);
    const bool done =
        ::mmap(page(i), page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, empty, 0) != MAP_FAILED;
    ::close(empty);
    return done;
  }
  // False: the page is poisoned.  System calls say so where loads would fault.
  bool read(const std::uint64_t* from, std::uint64_t& to) const {
    return ::write(pipe_[1], from, 8) == 8 && ::read(pipe_[0], &to, 8) == 8;
  }

 private:
  std::uint64_t* words_;
  int faults_ = -1;
  int pipe_[2] = {-1, -1};
};

// UFFDIO_POISON is newer than the headers of many systems.
struct poison_request {
  uffdio_range range;
  __u64 mode;
  __s64 updated;
};
inline constexpr unsigned long poison_call = _IOWR(UFFDIO, 0x08, poison_request);
inline constexpr std::uint64_t poison_feature = std::uint64_t{1} << 14;
inline constexpr int user_mode_only = 1;

inline bool poisoned_memory::poison_really(std::size_t i) {
  if (faults_ < 0) {
    faults_ = static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | user_mode_only));
    uffdio_api api{};
    api.api = UFFD_API;
    api.features = poison_feature;
    if (faults_ < 0 || ::ioctl(faults_, UFFDIO_API, &api) != 0) return false;
  }
  const auto at = reinterpret_cast<std::uintptr_t>(page(i));
  uffdio_register r{};
  r.range = {at, page_bytes};
  r.mode = UFFDIO_REGISTER_MODE_MISSING;
  if (::ioctl(faults_, UFFDIO_REGISTER, &r) != 0) return false;
  poison_request p{{at, page_bytes}, 0, 0};
  // Only a page that is not there can be poisoned.
  return ::madvise(page(i), page_bytes, MADV_DONTNEED) == 0 && ::ioctl(faults_, poison_call, &p) == 0;
}

}  // namespace nvm::zoo
