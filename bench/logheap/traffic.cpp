// How many lines and bytes does an update write to durable memory?  LSNVMM, section 5.3, Fig. 8.
//
//   traffic-128        values of 128 bytes overwritten at random, one a transaction
//   traffic-128x100    the same, 100 a transaction
//   traffic-8          one word of such a value a transaction
//
// Counted by the meter (media/meter_media.hpp): traffic is lines written back, 64 bytes each; dirty bytes are those
// that were asked to be written back.  Without cleaning, and with cleaning as in lsc-128 (cleaning.cpp).
#include <fmt/core.h>

#include "logheap/questions.hpp"
#include "logheap/value_heap.hpp"

namespace nvm::bench {
namespace {

struct kind {
  const char* name;
  std::uint64_t stored_bytes;
  unsigned together;  // updates of a transaction
};

constexpr std::uint64_t value_bytes = 128;

meter_totals run(const options& o, const kind& k, std::uint64_t values, std::uint64_t transactions, bool cleaning) {
  using heap_type = value_heap<logheap::leaf_mapping, meter_media<direct_media>>;
  direct_media inner = medium_of_this_machine();
  meter counts;
  meter_media<direct_media> medium(inner, counts);
  logheap::heap_settings settings;
  settings.clean_below = 50;
  const std::uint64_t updates = transactions * k.together;
  heap_type heap(medium, o.directory, (3 * values + updates) * log_bytes_of_value(value_bytes) + (32ULL << 20), values,
                 value_bytes, 1, settings);
  if (cleaning) {
    while (heap->clean(64) != 0) {
    }
  }
  const meter_totals before = counts.totals();
  random source(8);
  std::vector<heap_type::heap_type::store_range> stores;
  for (std::uint64_t i = 0; i < transactions; ++i) {
    stores.clear();
    for (unsigned u = 0; u < k.together; ++u) {
      const std::uint64_t within = source.below(value_bytes / k.stored_bytes) * k.stored_bytes;
      stores.push_back({heap.home_of(source.below(values)) + within, noise(i), k.stored_bytes});
    }
    const auto before_it = [](const auto& a, const auto& b) { return a.home < b.home; };
    const auto same = [](const auto& a, const auto& b) { return a.home == b.home; };
    std::sort(stores.begin(), stores.end(), before_it);
    stores.erase(std::unique(stores.begin(), stores.end(), same), stores.end());
    if (!heap->commit(heap.thread_of(0), {stores, {}, {}})) fail_with("updating");
    if (cleaning && i * k.together / 1000 != (i + 1) * k.together / 1000) {
      while (heap->clean(64) == 64) {
      }
    }
  }
  meter_totals after = counts.totals();
  after.lines -= before.lines;
  after.bytes -= before.bytes;
  after.fences -= before.fences;
  after.flushes -= before.flushes;
  return after;
}

}  // namespace

void measure_traffic(runner& r, const options& o) {
  constexpr kind kinds[] = {{"traffic-128", 128, 1}, {"traffic-128x100", 128, 100}, {"traffic-8", 8, 1}};
  const std::uint64_t values = o.full_or_quick<std::uint64_t>(200'000, 5'000);
  const std::uint64_t updates = o.full_or_quick<std::uint64_t>(400'000, 10'000);
  for (const kind& k : kinds) {
    if (!o.selects(k.name)) continue;
    nlohmann::ordered_json j{{"name", k.name},
                             {"threads", 1},
                             {"parameters",
                              {{"values", values},
                               {"value_bytes", value_bytes},
                               {"stored_bytes", k.stored_bytes},
                               {"updates_a_transaction", k.together},
                               {"updates", updates}}},
                             {"systems", nlohmann::ordered_json::array()},
                             {"ratios", nlohmann::ordered_json::array()}};
    fmt::print("\n{}: of an update\n", k.name);
    for (const bool cleaning : {false, true}) {
      const meter_totals t = run(o, k, values, updates / k.together, cleaning);
      const auto per_update = [&](std::uint64_t n) { return static_cast<double>(n) / static_cast<double>(updates); };
      const auto stored = static_cast<double>(k.stored_bytes);
      const char* const name = cleaning ? "LSC" : "no cleaning";
      fmt::print("  {:<12} {:.2f} lines, {:.0f} bytes, {:.3f} fences; for a byte {:.2f} of traffic, {:.2f} dirty\n",
                 name, per_update(t.lines), per_update(t.bytes), per_update(t.fences),
                 per_update(t.lines) * 64 / stored, per_update(t.bytes) / stored);
      j["systems"].push_back({{"name", name},
                              {"role", "subject"},
                              {"lines", per_update(t.lines)},
                              {"dirty_bytes", per_update(t.bytes)},
                              {"fences", per_update(t.fences)},
                              {"traffic_per_byte", per_update(t.lines) * 64 / stored},
                              {"dirty_per_byte", per_update(t.bytes) / stored}});
    }
    std::fflush(stdout);
    r.add(std::move(j));
  }
}

}  // namespace nvm::bench
