// Direct media, latency, meter and recorder: that each does what its contract says and nothing else.
#include "media/direct_media.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "media/media.hpp"

namespace nvm {
namespace {

static_assert(media<latency_media<direct_media>> && media<meter_media<direct_media>>);
static_assert(media<recorder<direct_media>> && media<meter_media<latency_media<direct_media>>>);
static_assert(!direct_media::atomic_batches && !recorder<direct_media>::atomic_batches);

struct alignas(256) buffer {
  std::array<std::byte, 4096> bytes{};
};

TEST(direct_media, executes_every_instruction_this_processor_has_on_any_range) {
  buffer b;
  for (const auto with : {isa::write_back::none, isa::write_back::fence_only, isa::write_back::clflush,
                          isa::write_back::clflushopt, isa::write_back::clwb}) {
    if (!isa::has(with)) continue;
    direct_media m{with};
    EXPECT_EQ(m.instruction(), with);
    for (std::size_t offset = 0; offset < 130; ++offset) {
      b.bytes[offset] = std::byte{7};
      m.flush(&b.bytes[offset], offset);
      m.fence(edge{"test/E1"});
      EXPECT_EQ(b.bytes[offset], std::byte{7});
    }
    EXPECT_EQ(m.last_lsn(), 0u);
    EXPECT_TRUE(m.durable(m.last_lsn()).has_value());
  }
}

TEST(direct_media, chooses_the_best_instruction_that_exists) {
  const isa::write_back best = isa::best_write_back();
  EXPECT_TRUE(isa::has(best));
  if (isa::cpu().clwb) {
    EXPECT_EQ(best, isa::write_back::clwb);
  }
  EXPECT_STREQ(isa::name_of(isa::write_back::clwb), "clwb");
}

TEST(isa, nontemporal_copy_copies_every_length_and_alignment) {
  std::array<unsigned char, 256> from{}, to{};
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<unsigned char>(i + 1);
  for (std::size_t start = 0; start < 16; ++start) {
    for (std::size_t bytes = 0; bytes < 100; ++bytes) {
      to.fill(0);
      isa::copy_nontemporal(&to[start], &from[start / 2], bytes);
      isa::store_fence();
      EXPECT_EQ(std::memcmp(&to[start], &from[start / 2], bytes), 0);
      EXPECT_EQ(to[start + bytes], 0) << "wrote past the end";
      if (start != 0) {
        EXPECT_EQ(to[start - 1], 0) << "wrote before the start";
      }
    }
  }
}

TEST(isa, spins_for_as_long_as_asked) {
  EXPECT_GT(isa::ticks_per_ns(), 0.1);
  const auto start = std::chrono::steady_clock::now();
  isa::spin_ns(3'000'000);
  const auto passed = std::chrono::steady_clock::now() - start;
  EXPECT_GE(passed, std::chrono::microseconds{2900});
}

TEST(latency, delay_is_the_larger_of_latency_and_transfer_plus_each_line) {
  const latency_settings s{.fence_ns = 500, .writeback_ns = 40, .bandwidth_bytes_s = 1'000'000'000};
  EXPECT_EQ(batch_delay_ns({}, s), 0) << "nothing flushed, nothing to wait for";
  EXPECT_EQ(batch_delay_ns({.lines = 1, .transfer_ns = 64, .writeback_ns = 40}, s), 540);
  EXPECT_EQ(batch_delay_ns({.lines = 100, .transfer_ns = 6400, .writeback_ns = 4000}, s), 10400);
}

TEST(latency, a_fence_takes_the_delay_of_its_batch_and_ends_it) {
  ordered_media inner;
  latency_media m{inner, {.fence_ns = 2'000'000, .bandwidth_bytes_s = 1'000'000'000}};
  buffer b;
  const auto timed = [&](auto&& action) {
    const auto start = std::chrono::steady_clock::now();
    action();
    return std::chrono::steady_clock::now() - start;
  };
  EXPECT_GE(timed([&] {
              m.flush(b.bytes.data(), 64);
              m.fence(edge{"test/E1"});
            }),
            std::chrono::microseconds{1900});
  EXPECT_EQ(this_thread_latency.lines, 0u);
  // Nothing pending, nothing to wait for: sooner or later one is quick, however busy the machine is.
  const auto is_quick = [&] { return timed([&] { m.fence(edge{"test/E2"}); }) < std::chrono::microseconds{1900}; };
  int tries = 1;
  while (tries < 5000 && !is_quick()) ++tries;
  EXPECT_LT(tries, 5000);
}

TEST(latency, batches_of_two_threads_do_not_mix) {
  ordered_media inner;
  latency_media m{inner, {.writeback_ns = 10}};
  buffer b;
  m.flush(b.bytes.data(), 128);
  std::thread{[&] {
    EXPECT_EQ(this_thread_latency.lines, 0u);
    m.flush(b.bytes.data() + 512, 64);
    EXPECT_EQ(this_thread_latency.lines, 1u);
    m.fence(edge{"test/E1"});
  }}.join();
  EXPECT_EQ(this_thread_latency.lines, 2u);
  m.fence(edge{"test/E1"});
}

TEST(latency, presets_are_those_of_the_papers) {
  const auto lsnvmm = latency_preset("lsnvmm");
  ASSERT_TRUE(lsnvmm);
  EXPECT_EQ(lsnvmm->fence_ns, 500u);
  EXPECT_EQ(lsnvmm->bandwidth_bytes_s, 1'000'000'000u);
  const auto log_free = latency_preset("log-free");
  ASSERT_TRUE(log_free);
  EXPECT_EQ(log_free->fence_ns, 125u);
  EXPECT_EQ(log_free->writeback_ns, 0u);
  const auto breeze = latency_preset("breeze");
  ASSERT_TRUE(breeze);
  EXPECT_EQ(breeze->fence_ns, 100u);
  EXPECT_EQ(breeze->writeback_ns, 40u);
  EXPECT_GT(breeze->bandwidth_bytes_s, 1'000'000u);
  EXPECT_FALSE(latency_preset("off")->any());
  EXPECT_FALSE(latency_preset("optane"));
}

TEST(meter, counts_flushes_lines_bytes_and_fences_by_edge) {
  ordered_media inner;
  meter counts;
  meter_media m{inner, counts};
  buffer b;
  m.flush(b.bytes.data() + 60, 8);  // straddles two lines
  m.flush(b.bytes.data() + 64, 64);
  m.flush(b.bytes.data(), 0);
  m.fence(edge{"undo/E1"});
  const std::string same_name_elsewhere = "undo/E1";
  m.fence(edge{same_name_elsewhere.c_str()});
  m.fence(edge{"undo/E2"});
  const meter_reading r = counts.read();
  EXPECT_EQ(r.flushes, 3u);
  EXPECT_EQ(r.lines, 3u);
  EXPECT_EQ(r.bytes, 72u);
  EXPECT_EQ(r.fences, 3u);
  ASSERT_EQ(r.edges.size(), 2u);
  EXPECT_STREQ(r.edges[0].name, "undo/E1");
  EXPECT_EQ(r.edges[0].fences, 2u);
  EXPECT_EQ(r.edges[1].fences, 1u);
  counts.reset();
  EXPECT_EQ(counts.read().flushes, 0u);
  EXPECT_TRUE(counts.read().edges.empty());
}

TEST(meter, counts_writes_of_each_256_byte_block_inside_its_range_only) {
  ordered_media inner;
  meter counts;
  meter_media m{inner, counts};
  buffer b;
  ASSERT_TRUE(counts.count_blocks(b.bytes.data(), 1024));
  m.flush(b.bytes.data() + 200, 100);   // blocks 0 and 1
  m.flush(b.bytes.data() + 256, 64);    // block 1
  m.flush(b.bytes.data() + 1000, 500);  // block 3, the rest lies beyond
  m.flush(b.bytes.data() + 2048, 64);
  EXPECT_EQ(counts.read_blocks(), (std::vector<std::uint32_t>{1, 2, 0, 1}));
}

TEST(meter, loses_no_count_with_several_threads) {
  ordered_media inner;
  meter counts;
  meter_media m{inner, counts};
  buffer b;
  std::array<std::thread, 8> threads;
  for (auto& t : threads)
    t = std::thread{[&] {
      for (int i = 0; i < 10'000; ++i) {
        m.flush(b.bytes.data(), 8);
        m.fence(edge{"test/E1"});
      }
    }};
  for (auto& t : threads) t.join();
  EXPECT_EQ(counts.read().lines, 80'000u);
  EXPECT_EQ(counts.read().edges.at(0).fences, 80'000u);
}

struct writing_sink final : record_sink {
  std::string heard;
  void flush(const void*, std::size_t bytes, site where) noexcept override {
    heard += "flush " + std::to_string(bytes) + (where.line != 0 ? " from a line; " : " from nowhere; ");
  }
  void fence(edge e) noexcept override { heard += std::string{"fence "} + e.name + "; "; }
  void publish(std::span<const recorded_range> ranges, edge e, lsn_t, errc) noexcept override {
    heard += "publish " + std::to_string(ranges.size()) + " " + e.name + "; ";
  }
  void durable_begin(lsn_t lsn) noexcept override { heard += "wait " + std::to_string(lsn) + "; "; }
  void durable_end(lsn_t, errc code) noexcept override { heard += code == errc::ok ? "durable; " : "failed; "; }
};

TEST(recorder, tells_the_sink_of_everything_in_order) {
  ordered_media inner;
  writing_sink sink;
  recorder m{inner, sink};
  buffer b;
  persist(m, b.bytes.data(), 8, edge{"test/E1"});
  m.flush(b.bytes.data(), 100);
  EXPECT_TRUE(m.durable(0).has_value());
  EXPECT_EQ(sink.heard, "flush 8 from a line; fence test/E1; flush 100 from a line; wait 0; durable; ");
}

TEST(recorder, reports_the_place_of_the_call_and_not_its_own) {
  struct : record_sink {
    site last;
    void flush(const void*, std::size_t, site where) noexcept override { last = where; }
    void fence(edge) noexcept override {}
    void publish(std::span<const recorded_range>, edge, lsn_t, errc) noexcept override {}
    void durable_begin(lsn_t) noexcept override {}
    void durable_end(lsn_t, errc) noexcept override {}
  } sink;
  ordered_media inner;
  recorder inside{inner, sink};
  meter counts;
  meter_media m{inside, counts};
  buffer b;
  m.flush(b.bytes.data(), 8);
  EXPECT_EQ(sink.last.line, static_cast<std::uint32_t>(__LINE__ - 1));
  EXPECT_NE(std::string{sink.last.file}.find("direct_media_test.cpp"), std::string::npos);
  persist(m, b.bytes.data(), 8, edge{"test/E1"});
  EXPECT_EQ(sink.last.line, static_cast<std::uint32_t>(__LINE__ - 1));
}

}  // namespace
}  // namespace nvm
