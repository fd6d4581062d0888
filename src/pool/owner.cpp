#include "pool/owner.hpp"

#include <cinttypes>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "pool/superblock.hpp"

namespace nvm {
namespace {

using platform::file_identity;

std::uint64_t check_of(const layout::owner_record& owner) noexcept {
  return checksum(&owner, offsetof(layout::owner_record, check), superblock_seed);
}

// For programs that open many copies of pools whose owners have died.
bool environment_accepts() noexcept {
  const char* const word = ::secure_getenv("HOLDFAST_ACCEPT_COPY");
  return word != nullptr && std::strcmp(word, "1") == 0;
}

}  // namespace

layout::owner_record make_owner(std::uint64_t pid, const file_identity& file) noexcept {
  layout::owner_record owner{};
  if (pid == 0) return owner;
  owner.pid = pid;
  owner.opened_unix_s = platform::unix_s();
  if (file.known != file_identity::how::certain) return owner;
  owner.inode = file.inode;
  owner.birth_ns = file.birth_ns;
  owner.check = check_of(owner);
  return owner;
}

bool is_of_a_copy(const layout::owner_record& owner, const file_identity& file) noexcept {
  // Earlier libraries wrote no identity; a torn record does not count.
  if (owner.inode == 0 || owner.check != check_of(owner)) return false;
  switch (file.known) {
    case file_identity::how::unknown:
      return false;
    case file_identity::how::changing:
      return true;  // such files get no mark with an identity
    case file_identity::how::certain:
      break;
  }
  if (owner.inode != file.inode) return true;
  return owner.birth_ns != 0 && file.birth_ns != 0 && owner.birth_ns != file.birth_ns;
}

status check_not_a_copy(const layout::owner_record& owner, const platform::file& file) noexcept {
  if (owner.pid == 0 && owner.inode == 0) return {};
  const file_identity own = file.identity();
  if (!is_of_a_copy(owner, own) || environment_accepts()) return {};
  return fail(errc::copy,
              "a copy of a pool that was in use, or whose owner had died (process %" PRIu64 " marked inode %" PRIu64
              ", this is inode %" PRIu64
              "): it may be torn; copy the pool when it is closed, or, if it was not used meanwhile, accept this copy "
              "with `holdfast check --accept-copy`",
              owner.pid, owner.inode, own.inode);
}

}  // namespace nvm
