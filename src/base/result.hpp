// Errors as values.  A code exists only where a caller can react to it; the numbers are those of enum nvm_error and
// stable.  The sentence travels beside the code, in a place that the thread takes with its first failure: one of a few
// that exist from the start, or an allocated one where more threads fail at once.
#pragma once

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

namespace nvm {

enum class errc : std::uint8_t {
  ok = 0,
  invalid = 1,
  system = 2,
  not_found = 3,
  exists = 4,
  not_a_pool = 5,
  version = 6,
  corrupt = 7,
  busy = 8,
  no_space = 9,
  too_large = 10,
  no_transaction = 11,
  tx_open = 12,
  must_abort = 13,
  bad_pointer = 14,
  read_only = 15,
  medium = 16,
  io = 17,
  forked = 18,
  address = 19,
  no_memory = 20,
  log_full = 21,
  no_lane = 22,
  type_mismatch = 23,
  engine = 24,
  in_doubt = 25,
  copy = 26,
};

// Sets this thread's message and returns the code, so that a failure is one expression:
//   return fail(errc::corrupt, "%s: header crc at offset %zu: found %lx, expected %lx", ...);
[[gnu::format(printf, 2, 3), gnu::cold]] errc fail(errc code, const char* format, ...) noexcept;

// The same where an earlier failure is the cause.
[[gnu::format(printf, 3, 4), gnu::cold]] errc fail_for(errc cause, errc code, const char* format, ...) noexcept;

// A longer sentence is cut off.
inline constexpr std::size_t failure_text_bytes = 512;

// Message and code of this thread's last fail(); the code is errc::ok before the first.
[[nodiscard]] const char* last_message() noexcept;
[[nodiscard]] errc last_code() noexcept;
// The cause that was given to fail_for(); after fail() the code itself.
[[nodiscard]] errc last_cause() noexcept;

// Reports the last message and `code` to the caller of the library; later fail()s leave the report alone.
void report_failure(errc code) noexcept;
// "no error" and errc::ok before the first report.
[[nodiscard]] const char* reported_message() noexcept;
[[nodiscard]] errc reported_code() noexcept;
[[nodiscard]] errc reported_cause() noexcept;

// A value or a code.  [[nodiscard]] as a type: an unread error does not compile under -Werror.
template <class T>
class [[nodiscard]] result {
 public:
  result(T value) noexcept : code_{errc::ok} { ::new (&value_) T(std::move(value)); }
  result(errc code) noexcept : code_{code} {}
  result(result&& other) noexcept : code_{other.code_} {
    if (code_ == errc::ok) ::new (&value_) T(std::move(other.value_));
  }
  result& operator=(result&& other) noexcept {
    if (this != &other) {
      this->~result();
      ::new (this) result(std::move(other));
    }
    return *this;
  }
  ~result() {
    if (code_ == errc::ok) value_.~T();
  }

  [[nodiscard]] bool has_value() const noexcept { return code_ == errc::ok; }
  explicit operator bool() const noexcept { return has_value(); }
  [[nodiscard]] errc error() const noexcept { return code_; }
  T& operator*() noexcept { return value_; }
  const T& operator*() const noexcept { return value_; }
  T* operator->() noexcept { return &value_; }
  const T* operator->() const noexcept { return &value_; }

 private:
  errc code_;
  union {
    T value_;
  };
};

template <>
class [[nodiscard]] result<void> {
 public:
  result() noexcept = default;
  result(errc code) noexcept : code_{code} {}
  [[nodiscard]] bool has_value() const noexcept { return code_ == errc::ok; }
  explicit operator bool() const noexcept { return has_value(); }
  [[nodiscard]] errc error() const noexcept { return code_; }

 private:
  errc code_ = errc::ok;
};

using status = result<void>;

}  // namespace nvm
