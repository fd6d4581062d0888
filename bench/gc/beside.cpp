// Throughput of transactions beside a collection of their pool, and without one.
//
//   beside-PERCENT   threads replace objects of --records, and leak one of ten; throughput and the longest transaction
//                    without a collection and while one thread collects again and again, with so much of a processor at
//                    most
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gc/questions.hpp"
#include "gc/typed_pool.hpp"
#include "harness/clock.hpp"

namespace nvm::bench {
namespace {

using json = nlohmann::ordered_json;

constexpr std::uint64_t item_bytes = 112;  // 128 with the header
constexpr std::uint64_t shelf_places = 480;
constexpr const char* item_name = "bench_beside_item";
constexpr const char* shelf_name = "bench_beside_shelf";
const std::uint32_t item_type = layout::type_id_of(item_name);
const std::uint32_t shelf_type = layout::type_id_of(shelf_name);

struct shelf {
  void* next;
  void* at[shelf_places - 1];
};

// Each thread has shelves of its own.
class shelves {
 public:
  shelves(const options& o, unsigned threads) : path_{fmt::format("{}/bench-beside-{}.nvm", o.directory, ::getpid())} {
    announce_type(item_name, 1, item_bytes);
    announce_type(shelf_name, shelf_places, sizeof(shelf));
    nvm_pool_options p{};
    p.medium = NVM_MEDIUM_SHM;
    p.persist = NVM_PERSIST_BEST;
    p.size = o.records * 256 + (std::uint64_t{512} << 20);
    p.capacity = p.size * 2;
    pool_ = nvm_pool_create_with(path_.c_str(), &p);
    if (pool_ == nullptr) fail_in("nvm_pool_create_with");
    ::unlink(path_.c_str());
    of_.resize(threads);
    shelf* last = nullptr;
    for (std::uint64_t made = 0; made < std::max<std::uint64_t>(o.records, threads * shelf_places);) {
      done(nvm_tx_begin(pool_), "nvm_tx_begin");
      auto* const s = static_cast<shelf*>(nvm_calloc(pool_, shelf_type, 1, sizeof(shelf)));
      if (s == nullptr) fail_in("nvm_calloc");
      for (void*& place : s->at) place = item();
      s->next = last;
      last = s;
      done(nvm_pool_set_root(pool_, s), "nvm_pool_set_root");
      done(nvm_tx_commit(pool_), "nvm_tx_commit");
      of_[made / shelf_places % threads].push_back(s);
      made += shelf_places;
    }
  }
  ~shelves() { (void)nvm_pool_close(pool_); }
  shelves(const shelves&) = delete;
  shelves& operator=(const shelves&) = delete;

  NVM_POOL* pool() const { return pool_; }
  void replace(unsigned thread, std::mt19937_64& random) const {
    void*& at = of_[thread][random() % of_[thread].size()]->at[random() % (shelf_places - 1)];
    done(nvm_tx_begin(pool_), "nvm_tx_begin");
    void* const fresh = item();
    void* const old = at;
    done(nvm_tx_log(&at, sizeof at), "nvm_tx_log");
    at = fresh;
    if (random() % 10 != 0) done(nvm_free(pool_, old), "nvm_free");
    done(nvm_tx_commit(pool_), "nvm_tx_commit");
  }

 private:
  void* item() const {
    void* const i = nvm_calloc(pool_, item_type, 1, item_bytes);
    if (i == nullptr) fail_in("nvm_calloc");
    return i;
  }
  std::string path_;
  NVM_POOL* pool_ = nullptr;
  std::vector<std::vector<shelf*>> of_;
};

struct phase {
  double ops_s = 0;
  std::vector<std::uint64_t> ns;  // of each transaction
};
phase work(const shelves& s, unsigned threads, std::uint64_t ms, std::uint64_t seed) {
  std::vector<std::vector<std::uint64_t>> all(threads);
  std::vector<std::thread> running;
  std::barrier begin{threads};
  const std::uint64_t since = wall_ns();
  for (unsigned t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      std::mt19937_64 random{seed * 64 + t};
      all[t].reserve(std::size_t{1} << 22);
      begin.arrive_and_wait();
      const std::uint64_t until = wall_ns() + ms * 1'000'000;
      for (std::uint64_t before = wall_ns(); before < until;) {
        s.replace(t, random);
        const std::uint64_t now = wall_ns();
        all[t].push_back(now - before);
        before = now;
      }
    });
  }
  for (std::thread& t : running) t.join();
  phase p;
  const double seconds = static_cast<double>(wall_ns() - since) / 1e9;
  for (const auto& of : all) p.ns.insert(p.ns.end(), of.begin(), of.end());
  p.ops_s = static_cast<double>(p.ns.size()) / seconds;
  std::ranges::sort(p.ns);
  return p;
}
json percentiles(const std::vector<std::uint64_t>& ns) {
  const auto at = [&](double share) {
    return ns[std::min(ns.size() - 1, static_cast<std::size_t>(share * static_cast<double>(ns.size())))];
  };
  return {{"samples", ns.size()}, {"p50", at(0.5)}, {"p99", at(0.99)}, {"p99.9", at(0.999)}, {"max", ns.back()}};
}

struct collected {
  std::uint64_t finished = 0, busy = 0, freed = 0, pause_ns = 0, mark_ns = 0;
};
collected collect(NVM_POOL* pool, std::uint32_t percent, const std::atomic<bool>& stop) {
  collected sum;
  nvm_gc_options o{};
  o.beside = 1;
  o.processor_percent = percent;
  while (!stop) {
    nvm_gc_report r{};
    if (nvm_gc(pool, &o, &r) == 0) {
      ++sum.finished;
    } else if (nvm_errno() == NVM_E_BUSY) {
      ++sum.busy;
    } else {
      fail_in("nvm_gc");
    }
    sum.freed += r.freed_objects;
    sum.pause_ns = std::max<std::uint64_t>(sum.pause_ns, r.pause_ns);
    sum.mark_ns = std::max<std::uint64_t>(sum.mark_ns, r.mark_ns);
  }
  return sum;
}

void measure(runner& r, const options& o, unsigned threads, std::uint32_t percent) {
  const std::string name = fmt::format("beside-{}", percent);
  if (!o.selects(name)) return;
  const shelves s{o, threads};
  const std::uint64_t ms = o.full_or_quick<std::uint64_t>(2000, 300);
  (void)work(s, threads, ms / 4, 1);
  std::vector<double> without, beside;
  std::vector<std::uint64_t> without_ns, beside_ns;
  collected sum;
  for (unsigned run = 0; run < o.runs; ++run) {
    phase p = work(s, threads, ms, 2 * run);
    without.push_back(p.ops_s);
    without_ns.insert(without_ns.end(), p.ns.begin(), p.ns.end());
    std::atomic<bool> stop{false};
    collected now;
    std::thread collector{[&] { now = collect(s.pool(), percent, stop); }};
    p = work(s, threads, ms, 2 * run + 1);
    stop = true;
    collector.join();
    beside.push_back(p.ops_s);
    beside_ns.insert(beside_ns.end(), p.ns.begin(), p.ns.end());
    sum.finished += now.finished;
    sum.busy += now.busy;
    sum.freed += now.freed;
    sum.pause_ns = std::max(sum.pause_ns, now.pause_ns);
    sum.mark_ns = std::max(sum.mark_ns, now.mark_ns);
  }
  std::ranges::sort(without_ns);
  std::ranges::sort(beside_ns);
  std::vector<double> share;
  for (std::size_t i = 0; i < beside.size(); ++i) share.push_back(beside[i] / without[i]);
  const json a = percentiles(without_ns);
  const json b = percentiles(beside_ns);
  json j{{"name", name}, {"threads", threads}, {"unit", "transaction"}, {"units_per_op", 1}};
  j["parameters"] = {{"objects", o.records},
                     {"processor_percent", percent},
                     {"ms", ms},
                     {"without_ops_s", document_of(without)},
                     {"beside_ops_s", document_of(beside)},
                     {"share", document_of(share)},
                     {"without_ns", a},
                     {"beside_ns", b},
                     {"collections", sum.finished},
                     {"given_up", sum.busy},
                     {"freed_objects", sum.freed},
                     {"pause_ns", sum.pause_ns},
                     {"mark_ns", sum.mark_ns}};
  j["systems"] = json::array();
  j["ratios"] = json::array();
  fmt::print(
      "\n{}, {} threads, {} objects: {:.0f} transactions a second without, {:.2f} times that beside {} collections "
      "that freed {}; the longest {} us, {} without; the collection held one up for {} us at most\n",
      name, threads, o.records, spread_of(without).median, spread_of(share).median, sum.finished, sum.freed,
      beside_ns.back() / 1000, without_ns.back() / 1000, sum.pause_ns / 1000);
  std::fflush(stdout);
  r.add(std::move(j));
}

}  // namespace

void measure_beside(runner& r, const options& o) {
  for (const unsigned threads : o.threads) {
    for (const std::uint32_t percent : {100U, 20U}) measure(r, o, threads, percent);
  }
}

}  // namespace nvm::bench
