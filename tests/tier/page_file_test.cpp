// The second file: what comes back is what left, and nothing else is believed.
#include "tier/page_file.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "media/memory_device.hpp"

namespace nvm::tier {
namespace {

constexpr std::uint64_t pages = 300;
constexpr std::uint64_t page_bytes = 4096;
constexpr std::size_t device_bytes = 4 << 20;

page_file_identity identity() {
  page_file_identity who;
  std::memset(who.pool_uuid, 7, sizeof who.pool_uuid);
  std::memset(who.uuid, 9, sizeof who.uuid);
  who.pages = pages;
  return who;
}

// A page that compresses, one that does not, or zeros.
std::vector<std::byte> contents(std::uint64_t seed) {
  std::vector<std::byte> page(page_bytes);
  std::mt19937_64 random{seed};
  switch (seed % 3) {
    case 0:
      for (auto& b : page) b = static_cast<std::byte>(random());
      break;
    case 1:
      for (std::size_t i = 0; i < page_bytes; i += 16) page[i] = static_cast<std::byte>(random());
      break;
    default:
      break;
  }
  return page;
}

std::unique_ptr<page_file> made(block_device& device, layout::page_coding coding = layout::page_coding::plain) {
  EXPECT_TRUE(page_file::format(device, identity(), 1)) << last_message();
  auto opened = page_file::open(device, identity(), 0);
  EXPECT_TRUE(opened) << last_message();
  if (!opened) return nullptr;
  const status s = (*opened)->compress_by(coding);
  EXPECT_TRUE(s) << last_message();
  return std::move(*opened);
}

// Writes these pages and gives them back.
status put(page_file& file, std::map<page_t, std::vector<std::byte>>& which) {
  std::vector<leaving_page> leaving;
  for (auto& [page, bytes] : which) leaving.push_back({page, bytes.data(), {}});
  std::mutex lock;
  if (auto s = file.write(leaving, lock); !s) return s.error();
  for (const leaving_page& p : leaving) file.keep(p);
  return {};
}

class page_file_of : public testing::TestWithParam<layout::page_coding> {};
INSTANTIATE_TEST_SUITE_P(codings, page_file_of,
                         testing::Values(layout::page_coding::plain, layout::page_coding::lz4,
                                         layout::page_coding::zstd));

TEST_P(page_file_of, gives_back_what_it_was_given_after_any_number_of_opens) {
  memory_device device{device_bytes};
  auto file = made(device, GetParam());
  ASSERT_NE(file, nullptr);
  std::map<page_t, std::vector<std::byte>> expected;
  std::mt19937 random{5};
  std::vector<std::byte> found(page_bytes);
  for (unsigned round = 0; round < 40; ++round) {
    std::map<page_t, std::vector<std::byte>> batch;
    const auto first = static_cast<page_t>(random() % (pages - 40));
    for (page_t i = 0; i < 30; ++i) {
      if (random() % 4 != 0) batch[first + i] = contents(random());
    }
    for (auto& [page, bytes] : batch) file->forget(page);
    ASSERT_TRUE(put(*file, batch)) << last_message();
    for (auto& [page, bytes] : batch) expected[page] = bytes;
    if (round % 8 == 7) {
      const std::uint64_t used = file->units_used();
      auto again = page_file::open(device, identity(), file->sequence());
      ASSERT_TRUE(again) << last_message();
      ASSERT_TRUE((*again)->take_words(0, pages)) << last_message();
      EXPECT_EQ((*again)->units_used(), used);
      ASSERT_TRUE((*again)->compress_by(GetParam()));
      file = std::move(*again);
    }
    for (const auto& [page, bytes] : expected) {
      ASSERT_TRUE(file->read(page, found.data())) << last_message();
      ASSERT_EQ(found, bytes) << page;
    }
  }
  EXPECT_TRUE(file->is_zeros(pages - 1));
}

TEST(page_file, reads_neighbours_that_left_together_at_once) {
  memory_device device{device_bytes};
  auto file = made(device, layout::page_coding::lz4);
  ASSERT_NE(file, nullptr);
  std::map<page_t, std::vector<std::byte>> batch;
  for (page_t page = 10; page < 30; ++page) batch[page] = contents(page / 2 * 3 + 1);
  ASSERT_TRUE(put(*file, batch)) << last_message();
  std::vector<std::byte> found(32 * page_bytes);
  const std::uint64_t before = device.calls();
  const auto n = file->read_ahead(12, 32, found.data());
  ASSERT_TRUE(n) << last_message();
  EXPECT_EQ(*n, 18U);
  EXPECT_EQ(device.calls(), before + 1);
  for (page_t i = 0; i < *n; ++i)
    EXPECT_EQ(std::memcmp(found.data() + i * page_bytes, batch[12 + i].data(), page_bytes), 0);
}

TEST(page_file, uses_units_again_that_were_given_up) {
  memory_device device{device_bytes};
  auto file = made(device);
  ASSERT_NE(file, nullptr);
  std::map<page_t, std::vector<std::byte>> batch;
  for (page_t page = 0; page < 16; ++page) batch[page] = contents(3 * page);
  for (unsigned round = 0; round < 200; ++round) {
    for (auto& [page, bytes] : batch) {
      if (round % 2 == 0) file->forget(page);
    }
    ASSERT_TRUE(put(*file, batch)) << last_message();
  }
  EXPECT_EQ(file->units_used(), 16 * 8U);
  EXPECT_LE(file->bytes(), device_bytes / 4);
}

TEST(page_file, that_is_another_or_older_or_cut_off_is_refused_with_what_was_found) {
  memory_device device{device_bytes};
  auto file = made(device);
  ASSERT_NE(file, nullptr);
  std::map<page_t, std::vector<std::byte>> batch{{3, contents(3)}, {4, contents(6)}};
  const std::vector<std::byte> old = device.content();
  for (unsigned i = 0; i < 3; ++i) ASSERT_TRUE(put(*file, batch)) << last_message();
  const auto refused = [](std::vector<std::byte> content, const page_file_identity& who, std::uint64_t sequence) {
    memory_device left{std::move(content)};
    auto opened = page_file::open(left, who, sequence);
    if (opened) {
      const status s = (*opened)->take_words(0, pages);
      return s ? std::string{} : std::string{last_message()};
    }
    return std::string{last_message()};
  };
  EXPECT_EQ(refused(device.content(), identity(), 3), "");
  // Pages of a batch are given back when the pool has seen it: this pool is older than its second file.
  EXPECT_NE(refused(device.content(), identity(), 2).find("word of page 3: batch, at most: found 3, expected 2"),
            std::string::npos);
  EXPECT_NE(refused(old, identity(), 3).find("older than the pool: found 0 batches, expected 3"), std::string::npos);
  EXPECT_NE(refused(device.content(), identity(), 1).find("newer than the pool: found 3"), std::string::npos);
  page_file_identity other = identity();
  other.pool_uuid[0] = 1;
  EXPECT_NE(refused(device.content(), other, 3).find("of another pool: found uuid 07"), std::string::npos);
  other = identity();
  other.uuid[15] = 1;
  EXPECT_NE(refused(device.content(), other, 3).find("another second file of this pool"), std::string::npos);
  std::vector<std::byte> cut = device.content();
  cut.resize(16384 + 512);
  EXPECT_NE(refused(cut, identity(), 3).find("cut off: found 16896 bytes, expected at least"), std::string::npos);
  cut.resize(700);
  EXPECT_NE(refused(cut, identity(), 3).find("cut off: found 700 bytes"), std::string::npos);
  EXPECT_NE(refused(std::vector<std::byte>(device_bytes), identity(), 3).find("is no second file"), std::string::npos);
}

// Killed when the batch is in the file, before the pool has its number: any number of times.
TEST(page_file, is_found_again_after_any_number_of_unfinished_batches) {
  memory_device device{device_bytes};
  auto file = made(device);
  ASSERT_NE(file, nullptr);
  std::map<page_t, std::vector<std::byte>> batch{{3, contents(3)}, {4, contents(6)}};
  ASSERT_TRUE(put(*file, batch)) << last_message();
  const std::uint64_t seen = file->sequence();
  std::vector<std::byte> found(page_bytes);
  for (unsigned kill = 0; kill < 4; ++kill) {
    auto again = page_file::open(device, identity(), seen);
    ASSERT_TRUE(again) << last_message();
    ASSERT_TRUE((*again)->take_words(3, 2)) << last_message();
    (*again)->take_present(9 + kill, 1);
    for (const auto& [page, bytes] : batch) {
      ASSERT_TRUE((*again)->read(page, found.data())) << last_message();
      EXPECT_EQ(found, bytes) << page;
    }
    std::map<page_t, std::vector<std::byte>> unfinished{{9 + kill, contents(3 * kill)}};
    ASSERT_TRUE(put(**again, unfinished)) << last_message();
  }
  auto last = page_file::open(device, identity(), seen);
  ASSERT_TRUE(last) << last_message();
  EXPECT_EQ(*page_file::facts_of(device, identity()), seen + 1);
}

TEST(page_file, that_is_full_or_fails_keeps_what_it_had) {
  // Room for some 30 pages.
  memory_device device{16384 + 30 * page_bytes};
  auto file = made(device);
  ASSERT_NE(file, nullptr);
  std::map<page_t, std::vector<std::byte>> batch, more;
  for (page_t page = 0; page < 20; ++page) batch[page] = contents(3 * page);
  for (page_t page = 20; page < 60; ++page) more[page] = contents(3 * page);
  ASSERT_TRUE(put(*file, batch)) << last_message();
  const std::uint64_t used = file->units_used();
  EXPECT_EQ(put(*file, more).error(), errc::no_space);
  EXPECT_EQ(file->units_used(), used);
  EXPECT_FALSE(file->failed());
  more.erase(more.find(25), more.end());
  ASSERT_TRUE(put(*file, more)) << last_message();
  device.fail_call(2);
  more = {{70, contents(3)}};
  EXPECT_EQ(put(*file, more).error(), errc::io);
  EXPECT_TRUE(file->failed());
  EXPECT_EQ(put(*file, more).error(), errc::io);  // though the device would take it now
  std::vector<std::byte> found(page_bytes);
  for (const auto& [page, bytes] : batch) {
    ASSERT_TRUE(file->read(page, found.data())) << last_message();
    EXPECT_EQ(found, bytes);
  }
}

// What a page word or slot that was changed leads to is an error or the right bytes.
TEST(page_file, with_any_byte_changed_gives_the_right_bytes_or_an_error) {
  for (const auto coding : {layout::page_coding::plain, layout::page_coding::lz4, layout::page_coding::zstd}) {
    memory_device device{256 * 1024};
    auto file = made(device, coding);
    ASSERT_NE(file, nullptr);
    std::map<page_t, std::vector<std::byte>> batch;
    for (page_t page = 0; page < 12; ++page) batch[page] = contents(page);
    ASSERT_TRUE(put(*file, batch)) << last_message();
    const std::vector<std::byte> good = device.content();
    std::mt19937 random{11};
    unsigned refused = 0;
    std::vector<std::byte> found(page_bytes);
    for (unsigned i = 0; i < 3000; ++i) {
      std::vector<std::byte> bad = good;
      const std::size_t regions[3][2] = {{0, 1024}, {4096, 4096 + 12 * 32}, {16384, 16384 + 8 * page_bytes}};
      const auto& [from, to] = regions[random() % 3];
      const std::size_t at = from + random() % (to - from);
      const auto change = static_cast<std::byte>(1 + random() % 255);
      bad[at] ^= change;
      memory_device left{bad};
      auto opened = page_file::open(left, identity(), 1);
      if (!opened || !(*opened)->take_words(0, pages)) {
        ++refused;
        continue;
      }
      bool any_refused = false;
      for (const auto& [page, bytes] : batch) {
        if (!(*opened)->read(page, found.data())) {
          any_refused = true;
          continue;
        }
        ASSERT_EQ(found, bytes) << "page " << page << ", byte " << at << " of the file";
      }
      refused += any_refused ? 1 : 0;
    }
    EXPECT_GT(refused, 1500U);
  }
}

TEST(page_file, whose_pages_share_a_unit_is_refused) {
  memory_device device{device_bytes};
  auto file = made(device);
  ASSERT_NE(file, nullptr);
  std::map<page_t, std::vector<std::byte>> first{{1, contents(0)}}, second{{2, contents(3)}};
  ASSERT_TRUE(put(*file, first)) << last_message();
  file->forget(1);  // stored to: its units are free, and the file still names them
  ASSERT_TRUE(put(*file, second)) << last_message();
  auto as_it_is = page_file::open(device, identity(), 2);
  ASSERT_TRUE(as_it_is) << last_message();
  EXPECT_TRUE((*as_it_is)->take_words(2, pages - 2)) << last_message();
  EXPECT_EQ((*as_it_is)->take_words(1, 1).error(), errc::corrupt);
  EXPECT_NE(std::string{last_message()}.find("in use by another page"), std::string::npos);
}

TEST(unit_map, finds_gaps_and_gives_no_unit_twice) {
  unit_map units;
  std::mt19937 random{2};
  std::map<std::uint64_t, std::uint64_t> taken;
  std::uint64_t used = 0;
  for (unsigned step = 0; step < 20'000; ++step) {
    if (random() % 2 == 0 || taken.empty()) {
      const std::uint64_t n = 1 + random() % (random() % 16 == 0 ? 400 : 8);
      const std::uint64_t at = units.take(n, 1 << 20);
      ASSERT_NE(at, unit_map::none);
      const auto next = taken.lower_bound(at);
      ASSERT_TRUE(next == taken.end() || at + n <= next->first);
      ASSERT_TRUE(next == taken.begin() || std::prev(next)->first + std::prev(next)->second <= at);
      taken[at] = n;
      used += n;
    } else {
      auto one = taken.lower_bound(random() % units.end());
      if (one == taken.end()) one = taken.begin();
      units.give(one->first, one->second);
      used -= one->second;
      taken.erase(one);
    }
    ASSERT_EQ(units.used(), used);
  }
  EXPECT_EQ(units.take(units.end() + 1, units.end() + 50), unit_map::none);
}

}  // namespace
}  // namespace nvm::tier
