// Guarantees of the suite: on every engine its structures are what they claim to be, and what an engine spends for a
// transaction is what its protocol says.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "harness/random.hpp"
#include "suite/engines/engines.hpp"
#include "suite/structures/bp_tree.hpp"
#include "suite/structures/copies.hpp"
#include "suite/structures/hash_table.hpp"
#include "suite/structures/item_table.hpp"
#include "suite/structures/list.hpp"
#include "suite/structures/rb_tree.hpp"

namespace nvm::bench {
namespace {

engine_settings small(bool counting = false) { return {{"/dev/shm", 16 << 20}, "none", counting, 0}; }

template <class S, class E>
void check_shape(const S& structure, E& engine) {
  if constexpr (requires { structure.check(engine); }) structure.check(engine);
}

template <class S, class E>
std::map<std::uint64_t, std::uint64_t> contents_of(const S& structure, E& engine) {
  std::map<std::uint64_t, std::uint64_t> all;
  structure.each(engine, [&](std::uint64_t key, const value& v) {
    EXPECT_TRUE(all.emplace(key, v.words[0]).second) << "key " << key << " twice";
  });
  return all;
}

// Random puts, removals and look-ups of few keys, beside a std::map.
template <class S>
void behaves_like_a_map() {
  for_each_engine("/dev/shm", []<class E>(const std::string& name, role, auto construct) {
    SCOPED_TRACE(name);
    auto memory = construct(small(), 1);
    S structure(memory->engine(), 256);
    std::map<std::uint64_t, std::uint64_t> model;
    random source(11);
    for (unsigned step = 0; step < 6000; ++step) {
      // Grows, shrinks to nothing, grows again.
      const bool growing = step / 1500 % 2 == 0;
      const std::uint64_t key = source.below(400);
      const std::uint64_t what = source.below(10);
      if (what == 0) {
        value found{};
        bool there = false;
        memory->examine(0, 0, [&](auto& tx) { there = structure.get(tx, key, &found); });
        ASSERT_EQ(there, model.contains(key));
        if (there) {
          ASSERT_EQ(found.words[0], model[key]);
          ASSERT_EQ(found.words[15], found.words[0] + 15);
        }
      } else if (what < (growing ? 8 : 3)) {
        if (std::is_same_v<S, list> && model.contains(key)) continue;  // a list takes new keys only
        value v;
        for (std::uint64_t i = 0; i < 16; ++i) v.words[i] = step + i;
        memory->transact(0, 0, [&](auto& tx) { structure.put(tx, key, v); });
        model[key] = step;
      } else {
        bool gone = false;
        memory->transact(0, 0, [&](auto& tx) { gone = structure.erase(tx, key); });
        ASSERT_EQ(gone, model.erase(key) == 1);
      }
      if (step % 97 == 0) {
        ASSERT_NO_THROW(check_shape(structure, memory->engine())) << "step " << step;
        ASSERT_EQ(contents_of(structure, memory->engine()), model) << "step " << step;
      }
    }
    ASSERT_EQ(contents_of(structure, memory->engine()), model);
  });
}

TEST(list, behaves_like_a_map_on_every_engine) { behaves_like_a_map<list>(); }
TEST(hash_table, behaves_like_a_map_on_every_engine) { behaves_like_a_map<hash_table>(); }
TEST(rb_tree, behaves_like_a_map_and_stays_balanced_on_every_engine) { behaves_like_a_map<rb_tree>(); }
TEST(bp_tree, behaves_like_a_map_and_stays_ordered_on_every_engine) { behaves_like_a_map<bp_tree>(); }

// What translated pools hold is not where its addresses say: only barriers find it.
TEST(copies, are_of_what_was_committed_also_where_reads_are_translated) {
  for_each_engine("/dev/shm", []<class E>(const std::string& name, role, auto construct) {
    SCOPED_TRACE(name);
    auto memory = construct(small(), 1);
    constexpr std::uint64_t count = 1500;  // no multiple of what is copied together
    auto* const words = static_cast<std::uint64_t*>(memory->engine().fixed(count * sizeof(std::uint64_t)));
    for (std::uint64_t i = 0; i < count; ++i) memory->transact(0, 0, [&](auto& tx) { tx.store(words + i, i * i); });
    std::vector<std::uint64_t> found;
    each_copy(memory->engine(), words, count, [&](std::uint64_t word) { found.push_back(word); });
    ASSERT_EQ(found.size(), count);
    for (std::uint64_t i = 0; i < count; ++i) ASSERT_EQ(found[i], i * i);
    EXPECT_EQ(copy_of(memory->engine(), words + 7), 49U);
  });
}

TEST(item_table, holds_keys_and_values_of_any_size_on_every_engine) {
  for_each_engine("/dev/shm", []<class E>(const std::string& name, role, auto construct) {
    SCOPED_TRACE(name);
    auto memory = construct(small(), 1);
    item_table table(memory->engine(), 64);
    std::map<std::string, std::string> model;
    random source(3);
    for (unsigned step = 0; step < 3000; ++step) {
      const std::uint64_t number = source.below(100);
      const std::string key(1 + number % item_table::key_bytes_max, static_cast<char>('a' + number % 26));
      if (source.below(3) == 0) {
        bool gone = false;
        memory->transact(0, 0, [&](auto& tx) { gone = table.erase(tx, key); });
        ASSERT_EQ(gone, model.erase(key) == 1);
        continue;
      }
      const std::string v(1 + source.below(700), static_cast<char>('A' + step % 26));
      memory->transact(0, 0, [&](auto& tx) { table.put(tx, key, v); });
      std::string& expected = model[key];
      expected = v.size() > expected.size() ? v : v + expected.substr(v.size());
      std::vector<char> out(1024);
      std::size_t size = 0;
      memory->examine(0, 0, [&](auto& tx) { size = table.get(tx, key, out.data()); });
      ASSERT_EQ(std::string(out.data(), size), expected);
    }
    std::map<std::string, std::string> left;
    table.each(memory->engine(), [&](std::string_view k, std::string_view v) { left.emplace(k, v); });
    EXPECT_EQ(left, model);
  });
}

TEST(engines, keep_what_two_threads_do_to_one_structure) {
  for_each_engine("/dev/shm", []<class E>(const std::string& name, role, auto construct) {
    SCOPED_TRACE(name);
    auto memory = construct(small(), 2);
    hash_table table(memory->engine(), 16);  // long chains, so that threads meet
    bp_tree tree(memory->engine(), 16);
    constexpr std::uint64_t steps = 3000;
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 2; ++t)
      threads.emplace_back([&, t] {
        for (std::uint64_t i = 0; i < steps; ++i) {
          const std::uint64_t key = i % 700 * 2 + t;
          const value v{{key}};
          const auto toggle = [&](auto& structure) {
            memory->transact(t, structure.part_of(key), [&](auto& tx) {
              if (!structure.erase(tx, key)) structure.put(tx, key, v);
            });
          };
          toggle(table);
          toggle(tree);
        }
      });
    for (std::thread& t : threads) t.join();
    std::map<std::uint64_t, std::uint64_t> expected;
    for (std::uint64_t i = 0; i < steps; ++i)
      for (unsigned t = 0; t < 2; ++t) {
        const std::uint64_t key = i % 700 * 2 + t;
        if (expected.erase(key) == 0) expected[key] = key;
      }
    EXPECT_EQ(contents_of(table, memory->engine()), expected);
    EXPECT_EQ(contents_of(tree, memory->engine()), expected);
    EXPECT_NO_THROW(tree.check(memory->engine()));
  });
}

// Fences of a transaction that overwrites some words, and of one that also allocates and frees.
struct price {
  double swap_1, swap_8, insert;
};

TEST(engines, spend_the_fences_that_their_protocol_says) {
  // Undo: old bytes; new bytes; commit record. What is announced together is one group of old bytes.
  // Barrier transactions that say beforehand what they will store to do the same.
  const std::map<std::string, price> prices{{"undo, announced stores", {3, 3, 3}},
                                            {"stm over undo, write-through", {3, 3, 3}},
                                            {"stm over undo, write-back", {3, 3, 3}},
                                            // One record; written home by the batch.
                                            {"stm over redo", {1, 1, 1}},
                                            {"stm over redo, commit mark", {2, 2, 2}},
                                            // An append.
                                            {"log, announced stores", {1, 1, 1}},
                                            // Log, home, truncation; the plain log's tail.
                                            {"mnemosyne", {3, 3, 3}},
                                            {"mnemosyne, plain log", {4, 4, 4}},
                                            // One for each store, home, truncation; to allocate, a commit word and its
                                            // intents.
                                            {"mnemosyne-undo", {4, 18, 5}}};
  for_each_engine("/dev/shm", [&]<class E>(const std::string& name, role, auto construct) {
    const bool appends = name.starts_with("stm over log");
    if (!appends && !prices.contains(name)) return;
    SCOPED_TRACE(name);
    const price expected = appends ? price{1, 1, 1} : prices.at(name);
    auto memory = construct(small(true), 1);
    auto* words = static_cast<std::uint64_t*>(memory->engine().fixed(4096 * sizeof(std::uint64_t)));
    hash_table table(memory->engine(), 4096);
    const auto fences_each = [&](unsigned times, auto&& transaction) {
      const std::uint64_t before = memory->engine().counts()->fences;
      for (unsigned i = 0; i < times; ++i) transaction(i);
      return static_cast<double>(memory->engine().counts()->fences - before) / times;
    };
    const auto swap = [&](unsigned swaps, unsigned i) {
      memory->transact(0, 0, [&](auto& tx) {
        span_of_bytes ranges[16];
        random source(i);
        for (unsigned k = 0; k < 2 * swaps; ++k) ranges[k] = {words + source.below(4096), sizeof(std::uint64_t)};
        tx.announce(ranges, 2 * swaps);
        for (unsigned k = 0; k < 2 * swaps; ++k)
          tx.store_announced(static_cast<std::uint64_t*>(ranges[k].p), std::uint64_t{i} + k);
      });
    };
    constexpr double amortised = 0.1;
    EXPECT_NEAR(fences_each(4000, [&](unsigned i) { swap(1, i); }), expected.swap_1, amortised);
    EXPECT_NEAR(fences_each(4000, [&](unsigned i) { swap(8, i); }), expected.swap_8, amortised);
    EXPECT_NEAR(
        fences_each(4000, [&](unsigned i) { memory->transact(0, i, [&](auto& tx) { table.put(tx, i, value{{i}}); }); }),
        expected.insert, amortised);
  });
}

}  // namespace
}  // namespace nvm::bench
