// A table of static pointers (static_layout.hpp) as it is read: bytes that may be anything, every field checked before
// use; that of a pool, or of this program.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.hpp"
#include "object/static_layout.hpp"
#include "object/type_map_writer.hpp"

namespace nvm::object {

struct static_object {
  layout::static_kind kind = layout::static_kind::vacant;
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  std::string name{};  // of an image: build id, space, path

  friend bool operator==(const static_object&, const static_object&) = default;
};

// The build id of an image, or the name of an object: what tells that two rows mean the same.
inline std::string_view key_of(const static_object& o) noexcept {
  const std::string_view name = o.name;
  return o.kind == layout::static_kind::image ? name.substr(0, name.find(' ')) : name;
}

class static_table {
 public:
  // A table without rows, at rest.
  static_table() noexcept = default;
  // Rows keep their numbers.  May throw std::bad_alloc.
  static_table(std::vector<static_object> rows, layout::static_state state, std::uint32_t mark = 0);

  // Checks all of a table of `bytes` bytes; errc::corrupt says what was found where, places counted from `place`.
  [[nodiscard]] static result<static_table> read(std::span<const std::byte> bytes, std::uint64_t place = 0) noexcept;
  // Its bytes, a multiple of 8 of them.  May throw std::bad_alloc.
  [[nodiscard]] std::vector<std::uint64_t> bytes() const;

  [[nodiscard]] const std::vector<static_object>& rows() const noexcept { return rows_; }
  [[nodiscard]] layout::static_state state() const noexcept { return state_; }
  // The mark of tokens; 0: none, they are those of layout::token_of().
  [[nodiscard]] std::uint32_t mark() const noexcept { return mark_; }
  // Whether programs have ever named anything here.
  [[nodiscard]] bool none() const noexcept { return rows_.empty(); }

  // The row that means the same; vacant rows do not count.
  [[nodiscard]] std::optional<std::uint32_t> find(const static_object& o) const noexcept;
  // Whether it has all names of the other table, with the same meaning.
  [[nodiscard]] bool says_all_of(const static_table& other) const noexcept;
  [[nodiscard]] bool says_the_same(const static_table& other) const noexcept {
    return says_all_of(other) && other.says_all_of(*this);
  }

  // What an address leads to: the object, and the image around it; either may be missing.
  struct around {
    std::optional<layout::static_place> object, image;
  };
  [[nodiscard]] around find_around(std::uint64_t address) const noexcept;

  // The token of a place: of a row that is not vacant, and not beyond the end of its object.
  [[nodiscard]] std::uint64_t token_of(const layout::static_place& p) const noexcept;
  [[nodiscard]] std::optional<layout::static_place> place_of_token(std::uint64_t value) const noexcept;
  // Whether a mark has room for all places.
  [[nodiscard]] bool fits_mark() const noexcept;

 private:
  // The rows that mean the same, by number; texts of the program may be in several places.
  [[nodiscard]] std::span<const std::uint32_t> rows_of(const static_object& o) const noexcept;

  std::vector<static_object> rows_;
  std::vector<std::uint32_t> by_key_;      // rows by kind and key, the first of equal ones first
  std::vector<std::uint32_t> by_address_;  // objects with an address, by that
  std::vector<std::uint32_t> images_;
  std::vector<std::uint64_t> starts_;  // with a mark: of each row, its first place; and the end
  std::uint32_t mark_ = 0;
  layout::static_state state_ = layout::static_state::at_rest;
};

// A type map (type_map_layout.hpp) with such a table after it; empty: with none.  May throw std::bad_alloc.
[[nodiscard]] type_map_writer::words with_statics(type_map_writer::words map, std::span<const std::byte> table);

}  // namespace nvm::object
