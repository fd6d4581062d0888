// A log-structured heap in a buffer, for tests: opened, crashed, opened again; and a model of what it should hold.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <tuple>
#include <vector>

#include "../pool_in_buffer.hpp"
#include "logheap/instances.hpp"
#include "plain_mapping.hpp"

namespace nvm::logheap {

extern template class heap<any_direct, testing::plain_mapping>;  // plain_heap.cpp

}  // namespace nvm::logheap

namespace nvm::logheap::testing {

inline geometry pool_geometry(std::uint64_t pages, unsigned page_shift = 12) {
  return tests::pool_geometry(pages, pages, 4, page_shift);
}
// In the header page, where nothing else is.
inline constexpr std::uint64_t root_word = 512 + 256;

inline heap_settings small_settings() {
  heap_settings s;
  s.root_word = root_word;
  s.root_word_copy = root_word + 64;
  s.chunk_bytes = 4096;
  s.home_bytes = std::uint64_t{1} << 30;
  s.chunks_per_run = 4;
  s.kept_for_cleaners = 2;
  s.kept_for_freeing = 1;
  return s;
}

// Which mapping a heap has.
struct plain {
  using mapping = plain_mapping;
  static std::tuple<> settings() { return {}; }
};
struct leaves {
  using mapping = leaf_mapping;
  static std::tuple<> settings() { return {}; }
};
template <mapping_step Last>
struct skip_lists {
  using mapping = skip_list_mapping;
  static std::tuple<skip_list_settings> settings() {
    skip_list_settings s = skip_list_settings::up_to(Last);
    s.cache_entries = 4096;
    return {s};
  }
};

// `Medium`: what the heap's is, which is any.
template <class Kind = plain, media Medium = direct_media>
class ground {
 public:
  using heap_type = heap<any_direct, typename Kind::mapping>;
  using transaction_type = transaction<heap_type>;

  template <class... OfMedium>
  explicit ground(std::uint64_t pages = 512, const heap_settings& s = small_settings(), OfMedium&... of_medium)
      : geometry_{pool_geometry(pages)}, settings_{s}, inner_{of_medium...} {
    bytes_ = round_up(geometry_.capacity_bytes(), 4096);
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(4096, bytes_)));
    std::memset(memory_.get(), 0, bytes_);
    boot();
    EXPECT_TRUE(heap_->create(0x1234'5678'9ABC)) << last_message();
    EXPECT_TRUE(heap_->open(report_)) << last_message();
    thread_ = *heap_->join();
  }
  ~ground() { forget(); }
  ground(const ground&) = delete;
  ground& operator=(const ground&) = delete;

  void forget() {
    heap_.reset();
    space_.reset();
  }
  // What a new process finds: the same bytes.  Nothing is closed.
  status crash_and_open() {
    return crash_and_open_within([](auto&& open) { return open(); });
  }
  // within(open) -> status: calls open().
  template <class Within>
  status crash_and_open_within(Within&& within) {
    forget();
    boot();
    const status s = within([this] { return heap_->open(report_); });
    if (s) thread_ = *heap_->join();
    return s;
  }
  status close_and_open() {
    heap_->leave(*thread_);
    EXPECT_TRUE(heap_->close()) << last_message();
    return crash_and_open();
  }

  [[nodiscard]] heap_type& operator*() { return *heap_; }
  [[nodiscard]] heap_type* operator->() { return heap_.get(); }
  [[nodiscard]] typename heap_type::thread& thread() { return *thread_; }
  [[nodiscard]] const recovery_report& report() const { return report_; }
  [[nodiscard]] std::byte* base() { return memory_.get(); }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  heap_settings& settings() { return settings_; }
  [[nodiscard]] const geometry& sizes() const { return geometry_; }
  // Of the pool: until the next crash.
  [[nodiscard]] structure_pages& pages() { return *space_; }
  [[nodiscard]] any_direct& medium() { return medium_; }

  home_t put(std::uint64_t size, int fill) {
    transaction_type t{*heap_, *thread_};
    const auto home = t.allocate(size);
    EXPECT_TRUE(home) << last_message();
    if (!home) return 0;
    const std::vector<std::byte> bytes(size, std::byte(fill));
    t.store(*home, bytes.data(), size);
    EXPECT_TRUE(t.commit()) << last_message();
    return *home;
  }
  void paint(home_t home, std::uint64_t size, int fill) {
    transaction_type t{*heap_, *thread_};
    const std::vector<std::byte> bytes(size, std::byte(fill));
    t.store(home, bytes.data(), size);
    EXPECT_TRUE(t.commit()) << last_message();
  }
  void free(home_t home) { free_by(*thread_, home); }
  void free_by(typename heap_type::thread& who, home_t home) {
    transaction_type t{*heap_, who};
    EXPECT_TRUE(t.release(home)) << last_message();
    EXPECT_TRUE(t.commit()) << last_message();
  }
  std::vector<std::byte> look(home_t home, std::uint64_t size) {
    std::vector<std::byte> out(size);
    heap_->read(*thread_, home, out.data(), size);
    return out;
  }
  [[nodiscard]] std::map<home_t, std::uint64_t> objects() {
    std::map<home_t, std::uint64_t> all;
    heap_->for_each_object([&](home_t home, std::uint64_t size) { all[home] = size; });
    return all;
  }

 private:
  void boot() {
    space_ = std::make_unique<space<any_direct, log::nothing_logged>>(medium_, lanes_, memory_.get(), geometry_);
    EXPECT_TRUE(space_->boot(0, 1)) << last_message();
    heap_ = std::apply(
        [&](const auto&... of_mapping) {
          return std::make_unique<heap_type>(medium_, memory_.get(), *space_, settings_, of_mapping...);
        },
        Kind::settings());
  }
  geometry geometry_;
  heap_settings settings_;
  std::uint64_t bytes_ = 0;
  tests::pool_memory memory_;
  Medium inner_;
  any_direct medium_{inner_};
  log::nothing_logged lanes_;
  std::unique_ptr<space<any_direct, log::nothing_logged>> space_;
  std::unique_ptr<heap_type> heap_;
  typename heap_type::thread* thread_ = nullptr;
  recovery_report report_;
};

// Offset of the root, and checked words of the pool by their content.
template <class Ground>
std::uint64_t root_of(Ground& g) {
  std::uint64_t word = 0;
  std::memcpy(&word, g.base() + root_word, 8);
  return word & checked_mask;
}
template <class Ground>
void put_word(Ground& g, std::uint64_t at, std::uint64_t content) {
  const std::uint64_t word = seal_word(content, word_seed(at));
  std::memcpy(g.base() + at, &word, 8);
}
template <class Ground>
std::uint64_t word_at(Ground& g, std::uint64_t at) {
  std::uint64_t word = 0;
  std::memcpy(&word, g.base() + at, 8);
  return word & checked_mask;
}
// Where the blocks of a version are.
template <class Ground>
std::vector<block_place> blocks_of(Ground& g, std::uint64_t version) {
  std::vector<block_place> all;
  auto& chunks = g->chunks();
  for (std::uint32_t i = 0; i < chunks.count(); ++i) {
    const chunk& c = chunks.at(i);
    for (std::uint64_t at = sizeof(layout::chunk_header); at < c.used.load(std::memory_order_relaxed);) {
      layout::block_header h;
      const block_place place = chunks.place(c, at);
      if (inspect_block(g.base(), place, chunks.chunk_bytes(), h) != block_fault::none) break;
      if (h.version == version) all.push_back(place);
      at += round_up(h.bytes, 8);
    }
  }
  return all;
}

// Random transactions, against a model of all bytes.
template <class Kind = plain, media Medium = direct_media>
class player {
 public:
  using contents = std::map<home_t, std::vector<std::byte>>;
  player(ground<Kind, Medium>& g, std::uint64_t seed) : ground_{g}, random_{seed} {}
  std::uint64_t object_max = 300;
  std::size_t objects_max = 60;

  void step() {
    typename ground<Kind, Medium>::transaction_type t{*ground_, ground_.thread()};
    auto next = model_;
    const unsigned count = 1 + pick(4);
    bool full = false;
    for (unsigned i = 0; i < count && !full; ++i) {
      const unsigned what = pick(10);
      if (next.empty() || (what < 3 && next.size() < objects_max)) {
        const std::uint64_t size = pick(8) == 0 ? 1 + pick(20 * object_max) : 1 + pick(object_max);
        const auto home = t.allocate(size);
        ASSERT_TRUE(home) << last_message();
        next[*home].assign(size, std::byte{0});
        if (pick(4) != 0) paint(t, next, *home, 0, size);
      } else if (what < 4) {
        const auto at = any(next);
        ASSERT_TRUE(t.release(at)) << last_message();
        next.erase(at);
      } else {
        const auto at = any(next);
        const std::uint64_t size = next[at].size();
        const std::uint64_t from = pick(size);
        paint(t, next, at, from, 1 + pick(std::min<std::uint64_t>(size - from, 1 + pick(200))));
      }
    }
    if (pick(10) == 0) {
      t.abort();
      return;
    }
    committing_ = &next;
    const auto done = t.commit();
    committing_ = nullptr;
    if (!done) {
      EXPECT_EQ(done.error(), errc::no_space) << last_message();
      ++refused;
      return;
    }
    model_ = std::move(next);
  }
  void compare() {
    std::map<home_t, std::uint64_t> expected;
    for (const auto& [home, bytes] : model_) {
      expected[home] = bytes.size();
      ASSERT_EQ(ground_.look(home, bytes.size()), bytes) << "at home " << std::hex << home;
    }
    ASSERT_EQ(ground_.objects(), expected);
    ASSERT_EQ(ground_->check(), "");
  }
  unsigned refused = 0;
  [[nodiscard]] const contents& model() const { return model_; }
  // What model() will be if the commit that is under way succeeds; nullptr: none is.
  [[nodiscard]] const contents* committing() const { return committing_; }
  std::uint64_t pick(std::uint64_t n) { return random_() % n; }

 private:
  home_t any(const contents& of) { return std::next(of.begin(), static_cast<std::ptrdiff_t>(pick(of.size())))->first; }
  template <class T>
  void paint(T& t, contents& next, home_t home, std::uint64_t from, std::uint64_t size) {
    std::vector<std::byte> bytes(size);
    for (auto& b : bytes) b = std::byte(pick(256));
    t.store(home + from, bytes.data(), size);
    std::copy(bytes.begin(), bytes.end(), next[home].begin() + static_cast<std::ptrdiff_t>(from));
  }
  ground<Kind, Medium>& ground_;
  std::mt19937_64 random_;
  contents model_;
  const contents* committing_ = nullptr;
};

}  // namespace nvm::logheap::testing
