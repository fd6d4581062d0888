// nv-memcached: reads the command line, changes user and becomes a daemon as it says, opens the store and serves.
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
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

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

// The file of -P.  It is written beside its name before there is a pool, and gets the name when there is: until then it
// may be that of a server which has the pool.
class pid_file {
 public:
  explicit pid_file(const std::string& path) : path_{path}, beside_{path + ".tmp"} {}
  pid_file(const pid_file&) = delete;
  pid_file& operator=(const pid_file&) = delete;
  ~pid_file() {
    if (is_written_) ::unlink(beside_.c_str());
    if (has_name_) ::unlink(path_.c_str());
  }
  // Does nothing if no file is wanted. False: errno.
  [[nodiscard]] bool write() {
    if (path_.empty()) return true;
    if (std::error_code none; std::filesystem::is_directory(path_, none)) {
      errno = EISDIR;
      return false;
    }
    std::FILE* const f = std::fopen(beside_.c_str(), "we");
    if (f == nullptr) return false;
    is_written_ = true;
    const bool written = std::fprintf(f, "%ld\n", static_cast<long>(::getpid())) > 0;
    return std::fclose(f) == 0 && written;
  }
  [[nodiscard]] bool take_name() {
    if (path_.empty()) return true;
    if (std::rename(beside_.c_str(), path_.c_str()) != 0) return false;
    is_written_ = false;
    has_name_ = true;
    return true;
  }

 private:
  const std::string& path_;
  const std::string beside_;
  bool is_written_ = false;
  bool has_name_ = false;
};

int serve(const settings& s) {
  const auto no_id = [&s] { return "-P " + s.pid_path + ": " + std::strerror(errno); };
  // First: so a second server of this port makes no pool, and no pool is made that cannot be served.
  pid_file own_id{s.pid_path};
  if (!own_id.write()) return complain(exit_unavailable, no_id());
  auto addresses = service::take_addresses(s);
  if (!addresses) return complain(exit_unavailable, last_message());
  const auto give_up = [&s](const std::string& why) {
    if (!s.unix_path.empty()) ::unlink(s.unix_path.c_str());
    return complain(exit_unavailable, why);
  };
  std::unique_ptr<item_store> store;
  if (s.volatile_store) {
    store = std::make_unique<volatile_store>(s.memory_bytes);
  } else {
    auto durable = durable_store::open(s);
    if (!durable) return give_up(last_message());
    store = std::move(*durable);
  }
  auto opened = service::open(s, *store, std::move(*addresses));
  if (!opened) return give_up(last_message());
  if (!own_id.take_name()) return give_up(no_id());
  const auto reopen_log = [&s] {
    if (!s.log_path.empty() && !open_log(s.log_path)) {
      complain(0, "--log " + s.log_path + ": " + std::strerror(errno));
    }
  };
  const status ended = (*opened)->run(reopen_log);
  const std::string problem = ended ? std::string{} : std::string{last_message()};
  opened->reset();
  const bool closed = store->close();
  if (!ended) return complain(exit_internal, problem);
  if (!closed || store->failed()) return complain(exit_failed, store->failure());
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
    // The directory is kept, so that paths on the command line stay valid.
    if (::daemon(1, s.verbosity != 0 ? 1 : 0) != 0) return complain(exit_internal, std::strerror(errno));
    if (!s.log_path.empty()) static_cast<void>(open_log(s.log_path));  // the same open has worked before
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
