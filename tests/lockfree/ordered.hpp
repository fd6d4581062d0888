// What every structure owes, whatever its shape and its nodes: against a model, by several threads, across crashes.
#pragma once

#include <array>
#include <bit>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "ground.hpp"
#include "variants.hpp"

namespace nvm::lockfree::testing {

// ---- keys and values by number --------------------------------------------------------------------------------------

struct words {
  using nodes = word_nodes;
  static std::uint64_t key(std::uint64_t n) { return n; }
  static std::uint64_t value(std::uint64_t n) { return n; }
  static std::uint64_t value_of(const node_head* n) { return word_nodes::value_of(n); }
};
// Long keys that begin alike, of different lengths; values of up to 900 bytes.
struct bytes {
  using nodes = byte_nodes;
  struct owned_key {
    std::string text;
    operator byte_nodes::key() const { return std::as_bytes(std::span{text}); }
  };
  struct owned_value {
    std::string text;
    operator byte_nodes::value() const { return {std::as_bytes(std::span{text}), text.size()}; }
  };
  static owned_key key(std::uint64_t n) {
    std::string text = "all keys begin like this: ";
    if (n % 3 == 0) text = "";
    if (n % 3 == 1) text = "eight..8";
    // A digit in each byte, so that one key is the beginning of another.
    for (std::uint64_t left = n / 3; left != 0; left /= 7) text += static_cast<char>(left % 7 + (n % 2) * 200);
    return {text};
  }
  static owned_value value(std::uint64_t n) {
    owned_value v;
    v.text.assign(8 + (n % 16 == 0 ? n % 893 : n % 61), static_cast<char>(n));
    std::memcpy(v.text.data(), &n, 8);
    return v;
  }
  static std::uint64_t value_of(const node_head* h) {
    const byte_nodes::value v = byte_nodes::value_of(h);
    std::uint64_t n = 0;
    std::memcpy(&n, v.bytes.data(), 8);
    const owned_value expected = value(n);
    EXPECT_EQ(v.mark, expected.text.size());
    EXPECT_TRUE(v.bytes.size() == expected.text.size() &&
                std::memcmp(v.bytes.data(), expected.text.data(), v.bytes.size()) == 0);
    return n;
  }
};

// ---- shapes ---------------------------------------------------------------------------------------------------------

template <class Nodes>
struct lists {
  template <class Memory>
  using shape = list<Memory, Nodes>;
  static constexpr layout::kind kind = layout::kind::list;
  static constexpr bool ordered = true;
};
template <class Nodes>
struct hash_tables {
  template <class Memory>
  using shape = hash_table<Memory, Nodes, std::conditional_t<std::is_same_v<Nodes, word_nodes>, word_hash, byte_hash>>;
  static constexpr layout::kind kind = layout::kind::hash;
  static constexpr bool ordered = false;
};
template <class Nodes>
struct skip_lists {
  template <class Memory>
  using shape = skip_list<Memory, Nodes>;
  static constexpr layout::kind kind = layout::kind::skip_list;
  static constexpr bool ordered = true;
};

template <class Nodes>
struct trees {
  template <class Memory>
  using shape = tree<Memory, Nodes>;
  static constexpr layout::kind kind = layout::kind::tree;
  static constexpr bool ordered = true;
};

template <template <class> class Shapes, class Data>
class subject {
 public:
  using shapes = Shapes<typename Data::nodes>;
  using structure_type = durable<direct_media, shapes::template shape>;
  using shape_type = typename structure_type::shape_type;
  using session = typename structure_type::session;

  static constexpr bool has_ranges = shapes::kind != layout::kind::list && shapes::ordered;

  explicit subject(const variant& v)
      : v_{v}, pool{pool_geometry(64, 8192), settings_of(v), isa::has(v.with) ? v.with : isa::best_write_back()} {
    auto made = pool.names().create("subject", shapes::kind, 0, 0, [&](std::uint16_t o) -> result<std::uint64_t> {
      const auto take = [&](std::uint64_t bytes) {
        auto run = pool.places().take_run(0, nvm::layout::slot_protocol::epoch, o, bytes);
        EXPECT_TRUE(run) << last_message();
        return *run;
      };
      const std::uint64_t run = take(shape_type::root_bytes);
      if constexpr (shapes::kind == layout::kind::hash) {
        constexpr unsigned bits = 3;
        const std::uint64_t array = take(shape_type::array_bytes(bits));
        shape_type::make_root(pool.base() + run, run, bits, 0x1234'5678, pool.base() + array, array);
      } else {
        shape_type::make_root(pool.base() + run);
      }
      return run;
    });
    EXPECT_TRUE(made) << last_message();
    start();
  }
  void start() {
    auto found = pool.names().find("subject");
    EXPECT_TRUE(found) << last_message();
    owner = found->owner;
    root = found->root;
    it = std::make_unique<structure_type>(pool.shared(), *found, v_.all_at_once);
  }
  recovery_report crash(recovery_method method = recovery_method::automatic) {
    it.reset();
    pool.crash_and_open();
    start();
    const recovery_report report = pool.recover(*it, owner, method);
    expect_sound();
    EXPECT_EQ(pool.allocated(owner), pool.linked(*it));
    return report;
  }
  void expect_sound() {
    if constexpr (requires { (*it)->check(); }) {
      const char* wrong = (*it)->check();
      EXPECT_EQ(wrong, nullptr) << wrong;
    }
  }

  // One thread at work.
  class worker {
   public:
    explicit worker(subject& of) : of_{of}, thread_{of.pool.join()}, session_{thread_} {}
    // Otherwise the process dies with all that is reserved.
    void end() {
      of_.it->memory().end(session_);
      of_.pool.shared().leave(thread_);
    }
    written write(std::uint64_t key, std::uint64_t value, write_rule rule) {
      const auto w = (*of_.it)->write(session_, Data::key(key), Data::value(value), rule);
      EXPECT_TRUE(w) << last_message();
      return w ? *w : written::refused;
    }
    bool remove(std::uint64_t key) {
      const auto r = (*of_.it)->remove(session_, Data::key(key));
      EXPECT_TRUE(r) << last_message();
      return r && *r;
    }
    std::optional<std::uint64_t> look_up(std::uint64_t key) {
      std::optional<std::uint64_t> found;
      const bool there =
          (*of_.it)->look_up(session_, Data::key(key), [&](const node_head* n) { found = Data::value_of(n); });
      EXPECT_EQ(there, found.has_value());
      return found;
    }
    // Values, in the order of the walk.
    std::vector<std::uint64_t> all() {
      std::vector<std::uint64_t> seen;
      (*of_.it)->each(session_, [&](const node_head* n) {
        seen.push_back(Data::value_of(n));
        return true;
      });
      return seen;
    }
    std::vector<std::uint64_t> some_from(std::uint64_t key, std::size_t count) {
      std::vector<std::uint64_t> seen;
      (*of_.it)->each_from_key(session_, Data::key(key), [&](const node_head* n) {
        seen.push_back(Data::value_of(n));
        return seen.size() < count;
      });
      return seen;
    }
    session& in() { return session_; }

   private:
    subject& of_;
    typename domain<direct_media>::thread& thread_;
    session session_;
  };

  const variant v_;
  ground<direct_media> pool;
  std::uint16_t owner = 0;
  std::uint64_t root = 0;
  std::unique_ptr<structure_type> it;
};

// ---- what they owe --------------------------------------------------------------------------------------------------

template <class Data>
bool key_less(std::uint64_t a, std::uint64_t b) {
  if constexpr (std::is_same_v<Data, words>) {
    return a < b;
  } else {
    const auto x = Data::key(a).text;
    const auto y = Data::key(b).text;
    const int c = std::memcmp(x.data(), y.data(), std::min(x.size(), y.size()));
    return c != 0 ? c < 0 : x.size() < y.size();
  }
}
template <class Data>
using model_of = std::map<std::uint64_t, std::uint64_t, bool (*)(std::uint64_t, std::uint64_t)>;

template <template <class> class Shapes, class Data>
void follows_a_model(const variant& v) {
  using tested = subject<Shapes, Data>;
  tested s{v};
  model_of<Data> model{key_less<Data>};
  std::mt19937_64 random{7};
  for (int round = 0; round < 4; ++round) {
    {
      typename tested::worker w{s};
      for (int i = 0; i < 3000; ++i) {
        const std::uint64_t key = random() % 300;
        const std::uint64_t value = random();
        switch (random() % 5) {
          case 0:
            ASSERT_EQ(w.write(key, value, write_rule::insert_only),
                      model.emplace(key, value).second ? written::inserted : written::refused);
            break;
          case 1:
            ASSERT_EQ(w.write(key, value, write_rule::either),
                      model.contains(key) ? written::replaced : written::inserted);
            model[key] = value;
            break;
          case 2:
            ASSERT_EQ(w.write(key, value, write_rule::replace_only),
                      model.contains(key) ? written::replaced : written::refused);
            if (model.contains(key)) model[key] = value;
            break;
          case 3:
            ASSERT_EQ(w.remove(key), model.erase(key) != 0);
            break;
          default: {
            const auto expected = model.find(key);
            ASSERT_EQ(w.look_up(key), expected == model.end() ? std::nullopt : std::optional{expected->second});
            if constexpr (tested::has_ranges) {
              std::vector<std::uint64_t> from;
              for (auto j = model.lower_bound(key); j != model.end() && from.size() < 5; ++j) from.push_back(j->second);
              ASSERT_EQ(w.some_from(key, 5), from);
            }
          }
        }
      }
      std::vector<std::uint64_t> values;
      for (const auto& [key, value] : model) values.push_back(value);
      auto seen = w.all();
      if (!tested::shapes::ordered) {
        std::sort(values.begin(), values.end());
        std::sort(seen.begin(), seen.end());
      }
      ASSERT_EQ(seen, values);
      s.expect_sound();
      if (round % 2 == 0) w.end();  // otherwise the process dies with all it has reserved
    }
    const recovery_method methods[] = {recovery_method::automatic, recovery_method::search, recovery_method::traversal,
                                       recovery_method::automatic};
    EXPECT_GT(s.crash(methods[round]).allocated, 0U);
    typename tested::worker w{s};
    for (std::uint64_t key = 0; key < 300; ++key) ASSERT_EQ(w.look_up(key).has_value(), model.contains(key)) << key;
    w.end();
  }
}

template <template <class> class Shapes, class Data>
void keeps_the_keys_of_threads_apart(const variant& v) {
  using tested = subject<Shapes, Data>;
  tested s{v};
  constexpr unsigned threads = 4;
  constexpr std::uint64_t keys = 64;
  std::vector<std::map<std::uint64_t, std::uint64_t>> models(threads);
  std::vector<std::thread> all;
  for (unsigned t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      typename tested::worker w{s};
      std::mt19937_64 random{t};
      auto& model = models[t];
      for (std::uint64_t i = 0; i < 4000; ++i) {
        const std::uint64_t key = random() % keys * threads + t;  // neighbours of everybody else's
        if (random() % 2 == 0) {
          ASSERT_EQ(w.write(key, i, write_rule::either), model.contains(key) ? written::replaced : written::inserted);
          model[key] = i;
        } else {
          ASSERT_EQ(w.remove(key), model.erase(key) != 0);
        }
        const auto expected = model.find(key);
        ASSERT_EQ(w.look_up(key), expected == model.end() ? std::nullopt : std::optional{expected->second});
      }
      w.end();
    });
  }
  for (auto& t : all) t.join();
  s.expect_sound();
  s.crash();
  typename tested::worker w{s};
  for (std::uint64_t key = 0; key < keys * threads; ++key) {
    ASSERT_EQ(w.look_up(key).has_value(), models[key % threads].contains(key)) << key;
  }
}

// Each key is there as often as it was put in more often than taken out.
template <template <class> class Shapes, class Data>
void counts_on_shared_keys(const variant& v, std::uint64_t keys) {
  using tested = subject<Shapes, Data>;
  tested s{v};
  constexpr unsigned threads = 4;
  std::vector<std::vector<int>> counts(threads, std::vector<int>(keys));
  std::vector<std::thread> all;
  for (unsigned t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      typename tested::worker w{s};
      std::mt19937_64 random{100 + t};
      for (std::uint64_t i = 0; i < 6000; ++i) {
        const std::uint64_t key = random() % keys;
        switch (random() % 8) {
          case 0:
          case 1:
          case 2:
            if (w.write(key, i, write_rule::insert_only) == written::inserted) ++counts[t][key];
            break;
          case 3:
            if (w.write(key, i, write_rule::either) == written::inserted) ++counts[t][key];
            break;
          case 4:
            ASSERT_NE(w.write(key, i, write_rule::replace_only), written::inserted);
            break;
          case 5:
          case 6:
            if (w.remove(key)) --counts[t][key];
            break;
          default:
            (void)w.look_up(key);
            if (i % 64 == 0) {
              ASSERT_LE(w.all().size(), 2 * keys);
            }
        }
      }
      if (t % 2 == 0) w.end();
    });
  }
  for (auto& t : all) t.join();
  const auto expect_counted = [&] {
    typename tested::worker w{s};
    for (std::uint64_t key = 0; key < keys; ++key) {
      int count = 0;
      for (const auto& of : counts) count += of[key];
      ASSERT_TRUE(count == 0 || count == 1) << key << ": " << count;
      ASSERT_EQ(w.look_up(key).has_value(), count == 1) << key;
    }
  };
  expect_counted();
  s.expect_sound();
  s.crash();
  expect_counted();
  // What was left deleted leaves when somebody comes by.
  typename tested::worker w{s};
  for (std::uint64_t key = 0; key < keys; ++key) (void)w.remove(key);
  ASSERT_TRUE(w.all().empty());
  s.expect_sound();
  w.end();
  s.crash();
  s.pool.shared().come_to_rest();
}

// Where nodes were only unlinked, recovery looks for those that bear a mark.
template <template <class> class Shapes, class Data>
void looks_for_marked_nodes(const variant& v) {
  using tested = subject<Shapes, Data>;
  tested s{v};
  const auto key = [](std::uint64_t i) { return i * 0x9E37'79B9'7F4A'7C15ULL >> 20; };
  {
    typename tested::worker w{s};
    for (std::uint64_t i = 0; i < 8000; ++i) EXPECT_EQ(w.write(key(i), i, write_rule::insert_only), written::inserted);
    w.end();
  }
  s.pool.shared().come_to_rest();
  {
    s.pool.join().enter();  // and is still there when the process ends: nothing that is unlinked becomes free
    typename tested::worker w{s};
    for (std::uint64_t i = 0; i < 8000; i += 200) EXPECT_TRUE(w.remove(key(i)));
    for (std::uint64_t i = 100; i < 8000; i += 400) {
      EXPECT_EQ(w.write(key(i), i + 1, write_rule::replace_only), written::replaced);
    }
    // And one that was allocated in.
    EXPECT_EQ(w.write(key(0), 0, write_rule::insert_only), written::inserted);
  }
  const recovery_report report = s.crash(recovery_method::search);
  // Of a removal from a tree also the branch.
  const std::uint64_t left = 20 + (tested::shapes::kind == layout::kind::tree ? 80U : 40U);
  EXPECT_GE(report.searched, left);
  EXPECT_GE(report.freed, left);
  s.expect_sound();
  if (v.link_cache) {
    EXPECT_EQ(report.searched, report.allocated);
  } else {
    EXPECT_LT(4 * report.searched, report.allocated);
  }
}

#define NVM_ORDERED_SUITE(suite, shapes, data)                                                                  \
  class suite : public ::testing::TestWithParam<variant> {};                                                    \
  TEST_P(suite, follows_a_model) { follows_a_model<shapes, data>(GetParam()); }                                 \
  TEST_P(suite, keeps_the_keys_of_threads_apart) { keeps_the_keys_of_threads_apart<shapes, data>(GetParam()); } \
  TEST_P(suite, counts_on_shared_keys) { counts_on_shared_keys<shapes, data>(GetParam(), 40); }                 \
  TEST_P(suite, looks_for_marked_nodes) { looks_for_marked_nodes<shapes, data>(GetParam()); }                   \
  TEST_P(suite, counts_on_two_keys) { counts_on_shared_keys<shapes, data>(GetParam(), 2); }                     \
  INSTANTIATE_TEST_SUITE_P(all, suite, ::testing::ValuesIn(variants),                                           \
                           [](const auto& info) { return std::string{info.param.name}; })

}  // namespace nvm::lockfree::testing
