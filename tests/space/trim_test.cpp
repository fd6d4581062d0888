// Pages that are given back to the file system: which, in what order, and that they come back.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "test_pool.hpp"

namespace nvm::testing {
namespace {

using layout::object_layout;

// A file that remembers which pages have blocks.
class file_of_test final : public pool_blocks {
 public:
  explicit file_of_test(test_pool& pool) : pool_{pool} {}
  status fill(std::uint64_t page, std::uint64_t count) noexcept override {
    if (full) return fail(errc::no_space, "the device is full");
    for (std::uint64_t p = page; p < page + count; ++p) holes.erase(p);
    ++fills;
    return {};
  }
  status allow_holes() noexcept override {
    steps += 'a';
    return {};
  }
  status bring_home() noexcept override {
    steps += 'h';
    return {};
  }
  status punch(std::uint64_t page, std::uint64_t count) noexcept override {
    steps += 'p';
    if (refuses) return fail(errc::system, "no holes here");
    for (std::uint64_t p = page; p < page + count; ++p) {
      EXPECT_TRUE(holes.insert(p).second) << "page " << p << " is one already";
      EXPECT_EQ(load_word(pool_.base(), pool_.sizes().entry_offset(p)), 0U) << "page " << p << " is in use";
      std::memset(pool_.base() + pool_.sizes().page_offset(p), 0, 4096);
    }
    return {};
  }
  status shrink(std::uint64_t pages, status& uncut) noexcept override {
    steps += 's';
    const std::uint64_t size = pool_.sizes().size_pages;
    for (std::uint64_t p = pages; p < size; ++p) {
      EXPECT_EQ(load_word(pool_.base(), pool_.sizes().entry_offset(p)), 0U) << "page " << p << " is in use";
      holes.erase(p);
    }
    pool_.shrunk_to(pages);
    if (refuses) uncut = fail(errc::system, "the file stays as long as it is");
    return {};
  }

  std::set<std::uint64_t> holes;
  std::string steps;
  unsigned fills = 0;
  bool full = false;
  bool refuses = false;

 private:
  test_pool& pool_;
};

constexpr std::uint64_t run_bytes = 8192;  // two pages
constexpr std::uint64_t run_pages = 2;

struct trimmed_pool {
  explicit trimmed_pool(std::uint64_t size, std::uint64_t capacity) : pool{test_geometry(size, capacity)}, file{pool} {
    EXPECT_TRUE(pool.boot());
    pool->keep_blocks_by(file);
  }
  trim_outcome trim(const trim_wishes& w = {}) {
    trim_outcome out;
    const status done = pool->give_back(w, out);
    EXPECT_TRUE(done) << last_message();
    return out;
  }
  // Filled.
  std::vector<std::uint64_t> put_runs(unsigned count) {
    std::vector<std::uint64_t> all;
    for (unsigned i = 0; i < count; ++i) {
      const auto at = put(pool, run_bytes, i % 4);
      EXPECT_TRUE(at) << last_message();
      if (!at) break;
      std::memset(pool.base() + *at, 0x5A, run_bytes);
      all.push_back(*at);
    }
    return all;
  }
  void expect_intact(const std::vector<std::uint64_t>& all) {
    for (const std::uint64_t at : all) {
      const auto* p = reinterpret_cast<const unsigned char*>(pool.base() + at);
      EXPECT_TRUE(std::all_of(p, p + run_bytes, [](unsigned char b) { return b == 0x5A; })) << at;
    }
  }
  test_pool pool;
  file_of_test file;
};

TEST(trim, makes_holes_of_free_pages_and_no_others_once) {
  trimmed_pool p{256, 4096};
  std::vector<std::uint64_t> all = p.put_runs(128);
  std::vector<std::uint64_t> kept;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i % 3 == 0) {
      kept.push_back(all[i]);
    } else {
      ASSERT_TRUE(drop(p.pool, all[i]));
    }
  }
  const trim_outcome out = p.trim();
  EXPECT_EQ(out.pages_punched + out.pages_cut, 256 - kept.size() * run_pages);
  EXPECT_EQ(p.file.holes.size(), out.pages_punched);
  p.expect_intact(kept);
  EXPECT_TRUE(p.pool.check());
  EXPECT_EQ(p.trim().pages_punched, 0U) << "holes are holes already";
}

TEST(trim, makes_sure_of_everything_before_a_hole) {
  trimmed_pool p{256, 4096};
  const auto all = p.put_runs(128);
  for (std::size_t i = 0; i < all.size(); i += 2) ASSERT_TRUE(drop(p.pool, all[i]));
  (void)p.trim();
  // Home before the pool ends elsewhere; that holes are allowed, then home, then holes, for each part.
  EXPECT_TRUE(p.file.steps.find("ah") < p.file.steps.find('p')) << p.file.steps;
  EXPECT_EQ(std::count(p.file.steps.begin(), p.file.steps.end(), 'a'), 1) << p.file.steps;
}

TEST(trim, gives_pages_blocks_again_before_they_are_used) {
  trimmed_pool p{256, 256};
  const auto all = p.put_runs(128);
  for (std::size_t i = 0; i < 100; ++i) ASSERT_TRUE(drop(p.pool, all[i]));
  const trim_outcome out = p.trim();
  ASSERT_GT(out.pages_punched, 0U);
  EXPECT_EQ(p.file.fills, 0U);
  const auto again = p.put_runs(100);
  EXPECT_TRUE(p.file.holes.empty());
  p.expect_intact(again);
  EXPECT_TRUE(p.pool.check());
}

TEST(trim, leaves_an_error_where_the_device_is_full_and_what_has_blocks_may_be_used) {
  trimmed_pool p{128, 128};
  const auto all = p.put_runs(64);
  for (std::size_t i = 0; i < 64; i += 2) ASSERT_TRUE(drop(p.pool, all[i]));
  const trim_outcome out = p.trim();
  ASSERT_GT(out.pages_punched, 0U);
  p.file.full = true;
  p.pool.device_pages = p.pool.sizes().size_pages;
  EXPECT_EQ(put(p.pool, run_bytes).error(), errc::no_space);
  EXPECT_EQ(put(p.pool, 64).error(), errc::no_space) << "an extent needs a page";
  p.file.full = false;
  EXPECT_TRUE(put(p.pool, run_bytes));
  EXPECT_TRUE(p.pool.check());
}

TEST(trim, cuts_the_end_off_and_the_pool_grows_again) {
  trimmed_pool p{64, 4096};
  const auto all = p.put_runs(1000);
  const std::uint64_t size = p.pool.sizes().size_pages;
  ASSERT_GE(size, 2000U);
  // Runs come from high addresses: those that stay lie lowest.
  std::vector<std::uint64_t> sorted = all;
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::uint64_t> kept{sorted.begin(), sorted.begin() + 100};
  for (std::size_t i = 100; i < sorted.size(); ++i) ASSERT_TRUE(drop(p.pool, sorted[i]));
  const trim_outcome out = p.trim();
  EXPECT_GT(out.pages_cut, 0U);
  EXPECT_EQ(p.pool->size_pages(), size - out.pages_cut);
  EXPECT_EQ(p.pool.sizes().size_pages, p.pool->size_pages());
  EXPECT_EQ(p.pool->size_pages() % 64, 0U);
  p.expect_intact(kept);
  EXPECT_EQ(p.pool->find(sorted.back(), object_layout::raw).error(), errc::bad_pointer);
  {
    test_pool again{p.pool, 0};
    ASSERT_TRUE(again.boot(2)) << "what lanes replay is inside";
    EXPECT_EQ(again.objects(), p.pool.objects());
  }
  const auto more = p.put_runs(1500);
  EXPECT_EQ(more.size(), 1500U);
  EXPECT_GE(p.pool->size_pages(), 3200U);
  p.expect_intact(kept);
  p.expect_intact(more);
  EXPECT_EQ(p.pool.objects().size(), 1600U);
  EXPECT_TRUE(p.pool.check());
}

TEST(trim, may_be_repeated_with_growth_between) {
  trimmed_pool p{64, 8192};
  const auto kept = p.put_runs(10);
  for (unsigned round = 0; round < 6; ++round) {
    const auto some = p.put_runs(300 + 150 * round);
    for (const std::uint64_t at : some) ASSERT_TRUE(drop(p.pool, at, round % 4));
    (void)p.trim();
    EXPECT_EQ(p.pool->used_pages(), 10 * run_pages);
    p.expect_intact(kept);
    ASSERT_TRUE(p.pool.check());
  }
}

TEST(trim, goes_on_where_the_file_system_has_no_holes) {
  trimmed_pool p{256, 256};
  const auto all = p.put_runs(128);
  for (std::size_t i = 1; i < 128; i += 2) ASSERT_TRUE(drop(p.pool, all[i]));
  p.file.refuses = true;
  const trim_outcome out = p.trim();
  EXPECT_EQ(out.pages_punched, 0U);
  EXPECT_STREQ(out.why, "no holes here");
  EXPECT_EQ(p.put_runs(64).size(), 64U) << "all pages are free as before";
  EXPECT_GT(p.file.fills, 0U) << "some of them may have been holes when it failed";
}

TEST(trim, inside_only_frees_extents_and_leaves_the_file_alone) {
  trimmed_pool p{256, 256};
  std::vector<std::uint64_t> all;
  for (int i = 0; i < 2000; ++i) all.push_back(*put(p.pool, 64));
  const std::uint64_t used = p.pool->used_pages();
  for (const std::uint64_t at : all) ASSERT_TRUE(drop(p.pool, at));
  trim_wishes w;
  w.inside_only = true;
  EXPECT_EQ(p.trim(w).pages_freed, used);
  EXPECT_EQ(p.pool->used_pages(), 0U);
  EXPECT_EQ(p.file.steps, "");
}

TEST(trim, stops_when_it_is_told_to) {
  trimmed_pool p{256, 256};
  trim_wishes w;
  w.progress = [](void*, std::uint64_t, std::uint64_t) noexcept { return false; };
  const trim_outcome out = p.trim(w);
  EXPECT_TRUE(out.stopped);
  EXPECT_EQ(p.file.steps, "");
}

TEST(trim, waits_for_readers_before_anything_goes) {
  trimmed_pool p{256, 256};
  trim_wishes w;
  w.context = &p.file;
  w.readers_left = [](void* file) noexcept {
    EXPECT_TRUE(static_cast<file_of_test*>(file)->holes.empty());
    static_cast<file_of_test*>(file)->steps += 'r';
    return true;
  };
  (void)p.trim(w);
  EXPECT_LT(p.file.steps.find('r'), p.file.steps.find('s')) << p.file.steps;
  EXPECT_LT(p.file.steps.find("rh"), p.file.steps.find('p')) << p.file.steps;
}

// Extents that nobody has looked at since the pool was opened are empty: it need not grow.
TEST(growth, is_not_needed_while_empty_extents_are_not_indexed) {
  test_pool first{test_geometry(128, 4096)};
  ASSERT_TRUE(first.boot());
  std::vector<std::uint64_t> all;
  for (int i = 0; i < 1500; ++i) all.push_back(*put(first, 224));
  for (const std::uint64_t at : all) ASSERT_TRUE(drop(first, at));
  const std::uint64_t size = first.sizes().size_pages;
  test_pool again{first, 0};
  ASSERT_TRUE(again.boot());
  ASSERT_GT(again->used_pages(), size / 2);
  ASSERT_TRUE(put(again, (size - 8) * 4096)) << last_message();
  EXPECT_EQ(again.growths, 0U);
}

}  // namespace
}  // namespace nvm::testing
