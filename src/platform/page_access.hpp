// Access to pages of a mapping, and the system's limit of mappings in a process.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/base.hpp"

namespace nvm::platform {

enum class page_access : std::uint8_t { none, read, all };

// Sets the access of whole pages of the machine. errc::no_memory: the kernel would have to split a mapping, and allows
// no more of them; errc::system.
[[nodiscard]] status set_page_access(std::byte* at, std::uint64_t bytes, page_access to) noexcept;

// vm.max_map_count, or the kernels' default if it cannot be read.
[[nodiscard]] std::uint64_t mappings_max() noexcept;

}  // namespace nvm::platform
