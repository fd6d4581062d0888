#include "platform/descriptor.hpp"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace nvm::platform {
namespace {

constexpr int first_of_ours = STDERR_FILENO + 1;

// Both ends, or neither.
int pair_above_standard(int ends[2]) noexcept {
  for (int i = 0; i < 2; ++i) {
    ends[i] = above_standard(ends[i]);
    if (ends[i] >= 0) continue;
    const int number = errno;
    ::close(ends[1 - i]);
    errno = number;
    return -1;
  }
  return 0;
}

}  // namespace

int above_standard(int descriptor) noexcept {
  if (descriptor < 0 || descriptor >= first_of_ours) return descriptor;
  const int flags = ::fcntl(descriptor, F_GETFD);
  const bool closes = flags < 0 || (flags & FD_CLOEXEC) != 0;
  const int moved = ::fcntl(descriptor, closes ? F_DUPFD_CLOEXEC : F_DUPFD, first_of_ours);
  const int number = errno;
  ::close(descriptor);
  errno = number;
  return moved;
}

int open_descriptor(const char* path, int flags, unsigned mode) noexcept {
  return above_standard(::open(path, flags | O_CLOEXEC, mode));
}

int open_events() noexcept { return above_standard(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)); }

int open_user_faults(int flags) noexcept { return above_standard(static_cast<int>(::syscall(SYS_userfaultfd, flags))); }

int open_socket(int domain, int type, int protocol) noexcept {
  return above_standard(::socket(domain, type | SOCK_CLOEXEC, protocol));
}

int open_socket_pair(int domain, int type, int ends[2]) noexcept {
  return ::socketpair(domain, type | SOCK_CLOEXEC, 0, ends) == 0 ? pair_above_standard(ends) : -1;
}

int open_pipe(int ends[2]) noexcept { return ::pipe2(ends, O_CLOEXEC) == 0 ? pair_above_standard(ends) : -1; }

int open_empty_file(const char* name) noexcept { return above_standard(::memfd_create(name, MFD_CLOEXEC)); }

int open_memory_file(const char* name) noexcept { return above_standard(::memfd_create(name, 0)); }

void occupy_standard_descriptors() noexcept {
  for (int standard = STDIN_FILENO; standard <= STDERR_FILENO; ++standard) {
    if (::fcntl(standard, F_GETFD) >= 0) continue;
    // The lower ones are open by now, so that this is the number that the system gives.  Without /dev/null there is no
    // other way.
    (void)::open("/dev/null", standard == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace nvm::platform
