// Regions under threads: readers see whole changes, groups are one change, nothing is lost of what writers add.
#include <atomic>
#include <chrono>
#include <list>
#include <numeric>
#include <thread>

#include "ground.hpp"

namespace nvm::region::testing {
namespace {

using media_type = direct_media;
constexpr unsigned rounds = 400;

geometry roomy() { return pool_geometry(256, 8192); }
isa::write_back best() { return isa::best_write_back(); }

class crew {
 public:
  template <class F>
  void add(F&& f) {
    members_.emplace_back(std::forward<F>(f));
  }
  ~crew() {
    for (std::thread& t : members_) t.join();
  }

 private:
  std::list<std::thread> members_;
};

// A change of `bytes` bytes of a region of `size`, by each technique.
struct load {
  const char* name;
  std::uint64_t size;
  std::uint64_t bytes;
  mode how;
  bool counted = false;  // readers are
};
constexpr load loads[] = {{"slot", 64, 64, mode::adaptive},
                          {"replica", 600, 300, mode::replica},
                          {"alternate", 600, 300, mode::alternate},
                          {"checked", 2000, 300, mode::checked},
                          {"marked", 4096, 1000, mode::marked},
                          {"copy", 2000, 1500, mode::adaptive},
                          {"copy_of_pages", 9000, 9000, mode::adaptive},
                          {"slot_counted", 64, 64, mode::adaptive, true},
                          {"replica_counted", 600, 300, mode::replica, true},
                          {"marked_counted", 4096, 1000, mode::marked, true},
                          {"copy_of_pages_counted", 9000, 9000, mode::adaptive, true}};
void PrintTo(const load& l, std::ostream* to) { *to << l.name; }
class region_threads : public ::testing::TestWithParam<load> {};

TEST_P(region_threads, readers_see_whole_changes) {
  const load& l = GetParam();
  ground<media_type> pool{roomy(), settings(), best()};
  auto& set = pool.make("subject");
  set.count_readers(l.counted);
  auto& maker = pool.join();
  constexpr std::uint64_t regions = 3;
  for (std::uint64_t rid = 0; rid < regions; ++rid) {
    ASSERT_TRUE(
        change_alone(pool.all(), set, maker, rid, l.how, false, [&](auto& tx) { return tx.create(rid, l.size, 0); }));
  }
  std::atomic<unsigned> writing{2};
  std::atomic<std::uint64_t> torn{0};
  std::atomic<std::uint64_t> reads{0};
  {
    crew all;
    for (unsigned w = 0; w < 2; ++w) {
      all.add([&, w] {
        auto& t = pool.join();
        std::vector<std::byte> bytes(l.bytes);
        for (unsigned i = 0; i < rounds; ++i) {
          std::fill(bytes.begin(), bytes.end(), static_cast<std::byte>(2 * i + w));
          const std::uint64_t rid = i % regions;
          EXPECT_TRUE(change_alone(pool.all(), set, t, rid, l.how, true, [&](auto& tx) {
            return tx.write(rid, l.size - l.bytes, bytes);
          })) << last_message();
        }
        --writing;
      });
    }
    all.add([&] {
      auto& t = pool.join();
      std::vector<std::byte> seen(l.bytes);
      do {
        for (std::uint64_t rid = 0; rid < regions; ++rid) {
          const auto n = read(pool.all(), set, t, rid, l.size - l.bytes, seen);
          EXPECT_TRUE(n && *n == l.bytes);
          for (const std::byte b : seen) torn += b == seen.front() ? 0 : 1;
          ++reads;
        }
      } while (writing.load() != 0);
    });
  }
  EXPECT_EQ(torn.load(), 0U);
  EXPECT_GT(reads.load(), 0U);
}
INSTANTIATE_TEST_SUITE_P(techniques, region_threads, ::testing::ValuesIn(loads),
                         [](const auto& i) { return std::string{i.param.name}; });

// More regions than replicas, some of which go to groups and records, while another thread writes back.
TEST(region_replicas, change_hands) {
  ground<media_type> pool{roomy(), settings(), best()};
  auto& set = pool.make("subject");
  auto& maker = pool.join();
  constexpr std::uint64_t regions = 7;
  constexpr std::uint64_t size = 200;
  for (std::uint64_t rid = 0; rid < regions; ++rid) {
    const std::vector<std::byte> bytes(size, static_cast<std::byte>(rid));
    ASSERT_TRUE(change_alone(pool.all(), set, maker, rid, mode::adaptive, false, [&](auto& tx) -> status {
      if (status s = tx.create(rid, size, 0); !s) return s;
      return tx.write(rid, 0, bytes);
    }));
  }
  std::atomic<unsigned> writing{2};
  std::atomic<std::uint64_t> torn{0};
  {
    crew all;
    for (unsigned w = 0; w < 2; ++w) {
      all.add([&, w] {
        auto& t = pool.join();
        std::vector<std::byte> bytes(size);
        for (unsigned i = 0; i < rounds; ++i) {
          // Each byte says of which region it is.
          const std::uint64_t rid = (i / 3 + w) % regions;
          std::fill(bytes.begin(), bytes.end(), static_cast<std::byte>(rid | i << 3));
          const mode how = i % 16 == 15 ? mode::checked : i % 64 < 48 ? mode::replica : mode::alternate;
          EXPECT_TRUE(change_alone(pool.all(), set, t, rid, how, true, [&](auto& tx) {
            return tx.write(rid, 0, bytes);
          })) << last_message();
        }
        --writing;
      });
    }
    all.add([&] {
      auto& t = pool.join();
      std::vector<std::byte> seen(size);
      do {
        for (std::uint64_t rid = 0; rid < regions; ++rid) {
          const auto n = read(pool.all(), set, t, rid, 0, seen);
          EXPECT_TRUE(n && *n == size);
          for (const std::byte b : seen) torn += b == seen.front() && std::uint64_t(b) % 8 == rid ? 0 : 1;
        }
      } while (writing.load() != 0);
    });
    all.add([&] {
      while (writing.load() != 0) {
        pool.all().catch_up();
        pool.all().log().truncate();
        pool.all().collect(false);
        std::this_thread::yield();
      }
    });
  }
  EXPECT_EQ(torn.load(), 0U);
  statistics s;
  pool.all().sum_up(s);
  EXPECT_GT(s.changes[static_cast<unsigned>(technique::replica)], rounds / 2);
  EXPECT_GT(s.replicas_given, 10U);
}

// A set goes while another thread brings the replicas of all sets up to date.
TEST(region_replicas, go_with_their_set) {
  ground<media_type> pool{roomy(), settings(), best()};
  (void)pool.make("stays");
  std::atomic<bool> done{false};
  {
    crew all;
    all.add([&] {
      auto& t = pool.join();
      const auto bytes = pattern(1, 100);
      for (unsigned i = 0; i < 40; ++i) {
        auto& set = pool.make("goes");
        for (const mode how : {mode::adaptive, mode::replica, mode::replica}) {
          EXPECT_TRUE(change_alone(pool.all(), set, t, 1, how, how != mode::adaptive, [&](auto& tx) -> status {
            if (how == mode::adaptive) {
              if (status s = tx.create(1, 100, 0); !s) return s;
            }
            return tx.write(1, 0, bytes);
          })) << last_message();
        }
        pool.all().drop(set);
      }
      done = true;
    });
    all.add([&] {
      while (!done.load()) pool.all().catch_up();
    });
  }
  statistics s;
  pool.all().sum_up(s);
  EXPECT_EQ(s.replicas_made, 40U);
}

// Money that goes from one account to another is in one of them; regions are asked for in any order.
TEST(region_groups, are_one_change) {
  ground<media_type> pool{roomy(), settings(), best()};
  auto& set = pool.make("accounts");
  auto& maker = pool.join();
  constexpr std::uint64_t accounts = 4;
  constexpr std::int64_t each = 1000;
  for (std::uint64_t rid = 0; rid < accounts; ++rid) {
    ASSERT_TRUE(change_alone(pool.all(), set, maker, rid, mode::adaptive, false, [&](auto& tx) -> status {
      if (status s = tx.create(rid, sizeof each, 0); !s) return s;
      return tx.write(rid, 0, std::as_bytes(std::span{&each, 1}));
    }));
  }
  std::atomic<unsigned> busy{0};
  const auto transfer = [&](auto& t, std::uint64_t from, std::uint64_t to, std::int64_t sum) -> status {
    const typename domain<media_type>::inside here{pool.all(), t};
    transaction<media_type> tx{pool.all(), set, t};
    if (status s = tx.join(from); !s) return s;
    if (status s = tx.join(to); !s) return s;
    for (const auto& [rid, change] : {std::pair{from, -sum}, std::pair{to, sum}}) {
      std::int64_t now = 0;
      if (auto n = tx.read(rid, 0, std::as_writable_bytes(std::span{&now, 1})); !n) return n.error();
      now += change;
      if (status s = tx.write(rid, 0, std::as_bytes(std::span{&now, 1})); !s) return s;
    }
    return tx.commit();
  };
  {
    crew all;
    for (unsigned w = 0; w < 3; ++w) {
      all.add([&, w] {
        auto& t = pool.join();
        for (unsigned i = 0; i < rounds;) {
          const std::uint64_t from = (i + w) % accounts;
          const std::uint64_t to = (i * 3 + w + 1) % accounts;
          if (from == to) {
            ++i;
            continue;
          }
          const status s = transfer(t, from, to, 1 + i % 7);
          if (!s) {
            EXPECT_EQ(s.error(), errc::busy) << last_message();
            ++busy;
            std::this_thread::yield();
            continue;
          }
          ++i;
        }
      });
    }
  }
  pool.crash_and_open();
  auto& again = pool.make("accounts");
  auto& t = pool.join();
  std::int64_t sum = 0;
  for (std::uint64_t rid = 0; rid < accounts; ++rid) {
    std::int64_t now = 0;
    ASSERT_TRUE(read(pool.all(), again, t, rid, 0, std::as_writable_bytes(std::span{&now, 1})));
    sum += now;
  }
  EXPECT_EQ(sum, each * static_cast<std::int64_t>(accounts));
}

// What several threads append is all there, each record whole, in an order that each thread's own agrees with.
TEST(region_appends, of_threads_are_all_there) {
  ground<media_type> pool{roomy(), settings(), best()};
  auto& set = pool.make("logs");
  auto& maker = pool.join();
  ASSERT_TRUE(
      change_alone(pool.all(), set, maker, 1, mode::adaptive, false, [&](auto& tx) { return tx.create(1, 0, 0); }));
  {
    crew all;
    for (std::uint32_t w = 0; w < 3; ++w) {
      all.add([&, w] {
        auto& t = pool.join();
        for (std::uint32_t i = 0; i < rounds; ++i) {
          const std::uint32_t record[2] = {w, i};
          EXPECT_TRUE(change_alone(pool.all(), set, t, 1, mode::adaptive, true, [&](auto& tx) -> status {
            const auto at = tx.append(1, std::as_bytes(std::span{record}));
            return at ? status{} : status{at.error()};
          })) << last_message();
        }
      });
    }
  }
  std::vector<std::uint32_t> seen(2 * 3 * rounds);
  ASSERT_EQ(*read(pool.all(), set, maker, 1, 0, std::as_writable_bytes(std::span{seen})), 4 * seen.size());
  std::uint32_t next[3] = {};
  for (std::size_t i = 0; i < seen.size(); i += 2) {
    ASSERT_LT(seen[i], 3U);
    EXPECT_EQ(seen[i + 1], next[seen[i]]++);
  }
  EXPECT_EQ(next[0] + next[1] + next[2], 3 * rounds);
}

// What sets have left is given back beside the dropping of others, each page once.
TEST(region_threads, drops_sets_while_places_are_given_back) {
  ground<media_type> pool{roomy(), settings(), best()};
  auto& kept = pool.make("kept");
  std::atomic<bool> stop{false};
  {
    crew all;
    all.add([&] {
      while (!stop.load()) pool.all().collect(true);
    });
    all.add([&] {
      auto& t = pool.join();
      const auto bytes = pattern(1, 9000);
      for (unsigned i = 0; i < 100; ++i) {
        auto& set = pool.make("comes and goes");
        for (const auto of : {&set, &kept}) {
          for (std::uint64_t rid = 0; rid < 8; ++rid) {
            EXPECT_TRUE(change_alone(pool.all(), *of, t, rid, mode::adaptive, false, [&](auto& tx) -> status {
              if (status s = tx.create(rid, bytes.size(), 0); !s) return s;
              return tx.write(rid, 0, bytes);
            })) << last_message();
            EXPECT_TRUE(
                change_alone(pool.all(), *of, t, rid, mode::adaptive, true, [&](auto& tx) { return tx.drop(rid); }));
          }
        }
        pool.all().drop(set);
      }
      stop = true;
    });
  }
  pool.all().come_to_rest();
  pool.all().drop(kept);
  const std::uint64_t free = pool.free_pages();
  pool.crash_and_open();
  EXPECT_EQ(pool.free_pages(), free);
}

// Whether there is a region that another transaction is about to make, is known when that is over.
TEST(region_threads, that_make_one_region_wait_for_what_becomes_of_the_first) {
  ground<media_type> pool{roomy(), settings(), best()};
  auto& set = pool.make("subject");
  auto& first = pool.join();
  const auto make = [&](auto& t, std::uint64_t rid) {
    return change_alone(pool.all(), set, t, rid, mode::adaptive, false, [&](auto& tx) { return tx.create(rid, 8, 0); });
  };
  ASSERT_TRUE(make(first, 9));
  for (const bool commits : {false, true}) {
    std::atomic<bool> begun{false};
    std::atomic<bool> over{false};
    crew all;
    const typename domain<media_type>::inside here{pool.all(), first};
    transaction<media_type> tx{pool.all(), set, first};
    ASSERT_TRUE(tx.create(5, 8, 0)) << last_message();
    all.add([&] {
      auto& t = pool.join();
      {
        // It would have to wait with a region that comes later.
        const typename domain<media_type>::inside inside{pool.all(), t};
        transaction<media_type> other{pool.all(), set, t};
        EXPECT_TRUE(other.join(9)) << last_message();
        const status s = other.create(5, 8, 0);
        EXPECT_TRUE(!s && s.error() == errc::busy) << last_message();
      }
      begun = true;
      const status s = make(t, 5);
      EXPECT_TRUE(over.load()) << "it was told what nobody knew";
      EXPECT_TRUE(commits ? !s && s.error() == errc::exists : static_cast<bool>(s)) << last_message();
      EXPECT_TRUE(length(pool.all(), set, t, 5)) << last_message();
      EXPECT_TRUE(change_alone(pool.all(), set, t, 5, mode::adaptive, true, [](auto& x) { return x.drop(5); }));
    });
    while (!begun.load()) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
    over = true;
    if (commits) {
      EXPECT_TRUE(tx.commit()) << last_message();
    } else {
      tx.abort();
    }
  }
}

// Regions come and go under readers that know their numbers.
TEST(region_threads, drops_and_makes_under_readers) {
  ground<media_type> pool{roomy(), settings(), best()};
  auto& set = pool.make("subject");
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> wrong{0};
  {
    crew all;
    all.add([&] {
      auto& t = pool.join();
      std::vector<std::byte> bytes(700);
      for (unsigned i = 0; i < 4 * rounds; ++i) {
        const std::uint64_t rid = i % 5;
        std::fill(bytes.begin(), bytes.end(), static_cast<std::byte>(rid + 1));
        EXPECT_TRUE(change_alone(pool.all(), set, t, rid, mode::adaptive, false, [&](auto& tx) -> status {
          if (status s = tx.create(rid, bytes.size(), 0); !s) return s;
          return tx.write(rid, 0, bytes);
        })) << last_message();
        EXPECT_TRUE(
            change_alone(pool.all(), set, t, rid, mode::adaptive, true, [&](auto& tx) { return tx.drop(rid); }));
        if (i % 64 == 0) pool.all().collect(true);
      }
      stop = true;
    });
    all.add([&] {
      auto& t = pool.join();
      std::vector<std::byte> seen(700);
      while (!stop.load()) {
        for (std::uint64_t rid = 0; rid < 5; ++rid) {
          const auto n = read(pool.all(), set, t, rid, 0, seen);
          if (!n) {
            wrong += n.error() == errc::not_found ? 0 : 1;
            continue;
          }
          for (std::uint64_t i = 0; i < *n; ++i) wrong += seen[i] == static_cast<std::byte>(rid + 1) ? 0 : 1;
        }
      }
    });
  }
  EXPECT_EQ(wrong.load(), 0U);
}

// ---- writers that wait ---------------------------------------------------------------------------------------------

class region_waits : public ::testing::Test {
 protected:
  using thread_type = thread_state<media_type>;
  status make(thread_type& t, std::uint64_t rid, std::uint64_t bytes = 8) {
    const auto b = pattern(rid, bytes);
    return change_alone(pool.all(), set, t, rid, mode::adaptive, false, [&](auto& tx) -> status {
      if (status s = tx.create(rid, bytes, 0); !s) return s;
      return tx.write(rid, 0, b);
    });
  }
  status drop(thread_type& t, std::uint64_t rid) {
    return change_alone(pool.all(), set, t, rid, mode::adaptive, true, [&](auto& tx) { return tx.drop(rid); });
  }
  status append(thread_type& t, std::uint64_t rid, char what) {
    return change_alone(pool.all(), set, t, rid, mode::adaptive, true, [&](auto& tx) -> status {
      const auto at = tx.append(rid, std::as_bytes(std::span{&what, 1}));
      return at ? status{} : status{at.error()};
    });
  }
  status join(transaction<media_type>& tx, thread_type& t, std::uint64_t rid) {
    const typename domain<media_type>::inside here{pool.all(), t};
    return tx.join(rid);
  }
  void end(transaction<media_type>& tx, thread_type& t) {
    const typename domain<media_type>::inside here{pool.all(), t};
    EXPECT_TRUE(tx.commit()) << last_message();
  }
  template <class Ready>
  static void until(Ready&& ready) {
    while (!ready()) std::this_thread::yield();
  }

  ground<media_type> pool{pool_geometry(256, 256), settings(), best()};
  set_state<media_type>& set = pool.make("subject");
  thread_type& first = pool.join();
};

// Others make and drop regions of more bytes than the pool has, while writers wait for a transaction that takes long.
TEST_F(region_waits, keep_no_place_of_others_from_coming_back) {
  ASSERT_TRUE(make(first, 1));
  transaction<media_type> slow{pool.all(), set, first};
  ASSERT_TRUE(join(slow, first, 1));
  {
    const typename domain<media_type>::inside here{pool.all(), first};
    ASSERT_TRUE(slow.create(2, 8, 0));
  }
  crew all;
  all.add([&] { EXPECT_TRUE(append(pool.join(), 1, 'w')) << last_message(); });
  all.add([&] {
    // Whether there is one is known when the other transaction is over.
    const status s = make(pool.join(), 2);
    EXPECT_TRUE(!s && s.error() == errc::exists) << last_message();
  });
  until([&] { return pool.all().waiting().count() == 2; });
  auto& other = pool.join();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{30};
  for (std::uint64_t rid = 100; rid < 300; ++rid) {
    status made = make(other, rid, 20'000);
    // Places come back late while another thread that is on its way does not run.
    while (!made && made.error() == errc::no_space && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
      made = make(other, rid, 20'000);
    }
    EXPECT_TRUE(made) << rid << ": " << last_message();
    EXPECT_TRUE(drop(other, rid)) << last_message();
  }
  statistics s;
  pool.all().sum_up(s);
  EXPECT_EQ(s.waits, 2U);
  EXPECT_EQ(s.waiting, 2U);
  end(slow, first);
}

TEST_F(region_waits, for_threads_of_the_pools_own_end_in_any_order_and_for_transactions_are_refused) {
  for (const std::uint64_t rid : {1, 2}) ASSERT_TRUE(make(first, rid));
  transaction<media_type> tx{pool.all(), set, first};
  ASSERT_TRUE(join(tx, first, 2));
  entry& e = *set.regions.find(1);
  ASSERT_TRUE(e.lock.try_hold_for_a_moment());
  std::atomic<bool> let_go{false};
  {
    crew all;
    all.add([&] {
      until([&] { return pool.all().waiting().count() == 1; });
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
      let_go = true;
      e.lock.let_go();
    });
    EXPECT_TRUE(join(tx, first, 1)) << last_message();
    EXPECT_TRUE(let_go.load());
  }
  end(tx, first);
  transaction<media_type> its{pool.all(), set, first};
  ASSERT_TRUE(join(its, first, 1));
  auto& other = pool.join();
  transaction<media_type> late{pool.all(), set, other};
  ASSERT_TRUE(join(late, other, 2));
  const status s = join(late, other, 1);
  EXPECT_TRUE(!s && s.error() == errc::busy) << last_message();
  EXPECT_EQ(pool.all().waiting().count(), 0U);
}

// A thread that takes a region again and again meets those that have waited long.
TEST_F(region_waits, of_long_come_before_others) {
  ASSERT_TRUE(
      change_alone(pool.all(), set, first, 1, mode::adaptive, false, [&](auto& tx) { return tx.create(1, 0, 0); }));
  {
    transaction<media_type> tx{pool.all(), set, first};
    ASSERT_TRUE(join(tx, first, 1));
    crew all;
    for (const char name : {'a', 'b', 'c'}) {
      const unsigned before = pool.all().waiting().count();
      all.add([&, name] { EXPECT_TRUE(append(pool.join(), 1, name)) << last_message(); });
      until([&] { return pool.all().waiting().count() == before + 1; });
    }
    until([&] { return set.regions.find(1)->lock.is_wanted(); });
    end(tx, first);
    EXPECT_TRUE(append(first, 1, 'z')) << last_message();
  }
  char seen[5] = {};
  ASSERT_EQ(*read(pool.all(), set, first, 1, 0, std::as_writable_bytes(std::span{seen})), 4U);
  EXPECT_STREQ(seen, "abcz");
  EXPECT_FALSE(set.regions.find(1)->lock.is_wanted());
}

}  // namespace
}  // namespace nvm::region::testing
