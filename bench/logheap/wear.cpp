// How evenly is durable memory written?  LSNVMM, section 5.3, "wear".
//
//   wear-128   values of 128 bytes, 90 % of whose updates fall on 15 % of them, one a transaction: how often each block
//              of 256 bytes is written
//
// The log-structured heap in a pool of which the values take half, cleaned when there is no room; and values in place:
// an update goes to a ring of 1 MiB first, as into Mnemosyne's log, and then home, where the memory besides is unused.
#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "harness/zipf.hpp"
#include "logheap/questions.hpp"
#include "logheap/value_heap.hpp"

namespace nvm::bench {
namespace {

using metered = meter_media<direct_media>;
constexpr std::uint64_t value_bytes = 128;

struct setting {
  std::string directory;
  std::uint64_t values;
  std::uint64_t updates;
  std::uint64_t pool_bytes;
};

// update(value, number) for each.
template <class F>
void update_values(const setting& s, F&& update) {
  const zipf popularity(s.values, zipf::theta_for(s.values, 0.15, 0.9));
  random source(9);
  for (std::uint64_t i = 0; i < s.updates; ++i) update(mix(popularity.next(source)) % s.values, i);
}

// Times that each block was written, the least first.
std::vector<std::uint32_t> written(meter& counts, const void* base, std::uint64_t bytes, const auto& work) {
  if (!counts.count_blocks(base, bytes)) throw std::runtime_error("no memory to count blocks");
  work();
  std::vector<std::uint32_t> blocks = counts.read_blocks();
  std::sort(blocks.begin(), blocks.end());
  return blocks;
}

std::vector<std::uint32_t> in_log(const setting& s) {
  direct_media inner = medium_of_this_machine();
  meter counts;
  metered medium(inner, counts);
  value_heap<logheap::leaf_mapping, metered> heap(medium, s.directory, s.pool_bytes, s.values, value_bytes, 1, {});
  return written(counts, heap.pool().base(), heap.pool().bytes(),
                 [&] { update_values(s, [&](std::uint64_t value, std::uint64_t i) { heap.overwrite(0, value, i); }); });
}

std::vector<std::uint32_t> in_place(const setting& s) {
  constexpr std::uint64_t ring_bytes = 1 << 20;
  constexpr std::uint64_t record_bytes = 64 + value_bytes;
  direct_media inner = medium_of_this_machine();
  meter counts;
  metered medium(inner, counts);
  const temporary_path path(s.directory, "wear.pool");
  const mapped_file file(path.string(), round_up(s.pool_bytes, 4096));
  auto* const base = reinterpret_cast<std::byte*>(file.data());
  return written(counts, base, s.pool_bytes, [&] {
    std::uint64_t end = 0;
    update_values(s, [&](std::uint64_t value, std::uint64_t i) {
      if (end + record_bytes > ring_bytes) end = 0;
      std::memcpy(base + end + 64, noise(i), value_bytes);
      medium.flush(base + end, record_bytes);
      medium.fence(edge{"bench/ring"});
      std::byte* const home = base + ring_bytes + value * value_bytes;
      std::memcpy(home, noise(i), value_bytes);
      medium.flush(home, value_bytes);
      medium.fence(edge{"bench/home"});
      end += record_bytes;
    });
  });
}

}  // namespace

void measure_wear(runner& r, const options& o) {
  const std::string name = "wear-128";
  if (!o.selects(name)) return;
  setting s;
  s.directory = o.directory;
  s.values = o.full_or_quick<std::uint64_t>(100'000, 5'000);
  s.updates = 20 * s.values;
  s.pool_bytes = 2 * s.values * log_bytes_of_value(value_bytes) + (4ULL << 20);
  nlohmann::ordered_json j{{"name", name},
                           {"threads", 1},
                           {"parameters",
                            {{"values", s.values},
                             {"value_bytes", value_bytes},
                             {"updates", s.updates},
                             {"pool_bytes", s.pool_bytes},
                             {"block_bytes", meter::block_bytes}}},
                           {"systems", nlohmann::ordered_json::array()},
                           {"ratios", nlohmann::ordered_json::array()}};
  fmt::print("\n{}: times that a block of {} bytes was written; {}\n", name, meter::block_bytes,
             j["parameters"].dump());
  for (const bool log : {true, false}) {
    const std::vector<std::uint32_t> blocks = log ? in_log(s) : in_place(s);
    double sum = 0;
    for (const std::uint32_t n : blocks) sum += n;
    const double mean = sum / static_cast<double>(blocks.size());
    nlohmann::ordered_json quantiles = nlohmann::ordered_json::array();
    for (std::uint64_t q = 0; q <= 1000; ++q) quantiles.push_back(blocks[(blocks.size() - 1) * q / 1000]);
    const char* const system = log ? "log-structured heap" : "in place, with a log";
    fmt::print("  {:<22} mean {:.1f}, median {}, p99 {}, p99.9 {}, max {}\n", system, mean,
               quantiles[500].get<unsigned>(), quantiles[990].get<unsigned>(), quantiles[999].get<unsigned>(),
               blocks.back());
    j["systems"].push_back({{"name", system},
                            {"role", log ? "subject" : "peer"},
                            {"mean", mean},
                            {"max", blocks.back()},
                            {"permille", std::move(quantiles)}});
  }
  std::fflush(stdout);
  r.add(std::move(j));
}

}  // namespace nvm::bench
