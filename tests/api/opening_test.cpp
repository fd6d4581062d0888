// What opening a pool on ssd costs: a sync takes milliseconds, so each is counted.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <vector>

#include "platform/platform.hpp"
#include "pool/pool.hpp"
#include "scratch.hpp"

namespace nvm::tests {
namespace {

thread_local unsigned syncs_of_this_thread = 0;

// While it lives, syncs are counted for the thread that waits for them.
class counted_syncs {
 public:
  counted_syncs() {
    table_ = platform::system_file_calls();
    table_.fdatasync = [](int d) {
      ++syncs_of_this_thread;
      return ::fdatasync(d);
    };
    table_.fsync = [](int d) {
      ++syncs_of_this_thread;
      return ::fsync(d);
    };
    platform::use_file_calls(&table_);
  }
  ~counted_syncs() { platform::use_file_calls(nullptr); }
  counted_syncs(const counted_syncs&) = delete;
  counted_syncs& operator=(const counted_syncs&) = delete;
  static unsigned during(const std::function<void()>& f) {
    const unsigned before = syncs_of_this_thread;
    f();
    return syncs_of_this_thread - before;
  }

 private:
  platform::file_calls table_;
};

std::vector<char> bytes_of(const std::string& path) {
  std::ifstream in{path, std::ios::binary};
  std::vector<char> bytes{std::istreambuf_iterator<char>{in}, {}};
  std::memset(bytes.data() + layout::owner_sector, 0, sector_bytes);  // pid and time of the last owner
  return bytes;
}

constexpr std::uint64_t value_of(std::uint64_t i) { return i * 0x9E3779B97F4A7C15ULL; }

// The root is a row of words, the first one says how many.
void append(NVM_POOL* pool, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    ASSERT_EQ(nvm_tx_begin(pool), 0) << nvm_errormsg();
    auto* row = static_cast<std::uint64_t*>(nvm_pool_get_root(pool));
    ASSERT_EQ(nvm_tx_log(row, 8), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_tx_log(row + row[0] + 1, 8), 0) << nvm_errormsg();
    row[row[0] + 1] = value_of(row[0]);
    ++row[0];
    ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  }
}
void expect_whole(NVM_POOL* pool, std::uint64_t count) {
  const auto* row = static_cast<const std::uint64_t*>(nvm_pool_get_root(pool));
  ASSERT_NE(row, nullptr) << nvm_errormsg();
  ASSERT_EQ(row[0], count);
  for (std::uint64_t i = 0; i < count; ++i) ASSERT_EQ(row[i + 1], value_of(i));
}
void make(const std::string& path) {
  nvm_pool_options o{};
  o.size = 1 << 20;
  o.log_bytes = 1 << 17;
  o.medium = NVM_MEDIUM_SSD;
  NVM_POOL* pool = nvm_pool_create_with(path.c_str(), &o);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  void* row = nvm_calloc(pool, 1, 1, 8 * 4096);
  ASSERT_NE(row, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_pool_set_root(pool, row), 0);
  ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
}
// By a process that dies with the pool open.
void append_and_die(const std::string& path, std::uint64_t count) {
  const pid_t child = fork();
  if (child == 0) {
    NVM_POOL* pool = nvm_pool_open(path.c_str());
    if (pool == nullptr) _exit(1);
    append(pool, count);
    _exit(testing::Test::HasFailure() ? 2 : 0);
  }
  int how = 0;
  ASSERT_EQ(waitpid(child, &how, 0), child);
  ASSERT_EQ(how, 0);
}

TEST(opening_on_ssd, of_a_closed_pool_waits_for_no_sync_and_changes_nothing) {
  const counted_syncs counting;
  scratch place{true};
  const std::string path = place.path();
  make(path);
  const auto before = bytes_of(path);
  NVM_POOL* pool = nullptr;
  EXPECT_EQ(counted_syncs::during([&] { pool = nvm_pool_open(path.c_str()); }), 0U);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  expect_whole(pool, 0);
  EXPECT_EQ(counted_syncs::during([&] { EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg(); }), 0U);
  EXPECT_EQ(bytes_of(path), before);
}

TEST(opening_on_ssd, after_a_kill_waits_for_one_sync_and_brings_the_log_home_later) {
  const counted_syncs counting;
  scratch place{true};
  const std::string path = place.path();
  make(path);
  std::uint64_t count = 0;
  for (const std::uint64_t more : {1, 20, 300}) {  // the last go round the ring
    append_and_die(path, more);
    count += more;
    NVM_POOL* pool = nullptr;
    EXPECT_EQ(counted_syncs::during([&] { pool = nvm_pool_open(path.c_str()); }), 1U);
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    expect_whole(pool, count);
    nvm_pool_info info{};
    ASSERT_EQ(nvm_pool_get_info(pool, &info), 0) << nvm_errormsg();
    EXPECT_EQ(info.clean, 0);
    append(pool, 2);
    count += 2;
    ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    EXPECT_EQ(nvm_pool_check(path.c_str(), nullptr, nullptr, nullptr), 0);
    EXPECT_EQ(counted_syncs::during([&] { pool = nvm_pool_open(path.c_str()); }), 0U) << "it was closed";
    expect_whole(pool, count);
    ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  }
}

// A process that dies before the log is home leaves all of it to the next, whether or not it had written something.
TEST(opening_on_ssd, after_kill_upon_kill_finds_everything) {
  scratch place{true};
  const std::string path = place.path();
  make(path);
  std::uint64_t count = 0;
  for (std::uint64_t round = 0; round < 12; ++round) {
    const std::uint64_t more = round % 3 == 0 ? 0 : round % 3 == 1 ? 1 : 40;
    append_and_die(path, more);
    count += more;
  }
  NVM_POOL* pool = nvm_pool_open(path.c_str());
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  expect_whole(pool, count);
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
}

// A growth is in the log only; the pool is opened at its new size, and dies again before any of it is home.
TEST(opening_on_ssd, after_a_kill_knows_a_growth_that_only_the_log_holds) {
  scratch place{true};
  const std::string path = place.path();
  nvm_pool_options o{};
  o.size = 1 << 20;
  o.capacity = 64 << 20;
  o.log_bytes = 8 << 20;
  o.medium = NVM_MEDIUM_SSD;
  NVM_POOL* pool = nvm_pool_create_with(path.c_str(), &o);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  const pid_t child = fork();
  if (child == 0) {
    NVM_POOL* p = nvm_pool_open(path.c_str());
    if (p == nullptr || nvm_tx_begin(p) != 0) _exit(1);
    void* big = nvm_alloc(p, 1, 3 << 20);
    if (big == nullptr) _exit(2);
    std::memset(big, 0x5A, 3 << 20);
    if (nvm_pool_set_root(p, big) != 0 || nvm_tx_commit(p) != 0) _exit(3);
    _exit(0);
  }
  int how = 0;
  ASSERT_EQ(waitpid(child, &how, 0), child);
  ASSERT_EQ(how, 0);
  for (int round = 0; round < 2; ++round) {
    const pid_t next = fork();
    if (next == 0) {
      NVM_POOL* p = nvm_pool_open(path.c_str());
      const auto* big = p == nullptr ? nullptr : static_cast<const unsigned char*>(nvm_pool_get_root(p));
      if (big == nullptr || big[0] != 0x5A || big[(3 << 20) - 1] != 0x5A) _exit(1);
      _exit(0);
    }
    ASSERT_EQ(waitpid(next, &how, 0), next);
    ASSERT_EQ(how, 0);
  }
  pool = nvm_pool_open(path.c_str());
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  nvm_pool_info info{};
  ASSERT_EQ(nvm_pool_get_info(pool, &info), 0);
  EXPECT_GT(info.size, std::uint64_t{3} << 20);
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_pool_check(path.c_str(), nullptr, nullptr, nullptr), 0);
}

// The environment is looked at once in a process.
TEST(checked_program, logs_no_more_than_an_object) {
  const scratch place{false};
  NVM_POOL* pool = place.create();
  ASSERT_NE(pool, nullptr);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  void* object = nvm_calloc(pool, 1, 1, 100);
  ASSERT_EQ(nvm_pool_set_root(pool, object), 0);
  ASSERT_EQ(nvm_tx_commit(pool), 0);
  ASSERT_EQ(nvm_pool_close(pool), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("NVM_CHECK", "abort", 1);
    NVM_POOL* mine = nvm_pool_open(place.path().c_str());
    if (mine == nullptr || nvm_tx_begin(mine) != 0) ::_exit(1);
    auto* bytes = static_cast<char*>(nvm_pool_get_root(mine));
    if (nvm_tx_log(bytes, 100) != 0 || nvm_tx_log(bytes + 40, 60) != 0) ::_exit(2);
    if (nvm_tx_log(bytes, 101) == 0 || nvm_errno() != NVM_E_BAD_POINTER) ::_exit(3);
    const nvm_range ranges[2] = {{bytes, 8}, {bytes + 99, 2}};
    if (nvm_tx_log_many(ranges, 2) == 0 || nvm_errno() != NVM_E_BAD_POINTER) ::_exit(4);
    ::_exit(nvm_tx_abort(mine) == 0 && nvm_pool_close(mine) == 0 ? 0 : 5);
  }
  int ended = 0;
  ASSERT_EQ(::waitpid(child, &ended, 0), child);
  EXPECT_EQ(ended, 0);
}

TEST(opening, or_creation_gives_the_pool_that_is_there_or_a_new_one) {
  const scratch place{false};
  const std::string path = place.path();
  nvm_pool_options o{};
  o.size = 1 << 20;
  o.read_only = 1;
  EXPECT_EQ(nvm_pool_open_or_create(path.c_str(), &o), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_NOT_FOUND) << "to read there has to be one";
  o.read_only = 0;
  std::uint8_t uuid[16] = {};
  for (const bool first : {true, false}) {
    NVM_POOL* pool = nvm_pool_open_or_create(path.c_str(), &o);
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    nvm_pool_info info{};
    ASSERT_EQ(nvm_pool_get_info(pool, &info), 0);
    if (first) std::memcpy(uuid, info.uuid, sizeof uuid);
    EXPECT_EQ(std::memcmp(uuid, info.uuid, sizeof uuid), 0);
    EXPECT_EQ(nvm_pool_open_or_create(path.c_str(), &o), nullptr);
    EXPECT_EQ(nvm_errno(), NVM_E_BUSY);
    ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    o.size = 64 << 20;  // of a creation only
  }
  const std::string missing = path + "/no/pool";
  EXPECT_EQ(nvm_pool_open_or_create(missing.c_str(), nullptr), nullptr);
}

}  // namespace
}  // namespace nvm::tests
