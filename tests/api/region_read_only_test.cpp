// Regions of pools that are opened read-only: their contents after a clean close and after their owner was killed,
// refused calls, and an unchanged file.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../file_bytes.hpp"
#include "../sanitized.hpp"
#include "nvm/region.h"
#include "scratch.hpp"

namespace {

struct kind_of_pool {
  const char* name;
  std::uint32_t medium;
  std::uint32_t engine;
};
constexpr kind_of_pool kinds_of_pools[] = {{"shm", NVM_MEDIUM_SHM, NVM_ENGINE_UNDO},
                                           {"shm_redo", NVM_MEDIUM_SHM, NVM_ENGINE_REDO},
                                           {"ssd", NVM_MEDIUM_SSD, NVM_ENGINE_DETECT}};
constexpr std::size_t sizes[] = {0, 1, 100, 2048, 2049, 70'000};

class read_only_regions : public ::testing::TestWithParam<kind_of_pool> {
 protected:
  void SetUp() override {
    place = std::make_unique<nvm::tests::scratch>(GetParam().medium == NVM_MEDIUM_SSD);
    path = place->path();
    nvm_pool_options o{};
    o.size = 16 << 20;
    o.medium = GetParam().medium;
    o.engine = GetParam().engine;
    NVM_POOL* const made = nvm_pool_create_with(path.c_str(), &o);
    ASSERT_NE(made, nullptr) << nvm_errormsg();
    ASSERT_EQ(nvm_pool_close(made), 0) << nvm_errormsg();
  }
  // In a process of its own, which is killed, or closes the pool.
  template <class Body>
  void by_another(bool is_killed, Body&& body) const {
    const pid_t child = ::fork();
    if (child == 0) {
      NVM_POOL* const pool = nvm_pool_open(path.c_str());
      nvm_regions* const set = pool == nullptr ? nullptr : nvm_regions_open(pool, "things", nullptr);
      if (set == nullptr || !body(set)) _exit(3);
      if (is_killed) ::raise(SIGKILL);
      _exit(nvm_pool_close(pool) == 0 ? 0 : 4);
    }
    int how = 0;
    ASSERT_EQ(::waitpid(child, &how, 0), child);
    ASSERT_TRUE(is_killed ? WIFSIGNALED(how) : how == 0) << how;
  }
  NVM_POOL* open_to_read() const {
    nvm_pool_options o{};
    o.read_only = 1;
    NVM_POOL* const pool = nvm_pool_open_with(path.c_str(), &o);
    EXPECT_NE(pool, nullptr) << nvm_errormsg();
    return pool;
  }
  static std::string bytes_of(nvm_regions* set, std::uint64_t rid, std::uint64_t offset = 0) {
    std::string bytes(1 << 17, '\0');
    const std::int64_t n = nvm_region_read(set, rid, offset, bytes.data(), bytes.size());
    if (n < 0) return std::string{"<"} + nvm_error_name(nvm_errno()) + ">";
    bytes.resize(static_cast<std::size_t>(n));
    return bytes;
  }
  static void expect_refused(int answer, int code) {
    EXPECT_EQ(answer, -1);
    EXPECT_EQ(nvm_errno(), code) << nvm_errormsg();
  }

  std::unique_ptr<nvm::tests::scratch> place;
  std::string path;
};
INSTANTIATE_TEST_SUITE_P(media, read_only_regions, ::testing::ValuesIn(nvm::tests::kinds_of_build(kinds_of_pools)),
                         [](const auto& i) { return i.param.name; });

// Regions of each size, changed since in each way, and what they are then.
std::string content(std::size_t size) {
  std::string bytes(size, 'a');
  for (std::size_t i = 0; i < std::min<std::size_t>(size, 16); ++i) bytes[i] = 'b';
  return bytes + "end";
}
bool make_and_change(nvm_regions* set) {
  const std::string as(80'000, 'a');
  const std::string bs(16, 'b');
  for (std::uint64_t rid = 0; rid < std::size(sizes); ++rid) {
    const std::size_t size = sizes[rid];
    if (nvm_region_create_with(set, rid, as.data(), size, 0) != 0) return false;
    if (nvm_region_write(set, rid, 0, bs.data(), std::min<std::size_t>(size, 16)) != 0) return false;
    if (nvm_region_append(set, rid, "end", 3, nullptr) != 0) return false;
  }
  if (nvm_region_create_with(set, 100, as.data(), 1000, 0) != 0) return false;
  for (const char c : {'x', 'y'}) {
    const std::string whole(1000, c);
    if (nvm_region_begin(set, 100, NVM_REGION_REPLICA) != 0) return false;
    if (nvm_region_write(set, 100, 0, whole.data(), whole.size()) != 0) return false;
    if (nvm_region_commit(set, 100) != 0) return false;
  }
  return nvm_region_create(set, 101, 5000) == 0 && nvm_region_create(set, 102, 9) == 0 &&
         nvm_region_drop(set, 102) == 0;
}

TEST_P(read_only_regions, are_what_they_were_and_stay_so) {
  for (const bool is_killed : {false, true}) {
    if (is_killed) SetUp();
    by_another(is_killed, make_and_change);
    const auto before = nvm::tests::read_file(path);
    NVM_POOL* const pool = open_to_read();
    ASSERT_NE(pool, nullptr);
    nvm_regions* const set = nvm_regions_open(pool, "things", nullptr);
    ASSERT_NE(set, nullptr) << nvm_errormsg();
    for (std::uint64_t rid = 0; rid < std::size(sizes); ++rid) {
      EXPECT_EQ(bytes_of(set, rid), content(sizes[rid])) << rid;
      std::uint64_t size = 0;
      ASSERT_EQ(nvm_region_size(set, rid, &size), 0) << nvm_errormsg();
      EXPECT_EQ(size, sizes[rid] + 3);
    }
    EXPECT_EQ(bytes_of(set, 5, 70'000), "end");
    EXPECT_EQ(bytes_of(set, 100), std::string(1000, 'y'));
    EXPECT_EQ(bytes_of(set, 101), std::string(5000, '\0'));
    EXPECT_EQ(bytes_of(set, 102), "<NVM_E_NOT_FOUND>");
    std::vector<std::uint64_t> rids;
    ASSERT_EQ(nvm_region_each(
                  set,
                  [](std::uint64_t rid, std::uint64_t, void* all) {
                    static_cast<std::vector<std::uint64_t>*>(all)->push_back(rid);
                    return 0;
                  },
                  &rids),
              0)
        << nvm_errormsg();
    std::sort(rids.begin(), rids.end());
    EXPECT_EQ(rids, (std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5, 100, 101}));
    std::uint64_t count = 0;
    ASSERT_EQ(nvm_regions_count(set, &count), 0);
    EXPECT_EQ(count, rids.size());
    std::vector<std::string> names;
    ASSERT_EQ(nvm_regions_names(
                  pool,
                  [](const char* name, std::uint64_t, void* all) {
                    static_cast<std::vector<std::string>*>(all)->emplace_back(name);
                    return 0;
                  },
                  &names),
              0);
    EXPECT_EQ(names, std::vector<std::string>{"things"});
    nvm_region_lease lease{};
    ASSERT_EQ(nvm_region_hold(set, 2, &lease), 0) << nvm_errormsg();
    EXPECT_EQ((std::string{static_cast<const char*>(lease.bytes), lease.length}), content(100));
    ASSERT_EQ(nvm_region_let_go(&lease), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    EXPECT_TRUE(nvm::tests::read_file(path) == before) << "the file was changed";
    // Who may change it finds the same.
    by_another(false, [](nvm_regions* things) { return bytes_of(things, 5) == content(sizes[5]); });
    ASSERT_EQ(::unlink(path.c_str()), 0);
  }
}

TEST_P(read_only_regions, refuse_each_change) {
  by_another(false, make_and_change);
  NVM_POOL* const pool = open_to_read();
  ASSERT_NE(pool, nullptr);
  nvm_regions* const set = nvm_regions_open(pool, "things", nullptr);
  ASSERT_NE(set, nullptr) << nvm_errormsg();
  expect_refused(nvm_region_create(set, 7, 8), NVM_E_READ_ONLY);
  expect_refused(nvm_region_create_with(set, 7, "x", 1, 0), NVM_E_READ_ONLY);
  expect_refused(nvm_region_write(set, 2, 0, "x", 1), NVM_E_READ_ONLY);
  expect_refused(nvm_region_append(set, 2, "x", 1, nullptr), NVM_E_READ_ONLY);
  expect_refused(nvm_region_truncate(set, 2, 1), NVM_E_READ_ONLY);
  expect_refused(nvm_region_drop(set, 2), NVM_E_READ_ONLY);
  expect_refused(nvm_region_begin(set, 2, NVM_REGION_ADAPTIVE), NVM_E_READ_ONLY);
  const std::uint64_t rids[] = {2, 3};
  EXPECT_EQ(nvm_region_group_begin(set, rids, 2), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_READ_ONLY) << nvm_errormsg();
  expect_refused(
      nvm_region_group_run(set, rids, 2, [](nvm_region_group*, void*) { return 0; }, nullptr), NVM_E_READ_ONLY);
  expect_refused(nvm_regions_drop(pool, "things"), NVM_E_READ_ONLY);
  nvm_regions_options o{};
  EXPECT_EQ(nvm_regions_open(pool, "others", &o), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_READ_ONLY) << nvm_errormsg();
  o.mode = 1;
  EXPECT_EQ(nvm_regions_open(pool, "others", &o), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_NOT_FOUND) << nvm_errormsg();
  EXPECT_EQ(bytes_of(set, 2), content(100));
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
}

TEST_P(read_only_regions, of_a_pool_that_has_none) {
  NVM_POOL* const pool = open_to_read();
  ASSERT_NE(pool, nullptr);
  EXPECT_EQ(nvm_regions_open(pool, "things", nullptr), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_READ_ONLY) << nvm_errormsg();
  EXPECT_EQ(nvm_regions_names(pool, [](const char*, std::uint64_t, void*) { return 1; }, nullptr), 0);
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
}

}  // namespace
