// How often does a thread's cache of nodes have what a transaction loads?  LSNVMM, section 5.2, Fig. 5.
//
//   hits-sps, hits-hashtable-insert, hits-kvstore-update, ...
//
// The suite's structures and workloads (suite/swaps.cpp, maps.cpp, stores.cpp) on the heap alone: every load of a
// transaction is translated, but of what it has changed itself.  One thread; --records.
#include <fmt/core.h>

#include <functional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "harness/random.hpp"
#include "harness/zipf.hpp"
#include "logheap/log_engine.hpp"
#include "logheap/questions.hpp"
#include "suite/structures/bp_tree.hpp"
#include "suite/structures/hash_table.hpp"
#include "suite/structures/item_table.hpp"
#include "suite/structures/rb_tree.hpp"

namespace nvm::bench {
namespace {

// The paper's mapping, whose clients can be asked from outside of the heap that they belong to.
class observed_mapping : public logheap::skip_list_mapping {
 public:
  using skip_list_mapping::skip_list_mapping;

  class client : public skip_list_mapping::client {
   public:
    client(observed_mapping& m, unsigned thread) noexcept : skip_list_mapping::client{m, thread} { latest = this; }
  };
  static inline const client* latest = nullptr;  // there is one heap, and one thread in it
};

using engine_type = log_engine<direct_media, true, observed_mapping>;

enum class work { insert, update };

// Keys as in suite/maps.cpp: inserts are new, 90 % of the updates hit 15 % of twice as many as there are.
class keys {
 public:
  keys(work w, std::uint64_t records)
      : work_(w), records_(records), popularity_(2 * records, zipf::theta_for(2 * records, 0.15, 0.9)) {}
  std::uint64_t loaded(std::uint64_t i) const { return mix(work_ == work::insert ? i : 2 * i); }
  std::uint64_t of(std::uint64_t operation) const {
    if (work_ == work::insert) return mix(records_ + operation);
    random source(operation << 8);
    return mix(popularity_.next(source));
  }

 private:
  work work_;
  std::uint64_t records_;
  zipf popularity_;
};

template <class Structure>
class maps {
 public:
  maps(engine_type& engine, work w, std::uint64_t records)
      : engine_(engine), structure_(engine, records), work_(w), keys_(w, records) {
    for (std::uint64_t i = 0; i < records; ++i)
      engine_.transact([&](auto& tx) { structure_.put(tx, keys_.loaded(i), values_.of(i)); });
  }
  void operator()(std::uint64_t operation) {
    const std::uint64_t key = keys_.of(operation);
    engine_.transact([&](auto& tx) {
      if (work_ == work::insert || !structure_.erase(tx, key)) structure_.put(tx, key, values_.of(key));
    });
  }

 private:
  engine_type& engine_;
  Structure structure_;
  work work_;
  keys keys_;
  value_source values_;
};

// Keys of 32 bytes; an update looks a key up first, as suite/stores.cpp has it.
class kvstore {
 public:
  kvstore(engine_type& engine, work w, std::uint64_t records)
      : engine_(engine), table_(engine, records), work_(w), keys_(w, records) {
    for (std::uint64_t i = 0; i < records; ++i) put(keys_.loaded(i));
  }
  void operator()(std::uint64_t operation) {
    const std::uint64_t key = keys_.of(operation);
    const text name(key);
    if (work_ == work::update) {
      char value[value_bytes];
      std::size_t found = 0;
      engine_.examine(0, [&](auto& tx) { found = table_.get(tx, name, value); });
      if (found != 0) {
        engine_.transact([&](auto& tx) { table_.erase(tx, name); });
        return;
      }
    }
    put(key);
  }

 private:
  static constexpr std::size_t value_bytes = 128;
  class text {
   public:
    explicit text(std::uint64_t key) {
      for (std::uint64_t& w : words_) w = key;
    }
    operator std::string_view() const { return {reinterpret_cast<const char*>(words_), sizeof words_}; }

   private:
    std::uint64_t words_[4];
  };

  void put(std::uint64_t key) {
    const text name(key);
    const std::string_view value(reinterpret_cast<const char*>(noise(key)), value_bytes);
    engine_.transact([&](auto& tx) { table_.put(tx, name, value); });
  }

  engine_type& engine_;
  item_table table_;
  work work_;
  keys keys_;
};

class swaps {
 public:
  swaps(engine_type& engine, work, std::uint64_t records)
      : engine_(engine),
        elements_(10 * records),
        array_(static_cast<std::uint64_t*>(engine.fixed(elements_ * sizeof(std::uint64_t)))) {}
  void operator()(std::uint64_t operation) {
    random source(operation * 64);
    std::uint64_t* const left = array_ + source.below(elements_);
    std::uint64_t* const right = array_ + source.below(elements_);
    engine_.transact([&](auto& tx) {
      const std::uint64_t was_left = tx.load(left);
      const std::uint64_t was_right = tx.load(right);
      tx.store(left, was_right);
      tx.store(right, was_left);
    });
  }

 private:
  engine_type& engine_;
  std::uint64_t elements_;
  std::uint64_t* array_;
};

template <class Workload>
void measure(runner& r, const options& o, const std::string& name, work w) {
  if (!o.selects(name)) return;
  const std::uint64_t ops = o.full_or_quick<std::uint64_t>(100'000, 2'000);
  // Elements of the array become pieces of their own one after the other.
  const std::uint64_t warm_up = std::is_same_v<Workload, swaps> ? 20 * o.records : ops;
  nlohmann::ordered_json j{{"name", name},
                           {"threads", 1},
                           {"parameters", {{"records", o.records}, {"ops", ops}, {"warm_up", warm_up}}},
                           {"systems", nlohmann::ordered_json::array()},
                           {"ratios", nlohmann::ordered_json::array()}};
  for (const std::uint64_t entries : {std::uint64_t{65'536}, std::uint64_t{1} << 22}) {
    logheap::skip_list_settings how;
    how.cache_entries = entries;
    direct_media medium;
    // Nothing is cleaned: room for all that is written.
    const std::uint64_t bytes = (2 * o.records + 3 * ops + warm_up) * 512 + (64ULL << 20);
    engine_type engine(medium, o.directory, bytes, bytes, {}, how);
    Workload workload(engine, w, o.records);
    std::uint64_t hits = 0, misses = 0;
    for (std::uint64_t i = 0; i < warm_up + ops; ++i) {
      if (i == warm_up) {
        hits = observed_mapping::latest->hits();
        misses = observed_mapping::latest->misses();
      }
      workload(i);
    }
    hits = observed_mapping::latest->hits() - hits;
    misses = observed_mapping::latest->misses() - misses;
    const double percent = 100.0 * static_cast<double>(hits) / static_cast<double>(hits + misses);
    const double loads = static_cast<double>(hits + misses) / static_cast<double>(ops);
    fmt::print("{}, cache of {} entries: {:.1f} % hits; {:.1f} look-ups an operation\n", name, entries, percent, loads);
    j["systems"].push_back({{"name", fmt::format("{} entries", entries)},
                            {"role", "subject"},
                            {"entries", entries},
                            {"hits_percent", percent},
                            {"lookups", loads}});
  }
  std::fflush(stdout);
  r.add(std::move(j));
}

}  // namespace

void measure_hits(runner& r, const options& o) {
  measure<swaps>(r, o, "hits-sps", work::update);
  for (const work w : {work::insert, work::update}) {
    const std::string suffix = w == work::insert ? "insert" : "update";
    measure<maps<hash_table>>(r, o, "hits-hashtable-" + suffix, w);
    measure<maps<bp_tree>>(r, o, "hits-bptree-" + suffix, w);
    measure<maps<rb_tree>>(r, o, "hits-rbtree-" + suffix, w);
    measure<kvstore>(r, o, "hits-kvstore-" + suffix, w);
  }
}

}  // namespace nvm::bench
