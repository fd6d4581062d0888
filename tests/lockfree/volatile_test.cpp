// The structures over memory without any persistence: against a model, by several threads.
#include "lockfree/volatile_memory.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <thread>
#include <vector>

#include "lockfree/lockfree.hpp"

namespace nvm::lockfree::testing {
namespace {

constexpr std::uint64_t capacity = std::uint64_t{64} << 20;

template <class Shape, class MakeRoot>
void follows_a_model_by_threads(MakeRoot&& make_root) {
  volatile_memory memory{capacity};
  ASSERT_TRUE(memory.exists());
  Shape shape{memory, make_root(memory)};
  constexpr unsigned threads = 4;
  std::vector<std::thread> all;
  for (unsigned t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      volatile_memory::session session{memory};
      std::map<std::uint64_t, std::uint64_t> model;
      std::mt19937_64 random{t};
      for (std::uint64_t i = 0; i < 6000; ++i) {
        const std::uint64_t key = random() % 200 * threads + t;
        if (random() % 2 == 0) {
          const auto done = shape.write(session, key, i, write_rule::either);
          ASSERT_TRUE(done);
          ASSERT_EQ(*done, model.contains(key) ? written::replaced : written::inserted);
          model[key] = i;
        } else {
          const auto done = shape.remove(session, key);
          ASSERT_TRUE(done);
          ASSERT_EQ(*done, model.erase(key) != 0);
        }
        std::uint64_t found = 0;
        const bool there = shape.look_up(session, key, [&](const node_head* n) { found = word_nodes::value_of(n); });
        ASSERT_EQ(there, model.contains(key));
        if (there) {
          ASSERT_EQ(found, model[key]);
        }
      }
      for (std::uint64_t key = t; key < 200 * threads; key += threads) {
        ASSERT_EQ(shape.look_up(session, key, [](const node_head*) {}), model.contains(key));
      }
    });
  }
  for (auto& t : all) t.join();
}

TEST(volatile_memory, list) {
  using shape = list<volatile_memory, word_nodes>;
  follows_a_model_by_threads<shape>([](volatile_memory& m) {
    const std::uint64_t root = *m.take_run(shape::root_bytes);
    shape::make_root(m.at(root));
    return root;
  });
}
TEST(volatile_memory, hash_table) {
  using shape = hash_table<volatile_memory, word_nodes, word_hash>;
  follows_a_model_by_threads<shape>([](volatile_memory& m) {
    const std::uint64_t root = *m.take_run(shape::root_bytes);
    const std::uint64_t array = *m.take_run(shape::array_bytes(3));
    shape::make_root(m.at(root), root, 3, 7, m.at(array), array);
    return root;
  });
}
TEST(volatile_memory, skip_list) {
  using shape = skip_list<volatile_memory, word_nodes>;
  follows_a_model_by_threads<shape>([](volatile_memory& m) {
    const std::uint64_t root = *m.take_run(shape::root_bytes);
    shape::make_root(m.at(root));
    return root;
  });
}
TEST(volatile_memory, tree) {
  using shape = tree<volatile_memory, word_nodes>;
  follows_a_model_by_threads<shape>([](volatile_memory& m) {
    const std::uint64_t root = *m.take_run(shape::root_bytes);
    shape::make_root(m.at(root));
    return root;
  });
}

TEST(volatile_memory, gives_freed_nodes_out_again) {
  using shape = list<volatile_memory, word_nodes>;
  volatile_memory memory{8 * volatile_memory::chunk_bytes};
  const std::uint64_t root = *memory.take_run(shape::root_bytes);
  shape::make_root(memory.at(root));
  shape list{memory, root};
  volatile_memory::session session{memory};
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    const auto inserted = list.write(session, i % 7, i, write_rule::insert_only);
    ASSERT_TRUE(inserted && *inserted == written::inserted);
    const auto removed = list.remove(session, i % 7);
    ASSERT_TRUE(removed && *removed);
  }
}

}  // namespace
}  // namespace nvm::lockfree::testing
