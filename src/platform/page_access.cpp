#include "platform/page_access.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "platform/descriptor.hpp"

namespace nvm::platform {

status set_page_access(std::byte* at, std::uint64_t bytes, page_access to) noexcept {
  constexpr int protections[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE};
  if (::mprotect(at, bytes, protections[static_cast<unsigned>(to)]) == 0) return {};
  return fail(errno == ENOMEM ? errc::no_memory : errc::system, "cannot protect %lu bytes at %p: %s", bytes,
              static_cast<void*>(at), std::strerror(errno));
}

std::uint64_t mappings_max() noexcept {
  constexpr std::uint64_t usual = 65530;
  const int saved = errno;
  char text[24] = "";
  const int file = open_descriptor("/proc/sys/vm/max_map_count", O_RDONLY);
  const ssize_t n = file < 0 ? -1 : ::read(file, text, sizeof text - 1);
  if (file >= 0) (void)::close(file);
  errno = saved;
  const std::uint64_t found = n > 0 ? std::strtoull(text, nullptr, 10) : 0;
  return found != 0 ? found : usual;
}

}  // namespace nvm::platform
