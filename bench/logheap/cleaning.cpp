// What does cleaning cost those who write?
//
//   cleaning-bptree-50-128 ... 90-1024   a B+tree with values of 128 bytes or 1 KiB, loads translated; an operation
//                                        removes a random key if it is there or else inserts it, in a pool of which the
//                                        tree takes that share; against a pool so large that nothing is ever cleaned
//                                        (LSNVMM, Fig. 11, which has four threads that work and two cleaners)
//   cleaning-values-50-128 ... 90-1024   the same with nothing but values, overwritten at random: all of an operation
//                                        is its commit
//   lsc-bptree-128, lsc-values-128       no shortage, and every 1000 transactions whoever works cleans all chunks of
//                                        which more than half is stale (LSNVMM, section 5.3: LSC)
//
// Share of the pool: of its bytes, what the log takes when all that can be cleaned is cleaned, headers and all.  Two
// background cleaners share the processors with the threads that work.  Trees have one thread: nothing isolates here.
#include <fmt/core.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include "harness/clock.hpp"
#include "logheap/log_engine.hpp"
#include "logheap/questions.hpp"
#include "logheap/value_heap.hpp"
#include "suite/structures/bp_tree.hpp"

namespace nvm::bench {
namespace {

using slowed_media = latency_media<direct_media>;

enum class cleaning { never, by_cleaners, by_whoever_needs_room, every_1000 };
constexpr const char* name_of(cleaning c) {
  constexpr const char* names[] = {"no cleaning", "background cleaners", "whoever needs room", "LSC"};
  return names[static_cast<unsigned>(c)];
}

struct setting {
  std::string directory;
  emulation slower;
  std::uint64_t pool_bytes;
  std::uint64_t records;
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

// The medium of this machine, made slower if that is asked for.
class medium_for {
 public:
  explicit medium_for(const emulation& e)
      : slowed_(inner_, {.fence_ns = static_cast<std::uint32_t>(e.fence_ns),
                         .writeback_ns = static_cast<std::uint32_t>(e.writeback_ns),
                         .bandwidth_bytes_s = e.bandwidth_bytes_s}) {}
  slowed_media& operator*() noexcept { return slowed_; }

 private:
  direct_media inner_ = medium_of_this_machine();
  slowed_media slowed_;
};

// Values that are overwritten.
class values_workload {
 public:
  values_workload(const setting& s, const logheap::heap_settings& how)
      : threads_(s.threads),
        medium_(s.slower),
        heap_(*medium_, s.directory, s.pool_bytes, s.records, s.value_bytes, s.threads, how) {}
  void run(unsigned thread, std::uint64_t op) {
    // A thread changes values of its own: nothing else keeps transactions apart here.
    std::uint64_t value = mix(mix(op) + thread) % heap_.size() / threads_ * threads_ + thread;
    if (value >= heap_.size()) value = thread;
    heap_.overwrite(thread, value, op);
  }
  std::uint64_t contents() { return heap_.contents(); }
  auto& heap() noexcept { return heap_.pool().heap(); }

 private:
  unsigned threads_;
  medium_for medium_;
  value_heap<logheap::leaf_mapping, slowed_media> heap_;
};

// A B+tree, half of whose keys are there.
template <std::size_t ValueBytes>
class tree_workload {
 public:
  using value_type = value_of_bytes<ValueBytes>;

  tree_workload(const setting& s, const logheap::heap_settings& how)
      : records_(s.records),
        medium_(s.slower),
        engine_(*medium_, s.directory, s.pool_bytes, s.records * (ValueBytes + 256) * 2 + (64ULL << 20), how),
        tree_(engine_, s.records) {
    for (std::uint64_t i = 0; i < records_; i += 2) {
      const std::uint64_t key = mix(i);
      engine_.transact([&](auto& tx) { tree_.put(tx, key, values_.of(key)); });
    }
    for (std::uint64_t op = 0; op < records_; ++op) run(0, ~op);
  }
  void run(unsigned /*thread*/, std::uint64_t op) {
    const std::uint64_t key = mix(mix(op) % records_);
    engine_.transact([&](auto& tx) {
      if (!tree_.erase(tx, key)) tree_.put(tx, key, values_.of(key));
    });
  }
  std::uint64_t contents() {
    digest d;
    tree_.each(engine_, [&](std::uint64_t key, const value_type& v) {  // what the log has
      const value_type stored = values_.of(key);
      if (std::memcmp(&v, &stored, sizeof v) != 0) throw std::runtime_error("the log does not have what was stored");
      d.add(key);
    });
    return d.value();
  }
  auto& heap() noexcept { return engine_.heap(); }
  // Bytes of log when all of it is clean.
  std::uint64_t settled_bytes() {
    std::uint64_t before = ~std::uint64_t{0};
    while (engine_.pool().bytes_in_use() < before) {
      before = engine_.pool().bytes_in_use();
      for (unsigned passes = 0; passes < 16 && engine_.heap().clean(256, true) != 0; ++passes) {
      }
    }
    return engine_.pool().bytes_in_use();
  }

 private:
  std::uint64_t records_;
  medium_for medium_;
  basic_value_source<value_type> values_;
  log_engine<slowed_media, true> engine_;
  basic_bp_tree<value_type> tree_;
};

template <class Workload>
class updates final : public contestant {
 public:
  updates(const setting& s, cleaning how, std::shared_ptr<cleaned_by_system> told)
      : how_(how), told_(std::move(told)), threads_(s.threads), workload_(s, settings_for(how)) {
    before_ = workload_.heap().statistics();
  }
  ~updates() override {
    cleaned& c = (*told_)[name_of(how_)];
    const auto after = workload_.heap().statistics();
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
    start_work();
    for (std::uint64_t op = first; op < first + ops; ++op) {
      workload_.run(thread, op);
      if (how_ == cleaning::every_1000 && ++threads_[thread].since == 1000) {
        threads_[thread].since = 0;
        while (workload_.heap().clean(victims) == victims) {
        }
      }
    }
    end_work();
    ops_.fetch_add(ops, std::memory_order_relaxed);
    if (thread == 0) wall_ns_ += wall_ns() - start;
  }
  std::uint64_t work_digest() override { return workload_.contents(); }

 private:
  static constexpr unsigned victims = 64;
  struct alignas(128) of_thread {
    unsigned since = 0;
  };
  // Cleaners work while somebody else does: not while other systems have their turn.
  void start_work() {
    if (how_ != cleaning::by_cleaners) return;
    const std::lock_guard guard(lock_);
    if (working_++ == 0 && !workload_.heap().start_cleaners()) fail_with("starting cleaners");
  }
  void end_work() {
    if (how_ != cleaning::by_cleaners) return;
    const std::lock_guard guard(lock_);
    if (--working_ == 0) workload_.heap().stop_cleaners();
  }
  static logheap::heap_settings settings_for(cleaning how) {
    logheap::heap_settings s;
    if (how == cleaning::by_cleaners) s.cleaners = 2;
    if (how == cleaning::every_1000) s.clean_below = 50;
    return s;
  }

  const cleaning how_;
  const std::shared_ptr<cleaned_by_system> told_;
  std::vector<of_thread> threads_;
  Workload workload_;
  logheap::heap_statistics before_;
  std::mutex lock_;
  unsigned working_ = 0;  // threads
  std::uint64_t wall_ns_ = 0;
  std::atomic<std::uint64_t> ops_{0};
};

// `spare_bytes`: beyond the pool of the setting, what is written where nothing is cleaned.
template <class Workload>
void measure(runner& r, benchmark b, const setting& s, std::uint64_t spare_bytes,
             std::initializer_list<cleaning> subjects) {
  b.unit = "update";
  b.threads = s.threads;
  const auto told = std::make_shared<cleaned_by_system>();
  setting large = s;
  large.pool_bytes += spare_bytes;
  b.systems.push_back({name_of(cleaning::never), role::peer,
                       [=] { return std::make_unique<updates<Workload>>(large, cleaning::never, told); }});
  for (const cleaning how : subjects) {
    const setting own = how == cleaning::every_1000 ? large : s;
    b.systems.push_back(
        {name_of(how), role::subject, [=] { return std::make_unique<updates<Workload>>(own, how, told); }});
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
    const double moved = static_cast<double>(c.moved_bytes) / static_cast<double>(c.ops);
    fmt::print("  {}: {} chunks recycled, {} of them fast, {:.0f} MB/s; {:.0f} bytes moved for each update\n", name,
               c.chunks, c.fast, recycled, moved);
    j["systems"].push_back({{"name", name},
                            {"role", "subject"},
                            {"chunks", c.chunks},
                            {"chunks_fast", c.fast},
                            {"recycled_mb_s", recycled},
                            {"moved_per_update", moved}});
  }
  std::fflush(stdout);
  r.add(std::move(j));
}

void measure_values(runner& r, const options& o, std::uint64_t pool_bytes, unsigned threads,
                    std::uint64_t value_bytes) {
  for (const std::uint64_t percent : {0, 50, 60, 70, 80, 90}) {
    benchmark b;
    b.name = percent != 0 ? fmt::format("cleaning-values-{}-{}", percent, value_bytes)
                          : fmt::format("lsc-values-{}", value_bytes);
    if (!o.selects(b.name) || (percent == 0 && value_bytes != 128)) continue;
    const setting s{o.directory, o.slower,
                    pool_bytes,  pool_bytes * (percent != 0 ? percent : 50) / 100 / log_bytes_of_value(value_bytes),
                    value_bytes, threads};
    // The free part of the pool is filled before anything is timed, and then some times over.
    b.warmup_ops = pool_bytes / log_bytes_of_update(value_bytes) / 2 / threads;
    b.ops = b.warmup_ops / 2;
    b.parameters = {{"structure", "values"},
                    {"value_bytes", value_bytes},
                    {"records", s.records},
                    {"utilisation_percent", percent},
                    {"pool_bytes", pool_bytes}};
    const std::uint64_t all = 2 * s.records + (b.warmup_ops + o.runs * b.ops) * threads;
    const std::uint64_t spare = all * log_bytes_of_value(value_bytes) * 33 / 32;
    if (percent == 0) {
      measure<values_workload>(r, b, s, spare, {cleaning::every_1000});
    } else {
      measure<values_workload>(r, b, s, spare, {cleaning::by_cleaners, cleaning::by_whoever_needs_room});
    }
  }
}

template <std::size_t ValueBytes>
void measure_trees(runner& r, const options& o, std::uint64_t pool_bytes) {
  const std::string lsc = fmt::format("lsc-bptree-{}", ValueBytes);
  std::uint64_t settled = 0;
  // A fifth of the largest pool or so: its records, and what they come to is seen.
  setting s{o.directory, o.slower, 0, std::max<std::uint64_t>(1000, pool_bytes / 2 / (ValueBytes + 200)),
            ValueBytes,  1};
  // Of log, in an operation: node's entries, a value in every other one, blocks' headers.
  const std::uint64_t op_bytes = ValueBytes + 1024;
  for (const std::uint64_t percent : {0, 50, 60, 70, 80, 90}) {
    // Where the pool is small, what is left of it is less than what threads and cleaners keep for themselves.
    if (o.quick && percent > 70) continue;
    benchmark b;
    b.name = percent != 0 ? fmt::format("cleaning-bptree-{}-{}", percent, ValueBytes) : lsc;
    if (!o.selects(b.name) || (percent == 0 && ValueBytes != 128)) continue;
    if (settled == 0) {
      setting large = s;
      large.pool_bytes = 2 * s.records * op_bytes + (32ULL << 20);
      large.slower = {};
      settled = tree_workload<ValueBytes>(large, {}).settled_bytes();
    }
    s.pool_bytes = settled * 100 / (percent != 0 ? percent : 50);
    b.warmup_ops = s.records;
    b.ops = s.records / 2;
    b.parameters = {{"structure", "bptree"},
                    {"value_bytes", ValueBytes},
                    {"records", s.records},
                    {"utilisation_percent", percent},
                    {"pool_bytes", s.pool_bytes}};
    const std::uint64_t spare = (2 * s.records + b.warmup_ops + o.runs * b.ops) * op_bytes + (32ULL << 20);
    if (percent == 0) {
      measure<tree_workload<ValueBytes>>(r, b, s, spare, {cleaning::every_1000});
    } else {
      measure<tree_workload<ValueBytes>>(r, b, s, spare, {cleaning::by_cleaners, cleaning::by_whoever_needs_room});
    }
  }
}

}  // namespace

void measure_cleaning(runner& r, const options& o) {
  const std::uint64_t pool_bytes = (o.megabytes != 0 ? o.megabytes : o.full_or_quick<std::uint64_t>(128, 8)) << 20;
  if (o.threads.front() == 1) {
    measure_trees<128>(r, o, pool_bytes);
    measure_trees<1024>(r, o, pool_bytes);
  }
  for (const unsigned threads : o.threads) {
    for (const std::uint64_t value_bytes : {128, 1024}) measure_values(r, o, pool_bytes, threads, value_bytes);
  }
}

}  // namespace nvm::bench
