// What transactions of announced stores promise, on every medium: the same tests run unchanged on each.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "image_pool.hpp"
#include "pool_image.hpp"

namespace nvm::tests {
namespace {

template <class Pool>
class transactions : public testing::Test {
 protected:
  Pool pool;
  auto& heap() { return pool.heap(); }
  using heap_type = typename Pool::heap_type;
  using session_type = session<heap_type>;

  // A committed object of `bytes` bytes filled with `fill`, made the root.
  std::uint64_t make_root(std::uint64_t bytes, std::uint8_t fill) {
    session_type s{heap()};
    const std::uint64_t at = s.alloc(bytes);
    EXPECT_NE(at, 0U) << last_message();
    std::memset(heap().base() + at, fill, bytes);
    EXPECT_TRUE(s.set_root(at));
    EXPECT_TRUE(s.commit()) << last_message();
    return at;
  }
  std::uint64_t objects() {
    std::uint64_t n = 0;
    EXPECT_TRUE(heap().places().for_each_object([&](auto...) {
      ++n;
      return true;
    }));
    return n;
  }
  bool all_are(std::uint64_t at, std::uint64_t bytes, std::uint8_t value) {
    for (std::uint64_t i = 0; i < bytes; ++i) {
      if (static_cast<std::uint8_t>(heap().base()[at + i]) != value) return false;
    }
    return true;
  }
};

using pools = testing::Types<direct_pool, image_pool>;
TYPED_TEST_SUITE(transactions, pools);

TYPED_TEST(transactions, a_committed_object_survives) {
  const std::uint64_t at = this->make_root(100, 0x5A);
  this->pool.crash();
  EXPECT_EQ(root_of(this->heap()), at);
  EXPECT_TRUE(this->all_are(at, 100, 0x5A));
  EXPECT_EQ(this->objects(), 1U);
}

TYPED_TEST(transactions, an_aborted_one_leaves_no_trace) {
  const std::uint64_t at = this->make_root(100, 1);
  const std::uint64_t used = this->heap().places().used_pages();
  {
    typename TestFixture::session_type s{this->heap()};
    EXPECT_TRUE(s.store(at, 0xFFFF));
    EXPECT_NE(s.alloc(64), 0U);
    EXPECT_NE(s.alloc(100000), 0U);
    EXPECT_TRUE(s.free(at));
    EXPECT_TRUE(s.set_root(0));
    s.abort();
  }
  EXPECT_TRUE(this->all_are(at, 100, 1));
  EXPECT_EQ(root_of(this->heap()), at);
  // An extent that was made for the small object stays, empty.
  EXPECT_LE(this->heap().places().used_pages(), used + layout::fine_extent_pages);
  this->pool.crash();
  EXPECT_TRUE(this->all_are(at, 100, 1));
  EXPECT_EQ(this->objects(), 1U);
}

TYPED_TEST(transactions, an_unfinished_one_is_rolled_back_at_open) {
  const std::uint64_t at = this->make_root(4000, 1);
  typename TestFixture::session_type s{this->heap()};
  EXPECT_TRUE(s.announce(at, 4000));
  std::memset(this->heap().base() + at, 2, 4000);
  EXPECT_NE(s.alloc(64), 0U);
  EXPECT_TRUE(s.free(at));
  this->pool.crash();
  EXPECT_TRUE(this->all_are(at, 4000, 1));
  EXPECT_EQ(this->objects(), 1U);
  EXPECT_EQ(root_of(this->heap()), at);
  s.forget();
}

TYPED_TEST(transactions, a_freed_object_is_gone_and_its_room_is_used_again) {
  const std::uint64_t at = this->make_root(1000, 1);
  {
    typename TestFixture::session_type s{this->heap()};
    EXPECT_TRUE(s.set_root(0));
    EXPECT_TRUE(s.free(at));
    EXPECT_TRUE(s.commit());
  }
  EXPECT_EQ(this->objects(), 0U);
  for (int i = 0; i < 2000; ++i) {
    std::uint64_t p = 0;
    {
      typename TestFixture::session_type s{this->heap()};
      p = s.alloc(1000);
      ASSERT_NE(p, 0U) << i << ": " << last_message();
      ASSERT_TRUE(s.commit());
    }
    typename TestFixture::session_type s{this->heap()};
    ASSERT_TRUE(s.free(p));
    ASSERT_TRUE(s.commit());
  }
  this->pool.crash();
  EXPECT_EQ(this->objects(), 0U);
}

TYPED_TEST(transactions, an_object_allocated_and_freed_in_one_costs_nothing) {
  {
    typename TestFixture::session_type s{this->heap()};
    const std::uint64_t p = s.alloc(64);
    ASSERT_NE(p, 0U);
    EXPECT_TRUE(s.free(p));
    EXPECT_FALSE(s.free(p));
    EXPECT_EQ(last_code(), errc::bad_pointer);
    EXPECT_TRUE(s.commit());
  }
  EXPECT_EQ(this->objects(), 0U);
}

TYPED_TEST(transactions, wrong_pointers_are_refused_and_change_nothing) {
  const std::uint64_t at = this->make_root(100, 1);
  {
    typename TestFixture::session_type s{this->heap()};
    for (const std::uint64_t wrong :
         {at + 16, at + 1, at - 16, std::uint64_t{16}, this->heap().shape().data_offset + 16,
          this->heap().shape().size_bytes() + 4096}) {
      EXPECT_FALSE(s.free(wrong)) << wrong;
      EXPECT_EQ(last_code(), errc::bad_pointer) << wrong << ": " << last_message();
    }
    EXPECT_TRUE(s.free(at));
    EXPECT_FALSE(s.free(at));
    EXPECT_EQ(last_code(), errc::bad_pointer);
    EXPECT_TRUE(s.commit());
  }
  typename TestFixture::session_type s{this->heap()};
  EXPECT_FALSE(s.free(at));
  EXPECT_EQ(last_code(), errc::bad_pointer);
}

TYPED_TEST(transactions, an_object_of_another_open_transaction_cannot_be_freed) {
  typename TestFixture::session_type a{this->heap(), 0};
  typename TestFixture::session_type b{this->heap(), 1};
  const std::uint64_t p = a.alloc(64);
  EXPECT_FALSE(b.free(p));
  EXPECT_EQ(last_code(), errc::bad_pointer);
  EXPECT_TRUE(a.commit());
  EXPECT_TRUE(b.free(p));
  typename TestFixture::session_type c{this->heap(), 2};
  EXPECT_FALSE(c.free(p));
  EXPECT_TRUE(b.commit());
}

TYPED_TEST(transactions, know_their_own_objects_however_many_there_are) {
  constexpr std::size_t count = 80;
  std::vector<std::uint64_t> outer;
  std::vector<std::uint64_t> kept;
  {
    typename TestFixture::session_type s{this->heap()};
    for (std::size_t i = 0; i < count; ++i) outer.push_back(s.alloc(i % 20 == 0 ? 6000 : 64));
    for (const std::uint64_t p : outer) std::memset(this->heap().base() + p, 1, 64);
    EXPECT_TRUE(s.tx().begin());
    std::vector<std::uint64_t> dropped;
    for (std::size_t i = 0; i < count; ++i) dropped.push_back(s.alloc(64));
    for (const std::uint64_t p : dropped) EXPECT_TRUE(s.store(p + 8, 2));
    for (const std::uint64_t p : outer) EXPECT_TRUE(s.store(p + 8, 2));
    EXPECT_TRUE(s.free(dropped.front()));
    s.tx().abort_level();
    for (const std::uint64_t p : outer) EXPECT_TRUE(this->all_are(p, 64, 1)) << p;
    for (const std::uint64_t p : dropped) EXPECT_FALSE(s.free(p)) << p;  // they are gone
    for (std::size_t i = 0; i < count; ++i) kept.push_back(s.alloc(48));
    for (const std::uint64_t p : kept) std::memset(this->heap().base() + p, 3, 48);
    for (std::size_t i = 0; i < count; i += 2) EXPECT_TRUE(s.free(outer[i])) << last_message();
    EXPECT_TRUE(s.commit()) << last_message();
  }
  this->pool.crash();
  EXPECT_EQ(this->objects(), count / 2 + count);
  for (std::size_t i = 1; i < count; i += 2) EXPECT_TRUE(this->all_are(outer[i], 64, 1)) << i;
  for (const std::uint64_t p : kept) EXPECT_TRUE(this->all_are(p, 48, 3)) << p;
}

TYPED_TEST(transactions, an_inner_abort_rolls_back_its_own_part) {
  const std::uint64_t at = this->make_root(64, 0);
  {
    typename TestFixture::session_type s{this->heap()};
    EXPECT_TRUE(s.store(at, 1));
    EXPECT_TRUE(s.tx().begin());
    EXPECT_TRUE(s.store(at, 2));      // logged before: a volatile copy
    EXPECT_TRUE(s.store(at + 8, 3));  // new here: a durable record
    EXPECT_NE(s.alloc(64), 0U);
    s.tx().abort_level();
    EXPECT_EQ(load(this->heap(), at), 1U);
    EXPECT_EQ(load(this->heap(), at + 8), 0U);
    EXPECT_TRUE(s.tx().begin());
    EXPECT_TRUE(s.store(at + 16, 4));
    EXPECT_TRUE(s.tx().begin());
    EXPECT_TRUE(s.store(at + 16, 5));
    EXPECT_TRUE(s.tx().commit_level());
    EXPECT_TRUE(s.tx().commit_level());
    EXPECT_TRUE(s.commit());
  }
  this->pool.crash();
  EXPECT_EQ(load(this->heap(), at), 1U);
  EXPECT_EQ(load(this->heap(), at + 8), 0U);
  EXPECT_EQ(load(this->heap(), at + 16), 5U);
  EXPECT_EQ(this->objects(), 1U);
}

TYPED_TEST(transactions, an_inner_abort_restores_fresh_objects_of_the_outer_level) {
  std::uint64_t p = 0;
  {
    typename TestFixture::session_type s{this->heap()};
    p = s.alloc(64);
    std::memset(this->heap().base() + p, 0, 64);
    EXPECT_TRUE(s.store(p, 1));
    EXPECT_TRUE(s.set_root(p));
    EXPECT_TRUE(s.tx().begin());
    EXPECT_TRUE(s.store(p, 2));
    EXPECT_TRUE(s.free(p));
    s.tx().abort_level();
    EXPECT_EQ(load(this->heap(), p), 1U);
    EXPECT_TRUE(s.commit());
  }
  this->pool.crash();
  EXPECT_EQ(load(this->heap(), p), 1U);
  EXPECT_EQ(this->objects(), 1U);
}

TYPED_TEST(transactions, an_outer_abort_restores_what_it_stored_where_an_inner_level_had_aborted) {
  const std::uint64_t at = this->make_root(128, 0);
  {
    typename TestFixture::session_type s{this->heap()};
    EXPECT_TRUE(s.store(at, 1));
    EXPECT_TRUE(s.tx().begin());
    EXPECT_TRUE(s.store(at, 2));
    EXPECT_TRUE(s.store(at + 8, 3));
    EXPECT_TRUE(s.tx().begin());
    EXPECT_TRUE(s.store(at + 72, 4));
    EXPECT_TRUE(s.tx().commit_level());
    s.tx().abort_level();
    EXPECT_TRUE(s.store(at + 8, 5));
    EXPECT_TRUE(s.store(at + 72, 6));
    s.abort();
  }
  EXPECT_TRUE(this->all_are(at, 128, 0));
  this->pool.crash();
  EXPECT_TRUE(this->all_are(at, 128, 0));
}

TYPED_TEST(transactions, an_inner_abort_lets_go_of_the_bytes_of_what_it_had_allocated) {
  typename TestFixture::session_type outer{this->heap(), 0};
  EXPECT_TRUE(outer.tx().begin());
  const std::uint64_t p = outer.alloc(6000);  // of whole pages, which all lanes share
  EXPECT_TRUE(outer.tx().begin());
  EXPECT_TRUE(outer.store(p, 1));
  EXPECT_TRUE(outer.tx().commit_level());
  outer.tx().abort_level();
  {
    typename TestFixture::session_type s{this->heap(), 1};
    for (std::uint64_t q = 0; q != p;) {
      q = s.alloc(6000);
      ASSERT_NE(q, 0U) << last_message();
    }
    std::memset(this->heap().base() + p, 7, 6000);
    EXPECT_TRUE(s.commit()) << last_message();
  }
  typename TestFixture::session_type later{this->heap(), 1};
  EXPECT_TRUE(later.store(p, 8));
  outer.abort();
  EXPECT_EQ(load(this->heap(), p), 8U);  // nothing is put back there
  later.abort();
  EXPECT_TRUE(this->all_are(p, 6000, 7));
  this->pool.crash();
  EXPECT_TRUE(this->all_are(p, 6000, 7));
}

TYPED_TEST(transactions, an_outer_abort_takes_committed_inner_levels_with_it) {
  const std::uint64_t at = this->make_root(64, 0);
  {
    typename TestFixture::session_type s{this->heap()};
    EXPECT_TRUE(s.tx().begin());
    EXPECT_TRUE(s.store(at, 1));
    EXPECT_TRUE(s.tx().commit_level());
    EXPECT_TRUE(s.store(at, 2));
    s.abort();
  }
  EXPECT_EQ(load(this->heap(), at), 0U);
}

TYPED_TEST(transactions, an_inner_failure_that_nobody_read_fails_the_outer_commit) {
  const std::uint64_t at = this->make_root(64, 0);
  {
    typename TestFixture::session_type s{this->heap()};
    EXPECT_TRUE(s.store(at, 1));
    EXPECT_TRUE(s.tx().begin());
    EXPECT_EQ(s.alloc(std::uint64_t{1} << 39), 0U);
    EXPECT_FALSE(s.tx().commit_level());
    EXPECT_FALSE(s.commit());
  }
  EXPECT_EQ(last_code(), errc::must_abort);
  EXPECT_EQ(load(this->heap(), at), 0U);
}

TYPED_TEST(transactions, out_of_space_allows_only_abort_and_leaves_the_pool_usable) {
  const std::uint64_t at = this->make_root(64, 0);
  {
    typename TestFixture::session_type s{this->heap()};
    EXPECT_TRUE(s.store(at, 1));
    int n = 0;
    while (s.alloc(20000) != 0) ++n;
    EXPECT_GT(n, 3);
    EXPECT_EQ(last_code(), errc::no_space);
    EXPECT_TRUE(s.store(at, 2)) << "what is written before the program gives up has to be taken back, too";
    EXPECT_TRUE(s.store(at + 8, 3));
    EXPECT_EQ(s.alloc(8), 0U);
    EXPECT_EQ(last_code(), errc::must_abort);
    EXPECT_FALSE(s.commit());
    EXPECT_EQ(load(this->heap(), at + 8), 0U);
  }
  EXPECT_EQ(load(this->heap(), at), 0U);
  EXPECT_EQ(this->objects(), 1U);
  typename TestFixture::session_type s{this->heap()};
  EXPECT_NE(s.alloc(20000), 0U);
  EXPECT_TRUE(s.free(at));
  EXPECT_TRUE(s.commit());
}

TYPED_TEST(transactions, allocations_outside_the_domain_are_refused) {
  for (const std::uint64_t bytes : {std::uint64_t{0}, layout::object_bytes_max + 1, ~std::uint64_t{0}}) {
    typename TestFixture::session_type s{this->heap()};
    EXPECT_EQ(s.alloc(bytes), 0U);
    EXPECT_EQ(last_code(), bytes == 0 ? errc::invalid : errc::too_large);
  }
}

TYPED_TEST(transactions, a_log_larger_than_its_lane_overflows_into_the_pool_and_comes_back) {
  const std::uint64_t at = this->make_root(30000, 3);
  const std::uint64_t used = this->heap().places().used_pages();
  {
    typename TestFixture::session_type s{this->heap()};
    EXPECT_TRUE(s.announce(at, 30000)) << last_message();
    std::memset(this->heap().base() + at, 4, 30000);
    s.abort();
  }
  EXPECT_TRUE(this->all_are(at, 30000, 3));
  EXPECT_EQ(this->heap().places().used_pages(), used);
  {
    typename TestFixture::session_type s{this->heap()};
    for (std::uint64_t i = 0; i + 8 <= 30000; i += 16) ASSERT_TRUE(s.store(at + i, 5)) << last_message();
    this->pool.crash();
    s.forget();
  }
  EXPECT_TRUE(this->all_are(at, 30000, 3));
  EXPECT_EQ(this->heap().places().used_pages(), used);
  {
    typename TestFixture::session_type s{this->heap()};
    EXPECT_TRUE(s.announce(at, 30000));
    std::memset(this->heap().base() + at, 6, 30000);
    EXPECT_TRUE(s.commit()) << last_message();
  }
  this->pool.crash();
  EXPECT_TRUE(this->all_are(at, 30000, 6));
  EXPECT_EQ(this->heap().places().used_pages(), used);
}

TYPED_TEST(transactions, more_allocations_than_a_commit_record_holds_are_all_or_nothing) {
  {
    typename TestFixture::session_type s{this->heap()};
    for (int i = 0; i < 100; ++i) EXPECT_NE(s.alloc(40), 0U);
    this->pool.crash();
    s.forget();
  }
  EXPECT_EQ(this->objects(), 0U);
  {
    typename TestFixture::session_type s{this->heap()};
    for (int i = 0; i < 100; ++i) EXPECT_NE(s.alloc(40), 0U);
    EXPECT_TRUE(s.commit()) << last_message();
  }
  this->pool.crash();
  EXPECT_EQ(this->objects(), 100U);
}

TYPED_TEST(transactions, the_pool_grows_in_the_middle_of_one) {
  image_shape shape;
  shape.size_pages = 16;
  shape.capacity_pages = 256;
  TypeParam pool{shape};
  {
    session<typename TypeParam::heap_type> s{pool.heap()};
    for (int i = 0; i < 20; ++i) ASSERT_NE(s.alloc(20000), 0U) << last_message();
    ASSERT_TRUE(s.commit()) << last_message();
  }
  pool.crash();
  std::uint64_t n = 0;
  EXPECT_TRUE(pool.heap().places().for_each_object([&](auto...) { return ++n != 0; }));
  EXPECT_EQ(n, 20U);
}

// Random transactions over a few objects against a model, crashing now and then.
struct model_object {
  std::uint64_t at, bytes;
  std::vector<std::uint8_t> content;
};
template <class Session>
status overwrite_some(Session& s, std::byte* base, std::mt19937_64& random, model_object& o) {
  const std::uint64_t from = random() % o.bytes;
  const std::uint64_t n = 1 + random() % (o.bytes - from);
  if (status announced = s.announce(o.at + from, n); !announced) return announced;
  for (std::uint64_t b = from; b < from + n; ++b) {
    o.content[b] = static_cast<std::uint8_t>(random());
    base[o.at + b] = std::byte{o.content[b]};
  }
  return {};
}
TYPED_TEST(transactions, any_sequence_equals_its_model) {
  std::mt19937_64 random{20240613};
  std::vector<model_object> model;
  for (int round = 0; round < 2000; ++round) {
    std::vector<model_object> next = model;
    std::vector<std::vector<model_object>> saved;  // as each open savepoint found it
    {
      typename TestFixture::session_type s{this->heap(), static_cast<unsigned>(random() % 4)};
      bool fits = true;
      const int steps = 1 + static_cast<int>(random() % 12);
      for (int k = 0; k < steps && fits; ++k) {
        const auto what = random() % 7;
        if (what == 4) {
          if (saved.size() == 3) continue;
          ASSERT_TRUE(s.tx().begin());
          saved.push_back(next);
        } else if (what >= 5) {
          if (saved.empty()) continue;
          if (what == 5) {
            ASSERT_TRUE(s.tx().commit_level()) << last_message();
          } else {
            s.tx().abort_level();
            next = std::move(saved.back());
          }
          saved.pop_back();
        } else if (what == 0 || next.empty()) {
          const std::uint64_t bytes = 1 + random() % (random() % 8 == 0 ? 6000 : 300);
          const std::uint64_t at = s.alloc(bytes);
          if (at == 0) {
            fits = false;
            break;
          }
          std::vector<std::uint8_t> content(bytes);
          for (auto& c : content) c = static_cast<std::uint8_t>(random());
          std::memcpy(this->heap().base() + at, content.data(), bytes);
          next.push_back({at, bytes, std::move(content)});
        } else if (what == 1) {
          const std::size_t i = random() % next.size();
          ASSERT_TRUE(s.free(next[i].at)) << last_message();
          next.erase(next.begin() + static_cast<std::ptrdiff_t>(i));
        } else {
          // The latest ones, so that levels meet at the same bytes.
          model_object& o = next[next.size() - 1 - random() % std::min<std::size_t>(3, next.size())];
          ASSERT_TRUE(overwrite_some(s, this->heap().base(), random, o)) << last_message();
        }
      }
      const auto end = random() % 8;
      if (end == 0) {
        this->pool.crash();
        s.forget();
      } else if (end == 1 || !fits) {
        s.abort();
      } else {
        for (; !saved.empty(); saved.pop_back()) ASSERT_TRUE(s.tx().commit_level()) << last_message();
        ASSERT_TRUE(s.commit()) << last_message();
        model = std::move(next);
      }
    }
    for (const model_object& o : model) {
      ASSERT_EQ(std::memcmp(this->heap().base() + o.at, o.content.data(), o.bytes), 0) << "round " << round;
    }
    ASSERT_EQ(this->objects(), model.size()) << "round " << round;
  }
}

}  // namespace
}  // namespace nvm::tests
