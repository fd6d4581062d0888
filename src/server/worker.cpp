#include "server/worker.hpp"

#include <event2/event.h>
#include <unistd.h>

#include <new>
#include <system_error>
#include <utility>

#include "platform/platform.hpp"

namespace nvm::server {
namespace {

// A reply buffer keeps so much memory for the next connection that needs one.
constexpr std::size_t reply_kept_bytes = std::size_t{64} << 10;
constexpr std::size_t replies_kept = 32;

event_base* new_base() {
  event_config* const how = ::event_config_new();
  if (how == nullptr) return nullptr;
  // Only its own thread touches the base; others write to the event descriptor.
  ::event_config_set_flag(how, EVENT_BASE_FLAG_NOLOCK);
  event_base* const base = ::event_base_new_with_config(how);
  ::event_config_free(how);
  return base;
}

}  // namespace

worker::worker(environment& shared)
    : shared_{shared},
      counters_{shared.stats.add_worker()},
      session_{shared.store.open_session()},
      executor_{shared, counters_, *session_},
      limits_{shared.config.item_bytes_max, shared.config.debug_commands},
      base_{new_base()},
      wake_fd_{platform::open_events()},
      read_buffer_{std::make_unique_for_overwrite<char[]>(read_bytes)} {
  free_replies_.reserve(replies_kept);
  executor_.before_letting_go([this] { return settle_replies(); });
  is_good_ = base_ != nullptr && wake_fd_ >= 0 && add_events();
}

bool worker::add_events() noexcept {
  wake_ = ::event_new(
      base_, wake_fd_, EV_READ | EV_PERSIST,
      [](evutil_socket_t, short, void* self) { static_cast<worker*>(self)->take_new_sockets(); }, this);
  if (wake_ == nullptr || ::event_add(wake_, nullptr) != 0) return false;
  if (shared_.config.idle_seconds_max == 0) return true;
  tick_ = ::event_new(
      base_, -1, EV_PERSIST, [](evutil_socket_t, short, void* self) { static_cast<worker*>(self)->drop_idle(); }, this);
  const timeval second{1, 0};
  return tick_ != nullptr && ::event_add(tick_, &second) == 0;
}

worker::~worker() {
  if (thread_.joinable()) {  // the service could not be started
    stop();
    join();
  }
  if (wake_ != nullptr) ::event_free(wake_);
  if (tick_ != nullptr) ::event_free(tick_);
  connections_.clear();
  if (base_ != nullptr) ::event_base_free(base_);
  if (wake_fd_ >= 0) ::close(wake_fd_);
}

status worker::start() noexcept try {
  thread_ = std::thread{[this] { run(); }};
  return {};
} catch (const std::system_error& e) {
  return fail(errc::system, "no thread for a worker: %s", e.what());
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no memory for the thread of a worker");
}

void worker::take(new_socket s) {
  {
    const std::lock_guard lock{mutex_};
    incoming_.push_back(std::move(s));
  }
  const std::uint64_t one = 1;
  if (::write(wake_fd_, &one, sizeof one) < 0) return;  // it is full: the worker is awake already
}

void worker::stop() {
  // release: pairs with the acquire in run().
  stopping_.store(true, std::memory_order_release);
  const std::uint64_t one = 1;
  if (::write(wake_fd_, &one, sizeof one) < 0) return;
}

void worker::join() {
  if (thread_.joinable()) thread_.join();
}

std::unique_ptr<reply_buffer> worker::borrow_reply() {
  if (free_replies_.empty()) return std::make_unique<reply_buffer>();
  std::unique_ptr<reply_buffer> r = std::move(free_replies_.back());
  free_replies_.pop_back();
  return r;
}

void worker::give_back(std::unique_ptr<reply_buffer> r) noexcept {
  if (free_replies_.size() == free_replies_.capacity()) return;
  r->clear(reply_kept_bytes);
  free_replies_.push_back(std::move(r));
}

void worker::mark_ready(connection& c) noexcept {
  if (c.is_ready) return;
  c.is_ready = true;
  ready_.push_back(&c);
}

bool worker::settle_replies() noexcept try {
  for (connection* const c : ready_) c->settle();
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

void worker::begin_round() {
  if (in_round_) return;
  if (!session_->enter()) throw std::bad_alloc{};
  in_round_ = true;
  reading_.emplace();
  failed_before_ = shared_.store.failed();
  counters_.add(count::rounds);
  executor_.look_at_clock();
}

void worker::finish_round() {
  if (ready_.empty() && !in_round_) return;
  bool durable = true;
  // If the store had failed before the round, commands were refused: these answers can be sent.
  if (in_round_ && !failed_before_) {
    // Asked even if there is no wait: a failed medium loses whatever it takes.
    const position p = session_->reached();
    if (shared_.config.durable == durability::strict && !shared_.store.is_durable(p)) {
      counters_.add(count::waits);
      durable = shared_.store.wait(p);
    }
    // The store notices a lost page in its next call.
    if (platform::any_lost()) static_cast<void>(session_->reached());
    durable = durable && !shared_.store.failed();
  }
  for (std::size_t i = 0; i < ready_.size(); ++i) {
    connection* const c = ready_[i];
    c->is_ready = false;
    // A change that cannot be made durable must not be acknowledged, and data from a store that has failed meanwhile
    // must not be sent: the client sees a broken connection.
    if (!durable) c->hang_up();
    if (!c->send()) {
      close(c);
    } else if (c->has_work()) {
      again_.push_back(c);
    }
  }
  ready_.clear();
  if (in_round_) session_->leave();
  reading_.reset();
  in_round_ = false;
  if (shared_.config.failure == on_failure::end && shared_.store.failed()) shared_.stop();
}

void worker::close(connection* c) {
  // relaxed: a count.
  shared_.connections.open.fetch_sub(1, std::memory_order_relaxed);
  shared_.connections.leave(c->entry());
  const std::size_t place = c->place;
  connections_.back()->place = place;
  std::swap(connections_[place], connections_.back());
  connections_.pop_back();
}

void worker::add_connection(new_socket& s) {
  const auto make_room_in = [](auto& list, std::size_t n) {
    if (list.capacity() < n) list.reserve(2 * n);
  };
  const std::size_t then = connections_.size() + 1;
  make_room_in(connections_, then);
  for (auto* list : {&ready_, &again_, &going_on_}) make_room_in(*list, then);
  const auto entry = shared_.connections.enter(s.fd, std::move(s.address), std::move(s.listen_address),
                                               socket_state::reading, shared_.clock.now());
  std::unique_ptr<connection> c{new (std::nothrow) connection(*this, s.fd, entry)};
  if (c == nullptr) {
    shared_.connections.leave(entry);
    throw std::bad_alloc{};
  }
  c->place = connections_.size();
  connections_.push_back(std::move(c));
}

void worker::take_new_sockets() noexcept {
  std::uint64_t drained = 0;
  if (::read(wake_fd_, &drained, sizeof drained) < 0) return;
  std::vector<new_socket> sockets;
  {
    const std::lock_guard lock{mutex_};
    sockets.swap(incoming_);
  }
  for (new_socket& s : sockets) {
    try {
      add_connection(s);
    } catch (const std::bad_alloc&) {
      counters_.add(count::conn_no_memory);
      shared_.connections.refuse(s.fd);
    }
  }
}

void worker::drop_idle() noexcept {
  const std::uint32_t now = shared_.clock.now();
  const std::uint32_t limit = shared_.config.idle_seconds_max;
  for (const auto& c : connections_) {
    if (now <= limit || !c->is_idle_since(now - limit - 1)) continue;
    counters_.add(count::idle_kicks);
    c->hang_up();
    mark_ready(*c);
  }
}

void worker::run() {
  // acquire: pairs with the release in stop().
  while (!stopping_.load(std::memory_order_acquire)) {
    going_on_.swap(again_);
    ::event_base_loop(base_, going_on_.empty() ? EVLOOP_ONCE : EVLOOP_ONCE | EVLOOP_NONBLOCK);
    for (connection* c : going_on_) c->go_on();
    going_on_.clear();
    finish_round();
  }
  while (!connections_.empty()) close(connections_.back().get());
  session_.reset();
}

}  // namespace nvm::server
