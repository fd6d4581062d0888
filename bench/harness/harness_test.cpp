// Guarantees of the harness: what it counts is what was executed, and it refuses to compare unequal work.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <immintrin.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

#include "harness/histogram.hpp"
#include "harness/mapped_file.hpp"
#include "harness/primitive.hpp"
#include "harness/runner.hpp"
#include "harness/statistics.hpp"
#include "harness/step_counter.hpp"
#include "harness/sync_counter.hpp"
#include "harness/ycsb.hpp"

namespace nvm::bench {
namespace {

TEST(step_counter, counts_each_write_back_and_fence_that_was_executed) {
  alignas(64) static char lines[8 * 64];
  const step_counts before = step_counter::counts();
  {
    const step_counter stepping;
    for (int i = 0; i < 5; ++i) asm volatile("clflush %0" : "+m"(lines[i * 64]));
    _mm_sfence();
    _mm_sfence();  // nothing left to wait for
    for (int i = 0; i < 8; ++i) _mm_stream_si128(reinterpret_cast<__m128i*>(lines) + i, _mm_setzero_si128());
    _mm_mfence();
    _mm_stream_si64(reinterpret_cast<long long*>(lines), 1);
  }
  const step_counts seen = step_counter::counts() - before;
  EXPECT_EQ(seen.clflush, 5);
  EXPECT_EQ(seen.clwb + seen.clflushopt, 0);
  EXPECT_EQ(seen.streamed_bytes, 8 * 16 + 8);
  EXPECT_EQ(seen.sfence, 2);
  EXPECT_EQ(seen.mfence, 1);
  EXPECT_EQ(seen.waiting_fences, 2);
}

TEST(step_counter, tells_locked_instructions_that_wait_for_a_write_back) {
  alignas(64) static char line[64];
  static std::atomic<int> word{0};
  const step_counts before = step_counter::counts();
  {
    const step_counter stepping;
    word.fetch_add(1, std::memory_order_relaxed);  // waits for nothing
    asm volatile("clflush %0" : "+m"(line[0]));
    word.fetch_add(1, std::memory_order_relaxed);
    word.fetch_add(1, std::memory_order_relaxed);  // waits no more
    asm volatile("clflush %0" : "+m"(line[0]));
    word.exchange(1, std::memory_order_relaxed);
    _mm_sfence();
  }
  const step_counts seen = step_counter::counts() - before;
  EXPECT_EQ(seen.waiting_locks, 2);
  EXPECT_EQ(seen.waiting_fences, 1);
}

TEST(step_counter, counts_nothing_outside_its_life) {
  {
    const step_counter stepping;
  }
  const step_counts before = step_counter::counts();
  _mm_sfence();
  EXPECT_EQ(step_counter::counts().instructions, before.instructions);
}

__attribute__((noinline)) void flush_with_flags(const void* p, std::size_t, unsigned) { asm volatile("" ::"r"(p)); }

TEST(step_counter, adds_up_the_length_arguments_of_watched_functions) {
  void* (*volatile copy)(void*, const void*, std::size_t) = std::memcpy;
  void (*volatile flush)(const void*, std::size_t, unsigned) = flush_with_flags;
  char from[96] = {};
  char to[96];
  constexpr unsigned no_flush = 4;
  watch_lengths({{reinterpret_cast<const void*>(copy), 3, true, false},
                 {reinterpret_cast<const void*>(flush), 2, false, true, 3, no_flush}});
  const step_counts before = step_counter::counts();
  {
    const step_counter stepping;
    copy(to, from, 96);
    copy(to, from, 5);
    flush(to, 40, 0);
    flush(to, 70, no_flush);  // says that it does not
  }
  const step_counts seen = step_counter::counts() - before;
  EXPECT_EQ(seen.logged_bytes, 101);
  EXPECT_EQ(seen.dirty_bytes, 40);
  watch_lengths({});
}

TEST(primitive, writes_exactly_the_lines_and_fences_it_was_asked_for) {
  const primitive_work work{{1.5, 4, 1 << 20}, 2.0, 3.25, 2.5};
  const auto limit = make_primitive("/dev/shm", 1, work);
  const step_counts before = step_counter::counts();
  {
    const step_counter stepping;
    limit->run(0, 0, 40);
  }
  const step_counts seen = step_counter::counts() - before;
  EXPECT_EQ(seen.clwb + seen.clflushopt + seen.clflush, 40 * (1.5 * 4 + 2.0));
  EXPECT_EQ(seen.streamed_bytes, 40 * 3.25 * 64);
  EXPECT_EQ(seen.fences(), 40 * 2.5);
  EXPECT_EQ(seen.waiting_fences, seen.fences());
}

TEST(sync_counter, counts_syncs_and_synchronous_writes_only) {
  const temporary_path path(".", "syncs");
  const int plain = open(path.c_str(), O_RDWR | O_CREAT, 0600);
  const int synchronous = open(path.c_str(), O_RDWR | O_DSYNC);
  ASSERT_GE(plain, 0);
  ASSERT_GE(synchronous, 0);
  const std::uint64_t before = durable_waits();
  EXPECT_EQ(pwrite(plain, "a", 1, 0), 1);
  EXPECT_EQ(durable_waits() - before, 0);
  EXPECT_EQ(pwrite(synchronous, "a", 1, 0), 1);
  EXPECT_EQ(durable_waits() - before, 1);
  EXPECT_EQ(fdatasync(plain), 0);
  EXPECT_EQ(fsync(plain), 0);
  EXPECT_EQ(durable_waits() - before, 3);
  close(plain);
  close(synchronous);
}

TEST(histogram, is_off_by_at_most_a_thirty_second_of_a_value) {
  for (std::uint64_t value = 1; value < 1ULL << 50; value += 1 + value / 7) {
    histogram h;
    h.add(value);
    h.add(UINT64_MAX / 2);
    EXPECT_GE(h.quantile(0.5), value);
    EXPECT_LE(h.quantile(0.5), value + value / 32);
  }
}

TEST(histogram, finds_quantiles_of_a_known_distribution) {
  histogram h;
  histogram other;
  for (std::uint64_t i = 1; i <= 1000; ++i) (i % 2 == 0 ? h : other).add(i * 1000);
  h.add(other);
  EXPECT_EQ(h.count(), 1000);
  EXPECT_EQ(h.max(), 1'000'000);
  EXPECT_NEAR(static_cast<double>(h.quantile(0.5)), 500'000, 500'000 / 32.0);
  EXPECT_NEAR(static_cast<double>(h.quantile(0.99)), 990'000, 990'000 / 32.0);
  EXPECT_EQ(h.quantile(1.0), 1'000'000);
}

TEST(statistics, ratios_are_taken_between_neighbours) {
  const std::vector<double> slow{30, 300, 3000};
  const std::vector<double> fast{10, 100, 1000};
  const spread s = spread_of(pairwise_ratio(slow, fast));
  EXPECT_DOUBLE_EQ(s.min, 3);
  EXPECT_DOUBLE_EQ(s.max, 3);
  EXPECT_DOUBLE_EQ(spread_of({4, 1, 3, 2}).median, 2.5);
}

TEST(zipf, gives_each_item_the_share_that_its_rank_has) {
  constexpr std::uint64_t items = 1000;
  constexpr int draws = 400'000;
  const zipf z(items);
  random source(1);
  std::vector<int> seen(items);
  for (int i = 0; i < draws; ++i) ++seen[z.next(source)];
  double zeta = 0;
  for (std::uint64_t i = 1; i <= items; ++i) zeta += 1 / std::pow(static_cast<double>(i), 0.99);
  // The generator is exact for the first two items and approximates the rest.
  EXPECT_NEAR(seen[0] / static_cast<double>(draws), 1 / zeta, 0.01 / zeta);
  EXPECT_NEAR(seen[1] / static_cast<double>(draws), std::pow(0.5, 0.99) / zeta, 0.02 / zeta);
  int tail = 0;
  double tail_share = 0;
  for (std::uint64_t i = 100; i < items; ++i) {
    tail += seen[i];
    tail_share += 1 / std::pow(static_cast<double>(i + 1), 0.99) / zeta;
  }
  EXPECT_NEAR(tail / static_cast<double>(draws), tail_share, 0.02);
}

TEST(zipf, draws_nine_tenths_from_the_share_of_items_it_was_made_for) {
  for (const std::uint64_t items : {20'000, 2'000'000}) {
    const zipf popularity(items, zipf::theta_for(items, 0.15, 0.9));
    random source(7);
    int popular = 0;
    constexpr int draws = 200'000;
    for (int i = 0; i < draws; ++i) popular += popularity.next(source) < items * 15 / 100 ? 1 : 0;
    EXPECT_NEAR(static_cast<double>(popular) / draws, 0.9, 0.01) << items;
  }
}

TEST(ycsb, is_the_same_stream_however_it_is_cut) {
  for (const ycsb_mix& mix : ycsb_mixes) {
    ycsb_stream whole(mix, 500, 1, 2);
    ycsb_stream cut(mix, 500, 1, 2);
    std::vector<ycsb_op> all;
    whole.draw(0, 1000, &all);
    std::vector<ycsb_op> part;
    for (std::uint64_t first = 0; first < 1000; first += 250) {
      cut.draw(first, 250, &part);
      for (std::uint64_t i = 0; i < 250; ++i) {
        EXPECT_EQ(part[i].key, all[first + i].key);
        EXPECT_EQ(part[i].kind, all[first + i].kind);
      }
    }
  }
}

TEST(ycsb, reads_only_what_was_loaded_or_inserted_by_the_same_thread) {
  constexpr std::uint64_t loaded = 300;
  std::set<std::uint64_t> inserted_by_any;
  for (unsigned thread = 0; thread < 2; ++thread) {
    std::set<std::uint64_t> known;
    for (std::uint64_t i = 0; i < loaded; ++i) known.insert(ycsb_key(i));
    ycsb_stream stream(ycsb_mixes[2], loaded, thread, 2);
    std::vector<ycsb_op> ops;
    stream.draw(0, 20'000, &ops);
    for (const ycsb_op& op : ops) {
      if (op.kind == ycsb_kind::insert) {
        EXPECT_TRUE(inserted_by_any.insert(op.key).second);
        EXPECT_TRUE(known.insert(op.key).second);
      } else {
        EXPECT_TRUE(known.contains(op.key));
      }
    }
  }
  EXPECT_NEAR(static_cast<double>(inserted_by_any.size()), 2000, 200);
}

// Adds up the numbers of its operations; a lazy one leaves some out.
class adder final : public contestant {
 public:
  explicit adder(bool lazy) : lazy_(lazy) {}
  void run(unsigned, std::uint64_t first, std::uint64_t ops) override {
    for (std::uint64_t i = first; i < first + ops; ++i) sum_ += lazy_ && i % 2 == 0 ? 0 : i;
  }
  std::uint64_t work_digest() override { return sum_; }

 private:
  bool lazy_;
  std::uint64_t sum_ = 1;
};

int exit_code_of_comparing(bool lazy) {
  options o;
  o.runs = 2;
  o.directory = "/dev/shm";
  benchmark b;
  b.name = "adding";
  b.unit = "addition";
  b.ops = 100;
  b.warmup_ops = 10;
  b.systems = {{"reference", role::peer, [] { return std::make_unique<adder>(false); }},
               {"subject", role::subject, [=] { return std::make_unique<adder>(lazy); }}};
  runner r(o);
  r.run(b);
  return r.finish();
}

TEST(runner, refuses_to_compare_systems_that_did_other_work) {
  EXPECT_EQ(exit_code_of_comparing(false), 0);
  EXPECT_EQ(exit_code_of_comparing(true), 1);
}

TEST(options, name_systems_by_a_part_or_by_the_whole_name) {
  options o;
  EXPECT_TRUE(o.selects("sps-1"));
  EXPECT_FALSE(o.selects_system("mnemosyne"));
  o.filter = "=sps-1,churn";
  EXPECT_TRUE(o.selects("sps-1"));
  EXPECT_FALSE(o.selects("log-size-sps-1"));
  EXPECT_TRUE(o.selects("bptree-churn"));
  o.systems = "=mnemosyne,redo";
  EXPECT_TRUE(o.selects_system("mnemosyne"));
  EXPECT_FALSE(o.selects_system("mnemosyne-undo"));
  EXPECT_TRUE(o.selects_system("stm over redo, commit mark"));
}

// Three fences an operation, and one for each that is made ready.
class counting final : public contestant {
 public:
  void prepare(unsigned, std::uint64_t, std::uint64_t ops) override { counted_.fences += ops; }
  void run(unsigned, std::uint64_t, std::uint64_t ops) override { counted_.fences += 3 * ops; }
  std::uint64_t work_digest() override { return 1; }
  std::optional<library_counts> counts() override { return counted_; }

 private:
  library_counts counted_;
};

TEST(runner, takes_a_library_s_own_count_of_what_is_timed_only) {
  const std::string path = "/dev/shm/holdfast-harness-test-" + std::to_string(getpid()) + ".json";
  options o;
  o.runs = 1;
  o.directory = "/dev/shm";
  o.count_steps = 1;
  o.json = path;
  benchmark b;
  b.name = "counting";
  b.unit = "operation";
  b.ops = 100;
  b.warmup_ops = 10;
  const auto make = [] { return std::make_unique<counting>(); };
  b.systems = {{"subject", role::subject, make, make}};
  runner r(o);
  r.run(b);
  ASSERT_EQ(r.finish(), 0);
  std::ifstream file(path);
  const auto report = nlohmann::json::parse(file);
  unlink(path.c_str());
  EXPECT_EQ(report["benchmarks"][0]["systems"][0]["own_counts"]["fences"], 3.0);
}

}  // namespace
}  // namespace nvm::bench
