// Array of zeros whose memory appears when it is touched: volatile tables that are sized by a pool's capacity.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "platform/platform.hpp"

namespace nvm {

// Elements are read and written through std::atomic_ref; T is an integer, its initial value 0.
template <class T>
class sparse_array {
  static_assert(std::is_integral_v<T>);

 public:
  explicit sparse_array(std::uint64_t count) noexcept : memory_{count * sizeof(T)} {}

  // False: there was no memory, nothing else may be called.
  [[nodiscard]] bool exists() const noexcept { return memory_.data() != nullptr; }
  [[nodiscard]] std::atomic_ref<T> operator[](std::uint64_t index) const noexcept {
    return std::atomic_ref<T>{static_cast<T*>(memory_.data())[index]};
  }

 private:
  platform::zeroed_memory memory_;
};

}  // namespace nvm
