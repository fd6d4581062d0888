// A type map as it is read: bytes that may be anything, in a pool or in a program, every field checked before use.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/base.hpp"
#include "object/type_map_layout.hpp"

namespace nvm::object {

// Views into the bytes that were read, which must stay.
class type_map {
 public:
  // Checks all of the map that begins at `bytes`, a multiple of 8, and has at most `available` bytes with what follows.
  // errc::corrupt says what was found where; places are counted from `place`, the offset in its file.  errc::no_memory.
  [[nodiscard]] static result<type_map> read(const std::byte* bytes, std::uint64_t available,
                                             std::uint64_t place = 0) noexcept;

  type_map() noexcept = default;  // of no types
  [[nodiscard]] const std::vector<const layout::type_record*>& records() const noexcept { return records_; }
  // By id; nullptr: there is none.
  [[nodiscard]] const layout::type_record* find(std::uint32_t id) const noexcept;
  // The same through an alias.
  [[nodiscard]] const layout::type_record* canonical(std::uint32_t id) const noexcept {
    const layout::type_record* r = find(id);
    return r == nullptr || r->canonical == r->id ? r : find(r->canonical);
  }

  // The bytes of the table of static pointers that follows it (static_table.hpp), unchecked; empty: none.
  [[nodiscard]] std::span<const std::byte> statics() const noexcept { return statics_; }
  // Map and table as they were read, and where.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::uint64_t place() const noexcept { return place_; }

 private:
  std::span<const std::byte> bytes_, statics_;
  std::uint64_t place_ = 0;
  std::vector<const layout::type_record*> records_;  // by ascending id
};

// The fields of a record that was read.
inline const layout::type_field* fields_of(const layout::type_record& r) noexcept {
  return reinterpret_cast<const layout::type_field*>(&r + 1);
}
inline const char* text_at(const layout::type_record& r, std::uint32_t place) noexcept {
  return reinterpret_cast<const char*>(&r) + place;
}
inline const char* name_of(const layout::type_record& r) noexcept { return text_at(r, r.name); }
// The tag of a tagged_union (object/union_tag.hpp); empty for all other fields.
inline const char* tag_of(const layout::type_record& r, const layout::type_field& f) noexcept {
  return f.kind == layout::field_kind::tagged_union ? text_at(r, f.target) : "";
}

}  // namespace nvm::object
