// Checks of rings by recovery of the redo engine: images that a crash left are edited, one field each with its checksum
// made good, and recovery refuses them with a message that names the fault, or restores the required state.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "pool_image.hpp"
#include "recovery_outcome.hpp"

namespace nvm::tests {
namespace {

using log::intent;
using log::intent_op;

std::uint64_t now = 0;
std::uint64_t read_now() noexcept { return now; }

// Rings with records that were made durable, and of which nothing is home.
class hostile_rings : public testing::Test {
 protected:
  using log_type = log::redo_log<ordered_media>;

  explicit hostile_rings(log::validation how = log::validation::checksum)
      : how_{how}, log_{media_, bytes_.data(), g_, key_, 2, how} {
    format_image(bytes_.data(), superblock_);
    now = 0;
    log_.start(0, read_now);
  }
  template <class T>
  [[nodiscard]] T& at(std::uint64_t offset) noexcept {
    return *reinterpret_cast<T*>(bytes_.data() + offset);
  }
  [[nodiscard]] std::uint64_t lane_at(unsigned i) const noexcept { return g_.log_offset + i * g_.lane_bytes; }
  // The n-th line of a lane's ring.
  [[nodiscard]] std::uint64_t line_at(unsigned lane, unsigned n = 0) const noexcept {
    return lane_at(lane) + layout::redo_ring_at + n * line_bytes;
  }
  // Where tests store.
  [[nodiscard]] std::uint64_t target(unsigned n) const noexcept { return g_.data_offset + n * line_bytes; }
  static void put(log::record_stage& s, std::uint64_t offset, std::uint64_t value) {
    s.range(offset, reinterpret_cast<const std::byte*>(&value), 8);
  }

  // A record as a commit makes it; returns its place.
  std::uint64_t append(unsigned lane, std::uint64_t version, layout::redo_kind kind,
                       const std::function<void(log::record_stage&)>& fill) {
    EXPECT_TRUE(log_.furnish(lane));
    log::record_stage& stage = log_.stage(lane);
    stage.begin();
    fill(stage);
    EXPECT_TRUE(log_.make_room(lane, stage.contents_bytes())) << last_message();
    const std::uint64_t place = line_at(lane) + used_[lane];
    used_[lane] += round_up(stage.record_bytes(), line_bytes);
    EXPECT_TRUE(log_.append(lane, version, kind, 0)) << last_message();
    EXPECT_EQ(at<layout::redo_record>(place).version, version);
    return place;
  }
  std::uint64_t store(unsigned lane, std::uint64_t version, std::uint64_t offset, std::uint64_t value) {
    return append(lane, version, layout::redo_kind::changes, [&](log::record_stage& s) { put(s, offset, value); });
  }
  // The same by a record in a log run at `page`.
  std::uint64_t store_elsewhere(unsigned lane, std::uint64_t version, std::uint64_t page, std::uint64_t offset,
                                std::uint64_t value) {
    entry(page, {.length_pages = 1, .kind = layout::page_kind::log});
    log::record_stage contents;
    contents.begin();
    put(contents, offset, value);
    const std::uint64_t run = g_.page_offset(page);
    std::memcpy(bytes_.data() + run, contents.contents(), contents.contents_bytes());
    return append(lane, version, layout::redo_kind::elsewhere, [&](log::record_stage& s) {
      s.word(run);
      s.word(contents.contents_bytes());
      s.word(log::place_checksum(contents.contents(), contents.contents_bytes(), version));
    });
  }
  void entry(std::uint64_t page, const layout::page_entry& e) {
    const std::uint64_t offset = g_.entry_offset(page);
    at<std::uint64_t>(offset) = seal_word(layout::pack(e), word_seed(offset));
  }
  void seal_record(unsigned lane, std::uint64_t place) {
    auto& r = at<layout::redo_record>(place);
    r.proof = log::redo_proof(&r, place, key_, lane, how_);
  }
  layout::redo_place& place_in(std::uint64_t record) {
    return at<layout::redo_place>(record + sizeof(layout::redo_record));
  }
  void seal_contents(std::uint64_t record) {
    auto& p = place_in(record);
    p.checksum = log::place_checksum(bytes_.data() + p.offset, p.bytes, at<layout::redo_record>(record).version);
  }

  outcome recover() {
    outcome o;
    ordered_media m;
    const status s = tx::recover_redo(m, bytes_.data(), g_, key_, how_, o.report, used_version_);
    o.code = s.error();
    if (!s) o.message = last_message();
    return o;
  }
  // And afterwards all is as before the edit.
  void expect_refused(const char* what, const char* text, const std::function<void()>& edit) {
    const std::vector<std::byte> kept{bytes_.data(), bytes_.data() + bytes_.size()};
    edit();
    const std::vector<std::byte> edited{bytes_.data(), bytes_.data() + bytes_.size()};
    const outcome o = recover();
    EXPECT_EQ(o.code, errc::corrupt) << what;
    EXPECT_NE(o.message.find(text), std::string::npos) << what << ": " << o.message;
    EXPECT_EQ(std::memcmp(bytes_.data(), edited.data(), edited.size()), 0) << what << ": refused, but written to";
    std::memcpy(bytes_.data(), kept.data(), kept.size());
  }

  layout::superblock superblock_ = superblock_for({.lanes = 2}, false);
  geometry g_ = geometry_of(superblock_);
  std::uint64_t key_ = tx::pool_key(superblock_.uuid);
  buffer bytes_{g_.capacity_bytes()};
  ordered_media media_;
  log::validation how_;
  log_type log_;
  std::uint64_t used_[2] = {};  // of each ring
  std::uint64_t used_version_ = 0;
};

TEST_F(hostile_rings, heads_that_say_what_cannot_be_are_refused) {
  store(0, 1, target(0), 11);
  const auto set = [&](std::size_t field, std::uint64_t content) {
    const std::uint64_t offset = lane_at(0) + field;
    at<std::uint64_t>(offset) = seal_word(content, word_seed(offset));
  };
  constexpr std::size_t tail = offsetof(layout::ring_head, tail);
  constexpr std::size_t truncated = offsetof(layout::ring_head, truncated);
  constexpr std::size_t bound = offsetof(layout::ring_head, bound);
  const auto flip = [&](std::size_t field) { at<std::uint64_t>(lane_at(0) + field) ^= 1ULL << 57; };
  expect_refused("truncated", "versions: found", [&] { set(truncated, layout::version_max + 1); });
  expect_refused("bound", "versions: found", [&] { set(bound, layout::version_max + 1); });
  expect_refused("truncated's check", "version that is home: found", [&] { flip(truncated); });
  expect_refused("bound's check", "largest version: found", [&] { flip(bound); });
  expect_refused("tail's check", "tail: found", [&] { flip(tail); });
  expect_refused("tail within a line", "tail: found", [&] { set(tail, layout::redo_ring_at + 8); });
  expect_refused("tail behind the ring", "tail: found", [&] { set(tail, g_.lane_bytes); });
  expect_refused("a version above the bound", "version: found 1, expected at most 0", [&] { set(bound, 0); });
  // Good: the record is home, or the tail leads past it.
  const std::vector<std::byte> kept{bytes_.data(), bytes_.data() + bytes_.size()};
  for (const std::size_t field : {truncated, tail}) {
    set(field, field == tail ? g_.lane_bytes - line_bytes : 1);
    const outcome o = recover();
    EXPECT_EQ(o.code, errc::ok) << o.message;
    EXPECT_EQ(o.report.completed, 0U);
    EXPECT_EQ(at<std::uint64_t>(target(0)), 0U);
    std::memcpy(bytes_.data(), kept.data(), kept.size());
  }
  const outcome o = recover();
  EXPECT_EQ(o.code, errc::ok) << o.message;
  EXPECT_EQ(o.report.completed, 1U);
  EXPECT_EQ(at<std::uint64_t>(target(0)), 11U);
}

TEST_F(hostile_rings, a_ring_of_nothing_but_a_wrap_record_ends) {
  store(0, 1, target(0), 11);
  const std::uint64_t place = store(1, 2, target(0), 22);
  auto& r = at<layout::redo_record>(place);
  r.bytes = sizeof r;
  r.kind_and_intents = static_cast<std::uint32_t>(layout::redo_kind::wrap);
  seal_record(1, place);
  const outcome o = recover();
  EXPECT_EQ(o.code, errc::ok) << o.message;
  EXPECT_EQ(o.report.completed, 1U);
  EXPECT_EQ(at<std::uint64_t>(target(0)), 11U);
}

TEST_F(hostile_rings, contents_in_a_log_run_are_replayed_and_the_run_is_freed) {
  const std::uint64_t page = 40;
  store(1, 1, target(0), 11);
  store_elsewhere(0, 2, page, target(0), 22);
  store(1, 3, target(1), 33);
  const outcome o = recover();
  EXPECT_EQ(o.code, errc::ok) << o.message;
  EXPECT_EQ(o.report.completed, 3U);
  EXPECT_EQ(o.report.freed_log_runs, 1U);
  EXPECT_EQ(at<std::uint64_t>(target(0)), 22U);
  EXPECT_EQ(at<std::uint64_t>(target(1)), 33U);
  EXPECT_EQ(at<std::uint64_t>(g_.entry_offset(page)), 0U);
}

TEST_F(hostile_rings, contents_that_lie_nowhere_are_refused) {
  const std::uint64_t page = 40;
  const std::uint64_t run = g_.page_offset(page);
  const std::uint64_t record = store_elsewhere(0, 1, page, target(0), 22);
  const auto lead = [&](std::uint64_t offset, std::uint64_t bytes) {
    return [this, record, offset, bytes] {
      place_in(record).offset = offset;
      place_in(record).bytes = bytes;
      seal_record(0, record);
    };
  };
  const char* const no_run = "which is no log run";
  expect_refused("within the run", no_run, lead(run + 8, 16));
  expect_refused("the next page", no_run, lead(run + g_.page_bytes(), 16));
  expect_refused("before the data", no_run, lead(g_.page_map_offset, 16));
  expect_refused("behind the pool", no_run, lead(g_.size_bytes(), 16));
  expect_refused("anywhere", no_run, lead(~std::uint64_t{7}, 16));
  expect_refused("no bytes", no_run, lead(run, 0));
  expect_refused("more than the run has", no_run, lead(run, g_.page_bytes() + 8));
  expect_refused("more than the pool has", no_run, lead(run, ~std::uint64_t{7}));
  expect_refused("a run of an object", no_run,
                 [&] { entry(page, {.length_pages = 1, .kind = layout::page_kind::run}); });
  expect_refused("a run longer than the pool", no_run, [&] {
    entry(page, {.length_pages = 1U << 20, .kind = layout::page_kind::log});
    lead(run, g_.size_bytes())();
  });
}

TEST_F(hostile_rings, contents_that_do_not_add_up_are_refused) {
  const std::uint64_t record = store_elsewhere(0, 1, 40, target(0), 22);
  const std::uint64_t run = place_in(record).offset;
  const char* const parts = "found parts that do not add up";
  const auto& head = at<layout::redo_record>(record);
  const auto kind = [&](std::uint32_t kind_and_intents) {
    at<layout::redo_record>(record).kind_and_intents = kind_and_intents;
    seal_record(0, record);
  };
  expect_refused("an unknown kind", parts, [&] { kind(7); });
  expect_refused("more intents than words", parts, [&] { kind(3 | 3 << 4); });
  expect_refused("a place and more", parts, [&] {
    at<layout::redo_record>(record).bytes = sizeof head + sizeof(layout::redo_place) + 8;
    seal_record(0, record);
  });
  const auto grown = [&](std::uint64_t bytes) {
    place_in(record).bytes = bytes;
    seal_contents(record);
    seal_record(0, record);
  };
  expect_refused("half a word behind the range", "found bytes that do not exist", [&] { grown(20); });
  expect_refused("a range of no bytes behind it", "found bytes that do not exist", [&] { grown(24); });
  expect_refused("a range longer than the contents", "found bytes that do not exist", [&] {
    at<std::uint64_t>(run) = layout::pack_range(target(0), 16);
    grown(16);
  });
  expect_refused("a target outside the data", "found bytes that do not exist", [&] {
    at<std::uint64_t>(run) = layout::pack_range(g_.page_map_offset, 8);
    grown(16);
  });
  expect_refused("an intent that is none", "found allocation words that do not exist", [&] {
    at<std::uint64_t>(run + 16) = 0;
    at<std::uint64_t>(run) = intent::make(intent_op::clear_bit, g_.page_map_offset, 0).code;
    grown(8);
    kind(3 | 1 << 4);
  });
  const outcome o = recover();
  EXPECT_EQ(o.code, errc::ok) << o.message;
  EXPECT_EQ(at<std::uint64_t>(target(0)), 22U);
}

// Its run reached the media in part, or not at all: it never was durable.
TEST_F(hostile_rings, contents_that_are_torn_do_not_count) {
  store(0, 1, target(0), 11);
  const std::uint64_t record = store_elsewhere(0, 2, 40, target(1), 22);
  store(1, 3, target(2), 33);
  at<std::uint64_t>(place_in(record).offset + 8) ^= 1;
  const outcome o = recover();
  EXPECT_EQ(o.code, errc::ok) << o.message;
  EXPECT_EQ(o.report.completed, 2U);
  EXPECT_EQ(o.report.freed_log_runs, 1U);
  EXPECT_EQ(at<std::uint64_t>(target(0)), 11U);
  EXPECT_EQ(at<std::uint64_t>(target(1)), 0U);
  EXPECT_EQ(at<std::uint64_t>(target(2)), 33U);
}

// What follows in its lane began when it was durable: without the record that is damaged it must not be lost unseen.
TEST_F(hostile_rings, contents_that_are_damaged_are_told_from_torn_ones_by_what_follows_them) {
  const std::uint64_t record = store_elsewhere(0, 1, 40, target(0), 11);
  for (std::uint64_t version = 2; version < 5; ++version) {
    store(0, version, target(1), 22);
    expect_refused("damaged contents", "found behind the end of its lane",
                   [&] { at<std::uint64_t>(place_in(record).offset + 8) ^= 1; });
  }
  EXPECT_EQ(recover().code, errc::ok) << last_message();
  EXPECT_EQ(at<std::uint64_t>(target(0)), 11U);
  EXPECT_EQ(at<std::uint64_t>(target(1)), 22U);
}

// A mark is made when the contents are durable, wherever they are: with it, nothing of them can be torn.
class marked_rings : public hostile_rings {
 protected:
  marked_rings() : hostile_rings{log::validation::commit_mark} {}
};

TEST_F(marked_rings, contents_that_are_damaged_are_refused_behind_their_mark) {
  const std::uint64_t record = store_elsewhere(0, 1, 40, target(0), 11);
  const auto damage = [&] { at<std::uint64_t>(place_in(record).offset + 8) ^= 1; };
  expect_refused("damaged contents", "which fail their check", damage);
  const std::uint64_t mark = std::exchange(at<layout::redo_record>(record).proof, 0);
  damage();
  EXPECT_EQ(recover().code, errc::ok) << last_message();
  EXPECT_EQ(at<std::uint64_t>(target(0)), 0U) << "without a mark it never was durable";
  EXPECT_NE(mark, 0U);
}

// A wrap record proves itself as soon as it is stored: of the line that it is stored over, which may hold a program's
// data, its first words may be all that a crash leaves.
TEST_F(marked_rings, a_wrap_record_that_is_torn_ends_the_ring) {
  const auto tear_wrap_over = [&](std::uint64_t lane_end_word) {
    const std::uint64_t place = line_at(0) + used_[0];
    auto& r = at<layout::redo_record>(place);
    r = {0, 2, sizeof r, static_cast<std::uint32_t>(layout::redo_kind::wrap)};
    seal_record(0, place);
    std::memcpy(&r.bytes, &lane_end_word, 8);
  };
  store(0, 1, target(0), 11);
  // Its low half is the length of a wrap record.
  for (const std::uint32_t data : {0x30008U, 0U, 1U, 0x11U, 0x30003U, 0x12U}) {
    SCOPED_TRACE(data);
    tear_wrap_over(std::uint64_t{data} << 32 | sizeof(layout::redo_record));
    const std::vector<std::byte> kept{bytes_.data(), bytes_.data() + bytes_.size()};
    const outcome o = recover();
    EXPECT_EQ(o.code, errc::ok) << o.message;
    EXPECT_EQ(at<std::uint64_t>(target(0)), 11U);
    std::memcpy(bytes_.data(), kept.data(), kept.size());
  }
}

}  // namespace
}  // namespace nvm::tests
