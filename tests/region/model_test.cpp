// Regions against a model: any calls in any order, across processes that die, in a pool with little room.
#include <algorithm>
#include <map>
#include <random>

#include "ground.hpp"

namespace nvm::region::testing {
namespace {

using contents = std::map<std::uint64_t, std::vector<std::byte>>;

struct variant {
  const char* name;
  mode how;
  unsigned page_shift;
  isa::write_back with;
};
constexpr variant variants[] = {
    {"adaptive", mode::adaptive, 12, isa::write_back::clflushopt},
    {"adaptive_small_pages", mode::adaptive, 10, isa::write_back::clflushopt},
    {"copy", mode::copy, 12, isa::write_back::clflushopt},
    {"checked", mode::checked, 12, isa::write_back::none},
    {"marked", mode::marked, 12, isa::write_back::clflushopt},
    {"replica", mode::replica, 12, isa::write_back::clflushopt},
    {"replica_small_pages", mode::replica, 10, isa::write_back::clflushopt},
    {"alternate", mode::alternate, 12, isa::write_back::clflushopt},
    {"alternate_small_pages", mode::alternate, 10, isa::write_back::clflushopt},
};
void PrintTo(const variant& v, std::ostream* to) { *to << v.name; }

class player {
 public:
  player(const variant& v, std::uint64_t seed)
      : v_{v},
        pool{pool_geometry(64, 4096 >> (v.page_shift - 10), v.page_shift), settings(),
             isa::has(v.with) ? v.with : isa::best_write_back()},
        random_{seed} {
    start();
  }
  void start() {
    set = &pool.make("subject");
    t = &pool.join();
  }
  [[nodiscard]] std::uint64_t below(std::uint64_t n) { return random_() % n; }
  // Around the borders of slots, records and pages.
  [[nodiscard]] std::uint64_t some_bytes() {
    constexpr std::uint64_t borders[] = {1, 16, 64, 200, 512, 600, 2048, 2100, 5000, 20'000, 70'000};
    const std::uint64_t most = borders[below(std::size(borders))];
    return 1 + below(most);
  }
  void step() {
    const std::uint64_t rid = below(24);
    const auto at = model.find(rid);
    switch (below(10)) {
      case 0:
        return create(rid);
      case 1:
        return at == model.end() ? create(rid) : drop(rid);
      case 2:
      case 3:
        return at == model.end() ? create(rid) : append(rid);
      case 4:
        return at == model.end() ? create(rid) : truncate(rid);
      case 5:
        return group();
      default:
        return at == model.end() ? create(rid) : write(rid);
    }
  }
  // What a full pool refuses changes nothing.
  bool good(const status& s) {
    if (!s && s.error() == errc::no_space) {
      ++refused;
      return false;
    }
    EXPECT_TRUE(s) << last_message();
    return s.has_value();
  }
  void create(std::uint64_t rid) {
    const bool there = model.contains(rid);
    const std::uint64_t size = below(3) == 0 ? 0 : some_bytes();
    const status s = change_alone(pool.all(), *set, *t, rid, v_.how, false,
                                  [&](auto& tx) { return tx.create(rid, size, below(4) == 0 ? some_bytes() : 0); });
    if (there) {
      EXPECT_EQ(s.error(), errc::exists);
    } else if (good(s)) {
      model[rid].assign(size, std::byte{});
    }
  }
  void drop(std::uint64_t rid) {
    const status s = change_alone(pool.all(), *set, *t, rid, v_.how, true, [&](auto& tx) { return tx.drop(rid); });
    if (good(s)) model.erase(rid);
  }
  void write(std::uint64_t rid) {
    std::vector<std::byte>& now = model[rid];
    if (now.empty()) return append(rid);
    const std::uint64_t offset = below(now.size());
    const auto bytes = pattern(random_(), std::min<std::uint64_t>(some_bytes(), now.size() - offset));
    const status s =
        change_alone(pool.all(), *set, *t, rid, v_.how, true, [&](auto& tx) { return tx.write(rid, offset, bytes); });
    if (good(s)) std::copy(bytes.begin(), bytes.end(), now.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  void append(std::uint64_t rid) {
    std::vector<std::byte>& now = model[rid];
    if (now.size() > 200'000) return truncate(rid);
    const auto bytes = pattern(random_(), some_bytes());
    std::uint64_t where = 0;
    const status s = change_alone(pool.all(), *set, *t, rid, v_.how, true, [&](auto& tx) -> status {
      const auto at = tx.append(rid, bytes);
      if (!at) return at.error();
      where = *at;
      return {};
    });
    if (!good(s)) return;
    EXPECT_EQ(where, now.size());
    now.insert(now.end(), bytes.begin(), bytes.end());
  }
  void truncate(std::uint64_t rid) {
    std::vector<std::byte>& now = model[rid];
    const std::uint64_t length = below(4) == 0 ? now.size() + below(3000) : below(now.size() + 1);
    const status s =
        change_alone(pool.all(), *set, *t, rid, v_.how, true, [&](auto& tx) { return tx.truncate(rid, length); });
    if (good(s)) now.resize(length);
  }
  // Several regions, several changes of each, in one transaction, which may be given up.
  void group() {
    contents now = model;
    const bool gives_up = below(4) == 0;
    status s;
    {
      const typename domain<direct_media>::inside here{pool.all(), *t};
      transaction<direct_media> tx{pool.all(), *set, *t};
      for (unsigned i = 0, n = 1 + below(4); i < n && s; ++i) s = one_of_group(tx, now);
      if (s && !gives_up) s = tx.commit();
    }
    pool.all().collect_if_much_waits();
    if (good(s) && !gives_up) model = now;
  }
  status one_of_group(transaction<direct_media>& tx, contents& now) {
    const std::uint64_t rid = below(24);
    if (tx.has(rid)) return {};
    if (!now.contains(rid)) {
      const std::uint64_t size = some_bytes();
      if (status s = tx.create(rid, size, 0); !s) return s;
      now[rid].assign(size, std::byte{});
    } else if (status s = tx.join(rid, v_.how); !s) {
      return s;
    }
    std::vector<std::byte>& b = now[rid];
    for (unsigned i = 0, n = below(5); i < n; ++i) {
      const auto bytes = pattern(random_(), some_bytes());
      switch (below(4)) {
        case 0: {
          if (status s = tx.truncate(rid, below(b.size() + 2000)); !s) return s;
          b.resize(*tx.length(rid));
          break;
        }
        case 1: {
          const auto at = tx.append(rid, bytes);
          if (!at) return at.error();
          EXPECT_EQ(*at, b.size());
          b.insert(b.end(), bytes.begin(), bytes.end());
          break;
        }
        default: {
          if (b.empty()) break;
          const std::uint64_t offset = below(b.size());
          const std::uint64_t size = std::min<std::uint64_t>(bytes.size(), b.size() - offset);
          if (status s = tx.write(rid, offset, std::span{bytes}.first(size)); !s) return s;
          std::copy_n(bytes.begin(), size, b.begin() + static_cast<std::ptrdiff_t>(offset));
        }
      }
      // A transaction reads what it wrote.
      std::vector<std::byte> seen(b.size());
      EXPECT_EQ(*tx.read(rid, 0, seen), b.size());
      EXPECT_TRUE(seen == b) << "in a transaction";
    }
    if (below(8) == 0) {
      if (status s = tx.drop(rid); !s) return s;
      now.erase(rid);
    }
    return {};
  }
  void compare() {
    for (std::uint64_t rid = 0; rid < 24; ++rid) {
      const auto at = model.find(rid);
      const auto size = length(pool.all(), *set, *t, rid);
      if (at == model.end()) {
        EXPECT_EQ(size.error(), errc::not_found);
        continue;
      }
      ASSERT_TRUE(size) << last_message();
      ASSERT_EQ(*size, at->second.size()) << rid;
      std::vector<std::byte> seen(*size + 10);
      ASSERT_EQ(*read(pool.all(), *set, *t, rid, 0, seen), *size);
      seen.resize(*size);
      const auto differs = std::mismatch(seen.begin(), seen.end(), at->second.begin());
      ASSERT_TRUE(differs.first == seen.end()) << rid << " at " << differs.first - seen.begin() << " of " << *size;
    }
    EXPECT_EQ(set->regions.count(), model.size());
  }

  const variant v_;
  ground<direct_media> pool;
  std::mt19937_64 random_;
  contents model;
  unsigned refused = 0;
  set_state<direct_media>* set = nullptr;
  thread_state<direct_media>* t = nullptr;
};

class region_model : public ::testing::TestWithParam<variant> {};

TEST_P(region_model, any_calls_leave_what_the_model_has) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    player p{GetParam(), seed};
    statistics sum;  // of all processes
    for (unsigned i = 0; i < 3000 && !HasFatalFailure() && !HasNonfatalFailure(); ++i) {
      p.step();
      if (i % 100 == 99) p.compare();
      if (i % 500 == 499) {
        p.pool.all().sum_up(sum);
        p.pool.crash_and_open();
        p.start();
        p.compare();
      }
    }
    const auto in_place = sum.changes[static_cast<unsigned>(technique::replica)];
    if (GetParam().how == mode::replica) {
      EXPECT_GT(in_place, 50U);
      EXPECT_GT(sum.replicas_given, 20U);
    } else {
      EXPECT_EQ(in_place, 0U);
    }
    const auto alternated = sum.changes[static_cast<unsigned>(technique::alternate)];
    if (GetParam().how == mode::alternate) {
      EXPECT_GT(alternated, 50U);
    } else {
      EXPECT_EQ(alternated, 0U);
    }
    // All is free again when all is dropped.
    while (!p.model.empty()) p.drop(p.model.begin()->first);
    p.pool.all().come_to_rest();
    statistics s;
    p.pool.all().sum_up(s);
    EXPECT_EQ(s.waiting_bytes, 0U);
    p.pool.all().drop(*p.set);
    const std::uint64_t free = p.pool.free_pages();
    p.pool.crash_and_open();
    EXPECT_EQ(p.pool.free_pages(), free);
  }
}
INSTANTIATE_TEST_SUITE_P(ways, region_model, ::testing::ValuesIn(variants),
                         [](const auto& i) { return std::string{i.param.name}; });

}  // namespace
}  // namespace nvm::region::testing
