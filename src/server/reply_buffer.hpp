// Waiting replies for one client: bytes of its own, and values in the store that are not copied unless the client is
// slow. Usually one system call sends all waiting replies.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

namespace nvm::server {

class reply_buffer {
 public:
  // Values of this size and more are referred to, smaller ones are copied: an element of a vector costs the kernel
  // about as much as the copy of a few kilobytes.
  static constexpr std::size_t reference_bytes_min = 4096;

  [[nodiscard]] bool empty() const noexcept { return pending_ == 0; }
  [[nodiscard]] std::size_t pending() const noexcept { return pending_; }
  [[nodiscard]] bool has_references() const noexcept { return !references_.empty(); }

  // Room for `bytes`, of which commit() takes what was written.
  [[nodiscard]] char* room(std::size_t bytes) {
    if (capacity_ - used_ < bytes) grow(bytes);
    return bytes_.get() + used_;
  }
  void commit(const char* end) noexcept {
    const auto bytes = static_cast<std::size_t>(end - (bytes_.get() + used_));
    used_ += bytes;
    pending_ += bytes;
  }

  void append(std::string_view text);
  // As append(), but may keep a reference until settle().
  void append_value(std::string_view value);

  // Ends references: values that are not sent yet are copied.
  void settle();

  enum class sent : unsigned char { all, some, failed };
  // Sends as much as it can without waiting; `bytes` counts the bytes sent, `calls` the system calls.
  sent send_to(int fd, std::size_t& bytes, std::size_t& calls) noexcept;

  // Forgets everything; keeps memory up to `keep_bytes`.
  void clear(std::size_t keep_bytes) noexcept;

 private:
  struct reference {
    std::size_t at;  // before this own byte
    std::string_view bytes;
  };

  void grow(std::size_t bytes);
  int gather(iovec* to, int most) const noexcept;
  void consume(std::size_t bytes) noexcept;

  std::unique_ptr<char[]> bytes_;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
  std::size_t begin_ = 0;  // own bytes sent
  std::size_t pending_ = 0;
  std::vector<reference> references_;
  std::size_t first_ = 0;  // references sent
};

}  // namespace nvm::server
