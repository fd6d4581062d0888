// Extents in which nothing is left go back to the pool, and to nodes of other sizes; those that a thread allocates in
// stay.
#include <array>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "ground.hpp"

namespace nvm::lockfree::testing {
namespace {

constexpr std::uint16_t owner = 5;
constexpr std::uint64_t pages_of_pool = 1024;

// Nodes that nothing leads to, as a structure would allocate and unlink them.
class unlinked_nodes {
 public:
  using memory_type = node_memory<direct_media>;
  using session = memory_type::session;

  explicit unlinked_nodes(bool all_at_once = true)
      : pool{pool_geometry(pages_of_pool, pages_of_pool),
             {.generation_nodes = 8},
             platform::can_fence_all_threads() ? isa::best_write_back() : isa::write_back::none},
        memory{pool.shared(), {.owner = owner, .all_at_once = all_at_once, .gives_extents = true}} {}

  session& begin() {
    auto& t = pool.join();
    sessions[t.number()] = std::make_unique<session>(t);
    return *sessions[t.number()];
  }
  // 0: no room.
  std::uint64_t allocate(session& s, std::uint64_t bytes) {
    s.enter();
    const auto place = memory.allocate(s, bytes);
    s.leave();
    return place ? *place : 0;
  }
  // As structure_on.hpp does.
  std::uint64_t allocate_with_room(session& s, std::uint64_t bytes) {
    std::uint64_t place = allocate(s, bytes);
    while (place == 0) {
      const bool reclaimed = pool.shared().reclaim(
          s.thread(), [this](unsigned n) noexcept { return sessions[n] != nullptr && memory.end(*sessions[n]); });
      if (!pool.shared().give_empty_extents() && !reclaimed) break;
      place = allocate(s, bytes);
    }
    return place;
  }
  void free(session& s, std::uint64_t place) {
    s.enter();
    EXPECT_TRUE(memory.may_unlink(s, place)) << last_message();
    memory.retire(s, place);
    s.leave();
  }
  void end_all() {
    for (auto& s : sessions) {
      if (s != nullptr) (void)memory.end(*s);
    }
  }
  [[nodiscard]] std::uint64_t free_pages() { return pool.places().free_pages(); }
  [[nodiscard]] bool owns(std::uint64_t place) {
    const auto p = pool.places().owned_at(place);
    return p && p->owner == owner;
  }

  [[nodiscard]] std::uint64_t extent_of(std::uint64_t place) {
    const auto p = pool.places().owned_at(place);
    return p ? p->offset : 0;
  }

  ground<direct_media> pool;
  memory_type memory;
  std::array<std::unique_ptr<session>, epochs::threads_max> sessions;
};

TEST(empty_extents, go_back_when_their_last_node_is_freed) {
  unlinked_nodes u;
  auto& s = u.begin();
  const std::uint64_t before = u.free_pages();
  std::vector<std::uint64_t> places;
  while (u.free_pages() > before - 6 * nvm::layout::coarse_extent_pages) places.push_back(u.allocate(s, 64));
  for (const std::uint64_t p : places) u.free(s, p);
  // One may be kept, one has what the thread has reserved, one what waits.
  EXPECT_GE(u.free_pages(), before - 3 * nvm::layout::coarse_extent_pages);
  u.end_all();
  u.pool.shared().come_to_rest();
  EXPECT_EQ(u.free_pages(), before);
}

TEST(empty_extents, serve_nodes_of_all_sizes_in_any_order) {
  unlinked_nodes u;
  auto& s = u.begin();
  std::map<std::uint64_t, std::size_t> at_first;
  std::mt19937_64 random{7};
  std::vector<std::uint64_t> sizes{64, 128, 320, 640, 1024, 2000, 4096};
  for (unsigned round = 0; round < 3; ++round) {
    std::shuffle(sizes.begin(), sizes.end(), random);
    for (const std::uint64_t bytes : sizes) {
      std::vector<std::uint64_t> places;
      while (const std::uint64_t p = u.allocate_with_room(s, bytes)) places.push_back(p);
      const auto [first, is_new] = at_first.emplace(bytes, places.size());
      EXPECT_GE(places.size() * bytes, pages_of_pool * 4096 * 3 / 4) << bytes;
      EXPECT_EQ(places.size(), first->second) << bytes << ", round " << round;
      std::shuffle(places.begin(), places.end(), random);
      for (const std::uint64_t p : places) u.free(s, p);
    }
  }
}

TEST(empty_extents, stay_while_a_thread_allocates_there) {
  unlinked_nodes u{false};
  auto& mine = u.begin();
  auto& other = u.begin();
  const std::uint64_t place = u.allocate(other, 64);
  // Two extents more, so that one of them could be kept and the others go.
  std::vector<std::uint64_t> places;
  const std::uint64_t before = u.free_pages();
  while (u.free_pages() > before - 2 * nvm::layout::coarse_extent_pages) places.push_back(u.allocate(mine, 64));
  places.push_back(place);
  for (const std::uint64_t p : places) u.free(mine, p);
  (void)u.memory.end(mine);
  (void)u.pool.shared().reclaim(mine.thread(), [](unsigned) noexcept { return false; });
  (void)u.pool.shared().give_empty_extents();
  EXPECT_TRUE(u.owns(place));
  const std::uint64_t again = u.allocate(other, 64);
  EXPECT_TRUE(u.owns(again));
  EXPECT_EQ(u.extent_of(again), u.extent_of(place));
  u.free(other, again);
  u.end_all();
  u.pool.shared().come_to_rest();
  EXPECT_FALSE(u.owns(place));
}

TEST(empty_extents, wait_for_threads_that_are_inside) {
  unlinked_nodes u;
  auto& mine = u.begin();
  auto& other = u.begin();
  std::vector<std::uint64_t> places;
  while (const std::uint64_t p = u.allocate(mine, 4096)) places.push_back(p);
  other.enter();
  for (const std::uint64_t p : places) u.free(mine, p);
  (void)u.memory.end(mine);
  EXPECT_FALSE(u.pool.shared().give_empty_extents());
  EXPECT_EQ(u.allocate(mine, 64), 0U);
  other.leave();
  EXPECT_NE(u.allocate_with_room(mine, 64), 0U);
}

// What each thread has stored in its nodes stays there, whatever sizes others need.
TEST(empty_extents, come_and_go_under_threads) {
  unlinked_nodes u;
  constexpr std::array<std::uint64_t, 5> sizes{64, 200, 700, 1500, 4000};
  constexpr unsigned threads = 3;
  constexpr unsigned rounds = 24;
  std::array<unlinked_nodes::session*, threads> sessions{};
  for (auto*& s : sessions) s = &u.begin();
  std::atomic<std::uint64_t> wrong{0};
  std::atomic<std::uint64_t> allocated{0};
  std::vector<std::thread> all;
  for (unsigned t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      auto& s = *sessions[t];
      std::mt19937_64 random{t};
      for (unsigned round = 0; round < rounds; ++round) {
        const std::uint64_t bytes = sizes[random() % sizes.size()];
        const std::uint64_t share = pages_of_pool * 4096 / threads / bytes;
        std::vector<std::pair<std::uint64_t, std::uint64_t>> here;  // place, what was stored
        for (std::uint64_t i = 0; i < share; ++i) {
          const std::uint64_t place = u.allocate_with_room(s, bytes);
          if (place == 0) break;
          const std::uint64_t word = random();
          // The words of a node but for its link.
          std::memcpy(u.pool.base() + place + 16, &word, sizeof word);
          std::memcpy(u.pool.base() + place + bytes - 8, &word, sizeof word);
          here.emplace_back(place, word);
        }
        allocated.fetch_add(here.size(), std::memory_order_relaxed);
        for (const auto& [place, word] : here) {
          std::uint64_t first = 0, last = 0;
          std::memcpy(&first, u.pool.base() + place + 16, sizeof first);
          std::memcpy(&last, u.pool.base() + place + bytes - 8, sizeof last);
          if (first != word || last != word) wrong.fetch_add(1, std::memory_order_relaxed);
          u.free(s, place);
        }
      }
    });
  }
  for (auto& t : all) t.join();
  EXPECT_EQ(wrong.load(), 0U);
  EXPECT_GT(allocated.load(), 1000U);
  u.end_all();
  u.pool.shared().come_to_rest();
  EXPECT_TRUE(u.pool.allocated(owner).empty());
}

}  // namespace
}  // namespace nvm::lockfree::testing
