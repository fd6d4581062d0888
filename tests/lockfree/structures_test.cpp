// Lists and hash tables: against a model, by several threads, across crashes.
#include <random>
#include <thread>

#include "ground.hpp"
#include "variants.hpp"

namespace nvm::lockfree::testing {
namespace {

template <template <class> class Shape>
struct shape_of_test;
template <>
struct shape_of_test<word_list> {
  template <media M>
  static auto make(ground<M>& g) {
    return make_list(g, "subject");
  }
};
template <>
struct shape_of_test<word_hash_table> {
  template <media M>
  static auto make(ground<M>& g) {
    return make_hash(g, "subject", 3);
  }
};

template <template <class> class Shape>
class subject {
 public:
  using structure_type = durable<direct_media, Shape>;
  explicit subject(const variant& v)
      : v_{v}, pool{pool_geometry(64, 4096), settings_of(v), isa::has(v.with) ? v.with : isa::best_write_back()} {
    auto made = shape_of_test<Shape>::make(pool);
    EXPECT_TRUE(made) << last_message();
    start();
  }
  void start() {
    auto found = pool.names().find("subject");
    EXPECT_TRUE(found) << last_message();
    owner = found->owner;
    it = std::make_unique<structure_type>(pool.shared(), *found, v_.all_at_once);
  }
  recovery_report crash(recovery_method method = recovery_method::automatic) {
    it.reset();
    pool.crash_and_open();
    start();
    return pool.recover(*it, owner, method);
  }
  void expect_no_leak() { EXPECT_EQ(pool.allocated(owner), pool.linked(*it)); }
  structure_type& operator*() { return *it; }

  variant v_;
  ground<direct_media> pool;
  std::uint16_t owner = 0;
  std::unique_ptr<structure_type> it;
};

// Somebody has deleted it and gets no further.
template <template <class> class Shape>
void counts_no_deleted_node(const variant& v) {
  subject<Shape> s{v};
  {
    typename subject<Shape>::structure_type::session session{s.pool.join()};
    for (std::uint64_t k = 0; k < 10; ++k) ASSERT_TRUE((*s.it)->write(session, k, k, write_rule::insert_only));
    ASSERT_TRUE((*s.it)->look_up(session, 5, [&](const node_head* n) {
      EXPECT_TRUE(s.it->memory().may_unlink(session, s.it->memory().offset_in_pool(n)));
      auto& own = const_cast<node_head*>(n)->next;
      own.set(own.load() | gone);
    }));
    s.pool.shared().links.settle_all();
  }
  (void)s.crash();
  EXPECT_EQ(s.it->count_keys(), 9U);
  typename subject<Shape>::structure_type::session session{s.pool.join()};
  EXPECT_FALSE((*s.it)->look_up(session, 5, [](const node_head*) {}));
}

// One of five calls, of which the model says what it has to answer.
template <template <class> class Shape, class Session>
void make_a_call(subject<Shape>& s, Session& session, std::map<std::uint64_t, std::uint64_t>& model,
                 std::uint64_t which, std::uint64_t key, std::uint64_t value) {
  switch (which) {
    case 0: {
      const auto w = (*s.it)->write(session, key, value, write_rule::insert_only);
      ASSERT_TRUE(w) << last_message();
      EXPECT_EQ(*w, model.emplace(key, value).second ? written::inserted : written::refused);
      break;
    }
    case 1: {
      const auto w = (*s.it)->write(session, key, value, write_rule::either);
      ASSERT_TRUE(w) << last_message();
      EXPECT_EQ(*w, model.contains(key) ? written::replaced : written::inserted);
      model[key] = value;
      break;
    }
    case 2: {
      const auto w = (*s.it)->write(session, key, value, write_rule::replace_only);
      ASSERT_TRUE(w) << last_message();
      EXPECT_EQ(*w, model.contains(key) ? written::replaced : written::refused);
      if (model.contains(key)) model[key] = value;
      break;
    }
    case 3: {
      const auto r = (*s.it)->remove(session, key);
      ASSERT_TRUE(r) << last_message();
      EXPECT_EQ(*r, model.erase(key) != 0);
      break;
    }
    default: {
      std::uint64_t found = 0;
      const bool there = (*s.it)->look_up(session, key, [&](const node_head* n) { found = word_nodes::value_of(n); });
      const auto expected = model.find(key);
      ASSERT_EQ(there, expected != model.end()) << key;
      if (there) {
        EXPECT_EQ(found, expected->second);
      }
    }
  }
}

template <template <class> class Shape>
void follows_a_model(const variant& v) {
  subject<Shape> s{v};
  std::map<std::uint64_t, std::uint64_t> model;
  std::mt19937_64 random{7};
  for (int round = 0; round < 4; ++round) {
    {
      auto& thread = s.pool.join();
      typename subject<Shape>::structure_type::session session{thread};
      for (int i = 0; i < 3000; ++i) {
        const std::uint64_t key = random() % 300;
        const std::uint64_t value = random();
        make_a_call<Shape>(s, session, model, random() % 5, key, value);
      }
      std::map<std::uint64_t, std::uint64_t> seen;
      (*s.it)->each(session, [&](const node_head* n) {
        EXPECT_TRUE(seen.emplace((*s.it)->key_of_order(n->order), word_nodes::value_of(n)).second);
        return true;
      });
      EXPECT_EQ(seen, model);
      if (round % 2 == 0) s.it->memory().end(session);  // otherwise the process dies with all it has reserved
    }
    const recovery_method methods[] = {recovery_method::automatic, recovery_method::search, recovery_method::traversal,
                                       recovery_method::automatic};
    const recovery_report report = s.crash(methods[round]);
    EXPECT_GT(report.allocated, 0U);
    s.expect_no_leak();
    auto& thread = s.pool.join();
    typename subject<Shape>::structure_type::session session{thread};
    for (std::uint64_t key = 0; key < 300; ++key) {
      EXPECT_EQ((*s.it)->look_up(session, key, [](const node_head*) {}), model.contains(key)) << key;
    }
    s.pool.shared().leave(thread);
  }
}

template <template <class> class Shape>
void keeps_its_own_keys_apart(const variant& v) {
  subject<Shape> s{v};
  constexpr unsigned threads = 4;
  constexpr std::uint64_t keys = 64;
  std::vector<std::map<std::uint64_t, std::uint64_t>> models(threads);
  std::vector<std::thread> all;
  for (unsigned t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      auto& thread = s.pool.join();
      typename subject<Shape>::structure_type::session session{thread};
      std::mt19937_64 random{t};
      auto& model = models[t];
      for (int i = 0; i < 4000; ++i) {
        const std::uint64_t key = random() % keys * threads + t;  // neighbours of everybody else's
        if (random() % 2 == 0) {
          const auto w = (*s.it)->write(session, key, i, write_rule::either);
          ASSERT_TRUE(w) << last_message();
          ASSERT_EQ(*w, model.contains(key) ? written::replaced : written::inserted);
          model[key] = i;
        } else {
          const auto r = (*s.it)->remove(session, key);
          ASSERT_TRUE(r) << last_message();
          ASSERT_EQ(*r, model.erase(key) != 0);
        }
        std::uint64_t found = ~std::uint64_t{0};
        const bool there = (*s.it)->look_up(session, key, [&](const node_head* n) { found = word_nodes::value_of(n); });
        ASSERT_EQ(there, model.contains(key));
        if (there) {
          ASSERT_EQ(found, model[key]);
        }
      }
      s.it->memory().end(session);
      s.pool.shared().leave(thread);
    });
  }
  for (auto& t : all) t.join();
  s.crash();
  s.expect_no_leak();
  auto& thread = s.pool.join();
  typename subject<Shape>::structure_type::session session{thread};
  for (std::uint64_t key = 0; key < keys * threads; ++key) {
    EXPECT_EQ((*s.it)->look_up(session, key, [](const node_head*) {}), models[key % threads].contains(key)) << key;
  }
}

// The log-structured heap's runs lie beside those of structures.
TEST(catalogue, gives_back_no_pages_of_others) {
  ground<ordered_media> pool{pool_geometry(64, 64), {}};
  const auto take = [&](std::uint16_t owner) {
    const auto run = pool.places().take_run(0, nvm::layout::slot_protocol::self_validating, owner, 4096);
    EXPECT_TRUE(run) << last_message();
    return run ? *run : 0;
  };
  const std::uint64_t others = take(0xFFFF);
  const std::uint64_t nobodys = take(layout::first_owner + layout::structures_max - 1);
  EXPECT_EQ(pool.crash_and_open().pages_freed, 1U);
  EXPECT_TRUE(pool.places().owned_at(others));
  EXPECT_FALSE(pool.places().owned_at(nobodys));
}

class structures : public ::testing::TestWithParam<variant> {};
TEST_P(structures, list_follows_a_model) { follows_a_model<word_list>(GetParam()); }
TEST_P(structures, hash_table_follows_a_model) { follows_a_model<word_hash_table>(GetParam()); }
TEST_P(structures, list_counts_no_deleted_node) { counts_no_deleted_node<word_list>(GetParam()); }
TEST_P(structures, hash_table_counts_no_deleted_node) { counts_no_deleted_node<word_hash_table>(GetParam()); }
TEST_P(structures, list_by_threads) { keeps_its_own_keys_apart<word_list>(GetParam()); }
TEST_P(structures, hash_table_by_threads) { keeps_its_own_keys_apart<word_hash_table>(GetParam()); }
INSTANTIATE_TEST_SUITE_P(all, structures, ::testing::ValuesIn(variants),
                         [](const auto& info) { return std::string{info.param.name}; });

}  // namespace
}  // namespace nvm::lockfree::testing
