#pragma once

#include <cstddef>
#include <cstdint>

namespace nvm::tx {

// How objects are read whose addresses are virtual; of one thread.
class home_reader {
 public:
  virtual ~home_reader() = default;
  // The n bytes at `offset`.  Of bytes that are being changed each is as it was or as it will be; addresses that
  // nothing has are read as anything.
  virtual void read(std::uint64_t offset, void* to, std::size_t n) noexcept = 0;
};

}  // namespace nvm::tx
