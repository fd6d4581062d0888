// What does cleaning cost those who write?
//
//   cleaning-50-128 ... 90-1024   values of 128 bytes or 1 KiB, overwritten at random, one a transaction, in a pool of
//                                 which they take that share; against a pool so large that nothing is ever cleaned
//                                 (LSNVMM, Fig. 11, which has a B+tree, four threads that work and two cleaners)
//   lsc-128                       no shortage, and every 1000 transactions whoever works cleans all chunks of which
//                                 more than half is stale (LSNVMM, section 5.3: LSC)
//
// Share of the pool: of its bytes, what the log of the values takes when nothing in it is stale, headers and all.
// Two background cleaners share the processors with the threads that work.
#include <fmt/core.h>

#include <atomic>
#include <map>
#include <memory>

#include "harness/clock.hpp"
#include "logheap/questions.hpp"
#include "logheap/value_heap.hpp"

namespace nvm::bench {
namespace {

using heap_type = value_heap<logheap::leaf_mapping>;

enum class cleaning { never, by_cleaners, by_whoever_needs_room, every_1000 };

struct setting {
  std::string directory;
  std::uint64_t pool_bytes;
  std::uint64_t values;
  std::uint64_t value_bytes;
  unsigned threads;
};

// What cleaners did while a system ran, its warm-up included.
struct cleaned {
  std::uint64_t chunks = 0;
  std::uint64_t fast = 0;
  std::uint64_t moved_bytes = 0;
  std::uint64_t wall_ns = 0;
  std::uint64_t ops = 0;
};
using cleaned_by_system = std::map<std::string, cleaned>;

constexpr const char* name_of(cleaning c) {
  constexpr const char* names[] = {"no cleaning", "background cleaners", "whoever needs room", "LSC"};
  return names[static_cast<unsigned>(c)];
}

class updates final : public contestant {
 public:
  updates(const setting& s, cleaning how, std::shared_ptr<cleaned_by_system> told)
      : setting_(s), how_(how), told_(std::move(told)), threads_(s.threads) {
    logheap::heap_settings settings;
    if (how == cleaning::by_cleaners) settings.cleaners = 2;
    if (how == cleaning::every_1000) settings.clean_below = 50;
    heap_ =
        std::make_unique<heap_type>(medium_, s.directory, s.pool_bytes, s.values, s.value_bytes, s.threads, settings);
    if (how == cleaning::by_cleaners && !(*heap_)->start_cleaners()) fail_with("starting cleaners");
    before_ = (*heap_)->statistics();
  }
  ~updates() override {
    cleaned& c = (*told_)[name_of(how_)];
    const auto after = (*heap_)->statistics();
    c.chunks = after.cleaned - before_.cleaned;
    c.fast = after.cleaned_fast - before_.cleaned_fast;
    c.moved_bytes = after.moved_bytes - before_.moved_bytes;
    c.wall_ns = wall_ns_;
    c.ops = ops_.load(std::memory_order_relaxed);
  }
  updates(const updates&) = delete;
  updates& operator=(const updates&) = delete;

  void run(unsigned thread, std::uint64_t first, std::uint64_t ops) override {
    const std::uint64_t start = wall_ns();
    for (std::uint64_t op = first; op < first + ops; ++op) {
      // A thread changes values of its own: nothing else keeps transactions apart here.
      std::uint64_t value = mix(mix(op) + thread) % setting_.values / setting_.threads * setting_.threads + thread;
      if (value >= setting_.values) value = thread;
      heap_->overwrite(thread, value, op);
      if (how_ == cleaning::every_1000 && ++threads_[thread].since == 1000) {
        threads_[thread].since = 0;
        while ((*heap_)->clean(victims) == victims) {
        }
      }
    }
    ops_.fetch_add(ops, std::memory_order_relaxed);
    if (thread == 0) wall_ns_ += wall_ns() - start;
  }
  std::uint64_t work_digest() override { return heap_->contents(); }

 private:
  static constexpr unsigned victims = 64;
  struct alignas(128) of_thread {
    unsigned since = 0;
  };

  const setting setting_;
  const cleaning how_;
  const std::shared_ptr<cleaned_by_system> told_;
  std::vector<of_thread> threads_;
  direct_media medium_ = medium_of_this_machine();
  std::unique_ptr<heap_type> heap_;
  logheap::heap_statistics before_;
  std::uint64_t wall_ns_ = 0;
  std::atomic<std::uint64_t> ops_{0};
};

void measure(runner& r, const options& o, benchmark b, const setting& s, std::uint64_t percent,
             std::initializer_list<cleaning> subjects) {
  if (!o.selects(b.name)) return;
  b.unit = "update";
  b.threads = s.threads;
  const auto told = std::make_shared<cleaned_by_system>();
  // The pool in which nothing is cleaned: both writes of the preload, and everything after it.
  setting large = s;
  const std::uint64_t all = s.values + (b.warmup_ops + o.runs * b.ops) * s.threads;
  large.pool_bytes = (s.values + all) * log_bytes_of_value(s.value_bytes) * 33 / 32 + (32ULL << 20);
  b.parameters = {
      {"value_bytes", s.value_bytes},
      {"values", s.values},
      {"utilisation_percent", percent},
      {"payload_percent", 100.0 * static_cast<double>(s.values * s.value_bytes) / static_cast<double>(s.pool_bytes)},
      {"pool_bytes", s.pool_bytes}};
  b.systems.push_back(
      {name_of(cleaning::never), role::peer, [=] { return std::make_unique<updates>(large, cleaning::never, told); }});
  for (const cleaning how : subjects) {
    const setting own = how == cleaning::every_1000 ? large : s;
    b.systems.push_back({name_of(how), role::subject, [=] { return std::make_unique<updates>(own, how, told); }});
  }
  r.run(b);
  nlohmann::ordered_json j{{"name", b.name + "-cleaned"},
                           {"threads", b.threads},
                           {"parameters", b.parameters},
                           {"systems", nlohmann::ordered_json::array()},
                           {"ratios", nlohmann::ordered_json::array()}};
  for (const auto& [name, c] : *told) {
    if (c.ops == 0 || name == name_of(cleaning::never)) continue;
    const double seconds = static_cast<double>(c.wall_ns) / 1e9;
    const double recycled = static_cast<double>(c.chunks * logheap::layout::chunk_bytes_default) / 1e6 / seconds;
    const double moved = static_cast<double>(c.moved_bytes) / static_cast<double>(c.ops * s.value_bytes);
    fmt::print("  {}: {} chunks recycled, {} of them fast, {:.0f} MB/s; {:.2f} bytes moved for each that was stored\n",
               name, c.chunks, c.fast, recycled, moved);
    j["systems"].push_back({{"name", name},
                            {"role", "subject"},
                            {"chunks", c.chunks},
                            {"chunks_fast", c.fast},
                            {"recycled_mb_s", recycled},
                            {"moved_per_stored_byte", moved}});
  }
  std::fflush(stdout);
  r.add(std::move(j));
}

}  // namespace

void measure_cleaning(runner& r, const options& o) {
  const std::uint64_t pool_bytes = (o.megabytes != 0 ? o.megabytes : o.full_or_quick<std::uint64_t>(128, 8)) << 20;
  for (const unsigned threads : o.threads) {
    for (const std::uint64_t value_bytes : {128, 1024}) {
      for (const std::uint64_t percent : {50, 60, 70, 80, 90}) {
        setting s{o.directory, pool_bytes, pool_bytes * percent / 100 / log_bytes_of_value(value_bytes), value_bytes,
                  threads};
        benchmark b;
        b.name = fmt::format("cleaning-{}-{}", percent, value_bytes);
        // The free part of the pool is filled before anything is timed, and then some times over.
        b.warmup_ops = pool_bytes / log_bytes_of_update(value_bytes) / 2 / threads;
        b.ops = b.warmup_ops / 2;
        measure(r, o, b, s, percent, {cleaning::by_cleaners, cleaning::by_whoever_needs_room});
      }
    }
    setting s{o.directory, pool_bytes, pool_bytes / 2 / log_bytes_of_value(128), 128, threads};
    benchmark b;
    b.name = "lsc-128";
    b.warmup_ops = pool_bytes / log_bytes_of_update(128) / 2 / threads;
    b.ops = b.warmup_ops / 2;
    measure(r, o, b, s, 0, {cleaning::every_1000});
  }
}

}  // namespace nvm::bench
