#include "server/settings.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <map>
#include <string_view>
#include <utility>

#include "holdfast_version.hpp"
#include "nvm/lockfree.h"
#include "server/executor.hpp"
#include "server/numbers.hpp"

namespace nvm::server {
namespace {

// What memcached's -o knows. Most of it tunes parts that are not here.
struct extended {
  std::string_view name;
  bool has_value;
  bool warns;  // says that it has no effect
};
constexpr extended extended_options[] = {
    {"idle_timeout", true, false},
    {"debug_commands", false, false},
    {"relaxed_privileges", false, false},
    {"maxconns_fast", false, false},
    {"modern", false, false},
    {"no_modern", false, false},
    {"track_sizes", false, false},
    {"drop_privileges", false, true},
    {"no_drop_privileges", false, false},
    {"no_maxconns_fast", false, true},
    {"hashpower", true, true},
    {"no_hashexpand", false, true},
    {"slab_reassign", false, true},
    {"no_slab_reassign", false, false},
    {"slab_automove", true, true},
    {"no_slab_automove", false, false},
    {"slab_automove_ratio", true, true},
    {"slab_automove_window", true, true},
    {"slab_automove_freeratio", true, true},
    {"slab_sizes", true, true},
    {"slab_chunk_max", true, true},
    {"no_chunked_items", false, true},
    {"tail_repair_time", true, true},
    {"hash_algorithm", true, true},
    {"lru_crawler", false, false},
    {"no_lru_crawler", false, true},
    {"lru_crawler_sleep", true, true},
    {"lru_crawler_tocrawl", true, true},
    {"lru_maintainer", false, true},
    {"no_lru_maintainer", false, false},
    {"hot_lru_pct", true, true},
    {"warm_lru_pct", true, true},
    {"hot_max_factor", true, true},
    {"warm_max_factor", true, true},
    {"temporary_ttl", true, true},
    {"watcher_logbuf_size", true, true},
    {"worker_logbuf_size", true, true},
    {"no_inline_ascii_resp", false, false},
    {"inline_ascii_resp", false, false},
    {"resp_obj_mem_limit", true, true},
    {"read_buf_mem_limit", true, true},
};

constexpr std::size_t item_bytes_least = 1024;
constexpr std::size_t item_bytes_most = std::size_t{1} << 30;

[[noreturn]] void refuse(const std::string& why) { throw CLI::ValidationError("", why); }

std::vector<std::string> split(const std::vector<std::string>& given) {
  std::vector<std::string> parts;
  for (const std::string& text : given) {
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t end = std::min(text.find(',', at), text.size());
      if (end != at) parts.push_back(text.substr(at, end - at));
      at = end + 1;
    }
  }
  return parts;
}

// 1024, 512k, 2m, 1g
std::uint64_t bytes_of(const std::string& option, std::string text) {
  unsigned shift = 0;
  if (!text.empty()) {
    switch (text.back()) {
      case 'k':
      case 'K':
        shift = 10;
        break;
      case 'm':
      case 'M':
        shift = 20;
        break;
      case 'g':
      case 'G':
        shift = 30;
        break;
      default:
        break;
    }
    if (shift != 0) text.pop_back();
  }
  std::uint64_t value = 0;
  if (!read_number(text, value) || value > (std::uint64_t{1} << 50 >> shift)) {
    refuse(option + ": '" + text + "' is no size; expected a number of bytes, with k, m or g after it");
  }
  return value << shift;
}

void read_extended(const std::string& text, settings& to) {
  const std::size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  const auto* const found = std::find_if(std::begin(extended_options), std::end(extended_options),
                                         [&](const extended& e) { return e.name == name; });
  if (found == std::end(extended_options)) refuse("-o: no option '" + name + "'");
  if (found->has_value && equals == std::string::npos) refuse("-o " + name + " needs a value");
  const std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
  if (name == "idle_timeout" && !read_number(value, to.idle_seconds_max)) {
    refuse("-o idle_timeout: '" + value + "' is no number of seconds");
  }
  if (name == "debug_commands") to.debug_commands = true;
  if (found->warns) to.warnings.push_back("-o " + name + " has no effect here");
}

// Path of the pool without --pool: a folder of the service or of the user, and a name from the port or the socket, so
// that two servers have two pools.
std::string own_pool_path(const settings& s) {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string{value != nullptr ? value : ""};
  };
  std::string folder = variable("STATE_DIRECTORY");
  if (folder.empty()) {
    folder = variable("XDG_STATE_HOME");
    if (folder.empty()) {
      folder = variable("HOME");
      if (folder.empty()) return "";
      folder += "/.local/state";
    }
    folder += "/nv-memcached";
  }
  std::string name = s.unix_path.empty() ? std::to_string(s.port) : s.unix_path;
  std::replace(name.begin(), name.end(), '/', '-');
  return folder + "/items-" + name + ".nvm";
}

constexpr const char* durability_help =
    "when a command is answered: strict, when a crash cannot take it back; relaxed, when it is done: on ssd a kill or "
    "a "
    "power cut may take back the last ones (default: strict)";

// Arguments that are not settings as they are given.
struct words {
  std::vector<std::string> listen;
  std::vector<std::string> extended_text;
  std::vector<std::string> unused;
  std::string memory;
  std::string item_size;
  std::string pool_size;
  std::string mode;
  std::string protocol;
  std::string durable;
  std::string failure;
  int udp = 0;
};

// What the papers leave open, of the structures that items lie in (nvm_lf_options).
void declare_structures(CLI::App& app, settings& s) {
  const auto add = [&](const char* name, std::uint32_t& to, std::map<std::string, std::uint32_t> values,
                       const char* help) {
    app.add_option(name, to, help)->transform(CLI::CheckedTransformer(std::move(values)))->type_name("HOW");
  };
  add("--links", s.links, {{"persist", NVM_LF_LINK_AND_PERSIST}, {"cache", NVM_LF_LINK_CACHE}},
      "on memory that caches hide: changed links become durable one by one, or through a cache of links, together "
      "(default: persist)");
  add("--allocation", s.allocation, {{"word", NVM_LF_WORD_AT_ONCE}, {"place", NVM_LF_ONE_AT_A_TIME}},
      "places for items are marked as taken by the word, or each by itself (default: word)");
  add("--recovery", s.recovery,
      {{"by-kind", NVM_LF_BY_KIND}, {"search", NVM_LF_SEARCH}, {"traversal", NVM_LF_TRAVERSAL}},
      "after a crash items that are not linked are found by searching for each, or by following all links (default: "
      "by-kind)");
  app.add_option("--area", s.area_bytes,
                 "bytes of an area that recovery looks at, of a new pool: 4096 to 262144, a "
                 "power of two (default: 4096)")
      ->check(CLI::Range(NVM_LF_AREA_MIN, NVM_LF_AREA_MAX))
      ->type_name("NUM");
}

void declare(CLI::App& app, settings& s, words& w) {
  const auto ignored_flag = [&](const char* names, const char* help) {
    app.add_flag_callback(names, [&w, names] { w.unused.emplace_back(names); }, help);
  };
  app.add_option("-p,--port", s.port, "TCP port; 0: none, -1: one that is free")
      ->check(CLI::Range(-1, 65535))
      ->type_name("NUM")
      ->capture_default_str();
  app.add_option("-U,--udp-port", w.udp, "accepted for memcached's sake: there is no UDP")->type_name("NUM");
  app.add_option("-s,--unix-socket", s.unix_path, "Unix socket to listen on; then no TCP, unless -l is given")
      ->type_name("FILE");
  app.add_option("-a,--unix-mask", w.mode, "access mode of the Unix socket, in octal (default: 700)")
      ->type_name("MASK");
  app.add_flag("-A,--enable-shutdown", s.shutdown_command, "enable the command \"shutdown\"");
  app.add_option("-l,--listen", w.listen, "addresses to listen on, ADDR or ADDR:PORT (default: 127.0.0.1)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("ADDR,...");
  app.add_flag("-d,--daemon", s.daemon, "run in the background");
  app.add_flag("-r,--enable-coredumps", s.core_dumps, "raise the limit of core files");
  app.add_option("-u,--user", s.user, "become this user, when started by root")->type_name("USER");
  app.add_option("-m,--memory-limit", w.memory, "memory for items, in megabytes (default: 64)")->type_name("NUM");
  app.add_flag_callback(
      "-M,--disable-evictions", [&s] { s.evictions = false; }, "answer that memory is exhausted instead of evicting");
  app.add_option("-c,--conn-limit", s.connections_max, "connections at the same time")
      ->check(CLI::Range(1U, 1'000'000U))
      ->type_name("NUM")
      ->capture_default_str();
  app.add_flag("-k,--lock-memory", s.lock_memory, "lock all memory");
  app.add_flag("-v,--verbose", s.verbosity, "errors and warnings; -vv: also commands");
  app.add_option("-P,--pidfile", s.pid_path, "write the process id to this file")->type_name("FILE");
  app.add_option("-f,--slab-growth-factor", s.class_growth, "growth of the size classes that statistics name")
      ->check(CLI::Range(1.01, 1024.0))
      ->type_name("NUM")
      ->capture_default_str();
  app.add_option("-n,--slab-min-size", s.class_smallest, "bytes of the smallest of them")
      ->check(CLI::Range(1U, 65536U))
      ->type_name("BYTES")
      ->capture_default_str();
  ignored_flag("-L,--enable-largepages", "accepted for memcached's sake");
  app.add_option("-t,--threads", s.threads, "threads that serve connections")
      ->check(CLI::Range(1U, 128U))
      ->type_name("NUM")
      ->capture_default_str();
  app.add_option("-R,--max-reqs-per-event", s.commands_per_round, "commands of a connection before others get a turn")
      ->check(CLI::Range(1U, 1'000'000U))
      ->type_name("NUM")
      ->capture_default_str();
  app.add_flag_callback("-C,--disable-cas", [&s] { s.cas = false; }, "do not tell cas ids");
  app.add_option("-b,--listen-backlog", s.backlog, "connections that wait to be accepted")
      ->check(CLI::PositiveNumber)
      ->type_name("NUM")
      ->capture_default_str();
  app.add_option("-B,--protocol", w.protocol, "auto or ascii: the text protocol with its meta commands")
      ->type_name("NAME");
  app.add_option("-I,--max-item-size", w.item_size, "largest item, with k or m (default: 1m, 1k to 1024m)")
      ->type_name("NUM");
  app.add_flag_callback("-F,--disable-flush-all", [&s] { s.flush_command = false; }, "disable flush_all");
  app.add_flag_callback("-X,--disable-dumping", [&s] { s.dump_commands = false; }, "disable stats cachedump");
  ignored_flag("-W,--disable-watch", "accepted for memcached's sake: there is no watch");
  app.add_option("-o,--extended", w.extended_text,
                 "memcached's extended options, of which idle_timeout=SECONDS has an effect; debug_commands enables "
                 "debugtime, for tests")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("NAME[=VALUE],...");
  app.add_option("--pool", s.pool_path,
                 "the pool where items lie; made when it is not there (default: nv-memcached/items-PORT.nvm in "
                 "$XDG_STATE_HOME or ~/.local/state)")
      ->type_name("PATH");
  app.add_option("--pool-size", w.pool_size, "size of a new pool, with k, m or g (default: from -m)")->type_name("NUM");
  app.add_option("--medium", s.medium, "medium of a new pool (default: shm on a tmpfs, else ssd)")
      ->check(CLI::IsMember({"shm", "ssd", "dax", "auto-flush"}))
      ->type_name("NAME");
  app.add_option("--durability", w.durable, durability_help)
      ->check(CLI::IsMember({"strict", "relaxed"}))
      ->type_name("MODE");
  app.add_option("--on-failure", w.failure,
                 "when a write or a sync of the pool fails: end, with exit code 5; stay, and answer SERVER_ERROR until "
                 "stopped (default: end)")
      ->check(CLI::IsMember({"end", "stay"}))
      ->type_name("MODE");
  app.add_option("--log", s.log_path, "messages go to this file, at its end; SIGHUP opens it again")->type_name("FILE");
  app.add_flag_callback("--no-checksums", [&s] { s.checksums = false; }, "items of a new pool have no checksums");
  app.add_flag_callback(
      "--no-verify-reads", [&s] { s.verify_reads = false; },
      "reads do not compare checksums: a damaged item is served as it is");
  declare_structures(app, s);
  app.add_flag("--volatile", s.volatile_store, "items in ordinary memory; they are lost when the server ends");
  app.add_option("--metrics-port", s.metrics_port, "statistics for Prometheus at http://127.0.0.1:NUM/metrics")
      ->check(CLI::Range(-1, 65535))
      ->type_name("NUM");
}

void take_sizes(const words& w, settings& s) {
  if (!w.memory.empty()) {
    std::uint64_t megabytes = 0;
    if (!read_number(w.memory, megabytes) || megabytes == 0 || megabytes > (std::uint64_t{1} << 30)) {
      refuse("-m: '" + w.memory + "' is no number of megabytes");
    }
    s.memory_bytes = megabytes << 20;
    s.memory_given = true;
  }
  if (!w.item_size.empty()) {
    s.item_bytes_max = bytes_of("-I", w.item_size);
    if (s.item_bytes_max < item_bytes_least) refuse("-I: items of less than 1k are too small to be useful");
    if (s.item_bytes_max > item_bytes_most) refuse("-I: items can have 1g at most");
  }
  if (s.item_bytes_max > s.memory_bytes / 2) {
    refuse("-I: the largest item may have half of the memory (-m) at most");
  }
  if (!w.pool_size.empty()) s.pool_bytes = bytes_of("--pool-size", w.pool_size);
}

void take_mode(const std::string& mode, settings& s) {
  if (mode.empty()) return;
  std::size_t end = 0;
  unsigned long value = 01000;
  try {
    value = std::stoul(mode, &end, 8);
  } catch (const std::exception&) {
    end = std::string::npos;
  }
  if (end != mode.size() || value > 0777) refuse("-a: '" + mode + "' is no mode in octal");
  s.unix_mode = static_cast<unsigned>(value);
}

void take_protocol(const std::string& protocol, settings& s) {
  if (protocol == "ascii") s.protocol = binding::text;
  if (protocol == "binary") {
    refuse(
        "-B binary: the binary protocol is not spoken here, as memcached itself calls it deprecated; use auto or "
        "ascii, and clients without their option for it");
  }
  if (!protocol.empty() && protocol != "ascii" && protocol != "auto") {
    refuse("-B: '" + protocol + "' is no protocol; expected auto or ascii");
  }
}

// Throws CLI::Error for the first thing that is wrong.
void take(const words& w, settings& s) {
  if (w.udp != 0) s.warnings.emplace_back("-U has no effect: there is no UDP");
  for (const std::string& name : w.unused) s.warnings.push_back(name + " has no effect here");
  for (const std::string& text : split(w.extended_text)) read_extended(text, s);
  if (!w.listen.empty()) {
    s.addresses = split(w.listen);
    s.addresses_given = true;
  }
  take_sizes(w, s);
  take_mode(w.mode, s);
  take_protocol(w.protocol, s);
  if (w.failure == "stay") s.failure = on_failure::stay;
  if (w.durable == "relaxed") s.durable = durability::relaxed;
  if (s.volatile_store && !s.pool_path.empty()) refuse("--volatile and --pool exclude each other");
  if (!s.volatile_store && s.pool_path.empty()) {
    s.pool_path = own_pool_path(s);
    if (s.pool_path.empty()) refuse("--pool PATH is missing, and neither STATE_DIRECTORY nor HOME is set");
  }
}

}  // namespace

command_line read_command_line(int argc, const char* const* argv) {
  command_line line;
  words w;
  CLI::App app{
      "A memcached that forgets nothing: its items lie in a Holdfast pool, and an acknowledged change survives "
      "kill -9.",
      "nv-memcached"};
  app.set_help_flag("-h,--help", "print this help");
  app.set_version_flag("-V,--version", "nv-memcached " + std::string{version_text} + "-holdfast-" HOLDFAST_VERSION,
                       "print the version");
  app.get_formatter()->column_width(36);
  app.footer(
      "Exit codes: 0 stopped by a signal or by \"shutdown\", 2 wrong use, 3 a socket, the pool or a file cannot be "
      "had, 4 internal error, 5 a write or a sync of the pool has failed.");
  try {
    // As getopt has it: the last of several counts.
    app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    declare(app, line.given, w);
    app.parse(argc, argv);
    take(w, line.given);
  } catch (const CLI::Success& e) {
    line.exit_code = exit_good;
    if (dynamic_cast<const CLI::CallForVersion*>(&e) != nullptr) {
      line.output = std::string{e.what()} + "\n";
    } else {
      line.output = app.help();
    }
  } catch (const CLI::Error& e) {
    line.exit_code = exit_usage;
    std::string what = e.what();
    if (what.starts_with(": ")) what.erase(0, 2);
    line.error = "nv-memcached: " + what + "\nTry `nv-memcached --help`.\n";
  }
  return line;
}

}  // namespace nvm::server
