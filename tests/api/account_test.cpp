// The full check accounts for every page of every kind of pool: each is free, an object's, a log's, a structure's or
// damaged, the sums agree with the size, and pages without an owner, or with two, are found.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "../scratch_folder.hpp"
#include "logheap/logheap_layout.hpp"
#include "nvm/kv.h"
#include "nvm/lockfree.h"
#include "nvm/nvm.h"
#include "space/space.hpp"

namespace nvm::tests {
namespace {

struct kind {
  const char* name;
  std::uint32_t medium;
  std::uint32_t engine;
};
constexpr kind kinds[] = {{"undo", NVM_MEDIUM_SHM, NVM_ENGINE_UNDO},
                          {"redo", NVM_MEDIUM_SHM, NVM_ENGINE_REDO},
                          {"mnemosyne", NVM_MEDIUM_SHM, NVM_ENGINE_MNEMOSYNE},
                          {"mnemosyne_undo", NVM_MEDIUM_SHM, NVM_ENGINE_MNEMOSYNE_UNDO},
                          {"log", NVM_MEDIUM_SHM, NVM_ENGINE_LOG},
                          {"ssd", NVM_MEDIUM_SSD, NVM_ENGINE_UNDO}};

class account : public testing::TestWithParam<kind> {
 protected:
  account() : folder_{"account", false}, path_{folder_.path("pool")} {}

  // Stores with records of many sizes, a lock-free structure where there can be one, and a transaction that is larger
  // than a lane; closed.
  void fill() {
    nvm_pool_options o{};
    o.size = 4 << 20;
    o.medium = GetParam().medium;
    o.engine = GetParam().engine;
    o.lanes = 4;
    NVM_POOL* pool = nvm_pool_create_with(path_.c_str(), &o);
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    nvm_kv* store = nvm_kv_open(pool, "records", nullptr);
    ASSERT_NE(store, nullptr) << nvm_errormsg();
    const std::string value(9000, 'v');
    for (unsigned i = 0; i < 120; ++i) {
      const std::string key = "key" + std::to_string(i);
      ASSERT_EQ(nvm_kv_put(store, key.data(), key.size(), value.data(), i * 75), 0) << nvm_errormsg();
      if (i % 3 == 0) {
        ASSERT_EQ(nvm_kv_remove(store, key.data(), key.size()), 1) << nvm_errormsg();
      }
    }
    if (GetParam().engine != NVM_ENGINE_LOG) {
      nvm_lf* set = nvm_lf_open(pool, "set", nullptr);
      ASSERT_NE(set, nullptr) << nvm_errormsg();
      for (std::uint64_t k = 0; k < 500; ++k) ASSERT_EQ(nvm_lf_put64(set, k, k, 0), 1) << nvm_errormsg();
      for (std::uint64_t k = 0; k < 500; k += 3) ASSERT_EQ(nvm_lf_remove64(set, k), 1) << nvm_errormsg();
    }
    if (GetParam().engine == NVM_ENGINE_UNDO && GetParam().medium == NVM_MEDIUM_SHM) {
      ASSERT_EQ(nvm_tx_begin(pool), 0);
      auto* large = static_cast<char*>(nvm_calloc(pool, 9, 1, 1 << 20));
      ASSERT_NE(large, nullptr) << nvm_errormsg();
      ASSERT_EQ(nvm_tx_commit(pool), 0);
      ASSERT_EQ(nvm_tx_begin(pool), 0);
      ASSERT_EQ(nvm_tx_log(large, 1 << 20), 0) << nvm_errormsg();
      std::memset(large, 1, 1 << 20);
      ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
    }
    ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    std::ifstream in{path_, std::ios::binary};
    bytes_.assign(std::istreambuf_iterator<char>{in}, {});
    const auto sb = pick_superblock(reinterpret_cast<const std::byte*>(bytes_.data()), bytes_.size());
    ASSERT_TRUE(sb);
    g_ = geometry_of(*sb);
  }

  [[nodiscard]] layout::page_entry entry(std::uint64_t page) const {
    std::uint64_t word;
    std::memcpy(&word, bytes_.data() + g_.entry_offset(page), sizeof word);
    return layout::unpack(word & checked_mask);
  }
  // First of `pages` free ones, at a multiple of 8.
  [[nodiscard]] std::uint64_t free_pages(std::uint64_t pages) const {
    for (std::uint64_t page = 0; page + pages <= g_.size_pages;) {
      std::uint64_t free = 0;
      while (free < pages && entry(page + free).length_pages == 0) ++free;
      // A page inside of a run has an entry of zeros too: go from head to head.
      const std::uint64_t length = entry(page).length_pages;
      if (free == pages && page % 8 == 0) return page;
      page += length == 0 ? 1 : length;
    }
    ADD_FAILURE() << "no free pages";
    return 0;
  }
  // The pool as if its owner had died instead of closing it.
  [[nodiscard]] std::vector<char> left_open() const {
    ::setenv("HOLDFAST_ACCEPT_COPY", "1", 1);
    std::vector<char> changed = bytes_;
    for (unsigned copy = 0; copy < 2; ++copy) {
      layout::superblock sb;
      std::memcpy(static_cast<void*>(&sb), &changed[g_.superblock_at(copy)], sizeof sb);
      sb.state = static_cast<std::uint32_t>(layout::pool_state::open);
      sb.crc = superblock_crc(sb);
      std::memcpy(&changed[g_.superblock_at(copy)], &sb, sizeof sb);
    }
    return changed;
  }
  // The check of the pool with this entry put where it says.
  [[nodiscard]] std::string findings_with(std::uint64_t page, const layout::page_entry& e) {
    return findings_with(page, e, bytes_);
  }
  [[nodiscard]] std::string findings_with(std::uint64_t page, const layout::page_entry& e, std::vector<char> changed) {
    const std::uint64_t at = g_.entry_offset(page);
    const std::uint64_t word = seal_word(layout::pack(e), word_seed(at));
    std::memcpy(changed.data() + at, &word, sizeof word);
    return check(changed);
  }
  // All findings; the sum holds in any case.
  [[nodiscard]] std::string check(const std::vector<char>& contents) {
    std::ofstream{path_, std::ios::binary}.write(contents.data(), static_cast<std::streamsize>(contents.size()));
    std::string text;
    const auto add = [](std::uint64_t at, const char* finding, void* to) {
      *static_cast<std::string*>(to) += std::to_string(at) + ": " + finding + "\n";
    };
    summary_ = {};
    const std::int64_t found = nvm_pool_check(path_.c_str(), add, &text, &summary_);
    EXPECT_GE(found, 0) << nvm_errormsg();
    EXPECT_EQ(summary_.pages, g_.size_pages);
    EXPECT_EQ(summary_.free_pages + summary_.run_pages + summary_.extent_pages + summary_.log_pages +
                  summary_.structure_pages + summary_.damaged_pages,
              summary_.pages)
        << text;
    return text;
  }

  scratch_folder folder_;
  std::string path_;
  std::vector<char> bytes_;
  geometry g_;
  nvm_check_summary summary_{};
};

TEST_P(account, of_a_sound_pool_is_whole) {
  ASSERT_NO_FATAL_FAILURE(fill());
  EXPECT_EQ(check(bytes_), "");
  EXPECT_EQ(summary_.damaged_pages, 0U);
  EXPECT_EQ(summary_.reclaimed_pages, 0U);
  const bool is_log = GetParam().engine == NVM_ENGINE_LOG;
  EXPECT_EQ(summary_.log_pages != 0, is_log);
  EXPECT_EQ(summary_.structure_pages != 0, !is_log);
  EXPECT_EQ(summary_.extent_pages != 0, !is_log);
}

TEST_P(account, finds_pages_that_are_nobodys) {
  ASSERT_NO_FATAL_FAILURE(fill());
  const std::uint64_t page = free_pages(8);
  const bool is_log = GetParam().engine == NVM_ENGINE_LOG;
  using layout::object_layout;
  using layout::page_kind;
  using layout::slot_protocol;
  // Pages of a log whose transaction has ended.
  EXPECT_NE(findings_with(page, {2, 0, page_kind::log, object_layout::raw, {}}), "");
  // An object without a header, and one whose header does not hold.
  EXPECT_NE(findings_with(page, {2, 0, page_kind::run, object_layout::raw, {}}), "");
  EXPECT_NE(findings_with(page, {2, 0, page_kind::run, object_layout::typed, {}}), "");
  EXPECT_NE(findings_with(page, {1, 0, page_kind::fine, object_layout::typed, {}}), "");
  // Pages of a structure that does not exist, or that does not know them.
  const std::string unknown = findings_with(page, {2, 200, page_kind::run, object_layout::raw, slot_protocol::epoch});
  if (is_log) {
    EXPECT_NE(unknown, "");
    const std::uint16_t owner = logheap::layout::owner;
    EXPECT_EQ(findings_with(page, {8, owner, page_kind::run, object_layout::raw, slot_protocol::epoch}), "");
    EXPECT_EQ(summary_.reclaimed_pages, 8U);
  } else {
    // A crash may leave them, and the next open frees them.
    EXPECT_NE(unknown, "");
    const layout::page_entry of_unknown{2, 200, page_kind::run, object_layout::raw, slot_protocol::epoch};
    EXPECT_EQ(findings_with(page, of_unknown, left_open()), "");
    EXPECT_EQ(summary_.reclaimed_pages, 2U);
  }
}

TEST_P(account, finds_pages_that_are_used_twice) {
  ASSERT_NO_FATAL_FAILURE(fill());
  using layout::page_kind;
  unsigned tried = 0;
  for (std::uint64_t page = 0; page < g_.size_pages && tried < 30;) {
    const layout::page_entry e = entry(page);
    if (e.length_pages > 1) {
      ++tried;
      // Another head inside, and a head before that reaches into it.
      EXPECT_NE(findings_with(page + 1, {1, 0, page_kind::fine, layout::object_layout::typed, {}}), "") << page;
      layout::page_entry longer = e;
      const std::uint64_t behind = page + e.length_pages;
      if (behind < g_.size_pages && entry(behind).length_pages != 0 && e.kind == page_kind::run) {
        ++longer.length_pages;
        EXPECT_NE(findings_with(page, longer), "") << page;
      }
    }
    page += e.length_pages == 0 ? 1 : e.length_pages;
  }
  EXPECT_GT(tried, 0U);
}

TEST_P(account, finds_entries_behind_the_end_and_counts_damaged_ones) {
  ASSERT_NO_FATAL_FAILURE(fill());
  if (g_.size_pages % (g_.page_bytes() / 8) != 0) {
    EXPECT_NE(findings_with(g_.size_pages, {1, 0, layout::page_kind::run, layout::object_layout::typed, {}}), "");
  }
  std::vector<char> changed = bytes_;
  changed[g_.entry_offset(free_pages(8))] = 1;
  EXPECT_NE(check(changed), "");
  EXPECT_EQ(summary_.damaged_pages, 1U);
}

INSTANTIATE_TEST_SUITE_P(pools, account, testing::ValuesIn(kinds), [](const auto& p) { return p.param.name; });

}  // namespace
}  // namespace nvm::tests
