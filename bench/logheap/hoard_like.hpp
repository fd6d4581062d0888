// Address arithmetic as Hoard does it (Berger et al., ASPLOS 2000): superblocks of 64 KiB, one size class each, classes
// 1.2 apart; an object comes from the fullest superblock of its class, to about a quarter; a superblock belongs to its
// class as long as anything lives in it, and then to whoever asks.  What the paper's Mnemosyne has for small objects.
//
// No memory stands after it: only superblocks are counted.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "logheap/footprint.hpp"

namespace nvm::bench {

class hoard_like final : public footprint_heap {
 public:
  static constexpr std::uint64_t superblock_bytes = 65536;
  static constexpr std::uint64_t header_bytes = 64;

  hoard_like() {
    for (std::uint64_t size = 16; size <= superblock_bytes / 8;
         size = std::max(size + 16, (size * 6 / 5 + 15) / 16 * 16))
      classes_.push_back({size, (superblock_bytes - header_bytes) / size, {}});
  }

  std::uint64_t allocate(std::uint64_t size) override {
    const auto c = std::lower_bound(classes_.begin(), classes_.end(), size,
                                    [](const size_class& x, std::uint64_t s) { return x.bytes < s; });
    if (c == classes_.end()) throw std::runtime_error("an object that Hoard would give to the large allocator");
    const auto number = static_cast<std::uint32_t>(c - classes_.begin());
    for (unsigned group = groups; group-- > 0;) {
      if (!c->by_fullness[group].empty()) return put(c->by_fullness[group].back());
    }
    return put(fresh(number));
  }
  void release(std::uint64_t object, std::uint64_t /*size*/) override {
    const auto block = static_cast<std::uint32_t>(object);
    superblock& b = blocks_[block];
    take_out(block);
    if (--b.used == 0) {
      free_.push_back(block);
      --in_use_;
    } else {
      put_in(block);
    }
  }
  std::uint64_t bytes() override { return in_use_ * superblock_bytes; }

 private:
  static constexpr unsigned groups = 4;  // and one of those that are full
  struct superblock {
    std::uint32_t size_class = 0;
    std::uint32_t used = 0;   // slots
    std::uint32_t place = 0;  // in its group
    std::uint32_t group = 0;
  };
  struct size_class {
    std::uint64_t bytes;
    std::uint64_t slots;  // of a superblock
    std::vector<std::uint32_t> by_fullness[groups + 1];
  };

  std::uint64_t put(std::uint32_t block) {
    take_out(block);
    ++blocks_[block].used;
    put_in(block);
    return block;
  }
  std::uint32_t fresh(std::uint32_t size_class) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(blocks_.size()));
      blocks_.push_back({});
    }
    const std::uint32_t block = free_.back();
    free_.pop_back();
    ++in_use_;
    blocks_[block] = {size_class, 0, 0, 0};
    put_in(block);
    return block;
  }
  void put_in(std::uint32_t block) {
    superblock& b = blocks_[block];
    size_class& c = classes_[b.size_class];
    b.group = static_cast<std::uint32_t>(b.used * groups / c.slots);
    b.place = static_cast<std::uint32_t>(c.by_fullness[b.group].size());
    c.by_fullness[b.group].push_back(block);
  }
  void take_out(std::uint32_t block) {
    const superblock& b = blocks_[block];
    auto& group = classes_[b.size_class].by_fullness[b.group];
    group[b.place] = group.back();
    blocks_[group[b.place]].place = b.place;
    group.pop_back();
  }

  std::vector<size_class> classes_;
  std::vector<superblock> blocks_;
  std::vector<std::uint32_t> free_;
  std::uint64_t in_use_ = 0;
};

}  // namespace nvm::bench
