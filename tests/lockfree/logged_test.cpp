// The log-based twins: against a model, by several threads, and with a crash before each fence.
#include "lockfree/logged/logged.hpp"

#include <random>
#include <thread>

#include "ground.hpp"

namespace nvm::lockfree::testing {
namespace {

// Knows which lines are durable: those that were flushed before a fence, as they were then.
class watched_media {
 public:
  static constexpr bool atomic_batches = false;
  struct batch {
    void add(const void*, std::size_t) noexcept {}
    void clear() noexcept {}
  };
  void flush(const void* p, std::size_t bytes, site = {}) noexcept {
    if (base_ == nullptr) return;
    const auto first = static_cast<std::uint64_t>(static_cast<const std::byte*>(p) - base_) / line_bytes;
    const std::uint64_t lines = lines_touched(p, bytes);
    for (std::uint64_t i = 0; i < lines; ++i) flushed_.insert(first + i);
  }
  void fence(edge e) noexcept {
    if (base_ == nullptr) return;
    reached_ = e.name;
    before_fence_();
    for (std::uint64_t l : flushed_) {
      std::memcpy(durable_.data() + l * line_bytes, base_ + l * line_bytes, line_bytes);
    }
    flushed_.clear();
  }
  [[nodiscard]] lsn_t last_lsn() noexcept { return 0; }
  status durable(lsn_t) noexcept { return {}; }

  // From now on; everything so far is durable.
  void watch(const std::byte* base, std::uint64_t bytes, std::function<void()> before_fence) {
    durable_.assign(base, base + bytes);
    before_fence_ = std::move(before_fence);
    base_ = base;
  }
  void forget() { base_ = nullptr; }
  [[nodiscard]] const char* reached() const { return reached_; }
  // What a crash now may leave: each line that is not durable as it is with this probability, in 256.
  [[nodiscard]] std::vector<std::byte> image(std::mt19937_64& random, unsigned of_256) const {
    std::vector<std::byte> all = durable_;
    for (std::uint64_t at = 0; at < all.size(); at += line_bytes) {
      if (random() % 256 < of_256) std::memcpy(all.data() + at, base_ + at, line_bytes);
    }
    return all;
  }

  const char* name_ = "";

 private:
  const std::byte* base_ = nullptr;
  const char* reached_ = "no fence";
  std::vector<std::byte> durable_;
  std::set<std::uint64_t> flushed_;
  std::function<void()> before_fence_;
};
static_assert(media<watched_media>);

template <template <class> class Shape>
constexpr layout::kind kind_of = layout::kind::list;
template <>
constexpr layout::kind kind_of<logged::hash_twin> = layout::kind::hash;
template <>
constexpr layout::kind kind_of<logged::skip_list_twin> = layout::kind::skip_list;
template <>
constexpr layout::kind kind_of<logged::tree_twin> = layout::kind::tree;

const geometry sizes = pool_geometry(96, 96);
domain_settings settings() {
  domain_settings s;
  s.generation_nodes = 8;
  return s;
}
using model = std::map<std::uint64_t, std::uint64_t>;

template <media M, template <class> class Shape>
class twin {
 public:
  using structure_type = durable<M, Shape>;
  using session = typename structure_type::session;

  template <class... Arguments>
  explicit twin(logged::rule r, const geometry& g, Arguments&&... medium)
      : pool{g, settings(), std::forward<Arguments>(medium)...} {
    if (r != logged::rule{}) {
      const auto made = logged::make<Shape, M>(pool.names(), pool.places(), pool.medium(), pool.base(), "subject",
                                               kind_of<Shape>, r, 3);
      EXPECT_TRUE(made) << last_message();
      start();
    }
  }
  void start() {
    const auto found = pool.names().find("subject");
    ASSERT_TRUE(found) << last_message();
    owner = found->owner;
    it = std::make_unique<structure_type>(pool.shared(), *found, true);
  }
  // What a new process finds in `image`.
  void open(const std::vector<std::byte>& image) {
    it.reset();
    std::memcpy(pool.base(), image.data(), image.size());
    crash();
  }
  void crash() {
    it.reset();
    pool.crash_and_open();
    start();
    pool.recover(*it, owner);
  }
  [[nodiscard]] model contents() {
    model m;
    (*it)->each([&](std::uint64_t key, std::uint64_t value) { EXPECT_TRUE(m.emplace(key, value).second) << key; });
    return m;
  }
  void expect_sound() {
    EXPECT_EQ(pool.allocated(owner), pool.linked(*it));
    if constexpr (requires { (*it)->check(); }) {
      EXPECT_TRUE((*it)->check());
    }
  }

  ground<M> pool;
  std::uint16_t owner = 0;
  std::unique_ptr<structure_type> it;
};

// After a crash; and what it then does survives the next one.
template <template <class> class Shape>
void goes_on_working(twin<direct_media, Shape>& after, model more) {
  {
    auto& thread = after.pool.join();
    typename twin<direct_media, Shape>::session session{thread};
    for (std::uint64_t key = 0; key < 24; ++key) {
      const auto removed = (*after.it)->remove(session, key);
      ASSERT_TRUE(removed);
      EXPECT_EQ(*removed, more.erase(key) != 0) << key;
      if (key % 3 != 0) continue;
      const auto inserted = (*after.it)->insert(session, key, key + 100);
      ASSERT_TRUE(inserted && *inserted);
      more[key] = key + 100;
    }
  }
  after.crash();
  EXPECT_EQ(after.contents(), more);
  after.expect_sound();
}

template <template <class> class Shape>
void is_all_or_nothing_for_a_crash_before_any_fence(logged::rule r) {
  twin<watched_media, Shape> subject{r, sizes};
  twin<direct_media, Shape> after{logged::rule{}, sizes, isa::write_back::none};
  std::mt19937_64 random{11};
  model before;
  model now;  // with the operation that is under way
  unsigned crashes = 0;
  unsigned replays = 0;
  const auto crash = [&](unsigned of_256) {
    after.open(subject.pool.medium().image(random, of_256));
    replays += (*after.it)->log().replayed() != 0 ? 1 : 0;
    const model found = after.contents();
    if (found != now) {
      EXPECT_EQ(found, before) << "nor with " << ::testing::PrintToString(now) << "; " << of_256 << " of 256 lines, at "
                               << subject.pool.medium().reached();
    }
    after.expect_sound();
    if (++crashes % 16 != 0) return;
    goes_on_working<Shape>(after, found);
  };
  // Two of them at work in turn: the one that works rarely leaves old records.
  auto& one = subject.pool.join();
  auto& two = subject.pool.join();
  {
    typename twin<watched_media, Shape>::session sessions[] = {typename twin<watched_media, Shape>::session{one},
                                                               typename twin<watched_media, Shape>::session{two}};
    subject.pool.medium().watch(subject.pool.base(), sizes.capacity_bytes(), [&] {
      for (unsigned of_256 : {0U, 256U, 128U, 20U, 236U}) crash(of_256);
    });
    for (unsigned i = 0; i < 160 && !::testing::Test::HasFailure(); ++i) {
      auto& session = sessions[random() % 8 == 0 ? 1 : 0];
      const std::uint64_t key = random() % 24;
      if (random() % 2 == 0) {
        now.emplace(key, i);
        const auto done = (*subject.it)->insert(session, key, i);
        ASSERT_TRUE(done) << last_message();
        EXPECT_EQ(*done, now != before);
      } else {
        now.erase(key);
        const auto done = (*subject.it)->remove(session, key);
        ASSERT_TRUE(done) << last_message();
        EXPECT_EQ(*done, now != before);
      }
      before = now;
      // It has returned: whatever the crash takes, not this.
      if (i % 4 == 0) {
        for (unsigned of_256 : {0U, 128U}) crash(of_256);
      }
    }
    subject.pool.medium().forget();
  }
  EXPECT_GT(crashes, 300U);
  EXPECT_GT(replays, 50U);
}

template <template <class> class Shape>
void follows_a_model_by_threads(logged::rule r) {
  twin<direct_media, Shape> s{r, pool_geometry(64, 8192), isa::best_write_back()};
  constexpr unsigned threads = 4;
  std::vector<model> models(threads);
  std::vector<std::thread> all;
  for (unsigned t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      auto& thread = s.pool.join();
      typename twin<direct_media, Shape>::session session{thread};
      std::mt19937_64 random{t};
      for (std::uint64_t i = 0; i < 4000; ++i) {
        const std::uint64_t key = random() % 64 * threads + t;  // neighbours of everybody else's
        if (random() % 2 == 0) {
          const auto done = (*s.it)->insert(session, key, i);
          ASSERT_TRUE(done) << last_message();
          ASSERT_EQ(*done, models[t].emplace(key, i).second);
        } else {
          const auto done = (*s.it)->remove(session, key);
          ASSERT_TRUE(done) << last_message();
          ASSERT_EQ(*done, models[t].erase(key) != 0);
        }
        std::uint64_t found = ~std::uint64_t{0};
        const bool there = (*s.it)->look_up(session, key, [&](std::uint64_t v) { found = v; });
        ASSERT_EQ(there, models[t].contains(key));
        if (there) {
          ASSERT_EQ(found, models[t][key]);
        }
      }
      s.it->memory().end(session);
      s.pool.shared().leave(thread);
    });
  }
  for (auto& t : all) t.join();
  model together;
  for (const model& m : models) together.insert(m.begin(), m.end());
  EXPECT_EQ(s.contents(), together);
  s.crash();
  EXPECT_EQ(s.contents(), together);
  s.expect_sound();
}

class logged_twins : public ::testing::TestWithParam<logged::rule> {};
TEST_P(logged_twins, list_by_threads) { follows_a_model_by_threads<logged::list_twin>(GetParam()); }
TEST_P(logged_twins, hash_table_by_threads) { follows_a_model_by_threads<logged::hash_twin>(GetParam()); }
TEST_P(logged_twins, skip_list_by_threads) { follows_a_model_by_threads<logged::skip_list_twin>(GetParam()); }
TEST_P(logged_twins, tree_by_threads) { follows_a_model_by_threads<logged::tree_twin>(GetParam()); }
TEST_P(logged_twins, list_is_all_or_nothing_for_a_crash_before_any_fence) {
  is_all_or_nothing_for_a_crash_before_any_fence<logged::list_twin>(GetParam());
}
TEST_P(logged_twins, hash_table_is_all_or_nothing_for_a_crash_before_any_fence) {
  is_all_or_nothing_for_a_crash_before_any_fence<logged::hash_twin>(GetParam());
}
TEST_P(logged_twins, skip_list_is_all_or_nothing_for_a_crash_before_any_fence) {
  is_all_or_nothing_for_a_crash_before_any_fence<logged::skip_list_twin>(GetParam());
}
TEST_P(logged_twins, tree_is_all_or_nothing_for_a_crash_before_any_fence) {
  is_all_or_nothing_for_a_crash_before_any_fence<logged::tree_twin>(GetParam());
}
INSTANTIATE_TEST_SUITE_P(all, logged_twins, ::testing::Values(logged::rule::settled, logged::rule::stamped),
                         [](const auto& info) { return info.param == logged::rule::settled ? "settled" : "stamped"; });

}  // namespace
}  // namespace nvm::lockfree::testing
