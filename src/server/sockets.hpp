// Opening sockets to listen on, and names of their ends.
#pragma once

#include <sys/socket.h>

#include <string>
#include <vector>

#include "base/result.hpp"

namespace nvm::server {

struct listening_socket {
  int fd = -1;
  std::string address;  // tcp:127.0.0.1:11211
  int port = 0;
  bool is_ipv6 = false;
};

// "tcp:127.0.0.1:4711", "tcp6:[::1]:4711", "unix:/run/x"
std::string name_of(const sockaddr_storage& address, socklen_t bytes);

// Adds the sockets for `text`, which is an address, an address and a port, or empty for all addresses. Port -1: one
// that is free. From here on the address is taken, so that no second server can listen on it; clients are refused until
// begin_listening().
status bind_tcp(const std::string& text, int port, std::vector<listening_socket>& to);
status begin_listening(const listening_socket& on, int backlog);
// Listens on a Unix socket. It replaces a file at `path` only if that is a socket without a listener.
result<listening_socket> listen_unix(const std::string& path, unsigned mode, int backlog);

// Tells the service manager that has set NOTIFY_SOCKET, if there is one: "READY=1" (sd_notify(3)).
void notify_manager(const char* state) noexcept;

}  // namespace nvm::server
