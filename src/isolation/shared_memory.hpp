// Memory that other transactions may read or write at the same time: every access is atomic, in naturally aligned
// pieces of up to 8 bytes, and touches exactly the bytes asked for (a neighbour's may be in use without any
// transaction).
//
// Loads acquire and stores release, which costs nothing here: a reader that sees a new value also sees that the line's
// orec was locked before it was stored, and reads the orec after the value (Boehm, "Can seqlocks get along with
// programming language memory models?").
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace nvm::isolation {

template <class T>
[[nodiscard]] inline T load_shared(const T* p) noexcept {
  static_assert(std::is_integral_v<T>);
  return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
template <class T>
inline void store_shared(T* p, T value) noexcept {
  static_assert(std::is_integral_v<T>);
  __atomic_store_n(p, value, __ATOMIC_RELEASE);
}

template <class T>
[[nodiscard]] inline bool is_aligned(const T* p) noexcept {
  return reinterpret_cast<std::uintptr_t>(p) % sizeof(T) == 0;
}

namespace detail {
// Calls piece(shared, done, T) for pieces that cover n bytes at `shared`, each aligned to its own size.
template <class Byte, class Piece>
inline void each_piece(Byte* shared, std::size_t n, Piece&& piece) noexcept {
  std::size_t done = 0;
  const auto fits = [&](std::size_t bytes) {
    return n - done >= bytes && reinterpret_cast<std::uintptr_t>(shared + done) % bytes == 0;
  };
  while (done < n) {
    if (fits(8)) {
      do {
        piece(shared + done, done, std::uint64_t{});
        done += 8;
      } while (n - done >= 8);
    } else if (fits(4)) {
      piece(shared + done, done, std::uint32_t{});
      done += 4;
    } else if (fits(2)) {
      piece(shared + done, done, std::uint16_t{});
      done += 2;
    } else {
      piece(shared + done, done, std::uint8_t{});
      ++done;
    }
  }
}
}  // namespace detail

// `to` is private, `from` shared.
inline void copy_out(void* to, const void* from, std::size_t n) noexcept {
  detail::each_piece(static_cast<const std::byte*>(from), n, [&](const std::byte* at, std::size_t done, auto word) {
    word = load_shared(reinterpret_cast<const decltype(word)*>(at));
    std::memcpy(static_cast<std::byte*>(to) + done, &word, sizeof word);
  });
}
// `to` is shared, `from` private.
inline void copy_in(void* to, const void* from, std::size_t n) noexcept {
  detail::each_piece(static_cast<std::byte*>(to), n, [&](std::byte* at, std::size_t done, auto word) {
    std::memcpy(&word, static_cast<const std::byte*>(from) + done, sizeof word);
    store_shared(reinterpret_cast<decltype(word)*>(at), word);
  });
}

}  // namespace nvm::isolation
