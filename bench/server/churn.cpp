// What does a cache keep whose values change in size, beside memcached with as much memory?
//
// One client asks for 32 keys at a time, which it draws by Zipf's law, and stores those that it has not got, as an
// application does.  In each phase values have another size; a phase moves several times the memory through the cache.
// Counted: hits, stores that failed, the servers' processor time for each request, their memory and their files.  The
// stream of keys is the same for all; counts do not depend on how fast the machine is.
#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "harness/machine.hpp"
#include "harness/random.hpp"
#include "harness/zipf.hpp"
#include "server/servers.hpp"

namespace nvm::bench {
namespace {

constexpr unsigned keys_at_a_time = 32;

struct choices {
  bool quick = false;
  unsigned megabytes = 64;
  unsigned rounds = 2;
  std::uint64_t operations_max = 300'000;
  std::string filter;
  std::string json;
  std::string directory = "/dev/shm";
  std::string server;
};

// Values have between half of `bytes` and all of it.
struct phase {
  std::uint64_t bytes;
};
constexpr phase phases[] = {{60},     {1000}, {100},     {20'000}, {300},  {500'000}, {200},
                            {60'000}, {4000}, {900'000}, {60},     {8000}, {100'000}, {500}};

struct counts {
  std::uint64_t gets = 0, hits = 0, stores = 0, failed = 0, wrong = 0;
};

// A socket that waits.
class client {
 public:
  explicit client(const server_process& server) : fd_{server.connect()} {}
  ~client() { ::close(fd_); }
  client(const client&) = delete;
  client& operator=(const client&) = delete;

  // Sends it while it takes what comes back, so that neither side waits for the other.
  void send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t n = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
      if (n > 0) {
        text.remove_prefix(static_cast<std::size_t>(n));
        continue;
      }
      if (errno != EAGAIN && errno != EINTR) throw std::runtime_error("the connection is gone");
      pollfd p{fd_, POLLIN | POLLOUT, 0};
      ::poll(&p, 1, -1);
      if ((p.revents & POLLIN) != 0) take();
    }
  }
  // Without its end.
  std::string line() {
    for (;;) {
      if (const std::size_t end = in_.find("\r\n", at_); end != std::string::npos) {
        std::string found = in_.substr(at_, end - at_);
        at_ = end + 2;
        return found;
      }
      wait();
    }
  }
  std::string bytes(std::size_t n) {
    while (in_.size() - at_ < n) wait();
    std::string found = in_.substr(at_, n);
    at_ += n;
    return found;
  }

 private:
  void wait() {
    pollfd p{fd_, POLLIN, 0};
    ::poll(&p, 1, -1);
    take();
  }
  void take() {
    if (at_ > (1U << 20)) {
      in_.erase(0, at_);
      at_ = 0;
    }
    char buffer[1 << 16];
    const ssize_t n = ::recv(fd_, buffer, sizeof buffer, 0);
    if (n == 0) throw std::runtime_error("the server has closed the connection");
    if (n > 0) in_.append(buffer, static_cast<std::size_t>(n));
  }

  int fd_;
  std::string in_;
  std::size_t at_ = 0;
};

std::size_t bytes_of(std::uint64_t key, const phase& p) {
  return static_cast<std::size_t>(p.bytes / 2 + mix(key * 31 + p.bytes) % (p.bytes / 2 + 1));
}
// Begins with its key, so that another's would be seen.
std::string value_of(std::uint64_t key, const phase& p) {
  std::string v = std::to_string(key) + ":";
  v.resize(std::max(bytes_of(key, p), v.size()), static_cast<char>('a' + key % 26));
  return v;
}

// What comes back of one question: which of the keys were there.
void ask(client& c, const std::vector<std::uint64_t>& keys, std::vector<bool>& there, counts& n) {
  std::string text = "get";
  for (const std::uint64_t key : keys) text += " k" + std::to_string(key);
  c.send(text + "\r\n");
  there.assign(keys.size(), false);
  std::size_t next = 0;
  for (std::string line = c.line(); line != "END"; line = c.line()) {
    // VALUE k123 0 456
    std::uint64_t key = 0, length = 0;
    const std::size_t name = line.find(" k");
    const std::size_t last = line.rfind(' ');
    if (!line.starts_with("VALUE") || name == std::string::npos) throw std::runtime_error("an answer: " + line);
    std::from_chars(line.data() + name + 2, line.data() + line.size(), key);
    std::from_chars(line.data() + last + 1, line.data() + line.size(), length);
    const std::string value = c.bytes(length + 2);
    while (next < keys.size() && keys[next] != key) ++next;
    if (next == keys.size()) throw std::runtime_error("a key that nobody asked for: " + line);
    there[next++] = true;
    ++n.hits;
    if (!value.starts_with(std::to_string(key) + ":")) ++n.wrong;
  }
  n.gets += keys.size();
}

void store(client& c, const std::vector<std::uint64_t>& keys, const std::vector<bool>& there, const phase& p,
           counts& n) {
  std::string text;
  unsigned asked = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (there[i]) continue;
    const std::string value = value_of(keys[i], p);
    text += "set k" + std::to_string(keys[i]) + " 0 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\n";
    ++asked;
  }
  c.send(text);
  for (unsigned i = 0; i < asked; ++i) n.failed += c.line() == "STORED" ? 0 : 1;
  n.stores += asked;
}

// Distinct keys, since a key that is asked for twice comes back once.
void draw(std::vector<std::uint64_t>& keys, const zipf& which, random& source) {
  keys.clear();
  while (keys.size() < keys_at_a_time) {
    const std::uint64_t key = mix(which.next(source)) % (which.items() * 64);
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  }
}

struct of_phase {
  counts n;
  std::uint64_t bytes = 0, cpu_ns = 0, resident = 0, file = 0;
};

of_phase run_phase(const server_process& server, const choices& c, const phase& p, unsigned number) {
  const std::uint64_t memory = std::uint64_t{c.megabytes} << 20;
  // Twice as many as there is room for.
  const zipf which{std::max<std::uint64_t>(2 * memory / (3 * p.bytes / 4 + 60), 200)};
  const std::uint64_t operations =
      std::clamp<std::uint64_t>(6 * memory / p.bytes, 2000, c.quick ? 2000 : c.operations_max);
  random source{number * 1000 + p.bytes};
  client connection{server};
  of_phase out;
  out.bytes = p.bytes;
  const std::uint64_t cpu = server.cpu_ns();
  std::vector<std::uint64_t> keys;
  std::vector<bool> there;
  while (out.n.gets < operations) {
    draw(keys, which, source);
    ask(connection, keys, there, out.n);
    store(connection, keys, there, p, out.n);
  }
  out.cpu_ns = server.cpu_ns() - cpu;
  out.resident = server.resident_bytes();
  out.file = server.file_bytes();
  return out;
}

nlohmann::ordered_json to_json(const of_phase& p) {
  return {{"value_bytes_max", p.bytes},
          {"gets", p.n.gets},
          {"hits", p.n.hits},
          {"stores", p.n.stores},
          {"failed_stores", p.n.failed},
          {"wrong_values", p.n.wrong},
          {"server_cpu_ns_per_request", static_cast<double>(p.cpu_ns) / static_cast<double>(p.n.gets + p.n.stores)},
          {"resident_bytes", p.resident},
          {"file_bytes", p.file}};
}

nlohmann::ordered_json run_server(const server_kind& kind, const choices& c, int number) {
  const place where{true, 0, fmt::format("{}/bench-churn-{}-{}", c.directory, ::getpid(), number), c.megabytes};
  std::filesystem::create_directories(where.folder);
  const auto server = server_process::start(kind.program, kind.arguments(1, where), kind.speaks, where);
  nlohmann::ordered_json j = {
      {"name", kind.name}, {"role", kind.is_subject ? "subject" : "peer"}, {"phases", nlohmann::ordered_json::array()}};
  counts all;
  std::uint64_t file = 0, resident = 0;
  for (unsigned round = 0; round < c.rounds; ++round) {
    for (const phase& p : phases) {
      const of_phase r = run_phase(*server, c, p, round);
      j["phases"].push_back(to_json(r));
      all.gets += r.n.gets;
      all.hits += r.n.hits;
      all.stores += r.n.stores;
      all.failed += r.n.failed;
      all.wrong += r.n.wrong;
      file = std::max(file, r.file);
      resident = std::max(resident, r.resident);
      fmt::print("  {:<24}{:>8} B: {:>7.4f} of {:>7} were there, {:>7} stored, {} not; {:>7.2f} us of CPU\n", kind.name,
                 p.bytes, static_cast<double>(r.n.hits) / static_cast<double>(r.n.gets), r.n.gets, r.n.stores,
                 r.n.failed, static_cast<double>(r.cpu_ns) / 1e3 / static_cast<double>(r.n.gets + r.n.stores));
    }
  }
  fmt::print(
      "  {:<24}in all: {:.4f} of {} were there, {} stores of {} failed, {} values were wrong; at most {} MiB in "
      "memory, {} MiB of files\n",
      kind.name, static_cast<double>(all.hits) / static_cast<double>(all.gets), all.gets, all.failed, all.stores,
      all.wrong, resident >> 20, file >> 20);
  j["gets"] = all.gets;
  j["hits"] = all.hits;
  j["stores"] = all.stores;
  j["failed_stores"] = all.failed;
  j["wrong_values"] = all.wrong;
  j["resident_bytes_max"] = resident;
  j["file_bytes_max"] = file;
  return j;
}

int run(const choices& c) {
  nlohmann::ordered_json report;
  report["machine"] = describe_machine(c.directory, "none");
  const char* command = std::getenv("HOLDFAST_BENCH_COMMAND");
  report["command"] = command == nullptr ? "./dev bench churn" : command;
  report["quick"] = c.quick;
  report["runs"] = 1;
  report["megabytes"] = c.megabytes;
  report["systems"] = nlohmann::ordered_json::array();
  int number = 0;
  bool good = true;
  for (const server_kind& kind : server_kinds(c.server)) {
    if (kind.speaks != dialect::memcached || kind.is_durable_on_disk || kind.name.ends_with("-R 1024")) continue;
    if (kind.name.find(c.filter) == std::string::npos) continue;
    report["systems"].push_back(run_server(kind, c, number++));
    const auto& r = report["systems"].back();
    good = good && r["wrong_values"] == 0;
  }
  if (!c.json.empty()) std::ofstream{c.json} << report.dump(2) << '\n';
  return good ? 0 : 1;
}

}  // namespace
}  // namespace nvm::bench

int main(int argc, char** argv) {
  using namespace nvm::bench;
  choices c;
  CLI::App app{"what caches keep whose values change in size"};
  app.add_flag("--quick", c.quick, "few requests: shows that it works");
  app.add_option("--megabytes", c.megabytes, "memory for items, -m of the servers")->capture_default_str();
  app.add_option("--runs,--rounds", c.rounds, "how often each size has its turn")->capture_default_str();
  app.add_option("--ops", c.operations_max, "questions of a phase at most")->capture_default_str();
  app.add_option("--filter", c.filter, "only systems whose name has this in it");
  app.add_option("--json", c.json, "file for the results");
  app.add_option("--directory", c.directory, "where servers keep their files")->capture_default_str();
  app.add_option("--server", c.server, "nv-memcached")->required();
  CLI11_PARSE(app, argc, argv);
  if (c.quick) c.rounds = 1;
  try {
    return run(c);
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench-churn: {}\n", e.what());
    return 1;
  }
}
