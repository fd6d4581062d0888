// The cuckoo hash table; compiled for each of its two versions, and once more with hashes of two bits, where all
// keys collide in both.
#include "map_suite.hpp"

#if defined(EXAMPLE_COMPILED)
#include "compiled_structures.h"
#elif defined(EXAMPLE_DURABLE)
#include "hashtable/hashtable_durable.h"
#else
#include "hashtable/hashtable_volatile.h"
#endif

namespace {

struct table_calls {
  using handle = hashtable*;

#ifdef EXAMPLE_DURABLE
  static hashtable* create(NVM_POOL* pool) { return hashtable_create(pool); }
  static hashtable* open(NVM_POOL* pool) { return hashtable_open(pool); }
#else
  static hashtable* create() { return hashtable_create(); }
#endif
  static void close(hashtable* table) { hashtable_close(table); }
  static int put(hashtable* table, std::uint64_t key, const std::string& value) {
    const std::string text = std::to_string(key);
    return hashtable_put(table, text.data(), text.size(), value.data(), value.size());
  }
  static std::optional<std::string> get(hashtable* table, std::uint64_t key) {
    const std::string text = std::to_string(key);
    std::size_t size = 0;
    const void* bytes = hashtable_get(table, text.data(), text.size(), &size);
    if (bytes == nullptr) return std::nullopt;
    return std::string(static_cast<const char*>(bytes), size);
  }
  static int remove(hashtable* table, std::uint64_t key) {
    const std::string text = std::to_string(key);
    return hashtable_remove(table, text.data(), text.size());
  }
  static std::uint64_t count(hashtable* table) { return hashtable_count(table); }
  static const char* check(hashtable* table) { return hashtable_check(table); }

  static examples::model contents(hashtable* table) {
    examples::model found;
    const int stopped = hashtable_scan(
        table,
        [](const void* key, std::size_t key_size, const void* value, std::size_t value_size, void* argument) {
          const std::string text(static_cast<const char*>(key), key_size);
          auto& into = *static_cast<examples::model*>(argument);
          return into.emplace(std::stoull(text), std::string(static_cast<const char*>(value), value_size)).second ? 0
                                                                                                                  : 1;
        },
        &found);
    EXPECT_EQ(stopped, 0) << "the scan visits a key twice";
    return found;
  }
};

#ifdef EXAMPLE_DURABLE

TEST(hashtable_durable, equals_a_map_after_random_steps_reopens_and_aborts_on_shm) {
  EXPECT_TRUE(examples::equals_a_map_after_random_steps<table_calls>(0.6, NVM_MEDIUM_SHM));
}

TEST(hashtable_durable, equals_a_map_after_random_steps_reopens_and_aborts_on_ssd) {
  EXPECT_TRUE(examples::equals_a_map_after_random_steps<table_calls>(0.3, NVM_MEDIUM_SSD));
}

TEST(hashtable_durable, goes_on_behind_a_level_that_was_taken_back) {
  examples::goes_on_behind_a_level_that_was_taken_back<table_calls>();
}

TEST(hashtable_durable, refuses_to_open_a_pool_whose_root_is_no_table) {
  examples::refuses_a_pool_with_another_root<table_calls>();
}

#else

TEST(hashtable_volatile, equals_a_map_after_random_steps) {
  EXPECT_TRUE(examples::equals_a_map_after_random_steps<table_calls>(1));
}

#endif

#ifndef HASHTABLE_HASH_MASK  // narrow hashes make chains as long as the table

TEST(hashtable, keeps_every_key_while_it_grows_and_empties) {
  examples::keeps_every_key_while_it_grows_and_empties<table_calls>();
}

TEST(hashtable, keeps_keys_and_values_of_zero_bytes_and_of_many) {
  examples::subject<table_calls> table;
  const std::string large(300'000, 'x');
  EXPECT_EQ(hashtable_put(*table, "", 0, nullptr, 0), 1);
  EXPECT_EQ(hashtable_put(*table, large.data(), large.size(), large.data(), large.size()), 1);
  std::size_t size = 1;
  EXPECT_NE(hashtable_get(*table, "", 0, &size), nullptr);
  EXPECT_EQ(size, 0u);
  const void* value = hashtable_get(*table, large.data(), large.size(), &size);
  ASSERT_NE(value, nullptr);
  EXPECT_EQ(std::string(static_cast<const char*>(value), size), large);
  EXPECT_EQ(hashtable_check(*table), nullptr);
}

#endif

}  // namespace
