// Reads the superblock of a pool's file, which another process may have open.
#pragma once

#include "base/base.hpp"
#include "platform/platform.hpp"
#include "pool/superblock.hpp"

namespace nvm {

struct header_read {
  layout::superblock superblock;
  platform::file_facts facts;
};
// Takes no lock, changes nothing. Length and superblock are of two moments: while a pool grows or is cut they may
// contradict each other, so what fails is read again as long as it changes.  Errors: as of pick_superblock(), and
// errc::system, and not_a_pool for what is no regular file.
[[nodiscard]] result<header_read> read_header(const platform::file& file) noexcept;

}  // namespace nvm
