// A durable key-value store of any sizes, as the workloads of key-value stores see it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/benchmark.hpp"
#include "suite/engine.hpp"

namespace nvm::bench {

class durable_store : public observed {
 public:
  static constexpr std::size_t value_bytes_max = 2048;

  // Each a transaction, durable on return.
  // Gives the first bytes of the key's value these contents, or the key this value if it has none that is as long.
  virtual void put(unsigned thread, std::string_view key, std::string_view v) = 0;
  virtual void remove(unsigned thread, std::string_view key) = 0;  // there or not
  // Copies the value to `out`, which has room for value_bytes_max; its size, 0 if there is none.
  virtual std::size_t get(unsigned thread, std::string_view key, char* out) = 0;
  // While no transaction runs.
  virtual void each(const std::function<void(std::string_view key, std::string_view v)>& visit) = 0;
};

// Makes a store for `records` keys at most, in a memory with these settings.
struct durable_store_kind {
  std::string system;
  bench::role role;
  bool counts_itself;
  std::function<std::unique_ptr<durable_store>(const engine_settings&, unsigned threads, std::uint64_t records)> make;
};

// The key-value library of Holdfast itself, for files in this directory.
std::vector<durable_store_kind> kv_stores(const std::string& directory);  // kv_stores.cpp
// Its lock-free hash table.
std::vector<durable_store_kind> lockfree_stores(const std::string& directory);  // lockfree_stores.cpp

}  // namespace nvm::bench
