// A durable map from 64-bit keys to values of 128 bytes, as the suite's workloads see it.
//
// A virtual class: an operation is a transaction, one indirect call is lost in that, and it is the same for all.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/benchmark.hpp"
#include "suite/engine.hpp"
#include "suite/structures/value.hpp"

namespace nvm::bench {

class durable_map : public observed {
 public:
  // Each a transaction, durable on return. Keys of different threads differ.
  virtual void insert(unsigned thread, std::uint64_t key, const value& v) = 0;  // a key that is not there
  virtual void toggle(unsigned thread, std::uint64_t key, const value& v) = 0;  // removes it, or else inserts it
  virtual void remove(std::uint64_t key) = 0;                                   // untimed
  // While no transaction runs.
  virtual void each(const std::function<void(std::uint64_t key, const value& v)>& visit) = 0;
};

// A structure of the suite over an engine.
template <engine E, class S>
class engine_map final : public told_by_memory<engine_map<E, S>, durable_map> {
 public:
  engine_map(std::unique_ptr<guarded<E>> memory, std::uint64_t records)
      : memory_(std::move(memory)), structure_(memory_->engine(), records) {}

  void insert(unsigned thread, std::uint64_t key, const value& v) override {
    memory_->transact(thread, structure_.part_of(key), [&](auto& tx) { structure_.put(tx, key, v); });
  }
  void toggle(unsigned thread, std::uint64_t key, const value& v) override {
    memory_->transact(thread, structure_.part_of(key), [&](auto& tx) {
      if (!structure_.erase(tx, key)) structure_.put(tx, key, v);
    });
  }
  void remove(std::uint64_t key) override {
    memory_->transact(0, structure_.part_of(key), [&](auto& tx) { structure_.erase(tx, key); });
  }
  void each(const std::function<void(std::uint64_t, const value&)>& visit) override {
    structure_.each(memory_->engine(), visit);
  }
  E& memory() { return memory_->engine(); }

  S& structure() noexcept { return structure_; }

 private:
  std::unique_ptr<guarded<E>> memory_;
  S structure_;
};

// Makes a map for `records` keys at most, in a memory with these settings.
struct map_kind {
  std::string system;
  bench::role role;
  std::string structure;  // "list", "hashtable", "bptree", "rbtree"
  bool counts_itself;
  std::function<std::unique_ptr<durable_map>(const engine_settings&, unsigned threads, std::uint64_t records)> make;
};

// Of its contents.
std::uint64_t digest_of(durable_map& map);  // maps.cpp

// For files in this directory.
std::vector<map_kind> map_kinds(const std::string& directory);  // maps.cpp
std::vector<map_kind> pmdk_maps();  // systems/pmdk_maps.cpp: libpmemobj's own example structures

// What the maps hold beside their values, per record at most.
constexpr std::uint64_t map_record_bytes = 384;

}  // namespace nvm::bench
