// What do servers and stores cost under YCSB (Breeze, Fig. 9), and what does it cost them to be durable?
//
// Records of 1 KB.  Clients are threads: each sends a request, waits for the answer, looks at it, and sends the next.
// Systems of a family (memcached, Redis, stores in this process) are filled, and run in turn: A B C A B C.  Mixes run
// in the order that YCSB recommends, D last, since it adds records.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/clock.hpp"
#include "harness/histogram.hpp"
#include "harness/machine.hpp"
#include "harness/statistics.hpp"
#include "harness/workers.hpp"
#include "ycsb/choice.hpp"
#include "ycsb/systems.hpp"

namespace nvm::bench::ycsb {
namespace {

struct choices {
  programs where;
  bool quick = false;
  unsigned runs = 3;
  unsigned clients = 8;
  std::uint64_t records = 100'000;
  std::size_t value_bytes = 1024;
  double seconds = 2;
  std::string workloads = "ABCFD";
  std::string filter;
  std::string json;
};

struct measured {
  std::string name;
  std::vector<double> per_second, cpu_ns, p50, p99, p999;
  std::uint64_t operations = 0, misses = 0;
};

struct running {
  kind_of_system kind;
  std::unique_ptr<system> process;
  std::unique_ptr<records> inserted;
  std::vector<std::unique_ptr<client>> clients;
};

std::string value_of(const std::string& key, std::size_t bytes, std::uint64_t version) {
  std::string value = key + " " + std::to_string(version) + " ";
  value.resize(bytes, '.');
  return value;
}

nlohmann::ordered_json sample_to_json(const std::vector<double>& sample) {
  const spread s = spread_of(sample);
  return {{"median", s.median}, {"min", s.min}, {"max", s.max}, {"sample", sample}};
}

class suite {
 public:
  explicit suite(choices c) : choices_{std::move(c)}, workers_{choices_.clients} {
    report_["machine"] =
        describe_machine(choices_.where.folder, choices_.where.emulate.empty() ? "none" : choices_.where.emulate);
    report_["disk"] = file_system_of(choices_.where.disk);
    const char* command = std::getenv("HOLDFAST_BENCH_COMMAND");
    report_["command"] = command == nullptr ? "./dev bench ycsb" : command;
    report_["quick"] = choices_.quick;
    report_["runs"] = choices_.runs;
    report_["seconds"] = choices_.seconds;
    report_["benchmarks"] = nlohmann::ordered_json::array();
  }

  void run() {
    for (const char* family : {"memcached", "redis", "in-process"}) run_family(family);
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
  void run_family(const std::string& family) {
    std::vector<running> systems;
    for (const kind_of_system& kind : kinds_of_system(choices_.where)) {
      if (kind.family != family || kind.name.find(choices_.filter) == std::string::npos) continue;
      systems.push_back({kind, kind.start(), std::make_unique<records>(choices_.records), {}});
      running& s = systems.back();
      for (unsigned i = 0; i < choices_.clients; ++i) s.clients.push_back(s.process->connect());
      fill(s);
    }
    if (systems.empty()) return;
    for (const char name : choices_.workloads) {
      const auto* const m =
          std::find_if(std::begin(mixes), std::end(mixes), [name](const mix& one) { return one.name == name; });
      if (m == std::end(mixes)) throw std::runtime_error(fmt::format("there is no workload {}", name));
      run_mix(family, *m, systems);
    }
  }

  void fill(running& s) {
    workers_.run([&](unsigned thread) {
      for (std::uint64_t n = thread; n < choices_.records; n += choices_.clients) {
        const std::string key = key_of(n);
        s.clients[thread]->write(key, value_of(key, choices_.value_bytes, 0));
      }
    });
  }

  void run_mix(const std::string& family, const mix& m, std::vector<running>& systems) {
    std::vector<measured> results;
    for (const running& s : systems) results.push_back({s.kind.name, {}, {}, {}, {}, {}, 0, 0});
    for (unsigned run = 0; run <= choices_.runs; ++run) {
      const bool warms_up = run == 0;
      const double seconds = warms_up ? choices_.seconds / 4 : choices_.seconds;
      for (std::size_t i = 0; i < systems.size(); ++i)
        run_once(m, systems[i], run, seconds, warms_up ? nullptr : &results[i]);
    }
    show(family, m, results);
  }

  void run_once(const mix& m, running& s, unsigned run, double seconds, measured* to) {
    std::vector<histogram> latency(choices_.clients);
    std::vector<std::uint64_t> missed(choices_.clients);
    const std::uint64_t cpu_before = s.process->cpu_ns();
    const std::uint64_t end = wall_ns() + static_cast<std::uint64_t>(seconds * 1e9);
    const auto timing = workers_.run([&](unsigned thread) {
      chooser choose{m, *s.inserted, (run + 1) << 16 | thread};
      std::string value;
      for (std::uint64_t now = wall_ns(); now < end;) {
        missed[thread] += operate(choose.next(), *s.clients[thread], *s.inserted, value);
        const std::uint64_t then = now;
        now = wall_ns();
        latency[thread].add(now - then);
      }
    });
    if (to == nullptr) return;
    histogram all;
    for (const histogram& h : latency) all.add(h);
    const auto operations = static_cast<double>(all.count());
    to->per_second.push_back(operations * 1e9 / static_cast<double>(timing.wall_ns));
    to->cpu_ns.push_back(static_cast<double>(s.process->cpu_ns() - cpu_before) / operations);
    to->p50.push_back(static_cast<double>(all.quantile(0.5)));
    to->p99.push_back(static_cast<double>(all.quantile(0.99)));
    to->p999.push_back(static_cast<double>(all.quantile(0.999)));
    to->operations += all.count();
    for (const std::uint64_t n : missed) to->misses += n;
  }

  // 1: the record is not there.
  unsigned operate(const operation& op, client& c, records& inserted, std::string& value) const {
    const std::string key = key_of(op.record);
    unsigned missed = 0;
    if (op.kind == kind::read || op.kind == kind::read_modify_write) {
      if (!c.read(key, value)) {
        missed = 1;
      } else if (value.size() != choices_.value_bytes || !value.starts_with(key)) {
        throw std::runtime_error("a value that is not that of its key");
      }
    }
    if (op.kind != kind::read) c.write(key, value_of(key, choices_.value_bytes, op.record));
    if (op.kind == kind::insert) inserted.answered(op.record);
    return missed;
  }

  void show(const std::string& family, const mix& m, const std::vector<measured>& results) {
    fmt::print("\n{}, workload {}: {} records of {} bytes, {} clients\n", family, m.name, choices_.records,
               choices_.value_bytes, choices_.clients);
    nlohmann::ordered_json j = {{"name", fmt::format("{}-{}", family, m.name)},
                                {"family", family},
                                {"workload", std::string{m.name}},
                                {"threads", choices_.clients},
                                {"server_threads", choices_.where.threads},
                                {"records", choices_.records},
                                {"value_bytes", choices_.value_bytes},
                                {"systems", nlohmann::ordered_json::array()}};
    for (const measured& r : results) {
      const auto rate = pairwise_ratio(r.per_second, results.front().per_second);
      const auto cpu = pairwise_ratio(r.cpu_ns, results.front().cpu_ns);
      fmt::print(
          "  {:<24}{:>9.0f} a second ({:.0f} to {:.0f}), {:.2f} of the first; CPU {:>6.2f} us, {:.2f}; p50 {:>7.1f} "
          "us, "
          "p99 {:>7.1f}, p99.9 {:>7.1f}; {} missed\n",
          r.name, spread_of(r.per_second).median, spread_of(r.per_second).min, spread_of(r.per_second).max,
          spread_of(rate).median, spread_of(r.cpu_ns).median / 1e3, spread_of(cpu).median,
          spread_of(r.p50).median / 1e3, spread_of(r.p99).median / 1e3, spread_of(r.p999).median / 1e3, r.misses);
      j["systems"].push_back(
          {{"name", r.name},
           {"operations_per_second", sample_to_json(r.per_second)},
           {"cpu_ns", sample_to_json(r.cpu_ns)},
           {"of_first", {{"rate", sample_to_json(rate)}, {"cpu", sample_to_json(cpu)}}},
           {"latency_ns",
            {{"p50", spread_of(r.p50).median}, {"p99", spread_of(r.p99).median}, {"p999", spread_of(r.p999).median}}},
           {"operations", r.operations},
           {"misses", r.misses}});
    }
    report_["benchmarks"].push_back(std::move(j));
  }

  choices choices_;
  workers workers_;
  nlohmann::ordered_json report_;
};

std::string installed(const std::string& name) {
  for (const char* folder : {"/usr/bin/", "/usr/sbin/", "/usr/local/bin/"}) {
    if (std::filesystem::exists(folder + name)) return folder + name;
  }
  return "";
}

}  // namespace
}  // namespace nvm::bench::ycsb

int main(int argc, char** argv) {
  using namespace nvm::bench::ycsb;
  choices c;
  c.where.folder = "/dev/shm";
  c.where.disk = ".";
  c.where.memcached = installed("memcached");
  c.where.redis = installed("redis-server");
  CLI::App app{"YCSB on memcached, Redis, their durable ports, and the key-value library"};
  app.add_flag("--quick", c.quick, "small: shows that it works, not how fast it is");
  app.add_option("--runs", c.runs, "repetitions of each system")->capture_default_str();
  app.add_option("--clients", c.clients, "clients, each with a request in flight")->capture_default_str();
  app.add_option("--threads", c.where.threads, "worker threads of servers that have them")->capture_default_str();
  app.add_option("--records", c.records, "records at first")->capture_default_str();
  app.add_option("--value-bytes", c.value_bytes, "of a record")->capture_default_str();
  app.add_option("--seconds", c.seconds, "of each repetition")->capture_default_str();
  app.add_option("--workloads", c.workloads, "letters of A, B, C, D, F, in the order of their runs")
      ->capture_default_str();
  app.add_option("--filter", c.filter, "only systems whose name has this in it");
  app.add_option("--emulate", c.where.emulate, "pools on shared memory as slow as a paper's: breeze, lsnvmm, log-free");
  app.add_option("--json", c.json, "file for the results");
  app.add_option("--directory", c.where.folder, "shared memory")->capture_default_str();
  app.add_option("--disk", c.where.disk, "a folder on a file system")->capture_default_str();
  app.add_option("--server", c.where.nv_memcached, "nv-memcached")->required();
  app.add_option("--memcached", c.where.memcached, "memcached as it is")->capture_default_str();
  app.add_option("--durable-memcached", c.where.durable_memcached, "what ./dev port memcached build makes");
  app.add_option("--redis", c.where.redis, "Redis as it is")->capture_default_str();
  app.add_option("--durable-redis", c.where.durable_redis, "what ./dev port redis durable makes");
  CLI11_PARSE(app, argc, argv);
  if (c.quick) {
    c.seconds = std::min(c.seconds, 0.05);
    c.runs = std::min(c.runs, 1U);
    c.records = std::min<std::uint64_t>(c.records, 1000);
    c.clients = std::min(c.clients, 2U);
  }
  // Room for what D inserts, and for what a slab class rounds up.
  c.where.megabytes = 64 + 2 * ((c.records * (c.value_bytes + 100)) >> 20);
  c.where.disk = std::filesystem::absolute(c.where.disk).string();
  try {
    suite s{c};
    s.run();
    return s.finish();
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench-ycsb: {}\n", e.what());
    return 1;
  }
}
