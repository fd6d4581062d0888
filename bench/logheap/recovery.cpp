// How long does a log-structured heap take to recover, and how much volatile memory does it need?  LSNVMM, sections
// 5.4.2 and 5.4.3 (Fig. 12, Fig. 13).
//
//   recovery-128, -1024   a log of values of that size, each allocated and stored in a transaction of its own, left as
//                         by a process that was killed; from open() to a heap that can be used.  A gigabyte of log;
//                         --megabytes 10240 makes it the paper's ten.
//   recovery-tombstones   1,000 for each of --megabytes, of objects whose allocations and superblocks are gone, beside
//                         as many objects of 256 bytes, one of each in a transaction.
//
// The first phase (chunks are read, entries dealt out) ends where the first entry of the second reaches the mapping.
#include <fmt/core.h>
#include <malloc.h>

#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <vector>

#include "harness/clock.hpp"
#include "harness/statistics.hpp"
#include "logheap/log_pool.hpp"
#include "logheap/questions.hpp"

namespace nvm::bench {
namespace {

std::atomic<std::uint64_t> first_change_ns{0};

// A mapping that says when it was first changed.
template <class Map>
class watched : public Map {
 public:
  using Map::Map;
  [[nodiscard]] status fill(typename Map::client& c, std::span<const logheap::piece> pieces) noexcept {
    if (first_change_ns.load(std::memory_order_relaxed) == 0) {
      std::uint64_t none = 0;
      first_change_ns.compare_exchange_strong(none, wall_ns(), std::memory_order_relaxed);
    }
    return Map::fill(c, pieces);
  }
};

// Kilobytes of a line of /proc/self/status.
std::uint64_t status_bytes(const std::string& field) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(field + ":")) return std::strtoull(line.c_str() + field.size() + 1, nullptr, 10) * 1024;
  }
  return 0;
}
// What was freed and not given back yet would hide what is allocated next.
std::uint64_t anonymous_bytes() {
  malloc_trim(0);
  return status_bytes("RssAnon");
}
void reset_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }
// Of anonymous memory since reset_peak(), as long as what is shared does not change.
std::uint64_t peak_anonymous_bytes() {
  const std::uint64_t peak = status_bytes("VmHWM");
  const std::uint64_t other = status_bytes("RssShmem") + status_bytes("RssFile");
  return peak > other ? peak - other : 0;
}

struct timing {
  std::vector<double> first_ms, second_ms, whole_ms;
  std::uint64_t peak = 0;  // bytes of volatile memory
};

nlohmann::ordered_json spread_to_json(const std::vector<double>& sample) {
  const spread s = spread_of(sample);
  return {{"median", s.median}, {"min", s.min}, {"max", s.max}, {"sample", sample}};
}

// Opens the pool as often as wanted, as if each process before had died.
template <class Pool>
timing open_again(Pool& pool, const options& o, unsigned threads, std::uint64_t entries_min) {
  timing t;
  for (unsigned run = 0; run < o.runs; ++run) {
    pool.forget();
    pool.settings().recovery_threads = threads;
    const std::uint64_t before = anonymous_bytes();
    reset_peak();
    first_change_ns = 0;
    pool.boot();
    const std::uint64_t start = wall_ns();
    const logheap::recovery_report report = pool.open();
    const std::uint64_t end = wall_ns();
    const std::uint64_t high = peak_anonymous_bytes();
    t.peak = std::max(t.peak, high > before ? high - before : 0);
    if (report.entries < entries_min || !report.damaged.empty())
      throw std::runtime_error("the heap did not recover whole");
    t.first_ms.push_back(static_cast<double>(first_change_ns - start) / 1e6);
    t.second_ms.push_back(static_cast<double>(end - first_change_ns) / 1e6);
    t.whole_ms.push_back(static_cast<double>(end - start) / 1e6);
  }
  const spread whole = spread_of(t.whole_ms);
  fmt::print(
      "{} thread{}: {:.0f} ms ({:.0f} to {:.0f}), first phase {:.0f}, second {:.0f}; at most {:.0f} MB of volatile "
      "memory",
      threads, threads == 1 ? "" : "s", whole.median, whole.min, whole.max, spread_of(t.first_ms).median,
      spread_of(t.second_ms).median, static_cast<double>(t.peak) / 1e6);
  return t;
}
nlohmann::ordered_json to_json(const char* name, const timing& t) {
  return {{"name", name},
          {"role", "subject"},
          {"whole_ms", spread_to_json(t.whole_ms)},
          {"first_phase_ms", spread_to_json(t.first_ms)},
          {"second_phase_ms", spread_to_json(t.second_ms)},
          {"peak_bytes", t.peak}};
}

template <class Pool>
void put(Pool& pool, typename Pool::thread& t, std::uint64_t number, std::uint64_t bytes,
         const typename Pool::heap_type::object* released = nullptr) {
  const auto object = pool->allocate(t, bytes);
  if (!object) fail_with("allocating");
  const typename Pool::heap_type::store_range range{object->at.home, noise(number), bytes};
  const std::size_t gone = released == nullptr ? 0 : 1;
  if (!pool->commit(t, {{&range, 1}, {&*object, 1}, {released, gone}})) fail_with("committing");
}

template <class Map>
void measure(const options& o, const char* mapping_name, std::uint64_t log_bytes, std::uint64_t value_bytes,
             std::vector<nlohmann::ordered_json>& by_threads) {
  direct_media medium = medium_of_this_machine();
  const std::uint64_t values = log_bytes / (sizeof(logheap::layout::block_header) + 8 + value_bytes);
  const std::uint64_t data = values * value_bytes;
  log_pool<watched<Map>> pool(medium, o.directory, log_bytes + log_bytes / 32 + (32ULL << 20), {});
  const std::uint64_t before_fill = anonymous_bytes();
  {
    auto& t = pool.join();
    for (std::uint64_t v = 0; v < values; ++v) put(pool, t, v, value_bytes);
  }
  const std::uint64_t mapping_bytes = pool->map().bytes_used();
  const std::uint64_t volatile_bytes = anonymous_bytes() - before_fill;
  const std::uint64_t filled = pool.bytes_in_use();
  const auto percent = [&](std::uint64_t bytes) {
    return 100.0 * static_cast<double>(bytes) / static_cast<double>(data);
  };
  for (std::size_t i = 0; i < o.threads.size(); ++i) {
    fmt::print("  {:<12} ", mapping_name);
    const timing t = open_again(pool, o, o.threads[i], values);
    fmt::print("; mapping {:.1f} % of the data, all that is volatile {:.1f} %\n", percent(mapping_bytes),
               percent(volatile_bytes));
    by_threads[i]["parameters"] = {{"value_bytes", value_bytes}, {"values", values}, {"log_bytes", filled}};
    auto j = to_json(mapping_name, t);
    j["mapping_bytes"] = mapping_bytes;
    j["mapping_percent_of_data"] = percent(mapping_bytes);
    j["volatile_bytes"] = volatile_bytes;
    j["volatile_percent_of_data"] = percent(volatile_bytes);
    by_threads[i]["systems"].push_back(std::move(j));
    std::fflush(stdout);
  }
}

// Tombstones in chunks full of what lives, of objects of which nothing else is left.
void measure_tombstones(const options& o, std::uint64_t tombstones, std::vector<nlohmann::ordered_json>& by_threads) {
  constexpr std::uint64_t gone_bytes = 64;
  constexpr std::uint64_t value_bytes = 256;
  using pool_type = log_pool<watched<logheap::leaf_mapping>>;
  direct_media medium = medium_of_this_machine();
  logheap::heap_settings settings;
  settings.separate_logs = false;
  pool_type pool(medium, o.directory, tombstones * (gone_bytes + value_bytes + 160) + (64ULL << 20), settings);
  {
    auto& t = pool.join();
    std::vector<logheap::home_t> homes;
    for (std::uint64_t v = 0; v < tombstones; ++v) {
      const auto object = pool->allocate(t, gone_bytes);
      if (!object || !pool->commit(t, {{}, {&*object, 1}, {}})) fail_with("making what will be gone");
      homes.push_back(object->at.home);
    }
    for (std::uint64_t v = 0; v < tombstones; ++v) {
      const auto released = pool->release(t, homes[v]);
      if (!released) fail_with("freeing");
      put(pool, t, v, value_bytes, &*released);
    }
    while (pool->clean(8, true) != 0) {
    }
  }
  const std::uint64_t left = pool.bytes_in_use();
  for (std::size_t i = 0; i < o.threads.size(); ++i) {
    fmt::print("  leaves       ");
    const timing t = open_again(pool, o, o.threads[i], 2 * tombstones);
    fmt::print("\n");
    by_threads[i]["parameters"] = {{"value_bytes", value_bytes}, {"tombstones", tombstones}, {"log_bytes", left}};
    by_threads[i]["systems"].push_back(to_json("leaves", t));
    std::fflush(stdout);
  }
}

std::vector<nlohmann::ordered_json> cases_of(const options& o, const std::string& name) {
  std::vector<nlohmann::ordered_json> by_threads;
  for (const unsigned threads : o.threads) {
    by_threads.push_back({{"name", name},
                          {"threads", threads},
                          {"unit", "recovery"},
                          {"parameters", {}},
                          {"systems", nlohmann::ordered_json::array()},
                          {"ratios", nlohmann::ordered_json::array()}});
  }
  return by_threads;
}

}  // namespace

void measure_recovery(runner& r, const options& o) {
  const std::uint64_t megabytes = o.megabytes != 0 ? o.megabytes : o.full_or_quick<std::uint64_t>(1024, 8);
  const std::uint64_t bytes = megabytes << 20;
  for (const std::uint64_t value_bytes : {128, 1024}) {
    const std::string name = fmt::format("recovery-{}", value_bytes);
    if (!o.selects(name)) continue;
    fmt::print("\n{}: a log of {} MiB\n", name, megabytes);
    auto by_threads = cases_of(o, name);
    measure<logheap::leaf_mapping>(o, "leaves", bytes, value_bytes, by_threads);
    measure<logheap::skip_list_mapping>(o, "skip lists", bytes, value_bytes, by_threads);
    for (auto& j : by_threads) r.add(std::move(j));
  }
  if (const std::string name = "recovery-tombstones"; o.selects(name)) {
    fmt::print("\n{}: {} thousand of them\n", name, megabytes);
    auto by_threads = cases_of(o, name);
    measure_tombstones(o, megabytes * 1000, by_threads);
    for (auto& j : by_threads) r.add(std::move(j));
  }
}

}  // namespace nvm::bench
