#include "pool/place.hpp"

#include <fcntl.h>

#include <mutex>

#include "nvm/nvm.h"
#include "pool/open_pools.hpp"

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
  if (auto s = open_pools::start(); !s) return s.error();
  const std::lock_guard lock{open_pools::guard()};
  // O_PATH: no permission is needed, and a pipe does not wait.
  const auto there = platform::file::open(path, O_PATH);
  if (there) return detect_medium(*there);
  if (there.error() != errc::not_found) return there.error();
  // A new file has what its folder hands down.  The folder itself is never DAX, but file systems with DAX (ext4, XFS)
  // have files without names.
  const auto new_one = platform::file_for_questions(path);
  return new_one ? detect_medium(*new_one) : result<std::uint32_t>{new_one.error()};
}

}  // namespace nvm
