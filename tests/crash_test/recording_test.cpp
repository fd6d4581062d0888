// The trace file: contents of a good one; a bad one does no harm.
#include "crash_test/recording.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "crash_test/trace_layout.hpp"
#include "trace_writer.hpp"

namespace nvm::crash_test {
namespace {

using explore::event_kind;
using layout::trace_kind;

using tests::trace_base;
using tests::trace_capacity;

// A pool with one page, opened, changed in three transactions and closed.
tests::trace_writer small_run() {
  tests::trace_writer w;
  w.open("/dev/shm/pool");
  w.add(trace_kind::page, trace_base + 4096, 0, 0, 0, std::string(4096, 'x'));
  w.add(trace_kind::pool_ready, trace_base, 0);
  w.place(0, "app.c", "put", 10);
  w.place(1, "src/tx/transaction.hpp", "log", 20, true);
  w.place(2, "app.c", "put", 30);
  w.add(trace_kind::tx_begin, trace_base, 0);
  w.store(64, 8, 1, 1);
  w.add(trace_kind::logged, trace_base + 4096, 8);
  w.store(4096, 8, 7, 0);
  w.add(trace_kind::flush, trace_base + 4096, 8, 1);
  w.add(trace_kind::fence, 0, 0, 1);
  w.add(trace_kind::tx_commit, trace_base, 0);
  w.store(4104, 4, 5, 2);
  w.add(trace_kind::store, trace_base + 4092, 0, 0, 8, std::string(16, 'y'));
  w.add(trace_kind::pool_close, trace_base, 0);
  return w;
}

std::optional<recording> read(const std::vector<std::byte>& bytes, std::string& problem) {
  return read_recording(bytes.data(), bytes.size(), problem, std::uint64_t{8} << 20);
}

TEST(trace, is_read_as_it_was_written) {
  std::string problem;
  const auto r = read(small_run().finish(), problem);
  ASSERT_TRUE(r) << problem;
  ASSERT_EQ(r->sessions.size(), 1U);
  const session& s = r->sessions[0];
  EXPECT_EQ(s.path, "/dev/shm/pool");
  EXPECT_EQ(s.threads, 1U);
  EXPECT_EQ(s.transactions, 1U);
  EXPECT_EQ(s.stores, 4U);
  ASSERT_EQ(s.image.size(), 8192U);
  EXPECT_EQ(s.image[4096], std::byte{'x'});
  EXPECT_EQ(s.image[0], std::byte{0});
  EXPECT_EQ(r->places[0].text(), "app.c:10 (put)");
  std::vector<std::byte> image = s.image;
  for (const explore::event& e : s.trace.events) {
    if (e.kind == event_kind::store) apply(s.trace, e, image.data());
  }
  std::uint64_t word = 0;
  std::memcpy(&word, image.data() + 64, 8);
  EXPECT_EQ(word, 1U);
  EXPECT_EQ(image[4092], std::byte{'y'});
  EXPECT_EQ(image[4099], std::byte{'y'});
  EXPECT_EQ(image[4100], std::byte{0});  // of the word 7
  EXPECT_EQ(image[4104], std::byte{5});
}

TEST(trace, tells_stores_that_no_transaction_takes_back) {
  tests::trace_writer w;
  w.open("p");
  w.add(trace_kind::pool_ready, trace_base, 0);
  w.place(0, "app.c", "f", 1);
  w.place(1, "src/tx.hpp", "g", 2, true);
  w.store(0, 8, 1, 0);  // 0: outside
  w.store(8, 8, 1, 1);  // the library's own
  w.add(trace_kind::tx_begin, trace_base, 0);
  w.store(16, 8, 1, 0);  // late
  w.add(trace_kind::logged, trace_base + 16, 8);
  w.store(16, 8, 2, 0);
  w.add(trace_kind::fresh, trace_base + 64, 64);
  w.store(100, 4, 1, 0);
  w.add(trace_kind::logged, trace_base + 24, 8);
  w.store(16, 8, 3, 0);
  w.store(32, 8, 1, 0);     // unlogged
  w.store(128, 8, 1, 0);    // unlogged: after the object
  w.store(40, 8, 1, 0, 1);  // outside: another thread
  w.add(trace_kind::tx_abort, trace_base, 0);
  w.store(16, 8, 4, 0);  // outside again
  std::string problem;
  const auto r = read(w.finish(), problem);
  ASSERT_TRUE(r) << problem;
  const session& s = r->sessions.at(0);
  std::vector<store_fault> found;
  for (std::size_t i = 0; i < s.faults.size(); ++i) {
    if (s.trace.events[i].kind == event_kind::store) found.push_back(s.faults[i]);
  }
  using enum store_fault;
  EXPECT_EQ(found, (std::vector{outside, none, late, none, none, none, unlogged, unlogged, outside, outside}));
  EXPECT_EQ(s.threads, 2U);
}

TEST(trace, tells_pages_that_were_changed_unseen) {
  tests::trace_writer w;
  w.open("p");
  w.add(trace_kind::pool_ready, trace_base, 0);
  w.place(0, "app.c", "f", 1);
  w.store(0, 8, 1, 0);
  std::byte pages[8192]{};
  pages[0] = std::byte{1};
  pages[4096] = std::byte{9};  // nobody said so
  std::string sums(16, 0);
  for (int p = 0; p < 2; ++p) {
    const std::uint64_t sum = layout::trace_sum(pages + p * 4096);
    std::memcpy(sums.data() + p * 8, &sum, 8);
  }
  w.add(trace_kind::pool_sums, trace_base, 0, 0, 0, sums);
  w.add(trace_kind::pool_close, trace_base, 0);
  std::string problem;
  const auto r = read(w.finish(), problem);
  ASSERT_TRUE(r) << problem;
  EXPECT_EQ(r->sessions.at(0).unseen_pages, 1U);
  EXPECT_EQ(r->sessions.at(0).unseen_at, 4096U);
}

TEST(trace, that_is_cut_or_false_is_refused_with_its_place) {
  const std::vector<std::byte> good = small_run().finish();
  std::string problem;
  EXPECT_FALSE(read({}, problem));
  EXPECT_FALSE(read({good.begin(), good.begin() + 100}, problem));
  EXPECT_NE(problem.find("byte 16"), std::string::npos) << problem;
  auto bad = good;
  bad[sizeof(layout::trace_header) + offsetof(layout::trace_record, kind)] = std::byte{99};
  EXPECT_FALSE(read(bad, problem));
  EXPECT_NE(problem.find("no known kind (byte 64)"), std::string::npos) << problem;
  tests::trace_writer w;
  w.open("p");
  w.add(trace_kind::pool_ready, trace_base, 0);
  w.store(0, 8, 1, 5);
  EXPECT_FALSE(read(w.finish(), problem));
  EXPECT_NE(problem.find("place that was not defined"), std::string::npos) << problem;
}

TEST(trace, with_control_characters_in_its_texts_is_refused) {
  const auto problem_of = [](const char* path, const char* file, const char* function) {
    tests::trace_writer w;
    w.open(path);
    w.place(0, file, function, 1);
    std::string problem;
    const bool taken = read(w.finish(), problem).has_value();
    EXPECT_NE(taken, !problem.empty());
    return problem.substr(0, problem.find(" ("));
  };
  EXPECT_EQ(problem_of("/p", "a b.c", "operator\t\xC3\xA9"), "");
  EXPECT_EQ(problem_of("/p\x1B[2J", "a.c", "f"), "a pool's path has control characters in it");
  EXPECT_EQ(problem_of("/p", "a\x07.c", "f"), "a place's names have control characters in them");
  EXPECT_EQ(problem_of("/p", "a.c", "f\x7F"), "a place's names have control characters in them");
}

TEST(trace, of_any_bytes_does_no_harm) {
  const std::vector<std::byte> good = small_run().finish();
  std::mt19937_64 random(1);
  unsigned refused = 0;
  for (int round = 0; round < 30'000; ++round) {
    auto bad = good;
    for (unsigned n = 1 + random() % 4; n != 0; --n) {
      std::size_t at = random() % (bad.size() / 8) * 8;
      // The one page, whose bytes say nothing, is most of it.
      constexpr std::size_t page_end = 64 + 24 + 24 + 24 + 4096;
      if (at < page_end && random() % 4 != 0) at = page_end + at % ((bad.size() - page_end) / 8) * 8;
      std::uint64_t word = 0;
      std::memcpy(&word, bad.data() + at, 8);
      switch (random() % 4) {
        case 0:
          word ^= std::uint64_t{1} << random() % 64;
          break;
        case 1:
          word = random() % 256;
          break;
        case 2:
          word = trace_base + random() % (2 * trace_capacity);
          break;
        default:
          word = random();
      }
      std::memcpy(bad.data() + at, &word, 8);
    }
    std::string problem;
    const auto r = read(bad, problem);
    EXPECT_NE(r.has_value(), !problem.empty());
    if (!r) ++refused;
    if (r) {
      for (const session& s : r->sessions) {
        std::vector<std::byte> image = s.image;
        for (const explore::event& e : s.trace.events) {
          if (e.kind == event_kind::store) apply(s.trace, e, image.data());
        }
      }
    }
  }
  EXPECT_GT(refused, 5'000U);
}

}  // namespace
}  // namespace nvm::crash_test
