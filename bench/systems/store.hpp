// A durable key-value store on a file system, as the benchmark of commits sees it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/benchmark.hpp"

namespace nvm::bench {

class store {
 public:
  store() = default;
  virtual ~store() = default;
  store(const store&) = delete;
  store& operator=(const store&) = delete;

  // Puts many keys at once; not measured.
  virtual void load(const std::vector<std::uint64_t>& keys, std::string_view value) = 0;
  // One transaction, durable on return. `thread` is below the number the store was made for.
  virtual void put(unsigned thread, std::uint64_t key, std::string_view value) = 0;
  // Value of a key that was put.
  virtual std::string get(std::uint64_t key) = 0;
};

struct store_kind {
  std::string name;
  bench::role role;
  std::function<std::unique_ptr<store>(const std::string& directory, unsigned threads)> make;
  nlohmann::ordered_json settings;  // what a reader must know to repeat it
};

// Each in systems/<name>_store.cpp; store_kinds() calls those that this build has.
store_kind lmdb_store();
store_kind sqlite_store();
store_kind rocksdb_store();
store_kind holdfast_store();
store_kind holdfast_regions_store();

// `large`: for values of a megabyte.
inline std::vector<store_kind> store_kinds(bool large = false) {
  return {
#if NVM_BENCH_LMDB
      lmdb_store(),
#endif
#if NVM_BENCH_SQLITE
      sqlite_store(),
#endif
#if NVM_BENCH_ROCKSDB
      rocksdb_store(),
#endif
#if NVM_BENCH_HOLDFAST
      large ? holdfast_regions_store() : holdfast_store(),
#endif
  };
}

}  // namespace nvm::bench
