// Repair of pools with damaged lock-free structures: entries that a look-up finds stay, losses are reported, removed or
// never linked entries do not come back, and the result is sound and works.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "mended_pools.hpp"

namespace nvm::tests {
namespace {

constexpr bool is(std::uint32_t kind, std::uint32_t of) { return kind == of; }

class mended : public testing::TestWithParam<subject> {
 protected:
  static void SetUpTestSuite() { ::setenv("HOLDFAST_ACCEPT_COPY", "1", 1); }
};
std::string name_of_subject(const testing::TestParamInfo<subject>& i) { return i.param.name; }

constexpr std::uint32_t bytes_flag = NVM_LF_BYTES;
constexpr std::uint32_t no_sums = NVM_LF_NO_CHECKSUMS;
constexpr std::uint32_t volatile_links = NVM_LF_VOLATILE_LINKS;
INSTANTIATE_TEST_SUITE_P(
    structures, mended,
    testing::Values(
        subject{"words_list", NVM_LF_LIST, 0}, subject{"words_hash", NVM_LF_HASH, 0},
        subject{"words_skip_list", NVM_LF_SKIP_LIST, 0}, subject{"words_tree", NVM_LF_TREE, 0},
        subject{"bytes_list", NVM_LF_LIST, bytes_flag}, subject{"bytes_hash", NVM_LF_HASH, bytes_flag},
        subject{"bytes_skip_list", NVM_LF_SKIP_LIST, bytes_flag}, subject{"bytes_tree", NVM_LF_TREE, bytes_flag},
        subject{"words_list_redo", NVM_LF_LIST, 0, NVM_ENGINE_REDO},
        subject{"words_tree_mnemosyne", NVM_LF_TREE, 0, NVM_ENGINE_MNEMOSYNE},
        subject{"bytes_skip_list_redo", NVM_LF_SKIP_LIST, bytes_flag, NVM_ENGINE_REDO},
        subject{"bytes_hash_mnemosyne_undo", NVM_LF_HASH, bytes_flag, NVM_ENGINE_MNEMOSYNE_UNDO},
        subject{"words_hash_ssd", NVM_LF_HASH, 0, NVM_ENGINE_UNDO, true},
        subject{"bytes_list_ssd", NVM_LF_LIST, bytes_flag, NVM_ENGINE_REDO, true},
        subject{"bytes_tree_ssd", NVM_LF_TREE, bytes_flag, NVM_ENGINE_UNDO, true},
        subject{"words_skip_list_ssd", NVM_LF_SKIP_LIST, 0, NVM_ENGINE_REDO, true},
        subject{"words_list_without_sums", NVM_LF_LIST, no_sums},
        subject{"bytes_hash_without_sums", NVM_LF_HASH, bytes_flag | no_sums},
        subject{"words_list_killed", NVM_LF_LIST, 0, NVM_ENGINE_UNDO, false, true},
        subject{"words_hash_killed", NVM_LF_HASH, 0, NVM_ENGINE_REDO, false, true},
        subject{"bytes_skip_list_killed", NVM_LF_SKIP_LIST, bytes_flag, NVM_ENGINE_UNDO, false, true},
        subject{"bytes_tree_killed", NVM_LF_TREE, bytes_flag, NVM_ENGINE_UNDO, false, true},
        subject{"words_list_in_store", NVM_LF_LIST, 0, NVM_ENGINE_UNDO, false, false, keys, true},
        subject{"words_hash_in_store", NVM_LF_HASH, 0, NVM_ENGINE_REDO, false, false, keys, true},
        subject{"bytes_skip_list_in_store", NVM_LF_SKIP_LIST, bytes_flag, NVM_ENGINE_UNDO, false, false, keys, true},
        subject{"bytes_tree_in_store_mnemosyne", NVM_LF_TREE, bytes_flag, NVM_ENGINE_MNEMOSYNE, false, false, keys,
                true},
        subject{"bytes_hash_in_store_ssd", NVM_LF_HASH, bytes_flag, NVM_ENGINE_UNDO, true, false, keys, true},
        subject{"words_hash_in_store_killed", NVM_LF_HASH, 0, NVM_ENGINE_UNDO, false, true, keys, true},
        subject{"bytes_tree_in_store_killed", NVM_LF_TREE, bytes_flag, NVM_ENGINE_UNDO, false, true, keys, true}),
    name_of_subject);

bool has_sums(const subject& s) { return (s.flags & NVM_LF_NO_CHECKSUMS) == 0; }

// ---- links ---------------------------------------------------------------------------------------------------------

// Nowhere, to the beginning of the data, and on to what comes later, for each of some nodes.
TEST_P(mended, lose_nothing_with_one_link_wherever_it_leads_instead) {
  pools p{GetParam()};
  const entries all = stored(GetParam());
  for (const std::uint64_t k : {3U, 41U, 77U}) {
    const std::uint64_t link = p.leads_to(p.head_of(k));
    ASSERT_NE(link, 0U);
    for (const std::uint64_t to : {std::uint64_t{0x1234'5678'9ABC'DEC0}, p.shape().data_offset + 64}) {
      p.restore();
      p.put(link, to);
      EXPECT_EQ(p.mend(), all) << k;
      EXPECT_TRUE(p.tells(mending::mended, "lock-free structure \"structure\": made anew, with 120 entries"))
          << p.notes(mending::mended);
      EXPECT_EQ(p.notes(mending::lost), "");
      EXPECT_EQ(p.notes(mending::kept) == "", has_sums(GetParam())) << p.notes(mending::kept);
    }
  }
}

TEST_P(mended, lose_nothing_with_a_link_that_passes_over_nodes) {
  const subject& s = GetParam();
  if (is(s.kind, NVM_LF_TREE) || (s.killed && !has_sums(s))) GTEST_SKIP() << "no list";
  pools p{s};
  // Over two of them: a single one need not have been linked when the process was killed.
  std::uint64_t head = 0;
  for (std::uint64_t k = 40; head == 0 && k < 100; ++k) {
    const std::uint64_t one = p.head_of(k);
    if ((p.word(one) & lockfree::cell) == 0 && lockfree::offset_of(p.word(one)) != 0) head = one;
  }
  ASSERT_NE(head, 0U);
  p.put(p.leads_to(head), p.word(lockfree::offset_of(p.word(head))));
  EXPECT_EQ(p.mend(), stored(s));
  EXPECT_EQ(p.notes(mending::lost), "");
}

TEST_P(mended, lose_nothing_with_a_root) {
  const subject& s = GetParam();
  pools p{s};
  for (const std::uint64_t at : {0U, 8U, 56U, 64U + 15U * 8U}) {
    if (is(s.kind, NVM_LF_HASH) && at != 0) continue;
    p.restore();
    p.put(p.root() + at, 0x5DEE'CE66'D123'4567);
    if (s.killed && !has_sums(s)) continue;
    const entries found = p.mend();
    EXPECT_EQ(found, stored(s)) << at;
    EXPECT_EQ(p.notes(mending::lost), "") << at;
  }
}

// ---- nodes ---------------------------------------------------------------------------------------------------------

TEST_P(mended, keep_and_name_an_entry_that_fails_its_checksum_and_that_a_look_up_finds) {
  const subject& s = GetParam();
  if (!has_sums(s)) GTEST_SKIP() << "there is none";
  pools p{s};
  const std::uint64_t value_at = p.head_of(41) + (s.of_bytes() ? 32 + key_of(s, 41).size() : 16);
  p.bytes[value_at + 4] ^= 0x20;
  const entries found = p.mend();
  entries expected = stored(s);
  expected[key_of(s, 41)].first[4] ^= 0x20;
  EXPECT_EQ(found, expected);
  const std::string key = s.of_bytes() ? "\"key-1287\"" : "1287";
  EXPECT_TRUE(p.tells(mending::kept, "lock-free structure \"structure\": entry " + key +
                                         ": an entry fails its checksum; a look-up finds it, and it stays"))
      << p.notes(mending::kept);
  EXPECT_EQ(p.notes(mending::lost), "");
}

TEST_P(mended, name_what_no_look_up_finds_and_fails_its_checksum) {
  const subject& s = GetParam();
  if (!has_sums(s) || s.killed) GTEST_SKIP() << "nothing says what was there";
  pools p{s};
  const std::uint64_t head = p.head_of(41);
  p.put(p.leads_to(head), 0x1234'5678'9ABC'DEC0);
  const std::uint64_t value_at = head + (s.of_bytes() ? 32 + key_of(s, 41).size() : 16);
  p.bytes[value_at + 4] ^= 0x20;
  entries expected = stored(s);
  expected.erase(key_of(s, 41));
  EXPECT_EQ(p.mend(), expected);
  const std::string key = s.of_bytes() ? "\"key-1287\"" : "1287";
  EXPECT_EQ(p.notes(mending::lost),
            "lock-free structure \"structure\": entry " + key + ": an entry fails its checksum\n");
}

TEST_P(mended, count_what_is_lost_with_a_page) {
  const subject& s = GetParam();
  if (!has_sums(s) || s.killed) GTEST_SKIP() << "nothing says what was there";
  pools p{s};
  const std::uint64_t page = round_down(p.head_of(41), 4096);
  const std::uint64_t extent = p.shape().data_offset + round_down(page - p.shape().data_offset, 8 * 4096);
  // Not the one with the allocation words.
  const std::uint64_t lost_page = page == extent ? page + 4096 : page;
  std::fill_n(p.bytes.begin() + static_cast<std::ptrdiff_t>(lost_page), 4096, 0);
  const entries found = p.mend();
  const entries all = stored(s);
  for (const auto& [key, value] : found) {
    EXPECT_TRUE(all.contains(key));
    if (all.contains(key)) {
      EXPECT_EQ(all.at(key), value);
    }
  }
  if (found.size() < all.size()) {
    EXPECT_TRUE(
        p.tells(mending::lost, std::to_string(all.size() - found.size()) + " entries whose keys cannot be read"))
        << p.notes(mending::lost);
  }
}

// What was removed lies in its place as it was, with its mark; here all of it is allocated again besides.
TEST_P(mended, bring_nothing_back_that_was_removed) {
  const subject& s = GetParam();
  pools p{s};
  p.put(p.leads_to(p.head_of(41)), 0x1234'5678'9ABC'DEC0);
  const geometry g = p.shape();
  unsigned words = 0;
  const auto allocate_all = [&](std::uint64_t page, const layout::page_entry& e, std::uint32_t) {
    const std::uint64_t extent = g.page_offset(page);
    if (e.kind != layout::page_kind::coarse || layout::transactional(e) || e.store < lf::first_owner) return;
    const layout::extent_shape shape = layout::shape_of(e.kind, g.page_shift);
    const unsigned slots = size_of_nodes(reinterpret_cast<std::byte*>(p.bytes.data()), extent, shape);
    for (unsigned w = 0; w < shape.words; ++w) {
      std::uint64_t places = 0;
      for (unsigned i = 0; i < checked_bits; ++i) {
        const unsigned slot = w * checked_bits + i;
        const bool is_place =
            slot >= shape.header_slots && slot + slots <= shape.slots && (slot - shape.header_slots) % slots == 0;
        places |= is_place ? std::uint64_t{1} << i : 0;
      }
      p.put_content(extent + layout::first_words_at + w * 8, places);
      ++words;
    }
  };
  care::each_good_entry(reinterpret_cast<const std::byte*>(p.bytes.data()), g, allocate_all);
  EXPECT_GT(words, 0U);
  const entries found = p.mend();
  for (const auto& [key, value] : stored(s)) EXPECT_TRUE(found.contains(key));
  for (std::uint64_t k = keys; k < keys + 20; ++k) EXPECT_FALSE(found.contains(key_of(s, k))) << k;
  if (has_sums(s)) {
    EXPECT_EQ(found, stored(s));
  }
}

// A node in a free place, whole, with the key of another one that is linked.
TEST_P(mended, take_of_two_nodes_of_a_key_the_one_that_a_look_up_finds) {
  const subject& s = GetParam();
  if (!has_sums(s) || s.of_bytes()) GTEST_SKIP() << "one kind of nodes";
  if (is(s.kind, NVM_LF_SKIP_LIST)) GTEST_SKIP() << "heights differ";
  pools p{s};
  const std::uint64_t head = p.head_of(41);
  const std::uint64_t twin = p.head_of(40);
  // The neighbour's key, of which the link before it knows nothing.
  const std::uint64_t order = p.word(head + 8);
  p.put(p.leads_to(twin), 0x1234'5678'9ABC'DEC0);
  p.put(twin + 8, order);
  p.put(twin + 24, lockfree::node_sum(order, p.word(twin + 16), 0));
  const entries found = p.mend();
  const auto taken = found.find(key_of(s, 41));
  ASSERT_NE(taken, found.end());
  // Of a list nothing after the damage is found by look-ups; nor is it linked.
  const bool is_found = !is(s.kind, NVM_LF_LIST);
  if (is_found) {
    EXPECT_EQ(taken->second.first, value_of(s, 41));
    EXPECT_EQ(p.notes(mending::kept), "");
  } else {
    EXPECT_TRUE(p.tells(mending::kept, "two nodes have its key; which is newer is not known"))
        << p.notes(mending::kept);
  }
}

// ---- the page map and the directory --------------------------------------------------------------------------------

TEST_P(mended, lose_nothing_with_a_page_of_the_page_map) {
  const subject& s = GetParam();
  if (!has_sums(s)) GTEST_SKIP() << "nothing proves what is in pages that nobody has";
  pools p{s};
  for (const auto& [at, bytes] : p.maps()) std::fill_n(p.bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes, 0);
  EXPECT_EQ(p.mend(), stored(s));
  EXPECT_EQ(p.notes(mending::lost), "");
}

TEST_P(mended, lose_nothing_with_a_word_of_the_directory) {
  const subject& s = GetParam();
  pools p{s};
  const std::uint64_t words[] = {p.directory(),
                                 p.directory() + offsetof(lf::directory, version),
                                 p.directory() + offsetof(lf::directory, area_shift),
                                 p.entry(),
                                 p.entry() + offsetof(lf::entry, root),
                                 p.entry() + offsetof(lf::entry, parameters),
                                 p.entry() + offsetof(lf::entry, flags)};
  for (const std::uint64_t at : words) {
    for (const std::uint64_t noise : {std::uint64_t{0x5DEE'CE66'D123'4567}, ~std::uint64_t{0}, std::uint64_t{0}}) {
      p.restore();
      // Noise that holds its check by chance says what a later library may have written.
      const bool holds = noise != 0 && word_holds(noise, word_seed(at));
      if (p.word(at) == noise || holds) continue;
      p.put(at, noise);
      EXPECT_GT(p.faults(), 0) << at - p.directory();
      EXPECT_EQ(p.mend(), stored(s)) << at - p.directory();
      EXPECT_EQ(p.notes(mending::lost), "") << at - p.directory();
      EXPECT_TRUE(p.tells(mending::mended, "directory of lock-free structures: ")) << p.notes(mending::mended);
    }
  }
  // One byte of the name, and of what proves it.
  for (const std::uint64_t at : {offsetof(lf::entry, name) + 3, offsetof(lf::entry, crc) + 2}) {
    p.restore();
    p.bytes[p.entry() + at] ^= 0x5A;
    EXPECT_EQ(p.mend(), stored(s));
    EXPECT_EQ(p.notes(mending::lost) + p.notes(mending::kept), "");
  }
  // All of it: it stays as it stands, and is told.
  p.restore();
  p.put(p.entry() + offsetof(lf::entry, crc), 0x5DEE'CE66'D123'4567);
  EXPECT_EQ(p.mend(), stored(s));
  EXPECT_TRUE(p.tells(mending::kept, "nothing proves that the name \"structure\" is right"));
}

TEST_P(mended, get_a_name_where_theirs_is_lost) {
  const subject& s = GetParam();
  pools p{s};
  p.put(p.entry() + offsetof(lf::entry, name), 0x0102'0304'0506'0708);
  EXPECT_EQ(p.mend("lost-1"), stored(s));
  EXPECT_TRUE(p.tells(mending::lost, "the name of a structure, which is \"lost-1\" from now on"));
  if (!has_sums(s)) return;
  // The page with the entry, and all of the directory; nothing but the pages of the structure tells of it.
  for (const std::uint64_t bytes : {std::uint64_t{4096}, sizeof(lf::directory)}) {
    p.restore();
    const geometry g = p.shape();
    const std::uint64_t directory = p.directory();
    const std::vector<std::uint64_t> names = p.names_of_directory();
    std::fill_n(p.bytes.begin() + static_cast<std::ptrdiff_t>(directory), bytes, 0);
    if (bytes != 4096) {
      p.put(p.entry_of(g.page_of(directory)), 0);
      for (const std::uint64_t at : names) p.put(at, 0x1234567);
    }
    EXPECT_EQ(p.mend("lost-1"), stored(s)) << bytes;
    EXPECT_TRUE(p.tells(mending::lost, "\"lost-1\"")) << p.notes(mending::lost);
  }
}

TEST_P(mended, lose_nothing_with_all_copies_of_the_directory_s_place) {
  pools p{GetParam()};
  for (const std::uint64_t noise : {std::uint64_t{0x5DEE'CE66'D123'4567}, std::uint64_t{0}}) {
    p.restore();
    for (const std::uint64_t at : p.names_of_directory()) p.put(at, noise);
    EXPECT_EQ(p.mend(), stored(GetParam()));
    EXPECT_EQ(p.notes(mending::lost), "");
  }
}

// ---- what only some have -------------------------------------------------------------------------------------------

TEST(mended_hash_table, loses_nothing_with_a_byte_of_its_seed_and_says_what_nothing_proves) {
  for (const subject& s : {subject{"", NVM_LF_HASH, 0}, subject{"", NVM_LF_HASH, bytes_flag}}) {
    pools p{s};
    const std::uint64_t seed = p.root() + offsetof(lockfree::hash_root, seed);
    p.bytes[seed + 5] ^= 0x41;
    EXPECT_EQ(p.mend(), stored(s));
    EXPECT_EQ(p.notes(mending::kept) + p.notes(mending::lost), "");
    // Without its check the seed of words may be another one.
    p.restore();
    p.put(seed + 8, 0x5DEE'CE66'D123'4567);
    EXPECT_EQ(p.mend(), stored(s));
    EXPECT_EQ(p.notes(mending::kept),
              s.of_bytes() ? "" : "lock-free structure \"structure\": nothing proves 120 of its entries\n");
    // An array, and how many cells it has.
    for (const std::uint64_t at : {offsetof(lockfree::hash_root, bits), offsetof(lockfree::hash_root, arrays)}) {
      p.restore();
      p.put(p.root() + at, 0x5DEE'CE66'D123'4567);
      EXPECT_EQ(p.mend(), stored(s)) << at;
    }
  }
}

// A process was killed when it had made a node and not linked it; elsewhere a link is damaged.
TEST(mended_list, does_not_take_for_an_entry_what_a_killed_process_had_not_linked) {
  const subject s{"", NVM_LF_LIST, 0, NVM_ENGINE_UNDO, false, true};
  pools p{s};
  const std::uint64_t follows = p.head_of(90);
  // A place that the thread holds, in the word of the newest nodes.
  const geometry g = p.shape();
  std::uint64_t place = 0;
  for (std::uint64_t at = p.head_of(keys - 1); place == 0 && at < p.bytes.size(); at += 64) {
    const std::uint64_t extent = g.data_offset + round_down(at - g.data_offset, 8 * g.page_bytes());
    const first_bit bit = first_bit_of(extent, static_cast<unsigned>((at - extent) / 64));
    const bool is_free = p.word(at) == 0 && p.word(at + 8) == 0 && p.word(at + 16) == 0;
    if (is_free && (p.word(bit.word_offset) >> bit.bit & 1) != 0) place = at;
  }
  ASSERT_NE(place, 0U);
  const std::uint64_t order = 1000 + 90 * 7 - 1;
  p.put(place, follows);
  p.put(place + 8, order);
  p.put(place + 16, 42);
  p.put(place + 24, lockfree::node_sum(order, 42, 0));
  p.put(p.leads_to(p.head_of(20)), 0x1234'5678'9ABC'DEC0);
  EXPECT_EQ(p.mend(), stored(s));
  EXPECT_EQ(p.notes(mending::lost),
            "lock-free structure \"structure\": entry 1629: nothing leads to it, and it may not have been linked\n");
}

class mended_volatile : public mended {};
INSTANTIATE_TEST_SUITE_P(
    structures, mended_volatile,
    testing::Values(subject{"words_list", NVM_LF_LIST, volatile_links},
                    subject{"words_hash", NVM_LF_HASH, volatile_links},
                    subject{"words_skip_list", NVM_LF_SKIP_LIST, volatile_links},
                    subject{"bytes_list", NVM_LF_LIST, volatile_links | bytes_flag},
                    subject{"bytes_hash", NVM_LF_HASH, volatile_links | bytes_flag},
                    subject{"bytes_skip_list", NVM_LF_SKIP_LIST, volatile_links | bytes_flag},
                    subject{"bytes_hash_ssd", NVM_LF_HASH, volatile_links | bytes_flag, NVM_ENGINE_REDO, true},
                    subject{"words_list_killed", NVM_LF_LIST, volatile_links, NVM_ENGINE_UNDO, false, true},
                    subject{"words_skip_list_in_store", NVM_LF_SKIP_LIST, volatile_links, NVM_ENGINE_UNDO, false, false,
                            keys, true},
                    subject{"bytes_hash_in_store", NVM_LF_HASH, volatile_links | bytes_flag, NVM_ENGINE_REDO, false,
                            false, keys, true}),
    name_of_subject);

TEST_P(mended_volatile, lose_nothing_with_a_word_of_their_root) {
  pools p{GetParam()};
  for (const std::uint64_t at : {offsetof(lockfree::sealed_root, magic), offsetof(lockfree::sealed_root, bits),
                                 offsetof(lockfree::sealed_root, sum)}) {
    p.restore();
    p.put(p.root() + at, 0x5DEE'CE66'D123'4567);
    EXPECT_EQ(p.mend(), stored(GetParam())) << at;
    EXPECT_EQ(p.notes(mending::lost), "");
  }
  p.restore();
  p.bytes[p.root() + offsetof(lockfree::sealed_root, seed) + 3] ^= 0x41;
  EXPECT_EQ(p.mend(), stored(GetParam()));
  EXPECT_EQ(p.notes(mending::lost) + p.notes(mending::kept), "");
}

TEST_P(mended_volatile, keep_an_entry_that_fails_its_own_checksum) {
  const subject& s = GetParam();
  if (!s.of_bytes()) GTEST_SKIP() << "the seal is the sum";
  pools p{s};
  p.bytes[p.head_of(41) + 40 + key_of(s, 41).size() + 4] ^= 0x20;
  entries expected = stored(s);
  expected[key_of(s, 41)].first[4] ^= 0x20;
  EXPECT_EQ(p.mend(), expected);
  EXPECT_TRUE(p.tells(mending::kept, "entry \"key-1287\": an entry fails its checksum")) << p.notes(mending::kept);
}

TEST_P(mended_volatile, miss_an_entry_of_which_nothing_is_left) {
  const subject& s = GetParam();
  if (s.killed) GTEST_SKIP() << "nobody has counted them";
  pools p{s};
  // Its value was never another key's.
  std::memset(&p.bytes[p.head_of(42) + 8], 0, s.of_bytes() ? 32 : 24);
  EXPECT_GT(p.faults(), 0);
  entries expected = stored(s);
  const std::string count = std::to_string(expected.size());
  expected.erase(key_of(s, 42));
  NVM_POOL* const pool = p.open_damaged();
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  // Whoever opens it is told, each time.
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(open(pool, s, false, "structure"), nullptr);
    EXPECT_EQ(nvm_errno(), NVM_E_CORRUPT);
    EXPECT_NE(std::string{nvm_errormsg()}.find("entries are there, and " + count + " were when the pool was closed"),
              std::string::npos)
        << nvm_errormsg();
  }
  EXPECT_EQ(nvm_pool_close(pool), 0);
  EXPECT_EQ(p.mend(), expected);
  EXPECT_TRUE(p.tells(mending::lost, "1 entries whose keys cannot be read")) << p.notes(mending::lost);
}

TEST_P(mended_volatile, lose_nothing_with_pages_that_the_page_map_calls_free) {
  const subject& s = GetParam();
  pools p{s};
  const geometry g = p.shape();
  const std::uint64_t page = round_down(g.page_of(p.head_of(41)), 8);
  p.put(p.entry_of(page), 0);
  EXPECT_EQ(p.mend(), stored(s));
  EXPECT_EQ(p.notes(mending::lost), "");
}

TEST_P(mended_volatile, lose_nothing_with_a_word_of_the_directory) {
  const subject& s = GetParam();
  pools p{s};
  for (const std::uint64_t at : {std::uint64_t{0}, offsetof(lf::entry, root), offsetof(lf::entry, flags)}) {
    for (const std::uint64_t noise : {std::uint64_t{0x5DEE'CE66'D123'4567}, std::uint64_t{0}}) {
      p.restore();
      p.put(p.entry() + at, noise);
      EXPECT_GT(p.faults(), 0) << at;
      EXPECT_EQ(p.mend(), stored(s)) << at;
      EXPECT_EQ(p.notes(mending::lost), "");
    }
  }
}

// ---- several ----

TEST(mended_pool, has_every_damaged_structure_made_anew_and_the_others_as_they_were) {
  constexpr subject kinds[] = {{"list", NVM_LF_LIST, 0},
                               {"hash", NVM_LF_HASH, bytes_flag},
                               {"skip", NVM_LF_SKIP_LIST, volatile_links},
                               {"tree", NVM_LF_TREE, bytes_flag}};
  scratch place{false};
  const std::string path = place.path("made");
  const nvm_pool_options o = options_of(kinds[0]);
  NVM_POOL* pool = nvm_pool_create_with(path.c_str(), &o);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  for (const subject& s : kinds) {
    nvm_lf* lf = open(pool, s, true, s.name);
    ASSERT_NE(lf, nullptr) << nvm_errormsg();
    for (std::uint64_t k = 0; k < 50; ++k) EXPECT_TRUE(put(lf, s, key_of(s, k), value_of(s, k), k));
  }
  ASSERT_EQ(nvm_pool_close(pool), 0);
  file_bytes bytes = read_file(path);
  layout::superblock sb;
  std::memcpy(&sb, bytes.data(), sizeof sb);
  const auto word = [&](std::uint64_t at) {
    std::uint64_t w;
    std::memcpy(&w, &bytes[at], sizeof w);
    return w;
  };
  const std::uint64_t directory = word(anchor_word_at(geometry_of(sb), 0, anchor_word::lockfree)) & checked_mask;
  const auto entry = [&](std::size_t i) {
    return directory + offsetof(lf::directory, entries) + i * sizeof(lf::entry);
  };
  // A root, a root with volatile links, an entry; the hash table is sound.
  const std::uint64_t noise = 0x5DEE'CE66'D123'4567;
  for (const std::size_t i : {0U, 2U}) {
    const std::uint64_t root = word(entry(i) + offsetof(lf::entry, root)) & checked_mask;
    std::memcpy(&bytes[root + (i == 0 ? 8 : 0)], &noise, sizeof noise);
  }
  std::memcpy(&bytes[entry(3)], &noise, sizeof noise);
  write_file(path, bytes);
  care::repair_report report;
  const care::repair_request request{.path = path, .out = {}, .in_place = true};
  ASSERT_TRUE(care::repair_pool(request, report)) << last_message();
  EXPECT_EQ(nvm_pool_check(path.c_str(), nullptr, nullptr, nullptr), 0);
  pool = nvm_pool_open(path.c_str());
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  for (const subject& s : kinds) {
    nvm_lf* lf = open(pool, s, false, s.name);
    ASSERT_NE(lf, nullptr) << s.name << ": " << nvm_errormsg();
    EXPECT_EQ(nvm_lf_count(lf), 50U);
    for (std::uint64_t k = 0; k < 50; ++k) EXPECT_EQ(take(lf, s, key_of(s, k)), 1) << s.name << " " << k;
  }
  EXPECT_EQ(nvm_pool_close(pool), 0);
}

// Of the pool and of two object stores, all of one name; that of the second store is sound.
TEST(mended_stores, have_every_damaged_structure_made_anew_and_the_others_as_they_were) {
  constexpr subject own{"own", NVM_LF_LIST, 0};
  constexpr subject inside{"inside", NVM_LF_HASH, bytes_flag};
  scratch place{false};
  const std::string path = place.path("made");
  nvm_pool_options o = options_of(own);
  o.size = o.capacity = 4 << 20;
  NVM_POOL* pool = nvm_pool_create_with(path.c_str(), &o);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  const auto opened = [&](const char* store) {
    if (store == nullptr) return open(pool, own, true);
    nvm_store* const s = nvm_store_attach(pool, store, NVM_STORE_CREATE);
    nvm_lf_options how{};
    how.kind = inside.kind;
    how.flags = inside.flags;
    return nvm_lf_open_in(s, name, &how);
  };
  constexpr const char* homes[] = {nullptr, "one", "two"};
  for (const char* home : homes) {
    nvm_lf* const lf = opened(home);
    ASSERT_NE(lf, nullptr) << nvm_errormsg();
    const subject& s = home == nullptr ? own : inside;
    for (std::uint64_t k = 0; k < 50; ++k) EXPECT_TRUE(put(lf, s, key_of(s, k), value_of(s, k), k));
  }
  nvm_store_info one;
  ASSERT_EQ(nvm_store_stat(pool, "one", &one), 0) << nvm_errormsg();
  // A new one finds room where the old one was.
  ASSERT_EQ(nvm_store_quota(pool, "one", one.pages * one.page_bytes), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_pool_close(pool), 0);
  file_bytes bytes = read_file(path);
  layout::superblock sb;
  std::memcpy(&sb, bytes.data(), sizeof sb);
  const auto content = [&](std::uint64_t at) {
    std::uint64_t w;
    std::memcpy(&w, &bytes[at], sizeof w);
    return w & checked_mask;
  };
  const std::uint64_t noise = 0x5DEE'CE66'D123'4567;
  for (const std::uint64_t directory :
       {content(anchor_word_at(geometry_of(sb), 0, anchor_word::lockfree)), one.structures}) {
    const std::uint64_t root = content(directory + offsetof(lf::directory, entries) + offsetof(lf::entry, root));
    std::memcpy(&bytes[root], &noise, sizeof noise);
  }
  write_file(path, bytes);
  const care::repair_request request{.path = path, .out = {}, .in_place = true};
  care::repair_report report;
  ASSERT_TRUE(care::repair_pool(request, report)) << last_message();
  EXPECT_EQ(nvm_pool_check(path.c_str(), nullptr, nullptr, nullptr), 0);
  const std::string made = "lock-free structure \"structure\": made anew, with 50 entries";
  const auto tells = [&](const std::string& what) {
    return std::count_if(report.notes.begin(), report.notes.end(), [&](const auto& n) { return n.what == what; });
  };
  EXPECT_EQ(tells(made), 1);
  EXPECT_EQ(tells("store " + std::to_string(one.number) + ": " + made), 1);
  for (const care::repair_note& n : report.notes) EXPECT_EQ(n.how, mending::mended) << n.what;
  // Again: there is nothing to do.
  report = {};
  ASSERT_TRUE(care::repair_pool(request, report)) << last_message();
  EXPECT_EQ(report.notes.size(), 0U);
  pool = nvm_pool_open(path.c_str());
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  for (const char* home : homes) {
    nvm_lf* const lf = opened(home);
    ASSERT_NE(lf, nullptr) << nvm_errormsg();
    EXPECT_EQ(nvm_lf_count(lf), 50U);
    const subject& s = home == nullptr ? own : inside;
    for (std::uint64_t k = 0; k < 50; ++k) EXPECT_EQ(take(lf, s, key_of(s, k)), 1) << k;
  }
  EXPECT_EQ(nvm_pool_close(pool), 0);
}

}  // namespace
}  // namespace nvm::tests
