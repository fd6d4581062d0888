// Images of a table of static pointers (static_layout.hpp): two kinds of rows.
//
// In an announced image, which was compiled with -fnvm-statics, all objects have names whose address its code hands on.
// A word without a type that leads into the image and into none of these objects is no pointer: it is bytes between
// others, or a value left on a stack.
#pragma once

#include "object/static_table.hpp"

namespace nvm::object {

inline constexpr layout::static_kind announced_image{3};

constexpr bool is_image(layout::static_kind k) noexcept {
  return k == layout::static_kind::image || k == announced_image;
}
// As key_of(), for images of either kind.
inline std::string_view image_key_of(const static_object& o) noexcept {
  const std::string_view name = o.name;
  return is_image(o.kind) ? name.substr(0, name.find(' ')) : name;
}

// Marks the image that has this code as announced.  Threads: any.
void announce_image(const void* code) noexcept;

}  // namespace nvm::object
