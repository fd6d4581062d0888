// Pages of an image leave when the file has them, and no sooner: one at a time, and beside threads that commit.
#include "tier/image_pages.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../clocks.hpp"
#include "base/plant.hpp"
#include "media/checkpointer.hpp"
#include "tier/swapper.hpp"

namespace nvm::tier {
namespace {

constexpr std::uint64_t page_bytes = swapper::page_bytes;
constexpr std::uint64_t log_bytes = 256 * 1024;
constexpr std::uint64_t data_offset = 4096 + log_bytes;

// A file with a log, and its image, of which a swapper keeps the data.
class image_ground {
 public:
  explicit image_ground(std::uint64_t pages, std::uint64_t fast_pages_max = 64)
      : pages_{pages}, fast_pages_max_{fast_pages_max} {}
  ~image_ground() {
    if (swapper_ != nullptr) swapper_->stop_leaving();
    medium.reset();
    if (base_ != nullptr) ::munmap(base_, bytes());
    swapper_.reset();
    ::unlink(path_.c_str());
  }
  image_ground(const image_ground&) = delete;
  image_ground& operator=(const image_ground&) = delete;

  [[nodiscard]] status open() {
    tests::begin_clocks_anew();
    auto made = platform::file::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (!made) return made.error();
    file_ = std::move(*made);
    if (status s = file_.truncate(bytes()); !s) return s;
    device_ = std::make_unique<file_device>(file_);
    ring_identity ring{.place = {.log_offset = 4096, .log_bytes = log_bytes}};
    const auto state = format_ring(*device_, ring);
    if (!state) return state.error();
    auto memory = platform::file::in_memory("image", bytes());
    if (!memory) return memory.error();
    fast_ = std::move(*memory);
    void* const p = ::mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fast_.descriptor(), 0);
    if (p == MAP_FAILED) return fail(errc::system, "mmap");
    base_ = static_cast<std::byte*>(p);
    auto slow = std::make_unique<image_pages>(file_, data_offset);
    image_ = slow.get();
    swapper_settings t;
    t.base = base_ + data_offset;
    t.fast = &fast_;
    t.grows = &file_;
    t.offset = data_offset;
    t.pages = pages_;
    t.fast_pages_max = fast_pages_max_;
    auto opened = swapper::open(t, std::move(slow));
    if (!opened) return opened.error();
    swapper_ = std::move(*opened);
    image_settings s;
    s.base = base_;
    s.bytes = bytes();
    s.ring = ring;
    s.guest.context = this;
    s.guest.meet = [](void* g, image_media* m) noexcept { static_cast<image_ground*>(g)->image_->meet(m); };
    s.guest.hold = [](void* g, const void* from, std::size_t n) noexcept {
      auto* const me = static_cast<image_ground*>(g);
      return me->tier().pin(me->page_of(from), ceil_div(n, page_bytes), swapper::pinned_by::library);
    };
    s.guest.let_go = [](void* g, const void* from, std::size_t n) noexcept {
      auto* const me = static_cast<image_ground*>(g);
      me->tier().unpin(me->page_of(from), ceil_div(n, page_bytes), swapper::pinned_by::library);
    };
    auto begun = image_media::open(*device_, s, *state);
    if (!begun) return begun.error();
    medium = std::move(*begun);
    return swapper_->start_leaving();
  }

  [[nodiscard]] std::uint64_t bytes() const { return data_offset + pages_ * page_bytes; }
  [[nodiscard]] swapper& tier() { return *swapper_; }
  [[nodiscard]] std::uint64_t page_of(const void* p) const {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(p) - base_ - data_offset) / page_bytes;
  }
  [[nodiscard]] std::uint64_t* words(std::uint64_t page) const {
    return reinterpret_cast<std::uint64_t*>(base_ + data_offset + page * page_bytes);
  }
  void store(std::uint64_t page, std::uint64_t i, std::uint64_t value) const {
    std::atomic_ref{words(page)[i]}.store(value, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t load(std::uint64_t page, std::uint64_t i) const {
    return std::atomic_ref{words(page)[i]}.load(std::memory_order_relaxed);
  }
  // Stores and commits; durable when it returns, if that is wished.
  void commit(std::uint64_t page, std::uint64_t i, std::uint64_t value, bool durable = true) {
    image_media::batch b;
    store(page, i, value);
    b.add(words(page) + i, 8);
    const auto lsn = medium->publish(b, [] {}, edge{"test/commit"});
    ASSERT_TRUE(lsn) << last_message();
    if (durable) {
      ASSERT_TRUE(medium->durable(*lsn)) << last_message();
    }
  }
  // What the file has there.
  [[nodiscard]] std::uint64_t in_file(std::uint64_t page, std::uint64_t i) const {
    std::uint64_t word = 0;
    EXPECT_TRUE(file_.read(data_offset + page * page_bytes + 8 * i, &word, sizeof word));
    return word;
  }

  std::unique_ptr<image_media> medium;

 private:
  const std::string path_ = "/dev/shm/holdfast-image-pages-" + std::to_string(::getpid());
  std::uint64_t pages_, fast_pages_max_;
  platform::file file_, fast_;
  std::unique_ptr<file_device> device_;
  std::byte* base_ = nullptr;
  image_pages* image_ = nullptr;
  std::unique_ptr<swapper> swapper_;
};

#define OPEN_OR_SKIP(g)                                                                                       \
  if (const status opened = (g).open(); !opened) {                                                            \
    if (std::string{last_message()}.find("userfaultfd") != std::string::npos) GTEST_SKIP() << last_message(); \
    FAIL() << last_message();                                                                                 \
  }

TEST(image_pages, leave_when_they_are_home_and_come_back) {
  image_ground g{200};
  OPEN_OR_SKIP(g);
  for (std::uint64_t page = 0; page < 200; ++page) g.commit(page, page, page + 1, page % 50 == 49);
  ASSERT_TRUE(g.medium->quiesce()) << last_message();
  g.tier().shrink(0);
  const auto s = g.tier().statistics();
  EXPECT_EQ(s.present, 0U);
  EXPECT_EQ(s.dirty, 0U);
  EXPECT_GE(s.dropped, 200U);
  EXPECT_EQ(s.out, 0U);
  for (std::uint64_t page = 0; page < 200; ++page) ASSERT_EQ(g.load(page, page), page + 1);
  // They are clean, and leave without a look at the file.
  EXPECT_EQ(g.tier().check(), "");
  const std::uint64_t read = g.tier().slow().now().bytes_read;
  g.tier().shrink(0);
  EXPECT_EQ(g.tier().statistics().present, 0U);
  EXPECT_EQ(g.tier().slow().now().bytes_read, read);
}

// Two records of one word: the first is on the device, the second, which puts the word back, is not.  The file has what
// the image has, and would not have it for long.
std::uint64_t word_after_a_checkpoint_between() {
  image_ground g{100};
  if (!g.open()) return 0;
  g.commit(5, 9, 7);
  g.commit(5, 9, 0, false);
  g.tier().shrink(0);
  EXPECT_TRUE(g.medium->checkpoint_step()) << last_message();
  EXPECT_EQ(g.in_file(5, 9), 7U);
  return g.load(5, 9);
}
TEST(image_pages, stay_while_a_record_is_not_home) {
  {
    image_ground probe{100};
    OPEN_OR_SKIP(probe);
  }
  EXPECT_EQ(word_after_a_checkpoint_between(), 0U);
  planted_bug = plant::image_page_not_home;
  EXPECT_EQ(word_after_a_checkpoint_between(), 7U);  // the test would find it
  planted_bug = plant::none;
}

// Of a transaction that is open, or of what lives in memory alone.
std::uint64_t word_that_no_record_has() {
  image_ground g{100};
  if (!g.open()) return 3;
  g.commit(5, 9, 7);
  EXPECT_TRUE(g.medium->quiesce()) << last_message();
  g.store(5, 10, 3);
  g.tier().shrink(0);
  EXPECT_EQ(g.load(5, 9), 7U);
  return g.load(5, 10);
}
TEST(image_pages, stay_while_they_have_bytes_of_no_record) {
  {
    image_ground probe{100};
    OPEN_OR_SKIP(probe);
  }
  EXPECT_EQ(word_that_no_record_has(), 3U);
  planted_bug = plant::image_page_unlogged;
  EXPECT_EQ(word_that_no_record_has(), 0U);
  planted_bug = plant::none;
}

TEST(image_pages, hold_still_while_they_are_written_straight) {
  image_ground g{256};
  OPEN_OR_SKIP(g);
  constexpr std::uint64_t pages = 32;
  std::atomic<bool> over{false};
  std::thread shrinker{[&] {
    while (!over.load(std::memory_order_relaxed)) {
      g.tier().shrink(0);
      tests::pause_between_rounds();
    }
  }};
  for (std::uint64_t n = 1; n <= 60; ++n) {
    const std::uint64_t first = n * 3 % (256 - pages);
    for (std::uint64_t i = 0; i < pages; ++i) g.store(first + i, i, n);
    const auto done = g.medium->write_straight(g.words(first), pages * page_bytes, 0);
    ASSERT_TRUE(done) << last_message();
    image_media::batch b;
    if (done->written) {
      b.add_straight(g.words(first), pages * page_bytes, done->sum);
    } else {
      b.add(g.words(first), pages * page_bytes);
    }
    const auto lsn = g.medium->publish(b, [] {}, edge{"test/commit"});
    ASSERT_TRUE(lsn) << last_message();
    for (std::uint64_t i = 0; i < pages; ++i) ASSERT_EQ(g.load(first + i, i), n) << i;
  }
  over = true;
  shrinker.join();
  EXPECT_GT(g.medium->statistics().straight_writes, 0U);
}

// Threads commit to words of their own in pages of all; what each reads is what it has stored last.
TEST(image_pages, come_and_go_beside_threads_that_commit) {
  constexpr std::uint64_t pages = 400;
  constexpr unsigned threads = 3;
  image_ground g{pages, 80};
  OPEN_OR_SKIP(g);
  std::atomic<unsigned> at_work{threads};
  std::vector<std::vector<std::uint64_t>> stored(threads, std::vector<std::uint64_t>(pages));
  std::vector<std::thread> all;
  for (unsigned t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      std::mt19937 random{t + 1};
      for (std::uint64_t n = 1; n <= 2500; ++n) {
        const std::uint64_t page = random() % pages;
        ASSERT_EQ(g.load(page, t * 64), stored[t][page]) << page;
        if (n % 5 == 0) {
          // Rolled back.
          g.store(page, t * 64, ~n);
          if (n % 3 == 0) std::this_thread::yield();
          g.store(page, t * 64, stored[t][page]);
          continue;
        }
        g.commit(page, t * 64, n, n % 16 == 0);
        stored[t][page] = n;
      }
      --at_work;
    });
  }
  // Asked for by who finds no page that may leave.
  checkpointer home;
  ASSERT_TRUE(home.start(*g.medium)) << last_message();
  std::thread shrinker{[&] {
    while (at_work.load() != 0) g.tier().shrink(20);
  }};
  for (std::thread& t : all) t.join();
  shrinker.join();
  home.stop();
  for (unsigned t = 0; t < threads; ++t) {
    for (std::uint64_t page = 0; page < pages; ++page) ASSERT_EQ(g.load(page, t * 64), stored[t][page]) << page;
  }
  EXPECT_GT(g.tier().statistics().dropped, 100U);
  ASSERT_TRUE(g.medium->quiesce()) << last_message();
  for (unsigned t = 0; t < threads; ++t) {
    for (std::uint64_t page = 0; page < pages; ++page) ASSERT_EQ(g.in_file(page, t * 64), stored[t][page]) << page;
  }
  g.tier().stop_leaving();
  EXPECT_EQ(g.tier().check(), "");
}

}  // namespace
}  // namespace nvm::tier
