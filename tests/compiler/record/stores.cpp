#include "stores.hpp"

#include <immintrin.h>

#include <atomic>
#include <cstring>

#include "nvm/record.h"

namespace nvm::record_test {
namespace {

using bytes = std::byte*;

template <class T>
[[gnu::noinline]] void scalar(bytes to) {
  *reinterpret_cast<T*>(to) = static_cast<T>(0x0102030405060708ULL);
}
[[gnu::noinline]] void misaligned(bytes to) {
  const std::uint64_t v = 0x0102030405060708ULL;
  std::memcpy(to + 61, &v, 8);
}
[[gnu::noinline]] void stream_word(bytes to) {
  _mm_stream_si64(reinterpret_cast<long long*>(to), 0x0102030405060708LL);
}
[[gnu::noinline]] void merged(bytes to) {
  to[0] = std::byte{1};
  to[1] = std::byte{2};
  to[2] = std::byte{3};
  to[3] = std::byte{4};
}
struct record {
  std::uint64_t words[12];
};
record source{{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}};
[[gnu::noinline]] void structure(bytes to) { *reinterpret_cast<record*>(to) = source; }
volatile std::size_t length = 100;
[[gnu::noinline]] void copy(bytes to) {
  static const char text[200] = "0123456789";
  std::memcpy(to + 3, text, length);
}
[[gnu::noinline]] void move_up(bytes to) {
  std::memset(to, 1, 40);
  std::memmove(to + 8, to, 40);
}
[[gnu::noinline]] void fill(bytes to) { std::memset(to + 1, 7, length); }
[[gnu::noinline]] void string(bytes to) {
  static const char* volatile text = "eleven char";
  std::strcpy(reinterpret_cast<char*>(to), text);
}
[[gnu::noinline]] void atomic_store(bytes to) {
  std::atomic_ref<std::uint64_t>{*reinterpret_cast<std::uint64_t*>(to)}.store(5, std::memory_order_release);
}
[[gnu::noinline]] void exchange(bytes to) {
  std::atomic_ref<std::uint32_t>{*reinterpret_cast<std::uint32_t*>(to)}.exchange(5);
}
[[gnu::noinline]] void compare_exchange(bytes to) {
  std::uint64_t was = 0xAAAAAAAAAAAAAAAAULL;
  std::atomic_ref<std::uint64_t>{*reinterpret_cast<std::uint64_t*>(to)}.compare_exchange_strong(was,
                                                                                                0x0102030405060708);
}
[[gnu::noinline]] void failed_exchange(bytes to) {
  std::uint64_t was = 1;
  std::atomic_ref<std::uint64_t>{*reinterpret_cast<std::uint64_t*>(to)}.compare_exchange_strong(was, 2);
}
[[gnu::noinline]] void fetch_add(bytes to) {
  std::atomic_ref<std::uint64_t>{*reinterpret_cast<std::uint64_t*>(to)}.fetch_add(0x0101010101010101ULL);
}
[[gnu::noinline]] void same_address_twice(bytes to) {
  *reinterpret_cast<volatile std::uint64_t*>(to) = 1;
  *reinterpret_cast<volatile std::uint64_t*>(to) = 0x0102030405060708ULL;
}
[[gnu::noinline]] void loop(bytes to) {
  auto* words = reinterpret_cast<std::uint64_t*>(to);
  for (std::size_t i = 0; i < 64; ++i) words[i] = i * 0x0101010101010101ULL;
}
[[gnu::noinline, gnu::target("avx2")]] void vector_32(bytes to) {
  _mm256_store_si256(reinterpret_cast<__m256i*>(to), _mm256_set1_epi8(3));
}
[[gnu::noinline, gnu::target("avx2")]] void stream_32(bytes to) {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), _mm256_set1_epi8(3));
}
[[gnu::noinline, gnu::target("avx512f")]] void vector_64(bytes to) {
  _mm512_storeu_si512(to + 5, _mm512_set1_epi32(3));
}
[[gnu::noinline, gnu::target("avx512f")]] void stream_64(bytes to) {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_set1_epi32(3));
}
[[gnu::noinline, gnu::target("avx512f,avx512vl,avx512bw")]] void masked_lanes(bytes to) {
  _mm512_mask_storeu_epi64(to, 0b10110001, _mm512_set1_epi8(3));
}
[[gnu::noinline, gnu::target("avx512f,avx512vl,avx512bw")]] void masked_bytes(bytes to) {
  _mm512_mask_storeu_epi8(to, 0x8000'0000'0000'0F01ULL, _mm512_set1_epi8(3));
}
[[gnu::noinline, gnu::target("avx2")]] void masked_by_sign(bytes to) {
  const __m256i mask = _mm256_setr_epi32(-1, 0, -1, -1, 0, 0, 0, -1);
  _mm256_maskstore_epi32(reinterpret_cast<int*>(to), mask, _mm256_set1_epi8(3));
}
[[gnu::noinline]] void masked_stream(bytes to) {
  const __m128i mask = _mm_setr_epi8(-1, 0, 0, -1, 0, 0, 0, 0, -1, 0, 0, 0, 0, 0, 0, 0);
  _mm_maskmoveu_si128(_mm_set1_epi8(3), mask, reinterpret_cast<char*>(to));
}
[[gnu::noinline, gnu::target("avx512f")]] void scatter(bytes to) {
  const __m512i at = _mm512_setr_epi64(0, 9, 18, 27, 36, 45, 54, 63);
  _mm512_mask_i64scatter_epi64(to, 0b11001101, at, _mm512_set1_epi64(3), 8);
}
[[gnu::noinline, gnu::target("avx512f")]] void compress(bytes to) {
  _mm512_mask_compressstoreu_epi64(to, 0b01100101, _mm512_set1_epi64(3));
}
[[gnu::noinline, gnu::target("avx512f")]] void truncate(bytes to) {
  _mm512_mask_cvtepi64_storeu_epi8(to, 0b00001111, _mm512_set1_epi64(3));
}

constexpr std::uint32_t streaming = NVM_REC_NON_TEMPORAL;
constexpr way all[] = {
    {"1 byte", scalar<std::uint8_t>, 1, 1, nullptr, NVM_REC_PLAIN},
    {"2 bytes", scalar<std::uint16_t>, 2, 1, nullptr, NVM_REC_PLAIN},
    {"4 bytes", scalar<std::uint32_t>, 4, 1, nullptr, NVM_REC_PLAIN},
    {"8 bytes", scalar<std::uint64_t>, 8, 1, nullptr, NVM_REC_PLAIN},
    {"8 bytes over two lines", misaligned, 8, 1, nullptr, any_kind},
    {"non-temporal word", stream_word, 8, 1, nullptr, NVM_REC_PLAIN | streaming},
    {"merged bytes", merged, 4, 1, nullptr, any_kind},
    {"structure", structure, 96, 1, nullptr, any_kind},
    {"memcpy", copy, 100, 1, nullptr, NVM_REC_COPY},
    {"memmove", move_up, 48, 2, nullptr, any_kind},
    {"memset", fill, 100, 1, nullptr, NVM_REC_COPY},
    {"strcpy", string, 12, 1, nullptr, NVM_REC_COPY},
    {"atomic store", atomic_store, 8, 1, nullptr, NVM_REC_ATOMIC},
    {"exchange", exchange, 4, 1, nullptr, NVM_REC_RMW},
    {"compare-exchange", compare_exchange, 8, 1, nullptr, NVM_REC_RMW},
    {"failed compare-exchange", failed_exchange, 0, 0, nullptr, NVM_REC_RMW},
    {"fetch-add", fetch_add, 8, 1, nullptr, NVM_REC_RMW},
    {"same address twice", same_address_twice, 8, 2, nullptr, NVM_REC_PLAIN},
    {"loop of 512 bytes", loop, 512, 1, nullptr, any_kind},
    {"32-byte vector", vector_32, 32, 1, "avx2", NVM_REC_VECTOR},
    {"32-byte non-temporal vector", stream_32, 32, 1, "avx2", NVM_REC_VECTOR | streaming},
    {"64-byte vector over two lines", vector_64, 64, 1, "avx512f", NVM_REC_VECTOR},
    {"64-byte non-temporal vector", stream_64, 64, 1, "avx512f", NVM_REC_VECTOR | streaming},
    {"masked lanes", masked_lanes, 32, 1, "avx512bw", any_kind},
    {"masked bytes", masked_bytes, 6, 1, "avx512bw", any_kind},
    {"lanes masked by sign", masked_by_sign, 16, 1, "avx2", any_kind},
    {"non-temporal masked bytes", masked_stream, 3, 1, nullptr, NVM_REC_MASKED | streaming},
    {"scatter", scatter, 40, 1, "avx512f", any_kind},
    {"compress", compress, 32, 1, "avx512f", any_kind},
    {"truncating store", truncate, 4, 1, "avx512f", any_kind},
};

}  // namespace

std::span<const way> ways() { return all; }

void store_by_assembly(std::byte* to) { __asm__ volatile("movb $1, (%0)" : : "r"(to) : "memory"); }

NVM_NO_RECORD void store_excluded(std::byte* to) { *reinterpret_cast<std::uint64_t*>(to) = 1; }

void loop_for_ever() {
  volatile bool go = true;
  while (go) {
  }
}

}  // namespace nvm::record_test
