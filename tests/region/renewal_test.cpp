// A transaction may drop a region and make it again, and make one and drop it: what counts is the end.
#include <algorithm>

#include "ground.hpp"

namespace nvm::region::testing {
namespace {

using pool_type = ground<direct_media>;
using bytes_type = std::vector<std::byte>;
constexpr std::uint64_t sizes[] = {1, 100, 600, 2048, 2049, 9000};
constexpr std::uint64_t rid = 7;

bytes_type content(pool_type& pool, set_state<direct_media>& set, thread_state<direct_media>& t) {
  const auto n = length(pool.all(), set, t, rid);
  if (!n) return {};
  bytes_type found(*n);
  EXPECT_TRUE(read(pool.all(), set, t, rid, 0, found)) << last_message();
  return found;
}

struct steps {
  std::uint64_t before;   // 0: the region is made in the transaction first
  std::uint64_t written;  // of it
  std::uint64_t after;    // 0: it stays dropped
  std::uint64_t filled;   // of it
};
status run(pool_type& pool, set_state<direct_media>& set, thread_state<direct_media>& t, const steps& s, bool commits) {
  const domain<direct_media>::inside here{pool.all(), t};
  transaction<direct_media> tx{pool.all(), set, t};
  if (s.before != 0) {
    if (status done = tx.join(rid); !done) return done;
    if (status done = tx.write(rid, 0, pattern(2, 1)); !done) return done;
  } else {
    if (status done = tx.create(rid, 50, 0); !done) return done;
    if (status done = tx.write(rid, 0, pattern(3, 50)); !done) return done;
  }
  if (status done = tx.drop(rid); !done) return done;
  if (s.after != 0) {
    if (status done = tx.create(rid, s.after, 0); !done) return done;
    if (status done = tx.write(rid, 0, pattern(4, s.filled)); !done) return done;
  }
  return commits ? tx.commit() : status{};
}

void check(const steps& s, bool commits) {
  pool_type pool{pool_geometry(256, 256), settings(), isa::best_write_back()};
  auto* set = &pool.make("subject");
  auto* t = &pool.join();
  bytes_type before;
  if (s.before != 0) {
    before = pattern(1, s.written);
    before.resize(s.before);
    const bytes_type first = pattern(1, s.written);
    ASSERT_TRUE(change_alone(pool.all(), *set, *t, rid, mode::adaptive, false, [&](auto& tx) -> status {
      if (status done = tx.create(rid, s.before, 0); !done) return done;
      return tx.write(rid, 0, first);
    })) << last_message();
  }
  bytes_type after;
  if (s.after != 0) after = pattern(4, s.filled);
  after.resize(s.after);
  ASSERT_TRUE(run(pool, *set, *t, s, commits)) << last_message();
  const bytes_type& expected = commits ? after : before;
  EXPECT_EQ(content(pool, *set, *t), expected);
  EXPECT_EQ(set->regions.count(), expected.empty() ? 0U : 1U);
  pool.crash_and_open();
  set = &pool.make("subject");
  t = &pool.join();
  EXPECT_EQ(content(pool, *set, *t), expected);
  if (expected.empty()) return;
  // It can be worked on.
  const bytes_type added = pattern(5, 700);
  ASSERT_TRUE(change_alone(pool.all(), *set, *t, rid, mode::adaptive, true, [&](auto& tx) {
    const auto at = tx.append(rid, added);
    return at ? status{} : status{at.error()};
  })) << last_message();
  bytes_type longer = expected;
  longer.insert(longer.end(), added.begin(), added.end());
  EXPECT_EQ(content(pool, *set, *t), longer);
  pool.crash_and_open();
  EXPECT_EQ(content(pool, pool.make("subject"), pool.join()), longer);
}

TEST(region_renewal, leaves_what_was_made_last) {
  for (const bool commits : {true, false}) {
    for (const std::uint64_t after : sizes) {
      for (const std::uint64_t filled : {std::uint64_t{0}, std::min<std::uint64_t>(after, 30), after}) {
        check({.before = 0, .written = 0, .after = after, .filled = filled}, commits);
        for (const std::uint64_t before : sizes) {
          SCOPED_TRACE(before);
          SCOPED_TRACE(after);
          SCOPED_TRACE(filled);
          for (const std::uint64_t written : {std::uint64_t{0}, before}) {
            check({.before = before, .written = written, .after = after, .filled = filled}, commits);
            if (::testing::Test::HasFailure()) return;
          }
        }
      }
    }
    for (const std::uint64_t before : {std::uint64_t{0}, std::uint64_t{100}, std::uint64_t{9000}}) {
      check({.before = before, .written = before, .after = 0, .filled = 0}, commits);
    }
  }
}

// Memory wears evenly: the bytes of a region that is made again in its slot are written over as by any other change.
TEST(region_renewal, is_levelled) {
  pool_type pool{pool_geometry(256, 256), settings(), isa::best_write_back()};
  auto& set = pool.make("subject");
  auto& t = pool.join();
  constexpr unsigned after = 20;
  set.level_after(after);
  const bytes_type bytes = pattern(1, 100);
  ASSERT_TRUE(change_alone(pool.all(), set, t, rid, mode::adaptive, false, [&](auto& tx) -> status {
    if (status done = tx.create(rid, 100, 0); !done) return done;
    return tx.write(rid, 0, bytes);
  })) << last_message();
  constexpr unsigned times = 10 * after;
  unsigned moved = 0;
  for (unsigned i = 0; i < times; ++i) {
    const std::uint64_t place = set.regions.find(rid)->place.load();
    ASSERT_TRUE(run(pool, set, t, {.before = 100, .written = 100, .after = 100, .filled = 100}, true))
        << last_message();
    moved += set.regions.find(rid)->place.load() != place ? 1 : 0;
  }
  EXPECT_GE(moved, times / after - 2);
  EXPECT_LE(moved, times / after + 2);
}

TEST(region_renewal, gives_pages_back_that_the_new_region_does_not_need) {
  pool_type pool{pool_geometry(256, 256), settings(), isa::best_write_back()};
  auto& set = pool.make("subject");
  auto& t = pool.join();
  const auto make = [&](std::uint64_t size) {
    const bytes_type bytes = pattern(1, size);
    EXPECT_TRUE(change_alone(pool.all(), set, t, rid, mode::adaptive, false, [&](auto& tx) -> status {
      if (status done = tx.create(rid, size, 0); !done) return done;
      return tx.write(rid, 0, bytes);
    })) << last_message();
  };
  make(10);
  ASSERT_TRUE(change_alone(pool.all(), set, t, rid, mode::adaptive, true, [&](auto& tx) { return tx.drop(rid); }));
  const std::uint64_t free = pool.free_pages();
  make(100'000);
  ASSERT_LT(pool.free_pages(), free);
  ASSERT_TRUE(run(pool, set, t, {.before = 1, .written = 1, .after = 10, .filled = 10}, true)) << last_message();
  for (int i = 0; i < 3; ++i) pool.all().collect(true);
  EXPECT_GE(pool.free_pages() + layout::extent_pages, free);
}

}  // namespace
}  // namespace nvm::region::testing
