// Where logs end: of a record, of a segment, of memory and of the numbers of versions; and what stays good when one is
// refused.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "pool_image.hpp"

namespace nvm::tests {
namespace {

// ---- lanes of the undo engine ---------------------------------------------------------------------------------------

class full_lanes : public testing::Test {
 protected:
  static constexpr auto no_segment = [](std::uint64_t, bool) -> result<log::segment> {
    return fail(errc::no_space, "no segment");
  };
  static constexpr auto nothing = [](std::uint64_t, std::uint64_t, const std::byte*) {};

  full_lanes() {
    format_image(bytes_.data(), superblock_);
    lanes_.start(0, 0, 0);
    EXPECT_TRUE(lanes_.furnish(0));
    std::memset(bytes_.data() + g_.data_offset, 1, 8192);
  }
  tx::recovery_report recover() {
    tx::recovery_report report;
    const status s =
        tx::recover(media_, bytes_.data(), g_, key_, report, [](unsigned, std::uint64_t, std::uint32_t) {});
    EXPECT_TRUE(s) << last_message();
    return report;
  }

  layout::superblock superblock_ = superblock_for({.lanes = 2}, false);
  geometry g_ = geometry_of(superblock_);
  std::uint64_t key_ = tx::pool_key(superblock_.uuid);
  buffer bytes_{g_.capacity_bytes()};
  ordered_media media_;
  log::lanes<ordered_media> lanes_{media_, bytes_.data(), g_, key_, 2};
};

TEST_F(full_lanes, keep_what_they_have_where_there_is_no_segment) {
  // One range after the other, as small as they can be, until the lane has no room.
  const auto announce = [&](std::uint64_t offset) {
    const log::byte_range r{offset, 8};
    return lanes_.append_undo(0, &r, 1, nothing, no_segment);
  };
  std::uint64_t n = 0;
  for (; announce(g_.data_offset + 8 * n); ++n) {
    std::memset(bytes_.data() + g_.data_offset + 8 * n, 2, 8);
    ASSERT_LT(n, g_.lane_bytes / line_bytes);
  }
  EXPECT_EQ(last_code(), errc::no_space);
  // But for the link and its rounding, all of the lane was used.
  EXPECT_EQ(n, (g_.lane_bytes - layout::lane_body_at) / line_bytes - 1);
  EXPECT_EQ(recover().rolled_back, 1U);
  for (std::uint64_t i = 0; i < 8 * (n + 1); ++i) ASSERT_EQ(bytes_.data()[g_.data_offset + i], std::byte{1}) << i;
}

TEST_F(full_lanes, refuse_intents_that_fit_no_record_and_no_segment) {
  const std::vector<std::uint64_t> words(g_.lane_bytes / 8);
  const status large = lanes_.append_intents(0, words.data(), layout::record_bytes_max / 8, no_segment);
  EXPECT_EQ(large.error(), errc::too_large);
  EXPECT_NE(std::string{last_message()}.find("words of allocation changes: at most"), std::string::npos);
  EXPECT_EQ(lanes_.append_intents(0, words.data(), words.size(), no_segment).error(), errc::no_space);
  EXPECT_FALSE(lanes_.has_records(0));
  EXPECT_TRUE(lanes_.append_intents(0, words.data(), 100, no_segment)) << last_message();
  EXPECT_TRUE(lanes_.has_records(0));
}

TEST(records, end_where_their_log_does) {
  alignas(line_bytes) std::byte bytes[4 * line_bytes] = {};
  auto* const lane = reinterpret_cast<layout::record_header*>(bytes);
  *lane = {.checksum = 0, .generation = 3, .previous = 0, .bytes = 40, .kind = 2, .count = 0};
  lane->checksum = log::seal(bytes, 0, 40, 3, 9);
  EXPECT_EQ(log::record_at(bytes, 0, 40, 3, 9), lane);
  for (const std::uint64_t end : {0, 8, 31, 32, 39}) EXPECT_EQ(log::record_at(bytes, 0, end, 3, 9), nullptr) << end;
  EXPECT_EQ(log::record_at(bytes, 128, 64, 3, 9), nullptr) << "it begins behind the end";

  auto* const ring = reinterpret_cast<layout::redo_record*>(bytes);
  *ring = {.proof = 0, .version = 3, .bytes = 40, .kind_and_intents = 1};
  const auto how = log::validation::checksum;
  ring->proof = log::redo_proof(ring, 0, 9, 1, how);
  EXPECT_EQ(log::redo_record_at(bytes, 0, 40, 9, 1, how), ring);
  for (const std::uint64_t end : {0, 8, 23, 24, 39}) {
    EXPECT_EQ(log::redo_record_at(bytes, 0, end, 9, 1, how), nullptr) << end;
  }
  EXPECT_EQ(log::redo_record_at(bytes, 128, 64, 9, 1, how), nullptr) << "it begins behind the end";
}

// ---- records of a commit --------------------------------------------------------------------------------------------

TEST(record_stage, begins_another_range_where_one_would_be_too_long) {
  constexpr std::uint64_t longest = layout::redo_range_bytes_max;
  const std::vector<std::byte> from(longest, std::byte{5});
  log::record_stage stage;
  stage.begin();
  stage.range(4096, from.data(), longest - 8);
  stage.range(4096 + longest - 8, from.data(), 8);  // the last that fits
  stage.range(4096 + longest, from.data(), 8);
  stage.range(4096 + longest + 8, from.data(), 8);
  ASSERT_TRUE(stage.whole());
  std::vector<std::pair<std::uint64_t, std::uint64_t>> found;
  const log::redo_contents c{nullptr, 0, stage.contents(), stage.contents_bytes()};
  EXPECT_TRUE(log::each_redo_range(c, [&](std::uint64_t offset, std::uint64_t bytes, const std::byte* data) {
    found.emplace_back(offset, bytes);
    return std::memcmp(data, from.data(), bytes) == 0;
  }));
  EXPECT_EQ(found, (std::vector<std::pair<std::uint64_t, std::uint64_t>>{{4096, longest}, {4096 + longest, 16}}));
}

// ---- the redo log ---------------------------------------------------------------------------------------------------

std::uint64_t log_time = 0;
std::function<void()> behind_now;  // what happens when the clock has been read
std::uint64_t read_log_time() noexcept {
  const std::uint64_t read = log_time;
  if (const auto happens = std::exchange(behind_now, nullptr)) happens();
  return read;
}

class redo_limits : public testing::Test {
 protected:
  void start(std::uint64_t used) {
    format_image(bytes_.data(), superblock_);
    log_time = 0;
    log_.start(used, read_log_time);
    log_.on_release([this](std::uint64_t offset) { released_.push_back(offset); });
    for (unsigned lane = 0; lane < 2; ++lane) ASSERT_TRUE(log_.furnish(lane));
  }
  // Steps of a commit of an empty record that says it changes these lines.
  status append(unsigned lane, const std::vector<std::uint64_t>& lines, bool log_run) {
    log_.stage(lane).begin();
    if (status s = log_.make_room(lane, 0); !s) return s;
    if (status s = log_.expect(lane, lines.size(), log_run); !s) return s;
    log_.enter(lane);
    version_ = log_.version_of(++log_time);
    log_.note(lane, [&](auto&& note) {
      for (const std::uint64_t line : lines) note(line);
    });
    return log_.append(lane, version_, layout::redo_kind::changes, 0);
  }
  void commit(unsigned lane, const std::vector<std::uint64_t>& lines, std::uint64_t run) {
    ASSERT_TRUE(append(lane, lines, run != 0)) << last_message();
    log_.applied(lane, version_, run, [&](auto&& note) {
      for (const std::uint64_t line : lines) note(line);
    });
  }

  layout::superblock superblock_ = superblock_for({.lanes = 2}, false);
  geometry g_ = geometry_of(superblock_);
  buffer bytes_{g_.capacity_bytes()};
  ordered_media media_;
  log::redo_log<ordered_media> log_{
      media_, bytes_.data(), g_, tx::pool_key(superblock_.uuid), 2, log::validation::checksum};
  std::uint64_t version_ = 0;
  std::vector<std::uint64_t> released_;
};

TEST_F(redo_limits, the_last_version_is_told_and_what_was_noted_is_still_written_back) {
  start(layout::version_max - layout::version_step);
  EXPECT_EQ(append(0, {200, 201}, false).error(), errc::too_large);
  EXPECT_NE(std::string{last_message()}.find("the pool's log cannot count further"), std::string::npos);
  log_.leave_commit(0);
  log_.truncate();
  EXPECT_EQ(log_.statistics().home_lines, 2U);
  // Nothing of it counts.
  const tx::pool_targets targets{bytes_.data(), g_};
  log::redo_reader reader{bytes_.data(), g_, tx::pool_key(superblock_.uuid), log::validation::checksum, targets};
  ASSERT_TRUE(reader.validate()) << last_message();
  EXPECT_EQ(reader.report().records, 0U);
  EXPECT_EQ(reader.report().truncated, layout::version_max - layout::version_step + 1);
}

TEST_F(redo_limits, a_log_run_is_given_back_when_its_record_counts_no_more) {
  start(0);
  commit(0, {100}, 4096);
  commit(0, {101}, 0);
  EXPECT_TRUE(released_.empty());
  log_.truncate();
  EXPECT_EQ(released_, std::vector<std::uint64_t>{4096});
  log_.truncate();
  EXPECT_EQ(released_.size(), 1U);
}

TEST_F(redo_limits, a_truncation_keeps_the_log_run_of_a_commit_that_came_behind_its_version) {
  start(0);
  commit(0, {100}, 4096);
  behind_now = [&] { commit(1, {200}, 8192); };
  log_.truncate();
  EXPECT_EQ(released_, std::vector<std::uint64_t>{4096});
  EXPECT_LT(log_.truncated(), version_);
  log_.truncate();
  EXPECT_EQ(released_, (std::vector<std::uint64_t>{4096, 8192}));
  EXPECT_GE(log_.truncated(), version_);
}

}  // namespace
}  // namespace nvm::tests
