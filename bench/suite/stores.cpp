// What does a key-value store cost under YCSB A, B, C, D and F, and under the five workloads of Facebook's memcached
// servers, as Lewat's Table IV gives them?  And when it is filled, or keys are looked up and removed or else inserted
// (store-insert, store-update: LSNVMM, section 5.1, KVStore)?
//
// Keys of YCSB have 32 bytes, values 128 or what the name says; those of the others are of all sizes up to the largest.
// An update writes between 32 bytes and the whole value (Lewat, section VII-A), in store-rewrite all of it; one of a
// key that is gone puts it again.  Popularity is zipfian with theta 0.99, in YCSB D over age.  Keys of one thread are
// never used by another, but in the mixes that share them: what is read and left there depends on who comes first, so
// that their digest is of the keys.  Of values of 2 KB there are an eighth of the records.
#include "suite/stores.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "harness/random.hpp"
#include "harness/zipf.hpp"
#include "suite/engines/engines.hpp"
#include "suite/mixes.hpp"
#include "suite/questions.hpp"
#include "suite/structures/item_table.hpp"
#include "suite/structures/value.hpp"

namespace nvm::bench {
namespace {

constexpr std::size_t key_bytes_min = 16;
constexpr std::size_t update_bytes_min = 32;
constexpr std::size_t noise_bytes = 4096;

// Key and value of a record follow from its number.
class record_source {
 public:
  explicit record_source(const mix_of_operations& m) : mix_(m), noise_(noise_bytes + m.value_bytes_max) {
    random source(m.value_bytes_max);
    for (char& c : noise_) c = static_cast<char>(source.next());
  }
  std::string_view key(std::uint64_t number, char* out) const noexcept {
    const std::size_t bytes = size(number, 1, key_bytes_min, mix_.key_bytes_max);
    for (std::size_t i = 0; i < bytes; i += 8) {
      const std::uint64_t word = mix(number + i * 0x1'0000'0001ULL);
      std::memcpy(out + i, &word, std::min<std::size_t>(8, bytes - i));
    }
    std::memcpy(out, &number, sizeof number);  // so that no two are alike
    return {out, bytes};
  }
  std::size_t value_bytes(std::uint64_t number) const noexcept { return size(number, 2, 1, mix_.value_bytes_max); }
  // The same numbers give the same bytes; valid as long as this object.
  std::string_view value(std::uint64_t number, std::uint64_t version, std::size_t bytes) const noexcept {
    return {noise_.data() + mix(number ^ version << 32) % noise_bytes, bytes};
  }

 private:
  std::size_t size(std::uint64_t number, std::uint64_t what, std::size_t min, std::size_t max) const noexcept {
    return mix_.fixed_sizes ? max : min + mix(number * 4 + what) % (max - min + 1);
  }
  mix_of_operations mix_;
  std::vector<char> noise_;
};

class store_run final : public told_by_memory<store_run, contestant> {
 public:
  store_run(std::unique_ptr<durable_store> store, const mix_of_operations& m, std::uint64_t records, unsigned threads)
      : store_(std::move(store)),
        mix_(m),
        mine_(records / threads),
        threads_(threads),
        source_(m),
        popularity_(m.toggles ? zipf(mine_, zipf::theta_for(mine_, 0.15, 0.9)) : zipf(mine_)),
        states_(threads) {
    for (std::uint64_t i = 0; i < mine_ * threads; ++i) {
      char key[item_table::key_bytes_max];
      store_->put(0, source_.key(i, key), source_.value(i, 0, source_.value_bytes(i)));
    }
  }

  void prepare(unsigned thread, std::uint64_t first, std::uint64_t ops) override {
    state& s = states_[thread];
    s.first = first;
    s.ops.clear();
    for (std::uint64_t i = first; i < first + ops; ++i) s.ops.push_back(draw(thread, i));
  }
  void run(unsigned thread, std::uint64_t first, std::uint64_t ops) override {
    state& s = states_[thread];
    char key_bytes[item_table::key_bytes_max];
    for (std::uint64_t i = first; i < first + ops; ++i) {
      const operation& op = s.ops[i - s.first];
      const std::string_view key = source_.key(op.number, key_bytes);
      if (op.what == doing::read || (op.what == doing::update && mix_.reads_first)) {
        const std::size_t found = store_->get(thread, key, s.value);
        s.seen.add_bytes(s.value, found);
        if (mix_.toggles && found != 0) {
          store_->remove(thread, key);
          continue;
        }
      }
      if (op.what == doing::remove) store_->remove(thread, key);
      if (op.what == doing::insert || op.what == doing::update)
        store_->put(thread, key, source_.value(op.number, i, op.bytes));
    }
  }
  bool writes(unsigned thread, std::uint64_t i) override {
    const state& s = states_[thread];
    return s.ops[i - s.first].what != doing::read;
  }
  std::uint64_t work_digest() override {
    unordered_digest left;
    store_->each([&](std::string_view key, std::string_view v) {
      digest name;
      name.add_bytes(key.data(), key.size());
      left.add(name.value(), v.data(), shares() ? 0 : v.size());
    });
    digest all;
    all.add(left.value());
    for (const state& s : states_) all.add(shares() ? 0 : s.seen.value());
    return all.value();
  }
  durable_store& memory() { return *store_; }

 private:
  enum class doing : std::uint8_t { read, update, insert, remove };
  struct operation {
    std::uint64_t number;
    std::uint32_t bytes;
    doing what;
  };
  struct alignas(64) state {
    std::vector<operation> ops;
    std::uint64_t first = 0;
    std::uint64_t inserted = 0;
    digest seen;
    char value[durable_store::value_bytes_max];
  };

  bool shares() const noexcept { return mix_.shares && threads_ > 1; }
  operation draw(unsigned thread, std::uint64_t i) {
    state& s = states_[thread];
    random source(i << 8 | thread);
    const std::uint64_t dice = source.below(1000);
    const doing k = dice < mix_.reads                                  ? doing::read
                    : dice < mix_.reads + mix_.removals                ? doing::remove
                    : dice < mix_.reads + mix_.removals + mix_.inserts ? doing::insert
                                                                       : doing::update;
    std::uint64_t number = 0;
    if (k == doing::insert) {
      number = mine_ + s.inserted++;
    } else if (mix_.inserts != 0) {  // the newest are the most popular
      const std::uint64_t age = popularity_.next(source);
      number = mine_ + s.inserted - 1 - age;
    } else {
      number = mix(popularity_.next(source)) % mine_;
    }
    number = number * threads_ + (shares() ? source.below(threads_) : thread);
    const std::size_t whole = source_.value_bytes(number);
    const std::size_t least = std::min(whole, update_bytes_min);
    const bool part = k == doing::update && !mix_.toggles && !mix_.whole;
    const std::size_t bytes = part ? least + source.below(whole - least + 1) : whole;
    return {number, static_cast<std::uint32_t>(bytes), k};
  }

  std::unique_ptr<durable_store> store_;
  mix_of_operations mix_;
  std::uint64_t mine_;  // records of a thread when it starts
  unsigned threads_;
  record_source source_;
  zipf popularity_;
  std::vector<state> states_;
};

template <engine E>
class engine_store final : public told_by_memory<engine_store<E>, durable_store> {
 public:
  engine_store(std::unique_ptr<guarded<E>> memory, std::uint64_t records)
      : memory_(std::move(memory)), table_(memory_->engine(), records) {}

  void put(unsigned thread, std::string_view key, std::string_view v) override {
    memory_->transact(thread, table_.part_of(key), [&](auto& tx) { table_.put(tx, key, v); });
  }
  void remove(unsigned thread, std::string_view key) override {
    memory_->transact(thread, table_.part_of(key), [&](auto& tx) { table_.erase(tx, key); });
  }
  std::size_t get(unsigned thread, std::string_view key, char* out) override {
    std::size_t size = 0;
    memory_->examine(thread, table_.part_of(key), [&](auto& tx) { size = table_.get(tx, key, out); });
    return size;
  }
  void each(const std::function<void(std::string_view, std::string_view)>& visit) override {
    table_.each(memory_->engine(), visit);
  }
  E& memory() { return memory_->engine(); }

 private:
  std::unique_ptr<guarded<E>> memory_;
  item_table table_;
};

std::vector<durable_store_kind> store_kinds_of_suite(const std::string& directory) {
  std::vector<durable_store_kind> all;
  for_each_engine(directory, [&]<class E>(const std::string& name, role r, auto construct) {
    all.push_back({name, r, E::counts_itself, [=](const engine_settings& s, unsigned threads, std::uint64_t records) {
                     return std::make_unique<engine_store<E>>(construct(s, threads), records);
                   }});
  });
#if NVM_BENCH_HOLDFAST
  for (durable_store_kind& kind : kv_stores(directory)) all.push_back(std::move(kind));
  for (durable_store_kind& kind : lockfree_stores(directory)) all.push_back(std::move(kind));
#endif
  return all;
}

}  // namespace

std::vector<benchmark> store_benchmarks(const options& o, unsigned threads) {
  std::vector<benchmark> all;
  for (const mix_of_operations& m : store_mixes()) {
    if (m.shares && threads == 1) continue;
    const std::uint64_t records = m.value_bytes_max == 2048 ? std::max<std::uint64_t>(o.records / 8, 100) : o.records;
    benchmark b;
    b.name = fmt::format("store-{}", m.name);
    b.unit = "operation";
    b.threads = threads;
    b.ops = operations(o, 100'000, 2'000);
    b.warmup_ops = b.ops / 2;
    b.latency_last = true;
    const double writes = (1000.0 - m.reads) / 1000;
    const std::size_t value_bytes = m.fixed_sizes ? m.value_bytes_max : m.value_bytes_max / 2;
    if (writes > 0)
      b.payload = payload_shape{writes, (value_bytes + 63) / 64, records / threads * ((value_bytes + 63) / 64 * 64)};
    b.parameters = {{"records", records},
                    {"key_bytes_max", m.key_bytes_max},
                    {"value_bytes_max", m.value_bytes_max},
                    {"zipfian_theta", m.toggles ? zipf::theta_for(records / threads, 0.15, 0.9) : 0.99}};
    const std::uint64_t inserts = threads * (b.ops * (o.runs + 2) + 512) * m.inserts / 1000 * 2;
    const std::uint64_t bytes = (records + inserts) * (m.key_bytes_max + m.value_bytes_max + 192);
    const engine_settings settings{{o.directory, bytes}, o.emulated, false, 0};
    for (const durable_store_kind& kind : store_kinds_of_suite(o.directory))
      b.systems.push_back(system_of(
          kind.system, kind.role, kind.counts_itself, settings, [=, build = kind.make](const engine_settings& s) {
            return std::make_unique<store_run>(build(s, threads, records), m, records, threads);
          }));
    all.push_back(std::move(b));
  }
  return all;
}

}  // namespace nvm::bench
