// Mappings under test, and what they should say: a log address for each byte.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "logheap/mapping/leaf_mapping.hpp"
#include "logheap/mapping/skip_list_mapping.hpp"

namespace nvm::logheap::testing {

// A thread of a mapping: its number in the epochs and its client.
template <class M>
struct mapping_thread {
  explicit mapping_thread(M& m, epochs& e) : readers{e}, number{e.join()}, client{m, number} {}
  ~mapping_thread() { readers.leave_for_good(number); }
  mapping_thread(const mapping_thread&) = delete;
  mapping_thread& operator=(const mapping_thread&) = delete;

  template <class F>
  auto inside(F&& f) {
    readers.enter(number);
    struct leaving {
      mapping_thread& t;
      ~leaving() { t.readers.leave(t.number); }
    } at_end{*this};
    return f();
  }
  epochs& readers;
  unsigned number;
  typename M::client client;
};

// A window of home space by the byte: 0 is nowhere.
struct byte_model {
  home_t first;
  std::vector<log_t> bytes;

  log_t& at(home_t h) { return bytes[h - first]; }
};

struct model_run {
  home_t window_first = 0;
  std::uint64_t window_bytes = 0;
  std::uint64_t piece_max = 300;
  unsigned steps = 4000;
  std::uint64_t seed = 1;
};

// Random changes and look-ups, compared by the byte.
template <class M>
void follows_a_model(M& m, epochs& e, const model_run& r) {
  ASSERT_TRUE(m.exists());
  mapping_thread<M> t{m, e};
  byte_model model{r.window_first, std::vector<log_t>(r.window_bytes)};
  std::mt19937_64 random{r.seed};
  log_t next_log = 4096;
  const auto below = [&](std::uint64_t n) { return random() % n; };
  const auto random_range = [&](std::uint64_t most) {
    const std::uint64_t size = 1 + below(below(4) == 0 ? most : std::min<std::uint64_t>(most, 24));
    return home_range{r.window_first + below(r.window_bytes - size + 1), size};
  };
  std::uint64_t told = 0;
  std::uint64_t was = 0;
  const auto replaced = [&](const piece& p) {
    told += p.size;
    for (std::uint64_t i = 0; i < p.size; ++i) ASSERT_EQ(model.at(p.home + i), p.log + i);
  };
  const auto mapped_in = [&](const home_range& a) {
    std::uint64_t n = 0;
    for (std::uint64_t i = 0; i < a.size; ++i) n += model.at(a.home + i) != 0 ? 1 : 0;
    return n;
  };
  for (unsigned step = 0; step < r.steps; ++step) {
    SCOPED_TRACE(::testing::Message() << "step " << step << " of seed " << r.seed);
    const unsigned what = static_cast<unsigned>(below(10));
    if (what < 4) {
      std::vector<piece> pieces;
      std::vector<home_range> ranges;
      home_range a = random_range(r.piece_max);
      for (unsigned n = static_cast<unsigned>(below(4)) + 1; n > 0; --n) {
        if (a.home + a.size > r.window_first + r.window_bytes) break;
        pieces.push_back({a.home, a.size, next_log});
        ranges.push_back(a);
        next_log += a.size + (below(2) == 0 ? 0 : 8);
        a.home += a.size + (below(2) == 0 ? 0 : below(40));
        a.size = 1 + below(40);
      }
      ASSERT_TRUE(below(2) == 0 ? m.reserve(t.client, ranges) : m.reserve_whole(t.client, ranges, {}));
      told = was = 0;
      for (const home_range& x : ranges) was += mapped_in(x);
      t.inside([&] { m.assign(t.client, pieces, replaced); });
      ASSERT_EQ(told, was);
      for (const piece& p : pieces) {
        for (std::uint64_t i = 0; i < p.size; ++i) model.at(p.home + i) = p.log + i;
      }
      m.release(t.client);
    } else if (what < 6) {
      const home_range a = random_range(r.piece_max);
      ASSERT_TRUE(below(2) == 0 ? m.reserve(t.client, {&a, 1}) : m.reserve_whole(t.client, {}, {&a, 1}));
      told = 0;
      was = mapped_in(a);
      t.inside([&] { m.erase(t.client, a, replaced); });
      ASSERT_EQ(told, was);
      for (std::uint64_t i = 0; i < a.size; ++i) model.at(a.home + i) = 0;
      m.release(t.client);
    } else if (what < 7) {
      const home_range a = random_range(r.piece_max);
      const log_t from = model.at(a.home) != 0 && below(8) != 0 ? model.at(a.home) : next_log + 77;
      ASSERT_TRUE(m.reserve(t.client, {&a, 1}));
      std::uint64_t expected = 0;
      for (std::uint64_t i = 0; i < a.size; ++i) {
        log_t& b = model.at(a.home + i);
        if (b != from + i) continue;
        b = next_log + i;
        ++expected;
      }
      // Pieces that are not cut by it may move first.
      std::uint64_t moved = 0;
      t.inside([&] {
        if (below(2) == 0) moved = m.move_whole_pieces(t.client, a.home, a.size, from, next_log);
        ASSERT_LE(moved, expected);
        moved += m.compare_and_move(t.client, a.home, a.size, from, next_log);
      });
      ASSERT_EQ(moved, expected);
      next_log += a.size + 8;
      m.release(t.client);
    } else {
      const home_range a = random_range(2 * r.piece_max);
      if (a.home + a.size > r.window_first + r.window_bytes) continue;
      std::vector<log_t> seen(a.size);
      home_t last = a.home;
      t.inside([&] {
        m.for_each_piece(t.client, a.home, a.size, [&](const piece& p) {
          ASSERT_GE(p.home, last);
          ASSERT_TRUE(p.size != 0 && p.home + p.size <= a.home + a.size);
          for (std::uint64_t i = 0; i < p.size; ++i) seen[p.home - a.home + i] = p.log + i;
          last = p.home + p.size;
        });
      });
      for (std::uint64_t i = 0; i < a.size; ++i) ASSERT_EQ(seen[i], model.at(a.home + i)) << "byte " << a.home + i;
    }
    if (::testing::Test::HasFatalFailure()) return;
  }
  std::vector<log_t> all(r.window_bytes);
  home_t last = 0;
  m.for_each([&](const piece& p) {
    ASSERT_GE(p.home, last);
    for (std::uint64_t i = 0; i < p.size; ++i) all[p.home - r.window_first + i] = p.log + i;
    last = p.home + p.size;
  });
  ASSERT_EQ(all, model.bytes);
}

// fill(), then everything else about what it has put there.
template <class M>
void is_filled_as_a_model(M& m, epochs& e, std::uint64_t piece_max, std::uint64_t seed) {
  ASSERT_TRUE(m.exists());
  mapping_thread<M> t{m, e};
  constexpr home_t first = (1 << 16) + 40;
  byte_model model{first, std::vector<log_t>(200'000)};
  std::mt19937_64 random{seed};
  const auto below = [&](std::uint64_t n) { return random() % n; };
  log_t log = 4096;
  std::vector<piece> pieces;
  for (home_t home = first; home + piece_max < first + model.bytes.size();) {
    const piece p{home, 1 + below(piece_max), log};
    pieces.push_back(p);
    for (std::uint64_t i = 0; i < p.size; ++i) model.at(home + i) = log + i;
    // Some neighbours go on in the log, some only at home.
    home += p.size + (below(2) == 0 ? 0 : 1 + below(piece_max));
    log += p.size + (below(2) == 0 ? 0 : 8);
  }
  const std::span<const piece> all{pieces};
  const std::size_t half = pieces.size() / 2;
  ASSERT_TRUE(m.fill(t.client, {}));
  // In two parts, which may meet inside of a partition.
  ASSERT_TRUE(m.fill(t.client, all.subspan(half)));
  ASSERT_TRUE(m.fill(t.client, all.first(half)));
  std::uint64_t told = 0;
  for (int round = 0; round < 2; ++round) {
    std::vector<log_t> seen(model.bytes.size());
    const auto see = [&](const piece& p) {
      for (std::uint64_t i = 0; i < p.size; ++i) seen[p.home - first + i] = p.log + i;
    };
    t.inside([&] { m.for_each_piece(t.client, first, model.bytes.size(), see); });
    ASSERT_EQ(seen, model.bytes);
    // A change in each of them finds room.
    for (std::size_t i = round; i < pieces.size(); i += 7) {
      const home_range r{pieces[i].home + pieces[i].size / 2, 1};
      ASSERT_TRUE(m.reserve(t.client, {&r, 1}));
      t.inside([&] { m.erase(t.client, r, [&](const piece& p) { told += p.size; }); });
      model.at(r.home) = 0;
    }
  }
  EXPECT_NE(told, 0U);
}

}  // namespace nvm::logheap::testing
