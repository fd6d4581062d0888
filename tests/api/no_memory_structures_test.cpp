// Lock-free structures when volatile memory runs out at any allocation: the call says NVM_E_NO_MEMORY and has done
// nothing, the pool stays usable, and no node is lost.
#include "nvm/lockfree.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <utility>

#include "life_in_shortage.hpp"
#include "nvm/kv.h"

namespace nvm::tests {
namespace {

struct at {
  bool ssd;
  std::uint32_t kind;
  std::uint32_t flags = 0;
};

class life_of_structures final : public life_in_shortage {
 public:
  explicit life_of_structures(at where) : where_{where} {}

 private:
  static constexpr std::uint64_t keys = 600;
  static constexpr std::uint64_t key_prime = 1009;
  // Value of each key, 0: not there.  No memory is taken for it while the library has none.
  using numbers = std::array<std::uint64_t, key_prime>;

  int create() {
    nvm_pool_options o{};
    o.size = 1 << 20;
    o.capacity = 16 << 20;
    o.medium = where_.ssd ? NVM_MEDIUM_SSD : NVM_MEDIUM_SHM;
    o.log_bytes = where_.ssd ? 1 << 20 : 4096;
    o.lanes = 2;
    pool_ = nvm_pool_create_with(path().c_str(), &o);
    return pool_ != nullptr ? 0 : -1;
  }
  int open() {
    pool_ = nvm_pool_open(path().c_str());
    return pool_ != nullptr ? 0 : -1;
  }
  int need() {
    nvm_lf_options o{};
    o.kind = where_.kind;
    o.flags = where_.flags;
    o.expected = 8;
    structure_ = nvm_lf_open(pool_, "one", &o);
    return structure_ != nullptr ? 0 : -1;
  }
  void put(std::uint64_t key, std::uint64_t value) {
    changes_ = key;
    attempt("put", [&] { return told(nvm_lf_put64(structure_, key, value, 0), model_[key] == 0 ? 1 : 2); });
    changes_ = 0;
    model_[key] = value;
  }
  void remove(std::uint64_t key) {
    changes_ = key;
    attempt("remove", [&] { return told(nvm_lf_remove64(structure_, key), 1); });
    changes_ = 0;
    model_[key] = 0;
  }
  static int told(int answer, int right) {
    if (answer >= 0) {
      EXPECT_EQ(answer, right);
    }
    return answer;
  }
  // After a change that failed, before it is made again: the entry is as it was.
  void look() override {
    const std::uint64_t key = std::exchange(changes_, 0);
    if (key == 0) return;
    std::uint64_t found = 0;
    EXPECT_EQ(nvm_lf_get64(structure_, key, &found), model_[key] != 0 ? 1 : 0) << nvm_errormsg();
    EXPECT_EQ(found, model_[key]) << "a change that failed has been made";
  }
  // More than a generation is removed, and a hash table of 8 keys grows.
  void change(std::uint64_t round) {
    for (std::uint64_t key = 1; key <= keys; ++key) put(key * 7919 % key_prime, key + round);
    for (std::uint64_t key = 1; key <= keys; key += 2) remove(key * 7919 % key_prime);
  }
  void before() override { model_ = {}; }
  void live() override {
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
  void look_again() override {
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
  nvm_lf* structure_ = nullptr;
  std::uint64_t changes_ = 0;  // key of the change that is being tried
  numbers model_{};
};

class no_memory_structures : public testing::TestWithParam<at> {};
INSTANTIATE_TEST_SUITE_P(kinds, no_memory_structures,
                         testing::Values(at{false, NVM_LF_LIST}, at{false, NVM_LF_HASH}, at{false, NVM_LF_SKIP_LIST},
                                         at{false, NVM_LF_TREE}, at{true, NVM_LF_HASH},
                                         at{false, NVM_LF_LIST, NVM_LF_VOLATILE_LINKS},
                                         at{false, NVM_LF_HASH, NVM_LF_VOLATILE_LINKS},
                                         at{false, NVM_LF_SKIP_LIST, NVM_LF_VOLATILE_LINKS},
                                         at{true, NVM_LF_HASH, NVM_LF_VOLATILE_LINKS}),
                         [](const auto& i) {
                           return std::string{i.param.ssd ? "ssd" : "shm"} + std::to_string(i.param.kind) +
                                  (i.param.flags != 0 ? "_volatile_links" : "");
                         });

TEST_P(no_memory_structures, at_any_allocation_loses_nothing) {
  for (const bool lasting : {false, true}) life_of_structures{GetParam()}.run_all(lasting, 50);
}

// A cursor that had no memory for an entry goes on with that entry.
class life_of_walks final : public life_in_shortage {
  static constexpr std::uint64_t keys = 70;

  void before() override {
    pool_ = nvm_pool_create(path().c_str(), 16 << 20);
    ASSERT_NE(pool_, nullptr) << nvm_errormsg();
    nvm_kv_options o{};
    o.index = NVM_KV_REGIONS;
    store_ = nvm_kv_open(pool_, "one", &o);
    ASSERT_NE(store_, nullptr) << nvm_errormsg();
    std::string value;
    for (std::uint64_t k = 0; k < keys; ++k) {
      value.assign(k % 3 == 0 ? 900 : 20, 'v');  // in a region of its own, or in a bucket
      ASSERT_EQ(nvm_kv_put(store_, &k, sizeof k, value.data(), value.size()), 0) << nvm_errormsg();
    }
  }
  void live() override {
    nvm_kv_cursor* cursor = nullptr;
    attempt("open", [&] { return (cursor = nvm_kv_cursor_open(store_, nullptr)) != nullptr ? 0 : -1; });
    std::array<unsigned, keys + 1> met{};
    unsigned seen = 0;
    for (int more = 1; more == 1 && !testing::Test::HasFailure();) {
      nvm_kv_entry e;
      attempt("next", [&] { return more = nvm_kv_cursor_next(cursor, &e); });
      if (more != 1) continue;
      std::uint64_t k = 0;
      std::memcpy(&k, e.key, sizeof k);
      ++met.at(k);
      // Noted for the walk, where there is memory for that.
      if (++seen != 10) continue;
      k = keys;
      attempt("put", [&] { return nvm_kv_put(store_, &k, sizeof k, large.data(), large.size()); });
    }
    nvm_kv_cursor_close(cursor);
    for (std::uint64_t k = 0; k < keys; ++k) EXPECT_EQ(met[k], 1U) << k;
    std::int64_t size = 0;
    attempt("size", [&] { return (size = nvm_kv_size(store_)) < 0 ? -1 : 0; });
    EXPECT_LE(met[keys], 1U);
    EXPECT_EQ(size, std::int64_t{keys} + 1);
    EXPECT_EQ(nvm_kv_close(store_), 0) << nvm_errormsg();
    close();
  }

  const std::string large = std::string(900, 'v');
  nvm_kv* store_ = nullptr;
};
TEST(no_memory_walks, at_any_allocation_miss_nothing) {
  for (const bool lasting : {false, true}) life_of_walks{}.run_all(lasting, 20);
}

// A process whose call cannot open the structures anew goes on with them as they are, and dies.
TEST(no_memory_to_open_anew, keeps_what_was_stored_after_the_failure) {
  constexpr std::uint64_t before = 20, after = 10;
  nvm_lf_options o{};
  o.kind = NVM_LF_HASH;
  o.flags = NVM_LF_VOLATILE_LINKS;
  std::string path = "/dev/shm/holdfast-anew-XXXXXX";
  ASSERT_NE(::mkdtemp(path.data()), nullptr);
  const std::string folder = path;
  path += "/pool";
  bool any_failed = false;
  int status = 0;
  for (long first = 1; status == 0; ++first) {
    std::filesystem::remove(path);
    NVM_POOL* pool = nvm_pool_create(path.c_str(), 4 << 20);
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    nvm_lf* set = nvm_lf_open(pool, "set", &o);
    for (std::uint64_t k = 0; k < before; ++k) ASSERT_EQ(nvm_lf_put64(set, k, k, 0), 1) << nvm_errormsg();
    ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    const pid_t child = ::fork();
    if (child == 0) {
      pool = nvm_pool_open(path.c_str());
      const auto nothing = [](const char*, int, void*) { return 0; };
      if (pool == nullptr || nvm_lf_names(pool, nothing, nullptr) != 0) ::_exit(3);
      nvm_lf_options other = o;
      other.links = NVM_LF_LINK_CACHE;
      injected.arm(fault::memory, ENOMEM, first, false);
      set = nvm_lf_open(pool, "set", &other);
      injected.relieve();
      const bool failed = set == nullptr;
      if (failed) set = nvm_lf_open(pool, "set", &o);
      if (set == nullptr) ::_exit(4);
      for (std::uint64_t k = before; k < before + after; ++k) {
        if (nvm_lf_put64(set, k, k, 0) != 1) ::_exit(5);
      }
      ::_exit(!injected.struck() ? 1 : failed ? 2 : 0);
    }
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) <= 2) << status;
    any_failed = any_failed || WEXITSTATUS(status) == 2;
    if (WEXITSTATUS(status) == 2) status = 0;
    pool = nvm_pool_open(path.c_str());
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    set = nvm_lf_open(pool, "set", &o);
    ASSERT_NE(set, nullptr) << "allocation " << first << ": " << nvm_errormsg();
    EXPECT_EQ(nvm_lf_count(set), before + after);
    ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  }
  EXPECT_TRUE(any_failed);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace nvm::tests
