// Bases of a pool: in a superblock, as a stranger may have written them, and of files that open elsewhere.
#include "pool/base_history.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <string>

#include "nvm/nvm.h"
#include "pool_testing.hpp"

namespace nvm::testing {
namespace {

using layout::superblock;

constexpr std::uint64_t at(std::uint64_t n) { return 0x2000'0000'0000 + n * (std::uint64_t{1} << 30); }

superblock based() {
  superblock_request r;
  r.shape.size_pages = 64;
  r.shape.capacity_pages = (std::uint64_t{40} << 20) / 4096;  // more than a base's unit
  r.shape.lane_count = 2;
  r.shape.lane_bytes = 4096;
  r.medium = NVM_MEDIUM_SHM;
  r.uuid[0] = 7;
  r.base_address = at(0);
  auto made = make_superblock(r);
  EXPECT_TRUE(made) << last_message();
  return *made;
}

TEST(base_history, takes_in_eight_bases_and_refuses_the_ninth_with_their_names) {
  superblock sb = based();
  EXPECT_FALSE(must_relocate(sb, at(0)));
  EXPECT_TRUE(must_relocate(sb, at(1)));
  const auto known = join_base(sb, at(0));
  ASSERT_TRUE(known);
  EXPECT_FALSE(*known);
  EXPECT_EQ(sb.base_history_count, 0U);
  for (std::uint64_t i = 1; i < 8; ++i) {
    const auto joined = join_base(sb, at(i));
    ASSERT_TRUE(joined) << last_message();
    EXPECT_TRUE(*joined);
    EXPECT_EQ(sb.base_history_count, i + 1);
    EXPECT_EQ(sb.generation, i);
    EXPECT_TRUE(check_superblock(sb, ~std::uint64_t{0})) << last_message();
  }
  EXPECT_EQ(sb.features_incompat, layout::feature_bases);
  EXPECT_EQ(sb.base_address, at(0));
  EXPECT_EQ(join_base(sb, at(8)).error(), errc::address);
  for (std::uint64_t i = 0; i < 8; ++i) {
    char name[32];
    std::snprintf(name, sizeof name, "0x%llx", static_cast<unsigned long long>(at(i)));
    EXPECT_MESSAGE(name);
  }
  EXPECT_TRUE(join_base(sb, at(5)));  // is one of them
  EXPECT_EQ(ranges_of(sb).bases[0], at(0));
  EXPECT_EQ(ranges_of(sb).bases[1], at(7));

  forget_other_bases(sb, at(3));
  EXPECT_EQ(sb.base_address, at(3));
  EXPECT_EQ(sb.features_incompat, 0U);
  EXPECT_EQ(sb.generation, 7U);
  EXPECT_FALSE(must_relocate(sb, at(3)));
  EXPECT_TRUE(check_superblock(sb, ~std::uint64_t{0})) << last_message();
}

TEST(base_history, ranges_hold_their_end_and_not_their_beginning) {
  base_ranges r;
  r.bytes = std::uint64_t{1} << 30;
  r.bases = {at(4), at(5), at(1)};  // two touch
  r.count = 3;
  EXPECT_EQ(r.offset_of(at(1)), std::nullopt);
  EXPECT_EQ(r.offset_of(at(1) + 1), 1U);
  EXPECT_EQ(r.offset_of(at(2)), r.bytes);
  EXPECT_EQ(r.offset_of(at(2) + 1), std::nullopt);
  EXPECT_EQ(r.offset_of(at(5)), r.bytes);  // the end of the first: nothing leads to where a pool begins
  EXPECT_EQ(r.offset_of(at(5) + 16), 16U);
  EXPECT_EQ(r.offset_of(at(6)), r.bytes);
  EXPECT_EQ(r.offset_of(0), std::nullopt);
  EXPECT_TRUE(r.collides(at(1) - 4096));
  EXPECT_FALSE(r.collides(at(1)));  // is one of them
  EXPECT_FALSE(r.collides(at(2)));
  EXPECT_TRUE(r.collides(at(5) + 4096));
}

TEST(base_history, overlapping_base_does_not_join) {
  superblock sb = based();
  const superblock before = sb;
  EXPECT_EQ(join_base(sb, at(0) + base_unit).error(), errc::address);
  EXPECT_MESSAGE("overlapping");
  EXPECT_EQ(std::memcmp(&sb, &before, sizeof sb), 0);
}

TEST(base_history, base_of_a_stranger_that_is_none_does_not_become_history) {
  superblock sb = based();
  sb.base_address = 4096;
  EXPECT_EQ(join_base(sb, at(1)).error(), errc::corrupt);
  EXPECT_MESSAGE("base_history[0].base");
  EXPECT_EQ(sb.base_history_count, 0U);
}

TEST(base_history, that_contradicts_itself_is_refused) {
  struct hostile {
    const char* name;
    std::function<void(superblock&)> change;
  };
  const hostile cases[] = {
      {"base_history_count", [](superblock& s) { s.features_incompat = 0; }},
      {"base_history_count", [](superblock& s) { s.base_history_count = 9; }},
      {"base_history_count", [](superblock& s) { forget_other_bases(s, at(1)), s.features_incompat = 8; }},
      {"base_history_count", [](superblock& s) { s.base_history_count = 1; }},
      {"base_history[2]", [](superblock& s) { s.base_history_count = 2; }},
      {"base_history[7]", [](superblock& s) { s.base_history[7].generation = 1; }},
      {"base_history[1].base", [](superblock& s) { s.base_history[1].base = 0; }},
      {"base_history[1].base", [](superblock& s) { s.base_history[1].base += 4096; }},
      {"base_history[1].base", [](superblock& s) { s.base_history[1].base = ~std::uint64_t{0} << 25; }},
      {"base_history[2].generation", [](superblock& s) { s.base_history[2].generation = 1; }},
      {"base_history[2].generation", [](superblock& s) { s.base_history[2].generation = 3; }},
      {"base_address", [](superblock& s) { s.base_address = at(9); }},
      {"overlap", [](superblock& s) { s.base_history[2].base = s.base_history[1].base; }},
      {"overlap", [](superblock& s) { s.base_history[2].base = s.base_history[1].base - base_unit; }},
      {"[0] and [2]", [](superblock& s) { s.base_history[2].base = s.base_history[0].base; }},
  };
  for (const hostile& h : cases) {
    superblock sb = based();
    ASSERT_TRUE(join_base(sb, at(1)));
    ASSERT_TRUE(join_base(sb, at(2)));
    h.change(sb);
    EXPECT_EQ(check_superblock(sb, ~std::uint64_t{0}).error(), errc::corrupt) << h.name;
    EXPECT_MESSAGE(h.name);
  }
}

pool_open_options moving(std::uint64_t address = 0, bool read_only = false) {
  pool_open_options o = on_medium(NVM_MEDIUM_SHM, read_only);
  o.moves = true;
  o.address = address;
  return o;
}

TEST(base_history, copy_of_an_open_pool_opens_elsewhere_and_says_so_in_its_file) {
  scratch folder;
  closed_pool(folder.path("a.nvm"));
  std::filesystem::copy_file(folder.path("a.nvm"), folder.path("b.nvm"));
  auto a = pool_file::open(folder.path("a.nvm").c_str(), moving());
  ASSERT_TRUE(a) << last_message();
  EXPECT_FALSE((*a)->must_relocate());
  const std::uint64_t first = (*a)->address();
  std::uint64_t second = 0;
  {
    auto b = pool_file::open(folder.path("b.nvm").c_str(), moving());
    ASSERT_TRUE(b) << last_message();
    second = (*b)->address();
    EXPECT_NE(second, first);
    EXPECT_EQ(find_pool((*b)->base() + 100), b->get());
    ASSERT_TRUE((*b)->must_relocate());
    plain_media m;
    ASSERT_TRUE((*b)->begin_relocation(m)) << last_message();
    EXPECT_EQ((*b)->bases().count, 2U);
  }
  // It was left as by a crash: the first base is taken, the second is known.
  {
    auto b = pool_file::open(folder.path("b.nvm").c_str(), moving());
    ASSERT_TRUE(b) << last_message();
    EXPECT_EQ((*b)->address(), second);
    EXPECT_EQ((*b)->bases().count, 2U);
    plain_media m;
    ASSERT_TRUE((*b)->begin_relocation(m)) << last_message();
    EXPECT_EQ((*b)->bases().count, 2U);
    ASSERT_TRUE((*b)->finish_relocation(m)) << last_message();
    EXPECT_FALSE((*b)->must_relocate());
    ASSERT_TRUE((*b)->close());
  }
  auto b = pool_file::open(folder.path("b.nvm").c_str(), moving());
  ASSERT_TRUE(b) << last_message();
  EXPECT_EQ((*b)->address(), second);
  EXPECT_FALSE((*b)->must_relocate());
}

TEST(base_history, pool_opens_where_it_is_wanted_or_not_at_all) {
  scratch folder;
  closed_pool(folder.path());
  auto pool = pool_file::open(folder.path().c_str(), moving());
  ASSERT_TRUE(pool) << last_message();
  const std::uint64_t own = (*pool)->address();
  ASSERT_TRUE((*pool)->close());
  const std::uint64_t end = platform::window_base + platform::window_bytes;
  const std::uint64_t wanted =
      own + 8 * platform::granule_bytes < end ? own + 4 * platform::granule_bytes : own - 4 * platform::granule_bytes;
  {
    auto taken = platform::slot::take(wanted, platform::granule_bytes);
    ASSERT_TRUE(taken);
    EXPECT_EQ(pool_file::open(folder.path().c_str(), moving(wanted)).error(), errc::address);
  }
  EXPECT_EQ(pool_file::open(folder.path().c_str(), moving(wanted + 4096)).error(), errc::address);
  EXPECT_EQ(pool_file::open(folder.path().c_str(), moving(end)).error(), errc::address);
  auto there = pool_file::open(folder.path().c_str(), moving(wanted));
  ASSERT_TRUE(there) << last_message();
  EXPECT_EQ((*there)->address(), wanted);
  EXPECT_TRUE((*there)->must_relocate());

  pool_create_options o = small_pool();
  o.address = wanted;
  EXPECT_EQ(pool_file::create(folder.path("new").c_str(), o).error(), errc::address);
  there->reset();
  auto made = pool_file::create(folder.path("new").c_str(), o);
  ASSERT_TRUE(made) << last_message();
  EXPECT_EQ((*made)->address(), wanted);
  EXPECT_FALSE((*made)->must_relocate());
}

TEST(base_history, pool_with_eight_bases_opens_at_one_of_them_only) {
  scratch folder;
  closed_pool(folder.path());
  std::vector<platform::slot> taken;
  const auto take = [&](std::uint64_t base) {
    auto s = platform::slot::take(base, platform::granule_bytes);
    ASSERT_TRUE(s) << last_message();
    taken.push_back(std::move(*s));
  };
  for (unsigned n = 0; n < 8; ++n) {
    std::uint64_t base = 0;
    {
      auto pool = pool_file::open(folder.path().c_str(), moving());
      ASSERT_TRUE(pool) << last_message();
      plain_media m;
      ASSERT_TRUE((*pool)->begin_relocation(m)) << last_message();
      base = (*pool)->address();
    }
    take(base);
  }
  EXPECT_EQ(pool_file::open(folder.path().c_str(), moving()).error(), errc::address);
  EXPECT_MESSAGE("8 addresses");
  const auto fifth = reinterpret_cast<std::uint64_t>(taken[4].base());
  taken.erase(taken.begin() + 4);
  auto pool = pool_file::open(folder.path().c_str(), moving());
  ASSERT_TRUE(pool) << last_message();
  EXPECT_EQ((*pool)->address(), fifth);
}

}  // namespace
}  // namespace nvm::testing
