// More threads than numbers on lock-free structures and regions: idle threads keep no number from others, and what a
// thread has begun stays its own.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "../sanitized.hpp"
#include "nvm/lockfree.h"
#include "nvm/region.h"
#include "scratch.hpp"
#include "worker.hpp"

namespace nvm::tests {
namespace {

constexpr std::uint64_t numbers = 256;  // of threads, in a pool
constexpr std::uint64_t many = sanitized ? 300 : 1000;

class places : public testing::TestWithParam<pool_kind> {
 protected:
  void SetUp() override {
    pool_ = place_.create("pool", std::size_t{32} << 20);
    ASSERT_NE(pool_, nullptr) << nvm_errormsg();
    nvm_lf_options of_words{};
    of_words.kind = NVM_LF_HASH;
    words_ = nvm_lf_open(pool_, "words", &of_words);
    nvm_lf_options of_bytes{};
    of_bytes.kind = NVM_LF_SKIP_LIST;
    of_bytes.flags = NVM_LF_BYTES;
    bytes_ = nvm_lf_open(pool_, "bytes", &of_bytes);
    regions_ = nvm_regions_open(pool_, "set", nullptr);
    ASSERT_TRUE(words_ != nullptr && bytes_ != nullptr && regions_ != nullptr) << nvm_errormsg();
    for (std::uint64_t i = 0; i < many; ++i) workers_.push_back(std::make_unique<worker>());
  }
  // What a thread does in each round: adds one to what it has in each of the three.
  [[nodiscard]] bool adds(std::uint64_t who) {
    std::uint64_t now = 0;
    if (nvm_lf_get64(words_, who, &now) < 0 || nvm_lf_put64(words_, who, now + 1, 0) < 0) return false;
    std::uint64_t of_bytes = 0;
    std::size_t n = 0;
    if (nvm_lf_get(bytes_, &who, sizeof who, &of_bytes, sizeof of_bytes, &n) < 0) return false;
    ++of_bytes;
    if (nvm_lf_put(bytes_, &who, sizeof who, &of_bytes, sizeof of_bytes, 0, 0) < 0) return false;
    std::uint64_t of_region = 0;
    if (nvm_region_read(regions_, who, 0, &of_region, sizeof of_region) < 0) {
      return nvm_errno() == NVM_E_NOT_FOUND && nvm_region_create(regions_, who, 64) == 0 && writes(who, 1);
    }
    return writes(who, of_region + 1);
  }
  [[nodiscard]] bool writes(std::uint64_t rid, std::uint64_t value) {
    return nvm_region_write(regions_, rid, 0, &value, sizeof value) == 0;
  }
  void expect(std::uint64_t who, std::uint64_t count) {
    std::uint64_t now = 0;
    EXPECT_EQ(nvm_lf_get64(words_, who, &now), 1);
    EXPECT_EQ(now, count);
    std::size_t n = 0;
    now = 0;
    EXPECT_EQ(nvm_lf_get(bytes_, &who, sizeof who, &now, sizeof now, &n), 1);
    EXPECT_EQ(now, count);
    EXPECT_EQ(nvm_region_read(regions_, who, 0, &now, sizeof now), 8);
    EXPECT_EQ(now, count);
  }
  void close_and_check() {
    ASSERT_EQ(nvm_pool_close(pool_), 0) << nvm_errormsg();
    workers_.clear();
    nvm_check_summary sum{};
    EXPECT_EQ(nvm_pool_check(place_.path().c_str(), nullptr, nullptr, &sum), 0) << nvm_errormsg();
  }

  scratch place_{GetParam()};
  NVM_POOL* pool_ = nullptr;
  nvm_lf* words_ = nullptr;
  nvm_lf* bytes_ = nullptr;
  nvm_regions* regions_ = nullptr;
  std::vector<std::unique_ptr<worker>> workers_;
};
INSTANTIATE_TEST_SUITE_P(media, places, testing::Values(pool_kind::shm, pool_kind::ssd), name_of);

TEST_P(places, of_idle_threads_are_taken_over) {
  for (int round = 0; round < 3; ++round) {
    for (std::uint64_t i = 0; i < many; ++i) {
      ASSERT_TRUE(workers_[i]->does([&, i] { return adds(i); })) << nvm_errormsg();
    }
  }
  // All at once, beside the idle ones.
  std::vector<std::thread> running;
  std::atomic<int> failures{0};
  for (std::uint64_t i = 0; i < many; ++i) {
    running.emplace_back([&, i] {
      for (int n = 0; n < 3; ++n) failures += adds(i) ? 0 : 1;
    });
  }
  for (std::thread& t : running) t.join();
  EXPECT_EQ(failures, 0);
  // Some end, others go on.
  for (std::uint64_t i = 0; i < many; i += 2) workers_[i].reset();
  for (std::uint64_t i = 1; i < many; i += 2) {
    ASSERT_TRUE(workers_[i]->does([&, i] { return adds(i); })) << nvm_errormsg();
  }
  for (std::uint64_t i = 0; i < many; ++i) expect(i, 6 + i % 2);
  close_and_check();
}

TEST_P(places, are_kept_while_something_is_open) {
  ASSERT_TRUE(adds(many) && adds(many + 1)) << nvm_errormsg();
  // One is inside of an operation, one has a transaction open, one has a lease.
  nvm_lf_entry entry{};
  const std::uint64_t key = many;
  ASSERT_TRUE(workers_[0]->does([&] {
    return nvm_lf_enter(bytes_) == 0 && nvm_lf_find(bytes_, &key, sizeof key, &entry) == 1;
  })) << nvm_errormsg();
  ASSERT_TRUE(workers_[1]->does([&] {
    return nvm_region_begin(regions_, many, NVM_REGION_ADAPTIVE) == 0 && writes(many, 100);
  })) << nvm_errormsg();
  nvm_region_lease lease{};
  ASSERT_TRUE(workers_[2]->does([&] { return nvm_region_hold(regions_, many + 1, &lease) == 0; })) << nvm_errormsg();
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t i = 3; i < many; ++i) {
      ASSERT_TRUE(workers_[i]->does([&, i] {
        const std::uint64_t value = i;
        return adds(i) && nvm_lf_put(bytes_, &key, sizeof key, &value, sizeof value, 0, 0) >= 0 && writes(many + 1, i);
      })) << nvm_errormsg();
    }
  }
  std::uint64_t seen = 0;
  ASSERT_TRUE(workers_[0]->does([&] {
    std::memcpy(&seen, entry.value, sizeof seen);
    return nvm_lf_leave(bytes_) == 0;
  })) << nvm_errormsg();
  EXPECT_EQ(seen, 1U) << "the entry that was found is there until nvm_lf_leave()";
  EXPECT_FALSE(workers_[0]->does([&] { return nvm_lf_leave(bytes_) == 0; }));
  ASSERT_TRUE(workers_[1]->does([&] { return nvm_region_commit(regions_, many) == 0; })) << nvm_errormsg();
  std::memcpy(&seen, lease.bytes, sizeof seen);
  EXPECT_EQ(seen, 1U) << "leased bytes stay";
  EXPECT_EQ(nvm_region_let_go(&lease), 0) << nvm_errormsg();
  std::uint64_t now = 0;
  EXPECT_EQ(nvm_region_read(regions_, many, 0, &now, sizeof now), 8);
  EXPECT_EQ(now, 100U);
  close_and_check();
}

// A thread that has seen what another did, and lost its number since, still waits for that.
TEST_P(places, that_are_lost_leave_their_positions) {
  nvm_lf_options o{};
  o.kind = NVM_LF_HASH;
  o.flags = NVM_LF_NO_WAIT;
  nvm_lf* const at_once = nvm_lf_open(pool_, "words", &o);
  ASSERT_NE(at_once, nullptr) << nvm_errormsg();
  std::uint64_t before = 0;
  ASSERT_TRUE(workers_[0]->does([&] { return nvm_lf_put64(at_once, 1, 1, 0) == 1; })) << nvm_errormsg();
  ASSERT_TRUE(workers_[1]->does([&] { return nvm_lf_put64(at_once, 2, 1, 0) == 1; })) << nvm_errormsg();
  ASSERT_TRUE(workers_[0]->does([&] {
    std::uint64_t seen = 0;
    return nvm_lf_get64(at_once, 2, &seen) == 1 && nvm_lf_get_position(at_once, &before) == 0;
  })) << nvm_errormsg();
  for (std::uint64_t i = 2; i < many; ++i) {
    std::uint64_t seen = 0;
    ASSERT_TRUE(workers_[i]->does([&] { return nvm_lf_get64(at_once, 3, &seen) == 0; })) << nvm_errormsg();
  }
  std::uint64_t after = 0;
  ASSERT_TRUE(workers_[0]->does([&] {
    std::uint64_t seen = 0;
    return nvm_lf_get64(at_once, 3, &seen) == 0 && nvm_lf_get_position(at_once, &after) == 0;
  })) << nvm_errormsg();
  EXPECT_GE(after, before);
  ASSERT_TRUE(workers_[0]->does([&] { return nvm_lf_wait(at_once) == 0; })) << nvm_errormsg();
  close_and_check();
}

// An operation that a visitor has not begun is not the visitor's to leave.
TEST_P(places, are_left_by_those_that_have_entered) {
  ASSERT_TRUE(adds(many)) << nvm_errormsg();
  const auto leave = [](std::uint64_t, std::uint64_t, void* lf) {
    EXPECT_EQ(nvm_lf_leave(static_cast<nvm_lf*>(lf)), -1);
    EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
    return 0;
  };
  EXPECT_EQ(nvm_lf_each64(words_, leave, words_), 0) << nvm_errormsg();
  close_and_check();
}

// The transaction of a thread that ends is rolled back, and its number goes to another.
TEST_P(places, of_threads_that_end_in_the_middle_go_on) {
  ASSERT_TRUE(adds(many)) << nvm_errormsg();
  for (std::uint64_t i = 0; i < numbers + 10; ++i) {
    std::thread{[&] {
      EXPECT_EQ(nvm_lf_enter(words_), 0) << nvm_errormsg();
      EXPECT_EQ(nvm_region_begin(regions_, many, NVM_REGION_ADAPTIVE), 0) << nvm_errormsg();
      EXPECT_TRUE(writes(many, 100));
    }}.join();
  }
  expect(many, 1);
  close_and_check();
}

TEST_P(places, that_are_all_in_use_are_waited_for) {
  for (std::uint64_t i = 0; i < numbers; ++i) {
    ASSERT_TRUE(workers_[i]->does([&] { return nvm_lf_enter(words_) == 0; })) << nvm_errormsg();
  }
  std::atomic<bool> done{false};
  std::thread late{[&] { done = nvm_lf_put64(words_, 1, 2, 0) == 1; }};
  EXPECT_FALSE(done);
  ASSERT_TRUE(workers_[7]->does([&] { return nvm_lf_leave(words_) == 0; })) << nvm_errormsg();
  late.join();
  EXPECT_TRUE(done) << nvm_errormsg();
  for (std::uint64_t i = 0; i < numbers; ++i) {
    if (i == 7) continue;
    ASSERT_TRUE(workers_[i]->does([&] { return nvm_lf_leave(words_) == 0; })) << nvm_errormsg();
  }
  close_and_check();
}

}  // namespace
}  // namespace nvm::tests
