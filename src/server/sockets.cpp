#include "server/sockets.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include "platform/platform.hpp"
#include "server/numbers.hpp"

namespace nvm::server {
namespace {

errc fail_with_errno(const std::string& what) {
  const int number = errno;
  return fail(errc::system, "%s: %s", what.c_str(), std::strerror(number));
}

struct close_on_failure {
  int fd;
  ~close_on_failure() {
    if (fd >= 0) ::close(fd);
  }
  int keep() noexcept { return std::exchange(fd, -1); }
};

// "10.0.0.1", "10.0.0.1:11211", "::1", "[::1]:11211", "name:11211"
void split_port(std::string& host, int& port) {
  const std::size_t colon = host.rfind(':');
  if (host.starts_with('[')) {
    const std::size_t end = host.find(']');
    if (end == std::string::npos) return;
    if (colon == end + 1) static_cast<void>(read_number(host.substr(colon + 1), port));
    host = host.substr(1, end - 1);
  } else if (colon != std::string::npos && host.find(':') == colon) {
    if (read_number(host.substr(colon + 1), port)) host.resize(colon);
  }
}

}  // namespace

std::string name_of(const sockaddr_storage& address, socklen_t bytes) {
  if (address.ss_family == AF_UNIX) {
    const auto& local = reinterpret_cast<const sockaddr_un&>(address);
    const std::size_t path = bytes > offsetof(sockaddr_un, sun_path) ? bytes - offsetof(sockaddr_un, sun_path) : 0;
    return "unix:" + std::string(local.sun_path, ::strnlen(local.sun_path, path));
  }
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  if (::getnameinfo(reinterpret_cast<const sockaddr*>(&address), bytes, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "tcp:?";
  }
  if (address.ss_family == AF_INET6) return "tcp6:[" + std::string{host} + "]:" + port;
  return "tcp:" + std::string{host} + ":" + port;
}

status bind_tcp(const std::string& text, int port, std::vector<listening_socket>& to) {
  std::string host = text;
  split_port(host, port);
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const std::string service = std::to_string(port == -1 ? 0 : port);
  const int error = ::getaddrinfo(host.empty() ? nullptr : host.c_str(), service.c_str(), &hints, &found);
  if (error != 0) return fail(errc::invalid, "-l %s: %s", host.c_str(), ::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner{found, &::freeaddrinfo};
  const std::size_t before = to.size();
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    close_on_failure s{platform::open_socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK, a->ai_protocol)};
    if (s.fd < 0) continue;  // a family that this machine does not have
    const int on = 1;
    ::setsockopt(s.fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    ::setsockopt(s.fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    ::setsockopt(s.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (a->ai_family == AF_INET6) ::setsockopt(s.fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (::bind(s.fd, a->ai_addr, a->ai_addrlen) != 0) {
      if (errno == EADDRNOTAVAIL && a->ai_next != nullptr) continue;
      return fail_with_errno("cannot listen on " + host + " port " + service);
    }
    sockaddr_storage bound{};
    socklen_t bytes = sizeof bound;
    ::getsockname(s.fd, reinterpret_cast<sockaddr*>(&bound), &bytes);
    listening_socket l;
    l.address = name_of(bound, bytes);
    l.is_ipv6 = bound.ss_family == AF_INET6;
    l.port = ntohs(l.is_ipv6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                             : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
    l.fd = s.keep();
    to.push_back(std::move(l));
  }
  if (to.size() == before) return fail(errc::system, "-l %s: no such address on this machine", host.c_str());
  return {};
}

status begin_listening(const listening_socket& on, int backlog) {
  if (::listen(on.fd, backlog) == 0) return {};
  return fail_with_errno("cannot listen on " + on.address);
}

result<listening_socket> listen_unix(const std::string& path, unsigned mode, int backlog) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return fail(errc::invalid, "-s %s: a socket's path may have %zu bytes", path.c_str(), sizeof address.sun_path - 1);
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const auto* const name = reinterpret_cast<const sockaddr*>(&address);
  struct stat there{};
  if (::lstat(path.c_str(), &there) == 0) {
    if (!S_ISSOCK(there.st_mode)) return fail(errc::exists, "-s %s: there is something else", path.c_str());
    const close_on_failure probe{platform::open_socket(AF_UNIX, SOCK_STREAM, 0)};
    if (probe.fd >= 0 && ::connect(probe.fd, name, sizeof address) == 0) {
      return fail(errc::busy, "-s %s: another server listens on it", path.c_str());
    }
    if (::unlink(path.c_str()) != 0) return fail_with_errno("-s " + path);
  }
  close_on_failure s{platform::open_socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0)};
  if (s.fd < 0) return fail_with_errno("-s " + path);
  // The mode is right from the first moment that a client could connect.
  const mode_t before = ::umask(static_cast<mode_t>(~mode & 0777U));
  const int bound = ::bind(s.fd, name, sizeof address);
  const int number = errno;
  ::umask(before);
  errno = number;
  if (bound != 0 || ::listen(s.fd, backlog) != 0) return fail_with_errno("-s " + path);
  listening_socket l;
  l.address = "unix:" + path;
  l.fd = s.keep();
  return l;
}

void notify_manager(const char* state) noexcept {
  const char* const path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr || (path[0] != '/' && path[0] != '@')) return;
  sockaddr_un to{};
  const std::size_t bytes = std::strlen(path);
  if (bytes >= sizeof to.sun_path) return;
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path, path, bytes);
  if (path[0] == '@') to.sun_path[0] = 0;  // an abstract name
  const int fd = platform::open_socket(AF_UNIX, SOCK_DGRAM, 0);
  if (fd < 0) return;
  static_cast<void>(::sendto(fd, state, std::strlen(state), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&to),
                             static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + bytes)));
  ::close(fd);
}

}  // namespace nvm::server
