// Threads on one mapping: a home space where every piece must lead to the byte that it is asked for, whatever is split,
// merged, moved and erased meanwhile.  Nothing in its first half is ever erased: no gap may be seen there.
#pragma once

#include <atomic>
#include <thread>

#include "mapping_model.hpp"

namespace nvm::logheap::testing {

struct threads_run {
  std::uint64_t home_bytes = std::uint64_t{1} << 14;
  unsigned writers = 2;
  unsigned readers = 2;
  unsigned changes = 3000;  // of each writer, at least
  unsigned looks = 2000;    // of all readers, at least
};

// A mapping whose bytes say which version put them there: a log address is (version << 20) + home.
template <class M>
class threads_on_mapping {
 public:
  threads_on_mapping(M& m, epochs& e, const threads_run& r) : m_{m}, e_{e}, r_{r}, at_work_{r.writers} {}

  void fill() {
    mapping_thread<M> t{m_, e_};
    const home_range all{0, r_.home_bytes};
    ASSERT_TRUE(m_.reserve(t.client, {&all, 1}));
    const piece p{0, r_.home_bytes, log_at(0, 1)};
    t.inside([&] { m_.assign(t.client, {&p, 1}, nothing); });
    m_.release(t.client);
  }

  void write(unsigned w) {
    mapping_thread<M> t{m_, e_};
    std::mt19937_64 random{w + 7};
    for (unsigned i = 0; i < r_.changes || looked_ < r_.looks; ++i) {
      if (::testing::Test::HasFailure()) break;
      change(t, random, w);
    }
    --at_work_;
  }

  void clean() {
    mapping_thread<M> t{m_, e_};
    std::mt19937_64 random{99};
    while (at_work_ != 0) {
      const std::uint64_t size = 1 + random() % 200;
      const home_t home = random() % (r_.home_bytes - size);
      log_t from = 0;
      t.inside([&] { m_.for_each_piece(t.client, home, 1, [&](const piece& p) { from = p.log; }); });
      const home_range a{home, size};
      ASSERT_TRUE(m_.reserve(t.client, {&a, 1}));
      t.inside([&] { (void)m_.compare_and_move(t.client, home, size, from, log_at(home, version_.fetch_add(1) + 1)); });
      m_.release(t.client);
    }
  }

  void read(unsigned n) {
    mapping_thread<M> t{m_, e_};
    std::mt19937_64 random{n + 500};
    while (at_work_ != 0) {
      const std::uint64_t size =
          1 + random() % (random() % 8 == 0 ? std::min<std::uint64_t>(5000, r_.home_bytes / 2) : 16);
      const home_t home = random() % (r_.home_bytes - size);
      home_t next = home;
      t.inside([&] {
        m_.for_each_piece(t.client, home, size, [&](const piece& p) {
          ASSERT_GE(p.home, next);
          if (p.home > next) {
            ASSERT_GE(next, r_.home_bytes / 2) << "a gap";
          }
          ASSERT_EQ((p.log - p.home) & version_mask, 0U) << "another byte";
          ASSERT_LE(p.log >> version_shift, version_.load());
          next = p.home + p.size;
        });
      });
      ASSERT_LE(next, home + size);
      if (home + size <= r_.home_bytes / 2) {
        ASSERT_EQ(next, home + size);
      }
      looked_.fetch_add(1);
    }
  }

  static constexpr unsigned version_shift = 20;

 private:
  static constexpr std::uint64_t version_mask = (std::uint64_t{1} << version_shift) - 1;
  static log_t log_at(home_t h, std::uint64_t v) { return (v << version_shift) + h; }
  static void nothing(const piece&) {}

  void change(mapping_thread<M>& t, std::mt19937_64& random, unsigned w) {
    // Ranges of a writer are its own: stripes, so that neighbours in a partition belong to another one.
    constexpr std::uint64_t stripe = 96;
    const std::uint64_t stripes = r_.home_bytes / stripe / r_.writers;
    const home_t begin = (random() % stripes * r_.writers + w) * stripe;
    // Often the same bounds, which leaves change in place.
    const bool all_of_it = random() % 2 == 0;
    const home_t home = all_of_it ? begin : begin + random() % stripe;
    const std::uint64_t size = all_of_it ? stripe : 1 + random() % (begin + stripe - home);
    const home_range a{home, size};
    const bool erases = begin >= r_.home_bytes / 2 && random() % 3 == 0;
    const std::span<const home_range> one{&a, 1}, none;
    ASSERT_TRUE(random() % 2 == 0 ? m_.reserve(t.client, one)
                                  : m_.reserve_whole(t.client, erases ? none : one, erases ? one : none));
    if (erases) {
      t.inside([&] { m_.erase(t.client, a, nothing); });
      m_.release(t.client);
      t.inside([&] { m_.for_each_piece(t.client, home, size, [](const piece&) { FAIL() << "after erasing"; }); });
      return;
    }
    const std::uint64_t v = version_.fetch_add(1) + 1;
    const piece p{home, size, log_at(home, v)};
    t.inside([&] { m_.assign(t.client, {&p, 1}, nothing); });
    m_.release(t.client);
    // Other threads only move it.
    std::uint64_t seen = 0;
    t.inside([&] {
      m_.for_each_piece(t.client, home, size, [&](const piece& q) {
        ASSERT_EQ(q.home, home + seen);
        ASSERT_EQ((q.log - q.home) & version_mask, 0U);
        ASSERT_GE(q.log >> version_shift, v);
        seen += q.size;
      });
    });
    ASSERT_EQ(seen, size);
  }

  M& m_;
  epochs& e_;
  const threads_run r_;
  std::atomic<std::uint64_t> version_{1};
  std::atomic<unsigned> at_work_;
  std::atomic<std::uint64_t> looked_{0};
};

template <class M>
void leads_to_the_right_bytes_by_threads(M& m, epochs& e, const threads_run& r) {
  ASSERT_TRUE(m.exists());
  ASSERT_LE(r.home_bytes, std::uint64_t{1} << threads_on_mapping<M>::version_shift);
  threads_on_mapping<M> run{m, e, r};
  ASSERT_NO_FATAL_FAILURE(run.fill());
  std::vector<std::thread> all;
  for (unsigned w = 0; w < r.writers; ++w) all.emplace_back([&, w] { run.write(w); });
  all.emplace_back([&] { run.clean(); });
  for (unsigned n = 0; n < r.readers; ++n) all.emplace_back([&, n] { run.read(n); });
  for (std::thread& t : all) t.join();
}

}  // namespace nvm::logheap::testing
