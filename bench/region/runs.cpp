// How long does it take to allocate and free, from 64 bytes to 1 GiB, by one thread and two?  Lewat, Fig. 16.
//
//   runs-64 ... runs-1G   a pair: the oldest of those that a thread keeps is freed, another allocated, and gets a word
//
// Regions: made with a word and room for the rest, and dropped.  Pages: the run of whole pages by itself, with its
// entry on media.  libpmemobj: its atomic calls, the quicker ones here.  jemalloc: volatile memory.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/mapped_file.hpp"
#include "region/allocations.hpp"
#include "region/ground.hpp"
#include "region/questions.hpp"
#if NVM_BENCH_PMEMOBJ
#include "systems/pmemobj_heap.hpp"
#endif

namespace nvm::bench {
namespace {

using medium_type = latency_media<direct_media>;

// What is kept, what waits to be given back, and what rounding takes.
std::uint64_t pool_bytes(const allocation_load& l) {
  return 4 * l.threads * (l.kept() + 1) * round_up(l.size, std::uint64_t{4096}) + (std::uint64_t{64} << 20);
}

double of_regions(const options& o, const allocation_load& l) {
  direct_media inner{isa::best_write_back()};
  medium_type medium{inner, latency_of(o)};
  region_ground<medium_type> at{medium, pool_bytes(l)};
  struct heap {
    region_ground<medium_type>& at;
    region_ground<medium_type>::thread& t;
    std::uint64_t first;
    std::uint64_t size;
    void allocate(std::uint64_t i) { at.create_waiting(t, first + i, size, std::as_bytes(std::span{&i, 1})); }
    void release(std::uint64_t i) { at.drop(t, first + i); }
  };
  return time_allocations(l, [&](unsigned thread) { return heap{at, at.join(), thread * 1'000'000ULL, l.size}; });
}
double of_pages(const options& o, const allocation_load& l) {
  direct_media inner{isa::best_write_back()};
  medium_type medium{inner, latency_of(o)};
  region_ground<medium_type> at{medium, pool_bytes(l)};
  struct heap {
    region_pages& pages;
    std::byte* base;
    unsigned thread;
    std::uint64_t size;
    std::vector<std::uint64_t> all;
    void allocate(std::uint64_t i) {
      const auto run = pages.take_run(thread, layout::slot_protocol::region, 400, size);
      if (!run) fail_with("taking a run");
      all[i] = *run;
      std::memcpy(base + *run, &i, sizeof i);
    }
    void release(std::uint64_t i) { pages.give(all[i]); }
  };
  return time_allocations(l, [&](unsigned thread) {
    return heap{at.pages(), at.base(), thread, l.size, std::vector<std::uint64_t>(l.kept())};
  });
}
#if NVM_BENCH_PMEMOBJ
double of_pmemobj(const options& o, const allocation_load& l) {
  pmemobj_heap pool{{o.directory, 2 * l.threads * (l.kept() + 1) * l.size}};
  auto* const all = static_cast<PMEMoid*>(pool.fixed(l.threads * l.kept() * sizeof(PMEMoid)));
  struct heap {
    PMEMobjpool* pool;
    PMEMoid* all;
    std::uint64_t size;
    void allocate(std::uint64_t i) {
      const auto fill = [](PMEMobjpool* p, void* at, void* word) {
        pmemobj_memcpy_persist(p, at, word, sizeof i);
        return 0;
      };
      if (pmemobj_alloc(pool, &all[i], size, 1, fill, &i) != 0) {
        throw std::runtime_error(std::string("pmemobj_alloc: ") + pmemobj_errormsg());
      }
    }
    void release(std::uint64_t i) { pmemobj_free(&all[i]); }
  };
  return time_allocations(l, [&](unsigned thread) { return heap{pool.pool(), all + thread * l.kept(), l.size}; });
}
#endif
// Nothing: there is no jemalloc.
std::optional<double> of_jemalloc(const allocation_load& l) {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command =
      fmt::format("LD_PRELOAD=libjemalloc.so.2 '{}' {} {} {} 2>/dev/null",
                  (self.parent_path() / "bench-jemalloc-runs").string(), l.size, l.threads, l.pairs);
  FILE* const out = popen(command.c_str(), "r");
  if (out == nullptr) return std::nullopt;
  double ns = 0;
  const int read = std::fscanf(out, "%lf", &ns);
  if (pclose(out) != 0 || read != 1) return std::nullopt;
  return ns;
}

std::string named(std::uint64_t size) {
  if (size >= 1 << 30) return fmt::format("{}G", size >> 30);
  if (size >= 1 << 20) return fmt::format("{}M", size >> 20);
  if (size >= 1 << 10) return fmt::format("{}K", size >> 10);
  return std::to_string(size);
}

void measure_one(runner& r, const options& o, const std::string& name, const allocation_load& l) {
  struct system {
    const char* name;
    bench::role role;
    std::vector<double> ns;
  };
  std::vector<system> all{{"regions", role::subject, {}},
                          {"pages", role::subject, {}},
                          {"libpmemobj", role::peer, {}},
                          {"jemalloc", role::peer, {}}};
  for (unsigned run = 0; run < std::max(1U, o.runs); ++run) {
    all[0].ns.push_back(of_regions(o, l));
    if (l.size >= 4096) all[1].ns.push_back(of_pages(o, l));
#if NVM_BENCH_PMEMOBJ
    all[2].ns.push_back(of_pmemobj(o, l));
#endif
    if (const auto ns = of_jemalloc(l)) all[3].ns.push_back(*ns);
  }
  nlohmann::ordered_json j{{"name", name},
                           {"threads", l.threads},
                           {"parameters", {{"size", l.size}, {"kept", l.kept()}, {"pairs", l.pairs}}},
                           {"systems", nlohmann::ordered_json::array()},
                           {"ratios", nlohmann::ordered_json::array()}};
  fmt::print("  {:<10} {} threads:", name, l.threads);
  for (system& s : all) {
    if (s.ns.empty()) continue;
    std::sort(s.ns.begin(), s.ns.end());
    const double median = s.ns[s.ns.size() / 2];
    fmt::print("  {} {:.0f} ({:.0f} to {:.0f})", s.name, median, s.ns.front(), s.ns.back());
    j["systems"].push_back({{"name", s.name},
                            {"role", s.role == role::subject ? "subject" : "peer"},
                            {"pair_ns", {{"median", median}, {"min", s.ns.front()}, {"max", s.ns.back()}}}});
  }
  fmt::print("\n");
  std::fflush(stdout);
  r.add(std::move(j));
}

}  // namespace

void measure_runs(runner& r, const options& o) {
  if (o.selects("runs"))
    fmt::print("\nruns: nanoseconds of processor time to free one and allocate another, median (range) of {}\n",
               o.runs);
  const std::uint64_t largest = o.full_or_quick<std::uint64_t>(std::uint64_t{1} << 30, 1 << 20);
  for (std::uint64_t size = 64; size <= largest; size *= 4) {
    const std::string name = "runs-" + named(size);
    if (!o.selects(name)) continue;
    for (const unsigned threads : o.threads) {
      measure_one(r, o, name, {size, threads, o.full_or_quick<std::uint64_t>(size > 1 << 20 ? 2'000 : 20'000, 200)});
    }
  }
}

}  // namespace nvm::bench
