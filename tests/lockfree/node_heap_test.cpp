// Which thread gets which place of an extent.
#include <atomic>
#include <chrono>
#include <thread>

#include "ground.hpp"

namespace nvm::lockfree::testing {
namespace {

using pool_type = ground<ordered_media>;

// Those of a pool; something happens when an extent can be seen, before who has asked for it knows.
class meddled_pages final : public structure_pages {
 public:
  explicit meddled_pages(structure_pages& inner) : inner_{inner} {}
  std::function<void()> meanwhile;

  result<std::uint64_t> take_extent(unsigned arena, nvm::layout::slot_protocol protocol, std::uint16_t owner,
                                    unsigned slots_each) noexcept override {
    auto extent = inner_.take_extent(arena, protocol, owner, slots_each);
    if (extent) meanwhile();
    return extent;
  }
  using structure_pages::give;
  using structure_pages::take_run;
  result<std::uint64_t> take_run(unsigned arena, const run_wish& wish) noexcept override {
    return inner_.take_run(arena, wish);
  }
  void give(std::span<const std::uint64_t> offsets) noexcept override { inner_.give(offsets); }
  bool is_free(std::uint64_t page) const noexcept override { return inner_.is_free(page); }
  result<owned_pages> owned_at(std::uint64_t offset) const noexcept override { return inner_.owned_at(offset); }
  void each_owned(std::uint64_t first, std::uint64_t end, void* context,
                  bool (*visit)(void*, const owned_pages&)) const noexcept override {
    inner_.each_owned(first, end, context, visit);
  }
  pages_of_stores& of_stores() noexcept override { return inner_.of_stores(); }
  bool is_foreign(std::uint64_t offset) const noexcept override { return inner_.is_foreign(offset); }
  directory_words lockfree_directory() const noexcept override { return inner_.lockfree_directory(); }
  void write_back_entries() noexcept override { inner_.write_back_entries(); }
  const geometry& sizes() const noexcept override { return inner_.sizes(); }
  std::uint64_t size_pages() const noexcept override { return inner_.size_pages(); }

 private:
  structure_pages& inner_;
};

// The last extent of a pool, taken by one thread while another one finds none and looks through all of them: what it
// sees there may not be durable yet, and its words are somebody else's.
TEST(node_heap, gives_no_place_of_an_extent_that_is_not_there_yet) {
  constexpr std::uint16_t owner = 5;
  pool_type pool{pool_geometry(64, 64), {}};
  auto& first = pool.join();
  auto& second = pool.join();
  std::uint64_t last = 0;
  while (auto e = pool.places().take_extent(0, nvm::layout::slot_protocol::epoch, 6, 1)) last = *e;
  pool.places().give(last);

  meddled_pages pages{pool.places()};
  word_table words{pages.sizes()};
  node_heap<ordered_media> heap{pool.medium(), pool.base(), pages, words, {.owner = owner}};
  node_cache of_first, of_second;
  std::atomic<bool> can_be_seen{false}, is_there{false}, was_early{false};
  std::set<std::uint64_t> places_of_second;
  std::thread other{[&] {
    while (!can_be_seen.load()) std::this_thread::yield();
    for (;;) {
      const auto place = heap.allocate(of_second, second.areas, second.number(), 1, 64);
      if (!place) break;
      if (!is_there.load()) was_early.store(true);
      EXPECT_TRUE(places_of_second.insert(*place).second) << "twice: " << *place;
      if (was_early.load()) break;
    }
  }};
  pages.meanwhile = [&] {
    can_be_seen.store(true);
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds{100};
    while (!was_early.load() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    is_there.store(true);
  };
  std::set<std::uint64_t> places;
  while (!was_early.load()) {
    const auto place = heap.allocate(of_first, first.areas, first.number(), 1, 64);
    if (!place) break;
    ASSERT_TRUE(places.insert(*place).second) << "twice: " << *place;
  }
  other.join();
  ASSERT_FALSE(was_early.load());
  places.merge(places_of_second);
  EXPECT_TRUE(places_of_second.empty()) << "one place, two threads: " << *places_of_second.begin();
  std::uint64_t all = 0;
  for (unsigned w = 0; w < words.shape.words; ++w) {
    all += static_cast<std::uint64_t>(std::popcount(places_in_word(words.shape, 0, w)));
  }
  EXPECT_EQ(places.size(), all);
}

}  // namespace
}  // namespace nvm::lockfree::testing
