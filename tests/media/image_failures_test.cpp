// The image medium on a device that fails: no acknowledged change is lost, and no change is acknowledged wrongly.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "image_rig.hpp"
#include "media/checkpointer.hpp"
#include "media/media.hpp"

namespace nvm {
namespace {

using namespace test;

TEST(image_media, failure_of_any_call_poisons_and_loses_nothing_acknowledged) {
  constexpr std::uint64_t commits = 120;  // several laps of the ring, several checkpoints
  image_rig dry;
  const std::uint64_t before = dry.device.calls();
  ASSERT_EQ(commit_until_refused(dry, commits), commits);
  const std::uint64_t calls = dry.device.calls() - before;
  ASSERT_GT(dry.medium->statistics().checkpoints, 1u);
  for (const bool for_ever : {false, true}) {
    for (std::uint64_t k = 1; k <= calls; ++k) {
      image_rig rig;
      rig.device.fail_call(k, for_ever);
      const std::uint64_t acknowledged = commit_until_refused(rig, commits);
      ASSERT_LT(acknowledged, commits) << "call " << k << " failed unnoticed";
      ASSERT_TRUE(rig.medium->poisoned());
      // Later calls of the device would succeed; nothing may be believed any more.
      ASSERT_EQ(commit_word(rig, 0, 999).error(), errc::io);
      ASSERT_EQ(rig.medium->durable(rig.medium->last_lsn()).error(), errc::io);
      ASSERT_NE(std::string{last_message()}.find("injected"), std::string::npos) << last_message();
      ASSERT_EQ(rig.medium->quiesce().error(), errc::io);
      ASSERT_EQ(rig.medium->checkpoint_step().error(), errc::io);
      rig.device.fail_call(0);
      image_rig after{rig.ring(), rig.device.crash_losing_all_unsynced()};
      ASSERT_EQ(after.replayed, errc::ok) << last_message();
      for (std::uint64_t i = acknowledged < 64 ? 0 : acknowledged - 64; i < acknowledged; ++i)
        ASSERT_GE(after.at(data_offset + 8 * (i % 64)), i + 1) << "call " << k;
    }
  }
}

// A device that tells of a failed write-back to each of its openings once, as a kernel does.
class opened_device final : public block_device {
 public:
  opened_device(memory_device& inner, const std::atomic<unsigned>& failures) : inner_{inner}, failures_{failures} {}
  ~opened_device() = default;
  status write(std::uint64_t offset, const void* from, std::size_t bytes, site s = site::here()) noexcept override {
    return inner_.write(offset, from, bytes, s);
  }
  status read(std::uint64_t offset, void* to, std::size_t bytes) noexcept override {
    return inner_.read(offset, to, bytes);
  }
  status sync(edge e) noexcept override {
    const unsigned now = failures_.load();
    const bool failed = std::exchange(told_, now) != now;
    if (after_sync) after_sync(e);
    return failed ? fail(errc::io, "a write-back has failed") : inner_.sync(e);
  }
  result<std::uint64_t> size() noexcept override { return inner_.size(); }

  std::function<void(edge)> after_sync;

 private:
  memory_device& inner_;
  const std::atomic<unsigned>& failures_;
  unsigned told_ = 0;
};

// A checkpoint's sync has been told of a failure and has not returned yet; a thread commits meanwhile.
status commit_beside_a_failing_checkpoint(bool log_has_its_own) {
  memory_device memory{file_bytes};
  const ring_identity ring = small_ring();
  auto state = format_ring(memory, ring);
  EXPECT_TRUE(state && memory.sync(edge{"test/create"})) << last_message();
  std::atomic<unsigned> failures{0};
  opened_device home{memory, failures}, log{memory, failures};
  std::vector<page> image(file_bytes / sizeof(page));
  image_settings settings;
  settings.base = reinterpret_cast<std::byte*>(image.data());
  settings.bytes = file_bytes;
  settings.ring = ring;
  if (log_has_its_own) settings.log_syncs = &log;
  auto opened = image_media::open(home, settings, *state);
  EXPECT_TRUE(opened) << last_message();
  image_media& m = **opened;
  const auto commit = [&] {
    m.flush(settings.base + data_offset, 8);
    return m.durable(m.last_lsn());
  };
  EXPECT_TRUE(commit()) << last_message();
  status meanwhile;
  home.after_sync = [&](edge e) {
    if (std::strcmp(e.name, "image/E2") == 0) std::thread{[&] { meanwhile = commit(); }}.join();
  };
  failures = 1;
  EXPECT_EQ(m.checkpoint_step().error(), errc::io);
  EXPECT_EQ(commit().error(), errc::io);
  return meanwhile;
}
TEST(image_media, a_commit_is_told_of_a_failure_that_a_checkpoint_has_been_told_of) {
  EXPECT_EQ(commit_beside_a_failing_checkpoint(true).error(), errc::io);
  // Otherwise it would believe that it is durable.
  EXPECT_TRUE(commit_beside_a_failing_checkpoint(false));
}

// A structure's operation appends nothing to a medium that has failed, and waits for what was the newest LSN before it.
TEST(image_media, a_log_that_fails_while_it_is_empty_acknowledges_nothing) {
  image_rig before;
  ASSERT_TRUE(commit_word(before, 0, 1));
  ASSERT_TRUE(before.medium->durable(before.medium->last_lsn()));
  for (const bool appends : {false, true}) {
    image_rig rig{before.ring(), before.device.crash_losing_all_unsynced()};
    ASSERT_EQ(rig.replayed, errc::ok) << last_message();
    rig.device.fail_call(1, true);  // what was replayed is brought home, or is not
    ASSERT_EQ(rig.medium->checkpoint_step().error(), errc::io);
    if (appends) rig.medium->flush(rig.image() + data_offset + 8, 8);
    EXPECT_EQ(rig.medium->durable(rig.medium->last_lsn()).error(), errc::io) << appends;
    EXPECT_EQ(rig.medium->durable(0).error(), errc::io) << appends;
  }
}

TEST(image_media, threads_that_wait_are_told_of_a_failure) {
  for (std::uint64_t k = 1; k < 40; ++k) {
    image_rig rig;
    rig.device.fail_call(k);
    std::array<std::thread, 4> threads;
    for (std::uint64_t t = 0; t < threads.size(); ++t)
      threads[t] = std::thread{[&, t] {
        for (std::uint64_t i = 0; i < 1000; ++i) {
          const result<lsn_t> lsn = commit_word(rig, t, i);
          if (!lsn || !rig.medium->durable(*lsn)) return;
        }
        ADD_FAILURE() << "never told";
      }};
    for (auto& t : threads) t.join();
    EXPECT_TRUE(rig.medium->poisoned());
  }
}

// A sync that is under way ends well after the medium has failed: whoever is refused meanwhile, and asks then what is
// durable of what came before, hears what the thread of that sync will be told.
TEST(image_media, a_refusal_waits_for_the_sync_that_is_under_way) {
  image_rig rig;
  std::atomic<bool> in_sync{false};
  std::atomic<bool> go_on{false};
  rig.hooks.before_sync = [&](edge e) {
    if (std::string{e.name} != "image/E1") return;
    in_sync = true;
    go_on.wait(false);
  };
  const result<lsn_t> first = commit_word(rig, 0, 1);
  ASSERT_TRUE(first);
  std::thread leader{[&] { (void)rig.medium->durable(*first); }};
  while (!in_sync) std::this_thread::yield();
  const result<lsn_t> second = commit_word(rig, 1, 2);
  ASSERT_TRUE(second);
  rig.medium->poison("a page of the file cannot be had");
  bool seen = false;
  std::thread refused{[&] {
    EXPECT_EQ(rig.medium->durable(*second).error(), errc::io);
    seen = rig.medium->is_durable(*first);
  }};
  std::this_thread::sleep_for(std::chrono::milliseconds{50});  // time to be refused too early
  go_on = true;
  go_on.notify_all();
  leader.join();
  refused.join();
  EXPECT_TRUE(rig.medium->is_durable(*first));
  EXPECT_TRUE(seen);
}

}  // namespace
}  // namespace nvm
