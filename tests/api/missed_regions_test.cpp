// Regions of a pool that was closed are missed by their number where zeros, or a page of another time, lie over them or
// over what leads to them; what free pages have of them is brought back where it is clear whose it was.
#include "mended_regions.hpp"

namespace nvm::tests {
namespace {

using missed_regions = mended_regions;
INSTANTIATE_TEST_SUITE_P(pools, missed_regions, pools_with_regions(),
                         [](const auto& i) { return std::string{i.param.name}; });

TEST_P(missed_regions, are_missed_where_zeros_lie_over_their_page) {
  if (GetParam().killed) GTEST_SKIP() << "nobody has counted";
  std::map<std::uint64_t, std::uint64_t> headers_in;
  for (const header_place& h : headers()) ++headers_in[round_down(h.at, std::uint64_t{4096})];
  ASSERT_GE(headers_in.size(), 10U);
  unsigned number = 0;
  for (const auto& [page, count] : headers_in) {
    if (number++ % 13 != 0) continue;
    restore();
    std::memset(&bytes[page], 0, 4096);
    expect_missed(count, "page " + std::to_string(page));
  }
}

TEST_P(missed_regions, are_there_when_the_page_map_says_that_their_extent_is_not) {
  auto all = extents();
  const auto of_partners = extents(true);
  all.insert(all.end(), of_partners.begin(), of_partners.end());
  ASSERT_GE(all.size(), 5U);
  for (std::size_t i = 0; i < all.size(); i += 4) {
    restore();
    put(shape().entry_offset(shape().page_of(all[i].first)), 0);
    const std::string what = "extent " + std::to_string(i);
    if (!GetParam().killed) {
      expect_all(what);
      continue;
    }
    // Nobody has counted, and the pages may be those of a set that was dropped: a pool that is sound may have them.
    if (regions::is_of_partners(all[i].second)) continue;
    const bool is_sound = faults() == 0;  // no region of it has a partner
    EXPECT_LT(mend().size(), 2 * many) << what;
    EXPECT_EQ(report.notes.empty(), is_sound) << what;
    const std::uint64_t other = shape().entry_offset(shape().page_of(all[(i + 1) % all.size()].first));
    put(other, word(other) ^ 1);
    EXPECT_LT(mend().size(), 2 * many) << what;
    EXPECT_TRUE(tells(mending::kept, "nothing says whether its set was dropped")) << what;
  }
}

TEST_P(missed_regions, are_missed_when_a_page_of_the_page_map_is_zeros) {
  if (GetParam().killed) GTEST_SKIP() << "nobody has counted";
  const geometry g = shape();
  std::uint64_t first = g.size_pages;
  for (const auto& e : extents()) first = std::min(first, g.page_of(e.first));
  for (std::uint64_t page = first; page < std::min(first + 100, g.size_pages); ++page) put(g.entry_offset(page), 0);
  EXPECT_GT(faults(), 0);
  const contents found = mend();
  const bool is_told = tells(mending::lost, "were when the pool was closed");
  EXPECT_EQ(found != all_stored(), is_told) << notes(mending::lost);
  // Not a page is left, and what the anchors name.
  restore();
  for (std::uint64_t page = 0; page < g.size_pages; ++page) put(g.entry_offset(page), 0);
  EXPECT_GT(faults(), 0);
}

TEST_P(missed_regions, of_an_extent_that_a_dropped_set_had_stay_away) {
  if (GetParam().killed) GTEST_SKIP() << "nobody has counted";
  const std::string dropped = path("dropped");
  write_file(dropped, bytes);
  ASSERT_EQ(::chmod(dropped.c_str(), 0600), 0);
  const auto its = extents();
  NVM_POOL* pool = nvm_pool_open(dropped.c_str());
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_regions_drop(pool, names[0]), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_pool_close(pool), 0);
  begin_with(read_file(dropped));
  contents expected = all_stored();
  std::erase_if(expected, [](const auto& e) { return e.first.first == names[0]; });
  // What is there is one set's; free pages have extents of the other one.
  const auto left = extents();
  ASSERT_LT(left.size(), its.size());
  put(shape().entry_offset(shape().page_of(left.front().first)), 0);
  const contents found = mend();
  for (const auto& [key, value] : found) EXPECT_EQ(expected.contains(key), true) << key.first << " " << key.second;
  EXPECT_EQ(found != expected, tells(mending::lost, "were when the pool was closed")) << notes(mending::lost);
}

TEST_P(missed_regions, are_missed_where_a_header_is_zero) {
  if (GetParam().killed) GTEST_SKIP() << "nobody has counted";
  const auto all = headers();
  for (std::size_t i = 0; i < all.size(); i += 113) {
    restore();
    std::memset(&bytes[all[i].at], 0, sizeof(regions::header));
    expect_missed(1, "region " + std::to_string(all[i].rid));
  }
}

TEST_P(missed_regions, are_missed_when_they_are_back_from_another_time) {
  if (GetParam().killed) GTEST_SKIP() << "nobody has counted";
  // A header that was dropped: in a pool that was closed before.
  const std::string changed = path("changed");
  write_file(changed, bytes);
  ASSERT_EQ(::chmod(changed.c_str(), 0600), 0);
  NVM_POOL* pool = nvm_pool_open(changed.c_str());
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  nvm_regions* set = nvm_regions_open(pool, names[0], nullptr);
  ASSERT_NE(set, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_region_drop(set, 11), 0);
  ASSERT_EQ(nvm_pool_close(pool), 0);
  expect_sound(changed);
  const auto all = headers();
  bytes = read_file(changed);
  const auto it =
      std::find_if(all.begin(), all.end(), [&](const header_place& h) { return h.rid == 11 && word(h.at + 8) == 0; });
  ASSERT_NE(it, all.end());
  std::memcpy(&bytes[it->at], &sound()[it->at], sizeof(regions::header));
  const std::string found = refused();
  EXPECT_NE(found.find("150 regions are there, and 149 were when the pool was closed"), std::string::npos) << found;
  EXPECT_GT(faults(), 0);
}

TEST_P(missed_regions, are_counted_again_when_the_pool_is_closed_again) {
  for (int i = 0; i < 3; ++i) {
    const std::string again = path("again");
    write_file(again, bytes);
    ASSERT_EQ(::chmod(again.c_str(), 0600), 0);
    NVM_POOL* pool = nvm_pool_open(again.c_str());
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    for (unsigned which = 0; which < 2; ++which) {
      nvm_regions* set = nvm_regions_open(pool, names[which], nullptr);
      ASSERT_NE(set, nullptr) << nvm_errormsg();
      if (i != 1) {
        EXPECT_EQ(nvm_region_create(set, 7000 + static_cast<unsigned>(i), 100), 0);
      }
    }
    ASSERT_EQ(nvm_pool_close(pool), 0);
    expect_sound(again);
    bytes = read_file(again);
    const std::uint64_t at = region::regions_word_at(entry(1));
    EXPECT_EQ(word(at), seal_word(many + 1 + (i == 2 ? 2 : 1), word_seed(at))) << i;
  }
}

TEST_P(missed_regions, of_a_set_whose_number_is_damaged_are_all_there) {
  for (const std::uint64_t at : {region::regions_word_at(entry(0)), region::partners_word_at(entry(1))}) {
    restore();
    if (word(at) == 0) continue;
    put(at, word(at) ^ 0xFF00);
    expect_all("a number of regions");
    EXPECT_TRUE(tells(mending::mended, "nothing says how many"));
  }
}

TEST_P(missed_regions, have_their_partner_back_whose_owner_is_zero) {
  if (GetParam().killed || GetParam().ssd) GTEST_SKIP() << "nobody has counted, or there are none";
  unsigned tried = 0;
  for (const auto& [extent, c] : extents(true)) {
    for (std::uint64_t i = 0; i < regions::slots_in(8 * 4096, c); i += 3) {
      const std::uint64_t line = extent + regions::slot_at(c, i);
      restore();
      if (word(region::owner_at(line)) == 0) continue;
      put(region::owner_at(line), 0);
      EXPECT_NE(refused().find("partners of regions are there, and"), std::string::npos) << refused();
      expect_all("partner of region " + std::to_string(word(line)));
      if (++tried == 6) return;
    }
  }
  EXPECT_GT(tried, 3U);
}

TEST_P(missed_regions, have_lost_a_partner_of_which_nothing_is_left) {
  if (GetParam().killed || GetParam().ssd) GTEST_SKIP() << "nobody has counted, or there are none";
  const auto [extent, c] = extents(true).front();
  std::memset(&bytes[extent + regions::slot_at(c, 0)], 0, sizeof(regions::partner));
  EXPECT_GT(faults(), 0);
  EXPECT_EQ(mend().size(), 2 * many);
  EXPECT_TRUE(tells(mending::lost, "partners of regions are there, and")) << notes(mending::lost);
}

}  // namespace
}  // namespace nvm::tests
