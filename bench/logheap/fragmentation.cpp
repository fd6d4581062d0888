// How much of the pool does the log-structured heap take for what lives in it, beside allocators that leave objects
// where they are?
//
//   fragmentation-W1 ... W3   bytes taken over bytes asked for, less one, in percent, 100 calls a transaction
//   ...-single                the same with one call a transaction
//
// Of the log-structured heap: chunks that are not free, after cleaning as far as cleaners go when room is short;
// "uncleaned" is what it had taken by then without any.  Of libpmemobj: active runs.  Of jemalloc: resident pages.
#include <fmt/core.h>

#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "harness/random.hpp"
#include "logheap/footprint.hpp"
#include "logheap/hoard_like.hpp"
#include "logheap/log_pool.hpp"
#include "logheap/questions.hpp"
#if NVM_BENCH_PMEMOBJ
#include "systems/pmemobj_heap.hpp"
#endif

namespace nvm::bench {
namespace {

class log_footprint final : public footprint_heap {
 public:
  using pool_type = log_pool<logheap::leaf_mapping>;
  using heap_type = pool_type::heap_type;

  log_footprint(const std::string& directory, std::uint64_t pool_bytes)
      : pool_(medium_, directory, pool_bytes, {}), thread_(pool_.join()) {}

  std::uint64_t allocate(std::uint64_t size) override {
    const auto o = pool_->allocate(thread_, size);
    if (!o) fail_with("allocating");
    allocated_.push_back(*o);
    return o->at.home;
  }
  void release(std::uint64_t object, std::uint64_t /*size*/) override {
    const auto o = pool_->release(thread_, object);
    if (!o) fail_with("releasing");
    released_.push_back(*o);
  }
  void commit() override {
    stores_.clear();
    for (const auto& o : allocated_) stores_.push_back({o.at.home, noise(o.at.home), o.size});
    std::sort(stores_.begin(), stores_.end(), [](const auto& a, const auto& b) { return a.home < b.home; });
    if (!pool_->commit(thread_, {stores_, allocated_, released_})) fail_with("committing");
    allocated_.clear();
    released_.clear();
  }
  std::uint64_t bytes() override { return pool_.bytes_in_use(); }
  void settle() override {
    // As who finds no free chunk does, until nothing is gained any more.
    std::uint64_t before = bytes() + 1;
    while (bytes() < before) {
      before = bytes();
      for (unsigned passes = 0; passes < 64; ++passes) {
        if (pool_->clean(victims, true) == 0) break;
      }
    }
  }

 private:
  static constexpr unsigned victims = 256;

  direct_media medium_;
  pool_type pool_;
  heap_type::thread& thread_;
  std::vector<heap_type::object> allocated_, released_;
  std::vector<heap_type::store_range> stores_;
};

#if NVM_BENCH_PMEMOBJ
class pmemobj_footprint final : public footprint_heap {
 public:
  pmemobj_footprint(const std::string& directory, std::uint64_t bytes) : heap_({directory, bytes}) {
    pobj_stats_enabled enabled = POBJ_STATS_ENABLED_BOTH;
    pmemobj_ctl_set(heap_.pool(), "stats.enabled", &enabled);
  }
  void begin() override { heap_.begin(); }
  std::uint64_t allocate(std::uint64_t size) override {
    void* const p = heap_.alloc(size);
    std::memcpy(p, noise(size), size);
    return reinterpret_cast<std::uint64_t>(p);
  }
  void release(std::uint64_t object, std::uint64_t /*size*/) override { heap_.free(reinterpret_cast<void*>(object)); }
  void commit() override { heap_.commit(); }
  std::uint64_t bytes() override {
    std::uint64_t value = 0;
    if (pmemobj_ctl_get(heap_.pool(), "stats.heap.run_active", &value) != 0)
      throw std::runtime_error(std::string("stats.heap.run_active: ") + pmemobj_errormsg());
    return value;
  }

 private:
  pmemobj_heap heap_;
};
#endif

// Nothing: there is no jemalloc.
std::optional<footprint> footprint_of_jemalloc(const footprint_workload& w, std::uint64_t bytes, unsigned per_tx) {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command =
      fmt::format("LD_PRELOAD=libjemalloc.so.2 '{}' {} {} {} 2>/dev/null",
                  (self.parent_path() / "bench-jemalloc-footprint").string(), w.name, bytes, per_tx);
  FILE* const out = popen(command.c_str(), "r");
  if (out == nullptr) return std::nullopt;
  footprint f;
  const int read = std::fscanf(out, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &f.live_bytes, &f.taken_bytes,
                               &f.settled_bytes, &f.objects);
  if (pclose(out) != 0 || read != 4) return std::nullopt;
  return f;
}

struct measured {
  std::string system;
  bench::role role;
  footprint taken;
};

void report(runner& r, const std::string& name, const footprint_workload& w, unsigned per_tx, std::uint64_t bytes,
            const std::vector<measured>& all) {
  nlohmann::ordered_json j{
      {"name", name},
      {"threads", 1},
      {"parameters", {{"workload", w.name}, {"calls_a_transaction", per_tx}, {"bytes_a_phase", bytes}}},
      {"systems", nlohmann::ordered_json::array()},
      {"ratios", nlohmann::ordered_json::array()}};
  if (w.paper_percent >= 0) j["parameters"]["paper_percent"] = w.paper_percent;
  fmt::print("\n{}: bytes taken over bytes that live, less one\n", name);
  for (const measured& m : all) {
    const footprint& f = m.taken;
    const auto uncleaned = 100.0 * (static_cast<double>(f.taken_bytes) / static_cast<double>(f.live_bytes) - 1.0);
    fmt::print("  {:<30}{:>8.1f} %   before it gave back what it can {:>8.1f} %; {} objects, {} bytes live\n", m.system,
               f.percent(), uncleaned, f.objects, f.live_bytes);
    j["systems"].push_back({{"name", m.system},
                            {"role", m.role == role::subject ? "subject" : "peer"},
                            {"percent", f.percent()},
                            {"uncleaned_percent", uncleaned},
                            {"live_bytes", f.live_bytes},
                            {"taken_bytes", f.taken_bytes},
                            {"settled_bytes", f.settled_bytes},
                            {"objects", f.objects}});
  }
  std::fflush(stdout);
  r.add(std::move(j));
}

void measure(runner& r, const options& o, const footprint_workload& w, std::uint64_t bytes, unsigned per_tx) {
  const std::string name = fmt::format("fragmentation-{}{}", w.name, per_tx == 1 ? "-single" : "");
  if (!o.selects(name)) return;
  std::vector<measured> all;
  const auto run = [&](const char* system, bench::role role,
                       const std::function<std::unique_ptr<footprint_heap>()>& make) {
    const auto heap = make();
    all.push_back({system, role, run_footprint(*heap, w, bytes, per_tx)});
  };
  // Room for both phases with a block's header for each object, so that nothing is cleaned before the end.
  const std::uint64_t room = 2 * bytes + bytes * 3 / 4 + (64ULL << 20);
  run("log-structured heap", role::subject, [&] { return std::make_unique<log_footprint>(o.directory, room); });
#if NVM_BENCH_PMEMOBJ
  run("libpmemobj", role::peer, [&] { return std::make_unique<pmemobj_footprint>(o.directory, room); });
#else
  fmt::print("{}: without libpmemobj, which is not installed\n", name);
#endif
  if (const auto f = footprint_of_jemalloc(w, bytes, per_tx)) {
    all.push_back({"jemalloc", role::peer, *f});
  } else {
    fmt::print("{}: without jemalloc: there is no libjemalloc.so.2\n", name);
  }
  run("Hoard-like", role::peer, [] { return std::make_unique<hoard_like>(); });
  report(r, name, w, per_tx, bytes, all);
}

}  // namespace

void measure_fragmentation(runner& r, const options& o) {
  const std::uint64_t bytes = (o.megabytes != 0 ? o.megabytes : o.full_or_quick<std::uint64_t>(1024, 8)) << 20;
  for (const unsigned per_tx : {100U, 1U}) {
    for (const footprint_workload& w : footprint_workloads) measure(r, o, w, bytes, per_tx);
  }
}

}  // namespace nvm::bench
