// What does a durable table cost under YCSB A, B, D and F, with values of 1 KB?
//
// The examples' cuckoo hash table and B+tree, and the same structures over libpmemobj. A read copies the value out; an
// update writes a whole value; read-modify-write does both. With several threads the keys are dealt out to 16 tables,
// each under a lock that is held to the end of the commit.
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/ycsb.hpp"
#include "systems/table.hpp"
#include "transactional/questions.hpp"

namespace nvm::bench {
namespace {

#ifdef NVM_BENCH_VALUE_BYTES
constexpr std::size_t value_bytes = NVM_BENCH_VALUE_BYTES;
#else
constexpr std::size_t value_bytes = 1000;  // YCSB: ten fields of 100 bytes
#endif
constexpr unsigned shards_max = 16;

class ycsb final : public contestant {
 public:
  ycsb(table_set tables, const ycsb_mix& mix, std::uint64_t records, unsigned threads)
      : tables_(std::move(tables)), locks_(tables_.shards.size()), threads_(threads), records_(records) {
    random source(records);
    for (char& c : noise_) c = static_cast<char>(source.next());
    for (unsigned t = 0; t < threads; ++t) states_.push_back(std::make_unique<state>(mix, records, t, threads));
    for (std::uint64_t i = 0; i < records; ++i) put(ycsb_key(i), i, states_[0]->value);
  }

  void prepare(unsigned thread, std::uint64_t first, std::uint64_t ops) override {
    state& s = *states_[thread];
    s.stream.draw(first, ops, &s.ops);
    s.first = first;
  }
  void run(unsigned thread, std::uint64_t first, std::uint64_t ops) override {
    state& s = *states_[thread];
    for (std::uint64_t i = first; i < first + ops; ++i) {
      const ycsb_op& op = s.ops[i - s.first];
      if (op.kind == ycsb_kind::read || op.kind == ycsb_kind::read_modify_write) get(op.key, s);
      if (op.kind != ycsb_kind::read) put(op.key, i << 8 | thread, s.value);
    }
  }
  bool writes(unsigned thread, std::uint64_t operation) override {
    const state& s = *states_[thread];
    return s.ops[operation - s.first].kind != ycsb_kind::read;
  }

  // With one thread every byte that is in the table at the end, and the first words of all that was read. With several,
  // who was last to write a record is a matter of chance: then only which records were found, and that each value
  // belongs to its key.
  std::uint64_t work_digest() override {
    digest all;
    for (const auto& s : states_) all.add(s->seen.value());
    for (std::uint64_t i = 0; i < records_; i += 1 + records_ / 10'000) {
      std::size_t size = 0;
      const void* value = shard(ycsb_key(i)).get(ycsb_key(i), &size);
      if (value == nullptr) throw std::runtime_error("a record is lost");
      all.add_bytes(value, threads_ == 1 ? size : sizeof(std::uint64_t));
    }
    return all.value();
  }
  std::optional<std::uint64_t> bytes_logged() override { return tables_.bytes_logged(); }

 private:
  struct alignas(64) padded_mutex {
    std::mutex mutex;
  };
  struct alignas(64) state {
    state(const ycsb_mix& mix, std::uint64_t records, unsigned thread, unsigned threads)
        : stream(mix, records, thread, threads) {}
    ycsb_stream stream;
    std::vector<ycsb_op> ops;
    std::uint64_t first = 0;
    digest seen;
    char value[value_bytes];
    char read[value_bytes];
  };

  // From other bits than those that a table's own hash functions or a tree's order depend on most.
  std::size_t shard_of(std::uint64_t key) const { return (mix(key) >> 40) % tables_.shards.size(); }
  table& shard(std::uint64_t key) { return *tables_.shards[shard_of(key)]; }

  // A value begins with its key and the version that wrote it; the rest is a piece of noise chosen by the version.
  void put(std::uint64_t key, std::uint64_t version, char* value) {
    std::memcpy(value, &key, sizeof key);
    std::memcpy(value + 8, &version, sizeof version);
    std::memcpy(value + 16, noise_ + mix(version) % 4096, value_bytes - 16);
    const std::lock_guard lock(locks_[shard_of(key)].mutex);
    shard(key).put(key, value, value_bytes);
  }
  void get(std::uint64_t key, state& s) {
    {
      const std::lock_guard lock(locks_[shard_of(key)].mutex);
      std::size_t size = 0;
      const void* value = shard(key).get(key, &size);
      if (value == nullptr || size != value_bytes) throw std::runtime_error("a record is lost");
      std::memcpy(s.read, value, value_bytes);
    }
    std::uint64_t word[2];
    std::memcpy(word, s.read, sizeof word);
    s.seen.add(word[0]);
    if (threads_ == 1) s.seen.add(word[1]);
  }

  table_set tables_;
  std::vector<padded_mutex> locks_;
  unsigned threads_;
  std::uint64_t records_;
  std::vector<std::unique_ptr<state>> states_;
  char noise_[4096 + value_bytes];
};

}  // namespace

std::vector<benchmark> ycsb_benchmarks(const options& o, unsigned threads) {
  std::vector<benchmark> all;
  for (const std::string structure : {"hashtable", "bptree"})
    for (const ycsb_mix& mix : ycsb_mixes) {
      benchmark b;
      b.name = structure + "-ycsb-" + mix.name;
      b.unit = "operation";
      b.threads = threads;
      b.ops = o.full_or_quick<std::uint64_t>(100'000, 5'000);
      b.warmup_ops = b.ops / 4;
      const double writes = (100.0 - mix.read_percent) / 100.0;
      b.payload = payload_shape{writes, (value_bytes + 63) / 64, o.records / threads * 1024};
      b.parameters = {{"records", o.records},
                      {"value_bytes", value_bytes},
                      {"zipfian_theta", 0.99},
                      {"locks", threads == 1 ? 1 : shards_max}};
      // Inserts of D: at most 5 % and some of all operations, in warm-up, counting and repetitions.
      const std::uint64_t inserts_max = mix.other == ycsb_kind::insert ? threads * b.ops * (o.runs + 2) / 10 : 0;
      const table_settings settings{o.directory, threads == 1 ? 1 : shards_max, o.records + inserts_max, value_bytes};
      for (const table_kind& kind : table_kinds()) {
        if (kind.structure != structure) continue;
        b.systems.push_back({kind.system, kind.role, [=, make = kind.make, records = o.records]() {
                               return std::make_unique<ycsb>(make(settings), mix, records, threads);
                             }});
      }
      all.push_back(std::move(b));
    }
  return all;
}

}  // namespace nvm::bench
