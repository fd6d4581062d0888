// Lock-free structures when volatile memory runs out at any allocation: the call says NVM_E_NO_MEMORY and has done
// nothing or all of it, the pool stays usable, and no node is lost.  Method: no_memory_test.cpp.
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <string>
#include <thread>

#include "nvm/lockfree.h"
#include "shortage.hpp"

namespace nvm::tests {
namespace {

struct at {
  bool ssd;
  std::uint32_t kind;
};

class life {
 public:
  explicit life(at where) : where_{where} {
    // A log ring works on any file system; here its syncs cost nothing.
    std::string name = "/dev/shm/holdfast-memory-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "no folder " << name;
    folder_ = name;
    path_ = folder_ + "/pool";
  }
  ~life() { std::filesystem::remove_all(folder_); }
  life(const life&) = delete;
  life& operator=(const life&) = delete;

  // True if the shortage struck.
  bool run(long first, bool lasting) {
    std::filesystem::remove(path_);
    model_ = {};
    std::thread{[&] {
      memory.arm(first, lasting);
      live();
      memory.relieve();
      if (!testing::Test::HasFailure()) look_again();
    }}.join();
    return memory.struck();
  }

 private:
  static constexpr std::uint64_t keys = 600;
  static constexpr std::uint64_t key_prime = 1009;
  // Value of each key, 0: not there.  No memory is taken for it while the library has none.
  using numbers = std::array<std::uint64_t, key_prime>;

  // Calls `f` (less than 0: failed), once more after a failure.
  template <class F>
  void attempt(const char* what, F&& f) {
    if (testing::Test::HasFailure() || f() >= 0) return;
    EXPECT_TRUE(memory.struck()) << what << ": " << nvm_errormsg();
    EXPECT_EQ(nvm_errno(), NVM_E_NO_MEMORY) << what << ": " << nvm_errormsg();
    memory.relieve();
    EXPECT_GE(f(), 0) << what << ", again: " << nvm_errormsg();
  }
  int create() {
    nvm_pool_options o{};
    o.size = 1 << 20;
    o.capacity = 16 << 20;
    o.medium = where_.ssd ? NVM_MEDIUM_SSD : NVM_MEDIUM_SHM;
    o.log_bytes = where_.ssd ? 1 << 20 : 4096;
    o.lanes = 2;
    pool_ = nvm_pool_create_with(path_.c_str(), &o);
    return pool_ != nullptr ? 0 : -1;
  }
  int open() {
    pool_ = nvm_pool_open(path_.c_str());
    return pool_ != nullptr ? 0 : -1;
  }
  void close() {
    if (testing::Test::HasFailure()) return;
    const int closed = nvm_pool_close(pool_);
    pool_ = nullptr;
    structure_ = nullptr;
    if (closed == 0) return;
    EXPECT_EQ(nvm_errno(), NVM_E_NO_MEMORY) << nvm_errormsg();
    memory.relieve();
  }
  int need() {
    nvm_lf_options o{};
    o.kind = where_.kind;
    o.expected = 8;
    structure_ = nvm_lf_open(pool_, "one", &o);
    return structure_ != nullptr ? 0 : -1;
  }
  void put(std::uint64_t key, std::uint64_t value) {
    attempt("put", [&] { return nvm_lf_put64(structure_, key, value, 0); });
    model_[key] = value;
  }
  void remove(std::uint64_t key) {
    attempt("remove", [&] { return nvm_lf_remove64(structure_, key); });
    model_[key] = 0;
  }
  int check() {
    nvm_check_options o{};
    o.report = [](std::uint64_t where, const char* finding, void*) { ADD_FAILURE() << where << ": " << finding; };
    const std::int64_t found = nvm_pool_check_with(path_.c_str(), &o, nullptr);
    EXPECT_LE(found, 0);
    return static_cast<int>(found);
  }

  // More than a generation is removed, and a hash table of 8 keys grows.
  void change(std::uint64_t round) {
    for (std::uint64_t key = 1; key <= keys; ++key) put(key * 7919 % key_prime, key + round);
    for (std::uint64_t key = 1; key <= keys; key += 2) remove(key * 7919 % key_prime);
  }
  void live() {
    attempt("create", [&] { return create(); });
    attempt("make the structure", [&] { return need(); });
    change(0);
    close();
    attempt("check", [&] { return check(); });
    attempt("open", [&] { return open(); });
    attempt("open the structure", [&] { return need(); });
    change(1);
    close();
  }
  void look_again() {
    EXPECT_EQ(check(), 0) << nvm_errormsg();
    ASSERT_EQ(open(), 0) << nvm_errormsg();
    ASSERT_EQ(need(), 0) << nvm_errormsg();
    numbers found{};
    EXPECT_EQ(nvm_lf_each64(
                  structure_,
                  [](std::uint64_t key, std::uint64_t value, void* to) {
                    static_cast<numbers*>(to)->at(key) = value;
                    return 0;
                  },
                  &found),
              0);
    EXPECT_EQ(found, model_);
    close();
  }

  const at where_;
  std::string folder_, path_;
  NVM_POOL* pool_ = nullptr;
  nvm_lf* structure_ = nullptr;
  numbers model_{};
};

class no_memory_structures : public testing::TestWithParam<at> {};
INSTANTIATE_TEST_SUITE_P(kinds, no_memory_structures,
                         testing::Values(at{false, NVM_LF_LIST}, at{false, NVM_LF_HASH}, at{false, NVM_LF_SKIP_LIST},
                                         at{false, NVM_LF_TREE}, at{true, NVM_LF_HASH}),
                         [](const auto& i) {
                           return std::string{i.param.ssd ? "ssd" : "shm"} + std::to_string(i.param.kind);
                         });

TEST_P(no_memory_structures, at_any_allocation_loses_nothing) {
  for (const bool lasting : {false, true}) {
    life one{GetParam()};
    long first = 1;
    while (one.run(first, lasting)) {
      ASSERT_FALSE(HasFailure()) << "allocation " << first;
      ++first;
    }
    EXPECT_GT(first, 50);
  }
}

}  // namespace
}  // namespace nvm::tests
