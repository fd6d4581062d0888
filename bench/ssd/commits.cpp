// Cost of a durable commit on an ordinary file system, beside LMDB, SQLite and RocksDB on the same one; and of an
// object of 8 MiB to 4 GiB, beside a plain file (objects.cpp).
//
// An operation puts one value of 100 B, 1 KB or 1 MiB under a random key that is there already, in a transaction of its
// own, and returns when it is durable. The largest are a region each. Each thread has keys of its own, so the outcome
// does not depend on who comes first. A repetition lasts so long that each system's checkpoints, compactions and
// flushes fall into it: it does the same operations several times. So each value begins with a number that no other
// has, for SQLite neither writes nor syncs where a value stays what it was.
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "harness/machine.hpp"
#include "harness/random.hpp"
#include "harness/runner.hpp"
#include "ssd/objects.hpp"
#include "systems/store.hpp"

namespace nvm::bench {
namespace {

constexpr std::uint64_t thread_shift = 32;  // keys of thread t are t << 32, t << 32 + 1, ...

class commits final : public contestant {
 public:
  commits(std::unique_ptr<store> s, unsigned threads, std::uint64_t keys_of_thread, std::size_t value_bytes)
      : store_(std::move(s)),
        keys_of_thread_(keys_of_thread),
        values_(threads, std::string(value_bytes, 'v')),
        written_(threads) {
    for (std::uint64_t t = 0; t < threads; ++t)
      for (std::uint64_t k = 0; k < keys_of_thread; ++k) keys_.push_back(t << thread_shift | k);
    store_->load(keys_, values_[0]);
  }

  void run(unsigned thread, std::uint64_t first, std::uint64_t ops) override {
    std::string& value = values_[thread];
    for (std::uint64_t i = first; i < first + ops; ++i) {
      random source(i << 8 | thread);
      const std::uint64_t key = static_cast<std::uint64_t>(thread) << thread_shift | source.below(keys_of_thread_);
      for (std::size_t at = 0; at + 8 <= value.size(); at += 8) {
        const std::uint64_t word = source.next();
        value.replace(at, 8, reinterpret_cast<const char*>(&word), 8);
      }
      const std::uint64_t number = ++written_[thread];
      value.replace(0, sizeof number, reinterpret_cast<const char*>(&number), sizeof number);
      store_->put(thread, key, value);
    }
  }
  std::uint64_t work_digest() override {
    digest all;
    for (const std::uint64_t key : keys_) {
      const std::string value = store_->get(key);
      all.add_bytes(value.data() + sizeof(std::uint64_t), value.size() - sizeof(std::uint64_t));
    }
    return all.value();
  }

 private:
  std::unique_ptr<store> store_;
  std::uint64_t keys_of_thread_;
  std::vector<std::string> values_;  // one a thread, rewritten for each operation
  std::vector<std::uint64_t> written_;
  std::vector<std::uint64_t> keys_;
};

constexpr std::size_t large_bytes = 1 << 20;
constexpr std::uint64_t large_keys = 64;

benchmark make(const options& o, unsigned threads, std::size_t value_bytes) {
  const bool large = value_bytes >= large_bytes;
  benchmark b;
  b.name = "put-" + std::to_string(value_bytes);
  b.unit = "durable put";
  b.threads = threads;
  b.latency = true;
  b.ops = o.full_or_quick<std::uint64_t>(1'600, 80) / threads;
  b.seconds_min = o.full_or_quick<double>(20, 0);
  b.warmup_ops = b.ops / 4;
  const std::uint64_t keys_of_thread = (large ? std::min(large_keys, o.records) : o.records) / threads;
  b.parameters = {{"value_bytes", value_bytes}, {"keys", keys_of_thread * threads}};
  for (const store_kind& kind : store_kinds(large)) {
    b.parameters[kind.name] = kind.settings;
    b.systems.push_back({kind.name, kind.role, [=, make = kind.make, directory = o.directory] {
                           return std::make_unique<commits>(make(directory, threads), threads, keys_of_thread,
                                                            value_bytes);
                         }});
  }
  return b;
}

}  // namespace
}  // namespace nvm::bench

int main(int argc, char** argv) {
  using namespace nvm::bench;
  return answer(argc, argv,
                {.question = "Durable commits on a file system, beside LMDB, SQLite and RocksDB",
                 .directory = ".",
                 .threads = {1, 8},
                 .runs = 7,
                 .records = 16'000,
                 .quick_records = 800},
                [](runner& r, const options& o) {
                  if (file_system_of(o.directory) == "tmpfs")
                    fmt::print(stderr, "{} is on tmpfs, where a sync does nothing; choose a disk with --directory\n",
                               o.directory);
                  for (const unsigned threads : o.threads)  // one thread first, see harness/workers.hpp
                    for (const std::size_t value_bytes : {std::size_t{100}, std::size_t{1024}, large_bytes})
                      r.run(make(o, threads, value_bytes));
                  if (o.quick) {
                    r.run(large_objects(o, std::uint64_t{8} << 20));
                    return;
                  }
                  for (const unsigned mib : {8, 64, 512, 4096}) r.run(large_objects(o, std::uint64_t{mib} << 20));
                });
}
