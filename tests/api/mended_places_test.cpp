// Repair of pools in which valid bytes lie in the wrong place: a state of zero, exchanged or copied headers of extents,
// a page of nodes that exists twice. Data in other places is not lost, and each loss is reported.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <regex>
#include <string>
#include <vector>

#include "mended_pools.hpp"
#include "nvm/kv.h"

namespace nvm::tests {
namespace {

constexpr std::uint32_t with_bytes = NVM_LF_BYTES;
constexpr std::uint32_t sumless = NVM_LF_NO_CHECKSUMS;
constexpr std::uint32_t unlinked = NVM_LF_VOLATILE_LINKS;

class misplaced : public testing::TestWithParam<subject> {
 protected:
  static void SetUpTestSuite() { ::setenv("HOLDFAST_ACCEPT_COPY", "1", 1); }
};
std::string name_of_misplaced(const testing::TestParamInfo<subject>& i) { return i.param.name; }

constexpr auto undo = NVM_ENGINE_UNDO;
INSTANTIATE_TEST_SUITE_P(
    structures, misplaced,
    testing::Values(subject{"words_list", NVM_LF_LIST, 0, undo, false, false, 700},
                    subject{"words_hash", NVM_LF_HASH, 0, NVM_ENGINE_REDO, false, false, 700},
                    subject{"words_skip_list", NVM_LF_SKIP_LIST, 0, undo, false, false, 500},
                    subject{"words_tree", NVM_LF_TREE, 0, undo, false, false, 400},
                    subject{"bytes_list", NVM_LF_LIST, with_bytes, undo, false, false, 300},
                    subject{"bytes_hash", NVM_LF_HASH, with_bytes, undo, false, false, 300},
                    subject{"bytes_skip_list", NVM_LF_SKIP_LIST, with_bytes, undo, false, false, 300},
                    subject{"bytes_tree", NVM_LF_TREE, with_bytes, undo, false, false, 300},
                    subject{"bytes_hash_ssd", NVM_LF_HASH, with_bytes, NVM_ENGINE_REDO, true, false, 300},
                    subject{"words_hash_killed", NVM_LF_HASH, 0, undo, false, true, 700},
                    subject{"bytes_skip_list_killed", NVM_LF_SKIP_LIST, with_bytes, undo, false, true, 300},
                    subject{"words_list_volatile", NVM_LF_LIST, unlinked, undo, false, false, 700},
                    subject{"words_hash_volatile", NVM_LF_HASH, unlinked, undo, false, false, 700},
                    subject{"words_skip_list_volatile", NVM_LF_SKIP_LIST, unlinked, undo, false, false, 500},
                    subject{"bytes_hash_volatile", NVM_LF_HASH, with_bytes | unlinked, undo, false, false, 300},
                    subject{"bytes_hash_without_sums", NVM_LF_HASH, with_bytes | sumless, undo, false, false, 300},
                    subject{"words_list_without_sums", NVM_LF_LIST, sumless, undo, false, false, 700},
                    subject{"words_hash_in_store", NVM_LF_HASH, 0, undo, false, false, 700, true},
                    subject{"bytes_skip_list_in_store", NVM_LF_SKIP_LIST, with_bytes, NVM_ENGINE_REDO, false, false,
                            300, true},
                    subject{"words_list_volatile_in_store", NVM_LF_LIST, unlinked, undo, false, false, 700, true}),
    name_of_misplaced);

std::vector<std::uint64_t> extents_of(const pools& p, bool of_nodes = true) {
  std::vector<std::uint64_t> all;
  const geometry g = p.shape();
  const auto* const base = reinterpret_cast<const std::byte*>(p.bytes.data());
  care::each_good_entry(base, g, [&](std::uint64_t page, const layout::page_entry& e, std::uint32_t) {
    if (e.kind != layout::page_kind::coarse && e.kind != layout::page_kind::fine) return;
    if (layout::transactional(e) != of_nodes) all.push_back(g.page_offset(page));
  });
  return all;
}
std::uint64_t header_bytes_at(const pools& p, std::uint64_t extent) {
  const geometry g = p.shape();
  const layout::page_entry e = layout::unpack(p.word(p.entry_of(g.page_of(extent))) & checked_mask);
  const layout::extent_shape s = layout::shape_of(e.kind, g.page_shift);
  return s.header_slots * s.slot_bytes;
}
void exchange(pools& p, std::uint64_t a, std::uint64_t b, std::uint64_t n) {
  const auto begin = p.bytes.begin();
  std::swap_ranges(begin + static_cast<std::ptrdiff_t>(a), begin + static_cast<std::ptrdiff_t>(a + n),
                   begin + static_cast<std::ptrdiff_t>(b));
}
void copy(pools& p, std::uint64_t from, std::uint64_t to, std::uint64_t n) {
  std::memmove(&p.bytes[to], &p.bytes[from], n);
}

// Entries that are told to be lost, by key or by number; or places where there may have been some.
std::uint64_t told_lost(const pools& p) {
  const std::string notes = p.notes(mending::lost);
  std::uint64_t n = 0;
  const std::regex counted{": (\\d+) entries whose keys|what was in (\\d+) places|: entry "};
  for (std::sregex_iterator at{notes.begin(), notes.end(), counted}, end; at != end; ++at) {
    const std::string number = (*at)[1].matched ? (*at)[1].str() : (*at)[2].str();
    n += number.empty() ? 1 : std::stoull(number);
  }
  return n;
}
// Nothing is there that was not, and as much is told to be lost as is.
void expect_told(const pools& p, const entries& found, const entries& all) {
  std::uint64_t same = 0;
  for (const auto& [key, value] : found) {
    const auto was = all.find(key);
    ASSERT_NE(was, all.end());
    if (was->second != value) {
      // What is cut by the end of a page.
      EXPECT_TRUE(p.tells(mending::kept, "entry \"" + key + "\"")) << p.notes(mending::kept);
    }
    ++same;
  }
  // Where a place was free on the page that was copied nothing says what was in it.
  const std::uint64_t missing = all.size() - same;
  EXPECT_GE(told_lost(p), (missing + 1) / 2) << missing << " are missing: " << p.notes(mending::lost);
}

// ---- the directory -------------------------------------------------------------------------------------------------

TEST_P(misplaced, stay_where_the_directory_says_that_there_are_none) {
  const subject& s = GetParam();
  pools p{s};
  const std::vector<std::vector<std::size_t>> zeros{
      {0}, {0, offsetof(lf::entry, root)}, {0, offsetof(lf::entry, flags)}, {0, offsetof(lf::entry, crc)}};
  for (const auto& words : zeros) {
    p.restore();
    for (const std::size_t at : words) p.put(p.entry() + at, 0);
    EXPECT_GT(p.faults(), 0) << words.back();
    EXPECT_EQ(p.mend(), stored(s)) << words.back();
    EXPECT_EQ(p.notes(mending::lost), "") << words.back();
  }
}

TEST(misplaced_structures, stay_dropped_where_they_were) {
  ::setenv("HOLDFAST_ACCEPT_COPY", "1", 1);
  const subject s{"dropped", NVM_LF_HASH, with_bytes};
  scratch place{false};
  const std::string path = place.path("made");
  const nvm_pool_options o = options_of(s);
  NVM_POOL* pool = nvm_pool_create_with(path.c_str(), &o);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  ASSERT_TRUE(fill(pool, s));
  ASSERT_NE(open(pool, s, true, "other"), nullptr);
  ASSERT_EQ(nvm_lf_drop(pool, name), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_pool_close(pool), 0);
  EXPECT_EQ(nvm_pool_check(path.c_str(), nullptr, nullptr, nullptr), 0);
  care::repair_report report;
  ASSERT_TRUE(care::repair_pool({.path = path, .out = {}, .in_place = true}, report)) << last_message();
  pool = nvm_pool_open(path.c_str());
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  EXPECT_EQ(open(pool, s, false), nullptr);
  EXPECT_NE(open(pool, s, false, "other"), nullptr);
  EXPECT_EQ(nvm_pool_close(pool), 0);
}

// ---- headers of extents --------------------------------------------------------------------------------------------

TEST_P(misplaced, lose_nothing_with_headers_of_extents_that_were_exchanged) {
  const subject& s = GetParam();
  pools p{s};
  const std::vector<std::uint64_t> extents = extents_of(p);
  ASSERT_GE(extents.size(), 2U);
  for (std::size_t i = 1; i < extents.size(); ++i) {
    const std::uint64_t header = header_bytes_at(p, extents[i]);
    for (const std::uint64_t bytes : {header, std::uint64_t{96}, std::uint64_t{4096}}) {
      // Without sums nothing says whose a page of nodes is.
      if (bytes == 4096 && (s.flags & sumless) != 0) continue;
      p.restore();
      exchange(p, extents[i - 1], extents[i], bytes);
      EXPECT_GT(p.faults(), 0) << i;
      EXPECT_EQ(p.mend(), stored(s)) << i << ", " << bytes;
      EXPECT_EQ(p.notes(mending::lost), "") << i << ", " << bytes;
      EXPECT_TRUE(p.tells(mending::mended, "exchanged with that of the extent")) << p.notes(mending::mended);
    }
  }
}

TEST_P(misplaced, lose_nothing_with_a_header_of_an_extent_that_was_copied_over_another) {
  const subject& s = GetParam();
  pools p{s};
  const std::vector<std::uint64_t> extents = extents_of(p);
  ASSERT_GE(extents.size(), 2U);
  for (std::size_t i = 0; i < extents.size(); ++i) {
    p.restore();
    copy(p, extents[i], extents[(i + 1) % extents.size()], header_bytes_at(p, extents[i]));
    EXPECT_GT(p.faults(), 0) << i;
    entries found = p.mend();
    const entries all = stored(s);
    if ((s.flags & sumless) == 0) {
      EXPECT_EQ(found, all) << i;
    } else {
      // In places of another size bytes may look like an entry, and without sums nothing says that they are none.
      std::erase_if(found, [&](const auto& e) { return !all.contains(e.first); });
    }
    expect_told(p, found, all);
  }
}

// ---- pages of nodes ------------------------------------------------------------------------------------------------

// Keys of which nothing lies in a page.
entries outside_of(const pools& p, const subject& s, std::uint64_t page) {
  entries all = stored(s);
  // From before the node to its sum.
  const std::size_t from = page - 512;
  const std::size_t bytes = 512 + 4096 + 128;
  for (std::uint64_t k = 0; k < s.many; ++k) {
    const std::string what = s.of_bytes() ? key_of(s, k) + value_of(s, k) : value_of(s, k);
    if (::memmem(&p.bytes[from], bytes, what.data(), what.size()) != nullptr) all.erase(key_of(s, k));
  }
  return all;
}

TEST_P(misplaced, lose_what_a_copied_page_lies_over_and_nothing_else) {
  const subject& s = GetParam();
  if ((s.flags & sumless) != 0) GTEST_SKIP() << "nothing says what was there";
  pools p{s};
  const std::vector<std::uint64_t> extents = extents_of(p);
  const std::vector<std::pair<std::uint64_t, std::uint64_t>> pages{{extents[0] + 4096, extents[0] + 2 * 4096},
                                                                   {extents[0] + 2 * 4096, extents[0] + 4096},
                                                                   {extents.back(), extents[0]},
                                                                   {extents[0], extents.back()},
                                                                   {extents[0] + 4096, extents.back()},
                                                                   {extents[0] + 4096, extents.back() + 4096}};
  for (const auto& [from, to] : pages) {
    if (from == to) continue;
    SCOPED_TRACE(std::to_string(from) + " to " + std::to_string(to));
    p.restore();
    const entries others = outside_of(p, s, to);
    copy(p, from, to, 4096);
    const entries found = p.mend();
    const auto is_found = [&](const auto& e) { return found.contains(e.first); };
    EXPECT_TRUE(std::all_of(others.begin(), others.end(), is_found));
    if (!s.killed) expect_told(p, found, stored(s));
    if (found.size() != s.many) {
      EXPECT_GT(p.faults(), 0);
    }
  }
}

// ---- objects and stores --------------------------------------------------------------------------------------------

struct object {
  object* next;
  std::uint64_t number;
  std::uint64_t bytes;
};
constexpr std::uint64_t objects = 400;
constexpr std::uint64_t bytes_of_object(std::uint64_t i) {
  return sizeof(object) + i % 7 * 32 + (i % 3 == 0 ? 700 : 0);
}

std::uint64_t objects_in(NVM_POOL* pool) {
  std::uint64_t n = 0;
  for (auto* o = static_cast<object*>(nvm_pool_get_root(pool)); o != nullptr && n < 2 * objects; o = o->next) {
    const auto* tail = reinterpret_cast<const unsigned char*>(o + 1);
    const bool is_whole = o->bytes == bytes_of_object(o->number) &&
                          std::all_of(tail, tail + (o->bytes - sizeof *o),
                                      [&](unsigned char c) { return c == static_cast<unsigned char>(o->number); });
    if (!is_whole) break;
    ++n;
  }
  return n;
}

class misplaced_objects : public testing::TestWithParam<nvm_engine> {
 protected:
  static void SetUpTestSuite() { ::setenv("HOLDFAST_ACCEPT_COPY", "1", 1); }
  void SetUp() override {
    nvm_pool_options o{};
    o.size = o.capacity = 2 << 20;
    o.engine = GetParam();
    o.medium = direct_medium();
    NVM_POOL* pool = nvm_pool_create_with(path().c_str(), &o);
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    ASSERT_EQ(nvm_tx_begin(pool), 0);
    object* first = nullptr;
    for (std::uint64_t i = 0; i < objects; ++i) {
      auto* made = static_cast<object*>(nvm_alloc(pool, 7, bytes_of_object(i)));
      ASSERT_NE(made, nullptr) << nvm_errormsg();
      *made = {first, i, bytes_of_object(i)};
      std::memset(made + 1, static_cast<int>(i), made->bytes - sizeof *made);
      first = made;
    }
    ASSERT_EQ(nvm_pool_set_root(pool, first), 0);
    ASSERT_EQ(nvm_tx_commit(pool), 0);
    nvm_kv* kv = nvm_kv_open(pool, "store", nullptr);
    ASSERT_NE(kv, nullptr) << nvm_errormsg();
    for (std::uint64_t i = 0; i < objects; ++i) {
      const std::string key = "key " + std::to_string(i);
      const std::string value(i % 50 + 1, 'v');
      ASSERT_GE(nvm_kv_put(kv, key.data(), key.size(), value.data(), value.size()), 0);
    }
    ASSERT_EQ(nvm_kv_close(kv), 0);
    ASSERT_EQ(nvm_pool_close(pool), 0);
    sound_ = read_file(path());
  }
  std::string path() { return place_.path("made"); }

  std::vector<std::uint64_t> extents(layout::page_kind kind) const {
    layout::superblock sb;
    std::memcpy(&sb, sound_.data(), sizeof sb);
    const geometry g = geometry_of(sb);
    std::vector<std::uint64_t> all;
    for (std::uint64_t page = 0; page < g.size_pages; ++page) {
      std::uint64_t word = 0;
      std::memcpy(&word, &sound_[g.entry_offset(page)], sizeof word);
      const layout::page_entry e = layout::unpack(word & checked_mask);
      if (e.length_pages != 0 && e.kind == kind && layout::transactional(e)) all.push_back(g.page_offset(page));
    }
    return all;
  }
  // All objects and entries are there afterwards.
  void expect_all(const file_bytes& damaged, const std::string& what) {
    write_file(path(), damaged);
    EXPECT_GT(nvm_pool_check(path().c_str(), nullptr, nullptr, nullptr), 0) << what;
    care::repair_report report;
    const status done = care::repair_pool({.path = path(), .out = {}, .in_place = true}, report);
    ASSERT_TRUE(done) << what << ": " << last_message();
    for (const care::repair_note& n : report.notes) EXPECT_NE(n.how, mending::lost) << what << ": " << n.what;
    EXPECT_EQ(nvm_pool_check(path().c_str(), nullptr, nullptr, nullptr), 0) << what;
    NVM_POOL* pool = nvm_pool_open(path().c_str());
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    EXPECT_EQ(objects_in(pool), objects) << what;
    nvm_kv* kv = nvm_kv_open(pool, "store", nullptr);
    ASSERT_NE(kv, nullptr) << nvm_errormsg();
    std::uint64_t found = 0;
    for (std::uint64_t i = 0; i < objects; ++i) {
      const std::string key = "key " + std::to_string(i);
      std::size_t bytes = 0;
      found += nvm_kv_get(kv, key.data(), key.size(), nullptr, 0, &bytes) == 1 && bytes == i % 50 + 1 ? 1 : 0;
    }
    EXPECT_EQ(found, objects) << what;
    EXPECT_EQ(nvm_kv_close(kv), 0);
    EXPECT_EQ(nvm_pool_close(pool), 0);
  }

  scratch place_{false};
  file_bytes sound_;
};
INSTANTIATE_TEST_SUITE_P(engines, misplaced_objects, testing::Values(NVM_ENGINE_UNDO, NVM_ENGINE_REDO));

TEST_P(misplaced_objects, are_all_there_with_headers_of_extents_that_were_exchanged) {
  for (const auto kind : {layout::page_kind::fine, layout::page_kind::coarse}) {
    const layout::extent_shape s = layout::shape_of(kind, 12);
    const std::vector<std::uint64_t> all = extents(kind);
    ASSERT_GE(all.size(), 2U);
    for (const std::uint64_t bytes :
         {std::uint64_t{s.header_slots} * s.slot_bytes, s.lengths_at, std::uint64_t{4096}}) {
      file_bytes damaged = sound_;
      std::swap_ranges(damaged.begin() + static_cast<std::ptrdiff_t>(all.front()),
                       damaged.begin() + static_cast<std::ptrdiff_t>(all.front() + bytes),
                       damaged.begin() + static_cast<std::ptrdiff_t>(all.back()));
      expect_all(damaged, "kind " + std::to_string(static_cast<int>(kind)) + ", " + std::to_string(bytes));
    }
  }
  // Of an extent of each kind.
  file_bytes damaged = sound_;
  const std::uint64_t fine = extents(layout::page_kind::fine).front();
  const std::uint64_t coarse = extents(layout::page_kind::coarse).front();
  std::swap_ranges(damaged.begin() + static_cast<std::ptrdiff_t>(fine),
                   damaged.begin() + static_cast<std::ptrdiff_t>(fine + 640),
                   damaged.begin() + static_cast<std::ptrdiff_t>(coarse));
  expect_all(damaged, "one of each kind");
}

TEST_P(misplaced_objects, are_all_there_with_a_header_of_an_extent_that_was_copied_over_another) {
  for (const auto kind : {layout::page_kind::fine, layout::page_kind::coarse}) {
    const layout::extent_shape s = layout::shape_of(kind, 12);
    const std::vector<std::uint64_t> all = extents(kind);
    for (const bool forward : {false, true}) {
      file_bytes damaged = sound_;
      const std::uint64_t from = forward ? all.front() : all.back();
      const std::uint64_t to = forward ? all.back() : all.front();
      std::memmove(&damaged[to], &damaged[from], s.header_slots * s.slot_bytes);
      expect_all(damaged, "kind " + std::to_string(static_cast<int>(kind)) + (forward ? ", on" : ", back"));
    }
  }
}

}  // namespace
}  // namespace nvm::tests
