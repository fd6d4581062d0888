// What does a durable map cost: a hash table, a B+tree, a red-black tree, of 128-byte values, under
//
//   insert  keys that are not there, uniformly random (LSNVMM, section 5.1)
//   update  a key is looked up, and removed if it is there or else inserted; zipfian, so that 90 % of the updates hit
//           15 % of the keys (the same)
//   churn   the same with all keys alike: half insert, half remove
//
// Keys of one thread are never used by another.
#include "suite/maps.hpp"

#include <stdexcept>
#include <type_traits>

#include "harness/random.hpp"
#include "harness/zipf.hpp"
#include "suite/engines/engines.hpp"
#include "suite/questions.hpp"
#include "suite/structures/bp_tree.hpp"
#include "suite/structures/hash_table.hpp"
#include "suite/structures/list.hpp"
#include "suite/structures/rb_tree.hpp"

namespace nvm::bench {
namespace {

enum class work { insert, update, churn };

// Distinct numbers give distinct keys, spread evenly over all.
std::uint64_t key_of(std::uint64_t number) { return mix(number + 0x7375'6974); }

class map_run final : public told_by_memory<map_run, contestant> {
 public:
  map_run(std::unique_ptr<durable_map> map, work w, std::uint64_t records, unsigned threads)
      : map_(std::move(map)), work_(w), records_(records), threads_(threads), keys_(threads) {
    if (work_ == work::update) {
      const std::uint64_t mine = 2 * records / threads;
      popularity_ = std::make_unique<zipf>(mine, zipf::theta_for(mine, 0.15, 0.9));
    }
    // For updates half of the keys that they choose among; inserts go on after these.
    for (std::uint64_t i = 0; i < records; ++i) {
      const std::uint64_t key = key_of(work_ == work::insert ? i : 2 * i);
      map_->insert(0, key, values_.of(key));
    }
  }

  void prepare(unsigned thread, std::uint64_t first, std::uint64_t ops) override {
    chosen& c = keys_[thread];
    c.first = first;
    c.keys.clear();
    for (std::uint64_t i = first; i < first + ops; ++i) c.keys.push_back(key_of(number_of(thread, i)));
  }
  void run(unsigned thread, std::uint64_t first, std::uint64_t ops) override {
    const chosen& c = keys_[thread];
    for (std::uint64_t i = first; i < first + ops; ++i) {
      const std::uint64_t key = c.keys[i - c.first];
      if (work_ == work::insert) {
        map_->insert(thread, key, values_.of(key));
      } else {
        map_->toggle(thread, key, values_.of(key));
      }
    }
  }
  std::uint64_t work_digest() override { return digest_of(*map_); }
  durable_map& memory() { return *map_; }

 private:
  struct alignas(64) chosen {
    std::vector<std::uint64_t> keys;
    std::uint64_t first = 0;
  };

  std::uint64_t number_of(unsigned thread, std::uint64_t operation) const {
    if (work_ == work::insert) return records_ + operation * threads_ + thread;
    random source(operation << 8 | thread);
    const std::uint64_t choice =
        work_ == work::update ? popularity_->next(source) : source.below(2 * records_ / threads_);
    return choice * threads_ + thread;
  }

  std::unique_ptr<durable_map> map_;
  work work_;
  std::uint64_t records_;
  unsigned threads_;
  std::unique_ptr<zipf> popularity_;
  value_source values_;
  std::vector<chosen> keys_;
};

template <class S, class F>
void add_structure(const std::string& directory, F&& add) {
  const auto add_one = [&]<class E>(const std::string& name, role r, auto construct) {
    add(map_kind{name, r, S::name, E::counts_itself,
                 [=](const engine_settings& settings, unsigned threads, std::uint64_t records) {
                   return std::make_unique<engine_map<E, S>>(construct(settings, threads), records);
                 }});
  };
  for_each_engine(directory, add_one);
#if NVM_BENCH_HOLDFAST
  if constexpr (std::is_same_v<S, hash_table> || std::is_same_v<S, bp_tree>)
    for_each_described_engine(directory, add_one);
#endif
}

}  // namespace

std::uint64_t digest_of(durable_map& map) {
  unordered_digest all;
  map.each([&](std::uint64_t key, const value& v) { all.add(key, &v, sizeof v); });
  return all.value();
}

std::vector<map_kind> map_kinds(const std::string& directory) {
  std::vector<map_kind> all;
#if NVM_BENCH_PMDK_EXAMPLES
  if (is_memory(directory))
    for (map_kind& k : pmdk_maps()) all.push_back(std::move(k));
#endif
  const auto add = [&](map_kind k) { all.push_back(std::move(k)); };
  add_structure<list>(directory, add);
  add_structure<hash_table>(directory, add);
  add_structure<bp_tree>(directory, add);
  add_structure<rb_tree>(directory, add);
  return all;
}

std::vector<benchmark> map_benchmarks(const options& o, unsigned threads) {
  std::vector<benchmark> all;
  for (const char* structure : {"hashtable", "bptree", "rbtree"})
    for (const work w : {work::insert, work::update, work::churn}) {
      benchmark b;
      b.name = std::string(structure) + (w == work::insert ? "-insert" : w == work::update ? "-update" : "-churn");
      b.unit = w == work::insert ? "insert" : "insert or removal";
      b.threads = threads;
      b.ops = operations(o, 100'000, 2'000);
      b.warmup_ops = b.ops / 2;
      b.latency_last = true;
      const std::uint64_t loaded = w == work::insert ? o.records / 2 : o.records;
      // Inserts: warm-up, those that are counted one by one, the repetitions, and the one for latencies.
      const std::uint64_t more = w == work::insert ? threads * (b.ops * (o.runs + 2) + 512) : loaded / 10;
      b.payload = payload_shape{w == work::insert ? 1.0 : 0.5, 2, loaded / threads * sizeof(value)};
      b.parameters = {{"records", loaded}, {"value_bytes", sizeof(value)}};
      for (const map_kind& kind : map_kinds(o.directory)) {
        if (kind.structure != structure) continue;
        const engine_settings settings{{o.directory, (loaded + more) * map_record_bytes}, o.emulated, false, 0};
        b.systems.push_back(system_of(kind.system, kind.role, kind.counts_itself, settings,
                                      [=, build = kind.make](const engine_settings& s) {
                                        return std::make_unique<map_run>(build(s, threads, loaded), w, loaded, threads);
                                      }));
      }
      all.push_back(std::move(b));
    }
  return all;
}

}  // namespace nvm::bench
