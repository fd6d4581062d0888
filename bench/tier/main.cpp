// What does a pool cost that has a quarter of its data in fast memory, under each policy, and one that fits?
//
// Objects of a page each, in a pool on shared memory; an operation reads 64 bytes of one, or, one in ten, changes them
// in a transaction of its own.  Which object is drawn by Zipf's law, goes round (a scan), or is of one half of the
// objects at a time, which are referenced while they are in use and not afterwards (stores that are attached and
// detached).  The second file lies in the directory that is chosen.  `fits`: the same without a tier, and with one
// whose limit is larger than the data.  `ssd`: a pool on ssd there, whose image is bounded to a quarter and to a tenth
// of the data, and is not; a change waits until it is durable.
#include <fmt/core.h>
#include <nvm/nvm.h>
#include <nvm/tier.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/histogram.hpp"
#include "harness/random.hpp"
#include "harness/runner.hpp"
#include "harness/zipf.hpp"

namespace nvm::bench {
namespace {

constexpr std::size_t object_bytes = 4000;
constexpr std::size_t touched_bytes = 64;
constexpr const char* policies[] = {"", "steady", "uflru", "lru", "cflru", "second-chance", "fifo"};

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

[[noreturn]] void failed(const char* what) { throw std::runtime_error{std::string{what} + ": " + nvm_errormsg()}; }

// A pool with its objects, made anew, and removed at the end.
class ground {
 public:
  // `fast_bytes` 0: no tier.
  ground(const options& o, std::uint64_t objects, std::uint64_t fast_bytes, std::uint32_t policy, bool ssd = false) {
    const std::string pid = std::to_string(::getpid());
    fast_ = (ssd ? o.directory : "/dev/shm") + "/holdfast-bench-tier-" + pid;
    slow_ = o.directory + "/holdfast-bench-tier-" + pid + ".tier";
    remove();
    nvm_tier_options t{};
    t.path = ssd ? nullptr : slow_.c_str();
    t.fast_bytes = fast_bytes;
    t.policy = policy;
    nvm_pool_options p{};
    p.size = objects * 4608;
    p.medium = ssd ? NVM_MEDIUM_SSD : NVM_MEDIUM_SHM;
    if (ssd) p.log_bytes = std::uint64_t{8} << 20;
    if (fast_bytes != 0) p.tier = &t;
    pool_ = nvm_pool_create_with(fast_.c_str(), &p);
    if (pool_ == nullptr) failed("create");
    nvm_tier_statistics s;
    if (fast_bytes != 0 && (nvm_tier_get_statistics(pool_, &s) != 0 || s.active == 0)) {
      throw std::runtime_error{std::string{"no tier: "} + s.why};
    }
    for (std::uint64_t i = 0; i < objects; ++i) make_object(i);
    // A scan goes by addresses; the pool gives runs of pages from its end on.
    std::sort(objects_.begin(), objects_.end());
  }
  ~ground() {
    (void)nvm_pool_close(pool_);
    remove();
  }
  ground(const ground&) = delete;
  ground& operator=(const ground&) = delete;

  [[nodiscard]] std::uint64_t objects() const { return objects_.size(); }
  [[nodiscard]] std::uint64_t read(std::uint64_t i) const {
    std::uint64_t sum = 0;
    const std::uint64_t* const words = objects_[i];
    for (std::size_t k = 0; k < touched_bytes / 8; ++k) sum += words[k];
    return sum;
  }
  void change(std::uint64_t i) {
    std::uint64_t* const words = objects_[i];
    if (nvm_tx_begin(pool_) != 0 || nvm_tx_log(words, touched_bytes) != 0) failed("change");
    for (std::size_t k = 0; k < touched_bytes / 8; ++k) ++words[k];
    if (nvm_tx_commit(pool_) != 0) failed("commit");
  }
  void refer(std::uint64_t from, std::uint64_t to, bool referenced) {
    for (std::uint64_t i = from; i < to; ++i) {
      if (nvm_tier_refer(pool_, objects_[i], object_bytes, referenced ? 1 : 0) != 0) failed("refer");
    }
  }
  [[nodiscard]] nvm_tier_statistics statistics() {
    nvm_tier_statistics s{};
    (void)nvm_tier_get_statistics(pool_, &s);
    return s;
  }

 private:
  void make_object(std::uint64_t i) {
    if (nvm_tx_begin(pool_) != 0) failed("begin");
    auto* const words = static_cast<std::uint64_t*>(nvm_alloc(pool_, 1, object_bytes));
    if (words == nullptr) failed("alloc");
    // Half of it compresses.
    random source{i};
    std::memset(words, 0, object_bytes);
    for (std::size_t k = 0; k < object_bytes / 16; ++k) words[k] = source.next();
    if (nvm_tx_commit(pool_) != 0) failed("commit");
    objects_.push_back(words);
  }
  void remove() const {
    ::unlink(fast_.c_str());
    ::unlink(slow_.c_str());
  }
  std::string fast_, slow_;
  NVM_POOL* pool_ = nullptr;
  std::vector<std::uint64_t*> objects_;
};

struct outcome {
  double ops_s = 0;
  std::uint64_t p50 = 0, p99 = 0;
  nvm_tier_statistics pages{};  // of the measured part
  std::uint64_t sum = 0;
};

struct trace {
  const char* name;
  // The object of operation `i`.
  std::function<std::uint64_t(std::uint64_t i, random& source)> next;
  bool halves = false;
};

outcome run(ground& g, const trace& t, std::uint64_t ops) {
  outcome out;
  histogram latencies;
  random source{17};
  const std::uint64_t half = g.objects() / 2;
  const std::uint64_t turn = std::max<std::uint64_t>(ops / 8, 1);
  nvm_tier_statistics before{};
  std::uint64_t begun = 0;
  // The first third warms up.
  for (std::uint64_t i = 0; i < ops + ops / 2; ++i) {
    if (i == ops / 2) {
      before = g.statistics();
      begun = now_ns();
    }
    if (t.halves && i % turn == 0) {
      const bool second = i / turn % 2 != 0;
      g.refer(0, half, !second);
      g.refer(half, g.objects(), second);
    }
    const std::uint64_t at = t.next(i, source);
    const bool change = source.below(10) == 0;
    const std::uint64_t from = now_ns();
    if (change) {
      g.change(at);
    } else {
      out.sum += g.read(at);
    }
    if (i >= ops / 2) latencies.add(now_ns() - from);
  }
  out.ops_s = static_cast<double>(ops) * 1e9 / static_cast<double>(now_ns() - begun);
  out.p50 = latencies.quantile(0.5);
  out.p99 = latencies.quantile(0.99);
  const nvm_tier_statistics after = g.statistics();
  out.pages = after;
  out.pages.faults -= before.faults;
  out.pages.store_faults -= before.store_faults;
  out.pages.pages_in -= before.pages_in;
  out.pages.pages_out -= before.pages_out;
  out.pages.pages_dropped -= before.pages_dropped;
  out.pages.bytes_written -= before.bytes_written;
  out.pages.syncs -= before.syncs;
  return out;
}

void report(runner& r, const std::string& name, const char* system, const outcome& o) {
  fmt::print(
      "{:<12} {:<14} {:>10.0f} ops/s  p50 {:>6} ns  p99 {:>8} ns  {:>8} faults  {:>7} store faults  {:>7} out  {:>7} "
      "dropped  {:>9} KiB written  fault-in p50 {:>6} p99 {:>7} ns\n",
      name, system, o.ops_s, o.p50, o.p99, o.pages.faults, o.pages.store_faults, o.pages.pages_out,
      o.pages.pages_dropped, o.pages.bytes_written / 1024, o.pages.fault_ns_p50, o.pages.fault_ns_p99);
  std::fflush(stdout);
  nlohmann::ordered_json j{{"name", name + "-" + system}, {"threads", 1}, {"unit", "operation"}, {"units_per_op", 1}};
  j["parameters"] = {{"ops_per_s", o.ops_s},
                     {"p50_ns", o.p50},
                     {"p99_ns", o.p99},
                     {"faults", o.pages.faults},
                     {"store_faults", o.pages.store_faults},
                     {"pages_in", o.pages.pages_in},
                     {"fast_bytes", o.pages.fast_bytes},
                     {"pages_out", o.pages.pages_out},
                     {"pages_dropped", o.pages.pages_dropped},
                     {"bytes_written", o.pages.bytes_written},
                     {"syncs", o.pages.syncs},
                     {"fault_ns_p50", o.pages.fault_ns_p50},
                     {"fault_ns_p99", o.pages.fault_ns_p99}};
  j["systems"] = nlohmann::ordered_json::array();
  j["ratios"] = nlohmann::ordered_json::array();
  r.add(std::move(j));
}

void measure(runner& r, const options& o) {
  const std::uint64_t objects = o.records;
  const std::uint64_t data = objects * 4096;
  const std::uint64_t ops = o.ops != 0 ? o.ops : objects * o.full_or_quick<std::uint64_t>(16, 4);
  const zipf law{objects};
  const zipf half_law{objects / 2};
  // Popular objects lie apart from each other, as in a pool that has lived.
  const auto spread = [objects](std::uint64_t i) { return i * 7919 % objects; };
  const trace traces[] = {
      {"zipfian", [&](std::uint64_t, random& source) { return spread(law.next(source)); }},
      {"scan", [&](std::uint64_t i, random&) { return i % objects; }},
      {"both",
       [&](std::uint64_t i, random& source) { return i % 2 == 0 ? spread(law.next(source)) : i / 2 % objects; }},
      {"halves",
       [&](std::uint64_t i, random& source) {
         const std::uint64_t turn = std::max<std::uint64_t>(ops / 8, 1);
         return half_law.next(source) * 7919 % (objects / 2) + (i / turn % 2) * (objects / 2);
       },
       true},
  };
  // In turn, several times: what disturbs the machine disturbs neighbours alike.
  for (const trace& t : traces) {
    for (std::uint32_t i = 0; i < o.runs * NVM_TIER_FIFO; ++i) {
      const std::uint32_t policy = NVM_TIER_STEADY + i % NVM_TIER_FIFO;
      if (!o.selects(std::string{t.name} + "-" + policies[policy])) continue;
      r.attempt([&] {
        ground g{o, objects, data / 4, policy};
        report(r, t.name, policies[policy], run(g, t, ops));
      });
    }
  }
  for (unsigned i = 0; i < o.runs && o.selects("ssd"); ++i) {
    for (const std::uint64_t part : {0, 4, 10}) {
      r.attempt([&] {
        ground g{o, objects, part == 0 ? 0 : data / part, NVM_TIER_STEADY, true};
        const trace within{"ssd", [&](std::uint64_t, random& source) { return spread(law.next(source)); }};
        const char* const system = part == 0 ? "not bounded" : part == 4 ? "a quarter" : "a tenth";
        report(r, "ssd", system, run(g, within, std::max<std::uint64_t>(ops / 16, 1000)));
      });
    }
  }
  if (!o.selects("fits")) return;
  for (unsigned i = 0; i < o.runs; ++i) {
    for (const bool tier : {false, true}) {
      r.attempt([&] {
        ground g{o, objects / 4, tier ? data : 0, NVM_TIER_STEADY};
        const trace within{"fits", [&](std::uint64_t, random& source) { return source.below(objects / 4); }};
        report(r, "fits", tier ? "with" : "without", run(g, within, ops * 4));
      });
    }
  }
}

}  // namespace
}  // namespace nvm::bench

int main(int argc, char** argv) {
  using namespace nvm::bench;
  return answer(argc, argv,
                {.question = "A pool on shared memory, and one on ssd, with a quarter of its data in memory",
                 .directory = "/dev/shm",
                 .threads = {1},
                 .runs = 3,
                 .records = 32'768,
                 .quick_records = 2'048},
                [](runner& r, const options& o) { measure(r, o); });
}
