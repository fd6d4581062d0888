#include <fcntl.h>
#include <nvm/kv.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "ycsb/client.hpp"

namespace nvm::bench::ycsb {
namespace {

// A connection that blocks, and what it has received and not given yet.
class stream {
 public:
  explicit stream(const server_process& server) : fd_{server.connect()} {
    ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) & ~O_NONBLOCK);
  }
  ~stream() { ::close(fd_); }
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;

  void send(std::string_view all) {
    while (!all.empty()) {
      const ssize_t n = ::send(fd_, all.data(), all.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) throw std::runtime_error("the server has hung up");
      all.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  // Up to the end of the line, without it; good until the next call.
  std::string_view line() {
    std::size_t from = 0;
    for (;;) {
      const std::size_t end = view().find("\r\n", from);
      if (end != std::string_view::npos) {
        const std::string_view found = view().substr(0, end);
        begin_ += end + 2;
        return found;
      }
      from = view().empty() ? 0 : view().size() - 1;
      receive();
    }
  }
  // Bytes and the end of a line after them; good until the next call.
  std::string_view bytes(std::size_t n) {
    while (view().size() < n + 2) receive();
    const std::string_view found = view().substr(0, n);
    if (view().substr(n, 2) != "\r\n") throw std::runtime_error("a value of another size than was said");
    begin_ += n + 2;
    return found;
  }

 private:
  std::string_view view() const noexcept { return std::string_view{in_}.substr(begin_, end_ - begin_); }
  void receive() {
    constexpr std::size_t room = 16384;
    if (begin_ == end_) begin_ = end_ = 0;
    if (in_.size() < end_ + room) in_.resize(end_ + room);
    const ssize_t n = ::recv(fd_, in_.data() + end_, room, 0);
    if (n < 0 && errno == EINTR) return;
    if (n <= 0) throw std::runtime_error("the server has hung up");
    end_ += static_cast<std::size_t>(n);
  }

  int fd_;
  std::string in_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

[[noreturn]] void wrong(std::string_view answer) {
  throw std::runtime_error("a wrong answer: " + std::string{answer.substr(0, 80)});
}
std::size_t number_in(std::string_view text) {
  std::size_t n = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), n).ec != std::errc{}) wrong(text);
  return n;
}

class memcached_client final : public client {
 public:
  explicit memcached_client(const server_process& server) : stream_{server} {}
  bool read(const std::string& key, std::string& value) override {
    out_.assign("get ").append(key).append("\r\n");
    stream_.send(out_);
    const std::string_view line = stream_.line();
    value.clear();
    if (line == "END") return false;
    const std::size_t space = line.rfind(' ');
    if (!line.starts_with("VALUE ") || space == std::string_view::npos) wrong(line);
    value = stream_.bytes(number_in(line.substr(space + 1)));
    const std::string_view end = stream_.line();
    if (end != "END") wrong(end);
    return true;
  }
  void write(const std::string& key, const std::string& value) override {
    out_.assign("set ").append(key).append(" 0 0 ").append(std::to_string(value.size())).append("\r\n");
    out_.append(value).append("\r\n");
    stream_.send(out_);
    const std::string_view line = stream_.line();
    if (line != "STORED") wrong(line);
  }

 private:
  stream stream_;
  std::string out_;
};

class redis_client final : public client {
 public:
  explicit redis_client(const server_process& server) : stream_{server} {}
  bool read(const std::string& key, std::string& value) override {
    out_.assign("*2\r\n$3\r\nGET\r\n");
    word(key);
    stream_.send(out_);
    const std::string_view line = stream_.line();
    value.clear();
    if (line == "$-1") return false;
    if (!line.starts_with('$')) wrong(line);
    value = stream_.bytes(number_in(line.substr(1)));
    return true;
  }
  void write(const std::string& key, const std::string& value) override {
    out_.assign("*3\r\n$3\r\nSET\r\n");
    word(key);
    word(value);
    stream_.send(out_);
    const std::string_view line = stream_.line();
    if (line != "+OK") wrong(line);
  }

 private:
  void word(const std::string& text) {
    out_.append("$").append(std::to_string(text.size())).append("\r\n").append(text).append("\r\n");
  }

  stream stream_;
  std::string out_;
};

class kv_client final : public client {
 public:
  explicit kv_client(nvm_kv* store) : store_{store} {}
  bool read(const std::string& key, std::string& value) override {
    value.clear();
    const auto take = [](const void* v, std::size_t n, void* to) {
      static_cast<std::string*>(to)->assign(static_cast<const char*>(v), n);
    };
    const int found = nvm_kv_visit(store_, key.data(), key.size(), take, &value);
    if (found < 0) throw std::runtime_error(nvm_errormsg());
    return found == 1;
  }
  void write(const std::string& key, const std::string& value) override {
    if (nvm_kv_put(store_, key.data(), key.size(), value.data(), value.size()) != 0)
      throw std::runtime_error(nvm_errormsg());
  }

 private:
  nvm_kv* store_;
};

}  // namespace

std::unique_ptr<client> connected_client(const server_process& server) {
  if (server.speaks() == dialect::memcached) return std::make_unique<memcached_client>(server);
  return std::make_unique<redis_client>(server);
}
std::unique_ptr<client> calling_client(nvm_kv* store) { return std::make_unique<kv_client>(store); }

}  // namespace nvm::bench::ycsb
