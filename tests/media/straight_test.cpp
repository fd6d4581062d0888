// Straight writes: large new bytes reach the device once, under the sync of the record that leads to them.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "image_rig.hpp"

namespace nvm {
namespace {

using namespace test;

constexpr std::uint64_t large_bytes = 8 << 20;
constexpr std::uint64_t value_bytes = 1 << 20;
constexpr std::uint64_t first_value = 2 << 20;
const ring_identity large_ring = small_ring(1 << 20);

// Counts what goes to and comes from a device.
class counting_device final : public block_device {
 public:
  explicit counting_device(memory_device& inner) : inner_{inner} {}
  ~counting_device() = default;
  status write(std::uint64_t offset, const void* from, std::size_t bytes, site s = site::here()) noexcept override {
    written += bytes;
    return inner_.write(offset, from, bytes, s);
  }
  status read(std::uint64_t offset, void* to, std::size_t bytes) noexcept override {
    read_bytes += bytes;
    return inner_.read(offset, to, bytes);
  }
  status sync(edge e) noexcept override {
    if (before_log_sync && std::strcmp(e.name, "image/E1") == 0) before_log_sync();
    return inner_.sync(e);
  }
  result<std::uint64_t> size() noexcept override { return inner_.size(); }

  std::atomic<std::uint64_t> written{0}, read_bytes{0};
  std::function<void()> before_log_sync;

 private:
  memory_device& inner_;
};

// A file of 8 MiB with a log of 1 MiB.
struct large_rig {
  large_rig() : large_rig{std::vector<std::byte>(large_bytes), true} {}
  explicit large_rig(std::vector<std::byte> content, bool formats = false)
      : device{std::move(content)}, counts{device} {
    if (formats) {
      EXPECT_TRUE(format_ring(device, large_ring) && device.sync(edge{"test/create"}));
    }
    auto run = open_log(counts, large_ring, large_bytes);
    replayed = run.error();
    if (!run) return;
    const std::vector<std::byte> now = device.content();
    std::memcpy(image(), now.data(), now.size());
    apply_run(*run, large_ring, image());
    auto opened = image_media::open(counts, {.base = image(), .bytes = large_bytes, .ring = large_ring, .guest = {}},
                                    std::move(*run));
    if (opened) medium = std::move(*opened);
  }
  [[nodiscard]] std::byte* image() { return reinterpret_cast<std::byte*>(pages.get()); }
  // The word that says that the value is there.
  [[nodiscard]] std::uint64_t& word(std::uint64_t i) {
    return *reinterpret_cast<std::uint64_t*>(image() + data_offset + (1 << 20) + 64 * i);
  }
  // Straight, as all of the bytes at `offset`; the word leads there.
  result<lsn_t> put(std::uint64_t i, std::uint64_t offset, std::uint64_t bytes, int with, lsn_t free_since = 0) {
    std::memset(image() + offset, with, bytes);
    const auto done = medium->write_straight(image() + offset, bytes, free_since);
    if (!done) return done.error();
    straight = done->written;
    image_media::batch b;
    if (straight) {
      b.add_straight(image() + offset, bytes, done->sum);
    } else {
      medium->flush(image() + offset, bytes);
    }
    return lead(b, i, static_cast<std::uint64_t>(with));
  }
  result<lsn_t> lead(image_media::batch& b, std::uint64_t i, std::uint64_t to) {
    return medium->publish(
        b,
        [&] {
          word(i) = to;
          b.add(&word(i), 8);
        },
        edge{"test/commit"});
  }
  [[nodiscard]] bool holds(std::uint64_t offset, std::uint64_t bytes, int with) {
    return std::all_of(image() + offset, image() + offset + bytes,
                       [&](std::byte b) { return b == static_cast<std::byte>(with); });
  }

  std::unique_ptr<page[]> pages = std::make_unique<page[]>(large_bytes / sizeof(page));
  memory_device device;
  counting_device counts;
  errc replayed = errc::ok;
  bool straight = false;
  std::unique_ptr<image_media> medium;
};

TEST(straight, a_value_reaches_the_device_once_with_one_sync) {
  large_rig rig;
  ASSERT_TRUE(rig.put(0, first_value, value_bytes, 1));
  ASSERT_TRUE(rig.medium->sync_appended());
  const image_statistics before = rig.medium->statistics();
  const std::uint64_t written = rig.counts.written;
  ASSERT_TRUE(rig.put(1, first_value + value_bytes, value_bytes, 2));
  EXPECT_TRUE(rig.straight);
  ASSERT_TRUE(rig.medium->sync_appended());
  const image_statistics after = rig.medium->statistics();
  EXPECT_EQ(after.log_syncs, before.log_syncs + 1);
  EXPECT_EQ(after.other_syncs, before.other_syncs);
  EXPECT_EQ(after.straight_bytes, before.straight_bytes + value_bytes);
  ASSERT_TRUE(rig.medium->checkpoint_step());
  EXPECT_LE(rig.counts.written - written, value_bytes + value_bytes / 10) << "with the way home";
  large_rig next{rig.device.crash_losing_all_unsynced()};
  ASSERT_EQ(next.replayed, errc::ok);
  EXPECT_TRUE(next.word(1) == 2 && next.holds(first_value + value_bytes, value_bytes, 2));
}

TEST(straight, a_value_may_be_larger_than_the_log) {
  large_rig rig;
  ASSERT_TRUE(rig.put(0, first_value, 4 * value_bytes, 1));
  ASSERT_TRUE(rig.medium->sync_appended());
  large_rig next{rig.device.crash_losing_all_unsynced()};
  EXPECT_TRUE(next.word(0) == 1 && next.holds(first_value, 4 * value_bytes, 1));
  EXPECT_EQ(rig.medium->statistics().checkpoints, 0U);
}

// While the first sync is under way all others get as far as their records.
TEST(straight, values_of_eight_threads_share_a_sync) {
  constexpr unsigned threads = 8;
  constexpr std::uint64_t bytes = 256 << 10;
  large_rig rig;
  ASSERT_TRUE(rig.put(threads, first_value + threads * bytes, bytes, 1));
  ASSERT_TRUE(rig.medium->sync_appended());
  const image_statistics before = rig.medium->statistics();
  bool waits = true;
  rig.counts.before_log_sync = [&] {
    while (waits && rig.medium->statistics().records < before.records + threads) std::this_thread::yield();
    waits = false;
  };
  std::atomic<unsigned> good{0};
  std::vector<std::thread> all;
  for (unsigned t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      std::byte* const at = rig.image() + first_value + t * bytes;
      std::memset(at, 40 + static_cast<int>(t), bytes);
      const auto done = rig.medium->write_straight(at, bytes, 0);
      image_media::batch b;
      if (!done || !done->written) return;
      b.add_straight(at, bytes, done->sum);
      const auto lsn = rig.lead(b, t, 40 + t);
      if (lsn && rig.medium->durable(*lsn)) ++good;
    });
  }
  for (std::thread& t : all) t.join();
  EXPECT_EQ(good, threads);
  EXPECT_LE(rig.medium->statistics().log_syncs, before.log_syncs + 2);
  large_rig next{rig.device.crash_losing_all_unsynced()};
  for (unsigned t = 0; t < threads; ++t) {
    EXPECT_TRUE(next.word(t) == 40 + t && next.holds(first_value + t * bytes, bytes, 40 + static_cast<int>(t)));
  }
}

TEST(straight, ranges_that_the_log_has_something_for_are_logged_or_wait_until_it_is_home) {
  large_rig rig;
  for (const std::uint64_t bytes : {std::uint64_t{128 << 10}, value_bytes}) {
    rig.medium->flush(rig.image() + first_value + 5000, 100);
    const std::uint64_t checkpoints = rig.medium->statistics().checkpoints;
    ASSERT_TRUE(rig.put(0, first_value, bytes, 7));
    EXPECT_EQ(rig.straight, bytes == value_bytes);
    EXPECT_EQ(rig.medium->statistics().checkpoints, checkpoints + (bytes == value_bytes ? 1 : 0));
    ASSERT_TRUE(rig.medium->sync_appended());
    large_rig next{rig.device.crash_losing_all_unsynced()};
    EXPECT_TRUE(next.word(0) == 7 && next.holds(first_value, bytes, 7));
    ASSERT_TRUE(next.medium->quiesce());
    large_rig last{next.device.crash_losing_all_unsynced()};
    EXPECT_TRUE(last.holds(first_value, bytes, 7));
  }
}

TEST(straight, what_frees_a_range_is_durable_before_it_is_written) {
  large_rig rig;
  ASSERT_TRUE(rig.put(0, first_value, value_bytes, 7));
  ASSERT_TRUE(rig.medium->sync_appended());
  image_media::batch b;
  const auto freed = rig.lead(b, 0, 0);
  ASSERT_TRUE(freed);
  EXPECT_FALSE(rig.medium->is_durable(*freed));
  ASSERT_TRUE(rig.put(1, first_value, value_bytes, 8, *freed));
  EXPECT_TRUE(rig.medium->is_durable(*freed));
}

// Any subset of the sectors: the record counts with all of its pages, or not at all.
TEST(straight, a_torn_value_does_not_count) {
  std::mt19937_64 random{3};
  large_rig rig;
  ASSERT_TRUE(rig.put(0, first_value, 128 << 10, 1));
  ASSERT_TRUE(rig.medium->sync_appended());
  std::vector<std::vector<std::byte>> left;
  rig.counts.before_log_sync = [&] {
    for (int i = 0; i < 6; ++i) {
      const std::uint64_t one = random() % 256;
      left.push_back(rig.device.crash([&](std::uint64_t sector, std::size_t versions) {
        const bool is_lost = i != 0 && sector == (first_value + value_bytes) / sector_bytes + one;
        return is_lost ? std::size_t{0} : versions;
      }));
    }
  };
  ASSERT_TRUE(rig.put(1, first_value + value_bytes, 128 << 10, 2));
  ASSERT_TRUE(rig.medium->sync_appended());
  ASSERT_EQ(left.size(), 6U);
  for (std::size_t i = 0; i < left.size(); ++i) {
    large_rig next{left[i]};
    ASSERT_EQ(next.replayed, errc::ok) << last_message();
    EXPECT_EQ(next.word(1), i == 0 ? 2U : 0U);
    EXPECT_TRUE(next.word(0) == 1 && next.holds(first_value, 128 << 10, 1));
  }
}

// A call that fails: nothing that was acknowledged is gone, and what was not is there or not, whole.
TEST(straight, a_failed_write_or_sync_is_for_ever_and_loses_nothing) {
  std::mt19937_64 random{4};
  unsigned writes = 0, syncs = 0;
  for (std::uint64_t k = 1;; ++k) {
    large_rig rig;
    ASSERT_TRUE(rig.put(0, first_value, 128 << 10, 1));
    ASSERT_TRUE(rig.medium->sync_appended());
    rig.device.fail_call(k);
    const auto lsn = rig.put(1, first_value + value_bytes, 128 << 10, 2);
    const status durable = lsn ? rig.medium->durable(*lsn) : status{lsn.error()};
    rig.device.fail_call(0);
    if (durable) break;
    EXPECT_EQ(durable.error(), errc::io);
    ++(lsn ? syncs : writes);
    EXPECT_EQ(rig.put(2, first_value + 2 * value_bytes, 128 << 10, 3).error(), errc::io) << "poisoned";
    for (int i = 0; i < 4; ++i) {
      large_rig next{random_crash(rig.device, random)};
      ASSERT_EQ(next.replayed, errc::ok) << last_message();
      EXPECT_TRUE(next.word(0) == 1 && next.holds(first_value, 128 << 10, 1));
      EXPECT_EQ(next.word(2), 0U);
      EXPECT_TRUE(next.word(1) == 0 || (lsn && next.holds(first_value + value_bytes, 128 << 10, 2)));
    }
  }
  EXPECT_EQ(writes, 1U);
  EXPECT_EQ(syncs, 2U) << "the write of the log, and its sync";
}

// Only what no record proves is read.
TEST(straight, an_open_reads_what_is_not_proved) {
  large_rig rig;
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(rig.put(0, first_value + static_cast<std::uint64_t>(i % 4) * value_bytes, value_bytes, 1 + i));
    EXPECT_TRUE(rig.straight) << i;
    ASSERT_TRUE(rig.medium->sync_appended());
  }
  EXPECT_EQ(rig.medium->statistics().checkpoints, 0U);
  large_rig next{rig.device.crash_losing_all_unsynced()};
  EXPECT_TRUE(next.word(0) == 40 && next.holds(first_value + 3 * value_bytes, value_bytes, 40));
  EXPECT_LE(next.counts.read_bytes, 3 * value_bytes) << "the log, and the last value";
}

// ---- hostile logs

struct forged_entry {
  std::uint64_t offset;
  std::uint64_t bytes;
  layout::straight_rest rest{};
};
errc outcome_of(const std::vector<forged_entry>& entries, std::uint64_t record_bytes = 0) {
  memory_device device{file_bytes};
  const ring_identity ring = small_ring();
  EXPECT_TRUE(format_ring(device, ring) && write_ring_header(device, ring, 1, 3, sector_bytes));  // not closed
  std::vector<std::byte> record(round_up(sizeof(layout::ring_record) + 32 * entries.size(), layout::ring_unit));
  std::byte* to = record.data() + sizeof(layout::ring_record);
  for (const forged_entry& e : entries) {
    const layout::ring_entry entry{e.offset | layout::straight_bit, e.bytes};
    std::memcpy(to, &entry, sizeof entry);
    std::memcpy(to + sizeof entry, &e.rest, sizeof e.rest);
    to += layout::straight_entry_bytes;
  }
  if (record_bytes != 0) record.resize(record_bytes);
  seal_record(record.data(), sector_bytes, 0, record.size(), static_cast<std::uint32_t>(entries.size()), ring.uuid);
  EXPECT_TRUE(device.write(ring.place.offset_of(sector_bytes), record.data(), record.size()));
  const auto before = device.content();
  const auto state = replay(device, ring);
  EXPECT_EQ(device.content(), before) << "refused or empty, but written to";
  EXPECT_TRUE(!state || state->records == 0);
  return state.error();
}
TEST(straight, entries_that_claim_what_they_may_not_are_refused) {
  const auto log = small_ring().place;
  const forged_entry good{data_offset, 1024};
  EXPECT_EQ(outcome_of({good}), errc::ok) << "whose sum does not hold: the run ends";
  const forged_entry bad[] = {
      {data_offset, 0},
      {data_offset + 8, 512},
      {data_offset, 520},
      {file_bytes, 512},
      {file_bytes - 512, 1024},
      {data_offset, file_bytes},
      {data_offset, ~std::uint64_t{511}},
      {log.log_offset, 512},
      {log.log_offset - 512, 1024},
      {data_offset, 512, {.sum = 0, .home_lsn = 2 * sector_bytes}},
  };
  for (const forged_entry& e : bad) EXPECT_EQ(outcome_of({good, e}), errc::corrupt) << e.offset << " " << e.bytes;
  EXPECT_EQ(outcome_of({good}, layout::ring_unit), errc::corrupt) << "the record ends before the entry does";
}

// Each of many entries claims the whole data area, with sums that hold: what is read is bounded by the file.
TEST(straight, a_log_that_claims_more_than_the_file_is_not_read_for_ever) {
  std::uint64_t sum = layout::straight_seed(small_ring().uuid, data_offset);
  const std::vector<std::byte> zeros(file_bytes - data_offset);
  sum = checksum(zeros.data(), zeros.size(), sum);
  const forged_entry whole{data_offset, file_bytes - data_offset, {.sum = sum, .home_lsn = 0}};
  EXPECT_EQ(outcome_of(std::vector<forged_entry>(60, whole)), errc::corrupt);
}

}  // namespace
}  // namespace nvm
