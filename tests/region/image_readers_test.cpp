// Readers on an image medium go on while a writer of their region waits for the device.
#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "../media/image_rig.hpp"
#include "ground.hpp"

namespace nvm::region::testing {
namespace {

using namespace std::chrono_literals;

// A pool on a device whose syncs a test can stop.
class stopped_device {
 public:
  stopped_device()
      : geometry_{tests::pool_geometry(64, 64, 8, 12)},
        memory_{tests::memory_for(geometry_)},
        device_{{memory_.get(), memory_.get() + geometry_.capacity_bytes()}},
        hooks_{device_} {
    ring_identity ring;
    ring.place = {.log_offset = geometry_.log_offset, .log_bytes = geometry_.log_bytes};
    const auto state = format_ring(hooks_, ring);
    EXPECT_TRUE(state) << last_message();
    auto opened = image_media::open(
        hooks_, {.base = memory_.get(), .bytes = geometry_.capacity_bytes(), .ring = ring, .guest = {}}, *state);
    EXPECT_TRUE(opened) << last_message();
    medium = std::move(*opened);
    space_ = std::make_unique<space<image_media, log::nothing_logged>>(*medium, lanes_, memory_.get(), geometry_);
    EXPECT_TRUE(space_->boot(0, 1)) << last_message();
    regions = std::make_unique<domain<image_media>>(*medium, memory_.get(), *space_, settings());
    EXPECT_TRUE(regions->open()) << last_message();
    hooks_.before_sync = [this](edge) {
      if (!stops.load()) return;
      waits.store(true);
      waits.notify_all();
      stops.wait(true);
    };
  }
  void let_go() {
    stops.store(false);
    stops.notify_all();
  }

 private:
  const geometry geometry_;
  tests::pool_memory memory_;
  memory_device device_;
  test::hooked_device hooks_;
  log::nothing_logged lanes_;
  std::unique_ptr<space<image_media, log::nothing_logged>> space_;

 public:
  std::unique_ptr<image_media> medium;
  std::unique_ptr<domain<image_media>> regions;
  std::atomic<bool> stops{false};
  std::atomic<bool> waits{false};  // a sync does
};

class image_readers : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(kinds, image_readers, ::testing::Bool(),
                         [](const auto& k) { return k.param ? "counted" : "by_version"; });

TEST_P(image_readers, do_not_wait_for_a_sync_of_a_writer_whose_log_is_full) {
  stopped_device pool;
  auto made = pool.regions->create("subject");
  ASSERT_TRUE(made) << last_message();
  auto& set = **made;
  set.count_readers(GetParam());
  auto& writer = **pool.regions->join();
  auto& reader = **pool.regions->join();
  constexpr std::uint64_t size = 1000;
  constexpr std::uint64_t rid = 7;
  ASSERT_TRUE(change_alone(*pool.regions, set, writer, rid, mode::adaptive, false,
                           [&](auto& tx) { return tx.create(rid, size, 0); }));
  ASSERT_TRUE(pool.medium->sync_appended());
  // The device stands still, and the writer fills the log.
  pool.stops.store(true);
  std::atomic<unsigned> written{0};
  std::atomic<bool> goes_on{true};
  std::thread writes{[&] {
    while (goes_on.load()) {
      const std::vector<std::byte> bytes(size, static_cast<std::byte>(written.load() + 1));
      EXPECT_TRUE(change_alone(*pool.regions, set, writer, rid, mode::marked, true, [&](auto& tx) {
        return tx.write(rid, 0, bytes);
      })) << last_message();
      ++written;
    }
  }};
  pool.waits.wait(false);
  EXPECT_GT(written.load(), 1U);
  // The bytes as they were before the write that waits.
  auto reads = std::async(std::launch::async, [&] {
    std::vector<std::byte> bytes(size);
    for (unsigned i = 0; i < 100; ++i) {
      const auto n = read(*pool.regions, set, reader, rid, 0, bytes);
      EXPECT_TRUE(n && *n == size) << last_message();
      EXPECT_EQ(bytes, std::vector<std::byte>(size, static_cast<std::byte>(written.load())));
      EXPECT_EQ(*length(*pool.regions, set, reader, rid), size);
    }
  });
  EXPECT_EQ(reads.wait_for(10s), std::future_status::ready) << "readers wait for the device";
  goes_on.store(false);
  pool.let_go();
  writes.join();
  reads.wait();
  std::vector<std::byte> bytes(size);
  ASSERT_TRUE(read(*pool.regions, set, reader, rid, 0, bytes));
  EXPECT_EQ(bytes, std::vector<std::byte>(size, static_cast<std::byte>(written.load())));
}

// A reader that is held up keeps writers of its region waiting, and nobody else.
TEST(image_readers, of_one_region_are_in_no_other_writers_way) {
  stopped_device pool;
  auto made = pool.regions->create("subject");
  ASSERT_TRUE(made) << last_message();
  auto& set = **made;
  set.count_readers(true);
  auto& writer = **pool.regions->join();
  auto& other = **pool.regions->join();
  const std::vector<std::byte> bytes(100, std::byte{1});
  for (const std::uint64_t rid : {1, 2}) {
    ASSERT_TRUE(change_alone(*pool.regions, set, writer, rid, mode::adaptive, false,
                             [&, rid](auto& tx) { return tx.create(rid, bytes.size(), 0); }));
  }
  const auto write = [&](auto& thread, std::uint64_t rid) {
    return change_alone(*pool.regions, set, thread, rid, mode::marked, true,
                        [&, rid](auto& tx) { return tx.write(rid, 0, bytes); });
  };
  auto& lock = set.regions.find(1)->lock;
  lock.register_reader();
  auto waits = std::async(std::launch::async, [&] { return write(writer, 1).has_value(); });
  EXPECT_EQ(waits.wait_for(50ms), std::future_status::timeout);
  auto works = std::async(std::launch::async,
                          [&] { return write(other, 2).has_value() && pool.medium->sync_appended().has_value(); });
  EXPECT_EQ(works.wait_for(10s), std::future_status::ready) << "a reader of another region is in the way";
  lock.leave_reading();
  EXPECT_TRUE(waits.get() && works.get()) << last_message();
}

}  // namespace
}  // namespace nvm::region::testing
