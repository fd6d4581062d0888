// The trace file: what is read from a good one, and that nothing in a bad one does harm.
#include "crash_test/recording.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "crash_test/trace_layout.hpp"

namespace nvm::crash_test {
namespace {

using explore::event_kind;
using layout::trace_kind;

constexpr std::uint64_t base = 0x2000'0000'0000;
constexpr std::uint64_t capacity = 1 << 20;

class writer {
 public:
  writer() { bytes_.resize(sizeof(layout::trace_header)); }

  void add(trace_kind kind, std::uint64_t address, std::uint64_t word, std::uint32_t place = 0, std::uint16_t size = 0,
           const std::string& payload = {}, std::uint8_t thread = 0) {
    const std::uint64_t length = layout::has_payload(kind) ? payload.size() : word;
    const layout::trace_record r{address, length, place, size, static_cast<std::uint8_t>(kind), thread};
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof r + round_up(payload.size(), 8));
    std::memcpy(bytes_.data() + at, &r, sizeof r);
    std::memcpy(bytes_.data() + at + sizeof r, payload.data(), payload.size());
  }
  void open(const std::string& path) {
    std::string text(sizeof capacity, 0);
    std::memcpy(text.data(), &capacity, sizeof capacity);
    add(trace_kind::pool_open, base, 0, 0, 0, text + path);
  }
  void place(std::uint32_t number, const char* file, const char* function, std::uint32_t line, bool library = false) {
    std::string text{file};
    text += '\0';
    text += function;
    text += '\0';
    add(trace_kind::place, line, 0, number, NVM_REC_PLAIN, text, library ? 1 : 0);
  }
  void store(std::uint64_t offset, std::uint16_t size, std::uint64_t word, std::uint32_t place,
             std::uint8_t thread = 0) {
    add(trace_kind::store, base + offset, word, place, size, {}, thread);
  }
  std::vector<std::byte> finish() {
    layout::trace_header h{};
    h.magic = layout::trace_magic;
    h.version = layout::trace_version;
    h.used = bytes_.size();
    std::memcpy(bytes_.data(), &h, sizeof h);
    return bytes_;
  }

 private:
  std::vector<std::byte> bytes_;
};

// A pool with one page, opened, changed in three transactions and closed.
writer small_run() {
  writer w;
  w.open("/dev/shm/pool");
  w.add(trace_kind::page, base + 4096, 0, 0, 0, std::string(4096, 'x'));
  w.add(trace_kind::pool_ready, base, 0);
  w.place(0, "app.c", "put", 10);
  w.place(1, "src/tx/transaction.hpp", "log", 20, true);
  w.place(2, "app.c", "put", 30);
  w.add(trace_kind::tx_begin, base, 0);
  w.store(64, 8, 1, 1);
  w.add(trace_kind::logged, base + 4096, 8);
  w.store(4096, 8, 7, 0);
  w.add(trace_kind::flush, base + 4096, 8, 1);
  w.add(trace_kind::fence, 0, 0, 1);
  w.add(trace_kind::tx_commit, base, 0);
  w.store(4104, 4, 5, 2);
  w.add(trace_kind::store, base + 4092, 0, 0, 8, std::string(16, 'y'));
  w.add(trace_kind::pool_close, base, 0);
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
  writer w;
  w.open("p");
  w.add(trace_kind::pool_ready, base, 0);
  w.place(0, "app.c", "f", 1);
  w.place(1, "src/tx.hpp", "g", 2, true);
  w.store(0, 8, 1, 0);  // 0: outside
  w.store(8, 8, 1, 1);  // the library's own
  w.add(trace_kind::tx_begin, base, 0);
  w.store(16, 8, 1, 0);  // late
  w.add(trace_kind::logged, base + 16, 8);
  w.store(16, 8, 2, 0);
  w.add(trace_kind::fresh, base + 64, 64);
  w.store(100, 4, 1, 0);
  w.add(trace_kind::logged, base + 24, 8);
  w.store(16, 8, 3, 0);
  w.store(32, 8, 1, 0);     // unlogged
  w.store(128, 8, 1, 0);    // unlogged: behind the object
  w.store(40, 8, 1, 0, 1);  // outside: another thread
  w.add(trace_kind::tx_abort, base, 0);
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
  writer w;
  w.open("p");
  w.add(trace_kind::pool_ready, base, 0);
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
  w.add(trace_kind::pool_sums, base, 0, 0, 0, sums);
  w.add(trace_kind::pool_close, base, 0);
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
  writer w;
  w.open("p");
  w.add(trace_kind::pool_ready, base, 0);
  w.store(0, 8, 1, 5);
  EXPECT_FALSE(read(w.finish(), problem));
  EXPECT_NE(problem.find("place that was not defined"), std::string::npos) << problem;
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
          word = base + random() % (2 * capacity);
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
