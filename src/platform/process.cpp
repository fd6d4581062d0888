#include "platform/process.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "platform/cancellation.hpp"
#include "platform/descriptor.hpp"

namespace nvm::platform {

std::int64_t process_id() noexcept { return ::getpid(); }

bool process_exists(std::int64_t pid) noexcept {
  // A number that is no process id could mean a group of processes to kill().
  if (pid <= 0 || pid > INT32_MAX) return false;
  const int saved = errno;
  const bool exists = ::kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM;
  errno = saved;
  return exists;
}

status at_fork(void (*before)() noexcept, void (*parent)() noexcept, void (*child)() noexcept) noexcept {
  if (const int code = ::pthread_atfork(before, parent, child); code != 0) {
    errno = code;
    return fail(errc::no_memory, "cannot register what to do at fork: %s", std::strerror(code));
  }
  return {};
}

status random_bytes(void* out, std::size_t bytes) noexcept {
  const uncancelled until_done;
  auto* at = static_cast<std::byte*>(out);
  while (bytes != 0) {
    const ssize_t got = ::getrandom(at, bytes, 0);
    if (got < 0) {
      if (errno == EINTR) continue;
      return fail(errc::system, "cannot get %zu random bytes: %s", bytes, std::strerror(errno));
    }
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return {};
}

void print_place(std::FILE* to, const void* code) noexcept {
  // An address inside the call: the instruction after it may belong to another line.
  const auto at = reinterpret_cast<std::uintptr_t>(code) - 1;
  Dl_info of{};
  link_map* map = nullptr;
  const bool known = ::dladdr1(reinterpret_cast<void*>(at), &of, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) != 0;
  if (!known || map == nullptr || of.dli_fname == nullptr) {
    std::fprintf(to, "code at %p, of no file that is loaded\n", code);
    return;
  }
  // The path of the file; for the program itself dladdr gives the name that it was called by.
  char program[PATH_MAX];
  const bool is_program = map->l_name == nullptr || map->l_name[0] == '\0';
  const ssize_t length = is_program ? ::readlink("/proc/self/exe", program, sizeof program - 1) : -1;
  if (length >= 0) program[length] = '\0';
  const char* const file = length >= 0 ? program : of.dli_fname;
  int failed = 0;
  char* const name = of.dli_sname != nullptr ? abi::__cxa_demangle(of.dli_sname, nullptr, nullptr, &failed) : nullptr;
  const char* const function = name != nullptr ? name : of.dli_sname;
  // For a program at a fixed address the load address is 0, and these are the file's own addresses.
  const auto offset = static_cast<unsigned long>(at - map->l_addr);
  std::fprintf(to, "%s (%s+0x%lx)\nfile and line: addr2line -Cfie %s 0x%lx\n",
               function != nullptr ? function : "a function without a dynamic symbol", file, offset, file, offset);
  std::free(name);
}

void print_calls(std::FILE* to) noexcept {
  constexpr int calls_max = 16;
  void* calls[calls_max];
  ::backtrace_symbols_fd(calls, ::backtrace(calls, calls_max), ::fileno(to));
}

std::uint64_t memory_limit() noexcept {
  constexpr std::uint64_t no_limit = std::uint64_t{1} << 60;  // version 1 writes "none" as a larger number than this
  for (const char* name : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    const int descriptor = open_descriptor(name, O_RDONLY);
    if (descriptor < 0) continue;
    char text[32] = "";
    const ssize_t n = ::read(descriptor, text, sizeof text - 1);
    ::close(descriptor);
    const std::uint64_t bytes = n <= 0 ? 0 : std::strtoull(text, nullptr, 10);
    if (bytes != 0 && bytes < no_limit) return bytes;
  }
  return 0;
}

}  // namespace nvm::platform
