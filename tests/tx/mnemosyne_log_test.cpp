// The word logs of the mnemosyne engines: complete entries are read, incomplete ones do not count, and no bytes mislead
// a reader.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "media/media.hpp"
#include "pool_image.hpp"
#include "tx/mnemosyne_engine.hpp"

namespace nvm::tests {
namespace {

using log::mnemosyne_kind;
using log::validation;

struct engine_of_test {
  mnemosyne_kind kind;
  validation how;
};

class word_log : public testing::TestWithParam<engine_of_test> {
 protected:
  using lanes = log::mnemosyne_log<ordered_media>;
  using reader = log::mnemosyne_reader<tx::pool_targets>;

  word_log() {
    format_image(bytes_.data(), superblock_);
    from_.resize(4096);
    for (std::size_t i = 0; i < from_.size(); ++i) from_[i] = static_cast<std::byte>(i * 7 + 1);
  }
  // A log of lane 0 that goes on where the one before was truncated or recovered.
  lanes& start(std::uint64_t position) {
    log_ = std::make_unique<lanes>(media_, bytes_.data(), geometry_, geometry_.lane_count, GetParam().how);
    log_->start(0, position);
    EXPECT_TRUE(log_->furnish(0));
    return *log_;
  }
  // Makes what was put count.
  void end(lanes& l) {
    if (GetParam().kind == mnemosyne_kind::redo) {
      l.commit_point(0, {});
    } else {
      l.end_group(0);
    }
  }
  [[nodiscard]] reader lane() {
    return reader{bytes_.data(), geometry_, GetParam().kind, log::has_torn_bits(GetParam().how), 0, targets_};
  }
  [[nodiscard]] std::uint64_t* words() {
    return reinterpret_cast<std::uint64_t*>(bytes_.data() + log::word_ring{geometry_, 0}.line_at(0));
  }
  [[nodiscard]] std::size_t word_count() { return log::word_ring{geometry_, 0}.lines * line_bytes / 8; }
  std::uint64_t recover() {
    auto r = lane();
    EXPECT_TRUE(r.validate()) << last_message();
    return r.repair(media_, bytes_.data());
  }

  layout::superblock superblock_ = superblock_for({}, false);
  geometry geometry_ = geometry_of(superblock_);
  buffer bytes_{geometry_.capacity_bytes()};
  ordered_media media_;
  tx::pool_targets targets_{bytes_.data(), geometry_};
  std::unique_ptr<lanes> log_;
  std::vector<std::byte> from_;
};

// Each length ends at another place of a word and of a line; the logs go round the ring.
TEST_P(word_log, gives_back_entries_of_any_length) {
  const std::uint64_t at = geometry_.data_offset;
  std::uint64_t position = 0;
  for (std::uint64_t n = 1; n < 1200; ++n) {
    lanes& l = start(position);
    ASSERT_TRUE(l.make_room(0, 1 + ceil_div(n, std::uint64_t{8}))) << last_message();
    l.put_bytes(0, at, from_.data(), n);
    end(l);
    std::memset(bytes_.data() + at, 0, 4096);
    position = recover();
    ASSERT_EQ(std::memcmp(bytes_.data() + at, from_.data(), n), 0) << n;
    ASSERT_EQ(bytes_.data()[at + n], std::byte{0}) << n;
    auto again = lane();
    ASSERT_TRUE(again.validate());
    ASSERT_TRUE(again.at_rest()) << n;
    ASSERT_EQ(again.rest(), position);
  }
}

TEST_P(word_log, forgets_what_had_no_end) {
  const std::uint64_t at = geometry_.data_offset;
  lanes& l = start(0);
  for (std::uint64_t n = 8; n < 900; n += 8) {
    ASSERT_TRUE(l.make_room(0, 2 + n / 8)) << last_message();
    l.put_bytes(0, at, from_.data(), n);
    l.forget(0);
    auto r = lane();
    ASSERT_TRUE(r.validate());
    ASSERT_FALSE(r.found_any()) << n;
    ASSERT_TRUE(l.make_room(0, 2));
    l.put_bytes(0, at + 1024, from_.data(), 8);
    end(l);
    auto whole = lane();
    ASSERT_TRUE(whole.validate());
    ASSERT_TRUE(whole.found_any()) << n;
    l.truncate(0);
  }
}

TEST_P(word_log, does_not_count_where_one_word_is_missing) {
  if (!log::has_torn_bits(GetParam().how)) GTEST_SKIP() << "the tail is for that";
  const std::uint64_t at = geometry_.data_offset;
  lanes& l = start(0);
  l.put_bytes(0, at, from_.data(), 300);
  l.put_bytes(0, at + 512, from_.data(), 77);
  end(l);
  std::size_t written = 0;
  while ((words()[written] & layout::torn_bit) != 0) ++written;
  ASSERT_GT(written, 48U);
  // After the end word there is what fills the line up.
  const std::size_t needed = ceil_div(std::size_t{(1 + 38 + 1 + 10 + 1) * 64}, std::size_t{63});
  for (std::size_t i = 0; i < needed; ++i) {
    const std::uint64_t kept = std::exchange(words()[i], 0);
    auto r = lane();
    ASSERT_TRUE(r.validate());
    ASSERT_FALSE(r.found_any()) << i;
    words()[i] = kept;
  }
}

// Each is rolled back: what they leave takes room until it is wanted.
TEST_P(word_log, gives_up_what_rolled_back_transactions_left_when_it_wants_the_room) {
  const std::uint64_t at = geometry_.data_offset;
  const log::word_ring ring{geometry_, 0};
  lanes& l = start(0);
  for (std::uint64_t round = 0; round < 3 * ring.lines; ++round) {
    ASSERT_TRUE(l.make_room(0, 60)) << round << ": " << last_message();
    l.put_bytes(0, at, from_.data(), 400);
    l.forget(0);
  }
  EXPECT_EQ(l.make_room(0, word_count()).error(), errc::log_full) << "not even then";
  // An open one has room for all of the ring but its own end, and no more.
  std::uint64_t words = 0;
  while (l.make_room(0, 8)) {
    l.put_bytes(0, at, from_.data(), 56);
    words += 8;
    ASSERT_LT(words, word_count());
  }
  EXPECT_EQ(last_code(), errc::log_full);
  EXPECT_GT(words, word_count() * 3 / 4);
  end(l);
  EXPECT_TRUE(l.has_entries(0));
  recover();
  EXPECT_EQ(std::memcmp(bytes_.data() + at, from_.data(), 56), 0);
}

TEST_P(word_log, goes_on_where_it_is_when_it_is_furnished_again) {
  const std::uint64_t at = geometry_.data_offset;
  lanes& l = start(0);
  l.put_bytes(0, at, from_.data(), 100);
  ASSERT_TRUE(l.furnish(0));
  l.put_bytes(0, at + 512, from_.data(), 100);
  end(l);
  recover();
  EXPECT_EQ(std::memcmp(bytes_.data() + at, from_.data(), 100), 0);
  EXPECT_EQ(std::memcmp(bytes_.data() + at + 512, from_.data(), 100), 0);
}

TEST_P(word_log, is_not_at_rest_while_entries_count) {
  const std::uint64_t at = geometry_.data_offset;
  const auto at_rest = [&] { return tx::lane_at_rest(bytes_.data(), geometry_, GetParam().kind, GetParam().how, 0); };
  lanes& l = start(0);
  ASSERT_TRUE(at_rest()) << last_message();
  l.put_bytes(0, at, from_.data(), 100);
  end(l);
  EXPECT_EQ(at_rest().error(), errc::corrupt);
  EXPECT_STREQ(last_message(), "lane 0: found not at rest, but the pool's state says that it was closed");
  l.truncate(0);
  const auto rest = at_rest();
  ASSERT_TRUE(rest) << last_message();
  EXPECT_GT(*rest, 0U);
}

// A transaction that only frees.
TEST_P(word_log, counts_where_there_are_only_intents) {
  page_map map{bytes_.data(), geometry_};
  map.store(
      3, map.seal(3, {1, 0, layout::page_kind::run, layout::object_layout::raw, layout::slot_protocol::transactional}));
  lanes& l = start(0);
  ASSERT_TRUE(l.make_room(0, 4)) << last_message();
  l.commit_point(0, {log::intent::make(log::intent_op::clear_entry, geometry_.entry_offset(3), 0).code});
  auto r = lane();
  ASSERT_TRUE(r.validate()) << last_message();
  EXPECT_TRUE(r.found_any());
  EXPECT_TRUE(r.committed());
  EXPECT_FALSE(r.at_rest());
  EXPECT_NE(map.load(3), 0U);
  recover();
  EXPECT_EQ(map.load(3), 0U);
  EXPECT_FALSE(lane().found_any());
}

TEST_P(word_log, refuses_a_ring_without_a_free_line) {
  if (!log::has_torn_bits(GetParam().how)) GTEST_SKIP() << "a plain log has no bits";
  for (std::size_t i = 0; i < word_count(); i += 8) words()[i] = layout::torn_bit;
  EXPECT_EQ(lane().validate().error(), errc::corrupt);
}

// Words that look like a log's, and any words: read, repaired, and then at rest.
TEST_P(word_log, survives_any_bytes) {
  std::mt19937_64 random{17};
  const log::word_ring ring{geometry_, 0};
  unsigned repaired = 0;
  unsigned refused = 0;
  std::uint64_t rest = 0;
  for (int round = 0; round < 3000; ++round) {
    const bool torn = log::has_torn_bits(GetParam().how);
    // Where the lane is, or anywhere.
    lanes& l = start(round % 4 != 0 ? rest : random() % (2 * ring.lines));
    const std::uint64_t begin = round % 3 == 0 ? 0 : random() % (2 * ring.lines);
    // A log as a process writes it, with places that it would not name.
    for (unsigned k = random() % 6; k > 0; --k) {
      const std::uint64_t n = random() % 500;
      if (n == 0 || !l.make_room(0, 2 + n / 8)) continue;
      l.put_bytes(0, random() % 4 == 0 ? random() % (std::uint64_t{1} << 44) : geometry_.data_offset + random() % 9999,
                  from_.data(), n);
      if (random() % 2 == 0) end(l);
    }
    const std::vector<std::uint64_t> intents(random() % 4, random());
    if (random() % 4 == 0 && l.make_room(0, 1 + intents.size())) l.commit_point(0, intents);
    for (unsigned k = random() % 8; k > 0; --k) words()[random() % word_count()] = random();
    const auto seal = [&](std::size_t field, std::uint64_t position) {
      const std::uint64_t at = ring.offset + field;
      const std::uint64_t word = seal_word(position, word_seed(at));
      std::memcpy(bytes_.data() + at, &word, 8);
    };
    if (round % 3 == 0) seal(offsetof(layout::mnemosyne_head, head), begin);
    if (round % 5 == 0) seal(offsetof(layout::mnemosyne_head, tail), random() % (2 * ring.lines + 3));
    auto r = lane();
    if (!r.validate()) {
      ++refused;
      std::memset(bytes_.data() + ring.offset, 0, geometry_.lane_bytes);
      rest = 0;
      continue;
    }
    rest = r.repair(media_, bytes_.data());
    ASSERT_LT(rest, 2 * ring.lines);
    auto again = lane();
    ASSERT_TRUE(again.validate()) << last_message();
    ASSERT_TRUE(again.at_rest()) << (torn ? "torn bits" : "plain") << ", round " << round;
    ++repaired;
  }
  EXPECT_GT(repaired, 100U);
  EXPECT_GT(refused, 100U);
}

INSTANTIATE_TEST_SUITE_P(engines, word_log,
                         testing::Values(engine_of_test{mnemosyne_kind::redo, validation::checksum},
                                         engine_of_test{mnemosyne_kind::redo, validation::commit_mark},
                                         engine_of_test{mnemosyne_kind::undo, validation::checksum},
                                         engine_of_test{mnemosyne_kind::undo, validation::commit_mark}),
                         [](const auto& i) {
                           return std::string{i.param.kind == mnemosyne_kind::redo ? "redo" : "undo"} +
                                  (log::has_torn_bits(i.param.how) ? "" : "_plain");
                         });

}  // namespace
}  // namespace nvm::tests
