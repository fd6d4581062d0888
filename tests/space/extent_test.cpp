#include "space/slot_index.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace nvm {
namespace {

using layout::object_layout;
using layout::page_kind;

class extents : public ::testing::TestWithParam<std::pair<page_kind, unsigned>> {
 protected:
  const page_kind kind = GetParam().first;
  const layout::extent_shape shape = layout::shape_of(kind, GetParam().second);
  extent_pool pool{kind, shape};

  extent& make() {
    extent* e = pool.get();
    EXPECT_NE(e, nullptr);
    e->make_empty(object_layout::raw, shape);
    return *e;
  }
  // Longest run of free slots, slot by slot.
  static unsigned longest(extent& e) {
    unsigned best = 0;
    unsigned run = 0;
    for (unsigned i = 0; i < e.slots; ++i) {
      run = slot_bits::test(e.busy(), i) ? 0 : run + 1;
      best = std::max(best, run);
    }
    return best;
  }
};

TEST_P(extents, give_each_slot_to_one_object_and_promise_enough) {
  extent& e = make();
  std::map<unsigned, unsigned> live;
  std::mt19937_64 random{7};
  const unsigned max = object_slots_max(kind);
  unsigned failures = 0;
  for (int i = 0; i < 20000; ++i) {
    if (random() % 5 < 3) {
      const auto count = static_cast<unsigned>(random() % max + 1);
      const unsigned before = longest(e);
      const unsigned slot = e.take(count);
      EXPECT_EQ(slot != 0, before >= count);
      if (slot == 0) {
        ++failures;
        EXPECT_EQ(e.longest, before) << "a search that fails makes the promise exact";
        continue;
      }
      EXPECT_GE(slot, shape.header_slots);
      EXPECT_LE(slot + count, shape.slots);
      const auto above = live.lower_bound(slot);
      EXPECT_TRUE(above == live.end() || slot + count <= above->first);
      EXPECT_TRUE(above == live.begin() || std::prev(above)->first + std::prev(above)->second <= slot);
      live.emplace(slot, count);
    } else if (!live.empty()) {
      const auto it = std::next(live.begin(), static_cast<long>(random() % live.size()));
      EXPECT_TRUE(e.spans(it->first, it->second));
      EXPECT_FALSE(e.spans(it->first, 0));
      e.drop(it->first, it->second);
      live.erase(it);
    }
    EXPECT_GE(e.longest, longest(e));
    EXPECT_EQ(e.objects, live.size());
  }
  EXPECT_GT(failures, 100U) << "the test never filled the extent";
  e.measure();
  EXPECT_EQ(e.longest, longest(e));
  for (const auto& [slot, count] : live) e.drop(slot, count);
  EXPECT_EQ(e.longest, shape.slots - shape.header_slots);
}

TEST_P(extents, hand_slots_out_clockwise) {
  extent& e = make();
  std::set<unsigned> seen;
  unsigned last = 0;
  for (unsigned i = 0; i < shape.slots - shape.header_slots; ++i) {
    const unsigned slot = e.take(1);
    EXPECT_GT(slot, last);
    EXPECT_TRUE(seen.insert(slot).second) << "a slot was used again before all others";
    last = slot;
    e.drop(slot, 1);
  }
  EXPECT_EQ(e.take(1), shape.header_slots);
}

TEST_P(extents, of_one_arena_are_found_by_their_longest_run_first_in_first_out) {
  slot_buckets buckets;
  const unsigned max = object_slots_max(kind);
  extent& a = make();
  extent& b = make();
  extent& c = make();
  EXPECT_EQ(buckets.candidate(1), nullptr);
  for (extent* e : {&a, &b}) {
    e->longest = 3;
    e->objects = 1;
    buckets.insert(*e);
  }
  buckets.insert(c);
  EXPECT_EQ(buckets.candidate(1), &a);
  EXPECT_EQ(buckets.candidate(3), &a);
  EXPECT_EQ(buckets.candidate(4), &c) << "empty extents come last";
  EXPECT_EQ(buckets.empty(kind), &c);
  a.longest = 2;
  buckets.refile(a);
  EXPECT_EQ(buckets.candidate(3), &b);
  EXPECT_EQ(buckets.candidate(2), &a);
  b.longest = 2;
  buckets.refile(b);
  EXPECT_EQ(buckets.candidate(2), &a) << "queue";
  buckets.remove(a);
  EXPECT_EQ(buckets.candidate(2), &b);
  b.longest = 0;
  buckets.refile(b);
  EXPECT_EQ(buckets.candidate(1), &c);
  buckets.remove(c);
  EXPECT_EQ(buckets.candidate(1), nullptr);
  EXPECT_EQ(buckets.candidate(max), nullptr);
  b.longest = static_cast<std::uint16_t>(max);
  buckets.refile(b);
  EXPECT_EQ(buckets.candidate(max), &b);
}

INSTANTIATE_TEST_SUITE_P(kinds, extents,
                         ::testing::Values(std::pair{page_kind::fine, 12U}, std::pair{page_kind::coarse, 12U},
                                           std::pair{page_kind::fine, 10U}, std::pair{page_kind::coarse, 10U},
                                           std::pair{page_kind::fine, 16U}, std::pair{page_kind::coarse, 16U}));

TEST(extent_image, reads_back_what_is_empty_and_nothing_else) {
  const layout::extent_shape s = layout::shape_of(page_kind::coarse, 12);
  std::vector<std::byte> image(2 * s.bytes, std::byte{0xEE});
  const std::uint64_t bytes = write_empty_extent(image.data(), s.bytes, page_kind::coarse, s);
  EXPECT_LE(bytes, s.header_slots * s.slot_bytes);
  unsigned damages = 0;
  const auto damaged = [&](const damage&) { ++damages; };
  const auto object = [](unsigned, unsigned) { FAIL() << "an empty extent has an object"; };
  read_extent(image.data(), s.bytes, page_kind::coarse, s, object, damaged);
  EXPECT_EQ(damages, 0U);
  read_extent(image.data(), s.bytes, page_kind::fine, layout::shape_of(page_kind::fine, 12), object, damaged);
  EXPECT_EQ(damages, 1U) << "of another kind";
  std::copy_n(image.begin() + static_cast<long>(s.bytes), s.bytes, image.begin());
  read_extent(image.data(), 0, page_kind::coarse, s, object, damaged);
  EXPECT_EQ(damages, 2U) << "at another place";
}

TEST(length_byte, finds_every_flipped_bit) {
  for (unsigned slots = 1; slots <= 127; ++slots) {
    const std::uint8_t byte = layout::length_byte(slots);
    EXPECT_EQ(layout::slots_of_length(byte), slots);
    for (unsigned bit = 0; bit < 8; ++bit) {
      EXPECT_EQ(layout::slots_of_length(static_cast<std::uint8_t>(byte ^ (1U << bit))), 0U);
    }
  }
  EXPECT_EQ(layout::slots_of_length(0), 0U);
  EXPECT_EQ(layout::slots_of_length(0x80), 0U);
}

TEST(room, is_that_of_the_kind_that_wastes_least) {
  using layout::room;
  EXPECT_EQ(layout::room_of(48, 12), (room{page_kind::fine, 3}));
  EXPECT_EQ(layout::room_of(64, 12), (room{page_kind::coarse, 1}));
  EXPECT_EQ(layout::room_of(80, 12), (room{page_kind::fine, 5}));
  EXPECT_EQ(layout::room_of(256, 12), (room{page_kind::coarse, 4}));
  EXPECT_EQ(layout::room_of(257, 12), (room{page_kind::coarse, 5}));
  EXPECT_EQ(layout::room_of(4096 + 64, 12), (room{page_kind::coarse, 65}));
  EXPECT_EQ(layout::room_of(4096 + 65, 12), (room{page_kind::run, 2}));
  EXPECT_TRUE(layout::same_room(33, 48, 12));
  EXPECT_EQ(layout::room_of(128, 12), (room{page_kind::coarse, 2}));
  EXPECT_FALSE(layout::same_room(48, 49, 12)) << "another kind";
  EXPECT_FALSE(layout::same_room(48, 112, 12)) << "more slots";
  EXPECT_FALSE(layout::same_room(48, layout::object_bytes_max + 1, 12)) << "no object is as large";
}

}  // namespace
}  // namespace nvm
