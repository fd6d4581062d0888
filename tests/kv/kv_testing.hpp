// The common part of the tests of key-value stores: a pool on a medium, stores of every index, keys of several
// characters.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "../scratch_folder.hpp"
#include "nvm/kv.h"
#include "nvm/kv.hpp"
#include "nvm/nvm.h"
#include "nvm/stm.h"

namespace nvm::tests {

struct ground {
  const char* name;
  std::uint32_t medium;
  std::uint32_t engine;
};
inline constexpr ground grounds[] = {
    {"shm_undo", NVM_MEDIUM_SHM, NVM_ENGINE_UNDO}, {"shm_redo", NVM_MEDIUM_SHM, NVM_ENGINE_REDO},
    {"shm_log", NVM_MEDIUM_SHM, NVM_ENGINE_LOG},   {"ssd", NVM_MEDIUM_SSD, NVM_ENGINE_DETECT},
    {"ssd_log", NVM_MEDIUM_SSD, NVM_ENGINE_LOG},
};
// Of those whose calls are transactions.
inline constexpr enum nvm_kv_index indexes[] = {NVM_KV_LIST, NVM_KV_HASH, NVM_KV_BTREE, NVM_KV_RBTREE};

struct ground_and_index {
  ground where;
  enum nvm_kv_index index;
};
inline std::vector<ground_and_index> grounds_and_indexes_of_transactions() {
  std::vector<ground_and_index> all;
  for (const ground& g : grounds) {
    for (const auto index : indexes) all.push_back({g, index});
  }
  return all;
}
inline std::vector<ground_and_index> grounds_and_indexes() {
  auto all = grounds_and_indexes_of_transactions();
  for (const ground& g : grounds) {
    if (g.engine != NVM_ENGINE_LOG) all.push_back({g, NVM_KV_REGIONS});
  }
  return all;
}
inline std::string name_of(const testing::TestParamInfo<ground_and_index>& p) {
  return std::string{p.param.where.name} + "_" + nvm_kv_index_name(p.param.index);
}

using model = std::map<std::string, std::string>;
// Everything that a store shows.
inline model entries_of(const kv& store) {
  model found;
  for (const auto& e : store.entries()) found.emplace(e.key, e.value);
  return found;
}

// A pool file of one test, removed at the end. Those of ssd are in memory too, where a sync takes no time, unless asked
// for on a disk: what a store holds is the same on both.
class pool_place {
 public:
  explicit pool_place(const ground& g, bool on_disk = false)
      : ground_{g}, folder_{"kv", on_disk && g.medium == NVM_MEDIUM_SSD} {}

  std::string path() const { return folder_.path("pool"); }
  nvm_pool_options options(std::size_t size = std::size_t{16} << 20, std::size_t capacity = 0) const {
    nvm_pool_options o{};
    o.size = size;
    o.capacity = capacity;
    o.medium = ground_.medium;
    o.engine = ground_.engine;
    return o;
  }
  pool create(std::size_t size = std::size_t{16} << 20, std::size_t capacity = 0) const {
    auto p = pool::create(path().c_str(), options(size, capacity));
    EXPECT_TRUE(p.has_value()) << nvm_errormsg();
    return std::move(*p);
  }
  pool open() const {
    auto o = options();
    o.size = o.capacity = 0;
    auto p = pool::open(path().c_str(), o);
    EXPECT_TRUE(p.has_value()) << nvm_errormsg();
    return std::move(*p);
  }
  bool ssd() const { return ground_.medium == NVM_MEDIUM_SSD; }
  // Findings of the full check of the closed pool.
  std::int64_t findings() const {
    return nvm_pool_check(
        path().c_str(), [](std::uint64_t at, const char* what, void*) { ADD_FAILURE() << at << ": " << what; }, nullptr,
        nullptr);
  }

 private:
  ground ground_;
  scratch_folder folder_;
};

inline kv open_store(const pool& p, const char* name, enum nvm_kv_index index) {
  auto s = kv::open(p, name, index);
  EXPECT_TRUE(s.has_value()) << nvm_errormsg();
  return std::move(*s);
}

// Big-endian, so that the order of numbers is that of bytes.
inline std::string number_key(std::uint64_t n) {
  const std::uint64_t big = __builtin_bswap64(n);
  return {reinterpret_cast<const char*>(&big), 8};
}

using random_source = std::mt19937_64;

// Keys that are hard in one way each; `n` says which one.
struct key_kind {
  const char* name;
  std::string (*make)(std::uint64_t n);
};
inline constexpr key_kind key_kinds[] = {
    {"numbers", [](std::uint64_t n) { return number_key(n * 0x9E3779B97F4A7C15); }},
    {"ascending", [](std::uint64_t n) { return number_key(n); }},
    // Long common beginnings, as paths have them.
    {"paths",
     [](std::uint64_t n) {
       static const char* const places[] = {"/usr/share/doc/", "/usr/share/dictionaries/", "/var/lib/something/long/",
                                            "/"};
       return places[n % 4] + std::to_string(n / 4 % 3) + "/user" + std::to_string(n);
     }},
    // Keys that begin other keys, zero bytes, the empty key.
    {"zeros",
     [](std::uint64_t n) {
       std::string k;
       for (; n != 0; n /= 3) k += "\0\1a"[n % 3];
       return k;
     }},
    // From nothing to thousands of bytes, all alike at first.
    {"long",
     [](std::uint64_t n) {
       std::string k(n % 7 == 0 ? 3000 + n % 50 : n % 90, 'x');
       return k + std::to_string(n);
     }},
};

}  // namespace nvm::tests
