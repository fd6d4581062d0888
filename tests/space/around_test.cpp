// The object around a place, in extents and in runs of any length.
#include <random>

#include "test_pool.hpp"

namespace nvm::testing {
namespace {

using layout::object_layout;

// What find_around() says, by a walk over all objects.
std::pair<std::uint64_t, std::uint64_t> walked(const std::map<std::uint64_t, std::uint64_t>& all, std::uint64_t at) {
  auto after = all.upper_bound(at);
  if (after == all.begin()) return {};
  --after;
  if (at - after->first >= after->second) return {};
  return *after;
}

void agrees(test_pool& pool, unsigned tries, std::mt19937_64& random) {
  const auto all = pool.objects();
  const geometry g = pool.sizes();
  for (unsigned i = 0; i < tries; ++i) {
    const std::uint64_t at = g.data_offset + random() % (g.size_pages << g.page_shift);
    const auto expected = walked(all, at);
    const auto found = pool.around(at);
    ASSERT_EQ(found ? found->offset : 0, expected.first) << "at " << at << ": " << last_message();
    if (!found) {
      ASSERT_EQ(found.error(), errc::bad_pointer) << last_message();
      continue;
    }
    ASSERT_EQ(found->bytes, expected.second);
  }
}

TEST(around, agrees_with_a_walk_before_and_after_reopening_and_frees) {
  std::mt19937_64 random{7};
  test_pool pool{test_geometry(4096, 4096)};
  ASSERT_TRUE(pool.boot());
  std::vector<std::uint64_t> put_there;
  for (unsigned i = 0; i < 900; ++i) {
    const std::uint64_t sizes[] = {20, 250, 1000, 4000, 5000, 70000, 300000};
    const auto o = put(pool, sizes[random() % std::size(sizes)]);
    if (o) put_there.push_back(*o);
  }
  agrees(pool, 3000, random);
  test_pool again{pool, 0};
  ASSERT_TRUE(again.boot(3));
  agrees(again, 3000, random);
  for (std::size_t i = 0; i < put_there.size(); i += 2) {
    test_tx t{again, 0};
    ASSERT_TRUE(t.free(put_there[i])) << last_message();
    t.commit();
  }
  agrees(again, 3000, random);
}

TEST(around, finds_the_head_of_a_run_of_a_gibibyte_and_what_is_only_reserved) {
  constexpr std::uint64_t pages = (1 << 18) + 7;
  test_pool pool{test_geometry(pages + 4096, pages + 4096)};
  ASSERT_TRUE(pool.boot());
  const auto small = pool->reserve(0, 100, object_layout::raw);
  const auto large = pool->reserve(0, pages << 12, object_layout::raw);
  ASSERT_TRUE(small && large) << last_message();
  for (const std::uint64_t into : {std::uint64_t{0}, std::uint64_t{1} << 20, (pages << 12) - 1}) {
    const auto found = pool.around(large->offset + into);
    ASSERT_TRUE(found) << last_message();
    EXPECT_EQ(found->offset, large->offset);
    EXPECT_TRUE(found->reserved);
  }
  EXPECT_EQ(pool->index().pages.head_before(pool.sizes().page_of(large->offset) + pages - 1),
            pool.sizes().page_of(large->offset))
      << "found by the heads and not by a walk";
  EXPECT_TRUE(pool.around(small->offset + 99));
  pool->cancel(*large, 0);
  EXPECT_EQ(pool.around(large->offset + 5000).error(), errc::bad_pointer);
}

}  // namespace
}  // namespace nvm::testing
