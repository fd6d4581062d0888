#include "pool/place.hpp"

#include <fcntl.h>

#include "nvm/nvm.h"

namespace nvm {

result<std::uint32_t> detect_medium(const platform::file& file) noexcept {
  const auto kind = file.file_system();
  if (!kind) return kind.error();
  switch (*kind) {
    case platform::file_system_kind::tmpfs:
      return std::uint32_t{NVM_MEDIUM_SHM};
    case platform::file_system_kind::dax:
      return std::uint32_t{NVM_MEDIUM_DAX};
    case platform::file_system_kind::other:
      break;
  }
  return std::uint32_t{NVM_MEDIUM_SSD};
}

result<std::uint32_t> detect_medium(const char* path) noexcept {
  if (path == nullptr || *path == 0) return fail(errc::invalid, "a pool needs a path");
  for (bool again = true;; again = false) {
    // O_PATH: no permission is needed, and a pipe does not wait.
    const auto there = platform::file::open(path, O_PATH);
    if (there) return detect_medium(*there);
    if (there.error() != errc::not_found) return there.error();
    // A new file has what its folder hands down.
    platform::pending_name name;
    const auto made = name.begin(path, 0600);
    if (made) return detect_medium(*made);
    if (made.error() != errc::exists || !again) return made.error();
  }
}

}  // namespace nvm
