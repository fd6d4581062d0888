#include "server/load.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "harness/clock.hpp"
#include "harness/random.hpp"

namespace nvm::bench {
namespace {

constexpr std::size_t value_bytes_min = 32;
constexpr std::size_t value_bytes_max = 100;

struct request {
  std::uint64_t sent_ns;
  std::uint64_t key;
  bool is_set;
};

// A value begins with its key and has a length that follows from it, so that any other would be seen.
std::size_t value_bytes_of(std::uint64_t key) noexcept {
  return value_bytes_min + mix(key) % (value_bytes_max - value_bytes_min + 1);
}

void append_number(std::string& to, std::uint64_t n) {
  char digits[20];
  to.append(digits, std::to_chars(digits, digits + sizeof digits, n).ptr);
}

void append_key(std::string& to, std::uint64_t key) {
  to += "key:";
  append_number(to, key);
}

std::string key_text(std::uint64_t key) {
  std::string text;
  append_key(text, key);
  return text;
}

class connection {
 public:
  connection(const server_process& server, const load& how, unsigned number)
      : fd_{server.connect()}, speaks_{server.speaks()}, how_{how}, random_{how.seed << 20 | number} {}
  ~connection() { ::close(fd_); }
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;

  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] bool is_idle() const noexcept { return flying_.empty(); }

  void ask() {
    const bool is_set = random_.below(100) < how_.set_percent;
    ask(is_set, random_.below(how_.keys));
  }
  void ask(bool is_set, std::uint64_t key) {
    append_request(is_set, key);
    flying_.push_back({0, key, is_set});
    ++unstamped_;
  }
  void send() {
    const std::uint64_t now = wall_ns();
    for (std::size_t i = flying_.size() - unstamped_; i < flying_.size(); ++i) flying_[i].sent_ns = now;
    unstamped_ = 0;
    while (!out_.empty()) {
      const ssize_t n = ::send(fd_, out_.data(), out_.size(), MSG_NOSIGNAL);
      if (n < 0) {
        if (errno == EAGAIN || errno == EINTR) return;  // the rest goes with the next
        throw std::runtime_error("the server has hung up");
      }
      out_.erase(0, static_cast<std::size_t>(n));
    }
  }
  // Reads what is there; the number of replies.
  unsigned receive(load_result& to) {
    constexpr std::size_t room = 65536;
    const std::size_t had = in_.size();
    in_.resize(had + room);
    const ssize_t n = ::recv(fd_, in_.data() + had, room, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
      in_.resize(had);
      return 0;
    }
    if (n <= 0) throw std::runtime_error("the server has hung up");
    in_.resize(had + static_cast<std::size_t>(n));
    const std::uint64_t now = wall_ns();
    std::string_view rest = in_;
    unsigned replies = 0;
    while (!flying_.empty()) {
      const std::size_t bytes = reply_bytes(rest, flying_.front(), to);
      if (bytes == 0) break;
      rest.remove_prefix(bytes);
      to.latency.add(now - flying_.front().sent_ns);
      flying_.pop_front();
      ++replies;
    }
    in_.erase(0, in_.size() - rest.size());
    to.requests += replies;
    return replies;
  }

 private:
  void append_request(bool is_set, std::uint64_t key) {
    if (speaks_ == dialect::memcached) {
      out_ += is_set ? "set " : "get ";
      append_key(out_, key);
      if (is_set) {
        out_ += " 0 0 ";
        append_number(out_, value_bytes_of(key));
        out_ += "\r\n";
        append_value(key);
      }
      out_ += "\r\n";
    } else {
      const std::string text = key_text(key);
      out_ += is_set ? "*3\r\n$3\r\nSET\r\n$" : "*2\r\n$3\r\nGET\r\n$";
      append_number(out_, text.size());
      out_ += "\r\n" + text + "\r\n";
      if (is_set) {
        out_ += "$";
        append_number(out_, value_bytes_of(key));
        out_ += "\r\n";
        append_value(key);
        out_ += "\r\n";
      }
    }
  }
  void append_value(std::uint64_t key) {
    const std::size_t end = out_.size() + value_bytes_of(key);
    append_key(out_, key);
    out_.resize(end, '.');
  }
  [[noreturn]] static void wrong(std::string_view reply) {
    throw std::runtime_error("a wrong reply: " + std::string{reply.substr(0, 80)});
  }
  void check(std::string_view value, std::uint64_t key) const {
    const std::string text = key_text(key);
    if (value.size() != value_bytes_of(key) || !value.starts_with(text)) wrong(value);
  }

  // 0: it is not whole.
  std::size_t reply_bytes(std::string_view in, const request& of, load_result& to) {
    const std::size_t end = in.find('\n');
    if (end == std::string_view::npos) return 0;
    const std::string_view line = in.substr(0, end + 1);
    const bool memcached = speaks_ == dialect::memcached;
    if (of.is_set) {
      if (line != (memcached ? "STORED\r\n" : "+OK\r\n")) wrong(line);
      return line.size();
    }
    if (line == (memcached ? "END\r\n" : "$-1\r\n")) {
      ++to.misses;
      return line.size();
    }
    std::size_t bytes = 0;
    const std::size_t space = memcached ? line.rfind(' ') : 0;
    if (line[0] != (memcached ? 'V' : '$') || space == std::string_view::npos) wrong(line);
    std::from_chars(line.data() + space + 1, line.data() + line.size(), bytes);
    const std::string_view tail = memcached ? "\r\nEND\r\n" : "\r\n";
    if (in.size() < line.size() + bytes + tail.size()) return 0;
    check(in.substr(line.size(), bytes), of.key);
    if (in.substr(line.size() + bytes, tail.size()) != tail) wrong(in.substr(line.size() + bytes));
    ++to.hits;
    return line.size() + bytes + tail.size();
  }

  int fd_;
  dialect speaks_;
  const load& how_;
  random random_;
  std::string out_;
  std::string in_;
  std::deque<request> flying_;
  std::size_t unstamped_ = 0;
};

}  // namespace

void fill(const server_process& server, std::uint64_t keys) {
  constexpr unsigned batch = 256;
  const load how;
  connection c{server, how, 0};
  load_result ignored;
  for (std::uint64_t k = 0; k < keys;) {
    for (unsigned i = 0; i < batch && k < keys; ++i, k += 2) c.ask(true, k);
    while (!c.is_idle()) {
      c.send();
      c.receive(ignored);
    }
  }
}

load_result run_load(const server_process& server, const load& how, std::uint64_t duration_ns) {
  std::vector<std::unique_ptr<connection>> all;
  const int poll = ::epoll_create1(EPOLL_CLOEXEC);
  for (unsigned i = 0; i < how.connections; ++i) {
    all.push_back(std::make_unique<connection>(server, how, i));
    epoll_event e{};
    e.events = EPOLLIN;
    e.data.u32 = i;
    ::epoll_ctl(poll, EPOLL_CTL_ADD, all.back()->fd(), &e);
  }
  load_result result;
  const std::uint64_t cpu_before = server.cpu_ns();
  const std::uint64_t begin = wall_ns();
  const std::uint64_t end = begin + duration_ns;
  for (const auto& c : all) {
    for (unsigned d = 0; d < how.depth; ++d) c->ask();
    c->send();
  }
  std::vector<epoll_event> events(how.connections);
  std::size_t busy = all.size();
  while (busy != 0) {
    const int n = ::epoll_wait(poll, events.data(), static_cast<int>(events.size()), 10'000);
    if (n == 0) throw std::runtime_error("the server does not answer");
    const bool over = wall_ns() >= end;
    for (int i = 0; i < n; ++i) {
      connection& c = *all[events[static_cast<std::size_t>(i)].data.u32];
      const unsigned replies = c.receive(result);
      if (!over) {
        for (unsigned r = 0; r < replies; ++r) c.ask();
      }
      c.send();
      if (over && c.is_idle() && replies != 0) --busy;
    }
  }
  result.wall_ns = wall_ns() - begin;
  result.server_cpu_ns = server.cpu_ns() - cpu_before;
  ::close(poll);
  return result;
}

}  // namespace nvm::bench
