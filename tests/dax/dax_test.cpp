// Tests that need real DAX; HOLDFAST_TEST_DAX names a folder there. Otherwise skipped.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "../scratch_folder.hpp"
#include "nvm/nvm.h"

namespace nvm::tests {
namespace {

struct dax : testing::Test {
  void SetUp() override {
    if (dax_folder() == nullptr) GTEST_SKIP() << "HOLDFAST_TEST_DAX names no folder";
    folder = std::make_unique<scratch_folder>("dax", false);
  }
  NVM_POOL* create(nvm_pool_options o = {}) const {
    NVM_POOL* p = nvm_pool_create_with(folder->path("pool").c_str(), &o);
    EXPECT_NE(p, nullptr) << nvm_errormsg();
    return p;
  }
  static nvm_pool_info info_of(NVM_POOL* p) {
    nvm_pool_info info{};
    EXPECT_EQ(nvm_pool_get_info(p, &info), 0);
    return info;
  }
  std::unique_ptr<scratch_folder> folder;
};

// Of the mapping that holds `address`, by /proc/self/smaps: "sf" says MAP_SYNC.
bool is_mapped_with_sync(std::uint64_t address) {
  std::ifstream in{"/proc/self/smaps"};
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    unsigned long long from = 0, to = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx ", &from, &to) == 2) inside = from <= address && address < to;
    if (inside && line.rfind("VmFlags:", 0) == 0) return line.find(" sf") != std::string::npos;
  }
  return false;
}

TEST_F(dax, is_found_by_its_path_and_mapped_with_sync) {
  NVM_POOL* p = create();
  const nvm_pool_info info = info_of(p);
  EXPECT_EQ(info.medium, NVM_MEDIUM_DAX);
  EXPECT_GE(info.persist, static_cast<std::uint32_t>(NVM_PERSIST_CLFLUSH));
  EXPECT_TRUE(is_mapped_with_sync(info.base));
  EXPECT_EQ(nvm_pool_close(p), 0);
}

TEST_F(dax, takes_the_medium_that_is_asked_for) {
  for (const nvm_medium medium : {NVM_MEDIUM_DAX, NVM_MEDIUM_AUTO, NVM_MEDIUM_SSD}) {
    nvm_pool_options o{};
    o.medium = medium;
    NVM_POOL* p = create(o);
    EXPECT_EQ(info_of(p).medium, medium);
    EXPECT_EQ(is_mapped_with_sync(info_of(p).base), medium != NVM_MEDIUM_SSD);
    EXPECT_EQ(nvm_pool_close(p), 0);
    std::filesystem::remove(folder->path("pool"));
  }
}

TEST_F(dax, stays_mapped_with_sync_where_a_pool_has_grown) {
  nvm_pool_options o{};
  o.size = std::uint64_t{1} << 20;
  NVM_POOL* p = create(o);
  const std::uint64_t before = info_of(p).size;
  constexpr std::size_t bytes = std::size_t{1} << 18;
  void* last = nullptr;
  for (int i = 0; i < 32; ++i) {
    ASSERT_EQ(nvm_tx_begin(p), 0);
    last = nvm_alloc(p, 1, bytes);
    ASSERT_NE(last, nullptr) << nvm_errormsg();
    std::memset(last, i, bytes);
    ASSERT_EQ(nvm_tx_commit(p), 0);
  }
  EXPECT_GT(info_of(p).size, before);
  EXPECT_TRUE(is_mapped_with_sync(reinterpret_cast<std::uintptr_t>(last)));
  EXPECT_EQ(nvm_pool_close(p), 0);
}

}  // namespace
}  // namespace nvm::tests
