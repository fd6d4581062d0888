// Images of a table of static pointers (static_layout.hpp): two kinds of rows.
//
// Of an announced image all objects have names whose address its code hands on: it was compiled with -fnvm-statics.  A
// word without a type that lies in it and in none of these objects is no pointer, but bytes between others, or what has
// been left on a stack.
#pragma once

#include "object/static_table.hpp"

namespace nvm::object {

inline constexpr layout::static_kind announced_image{3};

constexpr bool is_image(layout::static_kind k) noexcept {
  return k == layout::static_kind::image || k == announced_image;
}
// As key_of(), of either kind.
inline std::string_view image_key_of(const static_object& o) noexcept {
  const std::string_view name = o.name;
  return is_image(o.kind) ? name.substr(0, name.find(' ')) : name;
}

// Says that the image which has this code is one.  Threads: any.
void announce_image(const void* code) noexcept;

}  // namespace nvm::object
