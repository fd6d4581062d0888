// stats and the commands that look after the server.
#include <limits>
#include <string>

#include "server/executor.hpp"
#include "server/numbers.hpp"
#include "server/reports.hpp"

namespace nvm::server {

namespace {

constexpr std::size_t dump_bytes_max = std::size_t{2} << 20;

void cache_dump(environment& shared, item_session& session, unsigned size_class, std::size_t items_max,
                std::uint32_t now, reply_buffer& out) {
  std::size_t items = 0;
  std::size_t bytes = 0;
  std::string line;
  shared.store.for_each(session, [&](const item& i) {
    if (shared.classes.of(item_bytes(i)) != size_class) return true;
    if (is_gone(i, now, shared.store.flushed_before())) return true;
    const std::uint32_t expiry = i.state().expiry;
    line = "ITEM ";
    line.append(i.key).append(" [").append(std::to_string(i.value.size())).append(" b; ");
    line.append(std::to_string(expiry == 0 ? 0 : expiry)).append(" s]\r\n");
    bytes += line.size();
    if (bytes > dump_bytes_max) return false;
    out.append(line);
    return ++items != items_max;
  });
  out.append("END\r\n");
}

}  // namespace

void executor::flush_all(const command& c, reply_buffer& out) {
  counters_.add(count::flush_cmds);
  if (!shared_.config.flush_command) return line(c, out, "CLIENT_ERROR flush_all not allowed");
  const std::uint32_t at = c.expiry > 0 ? expiry_of(c.expiry) : now_;
  line(c, out, shared_.store.flush_all(at, now_) ? "OK" : "SERVER_ERROR the flush could not be stored");
}

void executor::report(const command& c, reply_buffer& out) {
  const auto words = c.arguments();
  const auto tell = [&](std::string_view name, std::string_view value) {
    out.append("STAT ");
    out.append(name);
    out.append(" ");
    out.append(value);
    out.append("\r\n");
  };
  const std::string_view what = words.empty() ? std::string_view{} : words[0];
  if (what.empty()) {
    report_general(shared_, tell);
  } else if (what == "reset") {
    shared_.stats.reset();
    return line(c, out, "RESET");
  } else if (what == "settings") {
    report_settings(shared_, tell);
  } else if (what == "conns") {
    report_connections(shared_, now_, tell);
  } else if (what == "items") {
    report_items(shared_, session_, now_, tell);
  } else if (what == "slabs") {
    report_slabs(shared_, session_, tell);
  } else if (what == "sizes") {
    report_sizes(shared_, session_, tell);
  } else if (what == "holdfast") {
    report_holdfast(shared_, tell);
  } else if (what == "sizes_enable" || what == "sizes_disable") {
    tell("sizes_status", "enabled");
  } else if (what == "cachedump") {
    unsigned size_class = 0;
    std::uint32_t items_max = 0;
    if (!shared_.config.dump_commands) return line(c, out, "CLIENT_ERROR stats cachedump not allowed");
    if (words.size() < 3) return line(c, out, "CLIENT_ERROR bad command line");
    if (!read_client_number(words[1], size_class) || !read_client_number(words[2], items_max)) {
      return line(c, out, "CLIENT_ERROR bad command line format");
    }
    if (size_class >= size_classes_max) return line(c, out, "CLIENT_ERROR Illegal slab id");
    return cache_dump(shared_, session_, size_class, items_max, now_, out);
  } else if (what == "detail") {
    return line(c, out, "CLIENT_ERROR usage: stats detail on|off|dump");
  } else {
    return line(c, out, "ERROR");
  }
  out.append("END\r\n");
}

executor::after executor::shut_down(const command& c, reply_buffer& out) {
  if (!shared_.config.shutdown_command) {
    line(c, out, "ERROR: shutdown not enabled");
    return after::next;
  }
  const auto words = c.arguments();
  if (!words.empty() && (words.size() != 1 || words[0] != "graceful")) {
    line(c, out, "CLIENT_ERROR invalid shutdown mode");
    return after::next;
  }
  shared_.stop();
  return after::close;
}

void executor::set_memory_limit(const command& c, reply_buffer& out) {
  constexpr std::uint64_t least = 8;
  constexpr std::uint64_t most = 1'000'000'000;
  if (c.number < least) return line(c, out, "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m");
  if (c.number > most) return line(c, out, "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes");
  shared_.store.limit(c.number << 20);
  line(c, out, "OK");
}

// Memory moves to other sizes by itself, not by the number of a class: requests of memcached's tools are accepted if
// they change nothing.
void executor::slabs(const command& c, reply_buffer& out) {
  const auto words = c.arguments();
  if (words.size() == 3 && words[0] == "reassign") return line(c, out, "CLIENT_ERROR slab reassignment disabled");
  if (words.size() < 2 || words[0] != "automove") return line(c, out, "ERROR");
  command quiet = c;
  quiet.silent = words.back() == "noreply";
  if (words[1] == "ratio") {
    double ratio = 0;
    return line(quiet, out, words.size() >= 3 && read_client_number(words[2], ratio) ? "OK" : "ERROR");
  }
  std::uint32_t level = 0;
  if (!read_client_number(words[1], level)) return line(quiet, out, "CLIENT_ERROR bad command line format");
  line(quiet, out, level <= 2 ? "OK" : "ERROR");
}

// Checks the arguments of lru, which tunes lists of items in memcached: this server has none.
std::string_view executor::lru_answer(std::span<const std::string_view> words) noexcept {
  const bool named = words.size() >= 2;
  if (words[0] == "tune" && words.size() >= 5) {
    std::uint32_t hot = 0;
    std::uint32_t warm = 0;
    double hot_factor = 0;
    double factor = 0;
    if (!read_client_number(words[1], hot) || !read_client_number(words[2], warm) ||
        !read_client_number(words[3], hot_factor) || !read_client_number(words[4], factor)) {
      return "ERROR";
    }
    constexpr std::uint32_t percents_max = 80;
    if (hot + warm > percents_max) return "ERROR hot and warm pcts must not exceed 80";
    return factor <= 0 || hot_factor <= 0 ? "ERROR hot/warm age factors must be greater than 0" : "OK";
  }
  if (words[0] == "mode" && named) return words[1] == "flat" || words[1] == "segmented" ? "OK" : "ERROR";
  std::int32_t seconds = 0;
  return words[0] == "temp_ttl" && named && read_client_number(words[1], seconds) ? "OK" : "ERROR";
}

void executor::lru(const command& c, reply_buffer& out) {
  const auto words = c.arguments();
  if (words.back() != "noreply") line(c, out, lru_answer(words));
}

void executor::lru_crawler(const command& c, reply_buffer& out) {
  const auto words = c.arguments();
  std::uint32_t value = 0;
  if (words.size() == 1 && words[0] == "enable") {
    const bool was_enabled = shared_.crawler.exchange(true, std::memory_order_relaxed);
    return line(c, out, was_enabled ? "ERROR failed to start lru crawler thread" : "OK");
  }
  if (words.size() == 1 && words[0] == "disable") {
    shared_.crawler.store(false, std::memory_order_relaxed);
    return line(c, out, "OK");
  }
  if (words.size() == 2 && words[0] == "crawl") {
    if (!shared_.crawler.load(std::memory_order_relaxed)) return line(c, out, "CLIENT_ERROR lru crawler disabled");
    const item_store::sweep_wish wish{now_, 0, std::numeric_limits<std::size_t>::max(), false};
    shared_.store.sweep(session_, wish, [this](const item&, bool) { counters_.add(count::reclaimed); });
    return line(c, out, "OK");
  }
  if (words.size() == 2 && (words[0] == "tocrawl" || words[0] == "sleep")) {
    if (!read_client_number(words[1], value)) return line(c, out, "CLIENT_ERROR bad command line format");
    constexpr std::uint32_t second_us = 1'000'000;
    if (words[0] == "sleep" && value > second_us) return line(c, out, "CLIENT_ERROR sleep must be one second or less");
    return line(c, out, "OK");
  }
  line(c, out, "ERROR");
}

void executor::debugtime(const command& c, reply_buffer& out) {
  const auto words = c.arguments();
  if (words.empty()) return line(c, out, "ERROR");
  if (words[0] == "p") {
    shared_.clock.pause();
  } else if (words[0] == "r") {
    shared_.clock.go_on();
  } else {
    shared_.clock.move(c.expiry);
  }
  look_at_clock();
  line(c, out, "OK");
}

}  // namespace nvm::server
