// The name of the field that holds a byte of an object: "slots[2].first"; of an array of objects "[3].next".
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "object/type_map.hpp"

namespace nvm::object {

// A field as a type map has it, with its name at hand.
struct named_field {
  std::string_view name;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 1;  // of an element
  std::uint64_t count = 1;
  std::uint32_t inner = 0;
};

// `size` is that of the type.  May throw std::bad_alloc.
[[nodiscard]] inline std::string field_name_at(std::span<const named_field> fields, std::uint64_t size,
                                               std::uint64_t at) {
  std::string name;
  const bool ends_open = std::any_of(fields.begin(), fields.end(), [](const named_field& f) { return f.count == 0; });
  if (size != 0 && at >= size && !ends_open) {
    name = "[" + std::to_string(at / size) + "]";
    at %= size;
  }
  std::string_view around;
  for (std::size_t i = 0, end = fields.size(); i < end;) {
    const named_field& f = fields[i];
    const std::uint64_t bytes = std::max<std::uint64_t>(f.bytes, 1);
    const std::uint64_t element = at < f.offset ? 0 : (at - f.offset) / bytes;
    if (at < f.offset || (f.count != 0 && element >= f.count)) {
      i += 1 + f.inner;
      continue;
    }
    // Names of inner fields begin with that of the structure and a dot.
    std::string_view own = f.name;
    if (!around.empty() && own.starts_with(around) && own.size() > around.size()) own.remove_prefix(around.size() + 1);
    if (!name.empty()) name += '.';
    name += own;
    if (f.count != 1) name += "[" + std::to_string(element) + "]";
    if (f.inner == 0) return name;
    around = f.name;
    at = (at - f.offset) % bytes;
    end = std::min(fields.size(), i + 1 + f.inner);
    ++i;
  }
  return name + "+" + std::to_string(at);
}

// The same for a record that was read.
[[nodiscard]] inline std::string field_name_at(const layout::type_record& r, std::uint64_t at) {
  std::vector<named_field> fields;
  fields.reserve(r.fields);
  for (std::uint32_t i = 0; i < r.fields; ++i) {
    const layout::type_field& f = fields_of(r)[i];
    fields.push_back({text_at(r, f.name), f.offset, f.element_bytes, f.count, f.inner});
  }
  return field_name_at(fields, r.size, at);
}

}  // namespace nvm::object
