// Policies beside models that are written down plainly, and what each is for.
#include "tier/policy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <list>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace nvm::tier {
namespace {

template <class Pages>
void change(Pages& pages, typename Pages::key_type page, bool to_be_there) {
  if (to_be_there) {
    pages.insert(page);
  } else {
    pages.erase(page);
  }
}

constexpr std::uint64_t pages_in_all = 256;

// Pages that are dirty or referenced as a test says.
class told_host final : public page_host {
 public:
  bool dirty(page_t page) noexcept override { return dirty_pages.contains(page); }
  bool referenced(page_t page) noexcept override { return referenced_pages.contains(page); }
  bool attached(page_t page) noexcept override { return attached_pages.contains(page); }
  std::set<page_t> dirty_pages, referenced_pages, attached_pages;
};

// What a policy is to do, by lists of the library: the head is where pages go in.
class model {
 public:
  virtual ~model() = default;
  virtual void came(page_t page) = 0;
  virtual void used(page_t page) = 0;
  virtual void gone(page_t page) = 0;
  virtual page_t victim(page_host& host) = 0;
};

class listed : public model {
 public:
  void came(page_t page) override { order.push_front(page); }
  void used(page_t) override {}
  void gone(page_t page) override { order.remove(page); }
  page_t victim(page_host&) override { return take_last(); }

 protected:
  page_t take_last() {
    if (order.empty()) return no_page;
    const page_t last = order.back();
    order.pop_back();
    return last;
  }
  std::list<page_t> order;
};
class lru_model : public listed {
 public:
  void used(page_t page) override {
    if (std::erase(order, page) != 0) order.push_front(page);
  }
};
class second_chance_model final : public listed {
 public:
  void came(page_t page) override {
    was_used.erase(page);
    listed::came(page);
  }
  void used(page_t page) override { was_used.insert(page); }
  page_t victim(page_host&) override {
    for (;;) {
      const page_t last = take_last();
      if (last == no_page || was_used.erase(last) == 0) return last;
      order.push_front(last);
    }
  }

 private:
  std::set<page_t> was_used;
};
class cflru_model final : public lru_model {
 public:
  page_t victim(page_host& host) override {
    auto left = order.size() / 4;
    for (auto at = order.rbegin(); at != order.rend() && left != 0; ++at, --left) {
      if (host.dirty(*at)) continue;
      const page_t chosen = *at;
      order.remove(chosen);
      return chosen;
    }
    return take_last();
  }
};
// HEAPO, section II-E, sentence by sentence.
class uflru_model final : public model {
 public:
  void came(page_t page) override { active.push_front(page); }  // "inserted into the head of the active page list"
  void used(page_t page) override {                             // "or frequently used"
    if (std::erase(active, page) + std::erase(inactive, page) != 0) active.push_front(page);
  }
  void gone(page_t page) override {
    active.remove(page);
    inactive.remove(page);
  }
  page_t victim(page_host& host) override {
    while (inactive.size() < active.size()) {  // "If the inactive page list is smaller than the active page list"
      const page_t tail = active.back();       // "is checked from the tail"
      active.pop_back();
      if (host.referenced(tail) || host.dirty(tail)) {
        inactive.push_front(tail);
      } else {
        inactive.push_back(tail);
      }
    }
    if (inactive.empty()) return no_page;
    const page_t last = inactive.back();
    inactive.pop_back();
    return last;
  }

 private:
  std::list<page_t> active, inactive;
};

template <class P>
struct with_model;
template <>
struct with_model<fifo> {
  using type = listed;
};
template <>
struct with_model<lru> {
  using type = lru_model;
};
template <>
struct with_model<second_chance> {
  using type = second_chance_model;
};
template <>
struct with_model<cflru> {
  using type = cflru_model;
};
template <>
struct with_model<uflru> {
  using type = uflru_model;
};

template <class P>
class policy_beside_model : public testing::Test {};
using modelled = testing::Types<fifo, lru, second_chance, cflru, uflru>;
TYPED_TEST_SUITE(policy_beside_model, modelled);

TYPED_TEST(policy_beside_model, names_the_same_victims_over_random_traces) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    std::mt19937 random{seed};
    TypeParam p{pages_in_all};
    typename with_model<TypeParam>::type m;
    told_host host;
    std::set<page_t> present;
    std::uint64_t named = 0;
    for (unsigned step = 0; step < 4000; ++step) {
      const auto page = static_cast<page_t>(random() % pages_in_all);
      switch (random() % 8) {
        case 0:
        case 1:
        case 2:
          if (present.insert(page).second) {
            p.came(page);
            m.came(page);
          }
          break;
        case 3:
        case 4:
          if (present.contains(page)) {
            p.used(page);
            m.used(page);
          }
          break;
        case 5:
          change(host.dirty_pages, page, random() % 2 == 0);
          change(host.referenced_pages, page, random() % 2 == 0);
          break;
        case 6:
          if (random() % 4 == 0 && present.erase(page) != 0) {
            p.gone(page);
            m.gone(page);
          }
          break;
        default: {
          const page_t victim = p.victim(host);
          ASSERT_EQ(victim, m.victim(host)) << "seed " << seed << ", step " << step;
          ASSERT_EQ(victim == no_page, present.empty());
          named += present.erase(victim);
        }
      }
      ASSERT_EQ(p.size(), present.size());
    }
    EXPECT_GT(named, 200U);
  }
}

template <class P>
class every_policy : public testing::Test {};
using all_policies = testing::Types<fifo, lru, second_chance, cflru, uflru, steady>;
TYPED_TEST_SUITE(every_policy, all_policies);

TYPED_TEST(every_policy, names_each_page_once_and_then_none) {
  TypeParam p{pages_in_all};
  told_host host;
  EXPECT_EQ(p.victim(host), no_page);
  for (page_t page = 0; page < pages_in_all; ++page) {
    p.came(page);
    if (page % 3 == 0) host.dirty_pages.insert(page);
    if (page % 5 == 0) p.used(page);
    if (page % 7 == 0) host.referenced_pages.insert(page);
  }
  p.gone(17);
  std::set<page_t> named;
  for (unsigned i = 1; i < pages_in_all; ++i) EXPECT_TRUE(named.insert(p.victim(host)).second);
  EXPECT_FALSE(named.contains(17));
  EXPECT_FALSE(named.contains(no_page));
  EXPECT_EQ(p.victim(host), no_page);
  EXPECT_EQ(p.size(), 0U);
}

TYPED_TEST(every_policy, is_found_by_its_number_and_name) {
  unsigned found = 0;
  for (std::uint32_t which = 1; which <= NVM_TIER_FIFO; ++which) {
    if (std::string{policy_name(which)} != TypeParam::name) continue;
    const auto made = make_policy(which, 16);
    ASSERT_TRUE(made) << last_message();
    EXPECT_STREQ((*made)->name(), TypeParam::name);
    ++found;
  }
  EXPECT_EQ(found, 1U);
  EXPECT_EQ(make_policy(NVM_TIER_FIFO + 1, 16).error(), errc::invalid);
}

// What a policy finds of a trace with room for a quarter of the pages, told of use as the swapper tells it: what was
// touched since the hand came by, which goes round once for each two times that all room is given to others.
struct outcome {
  double hits = 0;
  std::uint64_t writes = 0;
};
template <class P, class Next>
outcome run_trace(Next&& next, double stores, std::uint64_t pages, std::uint64_t steps, told_host host = {}) {
  P p{pages};
  std::mt19937_64 random{7};
  const std::uint64_t room = pages / 4;
  std::vector<bool> present(pages), touched(pages), fresh(pages);
  std::uint64_t hand = 0, hits = 0, counted = 0, writes = 0, n = 0;
  const std::set<page_t> always = host.referenced_pages;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const auto page = static_cast<page_t>(next(random));
    const bool counts = step >= steps / 4;
    if (!present[page]) {
      if (n == room) {
        for (unsigned i = 0; i < 8; ++i, hand = (hand + 1) % pages) {
          if (!present[hand] || !touched[hand]) continue;
          touched[hand] = false;
          if (!always.contains(static_cast<page_t>(hand))) host.referenced_pages.erase(static_cast<page_t>(hand));
          if (fresh[hand]) {
            fresh[hand] = false;
          } else {
            p.used(static_cast<page_t>(hand));
          }
        }
        const page_t victim = p.victim(host);
        present[victim] = false;
        writes += counts && host.dirty_pages.erase(victim) != 0 ? 1 : 0;
        host.dirty_pages.erase(victim);
        --n;
      }
      p.came(page);
      present[page] = fresh[page] = true;
      ++n;
    } else if (counts) {
      ++hits;
    }
    counted += counts ? 1 : 0;
    touched[page] = true;
    host.referenced_pages.insert(page);
    if (std::uniform_real_distribution<>{}(random) < stores) host.dirty_pages.insert(page);
  }
  return {static_cast<double>(hits) / static_cast<double>(counted), writes};
}

// Zipf's law with parameter 0.99 over pages in an order of their own.
class zipfian {
 public:
  explicit zipfian(std::uint64_t pages) : order_(pages) {
    double sum = 0;
    for (std::uint64_t i = 0; i < pages; ++i) {
      sum += 1 / std::pow(static_cast<double>(i + 1), 0.99);
      below_.push_back(sum);
      order_[i] = i;
    }
    std::shuffle(order_.begin(), order_.end(), std::mt19937{3});
  }
  template <class Random>
  std::uint64_t operator()(Random& random) {
    const double at = std::uniform_real_distribution<>{0, below_.back()}(random);
    return order_[static_cast<std::uint64_t>(std::lower_bound(below_.begin(), below_.end(), at) - below_.begin())];
  }

 private:
  std::vector<double> below_;
  std::vector<std::uint64_t> order_;
};

constexpr std::uint64_t trace_pages = 1024;
constexpr std::uint64_t trace_steps = 60'000;

struct row {
  outcome of[6];
};
template <class Make>
row all_on(Make&& make, double stores, const told_host& host = {}) {
  return {{run_trace<steady>(make(), stores, trace_pages, trace_steps, host),
           run_trace<uflru>(make(), stores, trace_pages, trace_steps, host),
           run_trace<lru>(make(), stores, trace_pages, trace_steps, host),
           run_trace<cflru>(make(), stores, trace_pages, trace_steps, host),
           run_trace<second_chance>(make(), stores, trace_pages, trace_steps, host),
           run_trace<fifo>(make(), stores, trace_pages, trace_steps, host)}};
}
void print(const char* what, const row& r) {
  const char* const names[6] = {steady::name, uflru::name, lru::name, cflru::name, second_chance::name, fifo::name};
  for (unsigned i = 0; i < 6; ++i) {
    std::printf("%-12s %-14s hits %.4f writes %llu\n", what, names[i], r.of[i].hits,
                static_cast<unsigned long long>(r.of[i].writes));
  }
}
// A fault costs about as much as reading a page; a write a little more.
double cost(const outcome& o) { return (1 - o.hits) + 1.0 * static_cast<double>(o.writes) / (trace_steps * 0.75); }
void expect_steady_is_best(const char* what, const row& r) {
  print(what, r);
  for (unsigned i = 1; i < 6; ++i) EXPECT_LE(cost(r.of[0]), 1.005 * cost(r.of[i])) << what << ' ' << i;
}

TEST(steady_policy, is_as_good_as_the_best_on_a_zipfian_trace) {
  expect_steady_is_best("zipfian", all_on([] { return zipfian{trace_pages}; }, 0.1));
}

TEST(steady_policy, is_as_good_as_the_best_on_a_loop_over_more_than_there_is_room_for) {
  const row r = all_on([] { return [at = std::uint64_t{0}](auto&) mutable { return at++ % trace_pages; }; }, 0.1);
  expect_steady_is_best("loop", r);
  EXPECT_GT(r.of[0].hits, 0.15);
  EXPECT_LT(r.of[2].hits, 0.01);
}

TEST(steady_policy, is_as_good_as_the_best_where_scans_pass_through_a_zipfian_trace) {
  const auto make = [] {
    return [zipf = zipfian{trace_pages}, at = std::uint64_t{0}, step = std::uint64_t{0}](auto& random) mutable {
      return ++step % 2 == 0 ? zipf(random) : at++ % trace_pages;
    };
  };
  expect_steady_is_best("scans", all_on(make, 0.1));
}

TEST(steady_policy, is_as_good_as_the_best_where_the_hot_pages_change) {
  const auto make = [] {
    return [zipf = zipfian{trace_pages}, step = std::uint64_t{0}](auto& random) mutable {
      return (zipf(random) + ++step / 15'000 * 350) % trace_pages;
    };
  };
  expect_steady_is_best("changing", all_on(make, 0.1));
}

}  // namespace
}  // namespace nvm::tier
