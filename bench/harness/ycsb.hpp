// The workloads A, B, D and F of YCSB (Cooper et al., SoCC 2010), as streams of operations drawn ahead of time.
//
// Records have numbers; a key is the number, mixed. Popularity is zipfian with theta 0.99: in A, B and F over the
// records in a fixed shuffled order ("scrambled zipfian"), in D over their age, newest first.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/random.hpp"
#include "harness/zipf.hpp"

namespace nvm::bench {

enum class ycsb_kind : std::uint8_t { read, update, insert, read_modify_write };

struct ycsb_op {
  std::uint64_t key;
  ycsb_kind kind;
};

struct ycsb_mix {
  char name;
  unsigned read_percent;
  ycsb_kind other;
};

inline constexpr ycsb_mix ycsb_mixes[] = {{'A', 50, ycsb_kind::update},
                                          {'B', 95, ycsb_kind::update},
                                          {'D', 95, ycsb_kind::insert},
                                          {'F', 50, ycsb_kind::read_modify_write}};

// Key of record `number`. Distinct records have distinct keys: mix() is a bijection.
inline std::uint64_t ycsb_key(std::uint64_t number) { return mix(number + 0x5943'5342); }

// The operations of one thread. Records [0, loaded) are in the table at first; what thread t inserts are the records
// loaded + t, loaded + t + threads, ...; it reads only what was loaded or what it has inserted itself, since it cannot
// know how far the others are.
class ycsb_stream {
 public:
  ycsb_stream(const ycsb_mix& mix, std::uint64_t loaded, unsigned thread, unsigned threads)
      : mix_(mix), loaded_(loaded), thread_(thread), threads_(threads), popularity_(loaded) {}

  // Operations [first, first + ops). To be called with ascending ranges: what was inserted is remembered.
  void draw(std::uint64_t first, std::uint64_t ops, std::vector<ycsb_op>* out) {
    out->clear();
    out->reserve(ops);
    for (std::uint64_t i = first; i < first + ops; ++i) {
      random source(i << 8 | thread_);
      const bool read = source.below(100) < mix_.read_percent;
      out->push_back({ycsb_key(choose(read, source)), read ? ycsb_kind::read : mix_.other});
    }
  }

 private:
  std::uint64_t choose(bool read, random& source) {
    if (mix_.other != ycsb_kind::insert) return bench::mix(popularity_.next(source)) % loaded_;
    if (!read) return loaded_ + inserted_++ * threads_ + thread_;
    const std::uint64_t age = popularity_.next(source);  // at most loaded_ - 1
    return age < inserted_ ? loaded_ + (inserted_ - 1 - age) * threads_ + thread_ : loaded_ - 1 - (age - inserted_);
  }

  ycsb_mix mix_;
  std::uint64_t loaded_;
  std::uint64_t thread_;
  std::uint64_t threads_;
  std::uint64_t inserted_ = 0;
  zipf popularity_;
};

}  // namespace nvm::bench
