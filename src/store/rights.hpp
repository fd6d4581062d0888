// Rights of stores: owner, group, and the nine bits that a file has, asked as a file system asks.
//
// Other users are kept out by the file's own mode: a user that may open the pool's file may read all of its bytes.
// Rights of stores separate the work that one process does for several users, and stop mistakes.
#pragma once

#include <cstdint>

#include "base/base.hpp"
#include "platform/platform.hpp"

namespace nvm::stores {

using platform::identity;

struct rights {
  std::uint32_t owner = 0;
  std::uint32_t group = 0;
  std::uint32_t mode = 0;
};
inline constexpr std::uint32_t mode_bits = 0777;
inline constexpr std::uint32_t may_read = 4;
inline constexpr std::uint32_t may_write = 2;

// The bits of the first class that fits: owner, group, others.
[[nodiscard]] inline std::uint32_t bits_for(const rights& r, const identity& who) noexcept {
  if (who.user == r.owner) return r.mode >> 6 & 7;
  if (who.is_in(r.group)) return r.mode >> 3 & 7;
  return r.mode & 7;
}
[[nodiscard]] inline bool is_superuser(const identity& who) noexcept { return who.user == 0; }
[[nodiscard]] inline bool may(const rights& r, const identity& who, std::uint32_t wanted) noexcept {
  return is_superuser(who) || (bits_for(r, who) & wanted) == wanted;
}
// Names belong to the owner, as in a folder with the sticky bit: the right to write to a store is no right to delete
// it.
[[nodiscard]] inline bool owns(const rights& r, const identity& who) noexcept {
  return is_superuser(who) || who.user == r.owner;
}
// As chown(2): the superuser may do everything, an owner may give a store to one of the owner's groups.
[[nodiscard]] inline bool may_give(const rights& r, const identity& who, std::uint32_t owner,
                                   std::uint32_t group) noexcept {
  if (is_superuser(who)) return true;
  return who.user == r.owner && owner == r.owner && (group == r.group || who.is_in(group));
}

}  // namespace nvm::stores
