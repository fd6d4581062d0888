#include "server/servers.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace nvm::bench {
namespace {

std::string found_program(const std::string& name) {
  for (const char* folder : {"/usr/bin/", "/usr/sbin/", "/usr/local/bin/"}) {
    if (::access((folder + name).c_str(), X_OK) == 0) return folder + name;
  }
  return "";
}

int connected(int family, const sockaddr* address, socklen_t bytes) {
  const int fd = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  if (::connect(fd, address, bytes) == 0) return fd;
  ::close(fd);
  return -1;
}

using list = std::vector<std::string>;

// Of memcached and of ours, which takes its flags.
list common(unsigned threads, const place& where) {
  list a{"-t", std::to_string(threads), "-m", std::to_string(where.megabytes)};
  if (where.by_unix_socket) {
    a.insert(a.end(), {"-s", where.socket()});
  } else {
    a.insert(a.end(), {"-l", "127.0.0.1", "-p", std::to_string(where.port)});
  }
  return a;
}

list redis(const place& where) {
  list a{"--dir", where.folder, "--save", "", "--bind", "127.0.0.1", "--port"};
  if (where.by_unix_socket) {
    a.insert(a.end(), {"0", "--unixsocket", where.socket()});
  } else {
    a.push_back(std::to_string(where.port));
  }
  return a;
}

}  // namespace

std::unique_ptr<server_process> server_process::start(const std::string& program, std::vector<std::string> arguments,
                                                      dialect speaks, const place& where) {
  std::unique_ptr<server_process> s{new server_process};
  s->speaks_ = speaks;
  s->where_ = where;
  std::vector<char*> words;
  arguments.insert(arguments.begin(), program);
  for (std::string& a : arguments) words.push_back(a.data());
  words.push_back(nullptr);
  const std::string log = where.folder + "/log";
  s->pid_ = ::fork();
  if (s->pid_ < 0) throw std::runtime_error("fork failed");
  if (s->pid_ == 0) {
    const int fd = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(fd, 1);
    ::dup2(fd, 2);
    ::execv(program.c_str(), words.data());
    ::_exit(127);
  }
  for (int i = 0; i < 400; ++i) {
    try {
      ::close(s->connect());
      return s;
    } catch (const std::runtime_error&) {
      if (::waitpid(s->pid_, nullptr, WNOHANG) == s->pid_) {
        s->pid_ = -1;
        break;
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
  }
  std::stringstream text;
  text << std::ifstream(log).rdbuf();
  throw std::runtime_error(program + " does not come up: " + text.str());
}

server_process::~server_process() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  std::error_code ignored;
  std::filesystem::remove_all(where_.folder, ignored);
}

int server_process::connect() const {
  int fd = -1;
  if (where_.by_unix_socket) {
    sockaddr_un a{};
    a.sun_family = AF_UNIX;
    std::strncpy(a.sun_path, where_.socket().c_str(), sizeof a.sun_path - 1);
    fd = connected(AF_UNIX, reinterpret_cast<const sockaddr*>(&a), sizeof a);
  } else {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_port = htons(static_cast<std::uint16_t>(where_.port));
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    fd = connected(AF_INET, reinterpret_cast<const sockaddr*>(&a), sizeof a);
    const int on = 1;
    if (fd >= 0) ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  if (fd < 0) throw std::runtime_error("cannot connect");
  ::fcntl(fd, F_SETFL, O_NONBLOCK);
  return fd;
}

std::uint64_t server_process::cpu_ns() const {
  // The scheduler's own count for each thread: /proc/<pid>/stat has hundredths of a second only.
  std::uint64_t sum = 0;
  const std::string tasks = "/proc/" + std::to_string(pid_) + "/task";
  for (const auto& task : std::filesystem::directory_iterator{tasks}) {
    std::ifstream in(task.path() / "schedstat");
    std::uint64_t ns = 0;
    if (in >> ns) sum += ns;
  }
  return sum;
}

std::uint64_t server_process::resident_bytes() const {
  std::ifstream in("/proc/" + std::to_string(pid_) + "/statm");
  std::uint64_t all = 0, resident = 0;
  in >> all >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::uint64_t server_process::file_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& entry : std::filesystem::directory_iterator{where_.folder}) {
    struct ::stat facts;
    if (::stat(entry.path().c_str(), &facts) == 0) sum += static_cast<std::uint64_t>(facts.st_blocks) * 512;
  }
  return sum;
}

std::vector<server_kind> server_kinds(const std::string& ours) {
  std::vector<server_kind> all;
  all.push_back(
      {"nv-memcached volatile", true, false, ours, dialect::memcached, [](unsigned threads, const place& where) {
         list a = common(threads, where);
         a.push_back("--volatile");
         return a;
       }});
  // One pool on a tmpfs for the comparison in memory, one on a file system for that on ssd.
  for (const bool on_disk : {false, true}) {
    all.push_back({on_disk ? "nv-memcached ssd" : "nv-memcached shm", true, on_disk, ours, dialect::memcached,
                   [](unsigned threads, const place& where) {
                     list a = common(threads, where);
                     a.insert(a.end(), {"--pool", where.folder + "/items.nvm"});
                     return a;
                   }});
  }
  if (const std::string p = found_program("memcached"); !p.empty()) {
    // As it comes it takes 20 requests of a connection before it turns to the next one, ours takes 1024: once as it
    // comes, once with as many.
    for (const bool as_many : {false, true}) {
      all.push_back({as_many ? "memcached -R 1024" : "memcached", false, false, p, dialect::memcached,
                     [as_many](unsigned threads, const place& where) {
                       list a = common(threads, where);
                       a.insert(a.end(), {"-u", "root"});
                       if (as_many) a.insert(a.end(), {"-R", "1024"});
                       return a;
                     }});
    }
  }
  if (const std::string p = found_program("redis-server"); !p.empty()) {
    all.push_back({"redis", false, false, p, dialect::redis, [](unsigned, const place& where) {
                     list a = redis(where);
                     a.insert(a.end(), {"--appendonly", "no"});
                     return a;
                   }});
    all.push_back({"redis appendfsync always", false, true, p, dialect::redis, [](unsigned, const place& where) {
                     list a = redis(where);
                     a.insert(a.end(), {"--appendonly", "yes", "--appendfsync", "always"});
                     return a;
                   }});
  }
  return all;
}

}  // namespace nvm::bench
