// Lines of a medium that are to be written back soon.
#pragma once

#include <array>
#include <cstdint>

#include "media/media.hpp"

namespace nvm::lockfree {

// Lines to be written back, each once if they come in clusters.
template <media M>
class lines_written {
 public:
  explicit lines_written(M& m) noexcept : medium_{m} {}
  ~lines_written() {
    for (void* p : recent_) {
      if (p != nullptr) medium_.flush(p, 8);
    }
  }
  void add(void* p) noexcept {
    void*& slot = recent_[reinterpret_cast<std::uintptr_t>(p) / line_bytes * 0x9E37'79B9U >> 8 & (recent_.size() - 1)];
    if (slot != nullptr && !same(slot, p)) medium_.flush(slot, 8);
    slot = p;
  }

 private:
  // On an image medium exactly the word is captured.
  static bool same(void* a, void* b) noexcept {
    constexpr std::uintptr_t unit = M::atomic_batches ? 8 : line_bytes;
    return reinterpret_cast<std::uintptr_t>(a) / unit == reinterpret_cast<std::uintptr_t>(b) / unit;
  }
  M& medium_;
  std::array<void*, 64> recent_{};
};

}  // namespace nvm::lockfree
