// The types of a program beside those of a pool: what is new, what is the same, what has another layout.
//
// A layout that differs is harmless where every byte keeps its meaning: a field has a new name that no field had
// before, or a pointer is now declared NVM_PTR, or with its type.  A field that is now NVM_RESET, of the same name, is
// harmless where the pool is being opened, since it is zeroed then, unless it was a pointer into the pool, which may be
// counted.  Any other difference would let the program misread old objects; the caller finds out whether there are any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "object/type_map.hpp"
#include "object/type_map_writer.hpp"

namespace nvm::object {

struct type_difference {
  const layout::type_record* stored;
  const layout::type_record* ours;
};

struct type_comparison {
  bool changes = false;  // the pool's map has to be written
  // In the order of their ids; objects of these types, or of aliases, mean something else to this program.
  std::vector<type_difference> differing;
};
enum class when { at_open, later };
// May throw std::bad_alloc.
[[nodiscard]] type_comparison compare_types(const type_map& stored, const type_map& ours, when seen = when::at_open);

// The records of both maps; ours where both have one.  May throw std::bad_alloc.
[[nodiscard]] type_map_writer::words merge_types(const type_map& stored, const type_map& ours);

// Whether objects that carry `type` may be of a type that differs: the type differs, is an alias of one that differs,
// or is unknown to both maps and not the library's own.
[[nodiscard]] bool concerns(const type_comparison& c, const type_map& stored, std::uint32_t type) noexcept;

// "Node: 40 bytes {next: pointer at 0, data: 32 char at 8}", cut to `bytes`.
void describe(const layout::type_record& r, char* text, std::size_t bytes) noexcept;

}  // namespace nvm::object
