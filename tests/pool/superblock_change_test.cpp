// Method: a medium in memory that keeps what is durable apart from what was stored.  Before each fence it crashes:
// every word that changed since is old or new, by prefixes of each line, alone and all at once, and at random.
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "nvm/nvm.h"
#include "pool/superblock.hpp"

namespace nvm {
namespace {

using layout::superblock;

class crashing_media {
 public:
  static constexpr bool atomic_batches = false;
  struct batch {
    void add(const void*, std::size_t) noexcept {}
    void clear() noexcept {}
  };

  crashing_media(std::vector<std::byte>& live, std::function<void(const std::vector<std::byte>&)> check,
                 std::string left_out)
      : live_{live}, durable_{live}, check_{std::move(check)}, left_out_{std::move(left_out)} {}

  void flush(const void* p, std::size_t bytes, site = site::here()) noexcept {
    const auto first = static_cast<std::size_t>(static_cast<const std::byte*>(p) - live_.data());
    for (std::size_t line = first / line_bytes; line * line_bytes < first + bytes; ++line) flushed_.insert(line);
  }
  void fence(edge e) noexcept {
    crash_here();
    if (left_out_ == e.name) return;
    for (const std::size_t line : flushed_) copy(durable_, live_, line * line_bytes, line_bytes);
    flushed_.clear();
  }
  [[nodiscard]] lsn_t last_lsn() noexcept { return 0; }
  status durable(lsn_t) noexcept { return {}; }

  void crash_here() {
    std::vector<std::size_t> words;  // offsets of words that may be old or new
    for (std::size_t at = 0; at < live_.size(); at += 8) {
      if (std::memcmp(&live_[at], &durable_[at], 8) != 0) words.push_back(at);
    }
    const auto state = [&](const std::function<bool(std::size_t)>& is_new) {
      std::vector<std::byte> image = durable_;
      for (std::size_t k = 0; k < words.size(); ++k) {
        if (is_new(k)) copy(image, live_, words[k], 8);
      }
      check_(image);
    };
    for (std::size_t cut = 0; cut <= words.size(); ++cut) {
      state([&](std::size_t k) { return k < cut; });
      state([&](std::size_t k) { return k >= cut; });
      state([&](std::size_t k) { return k == cut; });
      state([&](std::size_t k) { return k != cut; });
    }
    for (unsigned round = 0; round < 200; ++round) {
      const std::uint64_t choice = random_();
      state([&](std::size_t k) { return (choice >> k % 64 & 1) != 0; });
    }
  }

 private:
  static void copy(std::vector<std::byte>& to, const std::vector<std::byte>& from, std::size_t at, std::size_t bytes) {
    std::memcpy(&to[at], &from[at], bytes);
  }

  std::vector<std::byte>& live_;
  std::vector<std::byte> durable_;
  std::set<std::size_t> flushed_;
  std::function<void(const std::vector<std::byte>&)> check_;
  std::string left_out_;
  std::mt19937_64 random_{20240607};
};
static_assert(media<crashing_media>);

// Grows a pool twice, with a feature added in between; counts the crash states that do not open as the pool of one of
// the adjacent sizes, with the features that it had before or has now.
std::size_t violations(const std::string& left_out) {
  superblock_request r;
  r.shape.page_shift = 10;
  r.shape.size_pages = 64;
  r.shape.capacity_pages = 256;
  r.shape.lane_count = 1;
  r.shape.lane_bytes = 1024;
  r.medium = NVM_MEDIUM_DAX;
  r.uuid[0] = 1;
  auto made = make_superblock(r);
  EXPECT_TRUE(made) << last_message();
  superblock sb = *made;
  std::vector<std::byte> image(2048);
  format_image(image.data(), sb);
  const std::uint64_t file_bytes = geometry_of(sb).capacity_bytes();

  std::uint64_t before = 64;
  std::uint64_t after = 64;
  std::uint32_t features_before = sb.features_incompat;
  std::uint32_t features_after = features_before;
  std::uint32_t compatible_before = sb.features_compat;
  std::uint32_t compatible_after = compatible_before;
  std::size_t states = 0;
  std::size_t bad = 0;
  crashing_media m{image,
                   [&](const std::vector<std::byte>& crashed) {
                     ++states;
                     const auto found = pick_superblock(crashed.data(), crashed.size(), file_bytes);
                     const bool is_one =
                         found && (found->size_pages == before || found->size_pages == after) &&
                         (found->features_incompat == features_before || found->features_incompat == features_after) &&
                         (found->features_compat == compatible_before || found->features_compat == compatible_after);
                     if (!is_one) ++bad;
                   },
                   left_out};
  for (const std::uint64_t size : {128U, 256U}) {
    after = size;
    sb.size_pages = size;
    write_superblock(m, image.data(), sb);
    before = size;
    m.crash_here();  // the change is durable when the call returns
    features_after = features_before | layout::feature_aligned;
    sb.features_incompat = features_after;
    write_superblock(m, image.data(), sb);
    features_before = features_after;
    m.crash_here();
    compatible_after = compatible_before | layout::feature_untyped_bytes;
    sb.features_compat = compatible_after;
    write_superblock(m, image.data(), sb);
    compatible_before = compatible_after;
    m.crash_here();
  }
  EXPECT_GT(states, 1000U);
  return bad;
}

TEST(superblock_change, is_all_or_nothing_for_a_crash_at_any_word) { EXPECT_EQ(violations(""), 0U); }

TEST(superblock_change, tears_both_copies_without_fence_E1) { EXPECT_GT(violations("pool/E1"), 0U); }

TEST(superblock_change, tears_both_copies_of_the_next_change_without_fence_E2) { EXPECT_GT(violations("pool/E2"), 0U); }

TEST(superblock_change, leaves_two_copies_that_say_the_same) {
  superblock_request r;
  r.shape.size_pages = 64;
  r.shape.capacity_pages = 128;
  r.shape.ring_bytes = 65536;
  r.medium = NVM_MEDIUM_SSD;
  r.uuid[3] = 9;
  auto made = make_superblock(r);
  ASSERT_TRUE(made) << last_message();
  superblock sb = *made;
  std::vector<std::byte> image(8192);
  format_image(image.data(), sb);
  crashing_media m{image, [](const std::vector<std::byte>&) {}, ""};
  sb.size_pages = 128;
  write_superblock(m, image.data(), sb);
  for (unsigned copy = 0; copy < 2; ++copy) {
    superblock found;
    std::memcpy(&found, image.data() + geometry_of(sb).superblock_at(copy), sizeof found);
    EXPECT_EQ(found.size_pages, 128U);
    EXPECT_EQ(found.crc, superblock_crc(found));
    EXPECT_EQ(superblock_copy_of(found.sequence), copy);
  }
}

}  // namespace
}  // namespace nvm
