// The newest record of a log for each unit of the file: the last one that may still be replayed there, or be proved by
// bytes there.
//
// A word a unit, of memory that the system gives when it is stored to.  Threads: noting is under the caller's lock;
// of() may be called without.
#pragma once

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>

#include "media/ring_layout.hpp"

namespace nvm {

class touched_pages {
 public:
  // Of the records that are the newest of some unit: the latest with logged bytes, and with straight ones; 0: none.
  struct newest {
    std::uint64_t logged = 0;
    std::uint64_t straight = 0;
  };

  // nullptr: no memory.
  [[nodiscard]] static std::unique_ptr<touched_pages> make(std::uint64_t file_bytes) noexcept {
    std::unique_ptr<touched_pages> made{new (std::nothrow) touched_pages{file_bytes}};
    return made != nullptr && made->words_ != nullptr ? std::move(made) : nullptr;
  }

  // Notes the record that ends at `lsn`, the newest so far.
  void logged(std::uint64_t offset, std::uint64_t bytes, std::uint64_t lsn) noexcept { put(offset, bytes, lsn); }
  void straight(std::uint64_t offset, std::uint64_t bytes, std::uint64_t lsn) noexcept {
    put(offset, bytes, lsn | straight_mark);
  }
  [[nodiscard]] newest of(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    newest n;
    for (std::uint64_t u = offset >> shift_; u <= (offset + bytes - 1) >> shift_; ++u) {
      // relaxed: a caller without the lock knows of a record by the record's bytes that it has read (at_home.cpp).
      const std::uint64_t word = std::atomic_ref<std::uint64_t>{words_[u]}.load(std::memory_order_relaxed);
      std::uint64_t& of = (word & straight_mark) != 0 ? n.straight : n.logged;
      if (of < (word & ~straight_mark)) of = word & ~straight_mark;
    }
    return n;
  }

 private:
  // LSNs are multiples of ring_unit.
  static constexpr std::uint64_t straight_mark = 1;
  static constexpr std::uint64_t small_bytes = 64 << 20;

  explicit touched_pages(std::uint64_t file_bytes) noexcept
      : shift_{file_bytes <= small_bytes ? 9U : 12U},
        words_{static_cast<std::uint64_t*>(std::calloc((file_bytes >> shift_) + 1, sizeof(std::uint64_t)))} {}
  void put(std::uint64_t offset, std::uint64_t bytes, std::uint64_t word) noexcept {
    for (std::uint64_t u = offset >> shift_; u <= (offset + bytes - 1) >> shift_; ++u) {
      // relaxed: see of().
      std::atomic_ref<std::uint64_t>{words_[u]}.store(word, std::memory_order_relaxed);
    }
  }

  struct release {
    void operator()(std::uint64_t* p) const noexcept { std::free(p); }
  };
  const unsigned shift_;  // of a unit's bytes: a sector, or 4 KiB
  std::unique_ptr<std::uint64_t[], release> words_;
};

}  // namespace nvm
