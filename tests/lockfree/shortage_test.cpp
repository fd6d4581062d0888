// A pool without a free page: what other threads have unlinked, and have reserved, is room for a thread that needs it.
#include <random>
#include <thread>

#include "ground.hpp"

namespace nvm::lockfree::testing {
namespace {

using full_table = durable<direct_media, word_hash_table>;

class full_pool {
 public:
  // Nothing is written back where nobody can fence for others, as with the thread sanitizer.
  full_pool()
      : pool{pool_geometry(96, 96),
             {},
             platform::can_fence_all_threads() ? isa::best_write_back() : isa::write_back::none} {
    EXPECT_TRUE(make_hash(pool, "subject", 8)) << last_message();
    const auto found = pool.names().find("subject");
    EXPECT_TRUE(found) << last_message();
    owner = found->owner;
    it = std::make_unique<full_table>(pool.shared(), *found, true);
  }
  // Sessions by the numbers of their threads.
  full_table::session& begin() {
    auto& t = pool.join();
    auto& place = sessions[t.number()];
    place = std::make_unique<full_table::session>(t);
    return *place;
  }
  bool reclaim(full_table::session& s) {
    return pool.shared().reclaim(
        s.thread(), [this](unsigned n) noexcept { return sessions[n] != nullptr && it->memory().end(*sessions[n]); });
  }
  result<written> put(full_table::session& s, std::uint64_t key) {
    return (*it)->write(s, key, key, write_rule::insert_only);
  }
  std::uint64_t fill(full_table::session& s, std::uint64_t from = 0) {
    std::uint64_t key = from;
    while (put(s, key)) ++key;
    EXPECT_EQ(last_code(), errc::no_space) << last_message();
    return key;
  }
  void come_to_rest() {
    for (auto& s : sessions) {
      if (s != nullptr) it->memory().end(*s);
    }
    pool.shared().come_to_rest();
    EXPECT_EQ(pool.allocated(owner), pool.linked(*it));
  }

  ground<direct_media> pool;
  std::uint16_t owner = 0;
  std::unique_ptr<full_table> it;
  std::array<std::unique_ptr<full_table::session>, epochs::threads_max> sessions;
};

TEST(shortage, ends_with_what_an_idle_thread_has_unlinked) {
  full_pool f;
  auto& mine = f.begin();
  auto& other = f.begin();
  const std::uint64_t all = f.fill(mine);
  ASSERT_GT(all, 1000U);
  // Fewer than a generation.
  constexpr std::uint64_t removed = 100;
  for (std::uint64_t k = 0; k < removed; ++k) EXPECT_TRUE(*(*f.it)->remove(other, k));
  EXPECT_EQ(f.put(mine, all).error(), errc::no_space);
  EXPECT_TRUE(f.reclaim(mine));
  for (std::uint64_t k = 0; k < removed; ++k) EXPECT_TRUE(f.put(mine, all + k)) << k << ": " << last_message();
  EXPECT_EQ(f.put(mine, all + removed).error(), errc::no_space);
  EXPECT_FALSE(f.reclaim(mine));
  f.come_to_rest();
}

TEST(shortage, ends_with_what_an_idle_thread_has_reserved) {
  full_pool f;
  auto& other = f.begin();
  auto& mine = f.begin();
  ASSERT_TRUE(f.put(other, 0));
  const std::uint64_t first = f.fill(mine, 1);
  EXPECT_TRUE(f.reclaim(mine));
  const std::uint64_t all = f.fill(mine, first);
  EXPECT_GT(all, first + 30) << "the rest of a word of places";
  EXPECT_FALSE(f.reclaim(mine));
  // Its thread goes on with what there is.
  EXPECT_EQ(f.put(other, all).error(), errc::no_space);
  EXPECT_TRUE(*(*f.it)->remove(other, 7));
  EXPECT_TRUE(f.reclaim(other));
  EXPECT_TRUE(f.put(other, all));
  f.come_to_rest();
}

TEST(shortage, lasts_while_a_thread_stays_inside) {
  full_pool f;
  auto& mine = f.begin();
  auto& other = f.begin();
  const std::uint64_t all = f.fill(mine);
  other.enter();
  for (std::uint64_t k = 0; k < 50; ++k) EXPECT_TRUE(*(*f.it)->remove(mine, k));
  EXPECT_FALSE(f.reclaim(mine)) << "it may look at them";
  EXPECT_EQ(f.put(mine, all).error(), errc::no_space);
  other.leave();
  EXPECT_TRUE(f.reclaim(mine));
  EXPECT_TRUE(f.put(mine, all));
  f.come_to_rest();
}

// Each keeps to a part of what has room, so that there is always some.
TEST(shortage, is_over_soon_for_threads_that_come_and_go) {
  full_pool f;
  constexpr std::uint64_t threads = 3;
  constexpr unsigned operations = 20'000;
  std::vector<full_table::session*> sessions;
  for (std::uint64_t t = 0; t < threads; ++t) sessions.push_back(&f.begin());
  const std::uint64_t room = f.fill(*sessions[0]);
  for (std::uint64_t k = 0; k < room; ++k) EXPECT_TRUE(*(*f.it)->remove(*sessions[0], k));
  const std::uint64_t share = room * 9 / 10 / threads;
  std::atomic<std::uint64_t> short_of_room{0};
  std::vector<std::thread> all;
  for (std::uint64_t t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      auto& s = *sessions[t];
      std::mt19937_64 random{t};
      std::vector<std::uint64_t> here;
      std::uint64_t next = (t + 1) << 32;
      for (unsigned i = 0; i < operations; ++i) {
        const bool grows = here.size() < share && (here.empty() || random() % 8 != 0);
        if (!grows) {
          const std::size_t which = random() % here.size();
          EXPECT_TRUE(*(*f.it)->remove(s, here[which]));
          here[which] = here.back();
          here.pop_back();
          continue;
        }
        while (!f.put(s, next)) {
          short_of_room.fetch_add(1, std::memory_order_relaxed);
          if (!f.reclaim(s)) std::this_thread::yield();
        }
        here.push_back(next++);
      }
      for (const std::uint64_t key : here) EXPECT_TRUE((*f.it)->look_up(s, key, [](const node_head*) {}));
    });
  }
  for (auto& t : all) t.join();
  EXPECT_GT(short_of_room.load(), 0U);
  f.come_to_rest();
}

}  // namespace
}  // namespace nvm::lockfree::testing
