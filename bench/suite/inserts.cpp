// How fast does a data structure fill up: 30,000 or 252,000 pairs inserted into an empty list, hash table or B-tree, a
// transaction each, by one thread or half by each of two (HEAPO, section III-B to III-D, figures 5 to 7)?
#include <fmt/core.h>

#include "harness/random.hpp"
#include "suite/maps.hpp"
#include "suite/questions.hpp"

namespace nvm::bench {
namespace {

class fill final : public told_by_memory<fill, contestant> {
 public:
  explicit fill(std::unique_ptr<durable_map> map, unsigned threads) : map_(std::move(map)), threads_(threads) {}

  // Empties the structure again.
  void prepare(unsigned thread, std::uint64_t, std::uint64_t) override {
    if (thread != 0) return;
    std::vector<std::uint64_t> keys;
    map_->each([&](std::uint64_t key, const value&) { keys.push_back(key); });
    for (const std::uint64_t key : keys) map_->remove(key);
  }
  void run(unsigned thread, std::uint64_t first, std::uint64_t ops) override {
    for (std::uint64_t i = first; i < first + ops; ++i) {
      const std::uint64_t key = mix(i * threads_ + thread);
      map_->insert(thread, key, values_.of(key));
    }
  }
  std::uint64_t work_digest() override { return digest_of(*map_); }
  durable_map& memory() { return *map_; }

 private:
  std::unique_ptr<durable_map> map_;
  unsigned threads_;
  value_source values_;
};

}  // namespace

std::vector<benchmark> insert_benchmarks(const options& o, unsigned threads) {
  std::vector<benchmark> all;
  for (const std::string structure : {"list", "hashtable", "bptree"})
    for (const std::uint64_t pairs : {30'000, 252'000}) {
      benchmark b;
      b.name = fmt::format("fill-{}-{}", structure, pairs);
      b.unit = "insert";
      b.threads = threads;
      b.ops = transactions(o, pairs, pairs / 100) / threads;
      b.warmup_ops = b.ops;
      b.payload = payload_shape{1, 2, b.ops * sizeof(value)};
      b.parameters = {{"pairs", b.ops * threads}, {"value_bytes", sizeof(value)}};
      for (const map_kind& kind : map_kinds(o.directory)) {
        if (kind.structure != structure) continue;
        // libpmemobj's hash map makes a second array when it grows, and finds a run of chunks for it only with room to
        // spare.
        const std::uint64_t bytes = b.ops * threads * map_record_bytes + (64ULL << 20);
        const engine_settings settings{{o.directory, bytes}, o.emulated, false, 0};
        b.systems.push_back(system_of(kind.system, kind.role, kind.counts_itself, settings,
                                      [=, build = kind.make](const engine_settings& s) {
                                        return std::make_unique<fill>(build(s, threads, pairs), threads);
                                      }));
      }
      if (!b.systems.empty()) all.push_back(std::move(b));
    }
  return all;
}

}  // namespace nvm::bench
