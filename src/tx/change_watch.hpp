// Who wants to know what transactions change while it looks at objects beside them (object/store_watch.hpp).
//
// A transaction tells it when it commits, rolls back, or rolls back a level, before anything is given up: every place
// that it has announced, with what stands there, stood there and will stand there; and the objects that it allocates
// and frees.  What stands in an announced place between two of these moments nobody else is told.
//
// Threads: that of the transaction; calls of several threads follow one another, from begin() to end().
#pragma once

#include <cstddef>
#include <cstdint>

namespace nvm::tx {

class change_watch {
 public:
  // False: what the transaction of this lane does is known already, and end() is not called.
  [[nodiscard]] virtual bool begin(unsigned lane) noexcept = 0;
  // Bytes that belong, belonged or will belong at this place of the pool.
  virtual void values(std::uint64_t offset, std::uint64_t bytes, const std::byte* data) noexcept = 0;
  // Typed objects, by their headers; their contents are in place.
  virtual void born(std::uint64_t header) noexcept = 0;
  virtual void freed(std::uint64_t header) noexcept = 0;
  virtual void end() noexcept = 0;

 protected:
  ~change_watch() = default;
};

}  // namespace nvm::tx
