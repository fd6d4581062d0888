// How long does a log-structured heap take to recover, and how much volatile memory does it need?  LSNVMM, sections
// 5.4.2 and 5.4.3 (Fig. 12, Fig. 13).
//
//   recovery-128, -1024   a log of values of that size, each allocated and stored in a transaction of its own, left as
//                         by a process that was killed; from open() to a heap that can be used.  A gigabyte of log;
//                         --megabytes 10240 makes it the paper's ten.
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
};

nlohmann::ordered_json spread_to_json(const std::vector<double>& sample) {
  const spread s = spread_of(sample);
  return {{"median", s.median}, {"min", s.min}, {"max", s.max}, {"sample", sample}};
}

template <class Map>
void measure(const options& o, const char* mapping_name, std::uint64_t log_bytes, std::uint64_t value_bytes,
             std::vector<nlohmann::ordered_json>& by_threads) {
  using pool_type = log_pool<watched<Map>>;
  using heap_type = typename pool_type::heap_type;
  direct_media medium = medium_of_this_machine();
  const std::uint64_t values = log_bytes / (sizeof(logheap::layout::block_header) + 8 + value_bytes);
  const std::uint64_t data = values * value_bytes;
  pool_type pool(medium, o.directory, log_bytes + log_bytes / 32 + (32ULL << 20), {});
  const std::uint64_t before_fill = anonymous_bytes();
  {
    auto& t = pool.join();
    for (std::uint64_t v = 0; v < values; ++v) {
      const auto object = pool->allocate(t, value_bytes);
      if (!object) fail_with("allocating");
      const typename heap_type::store_range range{object->at.home, noise(v), value_bytes};
      if (!pool->commit(t, {{&range, 1}, {&*object, 1}, {}})) fail_with("committing");
    }
  }
  const std::uint64_t mapping_bytes = pool->map().bytes_used();
  const std::uint64_t volatile_bytes = anonymous_bytes() - before_fill;
  const std::uint64_t filled = pool.bytes_in_use();
  const auto percent = [&](std::uint64_t bytes) {
    return 100.0 * static_cast<double>(bytes) / static_cast<double>(data);
  };
  for (std::size_t i = 0; i < o.threads.size(); ++i) {
    timing t;
    std::uint64_t peak = 0;
    for (unsigned run = 0; run < o.runs; ++run) {
      pool.forget();
      pool.settings().recovery_threads = o.threads[i];
      const std::uint64_t before = anonymous_bytes();
      reset_peak();
      first_change_ns = 0;
      pool.boot();
      const std::uint64_t start = wall_ns();
      const logheap::recovery_report report = pool.open();
      const std::uint64_t end = wall_ns();
      const std::uint64_t high = peak_anonymous_bytes();
      peak = std::max(peak, high > before ? high - before : 0);
      if (report.entries < values || !report.damaged.empty())
        throw std::runtime_error("the heap did not recover whole");
      t.first_ms.push_back(static_cast<double>(first_change_ns - start) / 1e6);
      t.second_ms.push_back(static_cast<double>(end - first_change_ns) / 1e6);
      t.whole_ms.push_back(static_cast<double>(end - start) / 1e6);
    }
    const spread whole = spread_of(t.whole_ms);
    fmt::print(
        "  {:<12} {} thread{}: {:.0f} ms ({:.0f} to {:.0f}), first phase {:.0f}, second {:.0f}; at most {:.0f} MB "
        "of volatile memory; mapping {:.1f} % of the data, all that is volatile {:.1f} %\n",
        mapping_name, o.threads[i], o.threads[i] == 1 ? "" : "s", whole.median, whole.min, whole.max,
        spread_of(t.first_ms).median, spread_of(t.second_ms).median, static_cast<double>(peak) / 1e6,
        percent(mapping_bytes), percent(volatile_bytes));
    by_threads[i]["parameters"] = {{"value_bytes", value_bytes}, {"values", values}, {"log_bytes", filled}};
    by_threads[i]["systems"].push_back({{"name", mapping_name},
                                        {"role", "subject"},
                                        {"whole_ms", spread_to_json(t.whole_ms)},
                                        {"first_phase_ms", spread_to_json(t.first_ms)},
                                        {"second_phase_ms", spread_to_json(t.second_ms)},
                                        {"peak_bytes", peak},
                                        {"mapping_bytes", mapping_bytes},
                                        {"mapping_percent_of_data", percent(mapping_bytes)},
                                        {"volatile_bytes", volatile_bytes},
                                        {"volatile_percent_of_data", percent(volatile_bytes)}});
    std::fflush(stdout);
  }
}

}  // namespace

void measure_recovery(runner& r, const options& o) {
  const std::uint64_t bytes = (o.megabytes != 0 ? o.megabytes : o.full_or_quick<std::uint64_t>(1024, 8)) << 20;
  for (const std::uint64_t value_bytes : {128, 1024}) {
    const std::string name = fmt::format("recovery-{}", value_bytes);
    if (!o.selects(name)) continue;
    fmt::print("\n{}: a log of {} MiB\n", name, bytes >> 20);
    std::vector<nlohmann::ordered_json> by_threads;
    for (const unsigned threads : o.threads) {
      by_threads.push_back({{"name", name},
                            {"threads", threads},
                            {"unit", "recovery"},
                            {"parameters", {}},
                            {"systems", nlohmann::ordered_json::array()},
                            {"ratios", nlohmann::ordered_json::array()}});
    }
    measure<logheap::leaf_mapping>(o, "leaves", bytes, value_bytes, by_threads);
    measure<logheap::skip_list_mapping>(o, "skip lists", bytes, value_bytes, by_threads);
    for (auto& j : by_threads) r.add(std::move(j));
  }
}

}  // namespace nvm::bench
