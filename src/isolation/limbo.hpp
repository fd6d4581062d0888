// Volatile memory that a transaction has freed while others may still read it: it goes back to malloc() when none of
// them can.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "isolation/participants.hpp"

namespace nvm::isolation {

class limbo {
 public:
  explicit limbo(participant& who) noexcept : who_{who} {}
  ~limbo() { hand_over(); }
  limbo(const limbo&) = delete;
  limbo& operator=(const limbo&) = delete;

  // Adds memory from malloc() that a transaction of `version` has unlinked.
  void add(void* p, std::uint64_t version) noexcept;
  // Frees the memory that no transaction can read.
  void sweep() noexcept;
  // At the thread's end: the next thread that sweeps frees the rest.
  void hand_over() noexcept;

 private:
  static constexpr std::size_t sweep_every = 64;

  struct waiting {
    void* p;
    std::uint64_t version;
  };
  participant& who_;
  std::vector<waiting> list_;  // by ascending version
  std::size_t sweep_at_ = sweep_every;
};

}  // namespace nvm::isolation
