// All open sockets, for reports. A worker enters its connections and takes them out; the words that change in between
// may be read by any thread.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <string_view>

namespace nvm::server {

enum class socket_state : std::uint8_t { listening, reading, parsing, value, swallowing, writing, closing };
constexpr std::string_view name_of(socket_state s) noexcept {
  constexpr std::string_view names[] = {"conn_listening", "conn_read",   "conn_parse_cmd", "conn_nread",
                                        "conn_swallow",   "conn_mwrite", "conn_closing"};
  return names[static_cast<unsigned>(s)];
}

struct socket_entry {
  int fd = -1;
  std::string address;         // tcp:127.0.0.1:4711, unix:/run/x
  std::string listen_address;  // empty: it listens itself
  std::atomic<socket_state> state{socket_state::reading};
  std::atomic<std::uint32_t> last_command{0};  // unix time in seconds
};

class connection_table {
 public:
  using handle = std::list<socket_entry>::iterator;

  handle enter(int fd, std::string address, std::string listen_address, socket_state state, std::uint32_t now) {
    const std::lock_guard lock{mutex_};
    socket_entry& e = sockets_.emplace_back();
    e.fd = fd;
    e.address = std::move(address);
    e.listen_address = std::move(listen_address);
    // relaxed: the mutex orders them for threads that walk the table.
    e.state.store(state, std::memory_order_relaxed);
    e.last_command.store(now, std::memory_order_relaxed);
    return std::prev(sockets_.end());
  }
  // A socket that was counted as open, and for which there is no memory.
  void refuse(int fd) noexcept {
    // relaxed: counts.
    open.fetch_sub(1, std::memory_order_relaxed);
    rejected.fetch_add(1, std::memory_order_relaxed);
    ::close(fd);
  }
  void leave(handle h) {
    const std::lock_guard lock{mutex_};
    sockets_.erase(h);
  }
  template <class Visit>
  void for_each(const Visit& visit) const {
    const std::lock_guard lock{mutex_};
    for (const socket_entry& e : sockets_) visit(e);
  }

  // Connections, without sockets that listen. relaxed, all of them: numbers for people and for a limit that need not be
  // exact.
  std::atomic<std::uint64_t> open{0};
  std::atomic<std::uint64_t> total{0};
  std::atomic<std::uint64_t> rejected{0};

 private:
  mutable std::mutex mutex_;  // of the list
  std::list<socket_entry> sockets_;
};

}  // namespace nvm::server
