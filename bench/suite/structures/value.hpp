// The values of the suite's maps: 128 bytes (LSNVMM, section 5.1) unless a program is compiled for others, which follow
// from the key, so that whatever order threads come in leaves the same contents.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "harness/random.hpp"

namespace nvm::bench {

#ifndef NVM_BENCH_SUITE_VALUE_BYTES
#define NVM_BENCH_SUITE_VALUE_BYTES 128
#endif

struct value {
  std::uint64_t words[NVM_BENCH_SUITE_VALUE_BYTES / 8];
};
static_assert(sizeof(value) == NVM_BENCH_SUITE_VALUE_BYTES);

// Deals out the values of keys.
class value_source {
 public:
  value_source() : noise_(4096 + sizeof(value)) {
    random source(128);
    for (unsigned char& c : noise_) c = static_cast<unsigned char>(source.next());
  }
  value of(std::uint64_t key) const noexcept {
    value v;
    std::memcpy(&v, noise_.data() + mix(key) % 4096, sizeof v);
    v.words[0] = key;
    return v;
  }

 private:
  std::vector<unsigned char> noise_;
};

// Sum over contents in any order.
class unordered_digest {
 public:
  void add(std::uint64_t key, const void* bytes, std::size_t n) noexcept {
    digest one;
    one.add(key);
    one.add_bytes(bytes, n);
    sum_ += one.value();
    ++count_;
  }
  std::uint64_t value() const noexcept { return mix(sum_ + count_) | 1; }  // never 0, which means no work
  std::uint64_t count() const noexcept { return count_; }

 private:
  std::uint64_t sum_ = 0;
  std::uint64_t count_ = 0;
};

}  // namespace nvm::bench
