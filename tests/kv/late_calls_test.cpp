// Calls that have begun when their store is closed, and dropped or renamed: nothing that they use goes before them.
//
// Method: a page of the value is made inaccessible, so that a call stops in the handler of the fault while it copies
// the value, and goes on when the test says so.
#include <signal.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../sanitized.hpp"
#include "kv/open_stores.hpp"
#include "kv_testing.hpp"
#include "nvm/region.h"

namespace nvm::tests {
namespace {

constexpr std::size_t page = 4096;

// A page at which the first thread that touches it stops.
class trap {
 public:
  explicit trap(const void* at) {
    struct sigaction mine{};
    mine.sa_sigaction = on_fault;
    mine.sa_flags = SA_SIGINFO | SA_ONSTACK;
    (void)::sigemptyset(&mine.sa_mask);
    where = reinterpret_cast<std::uintptr_t>(at) / page * page;
    stopped = goes_on = false;
    EXPECT_EQ(::sigaction(SIGSEGV, &mine, &before), 0);
    EXPECT_EQ(::mprotect(reinterpret_cast<void*>(where), page, PROT_NONE), 0);
  }
  ~trap() {
    open();
    (void)::sigaction(SIGSEGV, &before, nullptr);
  }
  trap(const trap&) = delete;
  trap& operator=(const trap&) = delete;

  static void wait_until_stopped() {
    while (!stopped) std::this_thread::yield();
  }
  static void let_go() { goes_on = true; }

 private:
  static void open() { (void)::mprotect(reinterpret_cast<void*>(where), page, PROT_READ | PROT_WRITE); }
  static void on_fault(int number, siginfo_t* info, void* /*context*/) {
    if (reinterpret_cast<std::uintptr_t>(info->si_addr) / page * page != where) {
      (void)::sigaction(number, &before, nullptr);  // the fault comes again
      return;
    }
    stopped = true;
    while (!goes_on) {
    }
    open();
  }
  static inline struct sigaction before{};
  static inline std::uintptr_t where = 0;
  static inline std::atomic<bool> stopped{false}, goes_on{false};
};

// Of a store of one value, in a region of its own: an address in the midst of it.
const void* midst_of_value(NVM_POOL* pool, const nvm_kv& store) {
  nvm_regions_options o{};
  o.mode = 1;
  nvm_regions* const set = nvm_regions_open(pool, keyed::lewat::set_name(store.store.seed).c_str(), &o);
  EXPECT_NE(set, nullptr) << nvm_errormsg();
  std::uint64_t rid = 0;
  const auto take = [](std::uint64_t number, std::uint64_t bytes, void* to) {
    if (bytes > 8 * page) *static_cast<std::uint64_t*>(to) = number;
    return 0;
  };
  EXPECT_EQ(nvm_region_each(set, take, &rid), 0) << nvm_errormsg();
  nvm_region_lease l{};
  EXPECT_EQ(nvm_region_hold(set, rid, &l), 0) << nvm_errormsg();
  const void* const at = static_cast<const std::byte*>(l.bytes) + l.length / 2;
  EXPECT_EQ(nvm_region_let_go(&l), 0) << nvm_errormsg();
  return at;
}

// Answer of the stopped call.
struct reply {
  int found = 0;
  int code = 0;
  std::string value{};
};

class kv_late_reads : public testing::Test {
 protected:
  void SetUp() override {
    if (by_thread_sanitizer) GTEST_SKIP() << "its handler of faults would be another";
    store = opened("doomed", NVM_KV_REGIONS);
    ASSERT_NE(store, nullptr) << nvm_errormsg();
    ASSERT_EQ(nvm_kv_put(store, "key", 3, value.data(), value.size()), 0) << nvm_errormsg();
  }
  [[nodiscard]] nvm_kv* opened(const char* name, enum nvm_kv_index index) const {
    nvm_kv_options o{};
    o.index = index;
    return nvm_kv_open(p.handle(), name, &o);
  }
  // Whether leaves(), in another thread, ends while read() is stopped in the midst of the value.
  template <class Read, class Leaves>
  bool leaves_beside(Read&& read, Leaves&& leaves) {
    const trap here{midst_of_value(p.handle(), *store)};
    std::atomic<bool> has_left{false};
    std::thread reads{[&] { read(); }};
    trap::wait_until_stopped();
    std::thread leaving{[&] {
      leaves();
      has_left = true;
    }};
    for (int i = 0; i < 200 && !has_left; ++i) std::this_thread::sleep_for(std::chrono::milliseconds{1});
    const bool beside = has_left;
    trap::let_go();
    reads.join();
    leaving.join();
    return beside;
  }
  void close_and_drop() {
    EXPECT_EQ(nvm_kv_close(store), 0) << nvm_errormsg();
    EXPECT_EQ(nvm_kv_drop(p.handle(), "doomed"), 0) << nvm_errormsg();
  }
  void close_and_rename() {
    EXPECT_EQ(nvm_kv_close(store), 0) << nvm_errormsg();
    EXPECT_EQ(nvm_kv_rename(p.handle(), "doomed", "renamed"), 0) << nvm_errormsg();
  }
  // So many stores come and go that of those before only what refuses calls is left.
  void forget_others() {
    for (std::size_t i = 0; i <= keyed::stores::whole_max; ++i) {
      nvm_kv* const other = opened("other", NVM_KV_LIST);
      ASSERT_NE(other, nullptr) << nvm_errormsg();
      ASSERT_EQ(nvm_kv_close(other), 0) << nvm_errormsg();
      ASSERT_EQ(nvm_kv_drop(p.handle(), "other"), 0) << nvm_errormsg();
    }
  }
  reply get() {
    reply r{0, 0, std::string(value.size(), '\0')};
    r.found = nvm_kv_get(store, "key", 3, r.value.data(), r.value.size(), nullptr);
    if (r.found < 0) r.code = nvm_errno();
    return r;
  }
  void expect_whole_or_refused(const reply& r) const {
    if (r.found < 0) {
      EXPECT_EQ(r.code, NVM_E_INVALID);
    } else {
      EXPECT_EQ(r.found, 1);
      EXPECT_TRUE(r.value == value);
    }
  }

  const std::string value = std::string(std::size_t{64} << 10, 'v');
  const pool_place place{grounds[0]};
  pool p = place.create();
  nvm_kv* store = nullptr;
};

TEST_F(kv_late_reads, of_an_entry_end_before_its_store_is_dropped) {
  reply r;
  EXPECT_FALSE(leaves_beside([&] { r = get(); }, [&] { close_and_drop(); }));
  expect_whole_or_refused(r);
}

TEST_F(kv_late_reads, of_a_value_that_is_visited_end_before_its_store_is_dropped) {
  reply r;
  const auto visit = [&] {
    const auto take = [](const void* bytes, std::size_t n, void* to) {
      static_cast<reply*>(to)->value.assign(static_cast<const char*>(bytes), n);
    };
    r.found = nvm_kv_visit(store, "key", 3, take, &r);
    if (r.found < 0) r.code = nvm_errno();
  };
  EXPECT_FALSE(leaves_beside(visit, [&] { close_and_drop(); }));
  expect_whole_or_refused(r);
}

TEST_F(kv_late_reads, by_a_cursor_end_before_its_store_is_dropped) {
  nvm_kv_cursor* const cursor = nvm_kv_cursor_open(store, nullptr);
  ASSERT_NE(cursor, nullptr) << nvm_errormsg();
  reply r;
  const auto next = [&] {
    nvm_kv_entry e{};
    r.found = nvm_kv_cursor_next(cursor, &e);
    if (r.found < 0) r.code = nvm_errno();
    if (r.found > 0) r.value.assign(static_cast<const char*>(e.value), e.value_bytes);
  };
  EXPECT_FALSE(leaves_beside(next, [&] { close_and_drop(); }));
  expect_whole_or_refused(r);
  nvm_kv_cursor_close(cursor);
}

TEST_F(kv_late_reads, keep_the_index_of_a_store_that_is_forgotten) {
  const std::weak_ptr<keyed::lewat::regions_index> index = store->regions;
  reply r;
  bool gone = false;
  const auto leave = [&] {
    close_and_rename();
    forget_others();
    gone = index.expired();
  };
  EXPECT_FALSE(leaves_beside([&] { r = get(); }, leave));
  expect_whole_or_refused(r);
  EXPECT_TRUE(gone);
}

// A function of the program that reads late does not keep the index, nor a drop waiting.
TEST_F(kv_late_reads, in_a_function_of_the_program_keep_nobody_waiting) {
  struct shared {
    std::function<void()> leave;
    int visits = 0;
  } all{[&] { std::thread{[&] { close_and_drop(); }}.join(); }, 0};
  const auto visit = [](const void*, std::size_t, void* raw) {
    ++static_cast<shared*>(raw)->visits;
    static_cast<shared*>(raw)->leave();
  };
  EXPECT_EQ(nvm_kv_visit(store, "key", 3, visit, &all), 1) << nvm_errormsg();
  EXPECT_EQ(all.visits, 1);
  EXPECT_EQ(get().code, NVM_E_INVALID);
}

// A transaction that began before may look for a segment at any moment.
TEST_F(kv_late_reads, of_a_hash_table_find_the_places_that_they_know) {
  nvm_kv* const hash = opened("hash", NVM_KV_HASH);
  ASSERT_NE(hash, nullptr) << nvm_errormsg();
  for (std::uint64_t i = 0; i < 1500; ++i) {
    ASSERT_EQ(nvm_kv_put(hash, number_key(i).data(), 8, "value", 5), 0) << nvm_errormsg();
  }
  ASSERT_NE(hash->store.segments.find(1), 0U);
  ASSERT_EQ(nvm_kv_close(hash), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_kv_drop(p.handle(), "hash"), 0) << nvm_errormsg();
  forget_others();
  EXPECT_NE(hash->store.segments.find(1), 0U);
}

// A set that a program drops under an open store: that is no store without entries.
TEST_F(kv_late_reads, of_a_set_that_has_gone_fail) {
  ASSERT_EQ(nvm_regions_drop(p.handle(), keyed::lewat::set_name(store->store.seed).c_str()), 0) << nvm_errormsg();
  EXPECT_EQ(get().code, NVM_E_NOT_FOUND);
  ASSERT_EQ(nvm_kv_close(store), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_kv_drop(p.handle(), "doomed"), 0) << nvm_errormsg();
}

// Calls of each kind, again and again, until the store is closed; a drop follows at once.
TEST(kv_late_calls, give_what_the_store_has_or_are_refused) {
  const pool_place place{grounds[0]};
  pool p = place.create(std::size_t{64} << 20);
  const std::string value(6000, 'v');
  std::atomic<int> failures{0};
  const auto until_refused = [&](auto&& call) {
    while (call()) {
    }
    if (nvm_errno() != NVM_E_INVALID) ++failures;
  };
  for (int round = rounds_of_build(40); round != 0; --round) {
    nvm_kv_options o{};
    o.index = NVM_KV_REGIONS;
    nvm_kv* const store = nvm_kv_open(p.handle(), "doomed", &o);
    ASSERT_NE(store, nullptr) << nvm_errormsg();
    ASSERT_EQ(nvm_kv_put(store, "large", 5, value.data(), value.size()), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_kv_put(store, "small", 5, value.data(), 10), 0) << nvm_errormsg();
    const auto get = [&](const char* key, std::size_t bytes) {
      std::string found(value.size(), '\0');
      std::size_t n = 0;
      const int answer = nvm_kv_get(store, key, 5, found.data(), found.size(), &n);
      if (answer == 0 || (answer > 0 && (n != bytes || found.compare(0, n, value, 0, n) != 0))) ++failures;
      return answer > 0;
    };
    const auto walk = [&] {
      nvm_kv_cursor* const cursor = nvm_kv_cursor_open(store, nullptr);
      if (cursor == nullptr) return false;
      nvm_kv_entry e{};
      int more = 0;
      int met = 0;
      while ((more = nvm_kv_cursor_next(cursor, &e)) > 0) {
        ++met;
        if (value.compare(0, e.value_bytes, static_cast<const char*>(e.value), e.value_bytes) != 0) ++failures;
      }
      if (more == 0 && met < 2) ++failures;
      const int code = more < 0 ? nvm_errno() : NVM_OK;
      nvm_kv_cursor_close(cursor);
      if (code != NVM_OK && code != NVM_E_INVALID) ++failures;
      return more == 0;
    };
    std::vector<std::thread> threads;
    threads.emplace_back([&] { until_refused([&] { return get("large", value.size()) && get("small", 10); }); });
    threads.emplace_back([&] { until_refused(walk); });
    threads.emplace_back([&] {
      until_refused([&] {
        nvm_kv_statistics figures;
        return nvm_kv_size(store) >= 2 && nvm_kv_get_statistics(store, &figures) == 0;
      });
    });
    threads.emplace_back([&] {
      until_refused([&] {
        return nvm_kv_put(store, "other", 5, value.data(), value.size()) == 0 && nvm_kv_remove(store, "other", 5) == 1;
      });
    });
    std::this_thread::sleep_for(std::chrono::milliseconds{round % 4});
    EXPECT_EQ(nvm_kv_close(store), 0) << nvm_errormsg();
    EXPECT_EQ(nvm_kv_drop(p.handle(), "doomed"), 0) << nvm_errormsg();
    for (std::thread& t : threads) t.join();
  }
  EXPECT_EQ(failures, 0);
}

// A function of the program may close the pool: no transaction is open meanwhile.  What comes after it is refused.
TEST(kv_late_changes, are_refused_when_the_pool_was_closed_within) {
  const pool_place place{grounds[0]};
  const nvm_pool_options as = place.options();
  NVM_POOL* const p = nvm_pool_create_with(place.path().c_str(), &as);
  ASSERT_NE(p, nullptr) << nvm_errormsg();
  nvm_kv_options o{};
  o.index = NVM_KV_REGIONS;
  nvm_kv* const store = nvm_kv_open(p, "store", &o);
  ASSERT_NE(store, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_kv_put(store, "key", 3, "value", 5), 0) << nvm_errormsg();
  const auto closes = [](void*, std::size_t*, std::size_t, void* pool) {
    EXPECT_EQ(nvm_pool_close(static_cast<NVM_POOL*>(pool)), 0) << nvm_errormsg();
    return 0;
  };
  EXPECT_EQ(nvm_kv_update(store, "key", 3, 0, closes, p), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID) << nvm_errormsg();
  EXPECT_EQ(place.findings(), 0);
}

}  // namespace
}  // namespace nvm::tests
