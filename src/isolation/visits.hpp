// Transactions that were inside at one moment, until all of them have ended.  Those that came later are not waited
// for: where many threads have short ones, there may be somebody inside at every moment.
//
// Progress: the wait ends when each thread has ended the one transaction in which it was.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <vector>

namespace nvm::isolation {

class participant;

class visits {
 public:
  visits() noexcept = default;  // none
  // Those that are inside now with this subject (participant::enter()).  A transaction that begins later sees all that
  // this thread has stored before.  May throw std::bad_alloc.
  [[nodiscard]] static visits now(const void* subject);
  // Whether all of them have ended.  What they did is visible then.
  [[nodiscard]] bool over() noexcept;

 private:
  struct visit {
    const participant* who;
    std::uint64_t number;
  };
  std::vector<visit> under_way_;
};

}  // namespace nvm::isolation
