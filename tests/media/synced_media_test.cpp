// A file mapped shared: a fence is a sync that began after it was asked for, and a failed one is the last.
#include "media/synced_media.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

namespace nvm {
namespace {

// Counts, may be slow, and tells which stores a sync has seen.
class slow_device final : public block_device {
 public:
  status write(std::uint64_t, const void*, std::size_t, site) noexcept override { return {}; }
  status read(std::uint64_t, void*, std::size_t) noexcept override { return {}; }
  result<std::uint64_t> size() noexcept override { return std::uint64_t{0}; }
  status sync(edge) noexcept override {
    EXPECT_EQ(inside.fetch_add(1), 0) << "one at a time";
    const std::uint64_t seen = stored.load();
    std::this_thread::sleep_for(std::chrono::microseconds{200});
    const unsigned number = ++syncs;
    inside.fetch_sub(1);
    if (number >= fails_from) return fail(errc::io, "fdatasync: planted");
    synced.store(seen);
    return {};
  }
  std::atomic<std::uint64_t> stored{0}, synced{0};
  std::atomic<int> inside{0};
  std::atomic<unsigned> syncs{0};
  unsigned fails_from = ~0U;
};

TEST(synced_media, a_fence_waits_for_a_sync_that_began_after_it) {
  slow_device device;
  synced_media medium{device};
  constexpr unsigned threads = 4, rounds = 50;
  std::vector<std::thread> all;
  for (unsigned t = 0; t < threads; ++t) {
    all.emplace_back([&] {
      for (unsigned i = 0; i < rounds; ++i) {
        const std::uint64_t mine = device.stored.fetch_add(1) + 1;
        medium.fence(edge{"test/F1"});
        EXPECT_GE(device.synced.load(), mine);
      }
    });
  }
  for (auto& t : all) t.join();
  EXPECT_EQ(medium.waits(), threads * rounds);
  EXPECT_EQ(medium.syncs(), device.syncs.load());
  EXPECT_LT(medium.syncs(), threads * rounds) << "threads share syncs";
  EXPECT_TRUE(medium.durable(medium.last_lsn()));
}

TEST(synced_media, a_failed_sync_is_the_last) {
  slow_device device;
  device.fails_from = 3;
  struct told {
    std::atomic<int> times{0};
  } calls;
  synced_media medium{device, [](void* context) noexcept { static_cast<told*>(context)->times.fetch_add(1); }, &calls};
  std::atomic<unsigned> early{0};
  std::vector<std::thread> all;
  for (unsigned t = 0; t < 4; ++t) {
    all.emplace_back([&] {
      for (unsigned i = 0; i < 20; ++i) {
        medium.fence(edge{"test/F2"});
        if (!medium.durable(1) && calls.times.load() == 0) early.fetch_add(1);
      }
    });
  }
  for (auto& t : all) t.join();
  EXPECT_EQ(calls.times.load(), 1);
  EXPECT_EQ(early.load(), 0U) << "who learns of it finds that the file was left";
  EXPECT_EQ(device.syncs.load(), 3U);
  const status s = medium.durable(medium.last_lsn());
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error(), errc::io);
  EXPECT_STREQ(last_message(), "the pool takes no more commits: fdatasync: planted");
}

// A sync of the same file that somebody else has made.
TEST(synced_media, takes_nothing_more_once_it_is_told_of_a_failed_sync) {
  slow_device device;
  int told = 0;
  synced_media medium{device, [](void* times) noexcept { ++*static_cast<int*>(times); }, &told, "pool a"};
  medium.fence(edge{"test/F3"});
  EXPECT_TRUE(medium.durable(1));
  medium.poison("the file could not grow");
  EXPECT_EQ(told, 1);
  EXPECT_EQ(medium.durable(1).error(), errc::io);
  EXPECT_STREQ(last_message(), "pool a takes no more commits: the file could not grow");
  medium.fence(edge{"test/F4"});
  EXPECT_EQ(device.syncs.load(), 1U) << "nothing is synced any more";
}

}  // namespace
}  // namespace nvm
