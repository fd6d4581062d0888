// A life of a pool through the public interface in which a chosen call of the program fails, and what must hold
// afterwards: each failure is reported with a code and a sentence about the file, nothing is leaked, and the pool,
// opened without faults, has all acknowledged changes, perhaps with the one operation that failed in doubt.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string>

#include "../fault_injection.hpp"
#include "nvm/kv.h"
#include "nvm/lockfree.h"
#include "nvm/nvm.h"
#include "nvm/region.h"

namespace nvm::tests {

struct ground {
  const char* name;
  nvm_medium medium;
  nvm_engine engine;
  bool announces;    // takes stores that are announced
  long memory_each;  // of how many allocations one fails; other tests have each fail in shorter lives
};

class pool_life {
 public:
  explicit pool_life(const ground& on);
  ~pool_life();
  pool_life(const pool_life&) = delete;
  pool_life& operator=(const pool_life&) = delete;

  // True if the fault struck.  `hidden`: the program must not notice, and every second call fails, from the `first` on.
  bool run(fault kind, int error, long first, bool lasting, bool hidden);

 private:
  static constexpr int keys = 5;
  // What the pool holds.
  struct state {
    long number = -1;  // of the last transaction; -1: there is no table
    bool grown = false;
    std::array<unsigned char, keys> store{};  // values; 0: no entry
    std::array<unsigned char, keys> structure{};
    std::array<unsigned char, keys> regions{};  // what all bytes of each are; 0: there is none
    bool operator==(const state&) const = default;
  };
  struct table;
  static std::string words_of(const state& s);

  void live();
  void open_up();        // the store, the structure, the set of regions
  void work(long from);  // transactions and entries
  void transact(long n, bool announced, bool grows);
  void put_in_store(int key, unsigned char value);
  void put_in_structure(int key, unsigned char value);
  void put_in_region(int key, unsigned char value);
  void put_in_regions(int first, int second, unsigned char value);  // a group
  void close();
  void mend(bool in_place);
  void after();

  int create();
  int open(bool read_only);
  int open_store();
  int open_structure();
  int open_regions();
  [[nodiscard]] bool read_regions(state& s);
  int make_table();
  int check();
  [[nodiscard]] std::optional<state> read();

  // One call, `f` (less than 0: failed), that leads to `next` if it succeeds; once more after a failure, where that
  // must succeed.  False: it failed for good.
  template <class F>
  bool attempt(const char* what, const state& next, F&& f);
  // Not a change.
  template <class F>
  bool attempt(const char* what, F&& f) {
    return attempt(what, acknowledged_, f);
  }
  void expect_clear_failure(const char* what, int code, const std::string& message) const;
  // Syncs of others have failed since `refused`, or some of this thread.
  void notice_failed_sync(long refused, long refused_here);
  void settle();
  void look(const char* after);
  [[nodiscard]] bool failed() const { return testing::Test::HasFailure(); }

  const ground& on_;
  std::string folder_, path_, repaired_;
  bool has_structures_ = true;
  bool has_regions_ = true;
  bool had_store_ = false;
  bool first_ = false;  // the life without faults, before all others

  fault kind_ = fault::memory;
  bool lasting_ = false;
  bool hidden_ = false;
  NVM_POOL* pool_ = nullptr;
  nvm_kv* store_ = nullptr;
  nvm_lf* structure_ = nullptr;
  nvm_regions* regions_ = nullptr;
  bool over_ = false;   // the life, not only a call
  bool fatal_ = false;  // a sync has failed in this open pool
  bool dead_ = false;   // or something else after which it takes no more commits
  state acknowledged_;
  std::optional<state> open_ended_;  // what there may be instead
};

}  // namespace nvm::tests
