// The image medium: acknowledged changes are there after any crash, and only durable ones are acknowledged.
#include "media/image_media.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "image_rig.hpp"
#include "media/checkpointer.hpp"
#include "media/media.hpp"

namespace nvm {
namespace {

using namespace test;

static_assert(image_media::atomic_batches);

const auto no_stores = [] {};

TEST(image_media, nothing_reaches_the_file_before_durable) {
  image_rig rig;
  const auto before = rig.device.content();
  ASSERT_TRUE(commit_word(rig, 0, 1));
  rig.medium->flush(&rig.at(data_offset), 8);
  rig.medium->fence(edge{"test/fence"});
  EXPECT_EQ(rig.device.content(), before);
  EXPECT_EQ(rig.device.syncs(), 1u) << "the one of creation";
}

TEST(image_media, what_durable_acknowledged_survives_the_loss_of_everything_unsynced) {
  image_rig rig;
  const result<lsn_t> lsn = commit_word(rig, 5, 77);
  ASSERT_TRUE(lsn);
  ASSERT_TRUE(rig.medium->durable(*lsn).has_value());
  image_rig after{rig.ring(), rig.device.crash_losing_all_unsynced()};
  ASSERT_EQ(after.replayed, errc::ok);
  EXPECT_EQ(after.at(data_offset + 40), 77u);
}

TEST(image_media, a_flushed_range_is_captured_as_it_was_at_the_flush) {
  image_rig rig;
  rig.at(data_offset) = 1;
  rig.medium->flush(&rig.at(data_offset), 8);
  const lsn_t lsn = rig.medium->last_lsn();
  rig.at(data_offset) = 2;
  ASSERT_TRUE(rig.medium->durable(lsn).has_value());
  image_rig after{rig.ring(), rig.device.crash_losing_all_unsynced()};
  EXPECT_EQ(after.at(data_offset), 1u);
}

TEST(image_media, exactly_the_flushed_bytes_are_captured) {
  image_rig rig;
  std::memset(rig.image() + data_offset, 0xAA, 256);
  rig.medium->flush(rig.image() + data_offset + 61, 7);  // unaligned, over a line's end
  ASSERT_TRUE(rig.medium->durable(rig.medium->last_lsn()).has_value());
  image_rig after{rig.ring(), rig.device.crash_losing_all_unsynced()};
  for (std::uint64_t i = 0; i < 256; ++i)
    EXPECT_EQ(after.at<std::uint8_t>(data_offset + i), i >= 61 && i < 68 ? 0xAA : 0) << i;
}

TEST(image_media, a_flush_larger_than_a_record_is_split_and_whole) {
  image_rig rig;
  for (std::uint64_t i = 0; i < 4096; ++i) rig.at(data_offset + 8 * i) = i + 1;
  rig.medium->flush(rig.image() + data_offset + 3, 8 * 4096 - 3);
  ASSERT_TRUE(rig.medium->durable(rig.medium->last_lsn()).has_value());
  EXPECT_GT(rig.medium->statistics().checkpoints, 0u) << "32 KiB through a ring of 7 KiB";
  image_rig after{rig.ring(), rig.device.crash_losing_all_unsynced()};
  EXPECT_EQ(std::memcmp(after.image() + data_offset + 3, rig.image() + data_offset + 3, 8 * 4096 - 3), 0);
  EXPECT_EQ(after.at<std::uint8_t>(data_offset), 0);
}

TEST(image_media, a_batch_is_all_or_nothing_for_random_subsets_of_its_sectors) {
  std::mt19937_64 random{1};
  image_rig rig;
  unsigned whole = 0, none = 0;
  rig.hooks.before_sync = [&](edge e) {
    if (std::string{e.name} != "image/E1") return;
    for (int i = 0; i < 300; ++i) {
      image_rig after{rig.ring(), random_crash(rig.device, random)};
      ASSERT_EQ(after.replayed, errc::ok);
      const bool all = after.at(data_offset) == 9;
      ++(all ? whole : none);
      for (int j = 0; j < 20; ++j) {
        ASSERT_EQ(after.at(data_offset + 1000 * j), all ? 9u : 0u);
        ASSERT_EQ(after.at(data_offset + 1000 * j + 80), all ? 9u : 0u);
      }
    }
  };
  image_media::batch b;
  for (int i = 0; i < 20; ++i) {
    rig.at(data_offset + 1000 * i) = rig.at(data_offset + 1000 * i + 80) = 9;
    b.add(&rig.at(data_offset + 1000 * i), 100);
  }
  ASSERT_TRUE(rig.medium->publish(b, no_stores, edge{"test/commit"}));
  ASSERT_TRUE(rig.medium->durable(rig.medium->last_lsn()).has_value());
  EXPECT_GT(whole, 0u);
  EXPECT_GT(none, 0u);
}

TEST(image_media, publish_runs_the_stores_inside_and_captures_what_they_add) {
  image_rig rig;
  image_media::batch b;
  bool ran = false;
  auto& word = rig.at(data_offset);
  const result<lsn_t> lsn = rig.medium->publish(
      b,
      [&] {
        ran = true;
        word = 42;
        b.add(&word, 8);
      },
      edge{"test/commit"});
  ASSERT_TRUE(lsn);
  EXPECT_TRUE(ran);
  EXPECT_TRUE(b.empty()) << "cleared for the next transaction";
  ASSERT_TRUE(rig.medium->durable(*lsn).has_value());
  image_rig after{rig.ring(), rig.device.crash_losing_all_unsynced()};
  EXPECT_EQ(after.at(data_offset), 42u);
}

TEST(image_media, a_batch_that_can_never_fit_is_refused_and_its_stores_do_not_run) {
  image_rig rig;
  image_media::batch b;
  b.add(rig.image() + data_offset, 4096);
  bool ran = false;
  const result<lsn_t> lsn = rig.medium->publish(b, [&] { ran = true; }, edge{"test/commit"});
  EXPECT_EQ(lsn.error(), errc::log_full);
  EXPECT_FALSE(ran);
  EXPECT_NE(std::string{last_message()}.find("3584"), std::string::npos) << last_message();
  EXPECT_EQ(rig.medium->statistics().records, 0u);
  // Room announced for the stores counts too.
  b.clear();
  b.add(rig.image() + data_offset, 1024);
  b.expect(100, 800);
  EXPECT_EQ(rig.medium->publish(b, no_stores, edge{"test/commit"}).error(), errc::log_full);
  b.clear();
  b.add(rig.image() + data_offset, 2048);
  EXPECT_TRUE(rig.medium->publish(b, no_stores, edge{"test/commit"}));
}

TEST(image_media, decorators_pass_batches_through) {
  struct : record_sink {
    std::size_t ranges = 0;
    lsn_t published = 0;
    void flush(const void*, std::size_t, site) noexcept override {}
    void fence(edge) noexcept override {}
    void publish(std::span<const recorded_range> r, edge, lsn_t lsn, errc) noexcept override {
      ranges = r.size();
      published = lsn;
    }
    void durable_begin(lsn_t) noexcept override {}
    void durable_end(lsn_t, errc) noexcept override {}
  } sink;
  image_rig rig;
  meter counts;
  recorder recording{*rig.medium, sink};
  latency_media slow{recording, {}};
  meter_media m{slow, counts};
  static_assert(media<decltype(m)> && decltype(m)::atomic_batches);
  decltype(m)::batch b;
  for (int round = 0; round < 2; ++round) {
    rig.at(data_offset) = 4;
    b.add(&rig.at(data_offset), 8);
    const result<lsn_t> lsn = m.publish(
        b,
        [&] {
          rig.at(data_offset + 8) = 5;
          b.add(&rig.at(data_offset + 8), 8);
        },
        edge{"test/commit"});
    ASSERT_TRUE(lsn && m.durable(*lsn));
    EXPECT_EQ(sink.ranges, 2u);
    EXPECT_EQ(sink.published, *lsn);
  }
  EXPECT_EQ(counts.read().publishes, 2u);
  image_rig after{rig.ring(), rig.device.crash_losing_all_unsynced()};
  EXPECT_EQ(after.at(data_offset), 4u);
  EXPECT_EQ(after.at(data_offset + 8), 5u);
}

TEST(image_media, an_empty_batch_and_an_empty_flush_write_nothing) {
  image_rig rig;
  const lsn_t before = rig.medium->last_lsn();
  image_media::batch b;
  b.add(rig.image() + data_offset, 0);
  const result<lsn_t> lsn = rig.medium->publish(b, no_stores, edge{"test/commit"});
  ASSERT_TRUE(lsn);
  EXPECT_EQ(*lsn, before);
  rig.medium->flush(rig.image() + data_offset, 0);
  EXPECT_EQ(rig.medium->statistics().records, 0u);
}

TEST(image_media, an_lsn_not_given_out_is_refused) {
  image_rig rig;
  EXPECT_EQ(rig.medium->durable(rig.medium->last_lsn() + 1).error(), errc::invalid);
}

TEST(image_media, one_thread_pays_one_log_sync_a_commit) {
  image_rig rig;
  for (std::uint64_t i = 0; i < 20; ++i) {
    const result<lsn_t> lsn = commit_word(rig, i, i + 1);
    ASSERT_TRUE(lsn && rig.medium->durable(*lsn));
    ASSERT_TRUE(rig.medium->durable(*lsn).has_value()) << "durable already";
  }
  EXPECT_EQ(rig.device.syncs("image/E1"), 20u);
  EXPECT_EQ(rig.medium->statistics().log_syncs, 20u);
  EXPECT_LE(rig.device.syncs("image/E4"), 1u);
}

TEST(image_media, eight_threads_share_their_log_syncs) {
  image_rig rig;
  // Syncs take a while, as on a real device: others append meanwhile.
  rig.hooks.before_sync = [](edge) { std::this_thread::sleep_for(std::chrono::microseconds{300}); };
  constexpr std::uint64_t commits = 100;
  std::array<std::thread, 8> threads;
  for (std::uint64_t t = 0; t < threads.size(); ++t)
    threads[t] = std::thread{[&, t] {
      for (std::uint64_t i = 1; i <= commits; ++i) {
        const result<lsn_t> lsn = commit_word(rig, 8 * t, i);
        ASSERT_TRUE(lsn && rig.medium->durable(*lsn));
      }
    }};
  for (auto& t : threads) t.join();
  const image_statistics s = rig.medium->statistics();
  EXPECT_EQ(s.records, 8 * commits);
  EXPECT_LT(s.log_syncs, 8 * commits / 2) << "fewer syncs than commits";
  image_rig after{rig.ring(), rig.device.crash_losing_all_unsynced()};
  ASSERT_EQ(after.replayed, errc::ok);
  for (std::uint64_t t = 0; t < threads.size(); ++t) EXPECT_EQ(after.at(data_offset + 64 * t), commits);
}

TEST(image_media, a_full_ring_makes_room_without_anybodys_help) {
  image_rig rig;
  for (std::uint64_t i = 0; i < 2000; ++i) ASSERT_TRUE(commit_word(rig, i % 512, i + 1));
  const image_statistics s = rig.medium->statistics();
  EXPECT_GT(s.stalls, 0u);
  EXPECT_GT(s.checkpoints, 10u);
  ASSERT_TRUE(rig.medium->durable(rig.medium->last_lsn()).has_value());
  image_rig after{rig.ring(), rig.device.crash_losing_all_unsynced()};
  ASSERT_EQ(after.replayed, errc::ok);
  EXPECT_EQ(std::memcmp(after.image() + data_offset, rig.image() + data_offset, 512 * 8), 0);
}

TEST(image_media, eight_threads_with_records_of_all_sizes_get_through_a_small_ring) {
  image_rig rig;
  std::array<std::thread, 8> threads;
  for (std::uint64_t t = 0; t < threads.size(); ++t)
    threads[t] = std::thread{[&, t] {
      std::mt19937_64 random{t};
      std::byte* mine = rig.image() + data_offset + 4096 * t;
      for (std::uint64_t i = 1; i <= 60; ++i) {
        image_media::batch b;
        // One thread needs nearly half the ring each time and may not be starved.
        const std::size_t bytes = t == 0 ? 2400 : 8 + random() % 500;
        std::memset(mine, static_cast<int>(i), bytes);
        b.add(mine, bytes);
        const result<lsn_t> lsn = rig.medium->publish(b, no_stores, edge{"test/commit"});
        ASSERT_TRUE(lsn);
        if (i % 4 == 0) {
          ASSERT_TRUE(rig.medium->durable(*lsn).has_value());
        }
      }
      ASSERT_TRUE(rig.medium->durable(rig.medium->last_lsn()).has_value());
    }};
  for (auto& t : threads) t.join();
  EXPECT_GT(rig.medium->statistics().checkpoints, 0u);
  image_rig after{rig.ring(), rig.device.crash_losing_all_unsynced()};
  ASSERT_EQ(after.replayed, errc::ok);
  EXPECT_EQ(std::memcmp(after.image() + data_offset, rig.image() + data_offset, 8 * 4096), 0);
}

TEST(image_media, captures_of_one_line_by_two_threads_end_with_its_final_content) {
  image_rig rig;
  auto* line = reinterpret_cast<std::uint64_t*>(rig.image() + data_offset);
  std::array<std::thread, 2> threads;
  for (std::uint64_t t = 0; t < 2; ++t)
    threads[t] = std::thread{[&, t] {
      for (std::uint64_t i = 1; i <= 2000; ++i) {
        std::atomic_ref{line[t]}.store(i, std::memory_order_release);
        rig.medium->flush(line, 64);
        if (i % 500 == 0) {
          ASSERT_TRUE(rig.medium->sync_appended().has_value());
        }
      }
      ASSERT_TRUE(rig.medium->durable(rig.medium->last_lsn()).has_value());
    }};
  for (auto& t : threads) t.join();
  image_rig after{rig.ring(), rig.device.crash_losing_all_unsynced()};
  ASSERT_EQ(after.replayed, errc::ok);
  EXPECT_EQ(after.at(data_offset), 2000u);
  EXPECT_EQ(after.at(data_offset + 8), 2000u);
}

TEST(image_media, order_of_lsns_is_order_of_captures) {
  // Each record's line holds a ticket that only grows: replayed in order of LSN it may never shrink.
  image_rig rig{small_ring(12 * 1024)};
  auto& ticket = rig.at(data_offset);
  std::array<std::thread, 2> threads;
  for (auto& t : threads)
    t = std::thread{[&] {
      for (int i = 0; i < 40; ++i) {
        std::atomic_ref{ticket}.fetch_add(1, std::memory_order_acq_rel);
        rig.medium->flush(&ticket, 8);
      }
    }};
  for (auto& t : threads) t.join();
  ASSERT_TRUE(rig.medium->sync_appended().has_value());
  ASSERT_EQ(rig.medium->statistics().checkpoints, 0u);
  const auto content = rig.device.crash_losing_all_unsynced();
  memory_device device{content};
  const result<ring_state> state = read_ring(device, rig.ring());
  ASSERT_TRUE(state);
  ring_scanner scanner{device, rig.ring(), state->checkpoint};
  std::uint64_t last = 0;
  unsigned records = 0;
  for (;;) {
    const auto record = scanner.next();
    ASSERT_TRUE(record);
    if (record->empty()) break;
    ASSERT_TRUE(each_entry(*record, rig.ring().place, file_bytes,
                           [&](std::uint64_t, const std::byte* data, std::size_t) noexcept -> status {
                             std::uint64_t value = 0;
                             std::memcpy(&value, data, 8);
                             EXPECT_GE(value, last);
                             last = value;
                             ++records;
                             return {};
                           })
                    .has_value());
  }
  EXPECT_EQ(records, 80u);
  EXPECT_EQ(last, 80u);
}

TEST(image_media, a_captured_line_never_shows_a_flag_without_the_bytes_stored_before_it) {
  alignas(64) std::array<std::uint64_t, 8> line{};
  std::atomic<bool> stop{false};
  std::thread writer{[&] {
    for (std::uint64_t i = 1; !stop.load(std::memory_order_relaxed); ++i)
      for (auto& word : line) std::atomic_ref{word}.store(i, std::memory_order_release);
  }};
  for (int round = 0; round < 200'000; ++round) {
    std::array<std::uint64_t, 8> seen{};
    capture(reinterpret_cast<std::byte*>(seen.data()), line.data(), 64);
    for (std::size_t i = 1; i < seen.size(); ++i)
      ASSERT_LE(seen[i], seen[i - 1]) << "a later store without an earlier one of its line";
  }
  stop.store(true, std::memory_order_relaxed);
  writer.join();
}

TEST(image_media, quiesce_leaves_an_empty_log_and_everything_home) {
  image_rig rig;
  for (std::uint64_t i = 0; i < 50; ++i) ASSERT_TRUE(commit_word(rig, i, i + 1));
  ASSERT_TRUE(rig.medium->quiesce().has_value());
  const std::uint64_t calls = rig.device.calls();
  ASSERT_TRUE(rig.medium->quiesce().has_value());
  EXPECT_EQ(rig.device.calls(), calls) << "nothing to do the second time";
  const auto content = rig.device.crash_losing_all_unsynced();
  EXPECT_EQ(std::memcmp(&content[data_offset], rig.image() + data_offset, 400), 0);
  memory_device device{content};
  const result<ring_state> state = replay(device, rig.ring());
  ASSERT_TRUE(state);
  EXPECT_EQ(state->records, 0u);
  EXPECT_EQ(device.content(), content) << "an empty log costs no write";
  ASSERT_TRUE(commit_word(rig, 0, 100)) << "and life goes on";
}

TEST(image_media, a_closed_log_is_opened_without_looking_at_the_ring) {
  image_rig rig;
  for (std::uint64_t i = 0; i < 300; ++i) ASSERT_TRUE(commit_word(rig, i, i + 1));
  ASSERT_TRUE(rig.medium->close().has_value());
  EXPECT_EQ(commit_word(rig, 0, 1).error(), errc::io) << "closed is closed";
  memory_device device{rig.device.crash_keeping_all()};
  const result<ring_state> state = replay(device, rig.ring());
  ASSERT_TRUE(state);
  EXPECT_TRUE(state->closed);
  EXPECT_EQ(device.calls(), 2u) << "two headers";
  // The second header was not synced: without it the log is searched, and found empty.
  image_rig after{rig.ring(), rig.device.crash_losing_all_unsynced()};
  ASSERT_EQ(after.replayed, errc::ok);
  EXPECT_EQ(after.at(data_offset + 8 * 299), 300u);
}

TEST(image_media, an_unclean_log_is_never_taken_for_a_closed_one) {
  image_rig first;  // created, hence closed
  ASSERT_TRUE(commit_word(first, 0, 1));
  ASSERT_TRUE(first.medium->sync_appended().has_value());
  image_rig second{first.ring(), first.device.crash_losing_all_unsynced()};
  EXPECT_EQ(second.at(data_offset), 1u);
  ASSERT_TRUE(second.medium->close().has_value());
  image_rig third{first.ring(), second.device.crash_keeping_all()};  // was closed
  ASSERT_TRUE(commit_word(third, 1, 2));
  ASSERT_TRUE(third.medium->sync_appended().has_value());
  image_rig fourth{first.ring(), third.device.crash_losing_all_unsynced()};
  EXPECT_EQ(fourth.at(data_offset + 8), 2u);
}

TEST(image_media, either_header_may_be_damaged_after_a_clean_close) {
  image_rig rig;
  for (std::uint64_t i = 0; i < 300; ++i) ASSERT_TRUE(commit_word(rig, i, i + 1));
  ASSERT_TRUE(rig.medium->close().has_value());
  for (unsigned copy = 0; copy < 2; ++copy) {
    auto content = rig.device.crash_keeping_all();
    content[rig.ring().place.header_offset(copy) + 20] ^= std::byte{1};
    image_rig after{rig.ring(), content};
    ASSERT_EQ(after.replayed, errc::ok);
    EXPECT_EQ(after.at(data_offset + 8 * 299), 300u);
    ASSERT_TRUE(commit_word(after, 0, 1000));
    ASSERT_TRUE(after.medium->close().has_value());
    image_rig again{rig.ring(), after.device.crash_keeping_all()};
    EXPECT_EQ(again.at(data_offset), 1000u);
  }
}

TEST(image_media, the_checkpointer_empties_the_log_in_the_background) {
  image_rig rig;
  checkpointer background;
  ASSERT_TRUE(background.start(*rig.medium, std::chrono::milliseconds{5}).has_value());
  const result<lsn_t> lsn = commit_word(rig, 3, 33);
  ASSERT_TRUE(lsn);
  // Nobody waits for the commit: the interval makes it durable and brings it home.
  for (int i = 0; i < 2000 && rig.medium->statistics().checkpoints == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  EXPECT_GE(rig.medium->durable_lsn(), *lsn);
  background.stop();
  const auto content = rig.device.crash_losing_all_unsynced();
  std::uint64_t word = 0;
  std::memcpy(&word, &content[data_offset + 24], 8);
  EXPECT_EQ(word, 33u);
  const std::uint64_t calls = rig.device.calls();
  EXPECT_FALSE(background.running());
  std::this_thread::sleep_for(std::chrono::milliseconds{20});
  EXPECT_EQ(rig.device.calls(), calls) << "it has stopped";
}

TEST(image_media, the_checkpointer_works_beside_writers) {
  image_rig rig;
  checkpointer background;
  ASSERT_TRUE(background.start(*rig.medium, std::chrono::milliseconds{1}).has_value());
  std::array<std::thread, 3> threads;
  for (std::uint64_t t = 0; t < threads.size(); ++t)
    threads[t] = std::thread{[&, t] {
      for (std::uint64_t i = 1; i <= 500; ++i) {
        const result<lsn_t> lsn = commit_word(rig, 8 * t, i);
        ASSERT_TRUE(lsn);
        if (i % 50 == 0) {
          ASSERT_TRUE(rig.medium->durable(*lsn).has_value());
        }
      }
    }};
  for (auto& t : threads) t.join();
  background.stop();
  ASSERT_TRUE(rig.medium->quiesce().has_value());
  const auto content = rig.device.crash_losing_all_unsynced();
  EXPECT_EQ(std::memcmp(&content[data_offset], rig.image() + data_offset, 512), 0);
}

TEST(image_media, a_poisoned_medium_ends_the_checkpointer) {
  image_rig rig;
  checkpointer background;
  rig.device.fail_call(1, true);
  ASSERT_TRUE(background.start(*rig.medium, std::chrono::milliseconds{1}).has_value());
  ASSERT_TRUE(commit_word(rig, 0, 1));
  for (int i = 0; i < 2000 && !rig.medium->poisoned(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds{1});
  EXPECT_TRUE(rig.medium->poisoned());
  background.stop();
}

// A pool file on a real file system with a private mapping as its image.
struct real_file {
  real_file() {
    std::string name = std::filesystem::temp_directory_path().string() + "/holdfast-image-XXXXXX";
    const int descriptor = ::mkstemp(name.data());
    if (descriptor < 0) return;
    ::close(descriptor);
    path = name;
    auto opened = platform::file::open(path.c_str(), O_RDWR);
    if (opened) file = std::move(*opened);
  }
  ~real_file() { std::filesystem::remove(path); }
  std::string path;
  platform::file file;
};

TEST(image_media, works_on_a_real_file_and_gives_clean_pages_back) {
  real_file real;
  ASSERT_TRUE(real.file);
  ASSERT_TRUE(real.file.allocate(0, file_bytes).has_value());
  file_device device{real.file};
  const ring_identity ring = small_ring();
  const result<ring_state> state = format_ring(device, ring);
  ASSERT_TRUE(state && device.sync(edge{"test/create"}));
  void* mapped = ::mmap(nullptr, file_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, real.file.descriptor(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  auto* base = static_cast<std::byte*>(mapped);
  auto medium = image_media::open(device, {.base = base, .bytes = file_bytes, .ring = ring, .guest = {}}, *state);
  ASSERT_TRUE(medium);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    image_media::batch b;
    std::memset(base + data_offset + 32 * i, static_cast<int>(i), 32);
    b.add(base + data_offset + 32 * i, 32);
    const result<lsn_t> lsn = (*medium)->publish(b, no_stores, edge{"test/commit"});
    ASSERT_TRUE(lsn);
    if (i % 250 == 0) {
      ASSERT_TRUE((*medium)->durable(*lsn).has_value());
    }
  }
  std::uint64_t* uncommitted = reinterpret_cast<std::uint64_t*>(base + file_bytes - 8);
  *uncommitted = 5;
  ASSERT_TRUE((*medium)->drop_clean().has_value());
  EXPECT_EQ(*uncommitted, 0u) << "the file never heard of it";
  for (std::uint64_t i = 0; i < 1000; ++i)
    ASSERT_EQ(std::to_integer<int>(base[data_offset + 32 * i + 31]), static_cast<int>(i & 0xFF));
  medium->reset();
  ::munmap(mapped, file_bytes);
}

}  // namespace
}  // namespace nvm
