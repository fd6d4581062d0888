// Threads that commit and read, and cleaners in the background: each object is always of one transaction.
#include <array>
#include <thread>

#include "ground.hpp"
#include "media/synced_media.hpp"

namespace nvm::logheap {
namespace {

using testing::ground;
using testing::small_settings;

template <class Kind>
class log_heap_threads : public ::testing::Test {};
using kinds = ::testing::Types<testing::plain, testing::leaves, testing::skip_lists<mapping_step::node_cache>,
                               testing::skip_lists<mapping_step::lock_free_readers>>;
TYPED_TEST_SUITE(log_heap_threads, kinds);

constexpr std::uint64_t object_bytes = 120;

// A writer: overwrites its objects, and allocates and frees others.  `fills`: what each of its objects holds at the
// end.
template <class Kind>
void write_some(ground<Kind>& g, unsigned seed, const std::vector<home_t>& homes, std::vector<int>& fills,
                std::atomic<unsigned>& faults) {
  auto* t = *g->join();
  std::mt19937_64 random{seed};
  std::vector<home_t> mine;
  for (int i = 1; i <= 4000; ++i) {
    typename ground<Kind>::transaction_type tx{*g, *t};
    const unsigned which = random() % homes.size();
    const int fill = i % 251;
    const std::vector<std::byte> bytes(object_bytes, std::byte(fill));
    tx.store(homes[which], bytes.data(), object_bytes);
    if (mine.size() < 30 && random() % 2 == 0) {
      const auto home = tx.allocate(40 + random() % 400);
      if (home) tx.store(*home, bytes.data(), 40);
      if (home) mine.push_back(*home);
    } else if (!mine.empty()) {
      if (!tx.release(mine.back())) ++faults;
      mine.pop_back();
    }
    if (!tx.commit()) {
      ADD_FAILURE() << last_message();
      ++faults;
      break;
    }
    fills[which] = fill;
  }
  g->leave(*t);
}

TYPED_TEST(log_heap_threads, commit_and_read_while_cleaners_work) {
  heap_settings s = small_settings();
  s.cleaners = 2;
  s.clean_from = 30;
  s.clean_below = 60;
  ground<TypeParam> g{400, s};
  ASSERT_TRUE(g->start_cleaners()) << last_message();
  constexpr unsigned writers = 3;
  constexpr std::uint64_t size = object_bytes;
  constexpr unsigned objects = 40;
  std::vector<std::vector<home_t>> homes(writers);
  std::vector<std::vector<int>> fills(writers, std::vector<int>(objects));
  std::atomic<unsigned> faults{0};
  std::atomic<bool> done{false};
  // Objects that stay, so that readers have something to look at.
  for (auto& h : homes) {
    for (unsigned i = 0; i < objects; ++i) h.push_back(g.put(size, 0));
  }
  std::vector<std::thread> threads;
  for (unsigned w = 0; w < writers; ++w) {
    threads.emplace_back([&, w] { write_some(g, w, homes[w], fills[w], faults); });
  }
  for (unsigned r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      auto* t = *g->join();
      std::mt19937_64 random{100 + r};
      std::vector<std::byte> out(size);
      while (!done.load()) {
        // A byte is of one transaction; bytes of different ones are for the caller's isolation to keep apart.
        const home_t at = homes[random() % writers][random() % objects];
        g->read(*t, at, out.data(), 1);
        if (std::to_integer<int>(out[0]) > 250) ++faults;
      }
      g->leave(*t);
    });
  }
  for (unsigned w = 0; w < writers; ++w) threads[w].join();
  done.store(true);
  for (std::size_t i = writers; i < threads.size(); ++i) threads[i].join();
  g->stop_cleaners();
  EXPECT_EQ(faults.load(), 0U);
  const auto as_expected = [&] {
    for (unsigned w = 0; w < writers; ++w) {
      for (unsigned i = 0; i < objects; ++i) {
        ASSERT_EQ(g.look(homes[w][i], size), std::vector<std::byte>(size, std::byte(fills[w][i]))) << w << " " << i;
      }
    }
  };
  as_expected();
  EXPECT_EQ(g->check(), "");
  EXPECT_GT(g->statistics().cleaned, 50U);
  const auto objects_before = g.objects();
  ASSERT_TRUE(g.crash_and_open()) << last_message();
  EXPECT_TRUE(g.report().damaged.empty());
  as_expected();
  EXPECT_EQ(g.objects(), objects_before);
  EXPECT_EQ(g->check(), "");
}

// A writer whose sizes drift; what it has is in `seen`, for others to look at, also when it is gone.
template <class Kind>
void drift(ground<Kind>& g, unsigned seed, std::array<std::atomic<home_t>, 64>& seen, std::atomic<unsigned>& faults) {
  auto* t = *g->join();
  std::mt19937_64 random{seed};
  struct object {
    home_t home;
    std::vector<std::byte> bytes;
  };
  std::vector<object> mine;
  for (int i = 1; i <= 3000; ++i) {
    typename ground<Kind>::transaction_type tx{*g, *t};
    if (mine.size() < 40 && random() % 2 == 0) {
      const std::uint64_t size = i / 150 % 2 == 0 ? 16 + random() % 100 : 700 + random() % 2000;
      if (const auto home = tx.allocate(size)) {
        mine.push_back({*home, std::vector<std::byte>(size, static_cast<std::byte>(random()))});
        tx.store(*home, mine.back().bytes.data(), size);
        seen[random() % seen.size()].store(*home);
      } else if (home.error() != errc::no_space) {
        ++faults;
      }
    } else if (!mine.empty()) {
      const std::size_t which = random() % mine.size();
      std::vector<std::byte> found(mine[which].bytes.size());
      g->read(*t, mine[which].home, found.data(), found.size());
      if (found != mine[which].bytes || !tx.release(mine[which].home)) ++faults;
      mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(which));
    }
    if (!tx.commit()) ++faults;
  }
  for (const object& o : mine) g.free_by(*t, o.home);
  g->leave(*t);
}

TYPED_TEST(log_heap_threads, have_addresses_for_any_size_while_others_look_at_what_was_there) {
  heap_settings s = small_settings();
  s.home_bytes = 1 << 18;
  s.superblock_bytes = 4096;
  s.cleaners = 1;
  s.clean_from = 5;
  s.clean_below = 60;
  ground<TypeParam> g{400, s};
  ASSERT_TRUE(g->start_cleaners()) << last_message();
  std::array<std::atomic<home_t>, 64> seen{};
  for (auto& home : seen) home.store(s.home_first);
  std::atomic<unsigned> faults{0};
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (unsigned w = 0; w < 3; ++w) {
    threads.emplace_back([&, w] { drift(g, w, seen, faults); });
  }
  threads.emplace_back([&] {
    auto* t = *g->join();
    std::mt19937_64 random{9};
    while (!done.load()) {
      const home_t home = seen[random() % seen.size()].load() + random() % 3;
      if (g->slot_start(*t, home) > home) ++faults;
      const auto room = g->room_at(*t, home);
      if (!room && room.error() != errc::bad_pointer) ++faults;
      const auto bytes = g->slot_bytes_at(*t, home);
      if (!bytes && bytes.error() != errc::bad_pointer) ++faults;
      std::uint64_t objects = 0;
      if (random() % 64 == 0) g->for_each_object(*t, [&](home_t, std::uint64_t) { ++objects; });
      if (objects > 3 * 40) ++faults;
    }
    g->leave(*t);
  });
  for (unsigned w = 0; w < 3; ++w) threads[w].join();
  done.store(true);
  threads.back().join();
  g->stop_cleaners();
  EXPECT_EQ(faults.load(), 0U);
  EXPECT_TRUE(g.objects().empty());
  EXPECT_EQ(g->check(), "");
  // Whatever the threads were filling when they left.
  EXPECT_NE(g.put(100'000, 1), 0U);
  ASSERT_TRUE(g.crash_and_open()) << last_message();
  EXPECT_TRUE(g.report().damaged.empty());
  EXPECT_EQ(g.objects().size(), 1U);
  EXPECT_EQ(g->check(), "");
}

// A file whose syncs of one label wait until the test lets them go.
class gate final : public block_device {
 public:
  status write(std::uint64_t, const void*, std::size_t, site) noexcept override { return fail(errc::io, "no writes"); }
  status read(std::uint64_t, void*, std::size_t) noexcept override { return fail(errc::io, "no reads"); }
  result<std::uint64_t> size() noexcept override { return std::uint64_t{0}; }
  status sync(edge e) noexcept override {
    const char* const at = stops_at.load(std::memory_order_relaxed);
    if (at == nullptr || std::strcmp(e.name, at) != 0) return {};
    reached.store(true, std::memory_order_relaxed);
    while (!opened.load(std::memory_order_relaxed)) std::this_thread::yield();
    return {};
  }
  // relaxed, all: they order nothing, so that a sanitizer sees what the heap itself does not order.
  std::atomic<const char*> stops_at{nullptr};
  std::atomic<bool> reached{false};
  std::atomic<bool> opened{false};
};

// A thread that needs room has looked at all threads, and is in the middle of its pass.
TEST(log_heap_cleaners, end_beside_a_thread_that_looks_at_them) {
  heap_settings s = small_settings();
  s.cleaners = 3;
  s.clean_from = 101;
  gate file;
  ground<testing::plain, synced_media> g{96, s, file};
  const home_t kept = g.put(300, 1);
  for (int i = 0; i < 40; ++i) g.paint(kept, 300, i);
  ASSERT_TRUE(g->start_cleaners()) << last_message();
  file.stops_at.store("logheap/E2", std::memory_order_relaxed);
  std::size_t cleaned = 0;
  std::thread in_need{[&] { cleaned = g->clean(8, true); }};
  while (!file.reached.load(std::memory_order_relaxed)) std::this_thread::yield();
  g->stop_cleaners();
  file.opened.store(true, std::memory_order_relaxed);
  in_need.join();
  EXPECT_GT(cleaned, 0U);
  EXPECT_EQ(g.look(kept, 300), std::vector<std::byte>(300, std::byte{39}));
  EXPECT_EQ(g->check(), "");
  // Their numbers are free, and their logs are empty.
  for (unsigned i = 0; i < s.cleaners + 1; ++i) {
    auto* const t = *g->join();
    ground<testing::plain, synced_media>::transaction_type tx{*g, *t};
    tx.store(kept, "abc", 3);
    EXPECT_TRUE(tx.commit()) << last_message();
  }
  ASSERT_TRUE(g.crash_and_open()) << last_message();
  EXPECT_TRUE(g.report().damaged.empty());
  EXPECT_EQ(g->check(), "");
}

}  // namespace
}  // namespace nvm::logheap
