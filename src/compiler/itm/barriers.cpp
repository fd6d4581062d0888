// Loads and stores of compiled transactions: _ITM_R*, _ITM_W* and _ITM_L* for each of the ABI's types.
//
// R read, RaR after a read, RaW after a write, RfW for a later write; W write, WaR after a read, WaW after a write: the
// hints say what the transaction did with the place before. The STM needs no hint, since it locks what it writes and
// knows its own locks at once: all reads are one function, and all writes are one.
#include <immintrin.h>

#include <cstring>
#include <new>
#include <type_traits>

#include "compiler/itm/guard.hpp"
#include "compiler/itm/transaction.hpp"

namespace nvm::itm {
namespace {

// Significant bytes of a T.
template <class T>
constexpr std::size_t meaning = sizeof(T);
template <>
constexpr std::size_t meaning<long double> = 10;  // the rest is padding, and not always written

template <class T>
bool aligned(const T* p) noexcept {
  return reinterpret_cast<std::uintptr_t>(p) % sizeof(T) == 0;
}

// always_inline: the call's caller is the program, whose frames the stack pointer is compared with.
template <class T>
[[gnu::always_inline]] inline void read(const T* p, T* to) noexcept {
  thread_state& t = this_thread;
  if (is_own(t, p)) {
    std::memcpy(to, p, sizeof(T));
    return;
  }
  if constexpr (sizeof(T) <= 8 && meaning<T> == sizeof(T)) {
    if (aligned(p)) {
      if constexpr (sizeof(T) == 8) {
        const std::uint64_t v = nvm_stm_load64(t.stm, reinterpret_cast<const std::uint64_t*>(p));
        std::memcpy(to, &v, sizeof v);
      } else if constexpr (sizeof(T) == 4) {
        const std::uint32_t v = nvm_stm_load32(t.stm, reinterpret_cast<const std::uint32_t*>(p));
        std::memcpy(to, &v, sizeof v);
      } else if constexpr (sizeof(T) == 2) {
        const std::uint16_t v = nvm_stm_load16(t.stm, reinterpret_cast<const std::uint16_t*>(p));
        std::memcpy(to, &v, sizeof v);
      } else {
        const std::uint8_t v = nvm_stm_load8(t.stm, reinterpret_cast<const std::uint8_t*>(p));
        std::memcpy(to, &v, sizeof v);
      }
      return;
    }
  }
  nvm_stm_read(t.stm, to, p, meaning<T>);
}

template <class T>
[[gnu::always_inline]] inline void write(T* p, const T* from) noexcept {
  thread_state& t = this_thread;
  if (is_own(t, p)) {
    keep_own(t, p, meaning<T>);
    std::memcpy(p, from, meaning<T>);
    return;
  }
  if (t.irrevocable) [[unlikely]] {
    const guard_lifted lifted;
    nvm_stm_write(t.stm, p, from, meaning<T>);
    return;
  }
  if constexpr (sizeof(T) <= 8 && meaning<T> == sizeof(T)) {
    if (aligned(p)) {
      std::conditional_t<sizeof(T) == 8, std::uint64_t,
                         std::conditional_t<sizeof(T) == 4, std::uint32_t,
                                            std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint8_t>>>
          v;
      std::memcpy(&v, from, sizeof v);
      if constexpr (sizeof(T) == 8) nvm_stm_store64(t.stm, reinterpret_cast<std::uint64_t*>(p), v);
      if constexpr (sizeof(T) == 4) nvm_stm_store32(t.stm, reinterpret_cast<std::uint32_t*>(p), v);
      if constexpr (sizeof(T) == 2) nvm_stm_store16(t.stm, reinterpret_cast<std::uint16_t*>(p), v);
      if constexpr (sizeof(T) == 1) nvm_stm_store8(t.stm, reinterpret_cast<std::uint8_t*>(p), v);
      return;
    }
  }
  nvm_stm_write(t.stm, p, from, meaning<T>);
}

// The program changes [p, p + n), which only its thread uses, by plain stores from here on.
void log(const void* p, std::size_t n) noexcept try {
  thread_state& t = this_thread;
  // Frames of the transaction die with it.
  if (!t.inner && in_own_frames(t, reinterpret_cast<std::uintptr_t>(p))) return;
  t.rest->journal.keep(p, n);
} catch (const std::bad_alloc&) {
  fatal("no memory to keep %zu bytes", n);
}

}  // namespace
}  // namespace nvm::itm

namespace itm = nvm::itm;

// Types of the ABI as they are passed, which for C's complex numbers is not std::complex.
using type_U1 = std::uint8_t;
using type_U2 = std::uint16_t;
using type_U4 = std::uint32_t;
using type_U8 = std::uint64_t;
using type_F = float;
using type_D = double;
using type_E = long double;
using type_CF = __complex__ float;
using type_CD = __complex__ double;
using type_CE = __complex__ long double;
using type_M64 = int __attribute__((vector_size(8), may_alias));
using type_M128 = __m128;
using type_M256 = __m256;

#define ITM_READ(target, name, T)                     \
  target NVM_API T _ITM_##name(const T* p) noexcept { \
    T value;                                          \
    itm::read(p, &value);                             \
    return value;                                     \
  }
#define ITM_WRITE(target, name, T) \
  target NVM_API void _ITM_##name(T* p, T value) noexcept { itm::write(p, &value); }
#define ITM_TYPE(target, letters)                 \
  ITM_READ(target, R##letters, type_##letters)    \
  ITM_READ(target, RaR##letters, type_##letters)  \
  ITM_READ(target, RaW##letters, type_##letters)  \
  ITM_READ(target, RfW##letters, type_##letters)  \
  ITM_WRITE(target, W##letters, type_##letters)   \
  ITM_WRITE(target, WaR##letters, type_##letters) \
  ITM_WRITE(target, WaW##letters, type_##letters) \
  NVM_API void _ITM_L##letters(const type_##letters* p) noexcept { itm::log(p, sizeof *p); }

extern "C" {
ITM_TYPE(, U1)
ITM_TYPE(, U2)
ITM_TYPE(, U4)
ITM_TYPE(, U8)
ITM_TYPE(, F)
ITM_TYPE(, D)
ITM_TYPE(, E)
ITM_TYPE(, CF)
ITM_TYPE(, CD)
ITM_TYPE(, CE)
ITM_TYPE(, M64)
ITM_TYPE(, M128)
ITM_TYPE([[gnu::target("avx")]], M256)

NVM_API void _ITM_LB(const void* p, std::size_t n) noexcept { itm::log(p, n); }
}
