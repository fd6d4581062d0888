// Images that the dynamic linker has loaded into this process: the program, and its shared libraries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace nvm::platform {

struct loaded_image {
  std::string build;          // its build id in hexadecimal digits; empty: the linker gave it none
  std::string path;           // of its file, as the linker knows it; of the program, as the system knows it
  std::uint64_t address = 0;  // where its first segment lies
  std::uint64_t bytes = 0;    // to the end of its last one
};

// In the order in which they were loaded, without images that come from no file (vdso).  May throw std::bad_alloc.
[[nodiscard]] std::vector<loaded_image> loaded_images();

// Whether an address lies in one of them.  Allocates nothing.
[[nodiscard]] bool is_in_image(const void* p) noexcept;

}  // namespace nvm::platform
