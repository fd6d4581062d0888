// Mappings under test, and a model of the expected answers: a log address for each byte.
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
class model_walk {
 public:
  model_walk(M& m, epochs& e, const model_run& r)
      : m_{m}, r_{r}, t_{m, e}, model_{r.window_first, std::vector<log_t>(r.window_bytes)}, random_{r.seed} {}

  void step() {
    const unsigned what = static_cast<unsigned>(below(10));
    if (what < 4) return assign();
    if (what < 6) return erase();
    if (what < 7) return move();
    look();
  }

  void compare_all() {
    std::vector<log_t> all(r_.window_bytes);
    home_t last = 0;
    m_.for_each([&](const piece& p) {
      ASSERT_GE(p.home, last);
      for (std::uint64_t i = 0; i < p.size; ++i) all[p.home - r_.window_first + i] = p.log + i;
      last = p.home + p.size;
    });
    ASSERT_EQ(all, model_.bytes);
  }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  home_range random_range(std::uint64_t most) {
    const std::uint64_t size = 1 + below(below(4) == 0 ? most : std::min<std::uint64_t>(most, 24));
    return {r_.window_first + below(r_.window_bytes - size + 1), size};
  }
  void replaced(const piece& p) {
    told_ += p.size;
    for (std::uint64_t i = 0; i < p.size; ++i) ASSERT_EQ(model_.at(p.home + i), p.log + i);
  }
  std::uint64_t mapped_in(const home_range& a) {
    std::uint64_t n = 0;
    for (std::uint64_t i = 0; i < a.size; ++i) n += model_.at(a.home + i) != 0 ? 1 : 0;
    return n;
  }

  void assign() {
    std::vector<piece> pieces;
    std::vector<home_range> ranges;
    home_range a = random_range(r_.piece_max);
    for (unsigned n = static_cast<unsigned>(below(4)) + 1; n > 0; --n) {
      if (a.home + a.size > r_.window_first + r_.window_bytes) break;
      pieces.push_back({a.home, a.size, next_log_});
      ranges.push_back(a);
      next_log_ += a.size + (below(2) == 0 ? 0 : 8);
      a.home += a.size + (below(2) == 0 ? 0 : below(40));
      a.size = 1 + below(40);
    }
    ASSERT_TRUE(below(2) == 0 ? m_.reserve(t_.client, ranges) : m_.reserve_whole(t_.client, ranges, {}));
    told_ = 0;
    std::uint64_t was = 0;
    for (const home_range& x : ranges) was += mapped_in(x);
    t_.inside([&] { m_.assign(t_.client, pieces, [&](const piece& p) { replaced(p); }); });
    ASSERT_EQ(told_, was);
    for (const piece& p : pieces) {
      for (std::uint64_t i = 0; i < p.size; ++i) model_.at(p.home + i) = p.log + i;
    }
    m_.release(t_.client);
  }
  void erase() {
    const home_range a = random_range(r_.piece_max);
    ASSERT_TRUE(below(2) == 0 ? m_.reserve(t_.client, {&a, 1}) : m_.reserve_whole(t_.client, {}, {&a, 1}));
    told_ = 0;
    const std::uint64_t was = mapped_in(a);
    t_.inside([&] { m_.erase(t_.client, a, [&](const piece& p) { replaced(p); }); });
    ASSERT_EQ(told_, was);
    for (std::uint64_t i = 0; i < a.size; ++i) model_.at(a.home + i) = 0;
    m_.release(t_.client);
  }
  void move() {
    const home_range a = random_range(r_.piece_max);
    const log_t from = model_.at(a.home) != 0 && below(8) != 0 ? model_.at(a.home) : next_log_ + 77;
    ASSERT_TRUE(m_.reserve(t_.client, {&a, 1}));
    std::uint64_t expected = 0;
    for (std::uint64_t i = 0; i < a.size; ++i) {
      log_t& b = model_.at(a.home + i);
      if (b != from + i) continue;
      b = next_log_ + i;
      ++expected;
    }
    // Pieces that are not cut by it may move first.
    std::uint64_t moved = 0;
    t_.inside([&] {
      if (below(2) == 0) moved = m_.move_whole_pieces(t_.client, a.home, a.size, from, next_log_);
      ASSERT_LE(moved, expected);
      moved += m_.compare_and_move(t_.client, a.home, a.size, from, next_log_);
    });
    ASSERT_EQ(moved, expected);
    next_log_ += a.size + 8;
    m_.release(t_.client);
  }
  void look() {
    const home_range a = random_range(2 * r_.piece_max);
    if (a.home + a.size > r_.window_first + r_.window_bytes) return;
    std::vector<log_t> seen(a.size);
    home_t last = a.home;
    t_.inside([&] {
      m_.for_each_piece(t_.client, a.home, a.size, [&](const piece& p) {
        ASSERT_GE(p.home, last);
        ASSERT_TRUE(p.size != 0 && p.home + p.size <= a.home + a.size);
        for (std::uint64_t i = 0; i < p.size; ++i) seen[p.home - a.home + i] = p.log + i;
        last = p.home + p.size;
      });
    });
    for (std::uint64_t i = 0; i < a.size; ++i) ASSERT_EQ(seen[i], model_.at(a.home + i)) << "byte " << a.home + i;
  }

  M& m_;
  const model_run r_;
  mapping_thread<M> t_;
  byte_model model_;
  std::mt19937_64 random_;
  log_t next_log_ = 4096;
  std::uint64_t told_ = 0;  // bytes that the last change has told as replaced
};

template <class M>
void follows_a_model(M& m, epochs& e, const model_run& r) {
  ASSERT_TRUE(m.exists());
  model_walk<M> walk{m, e, r};
  for (unsigned step = 0; step < r.steps; ++step) {
    SCOPED_TRACE(::testing::Message() << "step " << step << " of seed " << r.seed);
    ASSERT_NO_FATAL_FAILURE(walk.step());
  }
  walk.compare_all();
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
