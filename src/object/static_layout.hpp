// The table of static pointers, format 1: what in programs NVM_STATIC_PTR fields lead to, and words of objects of
// unknown type where programs say that these may lead there (feature_untyped_statics). docs/format.md states every
// byte.
//
//   table    header | rows
//   row      head | name, with a zero | zeros up to a multiple of 8
//
// It follows the type map of a pool, in the same object, and is replaced with that, in one transaction.
//
// While a relocation is under way a field may hold a *token* in place of an address: the number of a row, and how far
// into its object.  No address of any program looks like one: its highest bits are neither all 0 nor all 1.  A word of
// unknown type may hold anything, so where there are such words tokens begin with a mark of 32 bits that no word of the
// pool began with before; the lower half is a place in all rows one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

namespace nvm::layout {

inline constexpr std::uint64_t static_table_magic = 0x5343'4954'4154'5348;  // "HSTATICS" in file order
inline constexpr std::uint64_t static_address_end = std::uint64_t{1} << 56;

// at_rest: all fields hold addresses that the rows tell.  passing: fields hold such addresses or tokens.
enum class static_state : std::uint32_t { at_rest = 1, passing = 2 };

struct static_table_header {
  std::uint64_t magic;
  std::uint64_t checksum;  // XXH3 of all bytes after this field, seed static_table_magic
  std::uint32_t bytes;     // of the whole table, multiple of 8
  std::uint32_t rows;
  static_state state;
  std::uint32_t mark;  // upper half of all tokens, only while passing; 0: none
};
static_assert(sizeof(static_table_header) == 32 && std::has_unique_object_representations_v<static_table_header>);
inline constexpr std::size_t static_table_checked_at = 16;

// vacant: no field leads there.  object: a function, or a constant or static object, by the name that programs give it.
// image: all of a program or of a shared library, by its build id, a space, and the path of its file: objects without a
// name are found again in the same build.
enum class static_kind : std::uint32_t { vacant = 0, object = 1, image = 2 };

struct static_row {
  std::uint32_t bytes;  // of the row, multiple of 8
  static_kind kind;
  std::uint64_t address;  // 0: the program says that it is gone for good: pointers that led there are null
  std::uint64_t size;     // bytes; a field may also lead to the end
};
static_assert(sizeof(static_row) == 24 && std::has_unique_object_representations_v<static_row>);
inline constexpr std::uint32_t static_rows_max = 1U << 20;
inline constexpr std::uint64_t static_size_max = std::uint64_t{1} << 35;
inline constexpr std::size_t static_name_max = 1024;  // bytes

struct static_place {
  std::uint32_t row = 0;
  std::uint64_t offset = 0;

  friend constexpr bool operator==(const static_place&, const static_place&) = default;
};
inline constexpr unsigned static_token_shift = 36;
inline constexpr std::uint64_t static_token_mark = std::uint64_t{0x5A} << 56;

constexpr std::uint64_t token_of(const static_place& p) noexcept {
  return static_token_mark | std::uint64_t{p.row} << static_token_shift | p.offset;
}
// nullopt: it is no token.
constexpr std::optional<static_place> place_of_token(std::uint64_t value) noexcept {
  if (value >> 56 != static_token_mark >> 56) return std::nullopt;
  return static_place{static_cast<std::uint32_t>(value >> static_token_shift) & (static_rows_max - 1),
                      value & ((std::uint64_t{1} << static_token_shift) - 1)};
}
// Whether tokens may begin with the mark: no address does.
constexpr bool is_static_mark(std::uint32_t mark) noexcept { return mark >> 24 != 0 && mark >> 24 != 0xFF; }
static_assert(place_of_token(token_of({77, 12}))->row == 77 && !place_of_token(static_address_end - 1));

}  // namespace nvm::layout
