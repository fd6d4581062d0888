// Pools with lock-free structures inside of object stores, for tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "../scratch_folder.hpp"
#include "nvm/nvm.h"
#include "nvm/store_lockfree.h"
#include "with_store.hpp"

namespace nvm::tests {

struct ground {
  const char* name;
  std::uint32_t medium;
  std::uint32_t engine;
  std::uint32_t kind;
};
inline std::vector<ground> grounds() {
  std::vector<ground> all;
  for (const std::uint32_t kind : {NVM_LF_LIST, NVM_LF_HASH, NVM_LF_SKIP_LIST, NVM_LF_TREE}) {
    all.push_back({"shm_undo", NVM_MEDIUM_SHM, NVM_ENGINE_UNDO, kind});
    all.push_back({"shm_redo", NVM_MEDIUM_SHM, NVM_ENGINE_REDO, kind});
    all.push_back({"ssd", NVM_MEDIUM_SSD, NVM_ENGINE_DETECT, kind});
  }
  return all;
}
inline std::string name_of_ground(const testing::TestParamInfo<ground>& p) {
  constexpr const char* kinds[] = {"", "list", "hash", "skip_list", "tree"};
  return std::string{p.param.name} + "_" + kinds[p.param.kind];
}

using model = std::map<std::uint64_t, std::uint64_t>;

class structures_in_store : public testing::TestWithParam<ground> {
 protected:
  void SetUp() override { open(); }
  void TearDown() override {
    close();
    if (!testing::Test::HasFatalFailure()) {
      EXPECT_EQ(findings_in(path()), "");
    }
  }
  std::string path() const { return folder_.path("pool"); }
  void open() {
    nvm_pool_options o{};
    o.medium = GetParam().medium;
    o.engine = GetParam().engine;
    o.size = std::size_t{8} << 20;
    o.capacity = std::size_t{64} << 20;
    o.untyped = NVM_UNTYPED_BYTES;
    const bool is_there = std::ifstream{path()}.good();
    pool_ = is_there ? nvm_pool_open(path().c_str()) : nvm_pool_create_with(path().c_str(), &o);
    ASSERT_NE(pool_, nullptr) << nvm_errormsg();
  }
  void close() {
    if (pool_ == nullptr) return;
    EXPECT_EQ(nvm_pool_close(pool_), 0) << nvm_errormsg();
    pool_ = nullptr;
  }
  void reopen() {
    close();
    open();
  }
  nvm_store* attached(const char* name, unsigned flags = NVM_STORE_CREATE) {
    nvm_store* const s = nvm_store_attach(pool_, name, flags);
    EXPECT_NE(s, nullptr) << nvm_errormsg();
    return s;
  }
  void detach(nvm_store* s) { EXPECT_EQ(nvm_store_detach(s), 0) << nvm_errormsg(); }
  nvm_lf* opened(nvm_store* s, const char* name, std::uint32_t mode = 0, std::uint32_t flags = 0) {
    nvm_lf_options o{};
    o.kind = GetParam().kind;
    o.mode = mode;
    o.flags = flags;
    nvm_lf* const lf = nvm_lf_open_in(s, name, &o);
    EXPECT_NE(lf, nullptr) << nvm_errormsg();
    return lf;
  }
  static model entries_of(nvm_lf* lf) {
    model all;
    EXPECT_GE(nvm_lf_each64(
                  lf,
                  [](std::uint64_t k, std::uint64_t v, void* to) {
                    (*static_cast<model*>(to))[k] = v;
                    return 0;
                  },
                  &all),
              0)
        << nvm_errormsg();
    return all;
  }
  static model put(nvm_lf* lf, std::uint64_t count, std::uint64_t factor = 3) {
    model all;
    for (std::uint64_t i = 1; i <= count; ++i) {
      EXPECT_EQ(nvm_lf_put64(lf, i * 7919 % 100003, i * factor, 0), 1) << nvm_errormsg();
      all[i * 7919 % 100003] = i * factor;
    }
    return all;
  }
  nvm_store_info info(const char* name) {
    nvm_store_info i;
    EXPECT_EQ(nvm_store_stat(pool_, name, &i), 0) << nvm_errormsg();
    return i;
  }
  std::set<std::string> names(nvm_store* s) {
    std::set<std::string> all;
    EXPECT_EQ(nvm_lf_names_in(
                  s,
                  [](const char* name, int, void* to) {
                    static_cast<std::set<std::string>*>(to)->insert(name);
                    return 0;
                  },
                  &all),
              0)
        << nvm_errormsg();
    return all;
  }

  scratch_folder folder_{"store_lockfree", GetParam().medium == NVM_MEDIUM_SSD};
  NVM_POOL* pool_ = nullptr;
};
}  // namespace nvm::tests
