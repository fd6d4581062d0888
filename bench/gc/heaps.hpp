// Heaps that hold a graph of equal objects, each with two pointers at its beginning, and mark it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace nvm::bench {

struct marked {
  std::uint64_t objects = 0;  // found reachable; libgc does not say
  double ns = 0;
};

class collected_heap {
 public:
  collected_heap() = default;
  virtual ~collected_heap() = default;
  collected_heap(const collected_heap&) = delete;
  collected_heap& operator=(const collected_heap&) = delete;

  // The two words of the i-th object that was allocated.
  virtual void** at(std::uint64_t i) const noexcept = 0;
  virtual void set_root(std::uint64_t i) = 0;
  // A collection that finds no garbage.
  virtual marked mark() = 0;
};

struct heap_wish {
  std::string directory;
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;  // of an object, its header in the pool included
  unsigned threads = 1;
};
[[nodiscard]] std::unique_ptr<collected_heap> make_pool_heap(const heap_wish& w);
// `typed`: the collector is told where pointers are; else it looks at every word.
[[nodiscard]] std::unique_ptr<collected_heap> make_boehm_heap(const heap_wish& w, bool typed);

}  // namespace nvm::bench
