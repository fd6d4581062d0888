// Memory of zeros for large volatile tables: a page takes memory only after it was touched.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "base/base.hpp"

namespace nvm::platform {

class zeroed_memory {
 public:
  zeroed_memory() noexcept = default;
  // Small blocks come from the heap: a mapping costs more than clearing them.
  explicit zeroed_memory(std::uint64_t bytes) noexcept : bytes_{bytes} {
    if (bytes < mapped_from) {
      data_ = std::calloc(bytes == 0 ? 1 : bytes, 1);
      return;
    }
    void* p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    data_ = p == MAP_FAILED ? nullptr : p;
  }
  zeroed_memory(zeroed_memory&& other) noexcept
      : data_{std::exchange(other.data_, nullptr)}, bytes_{std::exchange(other.bytes_, 0)} {}
  zeroed_memory& operator=(zeroed_memory&&) = delete;
  ~zeroed_memory() {
    if (bytes_ < mapped_from) {
      std::free(data_);
    } else if (data_ != nullptr) {
      ::munmap(data_, bytes_);
    }
  }

  // nullptr: there was no memory.  Aligned to 16 bytes.
  [[nodiscard]] void* data() const noexcept { return data_; }

 private:
  static constexpr std::uint64_t mapped_from = 65536;  // bytes
  void* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace nvm::platform
