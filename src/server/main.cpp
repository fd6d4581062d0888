// nv-memcached: reads the command line, becomes what it says, opens the store and serves.
#include <grp.h>
#include <malloc.h>
#include <pwd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string>

#include "platform/platform.hpp"
#include "server/durable_store.hpp"
#include "server/log.hpp"
#include "server/server.hpp"
#include "server/settings.hpp"
#include "server/volatile_store.hpp"

namespace nvm::server {
namespace {

int complain(int code, const std::string& why) {
  say("nv-memcached: %s", why.c_str());
  return code;
}

// Empty when it has become that user, or was not root.
std::string become(const std::string& user) {
  if (user.empty() || ::getuid() != 0) return "";
  errno = 0;
  const passwd* const who = ::getpwnam(user.c_str());
  if (who == nullptr) return "-u " + user + ": no such user";
  if (::initgroups(who->pw_name, who->pw_gid) != 0 || ::setgid(who->pw_gid) != 0 || ::setuid(who->pw_uid) != 0) {
    return "-u " + user + ": " + std::strerror(errno);
  }
  return "";
}

void allow_core_files() {
  rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
  if (::setrlimit(RLIMIT_CORE, &limit) == 0) return;
  if (::getrlimit(RLIMIT_CORE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_CORE, &limit);
}

bool write_pid(const std::string& path) {
  const std::string temporary = path + ".tmp";
  std::FILE* const f = std::fopen(temporary.c_str(), "we");
  if (f == nullptr) return false;
  const bool written = std::fprintf(f, "%ld\n", static_cast<long>(::getpid())) > 0;
  const bool closed = std::fclose(f) == 0;
  return written && closed && std::rename(temporary.c_str(), path.c_str()) == 0;
}

int serve(const settings& s) {
  // First: a second server of this port makes no pool.
  auto sockets = service::take_addresses(s);
  if (!sockets) return complain(exit_unavailable, last_message());
  std::unique_ptr<item_store> store;
  if (s.volatile_store) {
    store = std::make_unique<volatile_store>(s.memory_bytes);
  } else {
    auto durable = durable_store::open(s);
    if (!durable) {
      if (!s.unix_path.empty()) ::unlink(s.unix_path.c_str());
      return complain(exit_unavailable, last_message());
    }
    store = std::move(*durable);
  }
  auto opened = service::open(s, *store, std::move(*sockets));
  if (!opened) return complain(exit_unavailable, last_message());
  if (!s.pid_path.empty() && !write_pid(s.pid_path)) {
    return complain(exit_unavailable, "-P " + s.pid_path + ": " + std::strerror(errno));
  }
  const auto reopen_log = [&s] {
    if (!s.log_path.empty() && !open_log(s.log_path)) {
      complain(0, "--log " + s.log_path + ": " + std::strerror(errno));
    }
  };
  const status ended = (*opened)->run(reopen_log);
  if (!s.pid_path.empty()) ::unlink(s.pid_path.c_str());
  if (!ended) return complain(exit_internal, last_message());
  if (store->failed()) return complain(exit_failed, store->failure());
  return exit_good;
}

int run(int argc, char** argv) {
  const command_line line = read_command_line(argc, argv);
  std::fputs(line.output.c_str(), stdout);
  std::fputs(line.error.c_str(), stderr);
  if (line.exit_code) return *line.exit_code;
  const settings& s = line.given;
  for (const std::string& w : s.warnings) complain(0, w);

  // Fixed: by itself the allocator would keep large buffers after it has freed some.
  constexpr int large_allocation_bytes = 128 << 10;
  ::mallopt(M_MMAP_THRESHOLD, large_allocation_bytes);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGHUP, SIG_IGN);  // until the server listens to it
  if (!s.log_path.empty() && !open_log(s.log_path)) {
    return complain(exit_unavailable, "--log " + s.log_path + ": " + std::strerror(errno));
  }
  if (s.core_dumps) allow_core_files();
  if (const std::string problem = become(s.user); !problem.empty()) return complain(exit_usage, problem);
  if (s.daemon) {
    // Paths on the command line stay what they were: the directory is kept.
    if (::daemon(1, s.verbosity != 0 ? 1 : 0) != 0) return complain(exit_internal, std::strerror(errno));
    if (!s.log_path.empty()) static_cast<void>(open_log(s.log_path));  // it could be had before
  }
  if (s.lock_memory && ::mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
    complain(0, std::string{"-k: "} + std::strerror(errno));
  }
  return serve(s);
}

}  // namespace
}  // namespace nvm::server

int main(int argc, char** argv) {
  nvm::platform::occupy_standard_descriptors();
  try {
    return nvm::server::run(argc, argv);
  } catch (const std::exception& e) {
    return nvm::server::complain(nvm::server::exit_internal, e.what());
  }
}
