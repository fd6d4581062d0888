// Array of zeros whose memory appears when it is touched: volatile tables that are sized by a pool's capacity.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <type_traits>

namespace nvm {

// Elements are read and written through std::atomic_ref; T is an integer, its initial value 0.
template <class T>
class sparse_array {
  static_assert(std::is_integral_v<T>);

 public:
  // calloc of a large block is an anonymous mapping: no page of it exists before its first use.
  explicit sparse_array(std::uint64_t count) noexcept
      : data_{static_cast<T*>(std::calloc(count == 0 ? 1 : count, sizeof(T)))} {}
  sparse_array(const sparse_array&) = delete;
  sparse_array& operator=(const sparse_array&) = delete;
  ~sparse_array() { std::free(data_); }

  // False: there was no memory, nothing else may be called.
  [[nodiscard]] bool exists() const noexcept { return data_ != nullptr; }
  [[nodiscard]] std::atomic_ref<T> operator[](std::uint64_t index) const noexcept {
    return std::atomic_ref<T>{data_[index]};
  }

 private:
  T* data_;
};

}  // namespace nvm
