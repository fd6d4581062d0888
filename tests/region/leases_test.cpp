// Leases: a holder's bytes stay unchanged while the region is changed by each technique, moved and dropped; no writer
// waits, and places come back when they are let go.
#include <atomic>
#include <thread>

#include "ground.hpp"

namespace nvm::region::testing {
namespace {

using media_type = direct_media;

class region_leases : public ::testing::Test {
 protected:
  template <class Body>
  status change(std::uint64_t rid, mode how, bool joins, Body&& body) {
    return change_alone(pool->all(), *set, *t, rid, how, joins, body);
  }
  void start(std::uint64_t pages = 256, std::uint64_t capacity = 8192) {
    pool = std::make_unique<ground<media_type>>(pool_geometry(pages, capacity), settings(), isa::best_write_back());
    set = &pool->make("subject");
    t = &pool->join();
  }
  std::vector<std::byte> create(std::uint64_t rid, std::uint64_t size, std::uint64_t room = 0) {
    auto bytes = pattern(rid, size);
    EXPECT_TRUE(change(rid, mode::adaptive, false, [&](auto& tx) -> status {
      if (status s = tx.create(rid, size, room); !s) return s;
      return tx.write(rid, 0, bytes);
    })) << last_message();
    return bytes;
  }
  status write(std::uint64_t rid, std::uint64_t offset, std::uint64_t bytes, mode how = mode::adaptive) {
    const auto b = pattern(++patterns, bytes);
    return change(rid, how, true, [&](auto& tx) { return tx.write(rid, offset, b); });
  }
  status append(std::uint64_t rid, std::uint64_t bytes) {
    const auto b = pattern(++patterns, bytes);
    return change(rid, mode::adaptive, true, [&](auto& tx) -> status {
      const auto at = tx.append(rid, b);
      return at ? status{} : status{at.error()};
    });
  }
  status truncate(std::uint64_t rid, std::uint64_t length) {
    return change(rid, mode::adaptive, true, [&](auto& tx) { return tx.truncate(rid, length); });
  }
  status drop(std::uint64_t rid) {
    return change(rid, mode::adaptive, true, [&](auto& tx) { return tx.drop(rid); });
  }
  lease held(std::uint64_t rid) {
    const auto l = hold(pool->all(), *set, *t, rid);
    EXPECT_TRUE(l) << last_message();
    return l ? *l : lease{};
  }
  void release(const lease& l) { EXPECT_TRUE(let_go(pool->all(), l)) << last_message(); }
  std::vector<std::byte> contents(std::uint64_t rid) {
    std::vector<std::byte> seen(*length(pool->all(), *set, *t, rid));
    EXPECT_TRUE(read(pool->all(), *set, *t, rid, 0, seen));
    return seen;
  }
  static std::vector<std::byte> bytes_of(const lease& l) { return {l.bytes, l.bytes + l.length}; }
  [[nodiscard]] bool is_in_pool(const lease& l) const {
    return l.bytes >= pool->base() && l.bytes < pool->base() + pool->pages().sizes().capacity_bytes();
  }
  statistics sum() {
    statistics s;
    pool->all().sum_up(s);
    return s;
  }
  void collect() {
    for (int i = 0; i < 3; ++i) pool->all().collect(true);
  }

  std::unique_ptr<ground<media_type>> pool;
  set_state<media_type>* set = nullptr;
  thread_state<media_type>* t = nullptr;
  std::uint64_t patterns = 1000;
};

TEST_F(region_leases, keep_bytes_beside_each_way_of_changing_them) {
  start();
  std::uint64_t rid = 1;
  for (const std::uint64_t size : {64, 600, 2000, 9000, 70'000}) {
    for (const mode how : {mode::adaptive, mode::replica, mode::alternate, mode::copy, mode::checked, mode::marked}) {
      for (const std::uint64_t bytes : {std::uint64_t{8}, size / 4, size}) {
        SCOPED_TRACE(std::to_string(size) + " " + std::to_string(bytes) + " " + std::to_string(unsigned(how)));
        create(++rid, size, size + size / 2);
        ASSERT_TRUE(write(rid, 0, 1, how));  // a partner is made before there is a lease
        const auto before = contents(rid);
        const lease l = held(rid);
        EXPECT_TRUE(is_in_pool(l));
        EXPECT_EQ(bytes_of(l), before);
        ASSERT_TRUE(write(rid, (size - bytes) / 2, bytes, how)) << last_message();
        const auto after = contents(rid);
        EXPECT_NE(after, before);
        EXPECT_EQ(bytes_of(l), before);
        // What is appended to, cut off and appended to again is under the lease of the place that it has by now.
        const lease next = held(rid);
        ASSERT_TRUE(append(rid, 40) && truncate(rid, size / 2) && append(rid, size / 4)) << last_message();
        ASSERT_TRUE(truncate(rid, size / 3) && append(rid, 700)) << last_message();
        EXPECT_EQ(bytes_of(next), after);
        // Places that come back are another region's.
        collect();
        const std::uint64_t other = rid + 1'000'000;
        create(other, size);
        ASSERT_TRUE(write(other, 0, 1, how));
        EXPECT_EQ(bytes_of(l), before);
        ASSERT_TRUE(drop(other));
        release(l);
        ASSERT_TRUE(drop(rid));
        collect();
        create(++rid, size);
        EXPECT_EQ(bytes_of(next), after);
        release(next);
      }
    }
  }
  EXPECT_EQ(sum().leases, 0U);
}

TEST_F(region_leases, of_groups_move_all_that_are_held) {
  start();
  const auto one = create(1, 100);
  const auto two = create(2, 5000);
  create(3, 300);
  const statistics so_far = sum();
  const lease first = held(1);
  const lease second = held(2);
  {
    const domain<media_type>::inside here{pool->all(), *t};
    transaction<media_type> tx{pool->all(), *set, *t};
    for (const std::uint64_t rid : {1, 2, 3}) {
      ASSERT_TRUE(tx.join(rid));
      ASSERT_TRUE(tx.write(rid, 5, pattern(7, 30)));
    }
    // Committed bytes, also for the thread that has others.
    const lease inside = held(1);
    EXPECT_EQ(bytes_of(inside), one);
    ASSERT_TRUE(tx.commit());
    EXPECT_EQ(bytes_of(inside), one);
    release(inside);
  }
  EXPECT_EQ(bytes_of(first), one);
  EXPECT_EQ(bytes_of(second), two);
  EXPECT_NE(contents(1), one);
  EXPECT_NE(contents(2), two);
  const statistics s = sum();
  const auto since = [&](technique by) {
    return s.changes[static_cast<unsigned>(by)] - so_far.changes[static_cast<unsigned>(by)];
  };
  EXPECT_EQ(since(technique::copy), 2U);
  EXPECT_EQ(since(technique::record), 1U);
  release(first);
  release(second);
}

// Appends need no other place; a region that has moved is changed in place again.
TEST_F(region_leases, move_a_region_once_and_no_more_than_they_must) {
  start();
  const auto before = create(1, 3000, 4000);
  const lease l = held(1);
  ASSERT_TRUE(append(1, 100) && append(1, 700));
  EXPECT_EQ(sum().changes[static_cast<unsigned>(technique::copy)], 0U);
  EXPECT_EQ(bytes_of(l), before);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(write(1, 10, 10));
  EXPECT_EQ(sum().changes[static_cast<unsigned>(technique::copy)], 1U);
  EXPECT_EQ(bytes_of(l), before);
  release(l);
}

// A large region whose leases were let go is not copied.
TEST_F(region_leases, that_were_let_go_cost_a_large_region_no_copy) {
  start();
  create(1, 100'000);
  release(held(1));
  ASSERT_TRUE(write(1, 10, 10));
  EXPECT_EQ(sum().changes[static_cast<unsigned>(technique::copy)], 0U);
  const lease l = held(1);
  const auto before = bytes_of(l);
  ASSERT_TRUE(write(1, 10, 10));
  EXPECT_EQ(sum().changes[static_cast<unsigned>(technique::copy)], 1U);
  EXPECT_EQ(bytes_of(l), before);
  release(l);
}

TEST_F(region_leases, of_what_was_never_written_are_zeros) {
  start();
  ASSERT_TRUE(change(1, mode::adaptive, false, [](auto& tx) { return tx.create(1, 100'000, 0); }));
  ASSERT_TRUE(change(2, mode::adaptive, false, [](auto& tx) { return tx.create(2, 1000, 0); }));
  ASSERT_TRUE(change(3, mode::adaptive, false, [](auto& tx) { return tx.create(3, 0, 0); }));
  ASSERT_TRUE(change(4, mode::adaptive, false, [](auto& tx) { return tx.create(4, layout::length_max, 0); }));
  const lease whole = held(1);
  const lease small = held(2);
  const lease none = held(3);
  EXPECT_EQ(bytes_of(whole), std::vector<std::byte>(100'000));
  EXPECT_EQ(bytes_of(small), std::vector<std::byte>(1000));
  EXPECT_EQ(none.length, 0U);
  EXPECT_NE(none.bytes, nullptr);
  // More than there is memory: its pages take none.
  const auto huge = hold(pool->all(), *set, *t, 4);
  if (huge) {
    EXPECT_EQ(huge->bytes[layout::length_max - 1], std::byte{});
    release(*huge);
  } else {
    EXPECT_EQ(huge.error(), errc::no_memory);
  }
  ASSERT_TRUE(write(1, 100, 700) && write(2, 0, 10));
  const lease part = held(1);
  EXPECT_EQ(bytes_of(part), contents(1));
  ASSERT_TRUE(write(1, 100, 700));
  EXPECT_NE(bytes_of(part), contents(1));
  EXPECT_EQ(bytes_of(whole), std::vector<std::byte>(100'000));
  EXPECT_EQ(bytes_of(small), std::vector<std::byte>(1000));
  for (const lease& l : {whole, small, none, part}) release(l);
}

// One that is kept for ever keeps its place, and no other.
TEST_F(region_leases, keep_no_other_place) {
  start(64, 64);
  const auto kept = create(1, 9000);
  const lease l = held(1);
  ASSERT_TRUE(drop(1));
  EXPECT_FALSE(hold(pool->all(), *set, *t, 1));
  // Many times the pool.
  for (std::uint64_t i = 0; i < 100; ++i) {
    create(2, 30'000);
    ASSERT_TRUE(write(2, 0, 25'000)) << last_message();
    ASSERT_TRUE(drop(2));
  }
  collect();
  EXPECT_EQ(sum().waiting_bytes, 12'288U);
  EXPECT_EQ(bytes_of(l), kept);
  release(l);
  collect();
  EXPECT_EQ(sum().waiting_bytes, 0U);
}

TEST_F(region_leases, leave_a_full_pool_whole) {
  start(64, 64);
  const auto small = create(1, 9000);
  std::uint64_t rid = 2;
  for (const std::uint64_t size : {9000, 4096}) {
    const auto bytes = pattern(size, size);
    while (change(rid, mode::adaptive, false, [&](auto& tx) -> status {
      if (status made = tx.create(rid, size, 0); !made) return made;
      return tx.write(rid, 0, bytes);
    })) {
      ++rid;
    }
  }
  const lease l = held(1);
  const status s = write(1, 100, 50);
  EXPECT_EQ(s.error(), errc::no_space);
  EXPECT_NE(std::string{last_message()}.find("leased"), std::string::npos) << last_message();
  // Nor where it would move in any case.
  EXPECT_EQ(write(1, 100, 50, mode::copy).error(), errc::no_space);
  EXPECT_EQ(write(1, 0, 5000).error(), errc::no_space);
  EXPECT_EQ(contents(1), small);
  EXPECT_EQ(bytes_of(l), small);
  EXPECT_TRUE(truncate(1, 500)) << last_message();
  EXPECT_EQ(bytes_of(l), small);
  release(l);
  ASSERT_TRUE(drop(2));
  EXPECT_TRUE(write(1, 100, 50)) << last_message();
  EXPECT_TRUE(write(1, 100, 50, mode::copy)) << last_message();
}

TEST_F(region_leases, are_let_go_once) {
  start();
  create(1, 100);
  const lease l = held(1);
  EXPECT_EQ(sum().leases, 1U);
  release(l);
  EXPECT_EQ(let_go(pool->all(), l).error(), errc::invalid);
  EXPECT_EQ(let_go(pool->all(), {}).error(), errc::invalid);
  EXPECT_EQ(let_go(pool->all(), {l.bytes, 100, ~std::uint64_t{0}, 1}).error(), errc::invalid);
  // Its slot is another's by now.
  std::vector<lease> many;
  for (int i = 0; i < 100; ++i) many.push_back(held(1));
  EXPECT_EQ(let_go(pool->all(), l).error(), errc::invalid);
  EXPECT_EQ(sum().leases, 100U);
  for (const lease& one : many) release(one);
  for (const lease& one : many) EXPECT_EQ(let_go(pool->all(), one).error(), errc::invalid);
}

TEST_F(region_leases, that_two_threads_let_go_at_once_go_once) {
  start();
  create(1, 100);
  for (int round = 0; round < 200; ++round) {
    const lease l = held(1);
    std::atomic<int> ready{0};
    std::atomic<int> done{0};
    const auto give = [&] {
      ready.fetch_add(1);
      while (ready != 2) std::this_thread::yield();
      if (let_go(pool->all(), l)) ++done;
    };
    std::thread other{give};
    give();
    other.join();
    ASSERT_EQ(done, 1) << "round " << round;
  }
  EXPECT_EQ(sum().leases, 0U);
}

// Held bytes are of one moment, and stay; two writers never wait for who holds, in pools where a place that came back
// too early would be another's at once.
struct load {
  const char* name;
  std::uint64_t size;
  std::uint64_t bytes;
};
constexpr load loads[] = {{"slot", 64, 64}, {"checked", 2000, 300}, {"marked", 4096, 1000}, {"large", 20'000, 600}};
void PrintTo(const load& l, std::ostream* to) { *to << l.name; }
class region_lease_threads : public ::testing::TestWithParam<load> {};

TEST_P(region_lease_threads, hold_what_does_not_change) {
  const load& l = GetParam();
  ground<media_type> pool{pool_geometry(256, 1024), settings(), isa::best_write_back()};
  auto& set = pool.make("subject");
  auto& maker = pool.join();
  constexpr std::uint64_t regions = 3;
  const std::vector<std::byte> zeros(l.size);
  for (std::uint64_t rid = 0; rid < regions; ++rid) {
    ASSERT_TRUE(change_alone(pool.all(), set, maker, rid, mode::adaptive, false, [&](auto& tx) -> status {
      if (status s = tx.create(rid, l.size, 0); !s) return s;
      return tx.write(rid, 0, zeros);
    }));
  }
  std::atomic<unsigned> writing{2};
  std::atomic<std::uint64_t> wrong{0};
  std::atomic<std::uint64_t> leases{0};
  std::vector<std::thread> all;
  for (unsigned w = 0; w < 2; ++w) {
    all.emplace_back([&, w] {
      auto& t = pool.join();
      std::vector<std::byte> bytes(l.bytes);
      for (unsigned i = 0; i < 600; ++i) {
        std::fill(bytes.begin(), bytes.end(), static_cast<std::byte>(2 * i + w));
        EXPECT_TRUE(change_alone(pool.all(), set, t, i % regions, mode::adaptive, true, [&](auto& tx) {
          return tx.write(i % regions, l.size - l.bytes, bytes);
        })) << last_message();
        if (i % 32 == 0) pool.all().collect(true);
      }
      --writing;
    });
  }
  for (unsigned r = 0; r < 2; ++r) {
    all.emplace_back([&, r] {
      auto& t = pool.join();
      std::vector<std::pair<lease, std::byte>> kept;
      const auto look = [&](const std::pair<lease, std::byte>& k) {
        for (std::uint64_t i = l.size - l.bytes; i < l.size; ++i) wrong += k.first.bytes[i] == k.second ? 0 : 1;
      };
      do {
        for (std::uint64_t rid = 0; rid < regions; ++rid) {
          const auto h = hold(pool.all(), set, t, rid);
          EXPECT_TRUE(h && h->length == l.size) << last_message();
          kept.emplace_back(*h, h->bytes[l.size - 1]);
          ++leases;
        }
        for (const auto& k : kept) look(k);
        while (kept.size() > 3 * r) {
          look(kept.back());
          EXPECT_TRUE(let_go(pool.all(), kept.back().first));
          kept.pop_back();
        }
      } while (writing.load() != 0);
      for (const auto& k : kept) EXPECT_TRUE(let_go(pool.all(), k.first));
    });
  }
  for (std::thread& one : all) one.join();
  EXPECT_EQ(wrong.load(), 0U);
  EXPECT_GT(leases.load(), 0U);
  for (int i = 0; i < 3; ++i) pool.all().collect(true);
  statistics s;
  pool.all().sum_up(s);
  EXPECT_EQ(s.waiting_bytes, 0U);
  EXPECT_EQ(s.leases, 0U);
}
INSTANTIATE_TEST_SUITE_P(loads, region_lease_threads, ::testing::ValuesIn(loads),
                         [](const auto& i) { return std::string{i.param.name}; });

}  // namespace
}  // namespace nvm::region::testing
