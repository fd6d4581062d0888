// What does a durable memcached cost, beside memcached and Redis?
//
// Servers run as processes of their own on this machine; one client thread loads them in turn: A B C A B C. Cells:
// worker threads, TCP or Unix socket, keys, and how many requests are in flight. Half of the keys are there when it
// begins; one request of five stores, keys are uniform, values have 32 to 100 bytes (the paper's section 6.5).
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/machine.hpp"
#include "harness/statistics.hpp"
#include "server/load.hpp"
#include "server/servers.hpp"

namespace nvm::bench {
namespace {

struct choices {
  bool quick = false;
  unsigned runs = 5;
  std::vector<unsigned> threads = {1, 2};
  std::vector<std::uint64_t> keys = {10'000, 1'000'000};
  std::vector<std::string> transports = {"tcp", "unix"};
  std::string filter;
  std::string json;
  std::string directory = "/dev/shm";
  std::string server;
  double seconds = 1;
  bool on_ssd = false;
};

struct shape {
  unsigned connections;
  unsigned depth;
};
constexpr shape shapes[] = {{1, 1}, {32, 1}, {8, 32}};

struct measured {
  std::string name;
  bool is_subject = false;
  std::vector<double> per_second, cpu_ns, p50, p99, p999;
  std::uint64_t requests = 0, hits = 0, misses = 0;
};

nlohmann::ordered_json sample_to_json(const std::vector<double>& sample) {
  const spread s = spread_of(sample);
  return {{"median", s.median}, {"min", s.min}, {"max", s.max}, {"sample", sample}};
}

nlohmann::ordered_json to_json(const measured& m) {
  return {{"name", m.name},
          {"role", m.is_subject ? "subject" : "peer"},
          {"requests_per_second", sample_to_json(m.per_second)},
          {"server_cpu_ns", sample_to_json(m.cpu_ns)},
          {"latency_ns",
           {{"p50", spread_of(m.p50).median}, {"p99", spread_of(m.p99).median}, {"p999", spread_of(m.p999).median}}},
          {"requests", m.requests},
          {"hits", m.hits},
          {"misses", m.misses}};
}

void print(const measured& m) {
  fmt::print(
      "  {:<28}{:>10.0f} a second ({:.0f} to {:.0f}), server CPU {:>5.2f} us, p50 {:>7.1f} us, p99 {:>7.1f}, "
      "p99.9 {:>7.1f}\n",
      m.name, spread_of(m.per_second).median, spread_of(m.per_second).min, spread_of(m.per_second).max,
      spread_of(m.cpu_ns).median / 1e3, spread_of(m.p50).median / 1e3, spread_of(m.p99).median / 1e3,
      spread_of(m.p999).median / 1e3);
}

class suite {
 public:
  explicit suite(choices c) : choices_{std::move(c)} {
    report_["machine"] = describe_machine(choices_.directory, "none");
    const char* command = std::getenv("HOLDFAST_BENCH_COMMAND");
    report_["command"] = command == nullptr ? "./dev bench server" : command;
    report_["quick"] = choices_.quick;
    report_["runs"] = choices_.runs;
    report_["seconds"] = choices_.seconds;
    report_["benchmarks"] = nlohmann::ordered_json::array();
  }

  void run() {
    for (const unsigned threads : choices_.threads) {
      for (const std::string& transport : choices_.transports) {
        for (const std::uint64_t keys : choices_.keys) run_servers(threads, transport == "unix", keys);
      }
    }
  }
  int finish() const {
    if (choices_.json.empty()) return 0;
    std::ofstream file(choices_.json);
    file << report_.dump(2) << '\n';
    if (file.good()) return 0;
    fmt::print(stderr, "cannot write {}\n", choices_.json);
    return 1;
  }

 private:
  [[nodiscard]] bool selects(const std::string& name) const {
    return choices_.filter.empty() || name.find(choices_.filter) != std::string::npos;
  }

  void run_servers(unsigned threads, bool by_unix_socket, std::uint64_t keys) {
    struct running {
      server_kind kind;
      std::unique_ptr<server_process> process;
    };
    std::vector<running> servers;
    for (const server_kind& kind : server_kinds(choices_.server)) {
      if (kind.is_durable_on_disk != choices_.on_ssd || !selects(kind.name)) continue;
      const place where{by_unix_socket,
                        23'000 + static_cast<int>(::getpid() % 2000) * 4 + static_cast<int>(servers.size()),
                        fmt::format("{}/bench-server-{}-{}", choices_.directory, ::getpid(), servers.size())};
      std::filesystem::create_directories(where.folder);
      servers.push_back(
          {kind, server_process::start(kind.program, kind.arguments(threads, where), kind.speaks, where)});
      fill(*servers.back().process, keys);
    }
    for (const shape& s : shapes) {
      std::vector<measured> results;
      for (const running& r : servers) results.push_back({r.kind.name, r.kind.is_subject, {}, {}, {}, {}, {}, 0, 0, 0});
      for (unsigned run = 0; run <= choices_.runs; ++run) {
        for (std::size_t i = 0; i < servers.size(); ++i) {
          const load how{s.connections, s.depth, keys, 20, run + 1};
          const bool warms_up = run == 0;
          const double seconds = warms_up ? choices_.seconds / 4 : choices_.seconds;
          const load_result r = run_load(*servers[i].process, how, static_cast<std::uint64_t>(seconds * 1e9));
          if (!warms_up) add(results[i], r);
        }
      }
      show(threads, by_unix_socket, keys, s, results);
    }
  }

  static void add(measured& to, const load_result& r) {
    const auto requests = static_cast<double>(r.requests);
    to.per_second.push_back(requests * 1e9 / static_cast<double>(r.wall_ns));
    to.cpu_ns.push_back(static_cast<double>(r.server_cpu_ns) / requests);
    to.p50.push_back(static_cast<double>(r.latency.quantile(0.5)));
    to.p99.push_back(static_cast<double>(r.latency.quantile(0.99)));
    to.p999.push_back(static_cast<double>(r.latency.quantile(0.999)));
    to.requests += r.requests;
    to.hits += r.hits;
    to.misses += r.misses;
  }

  void show(unsigned threads, bool by_unix_socket, std::uint64_t keys, const shape& s,
            const std::vector<measured>& results) {
    const std::string name = fmt::format("{}-{}x{}-{}", by_unix_socket ? "unix" : "tcp", s.connections, s.depth, keys);
    fmt::print("\n{}, {} worker thread{}: {} connection{} with {} in flight, {} keys\n", name, threads,
               threads == 1 ? "" : "s", s.connections, s.connections == 1 ? "" : "s", s.depth, keys);
    nlohmann::ordered_json j = {{"name", name},
                                {"threads", threads},
                                {"transport", by_unix_socket ? "unix" : "tcp"},
                                {"connections", s.connections},
                                {"in_flight", s.depth},
                                {"keys", keys},
                                {"set_percent", 20},
                                {"value_bytes", "32 to 100"},
                                {"systems", nlohmann::ordered_json::array()},
                                {"ratios", nlohmann::ordered_json::array()}};
    for (const measured& m : results) {
      print(m);
      j["systems"].push_back(to_json(m));
    }
    for (const measured& subject : results) {
      for (const measured& peer : results) {
        if (!subject.is_subject || peer.is_subject) continue;
        const auto rate = pairwise_ratio(subject.per_second, peer.per_second);
        const auto cpu = pairwise_ratio(peer.cpu_ns, subject.cpu_ns);
        j["ratios"].push_back({{"subject", subject.name},
                               {"peer", peer.name},
                               {"rate", sample_to_json(rate)},
                               {"cpu", sample_to_json(cpu)}});
        fmt::print("  {} answers {:.2f} times as many as {}, by CPU time {:.2f}\n", subject.name,
                   spread_of(rate).median, peer.name, spread_of(cpu).median);
      }
    }
    report_["benchmarks"].push_back(std::move(j));
  }

  choices choices_;
  nlohmann::ordered_json report_;
};

}  // namespace
}  // namespace nvm::bench

int main(int argc, char** argv) {
  using namespace nvm::bench;
  choices c;
  CLI::App app{"nv-memcached beside memcached and Redis"};
  app.add_flag("--quick", c.quick, "small: shows that it works, not how fast it is");
  app.add_option("--runs", c.runs, "repetitions of each system")->capture_default_str();
  app.add_option("--threads", c.threads, "worker threads of the servers")->delimiter(',');
  app.add_option("--keys", c.keys, "sizes of the key range")->delimiter(',');
  app.add_option("--transport", c.transports, "tcp, unix")->delimiter(',');
  app.add_option("--seconds", c.seconds, "of each repetition")->capture_default_str();
  app.add_option("--filter", c.filter, "only systems whose name has this in it");
  app.add_option("--json", c.json, "file for the results");
  app.add_option("--directory", c.directory, "where servers keep their files")->capture_default_str();
  app.add_option("--server", c.server, "nv-memcached")->required();
  app.add_flag("--on-ssd", c.on_ssd, "servers that are durable on a file system");
  CLI11_PARSE(app, argc, argv);
  if (c.quick) {
    c.seconds = std::min(c.seconds, 0.05);
    c.runs = std::min(c.runs, 1U);
    c.keys = {1000};
  }
  try {
    suite s{c};
    s.run();
    return s.finish();
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench-server: {}\n", e.what());
    return 1;
  }
}
