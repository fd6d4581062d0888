#include "server/connection.hpp"

#include <event2/event.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "server/log.hpp"
#include "server/worker.hpp"

namespace nvm::server {
namespace {

constexpr std::size_t kept_input_bytes_max = 2048;
// Larger values count before all of their bytes have come.
constexpr std::size_t large_bytes_min = std::size_t{16} << 10;
constexpr char binary_magic = '\x80';

void on_readable(evutil_socket_t, short, void* self) { static_cast<connection*>(self)->read(); }
void on_writable(evutil_socket_t, short, void* self) { static_cast<connection*>(self)->go_on(); }

}  // namespace

connection::connection(worker& owner, int fd, connection_table::handle entry) noexcept
    : worker_{owner},
      fd_{fd},
      entry_{entry},
      readable_{::event_new(owner.base(), fd, EV_READ | EV_PERSIST, on_readable, this)},
      writable_{::event_new(owner.base(), fd, EV_WRITE, on_writable, this)} {
  if (readable_ == nullptr || writable_ == nullptr || ::event_add(readable_, nullptr) != 0) {
    hang_up();
    worker_.mark_ready(*this);
  }
}

connection::~connection() {
  if (readable_ != nullptr) ::event_free(readable_);
  if (writable_ != nullptr) ::event_free(writable_);
  if (out_ != nullptr) worker_.give_back(std::move(out_));
  end_waiting();
  worker_.shared().released_bytes.fetch_add(input_.capacity(), std::memory_order_relaxed);
  ::close(fd_);
}

void connection::log_command(std::string_view line) const {
  constexpr std::size_t shown_bytes_max = 1000;
  const std::string text{line.substr(0, std::min(line.find_first_of("\r\n"), shown_bytes_max))};
  say("<%d %s", fd_, text.c_str());
}

// A get that was interrupted; false: it is still not done.
bool connection::continue_get() {
  command& c = worker_.scratch_command();
  c.what = get_verb_;
  c.expiry = get_expiry_;
  c.key = std::string_view{get_keys_}.substr(get_at_);
  if (worker_.commands().execute(c, *out_) == executor::after::again) {
    get_at_ = static_cast<std::size_t>(c.key.data() - get_keys_.data());
    return false;
  }
  get_verb_ = verb::refused;
  get_keys_.clear();
  return true;
}

// Takes the rest of a refused value from the beginning of `input`, and answers when all of it has come.
std::size_t connection::throw_away(std::string_view input) {
  const std::size_t thrown = std::min(swallow_, input.size());
  swallow_ -= thrown;
  if (swallow_ == 0 && !late_refusal_.empty()) {
    out_->append(late_refusal_);
    out_->append("\r\n");
    late_refusal_ = {};
  }
  return thrown;
}

// A whole command, parsed from the beginning of `input`.
void connection::carry_out(command& c, std::string_view input) {
  swallow_ = c.swallow;
  if (swallow_ != 0 && !c.silent) late_refusal_ = c.refusal;
  // relaxed: for people.
  entry_->last_command.store(worker_.commands().now(), std::memory_order_relaxed);
  if (worker_.shared().verbosity.load(std::memory_order_relaxed) > 1) [[unlikely]]
    log_command(input);
  if (c.what == verb::stats) note(socket_state::parsing);
  switch (worker_.commands().execute(c, *out_)) {
    case executor::after::next:
      break;
    case executor::after::again:
      get_verb_ = c.what;
      get_expiry_ = c.expiry;
      get_keys_ = c.key;
      get_at_ = 0;
      break;
    case executor::after::close:
      ends_ = true;
      break;
  }
}

std::size_t connection::consume(std::string_view input) {
  std::size_t at = 0;
  unsigned commands = 0;
  has_work_ = false;
  while (!ends_ && !doomed_) {
    if (out_->pending() >= reply_bytes_high) {
      has_work_ = get_verb_ != verb::refused || at != input.size();
      break;
    }
    if (get_verb_ != verb::refused) {
      if (!continue_get()) has_work_ = true;
      if (has_work_) break;
      continue;
    }
    at += throw_away(input.substr(at));
    const std::string_view rest = input.substr(at);
    if (rest.empty() || rest.size() < needed_) break;
    needed_ = 0;  // of the command before this try
    if (commands++ == worker_.shared().config.commands_per_round) {
      worker_.own_counters().add(count::conn_yields);
      has_work_ = true;
      break;
    }
    if (!first_byte_seen_) {
      first_byte_seen_ = true;
      const bool binary = rest.front() == binary_magic;
      if (binary) {
        doomed_ = true;
        break;
      }
    }
    command& c = worker_.scratch_command();
    const parsed p = parse(rest, worker_.limits(), c);
    if (p.what == parsed::answer::hang_up) {
      ends_ = true;  // after the replies to earlier commands
      break;
    }
    if (p.what == parsed::answer::incomplete) {
      const bool is_value = rest.substr(0, whole_line_bytes_max + 1).find('\n') != std::string_view::npos;
      if (is_value && !await(p.bytes)) {
        at += refuse_value(rest, p.bytes);
        continue;
      }
      needed_ = p.bytes;
      note(is_value ? socket_state::value : socket_state::reading);
      return at;
    }
    end_waiting();
    at += p.bytes;
    carry_out(c, rest);
  }
  note(swallow_ != 0 ? socket_state::swallowing : socket_state::reading);
  return at;
}

// Whether to wait for a value of so many bytes, its command included.
bool connection::await(std::size_t bytes) noexcept {
  if (bytes < large_bytes_min || awaited_ != 0) return true;
  auto& all = worker_.shared().awaited_bytes;
  if (all.fetch_add(bytes, std::memory_order_relaxed) + bytes <= worker_.shared().store.used().limit_bytes) {
    awaited_ = bytes;
    return true;
  }
  all.fetch_sub(bytes, std::memory_order_relaxed);
  return false;
}

void connection::end_waiting() noexcept {
  if (awaited_ == 0) return;
  worker_.shared().awaited_bytes.fetch_sub(awaited_, std::memory_order_relaxed);
  awaited_ = 0;
}

// The command that was just parsed, of so many bytes: its line is taken, its value will be thrown away.
std::size_t connection::refuse_value(std::string_view input, std::size_t bytes) {
  const command& c = worker_.scratch_command();
  worker_.commands().note_no_memory(c);
  const std::size_t line = input.find('\n') + 1;
  swallow_ = bytes - line;
  if (!c.silent || c.what == verb::meta_set) late_refusal_ = no_memory_text;
  return line;
}

void connection::keep(std::string_view rest) {
  if (ends_ || doomed_) rest = {};
  if (rest.data() == input_.data() && !rest.empty()) {
    input_.resize(rest.size());
  } else if (!input_.empty() && rest.data() > input_.data() && rest.data() < input_.data() + input_.size()) {
    input_.erase(input_.begin(), input_.begin() + (rest.data() - input_.data()));
  } else {
    input_.assign(rest.begin(), rest.end());
  }
  const std::size_t held = input_.capacity();
  if (held > kept_input_bytes_max && input_.size() < held / 2) {
    input_.shrink_to_fit();
    worker_.shared().released_bytes.fetch_add(held - input_.capacity(), std::memory_order_relaxed);
  }
}

// Receives once; empty: no bytes have come.
std::string_view connection::receive() {
  const std::size_t had = input_.size();
  // The rest of a large value is received in place, in room that grows with the bytes received and not with the size
  // announced; anything else goes through the worker's buffer.
  const std::size_t wanted = needed_ > had ? needed_ - had : 0;
  const bool in_place = had != 0 && wanted > worker::read_bytes;
  const std::size_t room = in_place ? std::min(wanted, std::max(had / 2, worker::read_bytes)) : worker::read_bytes;
  if (in_place) input_.resize(had + room);
  char* const to = in_place ? input_.data() + had : worker_.read_buffer();
  const ssize_t n = ::recv(fd_, to, room, 0);
  worker_.own_counters().add(count::reads);
  if (n <= 0) {
    // The client sends nothing more, and all that it has sent was carried out, but for an unfinished command.
    if (n == 0) ends_ = true;
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) doomed_ = true;
    input_.resize(had);
    return {};
  }
  const auto got = static_cast<std::size_t>(n);
  worker_.own_counters().add(count::bytes_read, got);
  if (in_place) {
    input_.resize(had + got);
  } else if (had != 0) {
    input_.insert(input_.end(), to, to + got);
  } else {
    return {to, got};
  }
  return {input_.data(), input_.size()};
}

void connection::lack_memory() noexcept {
  worker_.own_counters().add(count::conn_no_memory);
  hang_up();
  worker_.mark_ready(*this);
}

void connection::read() noexcept try { receive_and_consume(); } catch (const std::bad_alloc&) {
  lack_memory();
}
void connection::receive_and_consume() {
  // The worker calls go_on() in this round, and what has come waits in the socket.
  if (has_work_) return;
  worker_.begin_round();
  worker_.mark_ready(*this);
  if (out_ == nullptr) out_ = worker_.borrow_reply();
  const std::string_view input = receive();
  if (!input.empty()) keep(input.substr(consume(input)));
}

void connection::go_on() noexcept try { consume_what_waits(); } catch (const std::bad_alloc&) {
  lack_memory();
}
void connection::consume_what_waits() {
  worker_.begin_round();
  worker_.mark_ready(*this);
  if (out_ == nullptr) out_ = worker_.borrow_reply();
  if (blocked_ && out_->pending() >= reply_bytes_high) return;  // some replies must go out first
  const std::string_view input{input_.data(), input_.size()};
  keep(input.substr(consume(input)));
}

bool connection::send() noexcept try { return !doomed_ && send_replies(); } catch (const std::bad_alloc&) {
  worker_.own_counters().add(count::conn_no_memory);
  return false;
}
bool connection::send_replies() {
  if (out_ != nullptr && !out_->empty()) {
    std::size_t bytes = 0;
    std::size_t calls = 0;
    const reply_buffer::sent s = out_->send_to(fd_, bytes, calls);
    worker_.own_counters().add(count::bytes_written, bytes);
    worker_.own_counters().add(count::sends, calls);
    if (s == reply_buffer::sent::failed) return false;
    if (s == reply_buffer::sent::some) {
      // References to items end with the round.
      out_->settle();
      if (platform::any_lost()) return false;  // the bytes sent may have been zeros
      if (!blocked_) ::event_del(readable_);
      blocked_ = true;
      note(socket_state::writing);
      return ::event_add(writable_, nullptr) == 0;
    }
  }
  if (out_ != nullptr) {
    worker_.give_back(std::move(out_));
  }
  if (ends_) return false;
  if (blocked_) {
    blocked_ = false;
    if (::event_add(readable_, nullptr) != 0) return false;
    // Commands that the client sent before it stopped reading still wait.
    if (!input_.empty() && input_.size() >= needed_) has_work_ = true;
  }
  return true;
}

}  // namespace nvm::server
