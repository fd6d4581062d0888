// An observer of what transactions change while it walks objects at the same time (object/store_watch.hpp).
//
// A transaction tells it when it commits, rolls back, or rolls back a level, before anything is given up: every place
// that it has announced, with its present, earlier and coming bytes; and the objects that it allocates and frees. The
// observer is not told what an announced place holds between two of these moments.
//
// Threads: that of the transaction; calls of several threads follow one another, from begin() to end().
#pragma once

#include <cstddef>
#include <cstdint>

namespace nvm::tx {

class change_watch {
 public:
  // False: this lane's transaction need not be reported, and end() is not called.
  [[nodiscard]] virtual bool begin(unsigned lane) noexcept = 0;
  // Present, earlier or coming bytes of this place of the pool.
  virtual void values(std::uint64_t offset, std::uint64_t bytes, const std::byte* data) noexcept = 0;
  // Typed objects, by their headers; their contents are in place.
  virtual void born(std::uint64_t header) noexcept = 0;
  virtual void freed(std::uint64_t header) noexcept = 0;
  virtual void end() noexcept = 0;

 protected:
  ~change_watch() = default;
};

}  // namespace nvm::tx
