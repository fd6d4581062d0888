// One client: splits its input into commands, has them carried out, and keeps the replies until they may go.
// Everything happens in the thread of one worker.
//
// Input is read into a buffer of the worker; only an incomplete command is kept here.  So an idle connection costs a
// few hundred bytes, and one in the middle of a command little more than the bytes received. Large values under way may
// together take as much memory as the items; one more is refused and thrown away, as in a memcached that has no item
// for it.  A client that does not fetch its replies, or has commands that wait for the next round, is not read from: so
// the end of its input comes after all of its commands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/connection_table.hpp"
#include "server/executor.hpp"
#include "server/protocol.hpp"
#include "server/reply_buffer.hpp"

struct event;

namespace nvm::server {

class worker;

class connection {
 public:
  connection(worker& owner, int fd, connection_table::handle entry) noexcept;
  ~connection();
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;

  // Between these two the worker waits, for all connections of a round, until all changes are durable.
  // A connection for which there is no memory ends without a further answer.
  void read() noexcept;                // receives once, and carries out what has come
  void go_on() noexcept;               // carries out earlier commands that had to wait
  [[nodiscard]] bool send() noexcept;  // false: the connection has ended

  // Ends the references of waiting replies to items.
  void settle() {
    if (out_ != nullptr) out_->settle();
  }
  void hang_up() noexcept { doomed_ = true; }
  [[nodiscard]] bool is_idle_since(std::uint32_t time) const noexcept {
    // relaxed: only this thread writes it.
    return entry_->last_command.load(std::memory_order_relaxed) <= time;
  }
  // Has commands that it may carry out without receiving more.
  [[nodiscard]] bool has_work() const noexcept { return has_work_ && !blocked_; }
  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] connection_table::handle entry() const noexcept { return entry_; }

  // For the worker's lists.
  std::size_t place = 0;
  bool is_ready = false;

 private:
  // Carries out the commands at the beginning of `input`; returns how many bytes it took.
  std::size_t consume(std::string_view input);
  void receive_and_consume();
  void consume_what_waits();
  [[nodiscard]] bool send_replies();
  // It may have changed something that is not acknowledged, as when the network fails.
  void lack_memory() noexcept;
  std::size_t throw_away(std::string_view input);
  bool continue_get();
  void carry_out(command& c, std::string_view input);
  void keep(std::string_view rest);
  [[nodiscard]] bool await(std::size_t bytes) noexcept;
  void end_waiting() noexcept;
  std::size_t refuse_value(std::string_view input, std::size_t bytes);
  std::string_view receive();
  void note(socket_state s) noexcept {
    // relaxed: for people.
    entry_->state.store(s, std::memory_order_relaxed);
  }
  void log_command(std::string_view line) const;

  worker& worker_;
  int fd_;
  connection_table::handle entry_;
  event* readable_;
  event* writable_;
  std::unique_ptr<reply_buffer> out_;  // borrowed from the worker while there is something to send
  std::vector<char> input_;
  std::size_t awaited_ = 0;        // bytes of a large value that count in environment::awaited_bytes
  std::size_t needed_ = 0;         // bytes of input that are needed before the next try
  std::size_t swallow_ = 0;        // bytes to come that are thrown away
  std::string_view late_refusal_;  // the answer after them

  // A get of many keys that waits for its client.
  std::string get_keys_;
  std::size_t get_at_ = 0;
  verb get_verb_ = verb::refused;  // refused: there is none
  std::int64_t get_expiry_ = 0;

  bool first_byte_seen_ = false;
  bool ends_ = false;     // when all is sent
  bool doomed_ = false;   // at once
  bool blocked_ = false;  // by a client that does not read
  bool has_work_ = false;
};

}  // namespace nvm::server
