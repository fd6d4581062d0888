// Whose a pool's file is: the mark that an owner leaves in it, and how a copy made meanwhile is told by it.
//
// The mark is written when a pool is opened for change and cleared when it is released, closed or not, while all of the
// file is what it says.  With it goes the identity of the file: its inode number, and the time of its birth where the
// file system has that.  A file with a mark in which another file's identity stands is a copy that was made while the
// pool was in use, or after its owner died.  Of such a copy nobody can say whether its parts are of one moment, so it
// is refused until somebody who knows accepts it.
//
// Plain writes, never synced: after a power cut an old mark may stand, or none, in a file that is not in use.  It is
// never a reason to refuse the file itself.  Not recognised: a copy that was begun before the pool was opened, one that
// was written over the file it came from, and files on file systems without numbers of their own (file_identity).
#pragma once

#include "platform/platform.hpp"
#include "pool/pool_layout.hpp"

namespace nvm {

// The mark of this process; pid 0: none.
[[nodiscard]] layout::owner_record make_owner(std::uint64_t pid, const platform::file_identity& file) noexcept;

// Whether the record was written into another file than the one with this identity.
[[nodiscard]] bool is_of_a_copy(const layout::owner_record& owner, const platform::file_identity& file) noexcept;

// errc::copy with what was found and what to do, if it is one and the environment variable HOLDFAST_ACCEPT_COPY is
// not 1.
[[nodiscard]] status check_not_a_copy(const layout::owner_record& owner, const platform::file& file) noexcept;

}  // namespace nvm
