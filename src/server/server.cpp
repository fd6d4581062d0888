#include "server/server.hpp"

#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "server/log.hpp"
#include "server/reports.hpp"
#include "server/sockets.hpp"
#include "server/worker.hpp"

namespace nvm::server {
namespace {

// Descriptors beside those of the connections: sockets that listen, events, the pool.
constexpr rlim_t other_descriptors = 128;
constexpr std::uint64_t released_bytes_high = std::uint64_t{1} << 20;
constexpr int metrics_backlog = 16;
constexpr std::size_t swept_items_per_second = 20'000;

template <auto Free>
struct freed_by {
  template <class T>
  void operator()(T* p) const noexcept {
    Free(p);
  }
};
using base_owner = std::unique_ptr<event_base, freed_by<::event_base_free>>;
using event_owner = std::unique_ptr<event, freed_by<::event_free>>;
using listener_owner = std::unique_ptr<evconnlistener, freed_by<::evconnlistener_free>>;
using http_owner = std::unique_ptr<evhttp, freed_by<::evhttp_free>>;

void raise_descriptor_limit(unsigned connections) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = connections + other_descriptors;
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted;
  if (limit.rlim_max < wanted) limit.rlim_max = wanted;
  if (::setrlimit(RLIMIT_NOFILE, &limit) == 0) return;
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

struct service::parts {
  parts(const settings& given, item_store& store) : shared{given, store} {}

  struct ear {
    parts* owner;
    listening_socket socket;
    listener_owner listener;
  };

  void accept(const ear& at, int fd, const sockaddr_storage& peer, socklen_t peer_bytes);
  status add_listener(listening_socket socket);
  status open_metrics(const listening_socket& on);
  event_owner add_event(int fd, short what, event_callback_fn call) {
    event_owner e{::event_new(base.get(), fd, what, call, this)};
    return e;
  }
  void sweep();
  void hang_up_came() noexcept;
  void tell_ports() const;

  environment shared;
  base_owner base{::event_base_new()};
  std::vector<std::unique_ptr<ear>> ears;
  event_owner terminate, interrupt, user, hang_up, second;
  std::function<void()> on_hang_up;
  http_owner metrics;
  std::vector<std::unique_ptr<worker>> workers;
  std::size_t next_worker = 0;
  std::unique_ptr<item_session> session;
  counters* own = nullptr;
};

// memcached's tests and tools learn ports that were chosen here from a file that this variable names.
void service::parts::tell_ports() const {
  const char* const path = std::getenv("MEMCACHED_PORT_FILENAME");
  if (path == nullptr) return;
  const std::string temporary = std::string{path} + ".lck";
  std::FILE* const f = std::fopen(temporary.c_str(), "we");
  if (f == nullptr) return;
  for (const auto& at : ears) {
    const listening_socket& s = at->socket;
    if (s.port != 0) std::fprintf(f, "TCP %s: %d\n", s.is_ipv6 ? "INET6" : "INET", s.port);
  }
  std::fclose(f);
  static_cast<void>(std::rename(temporary.c_str(), path));
}

void service::parts::accept(const ear& at, int fd, const sockaddr_storage& peer, socklen_t peer_bytes) {
  // relaxed, all: counts, and a limit that need not be exact.
  if (shared.connections.open.load(std::memory_order_relaxed) >= shared.config.connections_max) {
    constexpr std::string_view full = "ERROR Too many open connections\r\n";
    shared.connections.rejected.fetch_add(1, std::memory_order_relaxed);
    static_cast<void>(::send(fd, full.data(), full.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
    ::close(fd);
    return;
  }
  if (peer.ss_family != AF_UNIX) {
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  shared.connections.open.fetch_add(1, std::memory_order_relaxed);
  shared.connections.total.fetch_add(1, std::memory_order_relaxed);
  try {
    workers[next_worker]->take({fd, name_of(peer, peer_bytes), at.socket.address});
  } catch (const std::bad_alloc&) {
    return shared.connections.refuse(fd);
  }
  next_worker = (next_worker + 1) % workers.size();
}

status service::parts::add_listener(listening_socket socket) {
  if (const status s = begin_listening(socket, shared.config.backlog); !s) return s.error();
  auto& at = ears.emplace_back(std::make_unique<ear>());
  at->owner = this;
  at->socket = std::move(socket);
  const auto accepted = [](evconnlistener*, evutil_socket_t fd, sockaddr* peer, int bytes, void* self) {
    const ear& e = *static_cast<ear*>(self);
    sockaddr_storage copy{};
    std::memcpy(&copy, peer, std::min(static_cast<std::size_t>(bytes), sizeof copy));
    e.owner->accept(e, fd, copy, static_cast<socklen_t>(bytes));
  };
  at->listener.reset(::evconnlistener_new(base.get(), accepted, at.get(), LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_CLOSE_ON_FREE,
                                          0, at->socket.fd));
  if (at->listener == nullptr) return fail(errc::system, "%s: no listener", at->socket.address.c_str());
  // Without descriptors left, the event would come at once again: wait until some may have been closed.
  ::evconnlistener_set_error_cb(at->listener.get(), [](evconnlistener* l, void*) {
    ::evconnlistener_disable(l);
    const timeval soon{0, 50'000};
    const auto enable = [](evutil_socket_t, short, void* again) {
      ::evconnlistener_enable(static_cast<evconnlistener*>(again));
    };
    // Without memory for the wait, it goes on at once.
    if (::event_base_once(::evconnlistener_get_base(l), -1, EV_TIMEOUT, enable, l, &soon) != 0) enable(-1, 0, l);
  });
  shared.connections.enter(at->socket.fd, at->socket.address, "", socket_state::listening, shared.started);
  return {};
}

status service::parts::open_metrics(const listening_socket& on) {
  if (const status s = begin_listening(on, metrics_backlog); !s) return s.error();
  metrics.reset(::evhttp_new(base.get()));
  if (metrics == nullptr || ::evhttp_accept_socket(metrics.get(), on.fd) != 0) {
    return fail(errc::system, "--metrics-port: no server for metrics");
  }
  ::evhttp_set_allowed_methods(metrics.get(), EVHTTP_REQ_GET | EVHTTP_REQ_HEAD);
  ::evhttp_set_cb(
      metrics.get(), "/metrics",
      [](evhttp_request* request, void* self) {
        const auto no_memory = [request] { ::evhttp_send_error(request, HTTP_INTERNAL, nullptr); };
        std::string page;
        try {
          page = metrics_page(static_cast<parts*>(self)->shared);
        } catch (const std::bad_alloc&) {
          return no_memory();
        }
        evbuffer* const body = ::evbuffer_new();
        if (body == nullptr) return no_memory();
        if (::evbuffer_add(body, page.data(), page.size()) != 0) {
          ::evbuffer_free(body);
          return no_memory();
        }
        ::evhttp_add_header(::evhttp_request_get_output_headers(request), "Content-Type",
                            "text/plain; version=0.0.4; charset=utf-8");
        ::evhttp_send_reply(request, HTTP_OK, "OK", body);
        ::evbuffer_free(body);
      },
      this);
  say("nv-memcached: metrics at http://127.0.0.1:%d/metrics", on.port);
  return {};
}

void service::parts::hang_up_came() noexcept try { on_hang_up(); } catch (const std::bad_alloc&) {
  say("nv-memcached: no memory to open the log again");
}

// Expired items give their memory back also without a request for them, and a failure in the background is reported.
void service::parts::sweep() {
  static_cast<void>(session->reached());
  if (shared.store.failed()) {
    if (shared.config.failure == on_failure::end) shared.stop();
    return;
  }
  // Gives memory of former clients back to the system: by itself the allocator does that only for large pieces.
  if (shared.released_bytes.load(std::memory_order_relaxed) >= released_bytes_high) {
    shared.released_bytes.store(0, std::memory_order_relaxed);
    (void)::malloc_trim(0);
  }
  const std::uint32_t now = shared.clock.now();
  shared.store.tick(now);
  if (!session->enter()) return;
  shared.store.sweep(*session, {now, 0, swept_items_per_second, false}, [this](const item& i, bool) {
    const unsigned size_class = shared.classes.of(item_bytes(i));
    own->add(count::reclaimed);
    own->add(size_class, class_count::reclaimed);
    if (!i.state().fetched) {
      own->add(count::expired_unfetched);
      own->add(size_class, class_count::expired_unfetched);
    }
  });
  session->leave();
}

service::service(std::unique_ptr<parts> all) noexcept : all_{std::move(all)} {}
service::~service() = default;

result<service::addresses> service::take_addresses(const settings& given) {
  addresses taken;
  if (given.metrics_port != 0) {
    if (const status s = bind_tcp("127.0.0.1", given.metrics_port, taken.of_metrics); !s) return s.error();
  }
  std::vector<listening_socket>& sockets = taken.of_clients;
  if (given.port != 0 && (given.unix_path.empty() || given.addresses_given)) {
    for (const std::string& address : given.addresses) {
      if (const status s = bind_tcp(address, given.port, sockets); !s) return s.error();
    }
  }
  // Last: if another address failed after it, its file would stay.
  if (!given.unix_path.empty()) {
    auto s = listen_unix(given.unix_path, given.unix_mode, given.backlog);
    if (!s) return s.error();
    sockets.push_back(std::move(*s));
  }
  return taken;
}

result<std::unique_ptr<service>> service::open(const settings& given, item_store& store, addresses taken) {
  auto all = std::make_unique<parts>(given, store);
  if (all->base == nullptr) return fail(errc::system, "libevent has no base for this system");
  raise_descriptor_limit(given.connections_max);
  for (const listening_socket& s : taken.of_clients) {
    if (const status added = all->add_listener(s); !added) return added.error();
  }
  for (const listening_socket& s : taken.of_metrics) {
    if (const status opened = all->open_metrics(s); !opened) return opened.error();
  }

  for (unsigned i = 0; i < given.threads; ++i) {
    auto& w = all->workers.emplace_back(std::make_unique<worker>(all->shared));
    if (!w->is_good()) return fail(errc::system, "no event base for a worker");
  }
  all->session = store.open_session();
  all->own = &all->shared.stats.add_worker();
  return std::unique_ptr<service>{new service{std::move(all)}};
}

status service::run(std::function<void()> on_hang_up) {
  parts& all = *all_;
  all.on_hang_up = std::move(on_hang_up);
  // The loop always ends by a signal, also for the command "shutdown".
  all.shared.stop = [] { ::kill(::getpid(), SIGTERM); };
  const auto stopped = [](evutil_socket_t, short, void* self) {
    ::event_base_loopbreak(static_cast<parts*>(self)->base.get());
  };
  all.terminate = all.add_event(SIGTERM, EV_SIGNAL | EV_PERSIST, stopped);
  all.interrupt = all.add_event(SIGINT, EV_SIGNAL | EV_PERSIST, stopped);
  all.user = all.add_event(SIGUSR1, EV_SIGNAL | EV_PERSIST, stopped);
  all.hang_up = all.add_event(SIGHUP, EV_SIGNAL | EV_PERSIST,
                              [](evutil_socket_t, short, void* self) { static_cast<parts*>(self)->hang_up_came(); });
  all.second =
      all.add_event(-1, EV_PERSIST, [](evutil_socket_t, short, void* self) { static_cast<parts*>(self)->sweep(); });
  const timeval second{1, 0};
  if (all.terminate == nullptr || all.interrupt == nullptr || all.user == nullptr || all.hang_up == nullptr ||
      all.second == nullptr || ::event_add(all.hang_up.get(), nullptr) != 0 ||
      ::event_add(all.terminate.get(), nullptr) != 0 || ::event_add(all.interrupt.get(), nullptr) != 0 ||
      ::event_add(all.user.get(), nullptr) != 0 || ::event_add(all.second.get(), &second) != 0) {
    return fail(errc::system, "no events for signals");
  }
  status started;
  for (const auto& w : all.workers) {
    if (started) started = w->start();
  }
  int ended = 0;
  if (started) {
    // Nothing is left that could fail, and signals are listened to.
    all.tell_ports();
    notify_manager("READY=1");
    ended = ::event_base_dispatch(all.base.get());
    notify_manager("STOPPING=1");
  }
  // First no new client is accepted; then commands that workers have begun are finished and their replies sent.
  for (const auto& at : all.ears) ::evconnlistener_disable(at->listener.get());
  for (const auto& w : all.workers) w->stop();
  for (const auto& w : all.workers) w->join();
  all.workers.clear();
  all.session.reset();
  if (!all.shared.config.unix_path.empty()) ::unlink(all.shared.config.unix_path.c_str());
  if (!started) return started;  // the message is this thread's, of its last failure
  if (ended < 0) return fail(errc::system, "the event loop failed: %s", std::strerror(errno));
  return {};
}

}  // namespace nvm::server
