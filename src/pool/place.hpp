// The medium that the place of a file says: tmpfs -> shm, DAX -> dax, else ssd.
#pragma once

#include <cstdint>

#include "base/base.hpp"
#include "platform/platform.hpp"

namespace nvm {

// An enum nvm_medium.  errc::system.
[[nodiscard]] result<std::uint32_t> detect_medium(const platform::file& file) noexcept;
// The same of the file at `path`, whatever it is, or of the one that could be made there, of which no name is seen.
// Takes open_pools::guard().  errc::invalid without a path, not_found without its folder, no_space, no_memory, system.
[[nodiscard]] result<std::uint32_t> detect_medium(const char* path) noexcept;

}  // namespace nvm
