// Which sanitizer a test is built with, and how much of a long one it then does: it is many times as slow there, and
// the other builds do all of it.
#pragma once

#include <cstdint>
#include <iterator>
#include <limits>
#include <type_traits>
#include <vector>

#include "random_seed.hpp"

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

// What ./dev test has from the date, and random workloads are drawn from: parts of a whole take turns by it.  A program
// runs on every fourth day under a sanitizer (cmake/testing.cmake), and on each of these its parts go on by one.
inline long day_of_run() {
  const std::uint64_t day = seed_from_environment() / (sanitized ? 4 : 1);
  return static_cast<long>(day & std::numeric_limits<long>::max());
}

// Cases that come one after the other, of which a build tries a part: all, but one of `each` under the address
// sanitizer.  Which one goes by the day, so that in four times `each` days it has tried all, too.
class turns_of_build {
 public:
  explicit turns_of_build(long each) : each_{by_address_sanitizer ? each : 1}, turn_{day_of_run()} {}
  [[nodiscard]] bool takes() { return turn_++ % each_ == 0; }

 private:
  long each_, turn_;
};

// The kinds that a test is run for: all, but every second one under a sanitizer.  Which ones goes by the day, so that
// eight days have all of them, but where a month ends.
template <class Kinds>
[[nodiscard]] auto kinds_of_build(const Kinds& all) {
  std::vector<std::decay_t<decltype(*std::begin(all))>> some;
  long turn = sanitized ? day_of_run() % 2 : 0;
  for (const auto& kind : all) {
    if (!sanitized || turn++ % 2 == 0) some.push_back(kind);
  }
  return some;
}

}  // namespace nvm::tests
