// Entries and bytes of a store, counted in its transactions and spread over lines, a thread's own as far as there are
// enough: one counter would make any two insertions conflict.
#pragma once

#include "kv/access.hpp"
#include "sync/sync.hpp"

namespace nvm::keyed {

struct totals {
  std::uint64_t entries = 0;
  std::uint64_t key_bytes = 0;
  std::uint64_t value_bytes = 0;
};

class counters {
 public:
  explicit counters(layout::kv_stripe* stripes) noexcept : stripes_{stripes} {}

  // The memory that add() stores to: the bytes alone, and all counters.
  [[nodiscard]] nvm_range place_of_bytes() const noexcept { return {&own().value_bytes, sizeof own().value_bytes}; }
  [[nodiscard]] nvm_range place() const noexcept { return {&own(), 3 * sizeof(std::uint64_t)}; }
  // Differences modulo 2^64.
  void add(const access& a, std::uint64_t entries, std::uint64_t key_bytes, std::uint64_t value_bytes) const {
    layout::kv_stripe* mine = &own();
    std::uint64_t words[3];
    a.read(words, mine, sizeof words);
    words[0] += entries;
    words[1] += key_bytes;
    words[2] += value_bytes;
    if ((entries | key_bytes) == 0) {
      a.store(&mine->value_bytes, words[2]);
    } else {
      a.write(mine, words, sizeof words);
    }
  }
  [[nodiscard]] totals sum(const access& a) const {
    totals t;
    for (unsigned i = 0; i < layout::kv_stripes; ++i) {
      std::uint64_t words[3];
      a.read(words, &stripes_[i], sizeof words);
      t.entries += words[0];
      t.key_bytes += words[1];
      t.value_bytes += words[2];
    }
    return t;
  }
  // Number of entries, nearly: the counters of other threads are read as they are in memory, without waiting.
  [[nodiscard]] std::uint64_t estimate(const access& a) const {
    const unsigned mine = thread_token() % layout::kv_stripes;
    std::uint64_t n = a.load(&stripes_[mine].entries);
    for (unsigned i = 0; i < layout::kv_stripes; ++i) {
      // relaxed: a hint; any value will do.
      if (i != mine) n += __atomic_load_n(&stripes_[i].entries, __ATOMIC_RELAXED);
    }
    return static_cast<std::int64_t>(n) < 0 ? 0 : n;
  }

 private:
  [[nodiscard]] layout::kv_stripe& own() const noexcept { return stripes_[thread_token() % layout::kv_stripes]; }

  layout::kv_stripe* stripes_;
};

}  // namespace nvm::keyed
