// The device is full: a small tmpfs in a mount namespace of this process's own, where it may have one, and a limit on
// the size of files.  Growth and creation fail and say so; committed changes are there, and the pool works on in the
// room that it has.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "nvm/nvm.h"
#include "nvm/region.h"

namespace nvm::tests {
namespace {

constexpr std::uint64_t limit_bytes = 3 << 20;
constexpr int may_not = 77;

struct ground {
  const char* name;
  nvm_medium medium;
  nvm_engine engine;
  bool mounted;  // else limited
};
class full_device : public testing::TestWithParam<ground> {
 protected:
  full_device() {
    if (::mkdtemp(folder_.data()) == nullptr) ADD_FAILURE() << "no folder " << folder_;
    path_ = folder_ + "/pool";
  }
  ~full_device() override { std::filesystem::remove_all(folder_); }

  // f's answer, of a process for which the device is full.
  template <class F>
  int where_it_is_full(F&& f) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);
      ::_exit(make_full() ? f() : may_not);
    }
    int how = 0;
    EXPECT_EQ(::waitpid(child, &how, 0), child);
    return WIFEXITED(how) ? WEXITSTATUS(how) : 1000 + WTERMSIG(how);
  }
  NVM_POOL* create(std::uint64_t size) const {
    nvm_pool_options o{};
    o.size = size;
    o.capacity = 64 << 20;
    o.medium = GetParam().medium;
    o.engine = GetParam().engine;
    const bool log = GetParam().engine == NVM_ENGINE_LOG;
    o.log_bytes = log ? 0 : GetParam().medium == NVM_MEDIUM_SSD ? 1 << 18 : 8192;
    o.lanes = log ? 0 : 2;
    return nvm_pool_create_with(path_.c_str(), &o);
  }
  bool says(int code) const {
    const bool told = nvm_errno() == code && std::strstr(nvm_errormsg(), path_.c_str()) != nullptr;
    if (!told) std::fprintf(stderr, "%s: %s\n", nvm_error_name(nvm_errno()), nvm_errormsg());
    return told;
  }

  std::string folder_ = "/dev/shm/holdfast-full-XXXXXX", path_;

 private:
  bool make_full() const {
    if (GetParam().mounted) {
      return ::unshare(CLONE_NEWNS) == 0 && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
             ::mount("tmpfs", folder_.c_str(), "tmpfs", 0, "size=3m") == 0;
    }
    const struct ::rlimit limit{limit_bytes, limit_bytes};
    return ::setrlimit(RLIMIT_FSIZE, &limit) == 0;  // whose signal ends a process that does not expect it
  }
};

constexpr ground grounds[] = {{"undo_on_a_full_tmpfs", NVM_MEDIUM_SHM, NVM_ENGINE_UNDO, true},
                              {"log_on_a_full_tmpfs", NVM_MEDIUM_SHM, NVM_ENGINE_LOG, true},
                              {"ssd_on_a_full_tmpfs", NVM_MEDIUM_SSD, NVM_ENGINE_UNDO, true},
                              {"log_on_ssd_on_a_full_tmpfs", NVM_MEDIUM_SSD, NVM_ENGINE_LOG, true},
                              {"undo_with_a_limit", NVM_MEDIUM_SHM, NVM_ENGINE_UNDO, false},
                              {"log_with_a_limit", NVM_MEDIUM_SHM, NVM_ENGINE_LOG, false},
                              {"ssd_with_a_limit", NVM_MEDIUM_SSD, NVM_ENGINE_UNDO, false},
                              {"log_on_ssd_with_a_limit", NVM_MEDIUM_SSD, NVM_ENGINE_LOG, false}};
INSTANTIATE_TEST_SUITE_P(pools, full_device, testing::ValuesIn(grounds),
                         [](const auto& i) { return std::string{i.param.name}; });

struct block {
  block* next;
  long number;
  char bytes[15'000];
};

// A list at the root, by a transaction for each block.  0, or -1 with the error.
int push(NVM_POOL* pool, long number) {
  if (nvm_tx_begin(pool) != 0) return -1;
  auto* const b = static_cast<block*>(nvm_alloc(pool, 1, sizeof(block)));
  if (b != nullptr) {
    b->next = static_cast<block*>(nvm_pool_get_root(pool));
    b->number = number;
    std::memset(b->bytes, static_cast<int>(number), sizeof b->bytes);
    if (nvm_pool_set_root(pool, b) == 0) return nvm_tx_commit(pool);
  }
  (void)nvm_tx_abort(pool);
  return -1;
}
int pop(NVM_POOL* pool) {
  if (nvm_tx_begin(pool) != 0) return -1;
  auto* const b = static_cast<block*>(nvm_pool_get_root(pool));
  if (nvm_pool_set_root(pool, b->next) == 0 && nvm_free(pool, b) == 0) return nvm_tx_commit(pool);
  (void)nvm_tx_abort(pool);
  return -1;
}
bool holds(NVM_POOL* pool, long blocks) {
  for (const auto* b = static_cast<const block*>(nvm_pool_get_root(pool)); b != nullptr; b = b->next) {
    if (b->number != --blocks || b->bytes[0] != static_cast<char>(b->number) ||
        b->bytes[14'999] != static_cast<char>(b->number)) {
      return false;
    }
  }
  return blocks == 0;
}

TEST_P(full_device, makes_growth_fail_and_loses_nothing) {
  const int end = where_it_is_full([&] {
    NVM_POOL* pool = create(1 << 20);
    if (pool == nullptr) return 1;
    long blocks = 0;
    while (push(pool, blocks) == 0) ++blocks;
    if (blocks < 20) return 2;
    if (!says(NVM_E_NO_SPACE)) return 3;  // of the log-structured engine: that its log is full
    if (!holds(pool, blocks)) return 4;
    for (int i = 0; i < 3; ++i) {
      if (push(pool, blocks) == 0 || nvm_errno() != NVM_E_NO_SPACE) return 5;
    }
    // Room that is given back is used again.
    for (long i = blocks / 2; i != 0; --i, --blocks) {
      if (pop(pool) != 0) return 6;
    }
    for (int i = 0; i < 3; ++i, ++blocks) {
      if (push(pool, blocks) != 0) return 7;
    }
    if (nvm_pool_close(pool) != 0) return 8;
    if (nvm_pool_check(path_.c_str(), nullptr, nullptr, nullptr) != 0) return 9;
    pool = nvm_pool_open(path_.c_str());
    if (pool == nullptr) return 10;
    if (!holds(pool, blocks)) return 11;
    return nvm_pool_close(pool) == 0 ? 0 : 12;
  });
  if (end == may_not) GTEST_SKIP() << "may not mount";
  EXPECT_EQ(end, 0);
}

// A region of pages, all of one byte.
int add_region(nvm_regions* set, std::uint64_t rid) {
  static char bytes[15'000];
  std::memset(bytes, static_cast<int>(rid), sizeof bytes);
  return nvm_region_create_with(set, rid, bytes, sizeof bytes, 0);
}
bool holds_regions(nvm_regions* set, std::uint64_t first, std::uint64_t end) {
  static char bytes[15'001];
  for (std::uint64_t rid = first; rid < end; ++rid) {
    if (nvm_region_read(set, rid, 0, bytes, sizeof bytes) != 15'000) return false;
    for (std::size_t i = 0; i < 15'000; ++i) {
      if (bytes[i] != static_cast<char>(rid)) return false;
    }
  }
  std::uint64_t count = 0;
  return nvm_regions_count(set, &count) == 0 && count == end - first;
}

TEST_P(full_device, refuses_regions_and_loses_none) {
  if (GetParam().engine == NVM_ENGINE_LOG) GTEST_SKIP() << "has no regions";
  const int end = where_it_is_full([&] {
    NVM_POOL* pool = create(1 << 20);
    nvm_regions* set = pool == nullptr ? nullptr : nvm_regions_open(pool, "it", nullptr);
    if (set == nullptr) return 1;
    std::uint64_t regions = 0;
    while (add_region(set, regions) == 0) ++regions;
    if (regions < 20) return 2;
    if (!says(NVM_E_NO_SPACE)) return 3;
    if (!holds_regions(set, 0, regions)) return 4;
    for (int i = 0; i < 3; ++i) {
      if (add_region(set, regions) == 0 || nvm_errno() != NVM_E_NO_SPACE) return 5;
    }
    // What fits a record can be changed, and it can be emptied.
    const char same = 1;
    if (nvm_region_write(set, 1, 100, &same, 1) != 0 || nvm_region_truncate(set, 2, 15'000) != 0) return 6;
    const std::uint64_t half = regions / 2;
    for (std::uint64_t rid = 0; rid < half; ++rid) {
      if (nvm_region_drop(set, rid) != 0) return 7;
    }
    for (int i = 0; i < 3; ++i, ++regions) {
      if (add_region(set, regions) != 0) return 8;
    }
    if (!holds_regions(set, half, regions)) return 9;
    if (nvm_pool_close(pool) != 0) return 10;
    if (nvm_pool_check(path_.c_str(), nullptr, nullptr, nullptr) != 0) return 11;
    pool = nvm_pool_open(path_.c_str());
    set = pool == nullptr ? nullptr : nvm_regions_open(pool, "it", nullptr);
    if (set == nullptr || !holds_regions(set, half, regions)) return 12;
    return nvm_pool_close(pool) == 0 ? 0 : 13;
  });
  if (end == may_not) GTEST_SKIP() << "may not mount";
  EXPECT_EQ(end, 0);
}

TEST_P(full_device, makes_creation_fail_and_leaves_no_file) {
  const int end = where_it_is_full([&] {
    if (create(8 << 20) != nullptr) return 1;
    if (!says(NVM_E_NO_SPACE)) return 2;
    return std::filesystem::exists(path_) ? 3 : 0;
  });
  if (end == may_not) GTEST_SKIP() << "may not mount";
  EXPECT_EQ(end, 0);
}

}  // namespace
}  // namespace nvm::tests
