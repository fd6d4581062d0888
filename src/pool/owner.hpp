// Owner of a pool's file: the mark that a process leaves in it, by which a copy made meanwhile is recognised.
//
// The mark is written when a pool is opened for change, and cleared when it is released, closed or not, while the whole
// file is consistent.  It holds the identity of the file: its inode number, and the time of its birth where the file
// system has that.  A file whose mark holds another file's identity is a copy that was made while the pool was in use,
// or after its owner died. The parts of such a copy may be from different moments, so it is refused until a person
// accepts it.
//
// The mark is written plainly and never synced: after a power cut a file that is not in use may have an old mark, or
// none. A mark is never a reason to refuse the file itself. It does not reveal these copies: one that was begun before
// the pool was opened, one that was written over its own original, and those on file systems without numbers of their
// own (file_identity).
#pragma once

#include "platform/platform.hpp"
#include "pool/pool_layout.hpp"

namespace nvm {

// The mark of this process; pid 0: none.
[[nodiscard]] layout::owner_record make_owner(std::uint64_t pid, const platform::file_identity& file) noexcept;

// Whether the record was written into another file than the one with this identity.
[[nodiscard]] bool is_of_a_copy(const layout::owner_record& owner, const platform::file_identity& file) noexcept;

// errc::copy, with what was found and what to do, for a copy; not if the environment variable HOLDFAST_ACCEPT_COPY is
// 1.
[[nodiscard]] status check_not_a_copy(const layout::owner_record& owner, const platform::file& file) noexcept;

}  // namespace nvm
