// Loads and stores of barrier transactions: a transaction reads its own stores, of any size and alignment, and
// rolled-back stores leave no trace.
#include <array>
#include <cstring>
#include <random>
#include <vector>

#include "place.hpp"

namespace nvm::tests {
namespace {

class stm_memory : public everywhere {};
NVM_EVERYWHERE(stm_memory);

TEST_P(stm_memory, a_committed_store_is_there) {
  auto* x = here.shared<std::uint64_t>(8);
  ASSERT_TRUE(atomic(here.pool(), [&](tx& t) { t.store(x, 42); })) << nvm_errormsg();
  EXPECT_EQ(*x, 42U);
  here.reopen();
  EXPECT_EQ(*x, 42U);
}

TEST_P(stm_memory, a_transaction_reads_its_own_stores) {
  auto* x = here.shared<std::uint64_t>(16);
  std::uint64_t first = 0;
  std::uint64_t merged = 0;
  ASSERT_TRUE(atomic(here.pool(), [&](tx& t) {
    t.store(x + 1, 7);
    first = t.load(x + 1);
    t.store(reinterpret_cast<std::uint8_t*>(x) + 3, 0xAB);
    merged = t.load(x);
  }));
  EXPECT_EQ(first, 7U);
  EXPECT_EQ(merged, 0xAB000000U);
  EXPECT_EQ(*x, 0xAB000000U);
}

TEST_P(stm_memory, cancel_takes_every_store_back) {
  auto* x = here.shared<std::uint64_t>(64);
  for (int i = 0; i < 64; ++i) {
    ASSERT_TRUE(atomic(here.pool(), [&](tx& t) { t.store(x + i, 1000 + i); }));
  }
  const outcome done = atomic(here.pool(), [&](tx& t) {
    for (int i = 0; i < 64; ++i) t.store(x + i, 0);
    t.fill(x, 0xFF, 64 * 8);
    t.cancel(5);
  });
  EXPECT_EQ(done.code(), 5);
  for (std::uint64_t i = 0; i < 64; ++i) EXPECT_EQ(x[i], 1000 + i);
  here.reopen();
  for (std::uint64_t i = 0; i < 64; ++i) EXPECT_EQ(x[i], 1000 + i);
}

TEST_P(stm_memory, expecting_stores_changes_nothing_but_what_they_wait_for) {
  auto* x = here.shared<std::uint64_t>(512);
  std::uint64_t private_word = 1;
  for (const bool kept : {false, true}) {
    const outcome done = atomic(here.pool(), [&](tx& t) {
      std::vector<nvm_range> ranges;
      for (int i = 0; i < 512; i += 16) ranges.push_back({x + i, 8});
      ranges.push_back({&private_word, 8});
      ranges.push_back({x + 3, 0});
      t.expect(ranges.data(), ranges.size());
      for (int i = 0; i < 512; ++i) EXPECT_EQ(t.load(x + i), 0U);
      for (int i = 0; i < 512; i += 16) t.store(x + i, 9);
      // An inner level that expects too, and is taken back.
      EXPECT_FALSE(atomic([&](tx& inner) {
        inner.expect(ranges.data(), 3);
        for (int i = 0; i < 48; i += 16) inner.store(x + i, 5);
        inner.cancel(1);
      }));
      t.store(x + 1, 9);  // not expected
      if (!kept) t.cancel(7);
    });
    EXPECT_EQ(done.code(), kept ? 0 : 7) << nvm_errormsg();
    for (int i = 0; i < 512; ++i) EXPECT_EQ(x[i], kept && (i % 16 == 0 || i == 1) ? 9U : 0U) << i;
  }
  here.reopen();
  for (int i = 0; i < 512; ++i) EXPECT_EQ(x[i], i % 16 == 0 || i == 1 ? 9U : 0U) << i;
}

// One fence for what would be one each.
TEST(stm_expect, on_a_write_through_pool_announces_all_at_once) {
  place here{where::undo};
  auto* x = here.shared<std::uint64_t>(512);
  here.close();
  nvm_pool_options o{};
  o.meter = 1;
  NVM_POOL* pool = nvm_pool_open_with(here.path().c_str(), &o);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  const auto fences = [&](bool expected) {
    nvm_statistics before{}, after{};
    EXPECT_EQ(nvm_pool_get_statistics(pool, &before), 0);
    EXPECT_TRUE(atomic(pool, [&](tx& t) {
      std::vector<nvm_range> ranges;
      for (int i = 0; i < 512; i += 16) ranges.push_back({x + i, 8});
      if (expected) t.expect(ranges.data(), ranges.size());
      for (int i = 0; i < 512; i += 16) t.store(x + i, 9);
    }));
    EXPECT_EQ(nvm_pool_get_statistics(pool, &after), 0);
    return after.fences - before.fences;
  };
  (void)fences(false);  // the first one of a lane has more to do
  const std::uint64_t one_by_one = fences(false);
  EXPECT_EQ(one_by_one - fences(true), 31U);
  ASSERT_EQ(nvm_pool_close(pool), 0);
  here.open();
}

// Steps on shared memory and on a model of it: every size, every alignment, overlapping copies.
class shared_and_model {
 public:
  static constexpr std::size_t bytes_max = 2048;
  shared_and_model(std::byte* shared, unsigned seed) : shared_{shared}, random_{seed} {}

  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_()) % n; }
  void step(tx& t, std::vector<std::byte>& m) {
    const std::size_t n = 1 + below(below(4) == 0 ? 900 : 20);
    const std::size_t to = below(bytes_max - n);
    const std::size_t from = below(bytes_max - n);
    std::vector<std::byte> bytes(n);
    switch (below(8)) {
      case 0:
        for (auto& b : bytes) b = static_cast<std::byte>(random_());
        t.write(shared_ + to, bytes.data(), n);
        std::memcpy(m.data() + to, bytes.data(), n);
        break;
      case 1:
        t.copy(shared_ + to, shared_ + from, n);
        std::memmove(m.data() + to, m.data() + from, n);
        break;
      case 2:
        t.fill(shared_ + to, static_cast<int>(n), n);
        std::memset(m.data() + to, static_cast<int>(n), n);
        break;
      case 3: {
        const std::size_t at = below(bytes_max - 8);
        t.store(reinterpret_cast<std::uint64_t*>(shared_ + at), 0x0123456789ABCDEF + n);
        const std::uint64_t v = 0x0123456789ABCDEF + n;
        std::memcpy(m.data() + at, &v, 8);
        break;
      }
      case 4: {
        const std::size_t at = below(bytes_max - 8);
        std::uint32_t v = 0;
        std::memcpy(&v, m.data() + at, 4);
        EXPECT_EQ(t.load(reinterpret_cast<const std::uint32_t*>(shared_ + at)), v);
        EXPECT_EQ(t.load(reinterpret_cast<const std::uint8_t*>(shared_ + at)), static_cast<std::uint8_t>(m[at]));
        std::uint16_t half = 0;
        std::memcpy(&half, m.data() + at, 2);
        EXPECT_EQ(t.load(reinterpret_cast<const std::uint16_t*>(shared_ + at)), half);
        break;
      }
      case 5:
        EXPECT_EQ(t.compare(shared_ + from, m.data() + from, n), 0);
        break;
      default:
        t.read(bytes.data(), shared_ + from, n);
        EXPECT_EQ(std::memcmp(bytes.data(), m.data() + from, n), 0);
    }
  }

 private:
  std::byte* shared_;
  std::mt19937 random_;
};

// Against plain memory, with levels that are taken back.
TEST_P(stm_memory, does_what_plain_memory_does) {
  constexpr std::size_t bytes_max = shared_and_model::bytes_max;
  auto* shared = here.shared<std::byte>(bytes_max);
  std::vector<std::byte> model(bytes_max);
  shared_and_model both{shared, is_ssd(GetParam()) ? 1U : 2U};
  const int rounds = is_ssd(GetParam()) ? 60 : 400;
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    std::vector<std::byte> next = model;
    const bool keep = both.below(3) != 0;
    const outcome done = atomic(here.pool(), [&](tx& t) {
      next = model;
      for (std::size_t i = both.below(20); i-- > 0;) {
        both.step(t, next);
        if (both.below(4) != 0) continue;
        std::vector<std::byte> inner = next;
        const bool keep_inner = both.below(2) == 0;
        const outcome level = atomic(here.pool(), [&](tx& u) {
          for (std::size_t k = both.below(6); k-- > 0;) {
            both.step(u, inner);
            std::vector<std::byte> deeper = inner;
            const bool deep = both.below(3) == 0;
            const outcome third = atomic(here.pool(), [&](tx& v) {
              both.step(v, deeper);
              return deep;
            });
            EXPECT_EQ(static_cast<bool>(third), deep);
            if (deep) inner = deeper;
          }
          return keep_inner;
        });
        EXPECT_EQ(static_cast<bool>(level), keep_inner);
        if (keep_inner) next = inner;
      }
      return keep;
    });
    EXPECT_EQ(static_cast<bool>(done), keep) << nvm_errormsg();
    if (keep) model = next;
    ASSERT_EQ(std::memcmp(shared, model.data(), bytes_max), 0) << "round " << round;
  }
  here.reopen();
  EXPECT_EQ(std::memcmp(shared, model.data(), bytes_max), 0);
}

TEST_P(stm_memory, takes_types_of_any_size) {
  struct point {
    double x, y, z;
  };
  auto* p = here.shared<point>(4);
  auto* f = reinterpret_cast<float*>(p + 2);
  ASSERT_TRUE(atomic(here.pool(), [&](tx& t) {
    t.store(p, {1, 2, 3});
    t.store(f, 0.5F);
    const point q = t.load(p);
    EXPECT_EQ(q.y, 2);
    EXPECT_EQ(t.load(f), 0.5F);
  }));
  EXPECT_EQ(p->z, 3);
}

TEST_P(stm_memory, volatile_memory_follows_the_transaction) {
  auto* x = here.shared<long>(1);
  long mine[40] = {};
  const outcome cancelled = atomic(here.pool(), [&](tx& t) {
    for (long& m : mine) t.store(&m, 3);
    t.store(x, 3);
    EXPECT_EQ(t.load(mine), 3);
    t.cancel();
  });
  EXPECT_FALSE(cancelled);
  EXPECT_EQ(mine[0], 0);
  EXPECT_EQ(mine[39], 0);
  ASSERT_TRUE(atomic(here.pool(), [&](tx& t) {
    for (long& m : mine) t.store(&m, 4);
    t.store(x, 4);
  }));
  EXPECT_EQ(mine[39], 4);
  EXPECT_EQ(*x, 4);
}

TEST_P(stm_memory, fields_go_through_the_open_transaction) {
  struct counter {
    p<long> value;
    p<counter*> next;
  };
  auto* c = here.shared<counter>(2);
  ASSERT_TRUE(atomic(here.pool(), [&] {
    c->value = 5;
    c->value += 2;
    ++c->value;
    EXPECT_EQ(c->value, 8);
    c->next = c + 1;
    c->next->value = 9;
  }));
  EXPECT_EQ(c->value, 8);
  EXPECT_EQ(c[1].value, 9);
  EXPECT_FALSE(atomic(here.pool(), [&] {
    c->value = 100;
    c->next = nullptr;
    return false;
  }));
  EXPECT_EQ(c->value, 8);
  EXPECT_EQ(c->next.get(), c + 1);
}

}  // namespace
}  // namespace nvm::tests
