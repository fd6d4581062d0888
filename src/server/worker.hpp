// A thread that serves connections, with an event base, a session and counters of its own.
//
// It works in rounds. A round receives once from every connection that is ready, and carries the commands out; then it
// waits, once for all, until the changed and read data is durable; then it sends each client all its replies in one
// message. So a group of commands costs one wait for the medium, whichever connections they came from, and a burst
// costs one message.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "platform/platform.hpp"
#include "server/connection.hpp"
#include "server/environment.hpp"
#include "server/executor.hpp"

struct event;
struct event_base;

namespace nvm::server {

// A socket on its way from the listener to a worker.
struct new_socket {
  int fd;
  std::string address;
  std::string listen_address;
};

class worker {
 public:
  explicit worker(environment& shared);
  ~worker();
  worker(const worker&) = delete;
  worker& operator=(const worker&) = delete;

  [[nodiscard]] bool is_good() const noexcept { return is_good_; }
  [[nodiscard]] status start() noexcept;
  // From any thread.
  void take(new_socket s);
  void stop();
  void join();

  // For its connections.
  environment& shared() noexcept { return shared_; }
  counters& own_counters() noexcept { return counters_; }
  executor& commands() noexcept { return executor_; }
  event_base* base() noexcept { return base_; }
  command& scratch_command() noexcept { return command_; }
  static constexpr std::size_t read_bytes = std::size_t{64} << 10;
  char* read_buffer() noexcept { return read_buffer_.get(); }
  [[nodiscard]] const parse_limits& limits() const noexcept { return limits_; }
  std::unique_ptr<reply_buffer> borrow_reply();
  void give_back(std::unique_ptr<reply_buffer> r) noexcept;
  // The connection has work; at the end of the round its replies are sent, or it is closed.
  void mark_ready(connection& c) noexcept;
  void begin_round();

 private:
  void run();
  // Settles the replies of connections that have some in this round. False: there is no memory for the copies.
  [[nodiscard]] bool settle_replies() noexcept;
  void finish_round();
  void close(connection* c);
  [[nodiscard]] bool add_events() noexcept;
  void take_new_sockets() noexcept;
  void add_connection(new_socket& s);
  void drop_idle() noexcept;

  environment& shared_;
  counters& counters_;
  std::unique_ptr<item_session> session_;
  executor executor_;
  parse_limits limits_;
  event_base* base_;
  int wake_fd_;
  event* wake_ = nullptr;
  event* tick_ = nullptr;
  std::unique_ptr<char[]> read_buffer_;
  command command_;
  std::vector<std::unique_ptr<connection>> connections_;
  // Of connections; each has room for all, so that a round needs no memory for them.
  std::vector<connection*> ready_;
  std::vector<connection*> again_;     // go on in the next round
  std::vector<connection*> going_on_;  // in this one
  std::vector<std::unique_ptr<reply_buffer>> free_replies_;
  bool is_good_ = false;  // has all that the system has to give
  bool in_round_ = false;
  // A round reads values of the pool: a lost page fails the pool, but does not end the server.
  std::optional<platform::in_call> reading_;
  bool failed_before_ = false;  // the store, when the round began

  std::mutex mutex_;  // of the next
  std::vector<new_socket> incoming_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace nvm::server
