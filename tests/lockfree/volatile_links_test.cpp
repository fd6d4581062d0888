// Structures whose only durable parts are nodes: comparison with a model, recovery from the nodes, costs of operations,
// and effects of damage.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "ground.hpp"

namespace nvm::lockfree::testing {
namespace {

template <class Memory>
using sealed_bytes_hash = hash_table<Memory, sealed_bytes, byte_hash>;
template <class Memory>
using sealed_bytes_skip = skip_list<Memory, sealed_bytes>;

using plain_media = ordered_media;
using counted_media = meter_media<ordered_media>;

template <media M>
auto make_sealed(ground<M>& g, std::string_view name, layout::kind kind, unsigned bits) {
  return g.names().create(
      name, kind, 0, layout::entry_volatile_links, [&](std::uint16_t owner) -> result<std::uint64_t> {
        auto run = g.places().take_run(0, nvm::layout::slot_protocol::self_validating, owner, sizeof(sealed_root));
        if (!run) return run.error();
        make_sealed_root(g.base() + *run, *run, bits, 0x1234'5678'9ABC'DEF1);
        g.medium().flush(g.base() + *run, sizeof(sealed_root));
        return *run;
      });
}
template <media M>
geometry of_pages(std::uint64_t pages) {
  return pool_geometry(pages, pages);
}

template <template <class> class Shape, class Nodes>
struct kind_under_test {
  template <media M>
  using structure = rebuilt<M, Nodes, Shape>;
  using nodes = Nodes;
};
template <class T>
constexpr layout::kind kind_of() {
  using shape = typename T::template structure<plain_media>::shape_type;
  if constexpr (requires { shape::array_bytes(1U); }) return layout::kind::hash;
  return shape::searches_slowly ? layout::kind::list : layout::kind::skip_list;
}

template <class T>
class volatile_links : public ::testing::Test {
 protected:
  using structure = typename T::template structure<plain_media>;
  using session = typename structure::session;
  static constexpr bool bytes = T::nodes::of_bytes;

  void open_again() {
    sessions_.clear();
    it_.reset();
    ground_.crash_and_open();
    const auto f = ground_.names().find("it");
    ASSERT_TRUE(f) << last_message();
    attach(*f, 2);
  }
  void SetUp() override {
    const auto f = make_sealed(ground_, "it", kind_of<T>(), 2);
    ASSERT_TRUE(f) << last_message();
    attach(*f, 1);
  }
  void TearDown() override {
    sessions_.clear();
    it_.reset();
    ground_.close();
  }
  void attach(const catalogue<plain_media>::found& f, unsigned parts) {
    owner_ = f.owner;
    it_ = std::make_unique<structure>(ground_.shared(), f);
    const status s = it_->rebuild(parts);
    ASSERT_TRUE(s) << last_message();
    if constexpr (requires { (*it_)->set_count(0); }) {
      (*it_)->set_count(static_cast<std::int64_t>(it_->count_keys()));
    }
  }
  session& new_session() {
    sessions_.push_back(std::make_unique<session>(ground_.join()));
    return *sessions_.back();
  }
  // Everything that is allocated is linked.
  void expect_no_leak() {
    auto allocated = ground_.allocated(owner_);
    EXPECT_EQ(allocated, ground_t::linked(*it_));
  }

  static std::string key_bytes(std::uint64_t key) { return "key number " + std::to_string(key); }
  static std::string value_bytes(std::uint64_t v) { return std::string(v % 300, static_cast<char>('a' + v % 26)); }
  static std::span<const std::byte> span_of(const std::string& s) { return std::as_bytes(std::span{s}); }

  written write(session& s, std::uint64_t key, std::uint64_t v, write_rule rule) {
    const auto w = [&] {
      if constexpr (bytes) {
        const std::string k = key_bytes(key);
        const std::string text = value_bytes(v);
        return (*it_)->write(s, span_of(k), {span_of(text), v}, rule);
      } else {
        return (*it_)->write(s, key, v, rule);
      }
    }();
    EXPECT_TRUE(w) << last_message();
    return *w;
  }
  bool remove(session& s, std::uint64_t key) {
    const auto r = [&] {
      if constexpr (bytes) {
        const std::string k = key_bytes(key);
        return (*it_)->remove(s, span_of(k));
      } else {
        return (*it_)->remove(s, key);
      }
    }();
    EXPECT_TRUE(r) << last_message();
    return *r;
  }
  std::optional<std::uint64_t> look_up(session& s, std::uint64_t key) {
    std::optional<std::uint64_t> found;
    if constexpr (bytes) {
      const std::string k = key_bytes(key);
      (void)(*it_)->look_up(s, span_of(k), [&](const node_head* n) {
        const auto v = T::nodes::value_of(n);
        found = static_cast<const typename T::nodes::node*>(n)->mark;
        const std::string expected = value_bytes(*found);
        EXPECT_EQ(std::string(reinterpret_cast<const char*>(v.bytes.data()), v.bytes.size()), expected);
      });
    } else {
      (void)(*it_)->look_up(s, key, [&](const node_head* n) { found = T::nodes::value_of(n); });
    }
    return found;
  }
  std::uint64_t count_all(session& s) {
    std::uint64_t n = 0;
    (*it_)->each(s, [&](const node_head*) { return ++n != 0; });
    return n;
  }

  using ground_t = ground<plain_media>;
  ground_t ground_{pool_geometry(4096, 4096), {.generation_nodes = 16}};
  std::uint16_t owner_ = 0;
  std::unique_ptr<structure> it_;
  std::vector<std::unique_ptr<session>> sessions_;
};

using kinds =
    ::testing::Types<kind_under_test<sealed_list, sealed_words>, kind_under_test<sealed_hash_table, sealed_words>,
                     kind_under_test<sealed_skip_list, sealed_words>, kind_under_test<sealed_bytes_hash, sealed_bytes>,
                     kind_under_test<sealed_bytes_skip, sealed_bytes>>;
TYPED_TEST_SUITE(volatile_links, kinds);

TYPED_TEST(volatile_links, follow_a_model_and_are_found_again) {
  std::map<std::uint64_t, std::uint64_t> model;
  std::mt19937_64 random{7};
  for (int life = 0; life < 6; ++life) {
    auto& s = this->new_session();
    for (const auto& [key, v] : model) ASSERT_EQ(this->look_up(s, key), v);
    ASSERT_EQ(this->count_all(s), model.size());
    for (std::uint64_t i = 0; i < 3000; ++i) {
      const std::uint64_t key = random() % 500;
      const std::uint64_t v = random() % 1000;
      switch (random() % 4) {
        case 0: {
          const bool there = model.contains(key);
          ASSERT_EQ(this->write(s, key, v, write_rule::insert_only), there ? written::refused : written::inserted);
          if (!there) model[key] = v;
          break;
        }
        case 1:
          ASSERT_EQ(this->write(s, key, v, write_rule::either),
                    model.contains(key) ? written::replaced : written::inserted);
          model[key] = v;
          break;
        case 2:
          ASSERT_EQ(this->remove(s, key), model.erase(key) != 0);
          break;
        default: {
          const auto found = this->look_up(s, key);
          ASSERT_EQ(found.has_value(), model.contains(key));
          if (found) {
            ASSERT_EQ(*found, model[key]);
          }
        }
      }
    }
    this->open_again();
    EXPECT_EQ(this->it_->count_keys(), model.size());
    this->expect_no_leak();
  }
}

TYPED_TEST(volatile_links, are_kept_by_threads) {
  constexpr unsigned threads = 4;
  std::vector<std::map<std::uint64_t, std::uint64_t>> models(threads);
  for (int life = 0; life < 2; ++life) {
    std::vector<std::thread> all;
    std::vector<typename TestFixture::session*> sessions;
    for (unsigned t = 0; t < threads; ++t) sessions.push_back(&this->new_session());
    for (unsigned t = 0; t < threads; ++t) {
      all.emplace_back([&, t] {
        auto& model = models[t];
        std::mt19937_64 random{t + 100 * static_cast<unsigned>(life)};
        for (std::uint64_t i = 0; i < 3000; ++i) {
          // Keys of different threads are neighbours.
          const std::uint64_t key = random() % 60 * threads + t;
          if (random() % 2 == 0) {
            const std::uint64_t v = random() % 1000;
            ASSERT_EQ(this->write(*sessions[t], key, v, write_rule::either),
                      model.contains(key) ? written::replaced : written::inserted);
            model[key] = v;
          } else {
            ASSERT_EQ(this->remove(*sessions[t], key), model.erase(key) != 0);
          }
          const auto found = this->look_up(*sessions[t], random() % (60 * threads));
          (void)found;
        }
      });
    }
    for (auto& t : all) t.join();
    this->open_again();
    auto& s = this->new_session();
    std::size_t expected = 0;
    for (const auto& model : models) {
      expected += model.size();
      for (const auto& [key, v] : model) EXPECT_EQ(this->look_up(s, key), v);
    }
    EXPECT_EQ(this->count_all(s), expected);
    this->expect_no_leak();
  }
}

// Several threads at the same few keys: each insertion and each removal happens once.
TYPED_TEST(volatile_links, have_one_winner) {
  constexpr unsigned threads = 3;
  constexpr std::uint64_t keys = 4;
  std::atomic<std::int64_t> balance[keys]{};
  std::vector<std::thread> all;
  std::vector<typename TestFixture::session*> sessions;
  for (unsigned t = 0; t < threads; ++t) sessions.push_back(&this->new_session());
  for (unsigned t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      std::mt19937_64 random{t};
      for (int i = 0; i < 4000; ++i) {
        const std::uint64_t key = random() % keys;
        switch (random() % 3) {
          case 0:
            balance[key] += this->write(*sessions[t], key, key, write_rule::insert_only) == written::inserted ? 1 : 0;
            break;
          case 1:
            (void)this->write(*sessions[t], key, key, write_rule::replace_only);
            break;
          default:
            balance[key] -= this->remove(*sessions[t], key) ? 1 : 0;
        }
      }
    });
  }
  for (auto& t : all) t.join();
  for (std::uint64_t key = 0; key < keys; ++key) {
    const bool there = this->look_up(*sessions[0], key).has_value();
    EXPECT_EQ(balance[key].load(), there ? 1 : 0);
  }
  this->open_again();
  auto& s = this->new_session();
  for (std::uint64_t key = 0; key < keys; ++key) {
    EXPECT_EQ(this->look_up(s, key).has_value(), balance[key].load() == 1);
  }
  this->expect_no_leak();
}

// Whatever single bit of a node changes, it is there as it was or not there at all, and the rest is untouched.
TYPED_TEST(volatile_links, lose_what_is_damaged_and_nothing_else) {
  auto& s = this->new_session();
  for (std::uint64_t key = 0; key < 3; ++key) this->write(s, key, key + 10, write_rule::either);
  std::uint64_t victim = 0;
  const auto note = [&](const node_head* n) { victim = this->it_->memory().offset_in_pool(n); };
  if constexpr (TestFixture::bytes) {
    const std::string k = this->key_bytes(1);
    ASSERT_TRUE((*this->it_)->look_up(s, this->span_of(k), note));
  } else {
    ASSERT_TRUE((*this->it_)->look_up(s, std::uint64_t{1}, note));
  }
  // Order, seal, and of words the value, of bytes the sizes.
  const std::uint64_t first = victim + 8;
  const std::uint64_t end = TestFixture::bytes ? victim + 24 : victim + 32;
  for (std::uint64_t at = first; at < end; ++at) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      std::byte* const byte = this->ground_.base() + at;
      std::byte line[64];
      std::memcpy(line, this->ground_.base() + victim / 64 * 64, 64);
      *byte ^= std::byte{1} << bit;
      this->open_again();
      auto& again = this->new_session();
      const auto found = this->look_up(again, 1);
      if (found) {
        EXPECT_EQ(*found, 11U) << at - victim << "." << bit;
      }
      EXPECT_EQ(this->look_up(again, 0), 10U);
      EXPECT_EQ(this->look_up(again, 2), 12U);
      EXPECT_EQ(this->count_all(again), found ? 3U : 2U);
      this->expect_no_leak();
      // As it was.
      this->sessions_.clear();
      std::memcpy(this->ground_.base() + victim / 64 * 64, line, 64);
      this->open_again();
    }
  }
  auto& last = this->new_session();
  EXPECT_EQ(this->look_up(last, 1), 11U);
}

// ---- what an operation costs ----

template <template <class> class Shape>
void costs_one_of_each(layout::kind kind) {
  using structure = rebuilt<counted_media, sealed_words, Shape>;
  constexpr std::uint64_t keys = 600;
  ordered_media inner;
  meter counts;
  ground<counted_media> g{pool_geometry(4096, 4096), {.generation_nodes = 16}, inner, counts};
  const auto f = make_sealed(g, "it", kind, 10);
  ASSERT_TRUE(f);
  structure it{g.shared(), *f};
  ASSERT_TRUE(it.rebuild(1));
  typename structure::session s{g.join()};
  // Extents that are wanted are there.
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t key = 0; key < keys; ++key) ASSERT_TRUE(it->write(s, key, key, write_rule::either));
    for (std::uint64_t key = 0; key < keys; ++key) ASSERT_TRUE(*it->remove(s, key));
  }
  struct cost {
    std::uint64_t flushes, fences, drains;
    bool operator==(const cost&) const = default;
  };
  const auto of = [&](auto&& operation) {
    const meter_totals before = counts.totals();
    operation();
    const meter_totals after = counts.totals();
    return cost{after.flushes - before.flushes, after.fences - before.fences, after.rmw_fences - before.rmw_fences};
  };
  for (std::uint64_t key = 0; key < keys; ++key) {
    EXPECT_EQ(of([&] { ASSERT_EQ(*it->write(s, key, key, write_rule::insert_only), written::inserted); }),
              (cost{1, 1, 0}));
    EXPECT_EQ(of([&] { ASSERT_EQ(*it->write(s, key, key, write_rule::insert_only), written::refused); }),
              (cost{0, 0, 0}));
    EXPECT_EQ(of([&] { ASSERT_TRUE(it->look_up(s, key, [](const node_head*) {})); }), (cost{0, 0, 0}));
    EXPECT_EQ(of([&] { ASSERT_FALSE(it->look_up(s, key + keys, [](const node_head*) {})); }), (cost{0, 0, 0}));
    EXPECT_EQ(of([&] { ASSERT_FALSE(*it->remove(s, key + keys)); }), (cost{0, 0, 0}));
    EXPECT_EQ(of([&] { ASSERT_EQ(*it->write(s, key + keys, key, write_rule::replace_only), written::refused); }),
              (cost{0, 0, 0}));
    // Two nodes: the new one, and the old one that it replaces.
    EXPECT_EQ(of([&] { ASSERT_EQ(*it->write(s, key, key + 1, write_rule::either), written::replaced); }),
              (cost{2, 2, 0}));
  }
  // Freed nodes are used again, for nothing more.
  for (std::uint64_t key = 0; key < keys; ++key) {
    EXPECT_EQ(of([&] { ASSERT_TRUE(*it->remove(s, key)); }), (cost{1, 1, 0}));
    EXPECT_EQ(of([&] { ASSERT_FALSE(*it->remove(s, key)); }), (cost{0, 0, 0}));
    EXPECT_EQ(of([&] { ASSERT_EQ(*it->write(s, key, 3, write_rule::either), written::inserted); }), (cost{1, 1, 0}));
    EXPECT_EQ(of([&] { ASSERT_TRUE(*it->remove(s, key)); }), (cost{1, 1, 0}));
  }
}
TEST(volatile_links_cost, one_write_back_and_one_fence_a_change_list) {
  costs_one_of_each<sealed_list>(layout::kind::list);
}
TEST(volatile_links_cost, one_write_back_and_one_fence_a_change_hash_table) {
  costs_one_of_each<sealed_hash_table>(layout::kind::hash);
}
TEST(volatile_links_cost, one_write_back_and_one_fence_a_change_skip_list) {
  costs_one_of_each<sealed_skip_list>(layout::kind::skip_list);
}

// A change that somebody has begun and not ended is ended by whoever depends on it, before it reports anything.
TEST(volatile_links_cost, a_look_up_helps_who_is_in_the_middle) {
  using structure = rebuilt<counted_media, sealed_words, sealed_list>;
  ordered_media inner;
  meter counts;
  ground<counted_media> g{pool_geometry(4096, 4096), {}, inner, counts};
  const auto f = make_sealed(g, "it", layout::kind::list, 1);
  ASSERT_TRUE(f);
  structure it{g.shared(), *f};
  ASSERT_TRUE(it.rebuild(1));
  structure::session s{g.join()};
  for (const std::uint64_t key : {1, 2, 3}) ASSERT_TRUE(it->write(s, key, key, write_rule::either));
  sealed_head* nodes[4] = {};
  for (const std::uint64_t key : {1, 2, 3}) {
    ASSERT_TRUE(
        it->look_up(s, key, [&](const node_head* n) { nodes[key] = it.memory().node(it.memory().offset_in_pool(n)); }));
  }
  const auto fences_of = [&](std::uint64_t key, bool there) {
    const std::uint64_t before = counts.totals().fences;
    EXPECT_EQ(it->look_up(s, key, [](const node_head*) {}), there);
    return counts.totals().fences - before;
  };
  // As if the thread that inserts 2 had stopped when it had linked it.
  nodes[2]->seal = (nodes[2]->seal & ~seal::state_mask) | seal::fresh;
  nodes[1]->next.word |= pending;
  EXPECT_EQ(fences_of(1, true), 0U);
  EXPECT_EQ(fences_of(3, true), 0U);
  EXPECT_EQ(fences_of(2, true), 1U);
  EXPECT_EQ(seal::state_of(seal::load(nodes[2])), seal::live);
  EXPECT_EQ(nodes[1]->next.load() & pending, 0U);
  // As if the one that removes it had stopped when it had marked it.
  nodes[2]->next.word |= gone | pending;
  EXPECT_EQ(fences_of(1, true), 0U);
  EXPECT_EQ(fences_of(2, false), 1U);
  EXPECT_EQ(seal::state_of(seal::load(nodes[2])), seal::gone);
  EXPECT_EQ(nodes[2]->next.load() & pending, 0U);
  // As if the one that replaces 3 had stopped when it had put the new one after the old one.
  const auto room = it.memory().allocate(s, sizeof(sealed_words::node));
  ASSERT_TRUE(room);
  auto* replacement = static_cast<sealed_words::node*>(it.memory().node(*room));
  replacement->next.set(nodes[3]->next.word);
  replacement->order = 3;
  replacement->content = 33;
  replacement->seal = it.memory().sum_of(replacement, *room) | 1U << seal::version_shift | seal::fresh;
  nodes[3]->next.set(*room | gone | pending);
  std::uint64_t value = 0;
  EXPECT_TRUE(it->look_up(s, 3, [&](const node_head* n) { value = sealed_words::value_of(n); }));
  EXPECT_EQ(value, 33U);
  EXPECT_EQ(seal::state_of(seal::load(replacement)), seal::live);
  EXPECT_EQ(seal::state_of(seal::load(nodes[3])), seal::gone);
}

// Two nodes of the same key whose versions do not follow one another were made by nobody.
TEST(volatile_links_damage, two_nodes_of_one_key_are_corrupt) {
  ground<plain_media> g{pool_geometry(1024, 1024), {}};
  const auto f = make_sealed(g, "it", layout::kind::hash, 2);
  ASSERT_TRUE(f);
  using structure = rebuilt<plain_media, sealed_words, sealed_hash_table>;
  structure it{g.shared(), *f};
  ASSERT_TRUE(it.rebuild(1));
  structure::session s{g.join()};
  std::vector<std::uint64_t> at;
  for (const std::uint64_t key : {1, 2}) {
    ASSERT_TRUE(it->write(s, key, 5, write_rule::either));
    (void)it->look_up(s, key, [&](const node_head* n) { at.push_back(it.memory().offset_in_pool(n)); });
  }
  auto* copy = it.memory().node(at[1]);
  copy->order = it.memory().node(at[0])->order;
  seal::set(copy, it.memory().sum_of(copy, at[1]) | seal::live);
  structure again{g.shared(), *f};
  EXPECT_EQ(again.rebuild(1).error(), errc::corrupt);
  // The newer one stays.
  seal::set(copy, it.memory().sum_of(copy, at[1]) | 1U << seal::version_shift | seal::live);
  structure third{g.shared(), *f};
  ASSERT_TRUE(third.rebuild(2));
  EXPECT_EQ(third.count_keys(), 1U);
  EXPECT_EQ(seal::state_of(seal::load(it.memory().node(at[0]))), seal::gone);
}
TEST(volatile_links_damage, a_root_fails_its_checksum) {
  ground<plain_media> g{pool_geometry(1024, 1024), {}};
  const auto f = make_sealed(g, "it", layout::kind::hash, 2);
  ASSERT_TRUE(f);
  EXPECT_EQ(sealed_root_fault(g.base(), f->root), nullptr);
  for (std::uint64_t i = 0; i < sizeof(sealed_root) * 8; ++i) {
    std::byte& byte = g.base()[f->root + i / 8];
    byte ^= std::byte{1} << i % 8;
    EXPECT_NE(sealed_root_fault(g.base(), f->root), nullptr) << i;
    byte ^= std::byte{1} << i % 8;
  }
}
TEST(volatile_links_damage, an_extent_that_says_nothing_is_corrupt) {
  ground<plain_media> g{pool_geometry(1024, 1024), {}};
  const auto f = make_sealed(g, "it", layout::kind::list, 2);
  ASSERT_TRUE(f);
  using structure = rebuilt<plain_media, sealed_words, sealed_list>;
  structure it{g.shared(), *f};
  ASSERT_TRUE(it.rebuild(1));
  structure::session s{g.join()};
  ASSERT_TRUE(it->write(s, 1, 5, write_rule::either));
  std::uint64_t extent = 0;
  g.places().each_owned(0, g.places().size_pages(), &extent, [](void* raw, const owned_pages& p) {
    if (p.kind == nvm::layout::page_kind::coarse) *static_cast<std::uint64_t*>(raw) = p.offset;
    return true;
  });
  ASSERT_NE(extent, 0U);
  g.base()[extent] ^= std::byte{1};
  structure again{g.shared(), *f};
  EXPECT_EQ(again.rebuild(1).error(), errc::corrupt);
  EXPECT_NE(std::string{last_message()}.find("does not say"), std::string::npos);
}

}  // namespace
}  // namespace nvm::lockfree::testing
