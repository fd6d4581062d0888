// Method: golden images, made by the library when it wrote that format and never again, are put into files and opened.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "../direct_place.hpp"
#include "aligned_sample.h"
#include "counted_sample.h"
#include "homes_sample.h"
#include "image_text.hpp"
#include "inner_sample.h"
#include "lockfree/lockfree_layout.hpp"
#include "media/media.hpp"
#include "media/memory_device.hpp"
#include "media/replay.hpp"
#include "moved_sample.h"
#include "nvm/region.h"
#include "nvm/store.h"
#include "nvm/tier.h"
#include "pool/pool.hpp"
#include "region/region_layout.hpp"
#include "reset_sample.h"
#include "sample.h"
#include "stores_sample.h"
#include "straight_sample.h"

namespace nvm::compat {
namespace {

const std::filesystem::path images = NVM_COMPAT_IMAGES;

bytes image_named(const std::string& name) {
  std::ifstream in{images / (name + ".image")};
  const auto image = from_text({std::istreambuf_iterator<char>{in}, {}});
  EXPECT_TRUE(image) << name;
  return image.value_or(bytes{});
}

class scratch_file {
 public:
  explicit scratch_file(const bytes& content) {
    std::string name = std::filesystem::temp_directory_path().string() + "/holdfast-compat-XXXXXX";
    const int descriptor = ::mkstemp(name.data());
    path_ = name;
    const bool written = ::write(descriptor, content.data(), content.size()) == static_cast<ssize_t>(content.size());
    ::close(descriptor);
    EXPECT_TRUE(written);
  }
  ~scratch_file() { std::filesystem::remove(path_); }
  [[nodiscard]] const char* path() const { return path_.c_str(); }

 private:
  std::string path_;
};

class golden_image : public ::testing::TestWithParam<const char*> {
 protected:
  bytes image = image_named(GetParam());
  nvm_pool_options options{};

  // Their owner has written which file they were: what is in another one is a copy.
  static bool is_marked() { return std::strstr(GetParam(), "marked") != nullptr; }
  void SetUp() override {
    layout::superblock sb;
    ASSERT_GE(image.size(), sizeof sb);
    std::memcpy(&sb, image.data(), sizeof sb);
    options.medium = sb.medium;
    options.accept_copy = is_marked() ? 1 : 0;
    if (!nvm_is_durable(reinterpret_cast<void*>(sb.base_address)))
      GTEST_SKIP() << "made for another address window than this build's";
  }
};
INSTANTIATE_TEST_SUITE_P(format, golden_image, ::testing::Values("v1_shm", "v1_ssd", "v1_shm_marked", "v1_ssd_marked"),
                         [](const auto& p) { return std::string{p.param}; });

std::int64_t count_objects(NVM_POOL* pool) {
  std::int64_t objects = 0;
  nvm_pool_each(
      pool,
      [](void*, std::uint32_t, std::size_t, void* argument) {
        ++*static_cast<std::int64_t*>(argument);
        return 0;
      },
      &objects);
  return objects;
}

TEST_P(golden_image, opens_with_everything_committed_and_nothing_else) {
  const scratch_file file{image};
  NVM_POOL* pool = nvm_pool_open_with(file.path(), &options);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  EXPECT_EQ(sample_verify(pool), 0);
  EXPECT_EQ(count_objects(pool), SAMPLE_OBJECTS);
  EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_pool_check(file.path(), nullptr, nullptr, nullptr), 0) << nvm_errormsg();
}

TEST_P(golden_image, is_refused_as_a_copy_if_its_owner_has_marked_it) {
  const scratch_file file{image};
  options.accept_copy = 0;
  nvm_pool_info info{};
  ASSERT_EQ(nvm_pool_inspect(file.path(), &info), 0) << nvm_errormsg();
  EXPECT_EQ(info.copied, is_marked() ? 1U : 0U);
  NVM_POOL* pool = nvm_pool_open_with(file.path(), &options);
  EXPECT_EQ(pool == nullptr, is_marked()) << nvm_errormsg();
  if (pool == nullptr) {
    EXPECT_EQ(nvm_errno(), NVM_E_COPY);
  } else {
    EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  }
}

TEST_P(golden_image, goes_on_living) {
  const scratch_file file{image};
  for (int round = 0; round < 3; ++round) {
    NVM_POOL* pool = nvm_pool_open_with(file.path(), &options);
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    ASSERT_EQ(sample_verify(pool), 0) << round;
    ASSERT_EQ(nvm_tx_begin(pool), 0);
    for (std::size_t size = 1; size < 20000; size = size * 2 + 1) {
      void* p = nvm_calloc(pool, 77, 1, size);
      ASSERT_NE(p, nullptr) << size << ": " << nvm_errormsg();
      ASSERT_EQ(nvm_free(pool, p), 0) << nvm_errormsg();
    }
    ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
    EXPECT_EQ(count_objects(pool), SAMPLE_OBJECTS);
    ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  }
}

TEST_P(golden_image, can_be_read_without_changing_a_byte) {
  const scratch_file file{image};
  options.read_only = 1;
  NVM_POOL* pool = nvm_pool_open_with(file.path(), &options);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  EXPECT_EQ(sample_verify(pool), 0);
  EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  std::ifstream in{file.path(), std::ios::binary};
  const bytes after{std::istreambuf_iterator<char>{in}, {}};
  EXPECT_EQ(after, image);
}

// The first bytes of format 1, so that an image made again by a later library would be noticed.
TEST_P(golden_image, is_of_format_1) {
  static const unsigned char begin[16] = {'H', 'O', 'L', 'D', 'F', 'A', 'S', 'T', 1, 0, 0, 0, 0, 2, 0, 0};
  EXPECT_TRUE(std::equal(begin, begin + sizeof begin, image.begin()));
}

// Stores of the first version have no checksums; they are used as they are, beside new ones that have them.
TEST(stores_of_version_1, are_read_and_written_as_they_are) {
  const bytes image = image_named("v1_stores");
  layout::superblock sb;
  ASSERT_GE(image.size(), sizeof sb);
  std::memcpy(&sb, image.data(), sizeof sb);
  if (!nvm_is_durable(reinterpret_cast<void*>(sb.base_address)))
    GTEST_SKIP() << "made for another address window than this build's";
  const scratch_file file{image};
  nvm_pool_options options{};
  options.medium = sb.medium;
  for (int round = 0; round < 2; ++round) {
    NVM_POOL* pool = nvm_pool_open_with(file.path(), &options);
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    EXPECT_EQ(stores_sample_verify(pool), 0);
    nvm_kv* old = nvm_kv_open(pool, "a hash table", nullptr);
    ASSERT_NE(old, nullptr) << nvm_errormsg();
    EXPECT_EQ(nvm_kv_has_checksums(old), 0);
    // Changed in place, moved, and put back.
    EXPECT_EQ(nvm_kv_put(old, "another", 7, "short", 5), 0) << nvm_errormsg();
    EXPECT_EQ(nvm_kv_put(old, "another", 7, std::string(5000, 'x').data(), 5000), 0) << nvm_errormsg();
    EXPECT_EQ(nvm_kv_remove(old, "another", 7), 1) << nvm_errormsg();
    EXPECT_EQ(nvm_kv_close(old), 0);
    nvm_kv* made = nvm_kv_open(pool, "made now", nullptr);
    ASSERT_NE(made, nullptr) << nvm_errormsg();
    EXPECT_EQ(nvm_kv_has_checksums(made), 1);
    EXPECT_EQ(nvm_kv_put(made, "k", 1, "v", 1), 0) << nvm_errormsg();
    EXPECT_EQ(nvm_kv_close(made), 0);
    EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    EXPECT_EQ(nvm_pool_check(file.path(), nullptr, nullptr, nullptr), 0) << nvm_errormsg();
  }
}

// Names, rights, quotas, clusters, and key-value stores in them.
TEST(object_stores, of_a_killed_process_are_there_and_keep_older_libraries_out) {
  const bytes image = image_named("v1_homes");
  layout::superblock sb;
  ASSERT_GE(image.size(), sizeof sb);
  std::memcpy(&sb, image.data(), sizeof sb);
  EXPECT_NE(sb.features_incompat & layout::feature_stores, 0U);
  EXPECT_NE(sb.features_incompat & layout::feature_store_kv, 0U);
  if (!nvm_is_durable(reinterpret_cast<void*>(sb.base_address)))
    GTEST_SKIP() << "made for another address window than this build's";
  const scratch_file file{image};
  nvm_pool_options options{};
  options.medium = sb.medium;
  options.accept_copy = 1;
  for (int round = 0; round < 2; ++round) {
    NVM_POOL* pool = nvm_pool_open_with(file.path(), &options);
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    EXPECT_EQ(homes_sample_verify(pool), 0);
    if (round == 0) {
      EXPECT_EQ(nvm_store_create(pool, "made now", nullptr), 0) << nvm_errormsg();
    }
    EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    EXPECT_EQ(nvm_pool_check(file.path(), nullptr, nullptr, nullptr), 0) << nvm_errormsg();
  }
}

// Fields that are zero after each open, all of which the process had stored to.
TEST(reset_fields, of_a_killed_process_are_zero_and_keep_older_libraries_out) {
  const bytes image = image_named("v1_resets");
  layout::superblock sb;
  ASSERT_GE(image.size(), sizeof sb);
  std::memcpy(&sb, image.data(), sizeof sb);
  EXPECT_EQ(sb.features_incompat & layout::feature_reset, 8192U);
  constexpr unsigned char hits[] = {'S', 'T', 'I', 'H'};
  EXPECT_NE(std::search(image.begin(), image.end(), std::begin(hits), std::end(hits)), image.end());
  if (!nvm_is_durable(reinterpret_cast<void*>(sb.base_address)))
    GTEST_SKIP() << "made for another address window than this build's";
  const scratch_file file{image};
  nvm_pool_options options{};
  options.medium = sb.medium;
  options.accept_copy = 1;
  for (int round = 0; round < 3; ++round) {
    options.read_only = round == 0 ? 1 : 0;
    NVM_POOL* pool = nvm_pool_open_with(file.path(), &options);
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    EXPECT_EQ(reset_sample_verify(pool), 0);
    EXPECT_EQ(reset_sample_use(pool), 0);
    EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    if (options.read_only != 0) continue;  // the file is a copy until its owner opens it for change
    EXPECT_EQ(nvm_pool_check(file.path(), nullptr, nullptr, nullptr), 0) << nvm_errormsg();
  }
}

// Of each kind; the process was killed with the store attached.
TEST(structures_in_stores, of_a_killed_process_are_there_and_keep_older_libraries_out) {
  const bytes image = image_named("v1_inner");
  layout::superblock sb;
  ASSERT_GE(image.size(), sizeof sb);
  std::memcpy(&sb, image.data(), sizeof sb);
  EXPECT_NE(sb.features_incompat & layout::feature_store_structures, 0U);
  if (!nvm_is_durable(reinterpret_cast<void*>(sb.base_address)))
    GTEST_SKIP() << "made for another address window than this build's";
  const scratch_file file{image};
  nvm_pool_options options{};
  options.medium = sb.medium;
  options.accept_copy = 1;
  for (int round = 0; round < 2; ++round) {
    NVM_POOL* pool = nvm_pool_open_with(file.path(), &options);
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    EXPECT_EQ(inner_sample_verify(pool), 0) << nvm_errormsg();
    EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    EXPECT_EQ(nvm_pool_check(file.path(), nullptr, nullptr, nullptr), 0) << nvm_errormsg();
  }
}

TEST(aligned_objects, of_a_killed_process_are_there_and_keep_older_libraries_out) {
  const bytes image = image_named("v1_aligned");
  layout::superblock sb;
  ASSERT_GE(image.size(), sizeof sb);
  std::memcpy(&sb, image.data(), sizeof sb);
  EXPECT_NE(sb.features_incompat & layout::feature_aligned, 0U);
  if (!nvm_is_durable(reinterpret_cast<void*>(sb.base_address)))
    GTEST_SKIP() << "made for another address window than this build's";
  const scratch_file file{image};
  nvm_pool_options options{};
  options.medium = sb.medium;
  options.accept_copy = 1;
  for (int round = 0; round < 2; ++round) {
    NVM_POOL* pool = nvm_pool_open_with(file.path(), &options);
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    EXPECT_EQ(aligned_sample_verify(pool), 0);
    ASSERT_EQ(nvm_tx_begin(pool), 0);
    EXPECT_NE(nvm_alloc_aligned(pool, 7, 30, 128), nullptr) << nvm_errormsg();
    EXPECT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
    EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    EXPECT_EQ(nvm_pool_check(file.path(), nullptr, nullptr, nullptr), 0) << nvm_errormsg();
  }
}

// Pools that were closed, opened and closed again.
class counted_pool : public ::testing::Test {
 protected:
  bytes image;
  geometry shape;

  // False: skipped.
  [[nodiscard]] bool load(const char* name) {
    image = image_named(name);
    layout::superblock sb;
    if (image.size() < sizeof sb) return false;
    std::memcpy(&sb, image.data(), sizeof sb);
    options_.medium = sb.medium;
    shape = geometry_of(sb);
    return nvm_is_durable(reinterpret_cast<void*>(sb.base_address)) != 0;
  }
  [[nodiscard]] const std::byte* base() const { return reinterpret_cast<const std::byte*>(image.data()); }
  // The image is then what the last close has left.
  template <class Use>
  void use_twice(Use&& use) {
    const scratch_file file{image};
    for (int round = 0; round < 2; ++round) {
      NVM_POOL* pool = nvm_pool_open_with(file.path(), &options_);
      ASSERT_NE(pool, nullptr) << nvm_errormsg();
      use(pool);
      EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
      EXPECT_EQ(nvm_pool_check(file.path(), nullptr, nullptr, nullptr), 0) << nvm_errormsg();
    }
    std::ifstream in{file.path(), std::ios::binary};
    image.assign(std::istreambuf_iterator<char>{in}, {});
  }
  [[nodiscard]] const region::layout::set_entry& first_set() const {
    const auto at = read_anchor_word(base(), shape, anchor_word::regions);
    return reinterpret_cast<const region::layout::directory*>(base() + (at ? *at : 0))->entries[0];
  }

  nvm_pool_options options_{};
};

TEST_F(counted_pool, has_structures_whose_number_of_entries_is_known) {
  if (!load("v1_structures")) GTEST_SKIP() << "made for another address window than this build's";
  namespace lf = lockfree::layout;
  const auto entries = [this] {
    const auto at = read_anchor_word(base(), shape, anchor_word::lockfree);
    return reinterpret_cast<const lf::directory*>(base() + (at ? *at : 0))->entries;
  };
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ((entries()[i].state & checked_mask) >> 24, lf::entry_version_tally) << i;
    EXPECT_NE(entries()[i].flags & lf::entry_tally, 0U) << i;
    EXPECT_EQ(entries()[i].tally & checked_mask, 30U) << i;
  }
  use_twice([](NVM_POOL* pool) { EXPECT_EQ(counted_sample_verify_structures(pool), 0); });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(entries()[i].tally & checked_mask, 30U) << i;
}

TEST_F(counted_pool, has_no_numbers_of_regions_where_the_library_before_made_the_set) {
  if (!load("v1_regions")) GTEST_SKIP() << "made for another address window than this build's";
  EXPECT_EQ(first_set().state & checked_mask, region::layout::set_plain);
  use_twice([](NVM_POOL* pool) {
    EXPECT_EQ(counted_sample_verify_regions(pool), 0);
    nvm_regions* set = nvm_regions_open(pool, "a set", nullptr);
    ASSERT_NE(set, nullptr) << nvm_errormsg();
    EXPECT_EQ(nvm_region_create(set, 100, 50), 0) << nvm_errormsg();
    EXPECT_EQ(nvm_region_drop(set, 100), 0) << nvm_errormsg();
  });
  EXPECT_EQ(first_set().state & checked_mask, region::layout::set_plain);
  EXPECT_EQ(first_set().regions | first_set().partners, 0U);
}

TEST_F(counted_pool, has_sets_whose_number_of_regions_is_known) {
  if (!load("v1_regions_counted")) GTEST_SKIP() << "made for another address window than this build's";
  const auto expect_counted = [this] {
    EXPECT_EQ(first_set().state & checked_mask, region::layout::set_counted);
    EXPECT_EQ(first_set().regions & checked_mask, 12U + 1);
    EXPECT_EQ(first_set().partners & checked_mask, 2U + 1);
  };
  expect_counted();
  use_twice([](NVM_POOL* pool) { EXPECT_EQ(counted_sample_verify_regions(pool), 0); });
  expect_counted();
}

TEST_F(counted_pool, has_sets_whose_table_is_saved) {
  if (!load("v1_regions_saved")) GTEST_SKIP() << "made for another address window than this build's";
  EXPECT_EQ(first_set().state & checked_mask, region::layout::set_saved);
  EXPECT_EQ(first_set().regions & checked_mask, 12U + 1);
  const std::uint64_t table = first_set().saved & checked_mask;
  EXPECT_NE(table, 0U);
  use_twice([](NVM_POOL* pool) { EXPECT_EQ(counted_sample_verify_regions(pool), 0); });
  EXPECT_EQ(first_set().saved & checked_mask, table) << "nobody has changed the set";
  use_twice([](NVM_POOL* pool) {
    nvm_regions* set = nvm_regions_open(pool, "a set", nullptr);
    ASSERT_NE(set, nullptr) << nvm_errormsg();
    EXPECT_EQ(nvm_region_create(set, 100, 50), 0) << nvm_errormsg();
    EXPECT_EQ(counted_sample_verify_regions(pool), 0);
    EXPECT_EQ(nvm_region_drop(set, 100), 0) << nvm_errormsg();
  });
  EXPECT_EQ(first_set().saved & checked_mask, 0U) << "of so few the close saves none";
}

// A pool on ssd that was killed: values have gone straight to their pages, and the records that say so are in its log.
TEST_F(counted_pool, has_values_that_have_gone_straight_to_their_pages) {
  if (!load("v1_straight")) GTEST_SKIP() << "made for another address window than this build's";
  layout::superblock sb;
  std::memcpy(&sb, image.data(), sizeof sb);
  ring_identity ring{.place = {sb.log_offset, sb.log_bytes}};
  std::memcpy(ring.uuid, sb.uuid, sizeof ring.uuid);
  memory_device device{{base(), base() + image.size()}};
  const auto run = read_log(device, ring);
  ASSERT_TRUE(run) << last_message();
  unsigned straight = 0;
  for (std::size_t at = 0; at < run->bytes.size();) {
    layout::ring_record record;
    std::memcpy(&record, &run->bytes[at], sizeof record);
    const std::size_t bytes = record.units * layout::ring_unit;
    EXPECT_TRUE(each_entry(
        {&run->bytes[at], bytes}, ring.place, image.size(),
        [](std::uint64_t, const std::byte*, std::size_t) noexcept -> status { return {}; },
        [&](std::uint64_t, std::uint64_t, const auto&) noexcept -> status {
          ++straight;
          return {};
        }));
    at += bytes;
  }
  EXPECT_GE(straight, 4U);
  options_.accept_copy = 1;
  use_twice([](NVM_POOL* pool) { EXPECT_EQ(straight_sample_verify(pool), 0); });
  std::memcpy(&sb, image.data(), sizeof sb);
  EXPECT_NE(sb.features_incompat & layout::feature_straight, 0U);
}

// Pools that a relocation has left halfway: the next open finishes it, at whatever address.
class half_moved_pool : public ::testing::TestWithParam<const char*> {};
TEST_P(half_moved_pool, is_finished_by_the_next_open) {
  const bytes image = image_named(GetParam());
  layout::superblock sb;
  ASSERT_GE(image.size(), sizeof sb);
  std::memcpy(&sb, image.data(), sizeof sb);
  EXPECT_NE(sb.features_incompat & layout::feature_bases, 0U);
  EXPECT_EQ((sb.features_incompat & layout::feature_numbers) != 0, std::string{GetParam()} == "v1_numbered");
  if (!nvm_is_durable(reinterpret_cast<void*>(sb.base_address)))
    GTEST_SKIP() << "made for another address window than this build's";
  const scratch_file file{image};
  EXPECT_EQ(nvm_pool_check(file.path(), nullptr, nullptr, nullptr), 0) << nvm_errormsg();
  nvm_pool_options options{};
  options.medium = sb.medium;
  for (const std::uint64_t address : {std::uint64_t{0}, sb.base_address + (std::uint64_t{1} << 37)}) {
    options.address = address;
    NVM_POOL* pool = nvm_pool_open_with(file.path(), &options);
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    EXPECT_EQ(moved_sample_verify(pool), 0);
    nvm_relocation_report done{};
    EXPECT_EQ(nvm_pool_get_relocation(pool, &done), 0);
    EXPECT_EQ(done.pointers, 2U * MOVED_SAMPLE_NODES - 1);
    EXPECT_EQ(done.foreign, 0U);
    EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    EXPECT_EQ(nvm_pool_check(file.path(), nullptr, nullptr, nullptr), 0) << nvm_errormsg();
  }
}
INSTANTIATE_TEST_SUITE_P(format, half_moved_pool, ::testing::Values("v1_moved", "v1_numbered"),
                         [](const auto& p) { return std::string{p.param}; });

TEST(image_text, gives_back_what_it_was_made_of) {
  bytes image(100001);
  for (std::size_t i = 0; i < image.size(); i += 777) image[i] = static_cast<unsigned char>(i);
  image.back() = 1;
  EXPECT_EQ(from_text(to_text(image)), image);
  EXPECT_EQ(from_text(to_text({})), bytes{});
}

TEST(image_text, refuses_what_is_no_image) {
  for (const char* text : {"", "x", "holdfast image, 64 bytes\n0 123", "holdfast image, 64 bytes\n40 11",
                           "holdfast image, 64 bytes\n0 zz", "holdfast image, 99999999999 bytes\n"})
    EXPECT_FALSE(from_text(text)) << text;
}

// A pool of which all pages are in its second file, of a process that was killed.  Pages of zeros are holes again.
TEST(tiered_image, opens_with_its_second_file_and_everything_committed) {
  const std::string folder =
      std::string{tests::direct_folder()} + "/holdfast-compat-tier-" + std::to_string(::getpid());
  std::filesystem::create_directory(folder);
  const std::string pool_path = folder + "/pool", second = folder + "/pool.tier";
  const auto write_sparse = [](const std::string& path, const bytes& image) {
    std::ofstream out{path, std::ios::binary};
    constexpr std::size_t page = 4096;
    for (std::size_t at = 0; at < image.size(); at += page) {
      const std::size_t n = std::min(page, image.size() - at);
      if (std::all_of(&image[at], &image[at] + n, [](unsigned char b) { return b == 0; })) continue;
      out.seekp(static_cast<std::streamoff>(at));
      out.write(reinterpret_cast<const char*>(&image[at]), static_cast<std::streamsize>(n));
    }
    out.close();
    std::filesystem::resize_file(path, image.size());
    std::filesystem::permissions(path, std::filesystem::perms{0600});
  };
  const bytes image = image_named("v1_tiered");
  write_sparse(pool_path, image);
  write_sparse(second, image_named("v1_tiered_second"));
  layout::superblock sb;
  std::memcpy(&sb, image.data(), sizeof sb);
  EXPECT_NE(sb.features_incompat & layout::feature_tier, 0U);
  nvm_tier_options t{};
  t.path = second.c_str();
  nvm_pool_options o{};
  o.medium = NVM_MEDIUM_SHM;
  o.accept_copy = 1;
  o.tier = &t;
  NVM_POOL* pool = nvm_pool_open_with(pool_path.c_str(), &o);
  const std::string why = pool == nullptr ? nvm_errormsg() : "";
  if (pool != nullptr) {
    EXPECT_EQ(sample_verify(pool), 0);
    EXPECT_EQ(count_objects(pool), SAMPLE_OBJECTS);
    nvm_tier_statistics s{};
    EXPECT_EQ(nvm_tier_get_statistics(pool, &s), 0) << nvm_errormsg();
    EXPECT_GT(s.pages_in, 0U);
    EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    EXPECT_EQ(nvm_pool_check(pool_path.c_str(), nullptr, nullptr, nullptr), 0) << nvm_errormsg();
  }
  std::filesystem::remove_all(folder);
  if (pool == nullptr && (why.find("userfaultfd") != std::string::npos || why.find("window") != std::string::npos)) {
    GTEST_SKIP() << why;
  }
  EXPECT_EQ(why, "");
}

}  // namespace
}  // namespace nvm::compat
