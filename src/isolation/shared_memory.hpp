// Memory that other transactions may read or write at the same time: every access is atomic, in naturally aligned
// pieces of up to 8 bytes, and touches exactly the bytes asked for (a neighbour's may be in use without any
// transaction).  Long copies out use wider pieces: their callers check afterwards whether anything changed.
//
// Loads acquire and stores release, which costs nothing here: a reader that sees a new value also sees that the line's
// orec was locked before it was stored, and reads the orec after the value (Boehm, "Can seqlocks get along with
// programming language memory models?").
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/brought_first.hpp"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) || defined(NVM_RECORDED)
#define NVM_LOADS_ARE_WATCHED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define NVM_LOADS_ARE_WATCHED 1
#endif
#endif

namespace nvm::isolation {

template <class T>
[[nodiscard]] inline T load_shared(const T* p) noexcept {
  static_assert(std::is_integral_v<T>);
  return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
template <class T>
inline void store_shared(T* p, T value) noexcept {
  static_assert(std::is_integral_v<T>);
  bring_first(p);
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

namespace detail {
// Copies the first 64, 128, ... of n bytes; returns how many.  By assembly: the compiler knows of no access that
// another thread's store could meet, and moves none across.  Any part of simultaneous stores may be seen; loads acquire
// on this processor.
#if defined(__x86_64__) && !defined(NVM_LOADS_ARE_WATCHED)
inline std::size_t copy_blocks_out(std::byte* to, const std::byte* from, std::size_t n) noexcept {
  constexpr std::size_t block = 64;
  std::size_t done = 0;
  for (; n - done >= block; done += block) {
    asm volatile(
        "movups (%1), %%xmm0\n\tmovups 16(%1), %%xmm1\n\tmovups 32(%1), %%xmm2\n\tmovups 48(%1), %%xmm3\n\t"
        "movups %%xmm0, (%0)\n\tmovups %%xmm1, 16(%0)\n\tmovups %%xmm2, 32(%0)\n\tmovups %%xmm3, 48(%0)"
        :
        : "r"(to + done), "r"(from + done)
        : "memory", "xmm0", "xmm1", "xmm2", "xmm3");
  }
  return done;
}
#else
inline std::size_t copy_blocks_out(std::byte*, const std::byte*, std::size_t) noexcept { return 0; }
#endif
}  // namespace detail

// `to` is private, `from` shared.
inline void copy_out(void* to, const void* from, std::size_t n) noexcept {
  auto* const out = static_cast<std::byte*>(to);
  const auto* const in = static_cast<const std::byte*>(from);
  const std::size_t begun = detail::copy_blocks_out(out, in, n);
  detail::each_piece(in + begun, n - begun, [&](const std::byte* at, std::size_t done, auto word) {
    word = load_shared(reinterpret_cast<const decltype(word)*>(at));
    std::memcpy(out + begun + done, &word, sizeof word);
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
