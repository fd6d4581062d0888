#pragma once

#include <cstddef>
#include <cstdint>

namespace nvm::tx {

// Reader of objects with virtual addresses, for one thread.
class home_reader {
 public:
  virtual ~home_reader() = default;
  // Reads the n bytes at `offset`.  A byte that is being changed is read old or new; unused addresses give any bytes.
  virtual void read(std::uint64_t offset, void* to, std::size_t n) noexcept = 0;
};

}  // namespace nvm::tx
