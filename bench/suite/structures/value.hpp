// The values of the suite's maps: 128 bytes (LSNVMM, section 5.1) or another size, which follow from the key, so that
// whatever order threads come in leaves the same contents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "harness/random.hpp"

namespace nvm::bench {

template <std::size_t Bytes>
struct value_of_bytes {
  std::uint64_t words[Bytes / 8];
};
using value = value_of_bytes<128>;
static_assert(sizeof(value) == 128);

// Deals out the values of keys.
template <class Value>
class basic_value_source {
 public:
  basic_value_source() : noise_(4096 + sizeof(Value)) {
    random source(128);
    for (unsigned char& c : noise_) c = static_cast<unsigned char>(source.next());
  }
  Value of(std::uint64_t key) const noexcept {
    Value v;
    std::memcpy(&v, noise_.data() + mix(key) % 4096, sizeof v);
    v.words[0] = key;
    return v;
  }

 private:
  std::vector<unsigned char> noise_;
};
using value_source = basic_value_source<value>;

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
