// How evenly do regions write durable memory, and what does that cost?  Lewat, Fig. 15.
//
//   wear-APP, -ETC, -VAR, -SYS   the writes of Facebook's mixes (Table IV) on regions that are items: an update changes
//                                32 bytes to all of one, popularity is zipfian with theta 0.99, one that was removed
//                                comes again when it is updated
//
// Counted is every 256-byte block of the whole pool: headers, replicas, records, page map; but not the superblock,
// which a pool writes when it is opened and closed.  Regions with the levelling counter at 100, the same with replicas
// for all updates, without the counter, and without it over start-gap; and items that are changed in place.
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "harness/clock.hpp"
#include "harness/random.hpp"
#include "harness/statistics.hpp"
#include "harness/zipf.hpp"
#include "region/ground.hpp"
#include "region/in_place.hpp"
#include "region/questions.hpp"
#include "region/start_gap.hpp"

namespace nvm::bench {
namespace {

using slow_medium = latency_media<direct_media>;
using medium_type = start_gap_media<slow_medium>;

struct mix_of_writes {
  const char* name;
  unsigned reads, removals;  // per thousand; updates are the rest
  std::uint64_t key_max, value_max;
};
// As bench/suite/stores.cpp has them; USR writes two in a thousand.
constexpr mix_of_writes mixes[] = {
    {"APP", 825, 125, 40, 500}, {"ETC", 667, 300, 52, 300}, {"VAR", 182, 2, 36, 100}, {"SYS", 667, 33, 32, 800}};

struct kind_of_levelling {
  const char* name;
  bool in_place;
  unsigned counter;         // of regions; 0: none
  std::uint64_t threshold;  // of start-gap; 0: none
  region::mode mode = region::mode::adaptive;
};
constexpr kind_of_levelling kinds[] = {{"levelling counter", false, 100, 0},
                                       {"levelling counter, replicas", false, 100, 0, region::mode::replica},
                                       {"none", false, 0, 0},
                                       {"start-gap", false, 0, 100},
                                       {"in place", true, 0, 0}};
constexpr std::size_t without = 2;               // what the cost of the others is over
constexpr std::uint64_t ring_bytes = 256 << 10;  // as a pool of 1 GiB has them

struct answer_of_run {
  double ns = 0;  // of an operation, processor time
  std::vector<std::uint32_t> blocks;
  std::uint32_t in_log = 0, in_sets = 0, besides = 0;  // the most: rings, pages of regions, page map and the rest
};

// Where the most written blocks are; where nothing moves.
void split(region_ground<medium_type>& at, answer_of_run& a) {
  std::vector<std::uint16_t> owner(a.blocks.size() * meter::block_bytes / 4096 + 1);
  for (const owned_pages& p : pages_of(at.pages())) {
    std::fill_n(owner.begin() + static_cast<std::ptrdiff_t>(p.offset / 4096), p.bytes / 4096, p.owner);
  }
  for (std::size_t i = 0; i < a.blocks.size(); ++i) {
    const std::uint16_t o = owner[i * meter::block_bytes / 4096];
    std::uint32_t& most = o == 0 ? a.besides : o == region::layout::directory_owner ? a.in_log : a.in_sets;
    most = std::max(most, a.blocks[i]);
  }
}

// Plays the mix on items that are all there; nanoseconds of an operation.
template <class Ground, class Size>
double play(Ground& ground, const mix_of_writes& m, std::uint64_t items, std::uint64_t ops, Size&& size_of) {
  std::vector<std::byte> noise(8192);
  random source{3};
  for (std::byte& b : noise) b = static_cast<std::byte>(source.next());
  std::vector<std::byte> seen(m.key_max + m.value_max + 8);
  std::vector<bool> there(items, true);
  const auto bytes_of = [&](std::uint64_t i, std::uint64_t n) { return std::span{noise}.subspan(mix(i) % 4096, n); };
  for (std::uint64_t i = 0; i < items; ++i) ground.create(i, bytes_of(i, size_of(i)));
  ground.watch();
  const zipf popularity{items, 0.99};
  const std::uint64_t begin = process_cpu_ns();
  for (std::uint64_t op = 0; op < ops; ++op) {
    const std::uint64_t i = mix(popularity.next(source)) % items;
    const std::uint64_t what = source.below(1000);
    const std::uint64_t size = size_of(i);
    if (what < m.reads) {
      if (there[i]) ground.read(i, std::span{seen}.first(size));
    } else if (what < m.reads + m.removals) {
      if (there[i]) ground.drop(i);
      there[i] = false;
    } else if (!there[i]) {
      ground.create(i, bytes_of(op, size));
      there[i] = true;
    } else {
      const std::uint64_t n = std::min(size, 32 + source.below(size));
      ground.write(i, source.below(size - n + 1), bytes_of(op, n));
    }
  }
  return static_cast<double>(process_cpu_ns() - begin) / static_cast<double>(ops);
}

answer_of_run run(const options& o, const mix_of_writes& m, const kind_of_levelling& k, std::uint64_t items,
                  std::uint64_t ops) {
  direct_media inner{isa::best_write_back()};
  slow_medium slow{inner, latency_of(o)};
  medium_type medium{slow, k.threshold};
  const auto size_of = [&](std::uint64_t i) { return 17 + mix(i) % (m.key_max + m.value_max - 16); };
  answer_of_run a;
  if (k.in_place) {
    items_in_place<medium_type> at{medium, items, ring_bytes, size_of};
    a.ns = play(at, m, items, ops, size_of);
    a.blocks = medium.counts();
    const auto home = a.blocks.begin() + ring_bytes / meter::block_bytes;
    a.in_log = *std::max_element(a.blocks.begin(), home);
    a.in_sets = *std::max_element(home, a.blocks.end());
  } else {
    region::options settings;
    settings.levelling = k.counter;
    settings.ring_bytes = ring_bytes;
    region_ground<medium_type> at{medium, items * 2 * (m.key_max + m.value_max + 64) + (8 << 20), settings};
    struct ground {
      region_ground<medium_type>& at;
      medium_type& medium;
      region::mode how;
      region_ground<medium_type>::thread& t = at.join();
      void create(std::uint64_t i, std::span<const std::byte> from) { at.create(t, i, from.size(), from, 0); }
      void drop(std::uint64_t i) { at.drop(t, i); }
      void write(std::uint64_t i, std::uint64_t offset, std::span<const std::byte> from) {
        at.write(t, i, offset, from, how);
      }
      void read(std::uint64_t i, std::span<std::byte> to) { at.read(t, i, to); }
      void watch() { medium.watch(at.base(), at.capacity()); }
    } with{at, medium, k.mode};
    a.ns = play(with, m, items, ops, size_of);
    at.domain().come_to_rest();
    a.blocks = medium.counts();
    if (k.threshold == 0) split(at, a);
  }
  std::sort(a.blocks.begin(), a.blocks.end(), std::greater<>{});
  return a;
}

void measure_one(runner& r, const options& o, const std::string& name, const mix_of_writes& m) {
  const std::uint64_t items = o.full_or_quick<std::uint64_t>(20'000, 500);
  const std::uint64_t ops = o.full_or_quick<std::uint64_t>(2'000'000, 20'000);
  nlohmann::ordered_json j{{"name", name},
                           {"threads", 1},
                           {"parameters", {{"items", items}, {"operations", ops}, {"block_bytes", meter::block_bytes}}},
                           {"systems", nlohmann::ordered_json::array()},
                           {"ratios", nlohmann::ordered_json::array()}};
  fmt::print("\n{}: times that a block of {} bytes was written; {}\n", name, meter::block_bytes,
             j["parameters"].dump());
  std::vector<std::vector<double>> ns(std::size(kinds));
  std::vector<answer_of_run> last(std::size(kinds));
  for (unsigned round = 0; round < std::max(1U, o.runs); ++round) {
    for (std::size_t k = 0; k < std::size(kinds); ++k) {
      answer_of_run a = run(o, m, kinds[k], items, ops);
      ns[k].push_back(a.ns);
      last[k] = std::move(a);
    }
  }
  for (std::size_t k = 0; k < std::size(kinds); ++k) {
    const spread took = spread_of(ns[k]);
    const double median = took.median;
    const std::vector<std::uint32_t>& b = last[k].blocks;
    nlohmann::ordered_json shares = nlohmann::ordered_json::array();
    for (std::uint64_t q = 0; q <= 1000; ++q) shares.push_back(b[(b.size() - 1) * q / 1000]);
    const auto above = static_cast<std::uint64_t>(std::count_if(b.begin(), b.end(), [](auto n) { return n > 400; }));
    const spread cost = spread_of(pairwise_ratio(ns[k], ns[without]));
    fmt::print(
        "  {:<27} most {:>6}, one in a thousand {:>5}, median {:>4}; {} blocks above 400; {:.0f} ns, {:.2f} times\n",
        kinds[k].name, b.front(), b[b.size() / 1000], b[b.size() / 2], above, median, cost.median);
    if (kinds[k].threshold == 0) {
      fmt::print("  {:<27} most of regions {}, of the log {}, of the page map and the rest {}\n", "", last[k].in_sets,
                 last[k].in_log, last[k].besides);
    }
    j["systems"].push_back({{"name", kinds[k].name},
                            {"role", k == 0 ? "subject" : "peer"},
                            {"most", b.front()},
                            {"most_of_regions", last[k].in_sets},
                            {"most_of_log", last[k].in_log},
                            {"most_besides", last[k].besides},
                            {"above_400", above},
                            {"operation_ns", {{"median", median}, {"min", took.min}, {"max", took.max}}},
                            {"times_none", {{"median", cost.median}, {"min", cost.min}, {"max", cost.max}}},
                            {"permille", std::move(shares)}});
  }
  std::fflush(stdout);
  r.add(std::move(j));
}

}  // namespace

void measure_wear(runner& r, const options& o) {
  for (const mix_of_writes& m : mixes) {
    const std::string name = fmt::format("wear-{}", m.name);
    if (o.selects(name)) measure_one(r, o, name, m);
  }
}

}  // namespace nvm::bench
