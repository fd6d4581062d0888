// Items in a pool that is closed and opened again, or is damaged, or has no volatile memory beside it.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "../sanitized.hpp"
#include "../scratch_folder.hpp"
#include "conversation.hpp"
#include "nvm/lockfree.h"
#include "nvm/nvm.h"

namespace nvm::server {
namespace {

constexpr std::uint64_t cas_limit_word = 1;
constexpr std::uint64_t flushed_before_word = 2;
constexpr std::uint64_t flush_at_word = 3;

class reopened_store : public testing::Test {
 protected:
  reopened_store() {
    static const tests::scratch_folder folder{"durable-store", false};
    static int pools = 0;
    given = conversation::debugging();
    given.medium = "shm";
    given.pool_path = folder.path(("pool" + std::to_string(pools++)).c_str());
    open();
  }
  void open() {
    auto opened = durable_store::open(given);
    if (!opened) throw std::runtime_error(last_message());
    store = std::move(*opened);
    say.emplace(given, store);
  }
  void close() {
    say.reset();
    EXPECT_TRUE(store->close());
    store.reset();
  }
  void reopen() {
    close();
    open();
  }
  // While the pool is closed.
  void put_state(std::uint64_t word, std::uint64_t value) const {
    NVM_POOL* const pool = nvm_pool_open(given.pool_path.c_str());
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    nvm_lf* const state = nvm_lf_open(pool, "nv-memcached state", nullptr);
    ASSERT_NE(state, nullptr) << nvm_errormsg();
    EXPECT_GT(nvm_lf_put64(state, word, value, 0), 0) << nvm_errormsg();
    EXPECT_EQ(nvm_pool_close(pool), 0);
  }
  void expect_keeps_what_it_stores() {
    for (int i = 0; i < 8; ++i) {
      const std::string key = "k" + std::to_string(i);
      EXPECT_EQ((*say)("set " + key + " 0 0 1\r\nx\r\nget " + key + "\r\n"),
                "STORED\r\nVALUE " + key + " 0 1\r\nx\r\nEND\r\n");
    }
  }

  settings given;
  std::shared_ptr<item_store> store;
  std::optional<conversation> say;
};

TEST_F(reopened_store, keeps_what_it_stores_after_flushes_of_an_empty_pool) {
  for (int i = 0; i < 5; ++i) EXPECT_EQ((*say)("flush_all\r\n"), "OK\r\n");
  reopen();
  expect_keeps_what_it_stores();
}

TEST_F(reopened_store, keeps_what_it_stores_after_more_flushes_than_ids_in_reserve) {
  EXPECT_EQ((*say)("set a 0 0 1\r\nx\r\n"), "STORED\r\n");
  // A block of ids is 2^20: nearly all of it is used.
  std::string flushes;
  for (int i = 0; i < 1024; ++i) flushes += "flush_all noreply\r\n";
  for (int i = 0; i < 1025; ++i) EXPECT_EQ((*say)(flushes), "");
  reopen();
  expect_keeps_what_it_stores();
}

TEST_F(reopened_store, keeps_what_it_stores_in_a_pool_that_was_flushed_beyond_its_ids) {
  close();
  put_state(flushed_before_word, 100);
  open();
  expect_keeps_what_it_stores();
  close();
  put_state(cas_limit_word, 500);
  put_state(flushed_before_word, 700);
  open();
  expect_keeps_what_it_stores();
}

// The process was killed after the one store with which the flush is made.
TEST_F(reopened_store, makes_a_flush_that_was_put_off_once_also_after_a_crash) {
  expect_keeps_what_it_stores();
  close();
  constexpr std::uint64_t id = 5'000'000;
  put_state(flush_at_word, std::uint64_t{1} << 63 | id);
  open();
  EXPECT_EQ((*say)("get k0 k1 k2\r\n"), "END\r\n");
  expect_keeps_what_it_stores();
  constexpr std::uint32_t late = 4'000'000'000;
  store->tick(late);
  reopen();
  store->tick(late);
  EXPECT_EQ(store->flushed_before(), id);
  EXPECT_TRUE(store->flush_all(late, late - 1));
  reopen();
  EXPECT_EQ(store->flushed_before(), id);
  store->tick(late);
  const std::uint64_t later = store->flushed_before();
  EXPECT_GT(later, id);
  store->tick(late);
  reopen();
  store->tick(late);
  EXPECT_EQ(store->flushed_before(), later);
}

// This process has no memory of its own for more than so many bytes beyond what it has.
class little_memory {
 public:
  explicit little_memory(std::uint64_t more) {
    std::ifstream status{"/proc/self/status"};
    std::string word;
    std::uint64_t kib = 0;
    while (status >> word) {
      if (word == "VmData:") status >> kib;
    }
    ::getrlimit(RLIMIT_DATA, &before_);
    rlimit now = before_;
    now.rlim_cur = kib * 1024 + more;
    EXPECT_EQ(::setrlimit(RLIMIT_DATA, &now), 0);
  }
  ~little_memory() { ::setrlimit(RLIMIT_DATA, &before_); }
  little_memory(const little_memory&) = delete;
  little_memory& operator=(const little_memory&) = delete;

 private:
  rlimit before_{};
};

TEST_F(reopened_store, counts_its_items_also_without_memory_for_counting_beside_its_service) {
  if (tests::sanitized) GTEST_SKIP() << "a sanitizer ends the process where memory is short";
  close();
  std::filesystem::remove(given.pool_path);
  given.memory_bytes = std::uint64_t{8} << 30;
  open();
  constexpr int items = 300;
  for (int i = 0; i < items; ++i) {
    ASSERT_EQ((*say)("set k" + std::to_string(i) + " 0 0 1000\r\n" + std::string(1000, 'v') + "\r\n"), "STORED\r\n");
  }
  const usage before = store->used();
  close();
  {
    const little_memory limit{std::uint64_t{240} << 20};  // less than the bytes for its places
    open();
  }
  EXPECT_EQ(store->used().item_bytes, before.item_bytes);
  EXPECT_EQ(store->used().memory_bytes, before.memory_bytes);
  for (int i = 0; i < items; ++i) EXPECT_EQ((*say)("delete k" + std::to_string(i) + "\r\n"), "DELETED\r\n");
  EXPECT_EQ(store->used().item_bytes, 0U);
  EXPECT_EQ(store->used().memory_bytes, 0U);
  expect_keeps_what_it_stores();
}

// Items on both sides of a link that leads nowhere.
class damaged_link : public reopened_store {
 protected:
  damaged_link() {
    close();
    std::filesystem::remove(given.pool_path);
    given.memory_bytes = 4U << 20;
    open();
  }
  [[nodiscard]] static std::string set(const std::string& key, int expiry = 0) {
    return "set " + key + " 0 " + std::to_string(expiry) + " 10000\r\n" + std::string(10'000, 'v') + "\r\n";
  }
  // The link after the item that has so many before it.
  void damage(std::size_t before) {
    std::uint64_t place = 0;
    store->for_each(say->session(), [&](const item& i) {
      place = i.place;
      return before-- != 0;
    });
    constexpr std::uint64_t nowhere = std::uint64_t{1} << 44;
    std::fstream file{given.pool_path, std::ios::in | std::ios::out | std::ios::binary};
    file.seekp(static_cast<std::streamoff>(place));
    file.write(reinterpret_cast<const char*>(&nowhere), sizeof nowhere);
    file.flush();
    ASSERT_TRUE(file.good());
  }
  [[nodiscard]] std::size_t seen_items() {
    std::size_t n = 0;
    store->for_each(say->session(), [&](const item&) { return ++n != 0; });
    return n;
  }
};

TEST_F(damaged_link, lets_items_before_it_be_evicted) {
  int items = 0;
  std::size_t evicted = 0;
  while (evicted == 0) {
    ASSERT_EQ((*say)(set("k" + std::to_string(items++))), "STORED\r\n");
    evicted = static_cast<std::size_t>(items) - *store->used().items;
  }
  damage(static_cast<std::size_t>(items) / 2);
  for (int i = 0; i < items / 4; ++i) ASSERT_EQ((*say)(set("n" + std::to_string(i))), "STORED\r\n") << i;
  EXPECT_LE(store->used().memory_bytes, 4U << 20);
  EXPECT_FALSE(store->failed());
}

TEST_F(damaged_link, lets_expired_items_before_it_be_swept) {
  constexpr int items = 100;
  ASSERT_EQ((*say)("debugtime p\r\n"), "OK\r\n");
  for (int i = 0; i < items; ++i) ASSERT_EQ((*say)(set("k" + std::to_string(i), 10)), "STORED\r\n");
  constexpr std::size_t before = 80;
  damage(before);
  EXPECT_GT(seen_items(), before);
  item_store::sweep_wish wish{};
  wish.now = say->shared().clock.now() + 20;
  wish.items_max = 10 * items;
  ASSERT_TRUE(say->session().enter());
  std::size_t gone = 0;
  for (int i = 0; i < 10; ++i) gone += store->sweep(say->session(), wish, [](const item&, bool) {});
  say->session().leave();
  EXPECT_GE(gone, before);
}

}  // namespace
}  // namespace nvm::server
