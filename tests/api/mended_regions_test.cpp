// Repair of pools with sets of regions: words of zero, headers that were exchanged or copied, pages that lie where
// others were.  Afterwards the remaining bytes can be read, and each loss was reported.
#include "mended_regions.hpp"

namespace nvm::tests {
namespace {

INSTANTIATE_TEST_SUITE_P(pools, mended_regions, pools_with_regions(),
                         [](const auto& i) { return std::string{i.param.name}; });

// ---- the directory -------------------------------------------------------------------------------------------------

TEST_P(mended_regions, are_where_the_directory_says_that_there_are_none) {
  ASSERT_EQ(mend(), all_stored());
  for (unsigned i = 0; i < 2; ++i) {
    restore();
    put(entry(i), 0);
    EXPECT_GT(faults(), 0);
    // Nobody frees what may be a set's.
    NVM_POOL* pool = nvm_pool_open(path("damaged").c_str());
    EXPECT_TRUE(pool == nullptr || nvm_regions_open(pool, names[1 - i], nullptr) == nullptr);
    if (pool != nullptr) (void)nvm_pool_close(pool);
    expect_all("state " + std::to_string(i));
  }
}

TEST_P(mended_regions, are_there_after_any_bit_or_word_of_an_entry_of_their_directory) {
  for (const std::size_t at : {std::size_t{0}, offsetof(regions::set_entry, name), offsetof(regions::set_entry, crc)}) {
    restore();
    bytes[entry(0) + at] = static_cast<char>(bytes[entry(0) + at] ^ 4);
    expect_all("a bit at " + std::to_string(at));
  }
  restore();
  put(entry(1) + offsetof(regions::set_entry, crc), 0);
  expect_all("no checksum of the name");
  EXPECT_TRUE(tells(mending::kept, names[1]));
  // Without a name it gets one.
  restore();
  put(entry(0) + offsetof(regions::set_entry, name), 0);
  EXPECT_GT(faults(), 0);
  contents found = mend();
  contents expected;
  for (const auto& [key, value] : all_stored()) {
    expected[{key.first == names[0] ? "lost-1" : key.first, key.second}] = value;
  }
  EXPECT_EQ(found, expected);
  EXPECT_TRUE(tells(mending::lost, "lost-1"));
}

TEST_P(mended_regions, are_there_after_any_word_of_what_their_directory_begins_with) {
  for (std::size_t at = 0; at < regions::directory_line_bytes; at += 8) {
    for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{0x5555'1234'9876'0001}}) {
      restore();
      if (word(directory() + at) == value) continue;
      put(directory() + at, value);
      EXPECT_GT(faults(), 0);
      expect_all("word " + std::to_string(at));
      restore();
      put(copy_of_directory() + at, value);
      EXPECT_GT(faults(), 0);
      expect_all("word " + std::to_string(at) + " of the copy");
    }
  }
  restore();
  std::memset(&bytes[directory()], 'x', regions::directory_line_bytes);
  expect_all("nothing but the copy");
}

// What libraries before this have left: without a copy words are found by trying, all but the key.
TEST_P(mended_regions, are_there_without_a_copy_of_what_their_directory_begins_with) {
  std::memset(&bytes[copy_of_directory()], 0, regions::directory_line_bytes);
  EXPECT_EQ(faults(), 0);
  const file_bytes without = bytes;
  for (std::size_t at = 0; !GetParam().killed && at < regions::directory_line_bytes; at += 8) {
    if (at == offsetof(regions::directory, key)) continue;
    bytes = without;
    put(directory() + at, 0x5555'1234'9876'0001);
    expect_all("word " + std::to_string(at));
  }
  bytes = without;
  bytes[directory() + offsetof(regions::directory, key) + 3] ^= 16;
  expect_all("a bit of the key");
}

TEST_P(mended_regions, are_there_when_the_page_map_says_that_their_directory_is_not) {
  const std::uint64_t rings = word(directory() + offsetof(regions::directory, rings));
  for (const std::uint64_t run : {directory(), rings}) {
    if (run == 0) continue;
    restore();
    put(shape().entry_offset(shape().page_of(run)), 0);
    expect_all("a run of the directory");
  }
}

TEST_P(mended_regions, are_there_when_one_anchor_says_that_there_are_none) {
  for (unsigned copy = 0; copy < 2; ++copy) {
    restore();
    put(anchor_word_at(shape(), copy, anchor_word::regions), 0);
    EXPECT_EQ(mend(), all_stored());
  }
  restore();
  for (unsigned copy = 0; copy < 2; ++copy) put(anchor_word_at(shape(), copy, anchor_word::regions), 0);
  expect_all("no anchor");
}

TEST_P(mended_regions, are_there_without_their_log_when_the_pool_was_closed) {
  const std::uint64_t rings = word(directory() + offsetof(regions::directory, rings));
  if (GetParam().killed || rings == 0) GTEST_SKIP() << "there is none, or it counts";
  for (std::uint64_t i = 0; i < 64; ++i) put(rings + i * 8, 0x0101'0101'0101'0101 * (i + 1));
  EXPECT_EQ(mend(), all_stored());
  EXPECT_EQ(notes(mending::lost), "");
}

TEST_P(mended_regions, of_a_set_that_is_dropped_stay_away) {
  const std::string dropped = path("dropped");
  write_file(dropped, bytes);
  ASSERT_EQ(::chmod(dropped.c_str(), 0600), 0);
  NVM_POOL* pool = nvm_pool_open(dropped.c_str());
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_regions_drop(pool, names[0]), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_pool_close(pool), 0);
  expect_sound(dropped);
  bytes = read_file(dropped);
  contents expected = all_stored();
  std::erase_if(expected, [](const auto& e) { return e.first.first == names[0]; });
  EXPECT_EQ(mend(), expected);
  EXPECT_EQ(notes(mending::lost) + notes(mending::mended), "");
  // One that a crash has left half dropped.
  restore();
  put(entry(0), seal_word(regions::leaving, word_seed(entry(0))));
  EXPECT_EQ(faults(), 0);
  EXPECT_EQ(mend(), expected);
}

// ---- extents -------------------------------------------------------------------------------------------------------

TEST_P(mended_regions, are_there_after_any_damage_of_heads_of_extents) {
  const auto all = extents();
  ASSERT_GE(all.size(), 3U);
  for (std::size_t i = 0; i < all.size(); i += 11) {
    restore();
    put(all[i].first, 0);
    expect_all("no head " + std::to_string(i));
    const std::uint64_t other = all[(i + 1) % all.size()].first;
    restore();
    put(all[i].first, word(other));
    if (bytes != sound()) expect_all("a copied head " + std::to_string(i));
    restore();
    const std::uint64_t head = word(other);
    put(other, word(all[i].first));
    put(all[i].first, head);
    if (bytes != sound()) expect_all("exchanged heads " + std::to_string(i));
  }
  const auto of_partners = extents(true);
  ASSERT_GE(of_partners.size(), GetParam().ssd ? 0U : 2U);
  for (std::size_t i = 0; i < of_partners.size(); i += 3) {
    restore();
    put(of_partners[i].first, 0);
    expect_all("no head of partners");
  }
}

TEST_P(mended_regions, are_there_after_pages_were_exchanged) {
  const auto all = extents();
  std::set<std::uint64_t> used;
  for (const header_place& h : headers()) used.insert(round_down(h.at, std::uint64_t{4096}));
  const std::vector<std::uint64_t> pages{used.begin(), used.end()};
  ASSERT_GE(pages.size(), 4U);
  for (std::size_t i = 0; i + 1 < pages.size(); i += 9) {
    for (const std::size_t with : {i + 1, (i * 5 + 2) % pages.size()}) {
      if (with == i) continue;
      restore();
      std::swap_ranges(bytes.begin() + static_cast<std::ptrdiff_t>(pages[i]),
                       bytes.begin() + static_cast<std::ptrdiff_t>(pages[i] + 4096),
                       bytes.begin() + static_cast<std::ptrdiff_t>(pages[with]));
      expect_all("pages " + std::to_string(i) + " and " + std::to_string(with));
    }
  }
}

TEST_P(mended_regions, lose_what_a_copied_page_lies_over_and_nothing_else) {
  std::map<std::uint64_t, std::uint64_t> used;
  for (const header_place& h : headers()) {
    ++used[round_down(h.at, std::uint64_t{4096})];
    ++used[round_down(h.at + regions::slot_bytes(h.in_class) - 1, std::uint64_t{4096})];
  }
  unsigned number = 0;
  for (auto at = used.begin(); at != used.end(); ++at) {
    if (number++ % 11 != 0) continue;
    const auto next = std::next(at) == used.end() ? used.begin() : std::next(at);
    restore();
    std::memcpy(&bytes[next->first], &bytes[at->first], 4096);
    if (bytes == sound()) continue;
    const std::string what = std::to_string(at->first) + " to " + std::to_string(next->first);
    EXPECT_GT(faults(), 0) << what;
    expect_told(mend(), next->second, what);
  }
}

// ---- headers of regions --------------------------------------------------------------------------------------------

TEST_P(mended_regions, are_there_after_headers_were_exchanged) {
  const auto all = headers();
  for (std::size_t i = 0; i + 1 < all.size(); i += 37) {
    restore();
    const auto same = std::find_if(all.begin() + static_cast<std::ptrdiff_t>(i) + 1, all.end(),
                                   [&](const header_place& h) { return h.in_class == all[i].in_class; });
    if (same == all.end()) continue;
    std::swap_ranges(bytes.begin() + static_cast<std::ptrdiff_t>(all[i].at),
                     bytes.begin() + static_cast<std::ptrdiff_t>(all[i].at + sizeof(regions::header)),
                     bytes.begin() + static_cast<std::ptrdiff_t>(same->at));
    expect_all("regions " + std::to_string(all[i].rid) + " and " + std::to_string(same->rid));
  }
}

TEST_P(mended_regions, lose_one_where_a_header_was_copied_over_another) {
  const auto all = headers();
  for (std::size_t i = 0; i + 1 < all.size(); i += 41) {
    restore();
    std::memcpy(&bytes[all[i + 1].at], &bytes[all[i].at], sizeof(regions::header));
    const std::string what = "region " + std::to_string(all[i].rid);
    EXPECT_GT(faults(), 0);
    expect_told(mend(), 1, what);
  }
}

TEST_P(mended_regions, are_there_after_any_word_of_a_header) {
  const auto all = headers();
  for (std::size_t i = 0; i < all.size(); i += 97) {
    for (unsigned w = 0; w < 4; ++w) {
      for (const std::uint64_t value : {std::uint64_t{0}, word(all[i].at + w * 8) ^ 1U << 5}) {
        restore();
        if (word(all[i].at + w * 8) == value) continue;
        put(all[i].at + w * 8, value);
        expect_all("word " + std::to_string(w) + " of region " + std::to_string(all[i].rid));
      }
    }
  }
}

TEST_P(mended_regions, are_there_when_the_page_map_says_that_their_bytes_are_not) {
  unsigned tried = 0;
  for (const header_place& h : headers()) {
    if (h.where != regions::state::run) continue;
    restore();
    const std::uint64_t page = word(h.at + 16) & 0xFFFF'FFFF;
    put(shape().entry_offset(page), 0);
    expect_all("region " + std::to_string(h.rid));
    ++tried;
  }
  EXPECT_GT(tried, 0U);
}

}  // namespace
}  // namespace nvm::tests
