// Page-out and page-in with a crash at every step, and with every kind of device that a crash can leave: each page is
// there with its newest bytes, and the pool can be opened.  Without a sync (tier/E1, tier/E2) some state shows it.
//
// What crashes.  Fast memory keeps every store up to the crash, as a process that is killed leaves it.  Of the second
// file each sector that was written since the last sync may have any of its versions: the process, and with it the
// system's memory of the file.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "../random_seed.hpp"
#include "media/memory_device.hpp"
#include "tier/page_file.hpp"

namespace nvm::tier {
namespace {

constexpr std::uint64_t pages_in_all = 24;
constexpr std::uint64_t page_bytes = 4096;
constexpr std::size_t device_bytes = 512 * 1024;

page_file_identity identity() {
  page_file_identity who;
  std::memset(who.pool_uuid, 1, sizeof who.pool_uuid);
  std::memset(who.uuid, 2, sizeof who.uuid);
  who.pages = pages_in_all;
  return who;
}

// The fast file: pages or holes, and what the pool says of its second file.
struct fast_file {
  bool joined = false;
  std::uint64_t sequence = 0;
  std::vector<std::optional<std::vector<std::byte>>> pages =
      std::vector<std::optional<std::vector<std::byte>>>(pages_in_all);
};

// What a program would find, if nothing had ever left.
using contents = std::vector<std::vector<std::byte>>;

std::vector<std::byte> page_of(std::uint64_t seed) {
  std::vector<std::byte> page(page_bytes);
  if (seed % 5 == 0) return page;
  std::mt19937_64 random{seed};
  const std::size_t step = seed % 2 == 0 ? 1 : 64;
  for (std::size_t i = 0; i < page_bytes; i += step) page[i] = static_cast<std::byte>(random());
  return page;
}

enum class fault { none, no_e1, no_e2, given_back_early, given_back_before_word, not_forgotten, slow_wins };

// A second file whose crash states are looked at before each write and sync.
class crashing_device final : public block_device {
 public:
  explicit crashing_device(memory_device& inner, fault f) : inner_{inner}, fault_{f} {}
  ~crashing_device() = default;
  status write(std::uint64_t offset, const void* from, std::size_t bytes, site s) noexcept override {
    const status done = inner_.write(offset, from, bytes, s);
    step();
    return done;
  }
  status read(std::uint64_t offset, void* to, std::size_t bytes) noexcept override {
    return inner_.read(offset, to, bytes);
  }
  status sync(edge e) noexcept override {
    if (before_sync) before_sync();
    const bool left_out = (fault_ == fault::no_e1 && std::string{e.name} == "tier/E1") ||
                          (fault_ == fault::no_e2 && std::string{e.name} == "tier/E2");
    const status done = left_out ? status{} : inner_.sync(e);
    step();
    return done;
  }
  result<std::uint64_t> size() noexcept override { return inner_.size(); }
  void step() const {
    if (on_step) on_step();
  }
  std::function<void()> on_step, before_sync;

 private:
  memory_device& inner_;
  fault fault_;
};

// Runs a life, and looks at what crashes leave.
class story {
 public:
  explicit story(fault f, std::uint64_t seed) : fault_{f}, random_{seed}, device_{inner_, f} {
    expected_.resize(pages_in_all, std::vector<std::byte>(page_bytes));
    device_.on_step = [this] { look(); };
  }

  // The first thing that was wrong; "": nothing was.
  std::string run() {
    if (!page_file::format(device_, identity(), 1)) return std::string{"format: "} + last_message();
    fast_.joined = true;
    look();
    for (unsigned life = 0; life < 3 && wrong_.empty(); ++life) live();
    return wrong_;
  }
  [[nodiscard]] std::uint64_t states() const { return states_; }

 private:
  void live() {
    auto opened = reopened(device_, fast_);
    if (opened == nullptr) return note(std::string{"a life cannot begin: "} + last_message());
    file_ = std::move(opened);
    is_clean_.assign(pages_in_all, false);
    for (unsigned step = 0; step < 14 && wrong_.empty(); ++step) {
      switch (random_() % 4) {
        case 0:
          let_some_leave();
          break;
        case 1:
          bring(static_cast<page_t>(random_() % pages_in_all));
          break;
        default:
          store(static_cast<page_t>(random_() % pages_in_all));
      }
      look();
    }
    file_.reset();
  }

  void bring(page_t page) {
    if (fast_.pages[page]) return;
    std::vector<std::byte> bytes(page_bytes);
    if (!file_->read(page, bytes.data())) return note(std::string{"page-in: "} + last_message());
    fast_.pages[page] = std::move(bytes);
    is_clean_[page] = true;
  }
  void store(page_t page) {
    bring(page);
    if (is_clean_[page] && fault_ != fault::not_forgotten) {
      file_->forget(page);
      is_clean_[page] = false;
    }
    fast_.pages[page] = page_of(random_());
    expected_[page] = *fast_.pages[page];
  }
  void let_some_leave() {
    std::vector<leaving_page> leaving;
    std::vector<std::vector<std::byte>> bytes;
    for (page_t page = 0; page < pages_in_all; ++page) {
      if (!fast_.pages[page] || random_() % 2 == 0) continue;
      if (is_clean_[page]) {
        give_back(page);
        look();
        continue;
      }
      bytes.push_back(*fast_.pages[page]);
      leaving.push_back({page, nullptr, {}});
    }
    if (leaving.empty()) return;
    for (std::size_t i = 0; i < leaving.size(); ++i) leaving[i].bytes = bytes[i].data();
    const page_t stored_to = leaving[random_() % leaving.size()].page;
    device_.before_sync = [&] {
      device_.before_sync = nullptr;
      if (fault_ != fault::given_back_before_word) return;
      for (const leaving_page& p : leaving) give_back(p.page);
      look();
    };
    if (fault_ == fault::given_back_early) {
      for (const leaving_page& p : leaving) give_back(p.page);
    }
    const auto sequence = file_->write(leaving, lock_);
    device_.before_sync = nullptr;
    if (!sequence) return note(std::string{"page-out: "} + last_message());
    fast_.sequence = *sequence;
    look();
    for (const leaving_page& p : leaving) {
      // One of them was stored to meanwhile, every other time.
      if (p.page == stored_to && *sequence % 2 == 0) {
        file_->drop(p);
        fast_.pages[p.page] = page_of(random_());
        expected_[p.page] = *fast_.pages[p.page];
      } else {
        file_->keep(p);
        give_back(p.page);
      }
      look();
    }
  }
  void give_back(page_t page) {
    fast_.pages[page].reset();
    is_clean_[page] = false;
  }

  // As an opening does it: words are read where the fast file has holes.
  std::unique_ptr<page_file> reopened(block_device& device, const fast_file& fast) {
    auto opened = page_file::open(device, identity(), fast.sequence);
    if (!opened) return nullptr;
    for (page_t page = 0; page < pages_in_all; ++page) {
      if (fast.pages[page] && fault_ != fault::slow_wins) {
        (*opened)->take_present(page, 1);
      } else if (!(*opened)->take_words(page, 1)) {
        return nullptr;
      }
    }
    if (!(*opened)->compress_by(layout::page_coding::lz4)) (void)(*opened)->compress_by(layout::page_coding::plain);
    return std::move(*opened);
  }

  // Every state of the second file that a crash now could leave, as far as a few thousand of them tell.
  void look() {
    if (!wrong_.empty()) return;
    judge("all that was written", inner_.crash_keeping_all());
    judge("nothing since the last sync", inner_.crash_losing_all_unsynced());
    std::vector<std::uint64_t> sectors;
    (void)inner_.crash([&](std::uint64_t sector, std::size_t) {
      sectors.push_back(sector);
      return std::size_t{0};
    });
    for (const std::uint64_t one : sectors) {
      judge("all but sector " + std::to_string(one),
            inner_.crash([&](std::uint64_t s, std::size_t versions) { return s == one ? 0 : versions; }));
      judge("only sector " + std::to_string(one),
            inner_.crash([&](std::uint64_t s, std::size_t versions) { return s == one ? versions : 0; }));
    }
    for (unsigned i = 0; i < 4 && !sectors.empty(); ++i) {
      judge("some sectors",
            inner_.crash([&](std::uint64_t, std::size_t versions) { return random_() % (versions + 1); }));
    }
  }
  void judge(const std::string& what, std::vector<std::byte> left) {
    if (!wrong_.empty()) return;
    ++states_;
    if (!fast_.joined) return;  // there is no pool yet
    memory_device device{std::move(left)};
    const auto file = reopened(device, fast_);
    if (file == nullptr) return note(what + ": " + last_message());
    std::vector<std::byte> found(page_bytes);
    for (page_t page = 0; page < pages_in_all; ++page) {
      if (fast_.pages[page] && (fault_ != fault::slow_wins || file->is_zeros(page))) {
        found = *fast_.pages[page];
      } else if (!file->read(page, found.data())) {
        return note(what + ": page " + std::to_string(page) + ": " + last_message());
      }
      if (found != expected_[page]) return note(what + ": page " + std::to_string(page) + " is not its newest");
    }
  }
  void note(std::string what) {
    if (wrong_.empty()) wrong_ = std::move(what);
  }

  fault fault_;
  std::mt19937_64 random_;
  memory_device inner_{device_bytes};
  crashing_device device_;
  fast_file fast_;
  contents expected_;
  std::unique_ptr<page_file> file_;
  std::vector<bool> is_clean_;
  std::mutex lock_;
  std::string wrong_;
  std::uint64_t states_ = 0;
};

constexpr unsigned stories = 8;

TEST(tier_crashes, leave_each_page_with_its_newest_bytes) {
  const std::uint64_t seed = tests::seed_from_environment();
  std::uint64_t states = 0;
  for (unsigned i = 0; i < stories; ++i) {
    story s{fault::none, seed * 1000 + i};
    EXPECT_EQ(s.run(), "") << "seed " << seed * 1000 + i;
    states += s.states();
  }
  EXPECT_GT(states, 5'000U);
  std::printf("%llu states\n", static_cast<unsigned long long>(states));
}

class tier_crashes_show : public testing::TestWithParam<std::pair<const char*, fault>> {};
INSTANTIATE_TEST_SUITE_P(
    faults, tier_crashes_show,
    testing::Values(std::pair{"the_second_file_is_not_there_when_the_pool_wants_it", fault::no_e1},
                    std::pair{"a_page_is_given_back_before_the_second_file_is_synced", fault::no_e2},
                    std::pair{"a_page_is_given_back_before_it_is_written", fault::given_back_early},
                    std::pair{"a_page_is_given_back_before_its_word_is_synced", fault::given_back_before_word},
                    std::pair{"the_second_file_wins_where_the_fast_one_has_a_page", fault::slow_wins},
                    std::pair{"a_clean_page_that_was_stored_to_is_dropped", fault::not_forgotten}),
    [](const auto& info) { return info.param.first; });

TEST_P(tier_crashes_show, that) {
  for (unsigned i = 0; i < stories; ++i) {
    story s{GetParam().second, 1000 + i};
    if (!s.run().empty()) return;
  }
  FAIL() << "no state shows it";
}

}  // namespace
}  // namespace nvm::tier
