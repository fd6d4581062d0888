#include "server/reports.hpp"

#include <event2/event.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <concepts>
#include <cstdio>
#include <map>
#include <string>

#include "holdfast_version.hpp"
#include "server/executor.hpp"
#include "server/numbers.hpp"

namespace nvm::server {
namespace {

// The size of the classes' units, for tools that compute with it.
constexpr std::uint64_t page_bytes = std::uint64_t{1} << 20;

class teller {
 public:
  explicit teller(const report_line& tell) : tell_{tell} {}
  void operator()(std::string_view name, std::string_view value) const { tell_(name, value); }
  void operator()(std::string_view name, const char* value) const { tell_(name, value); }
  void operator()(std::string_view name, bool) const = delete;
  template <std::unsigned_integral T>
  void operator()(std::string_view name, T value) const {
    char digits[number_bytes_max];
    tell_(name, {digits, put_number(digits, value)});
  }
  void operator()(std::string_view name, int value) const { tell_(name, std::to_string(value)); }
  template <class... Arguments>
  void formatted(std::string_view name, const char* format, Arguments... arguments) const {
    char text[64];
    const int n = std::snprintf(text, sizeof text, format, arguments...);
    tell_(name, {text, static_cast<std::size_t>(n)});
  }

 private:
  const report_line& tell_;
};

const char* yes(bool b) { return b ? "yes" : "no"; }

struct class_sum {
  std::uint64_t items = 0;
  std::uint64_t bytes = 0;
  std::uint32_t idle_max = 0;
};

std::array<class_sum, size_classes_max> sums_by_class(environment& shared, item_session& session, std::uint32_t now) {
  std::array<class_sum, size_classes_max> sums;
  shared.store.for_each(session, [&](const item& i) {
    class_sum& s = sums[shared.classes.of(item_bytes(i))];
    ++s.items;
    s.bytes += item_bytes(i);
    s.idle_max = std::max(s.idle_max, i.state().idle(now));
    return true;
  });
  return sums;
}

}  // namespace

void report_general(environment& shared, const report_line& tell_line) {
  const teller tell{tell_line};
  const count_sums sums = shared.stats.sums();
  const usage used = shared.store.used();
  const settings& s = shared.config;
  const std::uint32_t now = shared.clock.now();
  rusage time{};
  ::getrusage(RUSAGE_SELF, &time);
  // relaxed, here and below: numbers for people.
  const std::uint64_t open = shared.connections.open.load(std::memory_order_relaxed);

  tell("pid", static_cast<std::uint64_t>(::getpid()));
  tell("uptime", now - shared.started);
  tell("time", now);
  tell("version", version_text);
  // memcached's tests count the lines.
  if (shared.store.failed()) tell("pool_failed", 1U);
  tell("libevent", event_get_version());
  tell("pointer_size", 8 * sizeof(void*));
  tell.formatted("rusage_user", "%ld.%06ld", static_cast<long>(time.ru_utime.tv_sec),
                 static_cast<long>(time.ru_utime.tv_usec));
  tell.formatted("rusage_system", "%ld.%06ld", static_cast<long>(time.ru_stime.tv_sec),
                 static_cast<long>(time.ru_stime.tv_usec));
  tell("max_connections", s.connections_max);
  tell("curr_connections", open);
  tell("total_connections", shared.connections.total.load(std::memory_order_relaxed));
  tell("rejected_connections", shared.connections.rejected.load(std::memory_order_relaxed));
  tell("connection_structures", open);
  tell("response_obj_oom", 0U);
  tell("response_obj_count", 0U);
  tell("response_obj_bytes", 0U);
  tell("read_buf_count", 0U);
  tell("read_buf_bytes", 0U);
  tell("read_buf_bytes_free", 0U);
  tell("read_buf_oom", 0U);
  tell("reserved_fds", 0U);
  tell("cmd_get", sums[count::get_cmds]);
  tell("cmd_set", sums[class_count::set_cmds]);
  tell("cmd_flush", sums[count::flush_cmds]);
  tell("cmd_touch", sums[count::touch_cmds]);
  tell("cmd_meta", sums[count::meta_cmds]);
  tell("get_hits", sums[class_count::get_hits]);
  tell("get_misses", sums[count::get_misses]);
  tell("get_expired", sums[count::get_expired]);
  tell("get_flushed", sums[count::get_flushed]);
  tell("delete_misses", sums[count::delete_misses]);
  tell("delete_hits", sums[class_count::delete_hits]);
  tell("incr_misses", sums[count::incr_misses]);
  tell("incr_hits", sums[class_count::incr_hits]);
  tell("decr_misses", sums[count::decr_misses]);
  tell("decr_hits", sums[class_count::decr_hits]);
  tell("cas_misses", sums[count::cas_misses]);
  tell("cas_hits", sums[class_count::cas_hits]);
  tell("cas_badval", sums[class_count::cas_badval]);
  tell("touch_hits", sums[class_count::touch_hits]);
  tell("touch_misses", sums[count::touch_misses]);
  tell("store_too_large", sums[count::store_too_large]);
  tell("store_no_memory", sums[count::store_no_memory]);
  tell("auth_cmds", sums[count::auth_cmds]);
  tell("auth_errors", sums[count::auth_errors]);
  if (s.idle_seconds_max != 0) tell("idle_kicks", sums[count::idle_kicks]);
  tell("bytes_read", sums[count::bytes_read]);
  tell("bytes_written", sums[count::bytes_written]);
  tell("limit_maxbytes", used.limit_bytes);
  tell("accepting_conns", 1U);
  tell("listen_disabled_num", 0U);
  tell("time_in_listen_disabled_us", 0U);
  tell("threads", s.threads);
  tell("conn_yields", sums[count::conn_yields]);
  tell("conn_no_memory", sums[count::conn_no_memory]);
  tell("hash_power_level", used.buckets_log2);
  tell("hash_bytes", used.index_bytes);
  tell("hash_is_expanding", used.resizing ? 1U : 0U);
  tell("slab_reassign_rescues", 0U);
  tell("slab_reassign_chunk_rescues", 0U);
  tell("slab_reassign_evictions_nomem", 0U);
  tell("slab_reassign_inline_reclaim", 0U);
  tell("slab_reassign_busy_items", 0U);
  tell("slab_reassign_busy_deletes", 0U);
  tell("slab_reassign_running", 0U);
  tell("slabs_moved", used.places_made);
  tell("malloc_fails", 0U);
  tell("log_worker_dropped", 0U);
  tell("log_worker_written", 0U);
  tell("log_watcher_skipped", 0U);
  tell("log_watcher_sent", 0U);
  tell("log_watchers", 0U);
  tell("unexpected_napi_ids", 0U);
  tell("round_robin_fallback", 0U);
  tell("bytes", used.item_bytes);
  if (used.items) tell("curr_items", *used.items);
  tell("total_items", sums[count::total_items]);
  tell("slab_global_page_pool", 0U);
  tell("expired_unfetched", sums[count::expired_unfetched]);
  tell("evicted_unfetched", sums[count::evicted_unfetched]);
  tell("evictions", sums[count::evictions]);
  tell("reclaimed", sums[count::reclaimed]);
  tell("crawler_reclaimed", 0U);
  tell("crawler_items_checked", 0U);
  tell("lrutail_reflocked", 0U);
}

void report_settings(environment& shared, const report_line& tell_line) {
  const teller tell{tell_line};
  const settings& s = shared.config;
  std::string inter;
  for (const std::string& a : s.addresses) inter += (inter.empty() ? "" : ",") + a;
  tell("maxbytes", shared.store.used().limit_bytes);
  tell("maxconns", s.connections_max);
  tell("tcpport", s.port);
  tell("udpport", 0U);
  tell("inter", s.addresses_given || s.unix_path.empty() ? inter : "NULL");
  // relaxed: a number for people.
  tell("verbosity", shared.verbosity.load(std::memory_order_relaxed));
  tell("oldest", 0U);
  tell("evictions", s.evictions ? "on" : "off");
  tell("domain_socket", s.unix_path.empty() ? "NULL" : s.unix_path.c_str());
  tell.formatted("umask", "%o", s.unix_mode);
  tell("shutdown_command", yes(s.shutdown_command));
  tell.formatted("growth_factor", "%.2f", s.class_growth);
  tell("chunk_size", s.class_smallest);
  tell("num_threads", s.threads);
  tell("num_threads_per_udp", 0U);
  tell("stat_key_prefix", ":");
  tell("detail_enabled", "no");
  tell("reqs_per_event", s.commands_per_round);
  tell("cas_enabled", yes(s.cas));
  tell("tcp_backlog", s.backlog);
  tell("binding_protocol", s.protocol == binding::automatic ? "auto-negotiate" : "ascii");
  tell("auth_enabled_sasl", "no");
  tell("auth_enabled_ascii", s.auth_path.empty() ? "no" : s.auth_path.c_str());
  tell("item_size_max", s.item_bytes_max);
  tell("maxconns_fast", "yes");
  tell("hashpower_init", 0U);
  tell("slab_reassign", "no");
  tell("slab_automove", 1U);
  tell("lru_crawler", "yes");
  tell("flush_enabled", yes(s.flush_command));
  tell("dump_enabled", yes(s.dump_commands));
  tell("hash_algorithm", "xxh3");
  tell("lru_maintainer_thread", "no");
  tell("lru_segmented", "no");
  tell("idle_timeout", s.idle_seconds_max);
  tell("track_sizes", "yes");
  tell("inline_ascii_response", "no");
  tell("memory_file", s.pool_path.empty() ? "(null)" : s.pool_path.c_str());
  tell("durability", s.volatile_store ? "none" : s.durable == durability::strict ? "strict" : "relaxed");
}

void report_connections(environment& shared, std::uint32_t now, const report_line& tell_line) {
  const teller tell{tell_line};
  shared.connections.for_each([&](const socket_entry& e) {
    const std::string prefix = std::to_string(e.fd) + ":";
    tell(prefix + "addr", e.address);
    if (!e.listen_address.empty()) tell(prefix + "listen_addr", e.listen_address);
    // relaxed: it may change at any time.
    tell(prefix + "state", name_of(e.state.load(std::memory_order_relaxed)));
    tell(prefix + "secs_since_last_cmd", now - e.last_command.load(std::memory_order_relaxed));
  });
}

void report_items(environment& shared, item_session& session, std::uint32_t now, const report_line& tell_line) {
  const teller tell{tell_line};
  const auto by_class = sums_by_class(shared, session, now);
  const count_sums sums = shared.stats.sums();
  for (unsigned c = 1; c <= shared.classes.count(); ++c) {
    const class_sum& s = by_class[c];
    if (s.items == 0 && sums.of(c, class_count::set_cmds) == 0) continue;
    const std::string prefix = "items:" + std::to_string(c) + ":";
    tell(prefix + "number", s.items);
    tell(prefix + "number_hot", 0U);
    tell(prefix + "number_warm", 0U);
    tell(prefix + "number_cold", s.items);
    tell(prefix + "age_hot", 0U);
    tell(prefix + "age_warm", 0U);
    tell(prefix + "age", s.idle_max);
    tell(prefix + "mem_requested", s.bytes);
    tell(prefix + "evicted", sums.of(c, class_count::evicted));
    tell(prefix + "evicted_nonzero", sums.of(c, class_count::evicted_nonzero));
    tell(prefix + "evicted_time", 0U);
    tell(prefix + "outofmemory", sums.of(c, class_count::outofmemory));
    tell(prefix + "tailrepairs", 0U);
    tell(prefix + "reclaimed", sums.of(c, class_count::reclaimed));
    tell(prefix + "expired_unfetched", sums.of(c, class_count::expired_unfetched));
    tell(prefix + "evicted_unfetched", sums.of(c, class_count::evicted_unfetched));
    tell(prefix + "evicted_active", 0U);
    tell(prefix + "crawler_reclaimed", 0U);
    tell(prefix + "crawler_items_checked", 0U);
    tell(prefix + "lrutail_reflocked", 0U);
    tell(prefix + "moves_to_cold", 0U);
    tell(prefix + "moves_to_warm", 0U);
    tell(prefix + "moves_within_lru", 0U);
    tell(prefix + "direct_reclaims", 0U);
    tell(prefix + "hits_to_hot", 0U);
    tell(prefix + "hits_to_warm", 0U);
    tell(prefix + "hits_to_cold", sums.of(c, class_count::get_hits));
    tell(prefix + "hits_to_temp", 0U);
  }
}

void report_slabs(environment& shared, item_session& session, const report_line& tell_line) {
  const teller tell{tell_line};
  const auto by_class = sums_by_class(shared, session, 0);
  const count_sums sums = shared.stats.sums();
  std::uint64_t active = 0;
  for (unsigned c = 1; c <= shared.classes.count(); ++c) {
    const class_sum& s = by_class[c];
    if (s.items == 0) continue;
    ++active;
    const std::string prefix = std::to_string(c) + ":";
    const std::uint64_t per_page = page_bytes / shared.classes.bytes(c);
    const std::uint64_t pages = (s.items + per_page - 1) / per_page;
    tell(prefix + "chunk_size", shared.classes.bytes(c));
    tell(prefix + "chunks_per_page", per_page);
    tell(prefix + "total_pages", pages);
    tell(prefix + "total_chunks", pages * per_page);
    tell(prefix + "used_chunks", s.items);
    tell(prefix + "free_chunks", pages * per_page - s.items);
    tell(prefix + "free_chunks_end", 0U);
    tell(prefix + "mem_requested", s.bytes);
    tell(prefix + "get_hits", sums.of(c, class_count::get_hits));
    tell(prefix + "cmd_set", sums.of(c, class_count::set_cmds));
    tell(prefix + "delete_hits", sums.of(c, class_count::delete_hits));
    tell(prefix + "incr_hits", sums.of(c, class_count::incr_hits));
    tell(prefix + "decr_hits", sums.of(c, class_count::decr_hits));
    tell(prefix + "cas_hits", sums.of(c, class_count::cas_hits));
    tell(prefix + "cas_badval", sums.of(c, class_count::cas_badval));
    tell(prefix + "touch_hits", sums.of(c, class_count::touch_hits));
  }
  tell("active_slabs", active);
  tell("total_malloced", shared.store.used().memory_bytes);
}

void report_sizes(environment& shared, item_session& session, const report_line& tell_line) {
  constexpr std::uint64_t step = 32;
  std::map<std::uint64_t, std::uint64_t> histogram;
  shared.store.for_each(session, [&](const item& i) {
    ++histogram[(item_bytes(i) + step - 1) / step * step];
    return true;
  });
  const teller tell{tell_line};
  tell("sizes_status", "enabled");
  for (const auto& [bytes, items] : histogram) tell(std::to_string(bytes), items);
}

void report_holdfast(environment& shared, const report_line& tell_line) {
  const teller tell{tell_line};
  const count_sums sums = shared.stats.sums();
  const usage used = shared.store.used();
  tell("version", HOLDFAST_VERSION);
  tell("pool_failed", shared.store.failed() ? 1U : 0U);
  tell("place", shared.store.place());
  tell("survives", shared.store.survives());
  tell("memory_bytes", used.memory_bytes);
  tell("damaged_misses", shared.store.damaged_misses());
  tell("rounds", sums[count::rounds]);
  tell("reads", sums[count::reads]);
  tell("sends", sums[count::sends]);
  tell("durable_waits", sums[count::waits]);
}

std::string metrics_page(environment& shared) {
  // Prometheus wants all lines of a metric together, below its type.
  std::string page;
  const auto metric = [&](std::string_view name, std::string_view type, std::string_view help) {
    page += "# HELP nv_memcached_" + std::string{name} + " " + std::string{help} + "\n# TYPE nv_memcached_" +
            std::string{name} + " " + std::string{type} + "\n";
  };
  const auto value = [&](std::string_view name, std::string_view labels, std::uint64_t v) {
    page += "nv_memcached_" + std::string{name} + std::string{labels} + " " + std::to_string(v) + "\n";
  };
  const auto single = [&](std::string_view name, std::string_view type, std::string_view help, std::uint64_t v) {
    metric(name, type, help);
    value(name, "", v);
  };
  const count_sums sums = shared.stats.sums();
  const usage used = shared.store.used();
  const std::uint32_t now = shared.clock.now();

  metric("commands_total", "counter", "Commands by kind and outcome.");
  const auto commands = [&](const char* kind, const char* outcome, std::uint64_t v) {
    value("commands_total", std::string{"{command=\""} + kind + "\",status=\"" + outcome + "\"}", v);
  };
  commands("get", "hit", sums[class_count::get_hits]);
  commands("get", "miss", sums[count::get_misses]);
  commands("set", "all", sums[class_count::set_cmds]);
  commands("touch", "hit", sums[class_count::touch_hits]);
  commands("touch", "miss", sums[count::touch_misses]);
  commands("delete", "hit", sums[class_count::delete_hits]);
  commands("delete", "miss", sums[count::delete_misses]);
  commands("incr", "hit", sums[class_count::incr_hits]);
  commands("incr", "miss", sums[count::incr_misses]);
  commands("decr", "hit", sums[class_count::decr_hits]);
  commands("decr", "miss", sums[count::decr_misses]);
  commands("cas", "hit", sums[class_count::cas_hits]);
  commands("cas", "miss", sums[count::cas_misses]);
  commands("cas", "badval", sums[class_count::cas_badval]);
  commands("flush", "all", sums[count::flush_cmds]);

  // relaxed: numbers for people.
  single("connections", "gauge", "Open connections.", shared.connections.open.load(std::memory_order_relaxed));
  single("connections_total", "counter", "Connections accepted.",
         shared.connections.total.load(std::memory_order_relaxed));
  single("connections_rejected_total", "counter", "Connections refused because of the limit, or for lack of memory.",
         shared.connections.rejected.load(std::memory_order_relaxed));
  if (used.items) single("items", "gauge", "Items stored.", *used.items);
  single("item_bytes", "gauge", "Bytes of the items.", used.item_bytes);
  single("memory_bytes", "gauge", "Memory that the items occupy.", used.memory_bytes);
  single("limit_bytes", "gauge", "Memory that the items may occupy.", used.limit_bytes);
  single("items_total", "counter", "Items stored since the start.", sums[count::total_items]);
  single("evictions_total", "counter", "Living items removed for new ones.", sums[count::evictions]);
  single("reclaimed_total", "counter", "Expired or flushed items whose memory was used again.", sums[count::reclaimed]);
  single("too_large_total", "counter", "Values refused for their size.", sums[count::store_too_large]);
  single("no_memory_total", "counter", "Values refused for lack of memory.", sums[count::store_no_memory]);
  single("read_bytes_total", "counter", "Bytes received.", sums[count::bytes_read]);
  single("written_bytes_total", "counter", "Bytes sent.", sums[count::bytes_written]);
  single("reads_total", "counter", "System calls to receive.", sums[count::reads]);
  single("sends_total", "counter", "System calls to send.", sums[count::sends]);
  single("rounds_total", "counter", "Rounds of the workers: bursts of all connections that were ready.",
         sums[count::rounds]);
  single("durable_waits_total", "counter", "Rounds that waited for the medium.", sums[count::waits]);
  single("pool_failed", "gauge", "1: a write or a sync of the pool has failed, and nothing more is acknowledged.",
         shared.store.failed() ? 1 : 0);
  single("uptime_seconds", "gauge", "Since the server started.", now - shared.started);
  return page;
}

}  // namespace nvm::server
