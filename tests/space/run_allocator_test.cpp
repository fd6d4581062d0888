#include "space/run_allocator.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <random>
#include <set>

namespace nvm {
namespace {

constexpr std::uint64_t all_bits = ~std::uint64_t{0};

// Higher bits say what the lower ones are, exactly, when nobody is at work.
void expect_layers_agree(const run_allocator& a) {
  const std::uint64_t chunks = ceil_div(a.size_pages(), 64);
  for (std::uint64_t c = 0; c < chunks; ++c) {
    EXPECT_EQ(a.bitmap().chunk_bit(c), a.bitmap().word(c) == all_bits) << "chunk " << c;
    EXPECT_EQ(a.bitmap().used_chunks(c / 64) >> c % 64 & 1, a.bitmap().word(c) != 0 ? 1U : 0U) << "chunk " << c;
    EXPECT_FALSE(a.lock_map().is_claimed(c));
    EXPECT_EQ(a.lock_map().word(c), 0U);
  }
  for (std::uint64_t g = 0; g < ceil_div(chunks, 64); ++g) {
    EXPECT_EQ(a.bitmap().group_bit(g), a.bitmap().group_word(g) == all_bits) << "group " << g;
  }
}

TEST(layered_bitmap, says_full_of_a_chunk_or_group_whose_64_parts_are) {
  layered_bitmap b{64 * 64 * 64 * 2};
  for (std::uint64_t c = 0; c < 64; ++c) {
    EXPECT_FALSE(b.group_bit(0));
    b.set(c, all_bits >> 1);
    EXPECT_FALSE(b.chunk_bit(c));
    b.set(c, all_bits << 63);
    EXPECT_TRUE(b.chunk_bit(c));
  }
  EXPECT_TRUE(b.group_bit(0));
  EXPECT_FALSE(b.group_bit(1));
  b.clear(17, 1 << 4);
  EXPECT_FALSE(b.chunk_bit(17));
  EXPECT_FALSE(b.group_bit(0));
  b.set(17, 1 << 4);
  EXPECT_TRUE(b.group_bit(0));
}

TEST(layered_bitmap, says_used_of_a_chunk_of_which_any_page_is) {
  layered_bitmap b{64 * 64 * 64 * 2};
  b.set(70, 0b10);
  EXPECT_EQ(b.used_chunks(1), std::uint64_t{1} << 6);
  EXPECT_EQ(b.used_chunks(0), 0U);
  b.set_whole(1, all_bits << 7);
  EXPECT_EQ(b.used_chunks(1), all_bits << 6);
  EXPECT_EQ(b.group_word(1), all_bits << 7);
  EXPECT_EQ(b.word(71), all_bits);
  b.set_whole(1, all_bits >> 58);
  b.set(70, all_bits);
  EXPECT_TRUE(b.group_bit(1));
  b.clear_whole(1, 1);
  EXPECT_FALSE(b.group_bit(1));
  EXPECT_EQ(b.word(64), 0U);
  b.clear(70, all_bits);
  EXPECT_EQ(b.used_chunks(1), all_bits & ~std::uint64_t{0b100'0001});
}

TEST(layered_lock_map, keeps_requests_of_pages_and_of_chunks_apart) {
  layered_lock_map l{64 * 64 * 64 * 2};
  EXPECT_TRUE(l.try_lock(70, 0b0110));
  EXPECT_FALSE(l.try_lock(70, 0b0100)) << "locked already";
  EXPECT_TRUE(l.try_lock(70, 0b1000));
  EXPECT_FALSE(l.try_claim(1, 0b1100'0000)) << "a page of it is locked";
  EXPECT_EQ(l.claims(1), 0U);
  EXPECT_TRUE(l.try_claim(1, 0b1000'0000));
  EXPECT_TRUE(l.is_claimed(71));
  EXPECT_FALSE(l.try_lock(71, 1));
  EXPECT_EQ(l.word(71), 0U);
  EXPECT_FALSE(l.try_claim(1, all_bits << 7));
  l.unlock(70, 0b1110);
  EXPECT_TRUE(l.try_claim(1, 0b0100'0000));
  l.release(1, 0b1100'0000);
  EXPECT_FALSE(l.is_claimed(71));
  EXPECT_TRUE(l.try_lock(71, 1));
}

TEST(run_allocator, gives_every_page_once_whatever_the_sequence) {
  for (const std::uint64_t size : {1, 8, 63, 64, 65, 500, 64 * 64, 64 * 64 * 3 + 70}) {
    run_allocator a{size, 3};
    ASSERT_TRUE(a.exists());
    a.extend(size);
    std::mt19937_64 random{size};
    std::map<std::uint64_t, std::uint64_t> live;
    std::uint64_t used = 0;
    for (int i = 0; i < 3000; ++i) {
      if (random() % 8 < 5) {
        const auto use = static_cast<page_use>(random() % 3);
        std::uint64_t count = use == page_use::fine ? 1 : use == page_use::coarse ? 8 : random() % 64 + 1;
        if (use == page_use::run && random() % 4 == 0) count = random() % 300 + 1;
        const auto page = a.take(random() % 3, use, count);
        if (!page) continue;
        EXPECT_LE(*page + count, size);
        EXPECT_TRUE(use != page_use::coarse || *page % 8 == 0);
        const auto above = live.lower_bound(*page);
        EXPECT_TRUE(above == live.end() || *page + count <= above->first);
        EXPECT_TRUE(above == live.begin() || std::prev(above)->first + std::prev(above)->second <= *page);
        live.emplace(*page, count);
        used += count;
      } else if (!live.empty()) {
        const auto it = std::next(live.begin(), static_cast<long>(random() % live.size()));
        a.give(it->first, it->second);
        used -= it->second;
        live.erase(it);
      }
      EXPECT_EQ(a.free_pages(), size - used);
    }
    expect_layers_agree(a);
    for (const auto& [page, count] : live) a.give(page, count);
    EXPECT_EQ(a.trailing_free(), size);
    const auto whole = a.take(0, page_use::run, size);
    ASSERT_TRUE(whole) << "the whole pool is one run again";
    EXPECT_EQ(*whole, 0U);
    EXPECT_FALSE(a.take(0, page_use::fine, 1));
    EXPECT_EQ(a.trailing_free(), 0U);
    expect_layers_agree(a);
  }
}

// A request succeeds exactly if some run of free pages is long enough.
TEST(run_allocator, finds_room_wherever_it_is) {
  std::mt19937_64 random{3};
  for (int round = 0; round < 300; ++round) {
    const std::uint64_t size = random() % 400 + 1;
    run_allocator a{size, 2};
    a.extend(size);
    std::vector<bool> busy(size);
    for (std::uint64_t n = random() % (size / 4 + 1); n > 0; --n) {
      const std::uint64_t page = random() % size;
      if (busy[page]) continue;
      EXPECT_TRUE(a.mark_busy(page, 1));
      a.account(1);
      busy[page] = true;
    }
    std::uint64_t longest = 0;
    std::uint64_t run = 0;
    bool aligned_eight = false;
    for (std::uint64_t p = 0; p < size; ++p) {
      run = busy[p] ? 0 : run + 1;
      longest = std::max(longest, run);
      if (p % 8 == 7 && run >= 8) aligned_eight = true;
    }
    EXPECT_FALSE(a.take(0, page_use::run, longest + 1));
    if (longest != 0) {
      const auto page = a.take(0, page_use::run, longest);
      ASSERT_TRUE(page) << "size " << size << ", longest " << longest;
      a.give(*page, longest);
    }
    EXPECT_EQ(a.take(1, page_use::coarse, 8).has_value(), aligned_eight);
  }
}

TEST(run_allocator, gives_runs_across_chunks_and_groups_up_to_the_whole_pool) {
  constexpr std::uint64_t size = 64 * 64 * 5 + 33;
  run_allocator a{size, 1};
  a.extend(size);
  for (const std::uint64_t count : {65UL, 128UL, 1000UL, 4096UL, 4097UL, 3 * 4096UL + 5, size}) {
    const auto page = a.take(0, page_use::run, count);
    ASSERT_TRUE(page) << count;
    EXPECT_EQ(*page, size - count) << "from high addresses";
    EXPECT_EQ(a.free_pages(), size - count);
    a.give(*page, count);
    expect_layers_agree(a);
  }
}

TEST(run_allocator, works_on_pools_of_more_than_64_gib) {
  constexpr std::uint64_t size = (std::uint64_t{100} << 30 >> 12) + 100;
  run_allocator a{size, 2};
  ASSERT_TRUE(a.exists());
  a.extend(size);
  EXPECT_EQ(a.take(0, page_use::run, 1).value() / 64, (size - 1) / 64);
  EXPECT_EQ(a.take(0, page_use::coarse, 8).value(), 0U);
  constexpr std::uint64_t half = size / 2;
  const auto big = a.take(1, page_use::run, half);
  ASSERT_TRUE(big);
  EXPECT_FALSE(a.take(1, page_use::run, half));
  const auto rest = a.take(1, page_use::run, *big - 64);
  ASSERT_TRUE(rest);
  EXPECT_GE(*rest, 8U);
}

TEST(run_allocator, takes_extents_from_low_and_runs_from_high_addresses) {
  constexpr std::uint64_t size = 64 * 64 * 8;
  run_allocator a{size, 1};
  a.extend(size);
  for (int i = 0; i < 2000; ++i) {
    EXPECT_LT(a.take(0, page_use::fine, 1).value(), 2 * 4096U);
    EXPECT_GE(a.take(0, page_use::run, 1).value(), size - 4096);
  }
  // The border moves: either side may have all that the other leaves.
  while (a.take(0, page_use::fine, 1)) {
  }
  EXPECT_EQ(a.free_pages(), 0U);
}

TEST(run_allocator, uses_every_page_of_a_chunk_before_one_again) {
  run_allocator a{64, 1};
  a.extend(64);
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 64; ++i) {
    const auto page = a.take(0, page_use::run, 1);
    ASSERT_TRUE(page);
    EXPECT_TRUE(seen.insert(*page).second);
    a.give(*page, 1);
  }
}

TEST(run_allocator, gives_arenas_chunks_of_their_own) {
  constexpr std::uint64_t size = 64 * 64;
  run_allocator a{size, 4};
  a.extend(size);
  std::map<std::uint64_t, std::set<unsigned>> users;
  for (int i = 0; i < 60; ++i) {
    for (unsigned arena = 0; arena < 4; ++arena) users[a.take(arena, page_use::fine, 1).value() / 64].insert(arena);
  }
  for (const auto& [chunk, arenas] : users) EXPECT_EQ(arenas.size(), 1U) << "chunk " << chunk;
}

TEST(run_allocator, may_use_chunks_of_another_arena_when_no_other_is_left) {
  run_allocator a{64, 4};
  a.extend(64);
  std::set<std::uint64_t> seen;
  for (unsigned i = 0; i < 64; ++i) {
    const auto page = a.take(i % 4, i % 2 == 0 ? page_use::run : page_use::fine, 1);
    ASSERT_TRUE(page);
    EXPECT_TRUE(seen.insert(*page).second);
  }
}

// Long requests take whole chunks and the parts of chunks at both ends, wherever they begin.
TEST(run_allocator, gives_long_runs_once_wherever_they_begin) {
  constexpr std::uint64_t size = 64 * 64 * 3 + 17;
  std::mt19937_64 random{11};
  for (int round = 0; round < 200; ++round) {
    run_allocator a{size, 1};
    a.extend(size);
    const std::uint64_t page = random() % size;
    const std::uint64_t count = 1 + random() % (size - page);
    ASSERT_TRUE(a.take_at(page, count));
    expect_layers_agree(a);
    EXPECT_EQ(a.free_pages(), size - count);
    EXPECT_FALSE(a.take_at(page + random() % count, 1));
    const std::uint64_t before = random() % (page + 1);
    EXPECT_FALSE(a.take_at(page - before, before + 1));
    expect_layers_agree(a);
    std::uint64_t taken = 0;
    while (const auto p = a.take(0, page_use::run, 65)) {
      EXPECT_TRUE(*p + 65 <= page || *p >= page + count);
      ++taken;
    }
    EXPECT_EQ(taken, page / 65 + (size - page - count) / 65);
    a.give(page, count);
    EXPECT_TRUE(a.take_at(page, count));
    expect_layers_agree(a);
  }
}

// Free pages are there, and none of them of use, some in a full group.
TEST(run_allocator, finds_no_extent_in_scattered_pages_behind_a_full_group) {
  constexpr std::uint64_t group = 64 * 64;
  run_allocator a{2 * group, 1};
  a.extend(2 * group);
  ASSERT_TRUE(a.mark_busy(0, group));
  std::uint64_t busy = group;
  for (std::uint64_t page = group + 3; page < 2 * group; page += 8, ++busy) ASSERT_TRUE(a.mark_busy(page, 1));
  a.account(busy);
  EXPECT_FALSE(a.take(0, page_use::coarse, 8));
  EXPECT_EQ(a.free_pages(), 2 * group - busy);
  EXPECT_EQ(a.take(0, page_use::run, 7).value() % 8, 4U);
  EXPECT_GE(a.take(0, page_use::fine, 1).value(), group);
  expect_layers_agree(a);
}

TEST(run_allocator, tells_pages_marked_twice) {
  run_allocator a{1000, 1};
  a.extend(1000);
  EXPECT_TRUE(a.mark_busy(10, 200));
  EXPECT_TRUE(a.mark_busy(210, 1));
  EXPECT_FALSE(a.mark_busy(209, 1));
  EXPECT_FALSE(a.mark_busy(5, 6));
}

TEST(run_allocator, has_no_pages_behind_its_end_and_new_ones_after_growth) {
  run_allocator a{4096 * 3, 1};
  std::uint64_t size = 0;
  std::uint64_t free = 0;
  for (const std::uint64_t to : {1, 5, 64, 100, 128, 130, 4096, 4100, 4096 * 3}) {
    a.extend(to);
    free += to - size;
    size = to;
    EXPECT_EQ(a.free_pages(), free);
    EXPECT_EQ(a.trailing_free(), free);
    EXPECT_FALSE(a.take(0, page_use::run, free + 1));
    const auto page = a.take(0, page_use::run, free);
    ASSERT_TRUE(page);
    EXPECT_EQ(*page + free, size);
    expect_layers_agree(a);
    a.give(*page, free);
  }
}

}  // namespace
}  // namespace nvm
