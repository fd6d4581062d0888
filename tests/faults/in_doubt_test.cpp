// Every interface reports a change whose sync fails in the same way: NVM_E_IN_DOUBT; then NVM_E_IO for later ones.
// told_test.cpp compares this with the state at the next open.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../fault_injection.hpp"
#include "../scratch_folder.hpp"
#include "nvm/gc.h"
#include "nvm/kv.h"
#include "nvm/lockfree.h"
#include "nvm/malloc.h"
#include "nvm/nvm.h"
#include "nvm/region.h"
#include "nvm/stm.h"
#include "nvm/store.h"

namespace nvm::tests {
namespace {

// What the calls find, all of it durable.
struct given {
  NVM_POOL* pool = nullptr;
  nvm_kv* tree = nullptr;
  nvm_kv* items = nullptr;  // over regions
  nvm_lf* table = nullptr;
  nvm_lf* unwaited_table = nullptr;
  nvm_regions* set = nullptr;
  nvm_regions* unwaited_set = nullptr;
};
constexpr const char* key = "key";
constexpr std::uint64_t rids[] = {1, 2};

bool fill(given& g) {
  nvm_kv_options o{};
  o.index = NVM_KV_BTREE;
  g.tree = nvm_kv_open(g.pool, "tree", &o);
  nvm_kv* const other = nvm_kv_open(g.pool, "other tree", &o);
  if (other == nullptr || nvm_kv_close(other) != 0) return false;
  o.index = NVM_KV_REGIONS;
  g.items = nvm_kv_open(g.pool, "items", &o);
  nvm_lf_options bytes{};
  bytes.kind = NVM_LF_HASH;
  bytes.flags = NVM_LF_BYTES;
  g.table = nvm_lf_open(g.pool, "table", &bytes);
  bytes.flags |= NVM_LF_NO_WAIT;
  g.unwaited_table = nvm_lf_open(g.pool, "table", &bytes);
  nvm_regions_options waits{};
  g.set = nvm_regions_open(g.pool, "set", &waits);
  waits.flags = NVM_REGIONS_NO_WAIT;
  g.unwaited_set = nvm_regions_open(g.pool, "set", &waits);
  if (g.tree == nullptr || g.items == nullptr || g.unwaited_table == nullptr || g.unwaited_set == nullptr) return false;
  for (nvm_kv* kv : {g.tree, g.items}) {
    if (nvm_kv_put(kv, key, 3, "value", 5) != 0) return false;
  }
  if (nvm_lf_put(g.table, key, 3, "value", 5, 0, 0) != 1) return false;
  for (const std::uint64_t rid : rids) {
    if (nvm_region_create(g.set, rid, 100) != 0) return false;
  }
  if (nvm_store_create(g.pool, "store", nullptr) != 0) return false;
  // Garbage, beside a root that the collector knows.
  if (nvm_tx_begin(g.pool) != 0) return false;
  void* const root = nvm_calloc(g.pool, 0, 1, 64);
  const bool made = root != nullptr && nvm_calloc(g.pool, 0, 1, 64) != nullptr && nvm_pool_set_root(g.pool, root) == 0;
  return nvm_tx_commit(g.pool) == 0 && made;
}

struct one_change {
  const char* name;
  int (*run)(given& g);
};
int batch(given& g, nvm_kv* kv) {
  const nvm_kv_operation both[] = {{kv, NVM_KV_PUT, 0, key, 3, "other", 5}, {kv, NVM_KV_PUT, 0, "new", 3, "value", 5}};
  return nvm_kv_batch(g.pool, both, 2, nullptr);
}
int edit(void* value, std::size_t*, std::size_t, void*) {
  *static_cast<char*>(value) = 'V';
  return 0;
}
nvm_lf_decision remove_it(const nvm_lf_entry*, nvm_lf_change*, void*) { return NVM_LF_REMOVE; }

const one_change changes[] = {
    {"nvm_tx_commit",
     [](given& g) {
       if (nvm_tx_begin(g.pool) != 0) return -1;
       (void)nvm_calloc(g.pool, 0, 1, 64);
       return nvm_tx_commit(g.pool);
     }},
    {"nvm_stm_run",
     [](given& g) {
       return nvm_stm_run(
           g.pool, [](nvm_stm* tx, void*) { return nvm_stm_alloc(tx, 0, 64) != nullptr ? 0 : 1; }, nullptr);
     }},
    {"nvm_kv_put", [](given& g) { return nvm_kv_put(g.tree, key, 3, "other", 5); }},
    {"nvm_kv_batch", [](given& g) { return batch(g, g.tree); }},
    {"nvm_kv_put on regions", [](given& g) { return nvm_kv_put(g.items, key, 3, "other", 5); }},
    {"nvm_kv_update on regions", [](given& g) { return nvm_kv_update(g.items, key, 3, 5, edit, nullptr); }},
    {"nvm_kv_remove on regions", [](given& g) { return nvm_kv_remove(g.items, key, 3); }},
    {"nvm_kv_batch on regions", [](given& g) { return batch(g, g.items); }},
    {"nvm_lf_put", [](given& g) { return nvm_lf_put(g.table, key, 3, "other", 5, 0, 0); }},
    {"nvm_lf_remove", [](given& g) { return nvm_lf_remove(g.table, key, 3); }},
    {"nvm_lf_update", [](given& g) { return nvm_lf_update(g.table, key, 3, remove_it, nullptr); }},
    {"nvm_lf_wait",
     [](given& g) {
       const int put = nvm_lf_put(g.unwaited_table, key, 3, "other", 5, 0, 0);
       return put < 0 ? put : nvm_lf_wait(g.unwaited_table);
     }},
    {"nvm_region_create", [](given& g) { return nvm_region_create(g.set, 3, 100); }},
    {"nvm_region_create_with", [](given& g) { return nvm_region_create_with(g.set, 4, "bytes", 5, 0); }},
    {"nvm_region_write", [](given& g) { return nvm_region_write(g.set, 1, 0, "bytes", 5); }},
    {"nvm_region_append", [](given& g) { return nvm_region_append(g.set, 1, "bytes", 5, nullptr); }},
    {"nvm_region_truncate", [](given& g) { return nvm_region_truncate(g.set, 1, 50); }},
    {"nvm_region_drop", [](given& g) { return nvm_region_drop(g.set, 1); }},
    {"nvm_region_commit",
     [](given& g) {
       if (nvm_region_begin(g.set, 1, NVM_REGION_ADAPTIVE) != 0) return -1;
       return nvm_region_write(g.set, 1, 0, "bytes", 5) != 0 ? -2 : nvm_region_commit(g.set, 1);
     }},
    {"nvm_region_commit_async",
     [](given& g) {
       std::uint64_t position = 0;
       if (nvm_region_begin(g.set, 1, NVM_REGION_ADAPTIVE) != 0) return -1;
       if (nvm_region_write(g.set, 1, 0, "bytes", 5) != 0) return -2;
       const int committed = nvm_region_commit_async(g.set, 1, &position);
       return committed != 0 ? committed : nvm_wait(g.pool, position);
     }},
    {"nvm_region_group_commit",
     [](given& g) {
       nvm_region_group* const group = nvm_region_group_begin(g.set, rids, 2);
       if (group == nullptr) return -1;
       for (const std::uint64_t rid : rids) {
         if (nvm_region_write(g.set, rid, 0, "bytes", 5) != 0) return -2;
       }
       return nvm_region_group_commit(group);
     }},
    {"nvm_region_group_run",
     [](given& g) {
       return nvm_region_group_run(
           g.set, rids, 2, [](nvm_region_group* group, void*) { return nvm_region_group_drop(group, 1); }, nullptr);
     }},
    {"nvm_regions_wait",
     [](given& g) {
       const int written = nvm_region_write(g.unwaited_set, 1, 0, "bytes", 5);
       return written != 0 ? written : nvm_regions_wait(g.unwaited_set);
     }},
    {"nvm_gc",
     [](given& g) {
       nvm_gc_options o{};
       o.untyped = 1;
       return nvm_gc(g.pool, &o, nullptr);
     }},
    {"nvm_tx_run",
     [](given& g) {
       return nvm_tx_run(
           g.pool, [](void* pool) { return nvm_calloc(static_cast<NVM_POOL*>(pool), 0, 1, 64) != nullptr ? 0 : 1; },
           g.pool);
     }},
    {"nvm_tx_next",
     [](given& g) {
       if (nvm_tx_begin(g.pool) != 0) return -1;
       (void)nvm_calloc(g.pool, 0, 1, 64);
       return nvm_tx_next(g.pool);
     }},
    {"nvm_kv_rename", [](given& g) { return nvm_kv_rename(g.pool, "other tree", "renamed"); }},
    {"nvm_kv_drop", [](given& g) { return nvm_kv_drop(g.pool, "other tree"); }},
    {"nvm_store_create", [](given& g) { return nvm_store_create(g.pool, "new", nullptr); }},
    {"nvm_store_rename", [](given& g) { return nvm_store_rename(g.pool, "store", "renamed"); }},
    {"nvm_store_chmod", [](given& g) { return nvm_store_chmod(g.pool, "store", 0600); }},
    {"nvm_store_quota", [](given& g) { return nvm_store_quota(g.pool, "store", std::uint64_t{8} << 20); }},
    {"nvm_store_delete", [](given& g) { return nvm_store_delete(g.pool, "store"); }},
};

NVM_POOL* new_pool(const std::string& path) {
  nvm_pool_options o{};
  o.size = std::uint64_t{4} << 20;
  o.capacity = std::uint64_t{64} << 20;
  o.log_bytes = std::uint64_t{2} << 20;
  o.medium = NVM_MEDIUM_SSD;
  return nvm_pool_create_with(path.c_str(), &o);
}

class in_doubt : public testing::TestWithParam<one_change> {};
INSTANTIATE_TEST_SUITE_P(calls, in_doubt, testing::ValuesIn(changes), [](const auto& i) {
  std::string name{i.param.name};
  for (char& c : name) c = c == ' ' ? '_' : c;
  return name;
});

// A pool in which a call has failed as `run` says; empty where the first sync to fail was one of the background.
given failed_pool(const scratch_folder& folder, int (*run)(given& g)) {
  given g;
  g.pool = new_pool(folder.path("pool"));
  EXPECT_TRUE(g.pool != nullptr && fill(g)) << nvm_errormsg();
  injected.arm(fault::sync, EIO, 1, true);
  EXPECT_EQ(run(g), -1);
  if (nvm_errno() != NVM_E_IO || !injected.struck()) return g;
  injected.relieve();
  (void)nvm_pool_close(g.pool);
  return {};
}
given surely_failed_pool(const scratch_folder& folder, int (*run)(given& g)) {
  given g;
  while (!testing::Test::HasFailure() && g.pool == nullptr) {
    std::filesystem::remove(folder.path("pool"));
    g = failed_pool(folder, run);
  }
  return g;
}

TEST_P(in_doubt, is_what_a_call_says_whose_sync_fails) {
  scratch_folder folder{"in-doubt", true};
  given g = surely_failed_pool(folder, GetParam().run);
  ASSERT_NE(g.pool, nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_IN_DOUBT) << nvm_errormsg();
  EXPECT_TRUE(injected.struck());
  EXPECT_EQ(GetParam().run(g), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_IO) << nvm_errormsg();
  injected.relieve();
  EXPECT_EQ(nvm_kv_close(g.tree) | nvm_kv_close(g.items), 0);
  EXPECT_EQ(nvm_pool_close(g.pool), -1);
}

// A name or key that is there or missing may be so by a change that is lost: no call of a pool that has failed answers
// NVM_E_NOT_FOUND or NVM_E_EXISTS.
TEST(in_doubt_answers, are_refused) {
  scratch_folder folder{"in-doubt", true};
  given g = surely_failed_pool(folder, [](given& in) { return nvm_kv_put(in.tree, key, 3, "other", 5); });
  ASSERT_NE(g.pool, nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_IN_DOUBT) << nvm_errormsg();
  nvm_kv_options one{};
  one.index = NVM_KV_BTREE;
  const auto kv_open = [&](const char* name, enum nvm_kv_open_mode mode) {
    one.mode = mode;
    return nvm_kv_open(g.pool, name, &one) == nullptr ? -1 : 0;
  };
  const auto lf_open = [&](const char* name, std::uint32_t mode) {
    nvm_lf_options o{};
    o.kind = NVM_LF_HASH;
    o.flags = NVM_LF_BYTES;
    o.mode = mode;
    return nvm_lf_open(g.pool, name, &o) == nullptr ? -1 : 0;
  };
  const auto regions_open = [&](const char* name, std::uint32_t mode) {
    nvm_regions_options o{};
    o.mode = mode;
    return nvm_regions_open(g.pool, name, &o) == nullptr ? -1 : 0;
  };
  const std::pair<const char*, std::function<int()>> questions[] = {
      {"nvm_kv_get", [&] { return nvm_kv_get(g.tree, "none", 4, nullptr, 0, nullptr); }},
      {"nvm_kv_remove", [&] { return nvm_kv_remove(g.tree, "none", 4); }},
      {"nvm_kv_put_with absent", [&] { return nvm_kv_put_with(g.tree, key, 3, "v", 1, NVM_KV_PUT_ABSENT); }},
      {"nvm_kv_put_with present", [&] { return nvm_kv_put_with(g.tree, "none", 4, "v", 1, NVM_KV_PUT_PRESENT); }},
      {"nvm_kv_put_with present, regions",
       [&] { return nvm_kv_put_with(g.items, "none", 4, "v", 1, NVM_KV_PUT_PRESENT); }},
      {"nvm_kv_open of none", [&] { return kv_open("none", NVM_KV_OPEN_ONLY); }},
      {"nvm_kv_open as new", [&] { return kv_open("tree", NVM_KV_CREATE_ONLY); }},
      {"nvm_kv_open as new, closed", [&] { return kv_open("other tree", NVM_KV_CREATE_ONLY); }},
      {"nvm_kv_drop", [&] { return nvm_kv_drop(g.pool, "none"); }},
      {"nvm_kv_rename", [&] { return nvm_kv_rename(g.pool, "none", "some"); }},
      {"nvm_lf_get", [&] { return nvm_lf_get(g.table, "none", 4, nullptr, 0, nullptr); }},
      {"nvm_lf_remove", [&] { return nvm_lf_remove(g.table, "none", 4); }},
      {"nvm_lf_open of none", [&] { return lf_open("none", 1); }},
      {"nvm_lf_open as new", [&] { return lf_open("table", 2); }},
      {"nvm_lf_names", [&] { return nvm_lf_names(g.pool, [](const char*, int, void*) { return 0; }, nullptr); }},
      {"nvm_regions_open of none", [&] { return regions_open("none", 1); }},
      {"nvm_regions_open as new", [&] { return regions_open("set", 2); }},
      {"nvm_lf_drop", [&] { return nvm_lf_drop(g.pool, "none"); }},
      {"nvm_region_create", [&] { return nvm_region_create(g.set, 1, 100); }},
      {"nvm_region_drop", [&] { return nvm_region_drop(g.set, 7); }},
      {"nvm_regions_drop", [&] { return nvm_regions_drop(g.pool, "none"); }},
      {"nvm_store_create", [&] { return nvm_store_create(g.pool, "store", nullptr); }},
      {"nvm_store_delete", [&] { return nvm_store_delete(g.pool, "none"); }},
      {"nvm_store_rename", [&] { return nvm_store_rename(g.pool, "none", "some"); }},
      {"nvm_store_chmod", [&] { return nvm_store_chmod(g.pool, "none", 0600); }},
      {"nvm_store_attach", [&] { return nvm_store_attach(g.pool, "none", NVM_STORE_READ_ONLY) == nullptr ? -1 : 0; }},
      {"nvm_store_stat",
       [&] {
         nvm_store_info info;
         return nvm_store_stat(g.pool, "none", &info);
       }},
      {"nvm_store_gc", [&] { return nvm_store_gc(g.pool, "none", nullptr, nullptr); }},
  };
  for (const auto& [name, ask] : questions) {
    EXPECT_EQ(ask(), -1) << name;
    EXPECT_EQ(nvm_errno(), NVM_E_IO) << name << ": " << nvm_errormsg();
  }
  injected.relieve();
  EXPECT_EQ(nvm_pool_close(g.pool), -1);
}

// What was dropped is gone from volatile memory, whether the drop is durable or not: its handles lead nowhere.
TEST(in_doubt_drops, leave_handles_that_are_refused) {
  scratch_folder folder{"in-doubt", true};
  given g;
  g.pool = new_pool(folder.path("pool"));
  ASSERT_NE(g.pool, nullptr) << nvm_errormsg();
  ASSERT_TRUE(fill(g)) << nvm_errormsg();
  struct dropped {
    const char* name;
    std::function<int()> drop;
    std::vector<std::function<int()>> calls;
    std::function<int()> wait;
  };
  std::uint64_t n = 0;
  char byte = 0;
  const auto both_sets = [&](auto&& call) {
    return [&g, call] { return call(g.set) == -1 && call(g.unwaited_set) == -1 ? -1 : 0; };
  };
  const auto both_tables = [&](auto&& call) {
    return [&g, call] { return call(g.table) == -1 && call(g.unwaited_table) == -1 ? -1 : 0; };
  };
  const dropped all[] = {
      {"set",
       [&] { return nvm_regions_drop(g.pool, "set"); },
       {both_sets([&](nvm_regions* s) { return nvm_regions_count(s, &n); }),
        both_sets([&](nvm_regions* s) { return nvm_region_read(s, 1, 0, &byte, 1) < 0 ? -1 : 0; }),
        both_sets([&](nvm_regions* s) { return nvm_region_write(s, 1, 0, "b", 1); })},
       both_sets([&](nvm_regions* s) { return nvm_regions_wait(s); })},
      {"table",
       [&] { return nvm_lf_drop(g.pool, "table"); },
       {both_tables([&](nvm_lf* l) { return nvm_lf_get_count(l, &n); }),
        both_tables([&](nvm_lf* l) { return nvm_lf_get(l, key, 3, &byte, 1, nullptr) < 0 ? -1 : 0; }),
        both_tables([&](nvm_lf* l) { return nvm_lf_put(l, key, 3, "b", 1, 0, 0); })},
       both_tables([&](nvm_lf* l) { return nvm_lf_wait(l); })},
  };
  for (const dropped& d : all) {
    injected.arm(fault::sync, EIO, 1, true);
    EXPECT_EQ(d.drop(), -1) << d.name;
    EXPECT_EQ(nvm_errno(), NVM_E_IN_DOUBT) << d.name << ": " << nvm_errormsg();
    for (std::size_t i = 0; i < d.calls.size(); ++i) {
      EXPECT_EQ(d.calls[i](), -1) << d.name << ", call " << i;
      EXPECT_EQ(nvm_errno(), NVM_E_IO) << d.name << ", call " << i << ": " << nvm_errormsg();
    }
    EXPECT_EQ(d.wait(), -1) << d.name;
    EXPECT_EQ(nvm_errno(), NVM_E_IN_DOUBT) << d.name << ": " << nvm_errormsg();
    injected.relieve();
    EXPECT_EQ(nvm_kv_close(g.tree) | nvm_kv_close(g.items), 0);
    EXPECT_EQ(nvm_pool_close(g.pool), -1);
    g = {};
    g.pool = new_pool(folder.path(d.name));
    ASSERT_NE(g.pool, nullptr) << nvm_errormsg();
    ASSERT_TRUE(fill(g)) << nvm_errormsg();
  }
  EXPECT_EQ(nvm_kv_close(g.tree) | nvm_kv_close(g.items), 0);
  EXPECT_EQ(nvm_pool_close(g.pool), 0) << nvm_errormsg();
}

// Garbage goes in transactions of 256 objects; the medium fails after the first of them.
TEST(in_doubt_of_many, is_what_a_collection_says_that_ends_between_its_transactions) {
  scratch_folder folder{"in-doubt", true};
  given g;
  g.pool = new_pool(folder.path("pool"));
  ASSERT_NE(g.pool, nullptr) << nvm_errormsg();
  ASSERT_TRUE(fill(g)) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_begin(g.pool), 0);
  for (unsigned i = 0; i < 600; ++i) ASSERT_NE(nvm_calloc(g.pool, 0, 1, 64), nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_commit(g.pool), 0) << nvm_errormsg();
  nvm_gc_options o{};
  o.untyped = 1;
  struct {
    const given& in;
    bool is_armed = false;
  } failing{g};
  o.argument = &failing;
  o.progress = [](nvm_gc_phase phase, std::uint64_t, std::uint64_t, void* raw) {
    auto& f = *static_cast<decltype(failing)*>(raw);
    if (phase != NVM_GC_FREEING || f.is_armed) return;
    f.is_armed = true;
    injected.arm(fault::sync, EIO, 1, true);
    std::thread{[&f] { EXPECT_EQ(nvm_lf_put(f.in.table, key, 3, "other", 5, 0, 0), -1); }}.join();
  };
  nvm_gc_report report{};
  EXPECT_EQ(nvm_gc(g.pool, &o, &report), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_IN_DOUBT) << nvm_errormsg();
  EXPECT_TRUE(injected.struck());
  EXPECT_EQ(report.freed_objects, 256U);
  injected.relieve();
  EXPECT_EQ(nvm_kv_close(g.tree) | nvm_kv_close(g.items), 0);
  EXPECT_EQ(nvm_pool_close(g.pool), -1);
}

}  // namespace
}  // namespace nvm::tests
