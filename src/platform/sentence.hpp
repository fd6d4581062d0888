// A line of text that a signal handler can build: no allocation, no function that is unsafe there.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nvm::platform {

class sentence {
 public:
  sentence(char* to, std::size_t room) noexcept : to_{to}, room_{room} { to_[0] = 0; }
  sentence& operator<<(const char* text) noexcept {
    for (; *text != 0 && used_ + 1 < room_; ++text) to_[used_++] = *text;
    to_[used_] = 0;
    return *this;
  }
  sentence& operator<<(std::uint64_t number) noexcept { return digits(number, 10); }
  sentence& operator<<(const void* address) noexcept {
    return (*this << "0x").digits(reinterpret_cast<std::uintptr_t>(address), 16);
  }
  [[nodiscard]] const char* text() const noexcept { return to_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return used_; }

 private:
  sentence& digits(std::uint64_t number, unsigned base) noexcept {
    char all[24];
    char* at = all + sizeof all;
    *--at = 0;
    do {
      *--at = "0123456789abcdef"[number % base];
      number /= base;
    } while (number != 0);
    return *this << at;
  }

  char* to_;
  std::size_t room_;
  std::size_t used_ = 0;
};

}  // namespace nvm::platform
