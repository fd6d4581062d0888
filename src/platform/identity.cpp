#include "platform/identity.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

namespace nvm::platform {

result<identity> identity_of_process() noexcept try {
  identity who;
  who.user = ::geteuid();
  who.group = ::getegid();
  // Another thread may change them between the two calls.
  for (int tries = 0; tries < 8; ++tries) {
    const int count = ::getgroups(0, nullptr);
    std::vector<gid_t> groups(count > 0 ? static_cast<std::size_t>(count) : 0);
    const int got = groups.empty() ? count : ::getgroups(count, groups.data());
    if (got >= 0) {
      who.groups.assign(groups.begin(), groups.begin() + got);
      return who;
    }
    if (errno != EINVAL) break;
  }
  return fail(errc::system, "cannot get the groups of this process: %s", std::strerror(errno));
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for the groups of this process");
}

}  // namespace nvm::platform
