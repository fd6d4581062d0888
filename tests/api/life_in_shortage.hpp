// Tests of what happens when volatile memory runs out at any allocation that the library makes.
//
// Method: a life of a pool, each of whose calls may allocate, runs again and again; in run k the k-th allocation of the
// library fails, or it and all that follow until a call has said so.  All is seen when k is beyond the last one.
#pragma once

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "../fault_injection.hpp"
#include "nvm/nvm.h"

namespace nvm::tests {

class life_in_shortage {
 public:
  life_in_shortage() {
    // A log ring works on any file system; here its syncs cost nothing.
    std::string name = "/dev/shm/holdfast-memory-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "no folder " << name;
    folder_ = name;
    path_ = folder_ + "/pool";
  }
  virtual ~life_in_shortage() { std::filesystem::remove_all(folder_); }
  life_in_shortage(const life_in_shortage&) = delete;
  life_in_shortage& operator=(const life_in_shortage&) = delete;

  // With the shortage at each allocation in turn, of which there are more than `least`.  Where it lasts, at a quarter:
  // the first one fails as it does alone.  Which ones, also of those of fault_stride, goes by the day.
  void run_all(bool lasting, long least) {
    const long stride = lasting && fault_stride == 1 ? lasting_share : fault_stride;
    long first = 1 + (day_of_run() + (lasting ? stride / 2 : 0)) % stride;
    while (run(first, lasting)) {
      ASSERT_FALSE(testing::Test::HasFailure()) << "allocation " << first;
      first += stride;
    }
    EXPECT_GT(first, least);
  }

 protected:
  static constexpr long lasting_share = 4;

  virtual void before() {}  // memory is there
  virtual void live() = 0;
  virtual void look_again() {}  // memory is there again
  // After a call that failed.
  virtual void look() {}

  // Calls `f` (less than 0: failed), once more after a failure: which is shortage of memory, has left no trace, and is
  // over now.
  template <class F>
  void attempt(const char* what, F&& f) {
    if (testing::Test::HasFailure() || f() >= 0) return;
    injected.relieve();  // what follows allocates to say what failed
    EXPECT_TRUE(injected.struck()) << what << ": " << nvm_errormsg();
    EXPECT_EQ(nvm_errno(), NVM_E_NO_MEMORY) << what << ": " << nvm_errormsg();
    if (pool_ != nullptr) look();
    EXPECT_GE(f(), 0) << what << ", again: " << nvm_errormsg();
    if (pool_ != nullptr) look();
  }
  // The pool is gone afterwards, and everything of it in the file, even when that fails.
  void close() {
    if (testing::Test::HasFailure()) return;
    const int closed = nvm_pool_close(pool_);
    pool_ = nullptr;
    if (closed == 0) return;
    EXPECT_EQ(nvm_errno(), NVM_E_NO_MEMORY) << nvm_errormsg();
    injected.relieve();
  }
  int check() {
    const std::int64_t found = nvm_pool_check(
        path().c_str(),
        [](std::uint64_t where, const char* finding, void*) { ADD_FAILURE() << where << ": " << finding; }, nullptr,
        nullptr);
    EXPECT_LE(found, 0);
    return static_cast<int>(found);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

  NVM_POOL* pool_ = nullptr;

 private:
  // True if the shortage struck.
  bool run(long first, bool lasting) {
    std::filesystem::remove(path());
    pool_ = nullptr;
    before();
    // A new thread has none of the memory that the library keeps for each.
    std::thread{[&] {
      injected.arm(fault::memory, ENOMEM, first, lasting);
      live();
      injected.relieve();
      if (!testing::Test::HasFailure()) look_again();
    }}.join();
    return injected.struck();
  }

  std::string folder_, path_;
};

}  // namespace nvm::tests
