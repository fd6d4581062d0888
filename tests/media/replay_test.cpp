// Replay: from any subset of the writes it gives exactly the longest prefix of the log.
#include "media/replay.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "forged_ring.hpp"
#include "history.hpp"
#include "image_rig.hpp"

namespace nvm {
namespace {

using namespace test;

const auto no_stores = [] {};

// Several lives of a pool with crashes at every sync and at the end of each; the first thing that goes
// wrong, or nothing.  What one life left behind unsynced must not come back in the next.
std::string crash_through_lives(std::uint64_t seed, std::uint64_t log_bytes, const char* without = nullptr) {
  std::mt19937_64 random{seed};
  const auto ring = small_ring(log_bytes);
  auto rig = std::make_unique<image_rig>(ring);
  history past;
  for (int lives = 0; lives < 4; ++lives) {
    // Records being appended by the very call that syncs come into the history when it returns; they
    // are not in the log yet either.
    std::string wrong;
    rig->hooks.without = without;
    rig->hooks.before_sync = [&](edge e) {
      image_rig after{ring, random_crash(rig->device, random)};
      if (after.replayed != errc::ok || !past.allows(after.data())) wrong = e.name;
    };
    live(*rig, past, random, 1 + static_cast<unsigned>(random() % 60));
    if (!wrong.empty()) return "crash at " + wrong;
    rig->hooks.before_sync = nullptr;
    // The recovery that follows crashes too: before one of its syncs, or at its end.
    auto left = random_crash(rig->device, random);
    for (int nested = 0; nested < 2; ++nested) {
      memory_device device{left};
      hooked_device hooks{device};
      hooks.without = without;
      std::vector<std::vector<std::byte>> crashes;
      hooks.before_sync = [&](edge) { crashes.push_back(random_crash(device, random)); };
      if (!replay(hooks, ring)) return "recovery refused";
      if (!past.allows(data_of(device.content()))) return "recovery is no prefix";
      crashes.push_back(random_crash(device, random));
      left = crashes[random() % crashes.size()];
    }
    auto next = std::make_unique<image_rig>(ring, left, without);
    if (next->replayed != errc::ok) return "refused after a crashed recovery";
    const auto data = next->data();
    if (!past.allows(data)) return "no prefix after a crashed recovery";
    settle(past, data);
    rig = std::move(next);
  }
  return "";
}

RC_GTEST_PROP(replay, any_subset_of_unsynced_sectors_leaves_a_prefix_with_all_that_was_acknowledged, ()) {
  const auto log_bytes = *rc::gen::element<std::uint64_t>(6 * 1024, 8 * 1024, 12 * 1024);
  RC_ASSERT(crash_through_lives(*rc::gen::arbitrary<std::uint64_t>(), log_bytes) == "");
}

// A process is killed while it syncs its log; the next one opens the pool, somebody looks; then the power fails.
// Nothing that was seen may be gone.  The first thing that goes wrong, or nothing.
std::string kill_then_power_cut(std::uint64_t seed, const char* without = nullptr) {
  std::mt19937_64 random{seed};
  const auto ring = small_ring(8 * 1024);
  image_rig rig{ring};
  history past;
  std::string wrong;
  rig.hooks.before_sync = [&](edge e) {
    image_rig next{ring, memory_device::after_kill{rig.device}, without};
    if (next.replayed != errc::ok) {
      wrong = std::string{"refused after a kill at "} + e.name;
      return;
    }
    const auto seen = next.data();
    if (!past.allows(seen)) wrong = std::string{"no prefix after a kill at "} + e.name;
    image_rig last{ring, random_crash(next.device, random)};
    if (last.replayed != errc::ok || last.data() != seen)
      wrong = std::string{"what was seen is gone: kill at "} + e.name;
  };
  live(rig, past, random, 30);
  return wrong;
}

RC_GTEST_PROP(replay, what_was_seen_after_a_kill_survives_a_power_cut, ()) {
  RC_ASSERT(kill_then_power_cut(*rc::gen::arbitrary<std::uint64_t>()) == "");
}

TEST(replay, what_was_seen_after_a_kill_is_lost_without_replay_E0) {
  std::string found;
  for (std::uint64_t seed = 0; seed < 100 && found.empty(); ++seed) found = kill_then_power_cut(seed, "replay/E0");
  EXPECT_NE(found, "") << "nothing needs it";
}

class without_sync : public ::testing::TestWithParam<const char*> {};

TEST_P(without_sync, something_acknowledged_is_lost_or_torn) {
  std::string found;
  for (std::uint64_t seed = 0; seed < 3000 && found.empty(); ++seed)
    found = crash_through_lives(seed, 6 * 1024, GetParam());
  EXPECT_NE(found, "") << GetParam() << " could go: nothing needs it";
}
INSTANTIATE_TEST_SUITE_P(replay, without_sync,
                         ::testing::Values("image/E1", "image/E2", "image/E3", "image/E4", "image/E5", "replay/E1",
                                           "replay/E2", "replay/E3"));

RC_GTEST_PROP(replay, a_crash_inside_replay_changes_nothing, ()) {
  std::mt19937_64 random{*rc::gen::arbitrary<std::uint64_t>()};
  image_rig rig;
  history past;
  live(rig, past, random, 40);
  const auto left = random_crash(rig.device, random);
  memory_device straight{left};
  RC_ASSERT(replay(straight, rig.ring()).has_value());
  const auto expected = data_of(straight.content());
  // Depth 3: crash before each sync of a replay, replay what is left, crash in that one too.
  bool same = true;  // an assertion would throw through the device
  std::function<void(const std::vector<std::byte>&, int)> crash_inside = [&](const auto& content, int depth) {
    memory_device device{content};
    hooked_device hooks{device};
    if (depth < 3)
      hooks.before_sync = [&](edge) {
        for (int i = 0; i < 2; ++i) crash_inside(random_crash(device, random), depth + 1);
      };
    same = same && replay(hooks, rig.ring()) && data_of(device.content()) == expected;
    const auto once = device.content();
    const std::uint64_t syncs = device.syncs();
    same = same && replay(device, rig.ring()) && device.content() == once && device.syncs() == syncs;
  };
  crash_inside(left, 0);
  RC_ASSERT(same);
}

// The run that an open found comes home before anything else is written, by the first sync, a checkpoint or the close;
// until then the file is as it was.
TEST(replay, of_an_opened_pool_waits_for_the_first_write) {
  std::mt19937_64 random{5};
  for (int how = 0; how < 3; ++how) {
    image_rig rig;
    history past;
    live(rig, past, random, 40);
    append(rig, past, random);
    ASSERT_TRUE(rig.medium->sync_appended().has_value());
    const auto left = rig.device.crash_losing_all_unsynced();
    image_rig next{rig.ring(), left};
    ASSERT_EQ(next.replayed, errc::ok);
    EXPECT_EQ(next.device.syncs(), 1U);
    EXPECT_EQ(next.device.syncs("replay/E0"), 1U);
    EXPECT_EQ(next.device.content(), left);
    EXPECT_EQ(next.data(), rig.data());
    const auto seen = next.data();
    if (how == 0) {
      append(next, past, random);
      EXPECT_EQ(next.device.content(), left) << "appended in memory only";
      ASSERT_TRUE(next.medium->sync_appended().has_value());
      EXPECT_EQ(next.device.syncs("image/E4"), 0U) << "the header that replay writes begins the lap";
    } else if (how == 1) {
      ASSERT_TRUE(next.medium->checkpoint_step().has_value());
      EXPECT_EQ(data_of(next.device.content()), seen);
    } else {
      ASSERT_TRUE(next.medium->close().has_value());
      EXPECT_EQ(data_of(next.device.crash_losing_all_unsynced()), seen);
      memory_device closed{next.device.content()};
      const auto state = replay(closed, rig.ring());
      ASSERT_TRUE(state) << last_message();
      EXPECT_TRUE(state->closed);
    }
    EXPECT_EQ(next.device.syncs("replay/E1"), 1U);
    EXPECT_EQ(next.device.syncs("replay/E2"), 1U);
    image_rig last{rig.ring(), next.device.crash_losing_all_unsynced()};
    ASSERT_EQ(last.replayed, errc::ok);
    EXPECT_EQ(last.data(), next.data());
  }
}

// A failure on the way home poisons the medium; nothing is lost.
TEST(replay, that_fails_on_the_way_home_loses_nothing) {
  std::mt19937_64 random{9};
  image_rig rig;
  history past;
  live(rig, past, random, 40);
  ASSERT_TRUE(rig.medium->sync_appended().has_value());
  const auto left = rig.device.crash_losing_all_unsynced();
  const auto seen = rig.data();
  for (std::uint64_t k = 1;; ++k) {
    image_rig next{rig.ring(), left};
    ASSERT_EQ(next.replayed, errc::ok);
    next.device.fail_call(k);
    const status home = next.medium->checkpoint_step();
    image_rig last{rig.ring(), random_crash(next.device, random)};
    ASSERT_EQ(last.replayed, errc::ok) << last_message();
    EXPECT_EQ(last.data(), seen) << "call " << k;
    if (home) {
      EXPECT_GT(k, 3U);
      break;
    }
    EXPECT_TRUE(next.medium->poisoned());
    // All that was appended is durable and may be home already: what came before the failure keeps its answer.
    const status before = next.medium->sync_appended();
    EXPECT_TRUE(before || before.error() == errc::io);
  }
}

RC_GTEST_PROP(replay, into_memory_gives_the_same_and_leaves_the_file_alone, ()) {
  std::mt19937_64 random{*rc::gen::arbitrary<std::uint64_t>()};
  image_rig rig;
  history past;
  live(rig, past, random, 40);
  memory_device device{random_crash(rig.device, random)};
  const auto before = device.content();
  auto memory = before;
  const auto state = replay_to_memory(device, rig.ring(), memory.data(), memory.size());
  RC_ASSERT(state.has_value());
  RC_ASSERT(device.content() == before);
  RC_ASSERT(replay(device, rig.ring()).has_value());
  RC_ASSERT(data_of(device.content()) == data_of(memory));
}

// Damage of the last sync's records looks as if they had never been synced.  Anything before is refused:
// the last sync's records know that it was durable.
RC_GTEST_PROP(replay, a_damaged_word_of_the_ring_is_refused_or_costs_the_last_sync_only, ()) {
  std::mt19937_64 random{*rc::gen::arbitrary<std::uint64_t>()};
  image_rig rig;
  history past;
  std::size_t last = 0, before_last = 0;  // records that the latest two log syncs covered
  rig.hooks.before_sync = [&](edge e) {
    if (std::string{e.name} == "image/E1") before_last = std::exchange(last, past.records.size());
  };
  live(rig, past, random, 40);
  RC_ASSERT(rig.medium->sync_appended().has_value());
  past.acknowledged = before_last;
  const auto good = rig.device.crash_losing_all_unsynced();
  const auto& place = rig.ring().place;
  for (int i = 0; i < 100; ++i) {
    auto content = good;
    const std::uint64_t at = place.ring_offset() + random() % (place.ring_bytes() / 8) * 8;
    const std::uint64_t extreme[] = {0, 1, ~std::uint64_t{0}, place.ring_bytes(), random()};
    std::memcpy(&content[at], &extreme[random() % 5], 1 + random() % 8);
    memory_device device{content};
    const auto state = replay(device, rig.ring());
    if (!state) {
      RC_ASSERT(state.error() == errc::corrupt);
      RC_ASSERT(device.content() == content);
    } else {
      RC_ASSERT(past.allows(data_of(device.content())));
    }
  }
}

TEST(replay, damage_of_an_acknowledged_record_is_told_from_a_torn_end) {
  image_rig rig;
  std::vector<std::uint64_t> ends;
  for (std::uint64_t i = 0; i < 4; ++i) {
    image_media::batch b;
    rig.at(data_offset + 8 * i) = i + 1;
    b.add(&rig.at(data_offset + 8 * i), 8);
    ASSERT_TRUE(rig.medium->publish(b, no_stores, edge{"test/commit"}));
    ASSERT_TRUE(rig.medium->sync_appended().has_value());
    ends.push_back(rig.medium->durable_lsn());
  }
  const auto good = rig.device.crash_losing_all_unsynced();
  for (std::size_t damaged = 0; damaged < ends.size(); ++damaged) {
    auto content = good;
    content[rig.ring().place.offset_of(ends[damaged] - sector_bytes) + 50] ^= std::byte{4};
    image_rig after{rig.ring(), content};
    if (damaged + 1 < ends.size()) {
      EXPECT_EQ(after.replayed, errc::corrupt) << damaged;
      EXPECT_NE(std::string{last_message()}.find("log is damaged at offset"), std::string::npos) << last_message();
    } else {
      EXPECT_EQ(after.replayed, errc::ok) << "the end of the log, as a crash may leave it";
      EXPECT_EQ(after.at(data_offset + 8 * damaged), 0u);
    }
  }
}

TEST(replay, every_flipped_bit_of_the_headers_is_refused_or_costs_nothing) {
  std::mt19937_64 random{7};
  for (int life = 0; life < 3; ++life) {
    image_rig rig;
    history past;
    live(rig, past, random, 60 + 20 * static_cast<unsigned>(life));
    ASSERT_TRUE(rig.medium->sync_appended().has_value());
    past.acknowledged = past.records.size();
    const auto good = rig.device.crash_losing_all_unsynced();
    unsigned refused = 0, survived = 0;
    for (unsigned copy = 0; copy < 2; ++copy)
      for (std::uint64_t bit = 0; bit < 8 * sector_bytes; ++bit) {
        auto content = good;
        content[rig.ring().place.header_offset(copy) + bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
        memory_device device{std::move(content)};
        const auto state = replay(device, rig.ring());
        if (!state) {
          ASSERT_EQ(state.error(), errc::corrupt);
          ++refused;
        } else {
          ASSERT_TRUE(past.allows(data_of(device.content()))) << "copy " << copy << ", bit " << bit;
          ++survived;
        }
      }
    EXPECT_GE(survived, 8 * sector_bytes) << "the older copy is never needed";
    ASSERT_EQ(refused + survived, 16 * sector_bytes);
  }
}

TEST(replay, a_whole_record_behind_a_torn_one_does_not_come_to_life_later) {
  const auto ring = small_ring();
  auto rig = std::make_unique<image_rig>(ring);
  const auto commit = [](image_rig& r, std::uint64_t word, std::uint64_t value) {
    image_media::batch b;
    // Longer than a sector, so that each record has sectors of its own.
    r.at(data_offset + 1024 * word) = value;
    b.add(&r.at(data_offset + 1024 * word), 1000);
    return r.medium->publish(b, no_stores, edge{"test/commit"}).has_value();
  };
  ASSERT_TRUE(commit(*rig, 0, 1));
  ASSERT_TRUE(rig->medium->sync_appended().has_value());
  ASSERT_TRUE(commit(*rig, 1, 2) && commit(*rig, 2, 3));
  std::vector<std::byte> torn;
  rig->hooks.before_sync = [&](edge) {
    // The first sector of the second record is lost, all of the third is there.
    std::uint64_t first = ~std::uint64_t{0};
    torn = rig->device.crash([&](std::uint64_t sector, std::size_t versions) {
      first = std::min(first, sector);
      return sector == first ? std::size_t{0} : versions;
    });
  };
  ASSERT_TRUE(rig->medium->sync_appended().has_value());
  image_rig second{ring, torn};
  ASSERT_EQ(second.replayed, errc::ok);
  EXPECT_EQ(second.at(data_offset), 1u);
  EXPECT_EQ(second.at(data_offset + 1024), 0u);
  EXPECT_EQ(second.at(data_offset + 2048), 0u);
  // A record of the same size: in the same place the third one would follow it.
  ASSERT_TRUE(commit(second, 3, 4));
  ASSERT_TRUE(second.medium->sync_appended().has_value());
  image_rig third{ring, second.device.crash_losing_all_unsynced()};
  ASSERT_EQ(third.replayed, errc::ok);
  EXPECT_EQ(third.at(data_offset + 1024), 0u);
  EXPECT_EQ(third.at(data_offset + 2048), 0u) << "a record that was never acknowledged came back";
  EXPECT_EQ(third.at(data_offset + 3072), 4u);
}

TEST(replay, records_of_every_size_survive_laps_of_the_ring) {
  const auto ring = small_ring(6 * 1024);
  for (std::size_t bytes = 8; bytes + 1200 < ring.place.record_bytes_max(); bytes += 56) {
    image_rig rig{ring};
    for (std::uint64_t i = 1; i <= 30; ++i) {
      image_media::batch b;
      std::memset(rig.image() + data_offset, static_cast<int>(i), bytes);
      b.add(rig.image() + data_offset, bytes);
      ASSERT_TRUE(rig.medium->publish(b, no_stores, edge{"test/commit"})) << bytes;
      if (i % 3 == 0) continue;
      ASSERT_TRUE(rig.medium->sync_appended().has_value());
      image_rig after{ring, rig.device.crash_losing_all_unsynced()};
      ASSERT_EQ(after.replayed, errc::ok);
      ASSERT_EQ(std::memcmp(after.image() + data_offset, rig.image() + data_offset, bytes + 8), 0) << bytes;
    }
  }
}

TEST(replay, no_sector_of_the_log_is_written_twice_before_a_checkpoint) {
  struct : device_sink {
    void write(std::uint64_t offset, std::span<const std::byte> bytes) noexcept override {
      EXPECT_EQ(offset % sector_bytes, 0u);
      EXPECT_EQ(bytes.size() % sector_bytes, 0u);
      if (offset < ring_offset) return;
      for (std::uint64_t s = offset / sector_bytes; s * sector_bytes < offset + bytes.size(); ++s)
        EXPECT_EQ(written[s]++, 0u) << "sector " << s;
    }
    void sync(edge) noexcept override {}
    std::uint64_t ring_offset = 0;
    std::map<std::uint64_t, unsigned> written;
  } sink;
  image_rig rig{small_ring(12 * 1024)};
  sink.ring_offset = rig.ring().place.ring_offset();
  rig.device.report_to(&sink);
  for (std::uint64_t i = 0; i < 20; ++i) {
    image_media::batch b;
    b.add(rig.image() + data_offset, 8 + 13 * i);
    ASSERT_TRUE(rig.medium->publish(b, no_stores, edge{"test/commit"}));
    ASSERT_TRUE(rig.medium->sync_appended().has_value());
  }
  ASSERT_EQ(rig.medium->statistics().checkpoints, 0u);
  EXPECT_GE(sink.written.size(), 20u);
}

TEST(replay, failure_of_any_call_is_reported_and_a_second_replay_succeeds) {
  std::mt19937_64 random{3};
  image_rig rig;
  history past;
  live(rig, past, random, 30);
  ASSERT_TRUE(rig.medium->sync_appended().has_value());
  past.acknowledged = past.records.size();
  const auto left = rig.device.crash_losing_all_unsynced();
  memory_device dry{left};
  ASSERT_TRUE(replay(dry, rig.ring()));
  for (std::uint64_t k = 1; k <= dry.calls(); ++k) {
    memory_device device{left};
    device.fail_call(k);
    EXPECT_EQ(replay(device, rig.ring()).error(), errc::io) << "call " << k;
    memory_device again{random_crash(device, random)};
    ASSERT_TRUE(replay(again, rig.ring())) << last_message();
    EXPECT_TRUE(past.allows(data_of(again.content())));
  }
}

// The calls that a replay makes of a run with a record larger than what is read at once, and where a lost one was
// found.
TEST(replay, failure_of_any_read_of_a_large_record_is_reported) {
  const ring_identity ring{.place = {.log_offset = 4096, .log_bytes = 512 * 1024}};
  constexpr std::uint64_t bytes = 200 * 1024;
  constexpr std::uint64_t file = 1024 * 1024;
  const auto put = [&](std::vector<std::byte>& content, lsn_t lsn, lsn_t durable) {
    std::byte* const at = &content[ring.place.offset_of(lsn)];
    const layout::ring_entry entry{.offset = file - bytes, .bytes = bytes / 2};
    std::memcpy(at + sizeof(layout::ring_record), &entry, sizeof entry);
    std::memset(at + sizeof(layout::ring_record) + sizeof entry, 5, entry.bytes);
    seal_record(at, lsn, durable, bytes, 1, ring.uuid);
  };
  memory_device empty{file};
  ASSERT_TRUE(format_ring(empty, ring));
  ASSERT_TRUE(write_ring_header(empty, ring, 1, 3, sector_bytes));  // not closed
  std::vector<std::byte> good = empty.content();
  put(good, sector_bytes, 0);
  std::vector<std::byte> lost = good;
  put(lost, sector_bytes + bytes + sector_bytes, sector_bytes + bytes + sector_bytes);
  for (const auto* content : {&good, &lost}) {
    const errc outcome = content == &good ? errc::ok : errc::corrupt;
    memory_device dry{*content};
    ASSERT_EQ(replay(dry, ring).error(), outcome) << last_message();
    if (outcome == errc::ok) {
      EXPECT_EQ(dry.content()[file - bytes / 2 - 1], std::byte{5});
    }
    ASSERT_GT(dry.calls(), 4U);
    for (std::uint64_t k = 1; k <= dry.calls(); ++k) {
      memory_device device{*content};
      device.fail_call(k);
      EXPECT_EQ(replay(device, ring).error(), errc::io) << "call " << k;
    }
  }
}

// A device that cannot say how large it is when it is asked for the n-th time.
class of_unknown_size final : public block_device {
 public:
  of_unknown_size(memory_device& inner, unsigned n) : inner_{inner}, left_{n} {}
  ~of_unknown_size() = default;
  status write(std::uint64_t offset, const void* from, std::size_t bytes, site s = site::here()) noexcept override {
    return inner_.write(offset, from, bytes, s);
  }
  status read(std::uint64_t offset, void* to, std::size_t bytes) noexcept override {
    return inner_.read(offset, to, bytes);
  }
  status sync(edge e) noexcept override { return inner_.sync(e); }
  result<std::uint64_t> size() noexcept override {
    if (--left_ == 0) return fail(errc::io, "no size");
    return inner_.size();
  }

 private:
  memory_device& inner_;
  unsigned left_;
};

TEST(replay, a_file_of_unknown_size_is_not_written_to) {
  std::mt19937_64 random{4};
  image_rig rig;
  history past;
  live(rig, past, random, 30);
  ASSERT_TRUE(rig.medium->sync_appended().has_value());
  const auto left = rig.device.crash_losing_all_unsynced();
  unsigned n = 1;
  for (;; ++n) {
    memory_device inner{left};
    of_unknown_size device{inner, n};
    const auto state = replay(device, rig.ring());
    if (state) break;
    EXPECT_EQ(state.error(), errc::io) << n;
    EXPECT_EQ(inner.content(), left) << n;
  }
  EXPECT_GT(n, 2U);
}

TEST(replay, of_an_empty_run_asks_the_device_for_nothing) {
  image_rig rig;
  memory_device device{rig.device.content()};
  auto run = read_log(device, rig.ring());
  ASSERT_TRUE(run && run->empty()) << last_message();
  const auto home = home_writer::make(device);
  ASSERT_TRUE(home);
  device.fail_call(1, true);
  EXPECT_TRUE(bring_home(device, rig.ring(), *run, **home)) << last_message();
}

// ---- hostile files ----------------------------------------------------------------------------------

TEST(replay, a_record_that_targets_what_it_may_not_is_refused_before_anything_is_written) {
  const std::uint64_t huge = ~std::uint64_t{0};
  const auto log = small_ring().place;
  const layout::ring_entry good{data_offset, 8};
  const layout::ring_entry bad[] = {
      {file_bytes, 8},
      {file_bytes - 4, 8},
      {huge, 8},
      {huge - 7, 8},
      {data_offset, 0},
      {data_offset, huge},
      {data_offset, 4000},
      {log.log_offset, 8},
      {log.log_offset - 4, 8},
      {log.log_offset + log.log_bytes - 1, 8},
  };
  for (const auto& entry : bad) {
    forged f;
    f.record({good, entry}, 96, 2);
    EXPECT_EQ(f.outcome(), errc::corrupt) << entry.offset << " " << entry.bytes;
  }
  forged f;
  f.record({good, {data_offset + 8, 8}}, 96, 2);
  EXPECT_EQ(f.outcome(), errc::ok) << "the good twin";
  for (const std::uint32_t count : {3u, 4u, 1000u, ~0u}) {
    forged g;
    g.record({good, good}, 96, count);
    EXPECT_EQ(g.outcome(), errc::corrupt) << count;
  }
}

TEST(replay, a_record_counts_at_its_own_lsn_and_as_a_whole) {
  const ring_identity ring = small_ring();
  alignas(8) std::byte bytes[3 * layout::ring_unit] = {};
  const layout::ring_entry entry{data_offset, 8};
  std::memcpy(bytes + sizeof(layout::ring_record), &entry, sizeof entry);
  constexpr lsn_t lsn = 7 * sector_bytes;
  std::uint8_t pool[16];
  std::memcpy(pool, ring.uuid, sizeof pool);
  seal_record(bytes, lsn, lsn, 2 * layout::ring_unit, 1, pool);
  const std::span<const std::byte> whole{bytes, 2 * layout::ring_unit};
  EXPECT_EQ(check_record(whole, lsn, pool), record_kind::data);
  EXPECT_EQ(check_record(whole, lsn + layout::ring_unit, pool), record_kind::invalid);
  EXPECT_EQ(check_record({bytes, 3 * layout::ring_unit}, lsn, pool), record_kind::invalid);
  for (std::size_t n = 0; n < whole.size(); ++n) {
    EXPECT_EQ(check_record(whole.first(n), lsn, pool), record_kind::invalid) << n;
  }
  seal_record(bytes, lsn, lsn, 2 * layout::ring_unit, 0, pool);
  EXPECT_EQ(check_record(whole, lsn, pool), record_kind::pad);
  pool[3] ^= 1;
  EXPECT_EQ(check_record(whole, lsn, pool), record_kind::invalid);
}

// The last record claims to go on where the run began: it would be longer than the ring.
TEST(replay, a_run_is_no_longer_than_its_ring) {
  forged f;
  const std::uint64_t ring_bytes = f.ring.place.ring_bytes();
  f.header(1, [](layout::ring_header& h) { h.checkpoint_lsn = sector_bytes; });
  const auto put = [&](lsn_t lsn, std::uint64_t target, std::uint64_t bytes) {
    std::byte* const at = &f.content[f.ring.place.offset_of(lsn)];
    const layout::ring_entry entry{target, 8};
    std::memcpy(at + sizeof(layout::ring_record), &entry, sizeof entry);
    std::memset(at + sizeof(layout::ring_record) + sizeof entry, 5, 8);
    seal_record(at, lsn, 0, bytes, 1, f.ring.uuid);
  };
  for (const bool too_long : {true, false}) {
    put(sector_bytes, data_offset, ring_bytes - sector_bytes);
    put(ring_bytes, data_offset + 8, too_long ? 2 * sector_bytes : sector_bytes);
    memory_device device{f.content};
    const auto state = replay(device, f.ring);
    ASSERT_TRUE(state) << last_message();
    EXPECT_EQ(state->records, too_long ? 1U : 2U);
    EXPECT_EQ(device.content()[data_offset], std::byte{5});
    EXPECT_EQ(device.content()[data_offset + 8], too_long ? std::byte{0} : std::byte{5});
  }
}

TEST(replay, into_memory_goes_no_further_than_the_file) {
  forged f;
  f.record({{file_bytes, 8}, {data_offset, 8}}, 96, 2);
  memory_device device{f.content};
  std::vector<std::byte> mapping(2 * file_bytes);
  EXPECT_EQ(replay_to_memory(device, f.ring, mapping.data(), mapping.size()).error(), errc::corrupt);
  EXPECT_EQ(mapping, std::vector<std::byte>(2 * file_bytes));
}

TEST(replay, a_header_that_contradicts_its_place_is_refused) {
  const auto both = [](auto change) {
    forged f;
    for (unsigned copy = 0; copy < 2; ++copy) f.header(copy, change);
    return f.outcome();
  };
  using header = layout::ring_header;
  EXPECT_EQ(both([](header& h) { h.ring_bytes *= 2; }), errc::corrupt);
  EXPECT_EQ(both([](header& h) { h.checkpoint_lsn = 100; }), errc::corrupt);
  EXPECT_EQ(both([](header& h) { h.checkpoint_lsn = ~std::uint64_t{511}; }), errc::corrupt);
  EXPECT_EQ(both([](header& h) { h.uuid[3] ^= 1; }), errc::corrupt);
  EXPECT_EQ(both([](header& h) { h.reserved[50] = 1; }), errc::corrupt);
  EXPECT_EQ(both([](header& h) { h.magic += 1; }), errc::corrupt);
  EXPECT_EQ(both([](header& h) { h.sequence = 5; }), errc::corrupt) << "equal generations";
  EXPECT_EQ(both([](header& h) { h.checkpoint_lsn = layout::lsn_max - 512; }), errc::ok) << "large, but sane";
  EXPECT_EQ(both([](header& h) { h.checkpoint_lsn = layout::lsn_max; }), errc::corrupt);
  EXPECT_EQ(both([](header&) {}), errc::ok) << "the good twin";
}

TEST(replay, a_log_area_outside_the_file_is_refused) {
  for (const layout::ring_place place :
       {layout::ring_place{file_bytes, 8192}, layout::ring_place{file_bytes - 4096, 8192},
        layout::ring_place{100, 8192}, layout::ring_place{4096, 0}, layout::ring_place{4096, 1024},
        layout::ring_place{~std::uint64_t{4095}, 8192}, layout::ring_place{4096, ~std::uint64_t{511}}}) {
    memory_device device{file_bytes};
    ring_identity ring = small_ring();
    ring.place = place;
    EXPECT_EQ(replay(device, ring).error(), errc::corrupt) << place.log_offset << " " << place.log_bytes;
  }
}

}  // namespace
}  // namespace nvm
