// The keeper of an image's cold pages (src/tier), as a medium calls it.
#pragma once

#include <cstddef>

#include "base/base.hpp"

namespace nvm {

class image_media;

struct image_guest {
  void* context = nullptr;
  // Gives it the medium that knows which pages the file has, before its first record; nullptr: the medium is closed.
  void (*meet)(void* context, image_media* medium) noexcept = nullptr;
  // Keeps bytes in memory from one call to the other: a system call reads them there.
  status (*hold)(void* context, const void* p, std::size_t bytes) noexcept = nullptr;
  void (*let_go)(void* context, const void* p, std::size_t bytes) noexcept = nullptr;
  // Drops the contents of whole pages among these bytes from memory; those in the file count, zeros after its end.
  void (*discard)(void* context, const void* p, std::size_t bytes) noexcept = nullptr;
};

}  // namespace nvm
