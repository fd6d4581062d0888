// Makes memory run out at a chosen allocation of the program; linked with --wrap for malloc, calloc, realloc and mmap.
#pragma once

#include <atomic>

namespace nvm::tests {

// Which allocation fails; counts those of all threads while it is armed.
class shortage {
 public:
  void arm(long first, bool lasting) noexcept {
    lasting_ = lasting;
    struck_ = false;
    seen_ = 0;
    first_.store(first);
  }
  void relieve() noexcept { first_.store(0); }
  bool struck() const noexcept { return struck_; }
  // Decides over one allocation.
  bool refuses() noexcept {
    const long first = first_.load();
    if (first == 0) return false;
    const long number = ++seen_;
    if (number < first || (number > first && !lasting_)) return false;
    struck_ = true;
    return true;
  }

 private:
  std::atomic<long> first_{0};  // 0: none
  std::atomic<long> seen_{0};
  std::atomic<bool> struck_{false};
  std::atomic<bool> lasting_{false};
};
extern constinit shortage memory;

}  // namespace nvm::tests
