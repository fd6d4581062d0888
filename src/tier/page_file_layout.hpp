// The second file of a pool: what is where.  docs/format.md states every byte.
//
//   0              header: which pool, which file; constant
//   512            state: how many batches it has
//   words_offset   a word for each data page of the pool's capacity
//   slots_offset   pages, compressed or not, in units of 512 bytes; to the end of the file
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/base.hpp"

namespace nvm::layout {

inline constexpr std::uint64_t page_file_magic = 0x3247'5045'5357'4648;  // "HFWSEPG2" in file order
inline constexpr std::uint64_t page_file_state_magic = 0x5441'5453'5357'4648;
inline constexpr std::uint32_t page_file_version = 1;
inline constexpr std::uint64_t page_file_unit = sector_bytes;
inline constexpr std::uint64_t page_file_units_max = std::uint64_t{1} << 40;

struct page_file_header {
  std::uint64_t magic;
  std::uint32_t version;  // greater than ours: refuse
  std::uint32_t page_bytes;
  std::uint8_t pool_uuid[16];
  std::uint8_t uuid[16];  // of this file
  std::uint64_t pages;    // words
  std::uint64_t words_offset;
  std::uint64_t slots_offset;
  std::uint64_t created_unix_s;
  std::uint64_t reserved[53];  // zero
  std::uint64_t crc;           // XXH3 of all before, seeded with the magic
};
static_assert(sizeof(page_file_header) == sector_bytes && offsetof(page_file_header, crc) == 504);

// One sector, written as a whole.
struct page_file_state {
  std::uint64_t magic;
  std::uint64_t sequence;      // of the newest batch
  std::uint64_t reserved[61];  // zero
  std::uint64_t crc;           // XXH3 of all before, seeded with the magic
};
static_assert(sizeof(page_file_state) == sector_bytes);

enum class page_coding : std::uint8_t { none = 0, zeros = 1, plain = 2, lz4 = 3, zstd = 4 };
inline constexpr page_coding last_page_coding = page_coding::zstd;

// Place of a page that is a hole of the fast file; the word of any other page may be stale, and is not read. All zero:
// the page was never written, and is zeros.
struct page_word {
  std::uint64_t place;     // bits 0 to 39: first unit; 40 to 55: bytes from there on; 56 to 63: page_coding
  std::uint64_t sum;       // of the page's bytes: XXH3, seeded with the page's number and the file's uuid; 0 of zeros
  std::uint64_t sequence;  // of its batch
  std::uint64_t check;     // XXH3 of all before, with the same seed
};
static_assert(sizeof(page_word) == 32 && sector_bytes % sizeof(page_word) == 0);
static_assert(std::has_unique_object_representations_v<page_word> &&
              std::has_unique_object_representations_v<page_file_header>);

struct page_place {
  std::uint64_t unit = 0;
  std::uint64_t bytes = 0;
  page_coding coding = page_coding::none;
  [[nodiscard]] constexpr std::uint64_t units() const noexcept { return ceil_div(bytes, page_file_unit); }
};
[[nodiscard]] constexpr std::uint64_t pack(const page_place& p) noexcept {
  return p.unit | p.bytes << 40 | static_cast<std::uint64_t>(p.coding) << 56;
}
[[nodiscard]] constexpr page_place unpack_place(std::uint64_t word) noexcept {
  return {word & (page_file_units_max - 1), word >> 40 & 0xFFFF, static_cast<page_coding>(word >> 56)};
}

}  // namespace nvm::layout
