// any_direct, any_image: a medium that is called through one of them hears, counts, delays and promises the same.
#include "media/any_media.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "image_rig.hpp"
#include "media/media.hpp"

namespace nvm {
namespace {

static_assert(media<any_direct> && media<any_image>);
static_assert(!any_direct::atomic_batches && any_image::atomic_batches);
static_assert(std::is_same_v<any_of<meter_media<latency_media<direct_media>>>, any_direct>);
static_assert(std::is_same_v<any_of<meter_media<started_image>>, any_image>);
// Decorators stand in front of them, too.
static_assert(media<meter_media<any_direct>> && media<recorder<any_image>>);
static_assert(!std::is_constructible_v<any_direct, image_media&> && !std::is_constructible_v<any_image, direct_media&>);

struct alignas(256) buffer {
  std::array<std::byte, 4096> bytes{};
};

// Everything that it is told, in words.
struct listener final : record_sink {
  std::string heard;
  site last;
  void flush(const void*, std::size_t bytes, site where) noexcept override {
    heard += "flush " + std::to_string(bytes) + "; ";
    last = where;
  }
  void fence(edge e) noexcept override { heard += std::string{"fence "} + e.name + "; "; }
  void publish(std::span<const recorded_range> ranges, edge e, lsn_t, errc) noexcept override {
    heard += "publish " + std::to_string(ranges.size()) + " " + e.name + "; ";
  }
  void durable_begin(lsn_t lsn) noexcept override { heard += "wait " + std::to_string(lsn) + "; "; }
  void durable_end(lsn_t, errc code) noexcept override { heard += code == errc::ok ? "durable; " : "failed; "; }
};

// All that a protocol may ask of a medium.
template <media M>
void use(M& m, buffer& b, const buffer& from) {
  m.flush(b.bytes.data() + 60, 8);
  m.fence(edge{"test/E1"});
  copy_out(m, b.bytes.data() + 128, from.bytes.data(), 100);
  copy_out(m, b.bytes.data() + 256, from.bytes.data(), 256);
  nvm::fence_by_rmw(m, edge{"test/E2"});
  persist(m, b.bytes.data(), 4096, edge{"test/E1"});
  EXPECT_TRUE(m.durable(m.last_lsn()));
  EXPECT_TRUE(is_durable(m, m.last_lsn()));
}

buffer random_bytes() {
  buffer b;
  std::mt19937 random{7};
  for (std::byte& x : b.bytes) x = static_cast<std::byte>(random());
  return b;
}

TEST(any_direct, tells_a_recorder_what_the_medium_would_tell_it) {
  const buffer from = random_bytes();
  listener straight, through;
  buffer b, c;
  {
    ordered_media nothing;
    recorder m{nothing, straight};
    use(m, b, from);
  }
  ordered_media nothing;
  recorder inner{nothing, through};
  any_direct m{inner};
  use(m, c, from);
  EXPECT_EQ(through.heard, straight.heard);
  EXPECT_NE(through.heard.find("fence test/E2"), std::string::npos);
  EXPECT_EQ(c.bytes, b.bytes);
}

TEST(any_direct, reports_the_place_of_the_call_and_not_its_own) {
  listener sink;
  ordered_media nothing;
  recorder inner{nothing, sink};
  any_direct m{inner};
  buffer b;
  m.flush(b.bytes.data(), 8);
  EXPECT_EQ(sink.last.line, static_cast<std::uint32_t>(__LINE__ - 1));
  EXPECT_NE(std::string{sink.last.file}.find("any_media_test.cpp"), std::string::npos);
  copy_out(m, b.bytes.data(), b.bytes.data() + 64, 8);
  EXPECT_EQ(sink.last.line, static_cast<std::uint32_t>(__LINE__ - 1));
  persist(m, b.bytes.data(), 8, edge{"test/E1"});
  EXPECT_EQ(sink.last.line, static_cast<std::uint32_t>(__LINE__ - 1));
}

TEST(any_direct, counts_what_the_medium_counts) {
  const buffer from = random_bytes();
  const auto counted = [&](auto&& make) {
    direct_media memory{isa::best_write_back()};
    latency_media slow{memory, latency_settings{.fence_ns = 10}};
    meter counts;
    meter_media metered{slow, counts};
    buffer b;
    auto m = make(metered);
    use(m, b, from);
    EXPECT_EQ(std::memcmp(b.bytes.data() + 256, from.bytes.data(), 256), 0);
    return counts.read();
  };
  const meter_reading straight = counted([](auto& m) { return m; });
  const meter_reading through = counted([](auto& m) { return any_direct{m}; });
  EXPECT_GT(through.lines, 64u);
  EXPECT_EQ(through.flushes, straight.flushes);
  EXPECT_EQ(through.lines, straight.lines);
  EXPECT_EQ(through.bytes, straight.bytes);
  EXPECT_EQ(through.fences, 2u);
  EXPECT_EQ(through.rmw_fences, 1u);
  ASSERT_EQ(through.edges.size(), straight.edges.size());
  for (std::size_t i = 0; i < through.edges.size(); ++i) {
    EXPECT_STREQ(through.edges[i].name, straight.edges[i].name);
    EXPECT_EQ(through.edges[i].fences, straight.edges[i].fences);
  }
}

TEST(any_direct, copies_every_length_as_the_medium_does) {
  const buffer from = random_bytes();
  for (const auto with : {isa::write_back::none, isa::best_write_back()}) {
    direct_media memory{with};
    any_direct m{memory};
    for (std::size_t offset = 0; offset < 65; offset += 13) {
      for (std::size_t bytes = 0; bytes < 300; bytes += 7) {
        buffer b;
        copy_out(m, b.bytes.data() + 64 + offset, from.bytes.data(), bytes);
        m.fence(edge{"test/E1"});
        ASSERT_EQ(std::memcmp(b.bytes.data() + 64 + offset, from.bytes.data(), bytes), 0);
        EXPECT_EQ(b.bytes[63 + offset], std::byte{0});
        EXPECT_EQ(b.bytes[64 + offset + bytes], std::byte{0});
      }
    }
  }
}

TEST(any_direct, promises_what_the_medium_promises) {
  direct_media killed_only{isa::write_back::none}, powered_off{isa::best_write_back()};
  ordered_media nothing;
  EXPECT_EQ(stores_survive(any_direct{killed_only}), stores_survive(killed_only));
  EXPECT_EQ(stores_survive(any_direct{powered_off}), stores_survive(powered_off));
  EXPECT_FALSE(stores_survive(any_direct{nothing}));
  any_direct m{nothing};
  EXPECT_EQ(m.last_lsn(), 0u);
  EXPECT_TRUE(is_durable(m, 0));
  EXPECT_FALSE(is_durable(m, 1)) << "a medium without LSNs has given none out";
}

TEST(any_direct, poisons_a_medium_that_can_be_and_no_other) {
  test::page content{};
  memory_device device{sizeof content};
  synced_media synced{device};
  any_direct m{synced};
  EXPECT_EQ(m.last_lsn(), synced.last_lsn());
  m.fence(edge{"test/E1"});
  EXPECT_EQ(synced.waits(), 1u);
  EXPECT_TRUE(m.durable(m.last_lsn()));
  m.poison("planted");
  EXPECT_EQ(m.durable(m.last_lsn()).error(), errc::io);
  EXPECT_FALSE(is_durable(m, m.last_lsn()));

  ordered_media nothing;
  any_direct other{nothing};
  other.poison("planted");
  EXPECT_TRUE(other.durable(0));
}

TEST(any_direct, a_copy_refers_to_the_same_medium) {
  ordered_media nothing;
  meter counts;
  meter_media metered{nothing, counts};
  any_direct first{metered};
  any_direct second{first};
  first.fence(edge{"test/E1"});
  second.fence(edge{"test/E1"});
  EXPECT_EQ(counts.totals().fences, 2u);
}

constexpr std::uint64_t at = test::data_offset;

TEST(any_image, a_batch_is_one_record_that_survives_a_crash_once_waited_for) {
  test::image_rig rig;
  any_image m{*rig.medium};
  rig.at(at) = 1;
  rig.at(at + 512) = 2;
  image_batch b;
  b.add(rig.image() + at, 8);
  int calls = 0;
  const auto lsn = m.publish(
      b,
      [&] {
        ++calls;
        b.add(rig.image() + at + 512, 8);
      },
      edge{"test/P1"});
  ASSERT_TRUE(lsn) << last_message();
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(b.empty()) << "cleared by success";
  EXPECT_EQ(rig.medium->statistics().records, 1u);
  EXPECT_EQ(m.last_lsn(), *lsn);
  EXPECT_FALSE(is_durable(m, *lsn));
  test::image_rig lost{rig.ring(), rig.device.crash_losing_all_unsynced()};
  EXPECT_EQ(lost.at(at), 0u);
  ASSERT_TRUE(m.durable(*lsn)) << last_message();
  EXPECT_TRUE(is_durable(m, *lsn));
  test::image_rig kept{rig.ring(), rig.device.crash_losing_all_unsynced()};
  EXPECT_EQ(kept.at(at), 1u);
  EXPECT_EQ(kept.at(at + 512), 2u);
}

TEST(any_image, a_batch_that_can_never_fit_is_refused_and_its_stores_not_made) {
  test::image_rig rig;
  any_image m{*rig.medium};
  image_batch b;
  b.add(rig.image() + at, 16 * 1024);
  bool called = false;
  const auto lsn = m.publish(b, [&] { called = true; }, edge{"test/P1"});
  EXPECT_EQ(lsn.error(), errc::log_full);
  EXPECT_FALSE(called);
  EXPECT_FALSE(b.empty());
}

TEST(any_image, serves_decorators_and_what_starts_a_thread_alike) {
  test::image_rig rig;
  started_image started{std::move(rig.medium)};
  meter counts;
  meter_media metered{started, counts};
  any_image m{metered};
  rig.at(at) = 3;
  m.flush(rig.image() + at, 8);
  m.fence(edge{"test/E1"});
  image_batch b;
  rig.at(at + 64) = 4;
  b.add(rig.image() + at + 64, 8);
  const auto lsn = m.publish(b, [] {}, edge{"test/P1"});
  ASSERT_TRUE(lsn) << last_message();
  EXPECT_TRUE(m.durable(*lsn));
  const meter_totals seen = counts.totals();
  EXPECT_EQ(seen.flushes, 1u);
  EXPECT_EQ(seen.fences, 1u);
  EXPECT_EQ(seen.publishes, 1u);
  EXPECT_EQ(seen.durable_waits, 1u);
  test::image_rig kept{rig.ring(), rig.device.crash_losing_all_unsynced()};
  EXPECT_EQ(kept.at(at), 3u);
  EXPECT_EQ(kept.at(at + 64), 4u);
  EXPECT_TRUE(started.stop());
}

TEST(any_image, is_poisoned_for_ever) {
  test::image_rig rig;
  any_image m{*rig.medium};
  m.flush(rig.image() + at, 8);
  m.poison("planted");
  EXPECT_EQ(m.durable(m.last_lsn()).error(), errc::io);
  EXPECT_TRUE(rig.medium->poisoned());
}

}  // namespace
}  // namespace nvm
