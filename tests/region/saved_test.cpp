// The table that a close saves: the next open takes it and reads no header; no process that was killed has left one;
// bytes that are wrong in it, or where it leads to, show no wrong region.
#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <string>
#include <thread>

#include "ground.hpp"

namespace nvm::region::testing {
namespace {

using media_type = direct_media;

options saving(std::uint64_t from) {
  options o = settings();
  o.saved_from = from;
  return o;
}

class saved_table_of : public ::testing::Test {
 protected:
  static constexpr std::uint64_t many = 400;

  void start(std::uint64_t from = 1, std::uint64_t pages = 1024) {
    pool = std::make_unique<ground<media_type>>(pool_geometry(pages, pages), saving(from), isa::best_write_back());
    join();
  }
  void join() {
    set = &pool->make("subject");
    t = &pool->join();
  }
  template <class Body>
  status change(std::uint64_t rid, bool joins, Body&& body, mode how = mode::adaptive) {
    return change_alone(pool->all(), *set, *t, rid, how, joins, body);
  }
  status create(std::uint64_t rid, std::uint64_t size) {
    auto bytes = pattern(rid, size);
    const status s = change(rid, false, [&](auto& tx) -> status {
      if (status made = tx.create(rid, size, 0); !made) return made;
      return size % 5 == 4 ? status{} : tx.write(rid, 0, bytes);
    });
    if (size % 5 == 4) bytes.assign(size, std::byte{0});
    if (s) model[rid] = bytes;
    return s;
  }
  status write(std::uint64_t rid, std::uint64_t offset, std::uint64_t bytes, mode how = mode::adaptive) {
    const auto b = pattern(++patterns, bytes);
    const status s = change(rid, true, [&](auto& tx) { return tx.write(rid, offset, b); }, how);
    if (s) std::copy(b.begin(), b.end(), model[rid].begin() + static_cast<std::ptrdiff_t>(offset));
    return s;
  }
  status drop(std::uint64_t rid) {
    const status s = change(rid, true, [&](auto& tx) { return tx.drop(rid); });
    if (s) model.erase(rid);
    return s;
  }
  [[nodiscard]] static std::uint64_t rid_of(std::uint64_t i) { return i * 0x9E37'79B9'7F4A'7C15 + 1; }
  // Of every kind: small, without bytes, in runs, with replicas and two copies, and places of those that were dropped.
  void fill() {
    for (std::uint64_t i = 0; i < many; ++i) {
      ASSERT_TRUE(create(rid_of(i), i % 50 == 0 ? 3000 + i : i % 300)) << last_message();
    }
    for (std::uint64_t i = 10; i < 13; ++i) ASSERT_TRUE(write(rid_of(i + 240), 0, 240, mode::replica));
    for (std::uint64_t i = 10; i < 13; ++i) ASSERT_TRUE(write(rid_of(i + 260), 0, 240, mode::alternate));
    for (std::uint64_t i = 0; i < many; i += 7) ASSERT_TRUE(drop(rid_of(i)));
  }
  // The pool is closed, and opened by another process.
  void close_and_open() {
    pool->all().come_to_rest();
    open();
  }
  void open() {
    pool->crash_and_open();
    join();
  }
  [[nodiscard]] std::uint64_t tables() const { return pool->all().recovered().tables; }
  [[nodiscard]] result<std::vector<std::byte>> whole(std::uint64_t rid) {
    std::vector<std::byte> seen(4096);
    const auto n = read(pool->all(), *set, *t, rid, 0, seen);
    if (!n) return n.error();
    seen.resize(*n);
    return seen;
  }
  void compare() {
    EXPECT_EQ(set->regions.count(), model.size());
    for (std::uint64_t i = 0; i < many + 50; ++i) {
      const auto at = model.find(rid_of(i));
      const auto seen = whole(rid_of(i));
      ASSERT_EQ(seen.has_value(), at != model.end()) << i << ": " << last_message();
      if (seen) {
        EXPECT_EQ(*seen, at->second) << i;
      } else {
        EXPECT_EQ(seen.error(), errc::not_found);
      }
    }
  }
  // At rest.
  [[nodiscard]] layout::set_entry& entry_of_set() const {
    const auto at = read_anchor_word(pool->base(), pool->sizes(), anchor_word::regions);
    return reinterpret_cast<layout::directory*>(pool->base() + *at)->entries[0];
  }
  [[nodiscard]] std::uint64_t run() const { return entry_of_set().saved & checked_mask; }
  [[nodiscard]] layout::saved_head& head() const {
    return *reinterpret_cast<layout::saved_head*>(pool->base() + run());
  }
  [[nodiscard]] std::uint64_t buckets() const {
    std::uint64_t n = 0;
    for (const std::uint64_t p : head().parts) n += saved_view::buckets_of(p);
    return n;
  }
  [[nodiscard]] std::span<layout::saved_cell> cells() const {
    return {reinterpret_cast<layout::saved_cell*>(pool->base() + run() + sizeof(layout::saved_head)),
            buckets() * layout::saved_cells};
  }
  [[nodiscard]] std::span<std::uint64_t> words() const {
    return {reinterpret_cast<std::uint64_t*>(cells().data() + cells().size()), head().extents + head().slots};
  }
  [[nodiscard]] layout::saved_cell& cell(std::uint64_t rid) const {
    return *std::find_if(cells().begin(), cells().end(), [&](auto& c) { return c.place != 0 && c.rid == rid; });
  }
  // As whoever knows the key could.
  void seal_again() const {
    const std::uint64_t key = pool->all().key();
    auto& h = head();
    const std::byte* const data = pool->base() + run() + sizeof h;
    auto* const sums = words().data() + words().size();
    for (std::uint64_t i = 0; i < saved_view::blocks(h); ++i) sums[i] = saved_sum(h, data, i, key);
    h.sums_crc = checksum(sums, saved_view::blocks(h) * 8, key);
    h.crc = entry_of_set().saved_crc = saved_crc(h, run(), key);
  }

  std::unique_ptr<ground<media_type>> pool;
  set_state<media_type>* set = nullptr;
  thread_state<media_type>* t = nullptr;
  std::map<std::uint64_t, std::vector<std::byte>> model;
  std::uint64_t patterns = 0;
};

TEST_F(saved_table_of, a_set_is_taken_by_the_next_open) {
  start();
  fill();
  const std::uint64_t free = pool->free_pages();
  close_and_open();
  EXPECT_EQ(tables(), 1U);
  EXPECT_EQ(pool->all().recovered().regions, model.size());
  compare();
  // Every kind of change, of regions that nobody has asked for before as well.
  close_and_open();
  EXPECT_EQ(tables(), 1U);
  for (std::uint64_t i = 1; i < many; i += 9) {
    if (i % 7 == 0) continue;
    if (i % 2 == 0) {
      ASSERT_TRUE(drop(rid_of(i)));
    } else if (model[rid_of(i)].size() > 9) {
      ASSERT_TRUE(write(rid_of(i), 5, 4));
    }
  }
  for (std::uint64_t i = many; i < many + 40; ++i) ASSERT_TRUE(create(rid_of(i), i % 200));
  EXPECT_EQ(change(rid_of(1), false, [&](auto& tx) { return tx.create(rid_of(1), 1, 0); }).error(), errc::exists);
  compare();
  close_and_open();
  EXPECT_EQ(tables(), 1U);
  compare();
  // What the headers say is the same.
  entry_of_set().saved_crc ^= 1;
  open();
  EXPECT_EQ(tables(), 0U);
  compare();
  EXPECT_GE(pool->free_pages() + 40, free);
}

TEST_F(saved_table_of, a_set_that_was_changed_by_a_killed_process_is_not_taken) {
  start();
  fill();
  close_and_open();
  // Nothing has changed: it is as true as before.
  (void)whole(rid_of(1));
  open();
  EXPECT_EQ(tables(), 1U);
  ASSERT_TRUE(drop(rid_of(1)));
  ASSERT_TRUE(create(rid_of(1), 77));  // as many as before
  EXPECT_EQ(entry_of_set().saved, 0U);
  open();
  EXPECT_EQ(tables(), 0U);
  compare();
  // Pages of the table that is none are free.
  const std::uint64_t free = pool->free_pages();
  close_and_open();
  EXPECT_EQ(tables(), 1U);
  EXPECT_LT(pool->free_pages(), free);
  compare();
}

TEST_F(saved_table_of, few_regions_is_not_saved) {
  start(many);
  for (std::uint64_t i = 0; i + 1 < many; ++i) ASSERT_TRUE(create(rid_of(i), 10));
  close_and_open();
  EXPECT_EQ(tables(), 0U);
  compare();
  ASSERT_TRUE(create(rid_of(many), 10));
  close_and_open();
  EXPECT_EQ(tables(), 1U);
  compare();
}

TEST_F(saved_table_of, a_set_that_has_become_small_leaves_no_pages) {
  start(2);
  ASSERT_TRUE(create(rid_of(0), 10));
  ASSERT_TRUE(create(rid_of(1), 10));
  close_and_open();
  EXPECT_EQ(tables(), 1U);
  ASSERT_TRUE(drop(rid_of(1)));
  close_and_open();
  EXPECT_EQ(tables(), 0U);
  EXPECT_EQ(pool->all().recovered().runs_freed, 0U);
  compare();
}

// Places that the dropped set has left would be waited for in vain.
TEST_F(saved_table_of, a_set_beside_another_that_is_dropped_is_taken) {
  start();
  fill();
  close_and_open();
  auto& other = pool->make("other");
  const auto in_other = [&](bool joins, auto&& body) {
    return change_alone(pool->all(), other, *t, 1, mode::adaptive, joins, body);
  };
  ASSERT_TRUE(in_other(false, [](auto& tx) { return tx.create(1, 100, 0); })) << last_message();
  const auto larger = pattern(1, 2000);
  const auto grow = [&](auto& tx) -> status {
    const auto at = tx.append(1, larger);
    return at ? status{} : status{at.error()};
  };
  ASSERT_TRUE(in_other(true, grow)) << last_message();  // moves it
  ASSERT_NE(pool->all().left().bytes(), 0U);
  ASSERT_TRUE(write(rid_of(1), 0, 1)) << last_message();
  pool->all().drop(other);
  EXPECT_EQ(pool->all().left().bytes(), 0U);
  close_and_open();
  EXPECT_EQ(tables(), 1U);
  compare();
}

// A region that is not made after all leaves an extent, which the table must know.
TEST_F(saved_table_of, a_set_whose_regions_were_not_made_knows_their_places) {
  start();
  fill();
  const auto fails = [&](unsigned round) {
    if (round % 2 == 0) return create(rid_of(1), 1900).error() == errc::exists;
    const domain<media_type>::inside here{pool->all(), *t};
    transaction<media_type> tx{pool->all(), *set, *t};
    const bool made = tx.create(rid_of(many), 1500, 0).has_value();
    tx.abort();
    return made;
  };
  // The first of each kind takes an extent, of a size of slots that no region has.
  for (unsigned round = 0; round < 2; ++round) {
    close_and_open();
    EXPECT_EQ(tables(), 1U);
    ASSERT_TRUE(fails(round)) << last_message();
  }
  close_and_open();
  const std::uint64_t free = pool->free_pages();
  for (unsigned round = 2; round < 6; ++round) {
    EXPECT_EQ(tables(), 1U);
    ASSERT_TRUE(fails(round)) << last_message();
    close_and_open();
    EXPECT_EQ(pool->free_pages(), free) << round;
  }
  compare();
}

TEST_F(saved_table_of, a_set_made_by_the_library_before_is_not_saved) {
  start();
  fill();
  const auto at = *read_anchor_word(pool->base(), pool->sizes(), anchor_word::regions);
  const std::uint64_t state = at + offsetof(layout::directory, entries);
  entry_of_set().state = seal_word(layout::set_counted, word_seed(state));
  open();
  close_and_open();
  EXPECT_EQ(tables(), 0U);
  EXPECT_EQ(entry_of_set().saved, 0U);
  compare();
  // A library of later.
  pool->all().come_to_rest();
  entry_of_set().state = seal_word(layout::set_saved + 1, word_seed(state));
  domain<media_type> d{pool->medium(), pool->base(), pool->pages(), saving(1)};
  ASSERT_TRUE(d.open());
  EXPECT_EQ(d.open_sets(1).error(), errc::version);
}

TEST_F(saved_table_of, a_set_with_any_byte_changed_is_none) {
  start();
  fill();
  pool->all().come_to_rest();
  const std::uint64_t bytes = saved_view::all_bytes(head());
  const std::vector<std::byte> kept(pool->base(), pool->base() + pool->sizes().capacity_bytes());
  std::mt19937_64 random{bytes};
  std::vector<std::uint64_t> places;
  for (std::uint64_t i = 0; i < sizeof(layout::saved_head); i += 8) places.push_back(run() + i + random() % 8);
  for (unsigned i = 0; i < 150; ++i) places.push_back(run() + random() % bytes);
  const auto entry = static_cast<std::uint64_t>(reinterpret_cast<std::byte*>(&entry_of_set().saved) - pool->base());
  for (std::uint64_t i = 0; i < 16; ++i) places.push_back(entry + i);
  for (const std::uint64_t at : places) {
    pool->base()[at] ^= std::byte(1U << random() % 8);
    open();
    EXPECT_EQ(tables(), 0U) << at;
    EXPECT_EQ(set->regions.count(), model.size());
    const std::uint64_t rid = rid_of(random() % many);
    const auto seen = whole(rid);
    EXPECT_EQ(seen.has_value(), model.contains(rid));
    if (seen) {
      EXPECT_EQ(*seen, model[rid]);
    }
    std::copy(kept.begin(), kept.end(), pool->base());
  }
  open();
  EXPECT_EQ(tables(), 1U);
  compare();
}

// As whoever knows the key could write it: checksums hold.
TEST_F(saved_table_of, wrong_places_shows_no_wrong_region) {
  start();
  fill();
  pool->all().come_to_rest();
  const std::vector<std::byte> kept(pool->base(), pool->base() + pool->sizes().capacity_bytes());
  const auto bytes_of_user = cell(rid_of(151)).place + sizeof(layout::header) + 8;
  std::mt19937_64 random{3};
  std::vector<std::uint64_t> wrong{cell(rid_of(2)).place,
                                   words()[head().extents],  // a free place
                                   words()[0],               // partners
                                   bytes_of_user,
                                   run(),
                                   pool->sizes().capacity_bytes() - 8,
                                   ~std::uint64_t{0},
                                   layout::saved_place(1, 3),
                                   cell(rid_of(1)).place ^ std::uint64_t{1} << layout::place_bits};
  for (unsigned i = 0; i < 60; ++i) wrong.push_back(random() >> random() % 64 | 1);
  for (const std::uint64_t place : wrong) {
    cell(rid_of(1)).place = place;
    seal_again();
    open();
    EXPECT_EQ(tables(), 1U);
    const auto seen = whole(rid_of(1));
    ASSERT_FALSE(seen) << place;
    EXPECT_EQ(seen.error(), errc::corrupt) << last_message();
    EXPECT_EQ(change(rid_of(1), false, [&](auto& tx) { return tx.create(rid_of(1), 9, 0); }).error(), errc::corrupt);
    EXPECT_EQ(write(rid_of(1), 0, 1).error(), errc::corrupt);
    EXPECT_EQ(set->regions.load_all().error(), errc::corrupt);
    const auto other = whole(rid_of(2));
    ASSERT_TRUE(other) << last_message();
    EXPECT_EQ(*other, model[rid_of(2)]);
    std::copy(kept.begin(), kept.end(), pool->base());
  }
}
TEST_F(saved_table_of, wrong_free_places_gives_none_that_is_in_use) {
  start();
  fill();
  pool->all().come_to_rest();
  std::vector<std::uint64_t> taken;
  for (const auto& c : cells()) {
    if (c.place != 0) taken.push_back(c.place);
  }
  std::sort(taken.begin(), taken.end(), [](auto a, auto b) { return layout::offset_of(a) < layout::offset_of(b); });
  const auto free = words().subspan(head().extents);
  for (std::size_t i = 0; i < free.size(); ++i) free[i] = i % 3 == 2 ? free[i - 1] : taken[i % taken.size()];
  seal_again();
  open();
  EXPECT_EQ(tables(), 1U);
  for (std::uint64_t i = many; i < many + 50; ++i) ASSERT_TRUE(create(rid_of(i), i % 300)) << last_message();
  compare();
  // What is not known to be free comes back when headers are read.
  close_and_open();
  EXPECT_EQ(tables(), 0U);
  compare();
  close_and_open();
  EXPECT_EQ(tables(), 1U);
}
// Cells that no number of the head speaks of: a close that copies them would find no room.
TEST_F(saved_table_of, more_regions_than_its_head_says_is_none) {
  start();
  fill();
  pool->all().come_to_rest();
  const std::vector<std::byte> kept(pool->base(), pool->base() + pool->sizes().capacity_bytes());
  const auto empty = [&] {
    return std::find_if(cells().begin(), cells().end(), [](const auto& c) { return c.place == 0; });
  };
  ASSERT_NE(empty(), cells().end());
  *empty() = {rid_of(many + 7), cell(rid_of(1)).place};
  seal_again();
  open();
  EXPECT_EQ(tables(), 0U);
  compare();
  std::copy(kept.begin(), kept.end(), pool->base());
  for (auto& c : cells()) {
    if (c.place == 0) c = {rid_of(many + 7), cell(rid_of(1)).place};
  }
  seal_again();
  open();
  EXPECT_EQ(tables(), 0U);
  compare();
  close_and_open();
  EXPECT_EQ(tables(), 1U);
  std::copy(kept.begin(), kept.end(), pool->base());
  cell(rid_of(2)).place = 0;
  seal_again();
  open();
  EXPECT_EQ(tables(), 0U);
  compare();
}
TEST_F(saved_table_of, wrong_sizes_is_none) {
  start();
  fill();
  pool->all().come_to_rest();
  const std::vector<std::byte> kept(pool->base(), pool->base() + pool->sizes().capacity_bytes());
  const std::uint64_t key = pool->all().key();
  for (std::uint64_t* const word : {&head().regions, &head().extents, &head().slots, &head().parts[0],
                                    &head().parts[63], &head().sums_crc, &head().magic}) {
    for (const std::uint64_t value : {std::uint64_t{0}, *word + 1, ~std::uint64_t{0}, std::uint64_t{1} << 39,
                                      *word | std::uint64_t{0xFFFF'FFFF} << 32}) {
      if (*word == value) continue;
      *word = value;
      head().crc = entry_of_set().saved_crc = saved_crc(head(), run(), key);
      open();
      EXPECT_EQ(tables(), 0U) << value;
      compare();
      std::copy(kept.begin(), kept.end(), pool->base());
    }
  }
}

TEST_F(saved_table_of, a_region_whose_header_is_damaged_tells_of_that_one) {
  start();
  fill();
  pool->all().come_to_rest();
  const std::uint64_t victim = rid_of(31);
  const std::uint64_t header = layout::offset_of(cell(victim).place);
  for (unsigned bit = 0; bit < 8 * sizeof(layout::header); bit += 5) {
    pool->base()[header + bit / 8] ^= std::byte(1U << bit % 8);
    open();
    EXPECT_EQ(tables(), 1U);
    EXPECT_EQ(whole(victim).error(), errc::corrupt);
    EXPECT_NE(std::string{last_message()}.find("region " + std::to_string(victim)), std::string::npos);
    EXPECT_EQ(hold(pool->all(), *set, *t, victim).error(), errc::corrupt);
    EXPECT_EQ(drop(victim).error(), errc::corrupt);
    const auto other = whole(rid_of(32));
    ASSERT_TRUE(other);
    EXPECT_EQ(*other, model[rid_of(32)]);
    pool->base()[header + bit / 8] ^= std::byte(1U << bit % 8);
  }
  open();
  compare();
}

TEST_F(saved_table_of, a_full_pool_gives_its_pages_for_regions) {
  start(1, 256);
  constexpr std::uint64_t large = 60;
  for (std::uint64_t i = 0; i < large; ++i) ASSERT_TRUE(create(rid_of(i), 4096));
  std::uint64_t i = large;
  while (create(rid_of(i), 100)) ++i;
  ASSERT_GT(i, 1000U);
  for (std::uint64_t k = 0; k < large; ++k) ASSERT_TRUE(drop(rid_of(k)));
  close_and_open();
  ASSERT_EQ(tables(), 1U);
  const std::uint64_t free = pool->free_pages();
  ASSERT_LT(free, large);
  // The pages of the table are wanted.
  std::uint64_t k = 0;
  while (create(rid_of(k), 4096)) ++k;
  EXPECT_GT(k, free);
  EXPECT_EQ(entry_of_set().saved, 0U);
}

TEST_F(saved_table_of, a_set_is_used_by_threads_that_ask_for_the_same_regions_at_once) {
  start();
  fill();
  close_and_open();
  ASSERT_EQ(tables(), 1U);
  std::atomic<unsigned> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned n = 0; n < 3; ++n) {
    thread_state<media_type>& mine = pool->join();
    threads.emplace_back([&, n] {
      for (std::uint64_t i = 0; i < many; ++i) {
        const std::uint64_t rid = rid_of((i * (2 * n + 1)) % many);
        const bool drops = i % 11 == n;
        if (drops) {
          (void)change_alone(pool->all(), *set, mine, rid, mode::adaptive, true,
                             [&](auto& tx) { return tx.drop(rid); });
          continue;
        }
        std::vector<std::byte> seen(4096);
        const auto count = read(pool->all(), *set, mine, rid, 0, seen);
        if (!count) {
          wrong += count.error() == errc::not_found ? 0 : 1;
          continue;
        }
        seen.resize(*count);
        const auto at = model.find(rid);
        wrong += at != model.end() && at->second == seen ? 0 : 1;
      }
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(wrong, 0U);
  // None that was dropped is back.
  std::erase_if(model, [&](const auto& m) { return !whole(m.first).has_value(); });
  compare();
  close_and_open();
  EXPECT_EQ(tables(), 1U);
  compare();
}

// At an exit other threads of the program may count while tables are saved.
TEST_F(saved_table_of, is_replaced_while_regions_are_counted) {
  start();
  fill();
  close_and_open();
  std::atomic<bool> over{false};
  std::vector<std::thread> counting;
  for (int i = 0; i < 2; ++i) {
    counting.emplace_back([&] {
      while (!over) EXPECT_EQ(set->regions.count(), model.size());
    });
  }
  for (int i = 0; i < 200; ++i) pool->all().come_to_rest();
  over = true;
  for (auto& one : counting) one.join();
  compare();
}

}  // namespace
}  // namespace nvm::region::testing
