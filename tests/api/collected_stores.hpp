// A pool with object stores of lists, on each engine and medium that has stores, for tests of their collection.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../object/sample_types.hpp"
#include "../random_seed.hpp"
#include "../scratch_folder.hpp"
#include "nvm/gc.h"
#include "nvm/malloc.h"
#include "nvm/store.h"

namespace nvm::tests::collection {

struct collected_kind {
  const char* name;
  bool ssd;
  std::uint32_t engine;
  bool announces;  // takes stores to objects that exist
};
inline constexpr collected_kind kinds[] = {{"undo", false, NVM_ENGINE_UNDO, true},
                                           {"redo", false, NVM_ENGINE_REDO, false},
                                           {"mnemosyne", false, NVM_ENGINE_MNEMOSYNE, false},
                                           {"ssd", true, NVM_ENGINE_UNDO, true}};

struct link {
  std::uint64_t number;
  link* next;
  link* other;
  char text[40];
};
inline constexpr std::uint32_t link_id = layout::type_id_of("collected_link");
inline constexpr std::uint32_t unknown_id = 0x1234;

inline void know_types() {
  static const bool known = [] {
    using enum layout::field_kind;
    type_map_writer w;
    w.add({"collected_link",
           sizeof(link),
           8,
           {field("number", 0, unsigned_integer, 8), field("next", 8, pointer, 8, 1, link_id),
            field("other", 16, pointer, 8, 1, link_id), field("text", 24, character, 1, 40)}});
    const auto words = w.finish();
    return nvm_register_types(words.data(), words.size() * 8) == 0;
  }();
  ASSERT_TRUE(known) << nvm_errormsg();
}

class collected_stores : public testing::TestWithParam<collected_kind> {
 protected:
  // Of a thread that collects, on a machine that does other things.
  static constexpr int patience_ms = 120'000;

  void SetUp() override {
    know_types();
    nvm_pool_options o{};
    o.size = 16 << 20;
    o.medium = GetParam().ssd ? NVM_MEDIUM_SSD : direct_medium();
    o.engine = GetParam().engine;
    pool_ = nvm_pool_create_with(path().c_str(), &o);
    ASSERT_NE(pool_, nullptr) << nvm_errormsg();
  }
  void TearDown() override {
    if (pool_ != nullptr) {
      EXPECT_EQ(nvm_pool_close(pool_), 0) << nvm_errormsg();
    }
    nvm_check_summary sum;
    std::string found;
    EXPECT_EQ(nvm_pool_check(
                  path().c_str(),
                  [](std::uint64_t at, const char* what, void* to) {
                    *static_cast<std::string*>(to) += std::string{what} + " at " + std::to_string(at) + "\n";
                  },
                  &found, &sum),
              0)
        << nvm_errormsg() << found;
  }
  [[nodiscard]] std::string path() const { return folder_.path("pool"); }
  void reopen() {
    ASSERT_EQ(nvm_pool_close(pool_), 0) << nvm_errormsg();
    pool_ = nvm_pool_open(path().c_str());
    ASSERT_NE(pool_, nullptr) << nvm_errormsg();
  }
  [[nodiscard]] nvm_store* made(const char* name, std::uint64_t quota = 0) {
    nvm_store_options o{};
    o.quota = quota;
    EXPECT_EQ(nvm_store_create(pool_, name, &o), 0) << nvm_errormsg();
    nvm_store* const s = nvm_store_attach(pool_, name, 0);
    EXPECT_NE(s, nullptr) << nvm_errormsg();
    return s;
  }
  void configure(std::uint32_t collect, std::uint32_t grown = 0) {
    nvm_stores_options o{};
    o.collect = collect;
    o.collect_grown = grown;
    o.collect_period_ms = 1;
    o.collect_load = 1'000'000;
    ASSERT_EQ(nvm_stores_configure(pool_, &o), 0) << nvm_errormsg();
  }
  // A new first link of the list that the root leads to, in the thread's transaction.
  link* push(nvm_store* s, std::uint64_t number) {
    auto* n = static_cast<link*>(nvm_store_calloc(s, link_id, 1, sizeof(link)));
    if (n == nullptr) return nullptr;
    n->number = number;
    n->next = static_cast<link*>(nvm_store_get_root(s));
    return nvm_store_set_root(s, n) == 0 ? n : nullptr;
  }
  link* push_alone(nvm_store* s, std::uint64_t number) {
    EXPECT_EQ(nvm_tx_begin(pool_), 0) << nvm_errormsg();
    link* const n = push(s, number);
    EXPECT_NE(n, nullptr) << nvm_errormsg();
    EXPECT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
    return n;
  }
  // Garbage from its birth on.
  void leak(nvm_store* s, std::uint64_t number) {
    auto* n = static_cast<link*>(nvm_store_calloc(s, link_id, 1, sizeof(link)));
    ASSERT_NE(n, nullptr) << nvm_errormsg();
    n->number = number;
    n->other = n;
  }
  void set_root(nvm_store* s, link* to) { ASSERT_EQ(nvm_store_set_root(s, to), 0) << nvm_errormsg(); }
  [[nodiscard]] static std::vector<std::uint64_t> numbers(nvm_store* s) {
    std::vector<std::uint64_t> all;
    for (const auto* n = static_cast<const link*>(nvm_store_get_root(s)); n != nullptr; n = n->next) {
      EXPECT_EQ(nvm_type_of(nvm_store_pool(s), n), link_id) << "freed";
      all.push_back(n->number);
    }
    return all;
  }
  [[nodiscard]] std::uint64_t objects_of(const char* name) {
    nvm_store_info info;
    EXPECT_EQ(nvm_store_stat(pool_, name, &info), 0) << nvm_errormsg();
    return info.objects;
  }
  [[nodiscard]] nvm_collection_statistics counts() {
    nvm_collection_statistics s{};
    EXPECT_EQ(nvm_stores_get_collections(pool_, &s), 0) << nvm_errormsg();
    return s;
  }
  // All that the pool has.
  [[nodiscard]] std::uint64_t links() {
    std::uint64_t n = 0;
    EXPECT_EQ(nvm_pool_each(
                  pool_,
                  [](void*, std::uint32_t type, std::size_t, void* to) {
                    *static_cast<std::uint64_t*>(to) += type == link_id ? 1 : 0;
                    return 0;
                  },
                  &n),
              0)
        << nvm_errormsg();
    return n;
  }
  [[nodiscard]] bool exists(const void* p) { return nvm_type_of(pool_, p) == link_id; }
  // Short transactions that allocate and roll back, each of which goes on with a local collection, until f().
  template <class F>
  [[nodiscard]] bool until(nvm_store* s, F&& f) {
    for (int i = 0; i < 20'000; ++i) {
      if (f()) return true;
      EXPECT_EQ(nvm_tx_begin(pool_), 0) << nvm_errormsg();
      (void)nvm_store_calloc(s, link_id, 1, sizeof(link));
      EXPECT_EQ(nvm_tx_abort(pool_), 0) << nvm_errormsg();
    }
    return f();
  }
  // Makes the store grow, so that a local collection begins.
  void grow(nvm_store* s) {
    const std::uint64_t begun = counts().local.begun;
    for (int i = 0; i < 400 && counts().local.begun == begun; ++i) {
      ASSERT_EQ(nvm_tx_begin(pool_), 0) << nvm_errormsg();
      for (int k = 0; k < 40; ++k) leak(s, 0);
      ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
    }
    ASSERT_GT(counts().local.begun, begun);
  }

  scratch_folder folder_{"store_gc", GetParam().ssd};
  NVM_POOL* pool_ = nullptr;
};

}  // namespace nvm::tests::collection
