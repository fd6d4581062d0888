// A pool without a free page: removed items are room again, also within a round of commands.
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "../scratch_folder.hpp"
#include "conversation.hpp"
#include "nvm/nvm.h"

namespace nvm::server {
namespace {

constexpr std::size_t value_bytes = 3000;

// Items of one size until there is no room for another.
class full_pool : public testing::Test {
 protected:
  static settings given() {
    settings s = conversation::debugging();
    s.evictions = false;
    return s;
  }
  static std::shared_ptr<item_store> small_store() {
    static const tests::scratch_folder folder{"full-pool", false};
    static int pools = 0;
    settings s = given();
    s.pool_path = folder.path(("small" + std::to_string(pools++)).c_str());
    nvm_pool_options o{};
    o.size = o.capacity = 4 << 20;
    o.medium = NVM_MEDIUM_SHM;
    NVM_POOL* pool = nvm_pool_create_with(s.pool_path.c_str(), &o);
    if (pool == nullptr || nvm_pool_close(pool) != 0) throw std::runtime_error(nvm_errormsg());
    auto opened = durable_store::open(s);
    if (!opened) throw std::runtime_error(last_message());
    return std::move(*opened);
  }
  static std::string set(const std::string& key, char of = 'v') {
    return "set " + key + " 0 0 " + std::to_string(value_bytes) + "\r\n" + std::string(value_bytes, of) + "\r\n";
  }
  static std::string key(int i) { return "k" + std::to_string(i); }
  void fill() {
    while (say(set(key(items))) == "STORED\r\n") ++items;
    ASSERT_GT(items, 100);
    // It is not a passing want.
    ASSERT_NE(say(set("one-more")).find("SERVER_ERROR"), std::string::npos);
  }

  conversation say{given(), small_store()};
  int items = 0;
};

TEST_F(full_pool, has_room_in_a_round_for_as_much_as_the_round_has_removed) {
  fill();
  std::string round;
  std::string expected;
  constexpr int many = 40;
  for (int i = 0; i < many; ++i) {
    round += "delete " + key(i) + "\r\n";
    expected += "DELETED\r\n";
  }
  for (int i = 0; i < many; ++i) {
    round += set("n" + std::to_string(i));
    expected += "STORED\r\n";
  }
  EXPECT_EQ(say(round), expected);
  EXPECT_NE(say("get n7\r\n").find(std::string(value_bytes, 'v')), std::string::npos);
}

TEST_F(full_pool, has_room_for_what_a_thread_has_removed_that_does_nothing_more) {
  fill();
  std::thread other{[&] {
    conversation there{given(), say.store()};
    for (int i = 0; i < 40; ++i) EXPECT_EQ(there("delete " + key(i) + "\r\n"), "DELETED\r\n");
    std::string round;
    std::string expected;
    for (int i = 0; i < 20; ++i) {
      round += set("n" + std::to_string(i));
      expected += "STORED\r\n";
    }
    EXPECT_EQ(there(round), expected);
  }};
  other.join();
  for (int i = 20; i < 40; ++i) EXPECT_EQ(say(set("n" + std::to_string(i))), "STORED\r\n") << i;
}

TEST_F(full_pool, replaces_items_in_a_round_as_often_as_asked_to) {
  fill();
  std::string round;
  std::string expected;
  for (int i = 0; i < 200; ++i) {
    round += set(key(i % 20), static_cast<char>('a' + i / 20));
    expected += "STORED\r\n";
  }
  // One place is free.
  ASSERT_EQ(say("delete " + key(50) + "\r\n"), "DELETED\r\n");
  EXPECT_EQ(say(round), expected);
  EXPECT_NE(say("get k3\r\n").find(std::string(value_bytes, 'j')), std::string::npos);
}

TEST_F(full_pool, evicts_within_a_round) {
  fill();
  settings evicting = given();
  evicting.evictions = true;
  conversation there{evicting, say.store()};
  std::string round;
  std::string expected;
  for (int i = 0; i < 30; ++i) {
    round += set("n" + std::to_string(i));
    expected += "STORED\r\n";
  }
  EXPECT_EQ(there(round), expected);
}

}  // namespace
}  // namespace nvm::server
