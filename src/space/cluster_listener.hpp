// A listener that is told when pages come to attached object stores, and when they leave them.
#pragma once

#include <cstdint>

namespace nvm {

class cluster_listener {
 public:
  // Pages [offset, offset + bytes) are an attached store's from now on; and the pool's again.  Called while the store
  // grows or shrinks, and under locks of the space: it takes only locks that are taken last.
  virtual void came(std::uint64_t offset, std::uint64_t bytes) noexcept = 0;
  virtual void left(std::uint64_t offset, std::uint64_t bytes) noexcept = 0;

 protected:
  ~cluster_listener() = default;
};

}  // namespace nvm
