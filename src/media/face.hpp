// Who keeps pages of an image elsewhere while nobody uses them (src/tier), as a medium calls it.
#pragma once

#include <cstddef>

#include "base/base.hpp"

namespace nvm {

class image_media;

struct image_guest {
  void* context = nullptr;
  // The medium that knows which pages the file has, before its first record; nullptr: it is gone.
  void (*meet)(void* context, image_media* medium) noexcept = nullptr;
  // Bytes stay in memory from one call to the other: a system call reads them there.
  status (*hold)(void* context, const void* p, std::size_t bytes) noexcept = nullptr;
  void (*let_go)(void* context, const void* p, std::size_t bytes) noexcept = nullptr;
};

}  // namespace nvm
