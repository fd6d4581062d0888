// How much of the log can be reclaimed without copying anything, with a log each for stores, allocations and tombstones
// and with one log for all (LSNVMM, section 5.4.1, Fig. 10)?
//
//   fast-cleaning-hashtable, -rbtree   values of 1 KiB; an operation removes a random key if it is there or else
//                                      inserts it; every 1000 operations chunks in which nothing lives are recycled
//
// Only the bytes are of interest, so loads are plain (log_engine.hpp).  One thread.
#include <fmt/core.h>

#include <vector>

#include "harness/random.hpp"
#include "logheap/log_engine.hpp"
#include "logheap/questions.hpp"
#include "suite/structures/hash_table.hpp"
#include "suite/structures/rb_tree.hpp"

namespace nvm::bench {
namespace {

using kilobyte = value_of_bytes<1024>;
using engine_type = log_engine<direct_media, false>;

struct point {
  std::uint64_t updates;
  std::uint64_t reclaimed_bytes;
};

template <class Structure>
std::vector<point> run(const options& o, std::uint64_t records, std::uint64_t updates, bool separate_logs) {
  constexpr std::uint64_t record_bytes = sizeof(kilobyte) + 128;
  // Half of the keys are there.  What never becomes wholly stale is never reclaimed here.
  const std::uint64_t pool_bytes = (records + updates) * record_bytes + (64ULL << 20);
  logheap::heap_settings settings;
  settings.separate_logs = separate_logs;
  settings.clean_below = 0;  // nothing but chunks without anything that lives
  direct_media medium;
  engine_type engine(medium, o.directory, pool_bytes, records * record_bytes * 4 + (64ULL << 20), settings);
  Structure structure(engine, records);
  const basic_value_source<kilobyte> values;
  for (std::uint64_t key = 0; key < records; key += 2) {
    engine.transact([&](auto& tx) { structure.put(tx, key, values.of(key)); });
  }
  std::vector<point> points;
  random source(10);
  const std::uint64_t fast_before = engine.heap().statistics().cleaned_fast;
  for (std::uint64_t i = 1; i <= updates; ++i) {
    const std::uint64_t key = source.below(records);
    engine.transact([&](auto& tx) {
      if (!structure.erase(tx, key)) structure.put(tx, key, values.of(key));
    });
    if (i % 1000 == 0) {
      while (engine.heap().clean(64) == 64) {
      }
    }
    if (i % (updates / 10) == 0) {
      const std::uint64_t fast = engine.heap().statistics().cleaned_fast - fast_before;
      points.push_back({i, fast * logheap::layout::chunk_bytes_default});
    }
  }
  return points;
}

template <class Structure>
void measure(runner& r, const options& o) {
  const std::string name = fmt::format("fast-cleaning-{}", Structure::name);
  if (!o.selects(name)) return;
  const std::uint64_t bytes = (o.megabytes != 0 ? o.megabytes : o.full_or_quick<std::uint64_t>(64, 4)) << 20;
  const std::uint64_t records = bytes / sizeof(kilobyte) * 2;
  const std::uint64_t updates = 4 * records / 10 * 10;
  nlohmann::ordered_json j{{"name", name},
                           {"threads", 1},
                           {"parameters", {{"keys", records}, {"value_bytes", sizeof(kilobyte)}, {"updates", updates}}},
                           {"systems", nlohmann::ordered_json::array()},
                           {"ratios", nlohmann::ordered_json::array()}};
  fmt::print("\n{}: MB of log reclaimed without copying; {}\n", name, j["parameters"].dump());
  for (const bool separate : {false, true}) {
    nlohmann::ordered_json points = nlohmann::ordered_json::array();
    fmt::print("  {:<14}", separate ? "separate logs" : "one log");
    for (const point& p : run<Structure>(o, records, updates, separate)) {
      points.push_back({{"updates", p.updates}, {"reclaimed_bytes", p.reclaimed_bytes}});
      fmt::print("{:>8.1f}", static_cast<double>(p.reclaimed_bytes) / 1e6);
    }
    fmt::print("\n");
    j["systems"].push_back(
        {{"name", separate ? "separate logs" : "one log"}, {"role", "subject"}, {"points", std::move(points)}});
  }
  std::fflush(stdout);
  r.add(std::move(j));
}

}  // namespace

void measure_fast_cleaning(runner& r, const options& o) {
  measure<basic_hash_table<kilobyte>>(r, o);
  measure<basic_rb_tree<kilobyte>>(r, o);
}

}  // namespace nvm::bench
