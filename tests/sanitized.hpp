// Which sanitizer a test is built with, and how much of a long one it then does: it is many times as slow there, and
// the other builds do all of it.
#pragma once

namespace nvm::tests {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool by_address_sanitizer = true;
inline constexpr bool by_thread_sanitizer = false;
#elif defined(__SANITIZE_THREAD__)
inline constexpr bool by_address_sanitizer = false;
inline constexpr bool by_thread_sanitizer = true;
#elif defined(__has_feature)
inline constexpr bool by_address_sanitizer = __has_feature(address_sanitizer);
inline constexpr bool by_thread_sanitizer = __has_feature(thread_sanitizer);
#else
inline constexpr bool by_address_sanitizer = false;
inline constexpr bool by_thread_sanitizer = false;
#endif
inline constexpr bool sanitized = by_address_sanitizer || by_thread_sanitizer;

// Of so many rounds; one at least.
template <class Number>
constexpr Number rounds_of_build(Number rounds) {
  const Number part = by_thread_sanitizer ? rounds / 10 : by_address_sanitizer ? rounds / 4 : rounds;
  return part == 0 ? rounds : part;
}

}  // namespace nvm::tests
