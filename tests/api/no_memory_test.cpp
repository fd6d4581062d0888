// Volatile memory may run out at any allocation that the library makes: the call returns NVM_E_NO_MEMORY, the pool
// stays usable, and the interrupted change is there as a whole or not at all.
#include <unistd.h>

#include <cstring>

#include "life_in_shortage.hpp"

namespace nvm::tests {
namespace {

constexpr int numbers = 64;
constexpr int objects = 40;
constexpr std::size_t large_bytes = 60000;  // the pool has to grow for it
// What the root names.
struct table {
  long number[numbers];  // all the same: that of the last transaction
  void*
      object[objects];  // made by the last transaction: 0 a word, 1 a large object, 2 a text, 3 resized, others a word
};

int hooks_run = 0;
void count_hook(NVM_POOL*, nvm_tx_event, void*) { ++hooks_run; }

class life final : public life_in_shortage {
 public:
  explicit life(bool ssd) : ssd_{ssd} {}

 private:
  int create() {
    nvm_pool_options o{};
    o.size = 1 << 18;
    o.capacity = 8 << 20;
    o.medium = ssd_ ? NVM_MEDIUM_SSD : NVM_MEDIUM_SHM;
    o.log_bytes = ssd_ ? 1 << 20 : 4096;  // a lane overflows
    o.lanes = 2;
    o.meter = 1;
    pool_ = nvm_pool_create_with(path().c_str(), &o);
    if (pool_ != nullptr) return 0;
    EXPECT_NE(::access(path().c_str(), F_OK), 0) << "a failed creation left a file";
    return -1;
  }
  int open(bool read_only) {
    nvm_pool_options o{};
    o.read_only = read_only ? 1 : 0;
    o.lanes = ssd_ ? 2 : 0;
    pool_ = nvm_pool_open_with(path().c_str(), &o);
    return pool_ != nullptr ? 0 : -1;
  }
  void before() override { last_ = -1; }
  void live() override {
    attempt("create", [&] { return create(); });
    attempt("make the table", [&] { return make_table(); });
    for (long n = 1; n <= 4; ++n) {
      attempt("transaction", [&] { return transact(n); });
    }
    attempt("info", [&] {
      nvm_pool_info info{};
      nvm_statistics statistics{};
      if (nvm_pool_get_info(pool_, &info) != 0 || nvm_pool_inspect(path().c_str(), &info) != 0) return -1;
      return nvm_pool_get_statistics(pool_, &statistics);
    });
    close();
    attempt("check", [&] { return check(); });
    attempt("open", [&] { return open(false); });
    attempt("index", [&] { return nvm_pool_build_index(pool_, 2); });
    attempt("transaction after open", [&] { return transact(5); });
    attempt("walk", [&] { return count() < 0 ? -1 : 0; });
    close();
    attempt("open to read", [&] { return open(true); });
    attempt("walk to read", [&] { return count() < 0 ? -1 : 0; });
    close();
  }
  void look_again() override {
    EXPECT_EQ(check(), 0) << nvm_errormsg();
    ASSERT_EQ(open(false), 0) << nvm_errormsg();
    look();
    EXPECT_EQ(transact(6), 0) << nvm_errormsg();
    look();
    close();
  }

  table* root() const { return static_cast<table*>(nvm_pool_get_root(pool_)); }

  int rolled_back(bool begun) {
    // What abort, which cannot fail, does with the error is the caller's business: it is kept.
    const int code = nvm_errno();
    while (begun && nvm_tx_depth(pool_) != 0) EXPECT_EQ(nvm_tx_abort(pool_), 0);
    EXPECT_EQ(nvm_errno(), code);
    return -1;
  }

  int make_table() {
    if (nvm_tx_begin(pool_) != 0) return -1;
    auto* t = static_cast<table*>(nvm_calloc(pool_, 1, 1, sizeof(table)));
    if (t == nullptr || nvm_pool_set_root(pool_, t) != 0) return rolled_back(true);
    if (nvm_tx_commit(pool_) != 0) return -1;
    last_ = 0;
    return 0;
  }

  // Many ranges of the table announced at once, no two of which touch.
  static int log_numbers(table* t) {
    for (const int odd : {0, 1}) {
      nvm_range ranges[numbers / 2];
      for (int i = 0; i < numbers / 2; ++i) ranges[i] = {&t->number[2 * i + odd], sizeof(long)};
      if (nvm_tx_log_many(ranges, numbers / 2) != 0) return -1;
      for (int i = 0; i < numbers / 2; ++i) t->number[2 * i + odd] = -2;
    }
    return nvm_tx_log(t->object, sizeof t->object);
  }
  static void set_numbers(table* t, long n) {
    for (long& x : t->number) x = n;
  }

  // Every kind of call that a transaction is made of; the table and its objects get the number n.
  int change(table* t, long n) {
    if (nvm_tx_on(pool_, NVM_TX_ON_COMMIT, count_hook, nullptr) != 0) return -1;
    if (log_numbers(t) != 0) return -1;
    set_numbers(t, n);
    if (t->object[1] != nullptr) {
      if (nvm_tx_log(t->object[1], large_bytes) != 0) return -1;
      std::memset(t->object[1], 0xEE, large_bytes);
    }
    for (void*& o : t->object) {
      if (nvm_free(pool_, o) != 0) return -1;
      o = nullptr;
    }
    for (int i = 0; i < objects; ++i) {
      void*& o = t->object[i];
      if (i == 1) {
        o = nvm_calloc(pool_, 2, 1, large_bytes);
      } else if (i == 2) {
        o = nvm_strdup(pool_, std::string(8, static_cast<char>('a' + n)).c_str());
      } else if (i == 3) {
        void* small = nvm_alloc(pool_, 3, 100);
        o = small == nullptr ? nullptr : nvm_realloc(pool_, small, 3, 3000);
      } else {
        o = nvm_alloc(pool_, 4, 64);
      }
      if (o == nullptr) return -1;
      if (i != 2) *static_cast<long*>(o) = n;
    }
    // A level that aborts, and one that is kept.
    for (const bool keep : {false, true}) {
      if (nvm_tx_begin(pool_) != 0) return -1;
      if (log_numbers(t) != 0 || nvm_tx_log(t->object[3], 3000) != 0) return -1;
      set_numbers(t, keep ? n : -1);
      if (!keep) std::memset(t->object[3], 0xDD, 3000);
      void* extra = nvm_alloc(pool_, 5, 500);
      if (extra == nullptr) return -1;
      if (keep && nvm_free(pool_, extra) != 0) return -1;
      if ((keep ? nvm_tx_commit(pool_) : nvm_tx_abort(pool_)) != 0) return -1;
    }
    return 0;
  }
  int transact(long n) {
    if (nvm_tx_begin(pool_) != 0) return -1;
    if (change(root(), n) != 0) return rolled_back(true);
    const int before = hooks_run;
    int ended = 0;
    if (n % 2 == 0) {
      ended = nvm_tx_commit(pool_);
    } else {
      std::uint64_t lsn = 0;
      ended = nvm_tx_commit_async(pool_, &lsn);
      if (ended == 0) {
        EXPECT_EQ(nvm_wait(pool_, lsn), 0) << nvm_errormsg();
      }
    }
    EXPECT_EQ(hooks_run - before, ended == 0 ? 1 : 0);
    EXPECT_EQ(nvm_tx_depth(pool_), 0U);
    if (ended == 0) last_ = n;
    return ended;
  }

  long count() {
    long n = 0;
    const int answer = nvm_pool_each(
        pool_,
        [](void*, std::uint32_t, std::size_t, void* argument) {
          ++*static_cast<long*>(argument);
          return 0;
        },
        &n);
    return answer == 0 ? n : -1;
  }
  // The pool shows the last transaction and nothing else.
  void look() override {
    EXPECT_EQ(nvm_tx_depth(pool_), 0U);
    table* t = root();
    if (last_ < 0) {
      EXPECT_EQ(t, nullptr);
      EXPECT_EQ(count(), 0);
      return;
    }
    ASSERT_NE(t, nullptr) << nvm_errormsg();
    for (const long n : t->number) ASSERT_EQ(n, last_);
    ASSERT_EQ(count(), last_ == 0 ? 1 : 1 + objects);
    for (int i = 0; i < objects && last_ != 0; ++i) {
      if (i == 2) {
        EXPECT_EQ(static_cast<char*>(t->object[2]), std::string(8, static_cast<char>('a' + last_)));
      } else {
        ASSERT_EQ(*static_cast<long*>(t->object[i]), last_) << i;
      }
    }
    if (last_ == 0) return;
    const auto* large = static_cast<const char*>(t->object[1]);
    static constexpr char zeros[large_bytes] = {};
    ASSERT_EQ(std::memcmp(large + sizeof(long), zeros, large_bytes - sizeof(long)), 0);
  }

  bool ssd_;
  long last_ = -1;  // transaction that committed last; 0: the table was made, -1: nothing
};

// A check of a log-structured pool that was closed loads what the close has saved and recovers the log, and compares.
class checked_life final : public life_in_shortage {
  void before() override {
    nvm_pool_options o{};
    o.size = o.capacity = 2 << 20;
    o.medium = NVM_MEDIUM_SHM;
    o.engine = NVM_ENGINE_LOG;
    NVM_POOL* pool = nvm_pool_create_with(path().c_str(), &o);
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    for (int i = 0; i < objects; ++i) {
      ASSERT_EQ(nvm_tx_begin(pool), 0);
      ASSERT_NE(nvm_alloc(pool, 1, 100), nullptr) << nvm_errormsg();
      ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
    }
    ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  }
  void live() override {
    attempt("check", [&] { return check(); });
  }
};

class no_memory : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(media, no_memory, testing::Bool(), [](const auto& i) { return i.param ? "ssd" : "shm"; });

TEST_P(no_memory, at_any_allocation_loses_nothing) { life{GetParam()}.run_all(false, 100); }
TEST_P(no_memory, from_any_allocation_on_loses_nothing) { life{GetParam()}.run_all(true, 100); }

TEST(no_memory_to_check, at_any_allocation_is_told) { checked_life{}.run_all(false, 20); }
TEST(no_memory_to_check, from_any_allocation_on_is_told) { checked_life{}.run_all(true, 20); }

}  // namespace
}  // namespace nvm::tests
