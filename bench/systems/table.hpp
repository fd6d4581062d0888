// A durable table from 64-bit keys to values, as the YCSB benchmark sees it.
//
// A virtual class: an operation copies a kilobyte and mostly commits a transaction; one indirect call is lost in that,
// and it is the same for all systems.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/benchmark.hpp"

namespace nvm::bench {

class table {
 public:
  table() = default;
  virtual ~table() = default;
  table(const table&) = delete;
  table& operator=(const table&) = delete;

  // Stores a copy of `size` bytes, in a transaction of its own, durable on return.
  virtual void put(std::uint64_t key, const void* bytes, std::size_t size) = 0;
  // The value, in place until the key is put again; null if there is none.
  virtual const void* get(std::uint64_t key, std::size_t* size) = 0;
};

// Tables of one system, one for each lock of the program: keys are dealt out to them by hash.
struct table_set {
  std::shared_ptr<void> heap;  // what the tables live in; dies after them
  std::vector<std::unique_ptr<table>> shards;
  std::function<std::optional<std::uint64_t>()> bytes_logged;
};

struct table_settings {
  std::string directory;
  unsigned shards;
  std::uint64_t records;  // in all shards, after all inserts
  std::size_t value_bytes;
};

struct table_kind {
  std::string system;  // "libpmemobj"
  bench::role role;
  std::string structure;  // "hashtable", "bptree"
  std::function<table_set(const table_settings&)> make;
};

// Of libpmemobj, in systems/pmemobj_tables.cpp; of the examples, in systems/holdfast_tables.cpp.
std::vector<table_kind> pmemobj_tables();
std::vector<table_kind> holdfast_tables();
// The examples twice, in compiler/tables.cpp.
std::vector<table_kind> hand_tables();
std::vector<table_kind> compiled_tables();

inline std::vector<table_kind> table_kinds() {
  std::vector<table_kind> all;
#if NVM_BENCH_PMEMOBJ
  for (table_kind& k : pmemobj_tables()) all.push_back(std::move(k));
#endif
#if NVM_BENCH_COMPILER
  for (table_kind& k : hand_tables()) all.push_back(std::move(k));
  for (table_kind& k : compiled_tables()) all.push_back(std::move(k));
#elif NVM_BENCH_HOLDFAST
  for (table_kind& k : holdfast_tables()) all.push_back(std::move(k));
#endif
  return all;
}

}  // namespace nvm::bench
