// Allocation in object stores beside the thread that detaches them: it lands in the store that is meant, or is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "../sanitized.hpp"
#include "collected_stores.hpp"
#include "nvm/stm.h"

namespace nvm::tests {
namespace {

using namespace collection;

class late_allocations : public collected_stores {
 protected:
  // A store with a root, so that it is collected where it grows.
  [[nodiscard]] nvm_store* made_with_root(const char* name) {
    nvm_store* const s = nvm_store_attach(pool_, name, NVM_STORE_CREATE);
    EXPECT_NE(s, nullptr) << nvm_errormsg();
    if (s == nullptr || nvm_store_get_root(s) != nullptr) return s;
    link* const n = push_alone(s, nvm_store_number(s));
    EXPECT_NE(n, nullptr);
    return s;
  }
  // One more object, which says where it was put.  NVM_E_INVALID: the store was detached.
  static void put(nvm_store* s, std::size_t bytes, bool& made) {
    made = false;
    auto* const n = static_cast<link*>(nvm_store_calloc(s, link_id, bytes / sizeof(link), sizeof(link)));
    if (n == nullptr) {
      ASSERT_EQ(nvm_errno(), NVM_E_INVALID) << nvm_errormsg();
      return;
    }
    ASSERT_EQ(nvm_store_of(n), s);
    for (std::size_t i = 0; i < bytes / sizeof(link); ++i) n[i].number = nvm_store_number(s);
    made = true;
  }
  static int put_by_barriers(nvm_stm* tx, void* to) {
    auto* const s = static_cast<nvm_store*>(to);
    auto* const n = static_cast<link*>(nvm_stm_store_alloc(tx, s, link_id, sizeof(link)));
    if (n == nullptr) return 1;
    *n = {nvm_store_number(s), nullptr, nullptr, {}};
    return 0;
  }
};
INSTANTIATE_TEST_SUITE_P(on, late_allocations, testing::ValuesIn(kinds_of_build(kinds)),
                         [](const auto& i) { return i.param.name; });

// Handles are refused until 256 others have been detached: no round may use up so many.
TEST_P(late_allocations, land_in_their_store_or_nowhere) {
  constexpr unsigned threads_count = 4;
  const int rounds = sanitized ? 40 : 120;
  constexpr std::array names{"first", "second", "third"};
  configure(NVM_STORES_COLLECT_LOCALLY, 1);
  std::atomic<nvm_store*> now{made_with_root(names[0])};
  std::atomic<bool> over{false};
  std::atomic<std::uint64_t> allocating{0};
  std::atomic<bool> detaching{false};
  std::vector<std::thread> threads;
  for (unsigned who = 0; who < threads_count; ++who) {
    threads.emplace_back([&, who] {
      for (unsigned i = who; !over.load(); ++i) {
        // A detach is refused while a transaction is open that has allocated there: now and then there is none.
        if (detaching.load() && i % 4 != 0) std::this_thread::sleep_for(std::chrono::milliseconds{1});
        nvm_store* const s = now.load();
        allocating.fetch_add(1);
        if (i % 5 == 4) {
          (void)nvm_stm_run(pool_, put_by_barriers, s);
          continue;
        }
        ASSERT_EQ(nvm_tx_begin(pool_), 0) << nvm_errormsg();
        bool made = false;
        put(s, i % 7 == 0 ? 100 * sizeof(link) : sizeof(link) * (1 + i % 3), made);
        ASSERT_EQ(made && i % 3 == 0 ? nvm_tx_commit(pool_) : nvm_tx_abort(pool_), 0) << nvm_errormsg();
      }
    });
  }
  int gone = 0;
  for (int round = 1; round <= rounds; ++round) {
    for (const std::uint64_t until = allocating.load() + 20; allocating.load() < until;) std::this_thread::yield();
    const std::string old = nvm_store_name(now.load());
    // The structure of the store that is detached is that of the next one.
    int code = -1;
    detaching.store(true);
    for (int i = 0; i < 100'000 && code != 0; ++i) {
      code = nvm_store_detach(now.load());
      ASSERT_TRUE(code == 0 || nvm_errno() == NVM_E_BUSY) << nvm_errormsg();
    }
    ASSERT_EQ(code, 0) << nvm_errormsg();
    detaching.store(false);
    ++gone;
    now.store(made_with_root(names[static_cast<std::size_t>(round) % names.size()]));
    if (round % 2 == 0) {
      ASSERT_EQ(nvm_store_delete(pool_, old.c_str()), 0) << nvm_errormsg();
    }
  }
  over.store(true);
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(gone, rounds);
  std::vector<nvm_store*> all;
  for (const char* const name : names) all.push_back(made_with_root(name));
  // Clusters that a delete could not free then are freed by the next one.
  ASSERT_EQ(nvm_store_create(pool_, "last", nullptr), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_store_delete(pool_, "last"), 0) << nvm_errormsg();
  int strangers = 0;
  EXPECT_EQ(nvm_pool_each(
                pool_,
                [](void* p, std::uint32_t type, std::size_t, void* to) {
                  if (type != link_id) return 0;
                  const nvm_store* const s = nvm_store_of(p);
                  *static_cast<int*>(to) += s == nullptr || nvm_store_number(s) != static_cast<link*>(p)->number;
                  return 0;
                },
                &strangers),
            0)
      << nvm_errormsg();
  EXPECT_EQ(strangers, 0);
}

}  // namespace
}  // namespace nvm::tests
