// The parts of regions by themselves: sizes, headers, the table, the lock.
#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <set>
#include <thread>

#include "ground.hpp"

namespace nvm::region::testing {
namespace {

TEST(region_sizes, waste_little) {
  for (std::uint64_t bytes = 1; bytes <= layout::inside_max; ++bytes) {
    const unsigned c = layout::class_of(bytes);
    const std::uint64_t slot = layout::slot_bytes_of_class[c];
    ASSERT_GE(slot, bytes + sizeof(layout::header));
    if (bytes >= 48) {
      EXPECT_GE(100 * (bytes + sizeof(layout::header)), 85 * slot) << bytes;
    }
    if (c > 0) {
      EXPECT_LT(layout::slot_bytes_of_class[c - 1], bytes + sizeof(layout::header));
    }
    EXPECT_EQ(layout::class_of_head(layout::head_of_class(c)), c);
  }
  for (std::uint64_t bytes = 1; bytes <= layout::inside_max; ++bytes) {
    const unsigned c = layout::partner_class_of(bytes);
    ASSERT_TRUE(layout::is_of_partners(c));
    ASSERT_GE(layout::room_in(c), bytes);
    EXPECT_EQ(layout::class_of_head(layout::head_of_class(c)), c);
    EXPECT_EQ(layout::slot_at(c, 3) % line_bytes, 0U);
  }
  EXPECT_EQ(layout::class_of_head(layout::extent_magic | std::uint64_t{33} << 32), layout::all_classes);
  EXPECT_EQ(layout::class_of_head(layout::partner_magic | std::uint64_t{96} << 32), layout::all_classes);
}

TEST(region_headers, say_what_they_were_told_and_any_flipped_bit_is_found) {
  alignas(8) std::byte pool[256] = {};
  constexpr std::uint64_t at = 64, key = 99;
  const layout::facts in{0xFFFF'0000'1234'5678, layout::length_max, layout::length_max - 5, 0xFEDC'BA98, 4095,
                         layout::state::run};
  const layout::header h = sealed(in, at, key);
  std::memcpy(pool + at, &h, sizeof h);
  layout::facts out;
  ASSERT_EQ(header_fault(pool, at, 0, key, out), nullptr);
  EXPECT_EQ(out.rid, in.rid);
  EXPECT_EQ(out.length, in.length);
  EXPECT_EQ(out.written, in.written);
  EXPECT_EQ(out.page, in.page);
  EXPECT_EQ(out.levelling, in.levelling);
  for (unsigned bit = 0; bit < 8 * sizeof h; ++bit) {
    pool[at + bit / 8] ^= std::byte(1U << bit % 8);
    EXPECT_NE(header_fault(pool, at, 0, key, out), nullptr) << bit;
    pool[at + bit / 8] ^= std::byte(1U << bit % 8);
  }
  // Elsewhere, or in another pool, it is none.
  std::memcpy(pool + at + 32, &h, sizeof h);
  EXPECT_NE(header_fault(pool, at + 32, 0, key, out), nullptr);
  EXPECT_NE(header_fault(pool, at, 0, key + 1, out), nullptr);
}

TEST(region_table, has_what_was_put_in) {
  table t;
  std::vector<std::unique_ptr<entry>> all;
  std::mt19937_64 random{7};
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    all.push_back(std::make_unique<entry>());
    all.back()->rid = i % 2 == 0 ? i : random();
    ASSERT_TRUE(t.insert(all.back().get())) << last_message();
  }
  EXPECT_EQ(t.count(), all.size());
  EXPECT_EQ(t.insert(all[5].get()).error(), errc::exists);
  for (std::size_t i = 0; i < all.size(); i += 3) t.erase(all[i].get());
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(t.find(all[i]->rid), i % 3 == 0 ? nullptr : all[i].get());
  std::set<const entry*> visited;
  for (unsigned s = 0; s < table::shards; ++s) t.for_each_of(s, [&](entry* e) { visited.insert(e); });
  EXPECT_EQ(visited.size(), t.count());
}

TEST(region_table, is_read_while_it_grows) {
  table t;
  std::vector<std::unique_ptr<entry>> all;
  for (std::uint64_t i = 0; i < 30'000; ++i) {
    all.push_back(std::make_unique<entry>());
    all.back()->rid = i * 0x9E37'79B9;
  }
  for (std::uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(t.insert(all[i].get()));
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> missed{0};
  std::thread reader{[&] {
    while (!stop.load()) {
      for (std::uint64_t i = 0; i < 100; ++i) missed += t.find(all[i]->rid) == all[i].get() ? 0 : 1;
    }
  }};
  for (std::uint64_t i = 100; i < all.size(); ++i) ASSERT_TRUE(t.insert(all[i].get()));
  stop = true;
  reader.join();
  EXPECT_EQ(missed.load(), 0U);
}

TEST(region_lock, readers_that_register_keep_the_holder_from_storing) {
  region_lock l;
  using kept_by = region_lock::kept_by;
  ASSERT_EQ(l.try_hold(), kept_by::nobody);
  EXPECT_EQ(l.try_hold(), kept_by::transaction);
  l.register_reader();
  std::atomic<bool> changing{false};
  std::thread writer{[&] {
    l.begin_change();
    changing = true;
    l.end_change(false);
    l.let_go();
  }};
  std::this_thread::sleep_for(std::chrono::milliseconds{20});
  EXPECT_FALSE(changing.load());
  const std::uint64_t begun = l.begin_read();
  EXPECT_TRUE(l.end_read(begun));
  l.leave_reading();
  writer.join();
  EXPECT_FALSE(l.end_read(begun));
  EXPECT_FALSE(l.is_held());
}

// A writer waits for readers that are counted, for a while beside new ones, then alone.
TEST(region_lock, keeps_counted_readers_out_after_a_while) {
  region_lock l;
  ASSERT_EQ(l.try_hold(), region_lock::kept_by::nobody);
  std::atomic<bool> stop{false};
  std::atomic<unsigned> overlapped{0};
  std::atomic<unsigned> inside{0};
  std::thread readers[2];
  for (std::thread& t : readers) {
    t = std::thread{[&] {
      while (!stop.load()) {
        l.count_reader();
        ++inside;
        std::this_thread::yield();
        --inside;
        l.leave_reading();
      }
    }};
  }
  for (unsigned i = 0; i < 50; ++i) {
    l.begin_change(64);
    overlapped += inside.load();
    l.end_change(false);
  }
  stop = true;
  for (std::thread& t : readers) t.join();
  EXPECT_EQ(overlapped.load(), 0U);
  l.let_go();
}

TEST(region_lock, tells_who_holds_it) {
  using kept_by = region_lock::kept_by;
  region_lock l;
  ASSERT_TRUE(l.try_hold_for_a_moment());
  EXPECT_FALSE(l.try_hold_for_a_moment());
  EXPECT_EQ(l.try_hold(), kept_by::moment);
  l.let_go();
  l.want();
  EXPECT_FALSE(l.try_hold_for_a_moment());
  EXPECT_EQ(l.try_hold(), kept_by::transaction) << "others wait";
  EXPECT_EQ(l.try_hold(true), kept_by::nobody);
  EXPECT_EQ(l.try_hold(true), kept_by::transaction);
  l.want_no_longer();
  l.let_go();
  EXPECT_EQ(l.try_hold(), kept_by::nobody);
}

TEST(region_turns, are_taken_in_the_order_of_coming) {
  turns all;
  all.come(3, 0, 7);
  all.come(1, 0, 7);
  all.come(2, 1, 7);
  all.come(0, 0, 8);
  EXPECT_EQ(all.count(), 4U);
  EXPECT_FALSE(all.has_predecessor(3));
  EXPECT_TRUE(all.has_company(3));
  EXPECT_TRUE(all.has_predecessor(1));
  for (const unsigned alone : {2U, 0U}) EXPECT_FALSE(all.has_predecessor(alone) || all.has_company(alone));
  all.go(3);
  EXPECT_FALSE(all.has_predecessor(1));
  all.come(3, 0, 7);
  EXPECT_TRUE(all.has_predecessor(3));
}

TEST(shared_bytes, are_copied_from_any_place_and_none_besides) {
  constexpr std::size_t most = 300;
  std::byte from[most + 32];
  std::mt19937_64 random{7};
  for (std::byte& b : from) b = static_cast<std::byte>(random());
  for (std::size_t at = 0; at < 16; ++at) {
    for (std::size_t n = 0; n <= most; ++n) {
      std::byte to[most + 16];
      std::fill(std::begin(to), std::end(to), std::byte{0xA5});
      isolation::copy_out(to + at % 8, from + at, n);
      ASSERT_TRUE(std::equal(to + at % 8, to + at % 8 + n, from + at)) << at << ", " << n;
      ASSERT_TRUE(std::all_of(to, to + at % 8, [](std::byte b) { return b == std::byte{0xA5}; }));
      ASSERT_TRUE(std::all_of(to + at % 8 + n, std::end(to), [](std::byte b) { return b == std::byte{0xA5}; }));
    }
  }
}

}  // namespace
}  // namespace nvm::region::testing
