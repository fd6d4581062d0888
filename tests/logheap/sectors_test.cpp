// The heap in a file that is mapped shared: until a sync each sector of it is on the device as it was, as it is now, or
// as it was at any time in between.  Each sync is crashed, with everything that was stored since the one before it.
#include <functional>

#include "ground.hpp"
#include "media/synced_media.hpp"

namespace nvm::logheap {
namespace {

using testing::ground;
using testing::leaves;
using testing::player;
using testing::small_settings;

using file_ground = ground<leaves, synced_media>;
using file_player = player<leaves, synced_media>;

// The device under the mapping: keeps what was synced, and each sector as it was at some moment since then.
class sectors final : public block_device {
 public:
  status write(std::uint64_t, const void*, std::size_t, site) noexcept override { return fail(errc::io, "no writes"); }
  status read(std::uint64_t, void*, std::size_t) noexcept override { return fail(errc::io, "no reads"); }
  result<std::uint64_t> size() noexcept override { return std::uint64_t{durable_.size()}; }
  status sync(edge e) noexcept override {
    if (before_sync) before_sync(e);
    if (loses != nullptr && std::strcmp(e.name, loses) == 0) return {};
    if (base_ != nullptr) {
      std::memcpy(durable_.data(), base_, durable_.size());
      written_.clear();
    }
    return {};
  }
  void watch(const std::byte* base, std::uint64_t bytes) {
    base_ = base;
    durable_.assign(base, base + bytes);
  }
  // The kernel writes some sectors, as they are now.
  void write_some(std::mt19937_64& random, unsigned percent) {
    for (std::uint64_t at = 0; at < durable_.size(); at += sector_bytes) {
      if (random() % 100 >= percent || std::memcmp(&durable_[at], base_ + at, sector_bytes) == 0) continue;
      written_[at].assign(base_ + at, base_ + at + sector_bytes);
    }
  }
  // What a power cut leaves: of each sector what was synced, what was written since, or what is there now.
  void crash_into(std::byte* to, std::mt19937_64& random, unsigned percent) const {
    std::memcpy(to, durable_.data(), durable_.size());
    for (const auto& [at, bytes] : written_) {
      if (random() % 2 == 0) std::memcpy(to + at, bytes.data(), sector_bytes);
    }
    for (std::uint64_t at = 0; at < durable_.size(); at += sector_bytes) {
      if (std::memcmp(to + at, base_ + at, sector_bytes) != 0 && random() % 100 < percent) {
        std::memcpy(to + at, base_ + at, sector_bytes);
      }
    }
  }
  std::function<void(edge)> before_sync;
  const char* loses = nullptr;  // planted: what this sync acknowledges is not on the device

 private:
  const std::byte* base_ = nullptr;
  std::vector<std::byte> durable_;
  std::map<std::uint64_t, std::vector<std::byte>> written_;
};

// Empty, or how what is there differs.
template <class Ground>
std::string differs(Ground& g, const file_player::contents& expected) {
  std::map<home_t, std::uint64_t> sizes;
  for (const auto& [home, bytes] : expected) sizes[home] = bytes.size();
  if (g.objects() != sizes) return "other objects";
  for (const auto& [home, bytes] : expected) {
    if (g.look(home, bytes.size()) != bytes) return "other bytes at home " + std::to_string(home);
  }
  return g->check();
}

struct campaign {
  std::uint64_t states = 0, bad = 0, as_after = 0;
  std::string first_bad;
  std::map<std::string, std::uint64_t> syncs;
};

campaign crash_everywhere(std::uint64_t seed, unsigned steps, unsigned states_of_sync, const char* loses = nullptr) {
  campaign c;
  sectors device;
  heap_settings s = small_settings();
  file_ground g{96, s, device};
  device.watch(g.base(), g.bytes());
  device.loses = loses;
  ground<leaves> found{96, s};
  file_player p{g, seed};
  p.object_max = 200;
  p.objects_max = 30;
  std::mt19937_64 random{seed * 7919};
  device.before_sync = [&](edge e) {
    ++c.syncs[e.name];
    device.write_some(random, 30);
    for (unsigned i = 0; i < states_of_sync; ++i) {
      static constexpr unsigned shares[] = {0, 10, 50, 90, 100};
      device.crash_into(found.base(), random, shares[i % std::size(shares)]);
      ++c.states;
      std::string wrong;
      if (!found.crash_and_open()) {
        wrong = last_message();
      } else if (!found.report().damaged.empty()) {
        wrong = "intact blocks are missing";
      } else if (wrong = differs(found, p.model()); !wrong.empty() && p.committing() != nullptr) {
        wrong = differs(found, *p.committing());
        c.as_after += wrong.empty() ? 1 : 0;
      }
      if (wrong.empty()) continue;
      if (++c.bad == 1) c.first_bad = std::string{e.name} + ", state " + std::to_string(c.states) + ": " + wrong;
    }
  };
  for (unsigned i = 0; i < steps; ++i) {
    p.step();
    if (random() % 4 == 0) device.write_some(random, 20);
    if (i % 10 == 9) g->clean(4, true);
    if (i % 40 == 39) {
      EXPECT_TRUE(g.close_and_open()) << last_message();
    }
    if (::testing::Test::HasFatalFailure()) break;
  }
  device.before_sync = nullptr;
  p.compare();
  return c;
}

TEST(log_heap_sectors, of_any_sync_may_be_lost_but_for_what_was_acknowledged) {
  std::uint64_t states = 0, as_after = 0;
  std::map<std::string, std::uint64_t> syncs;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const campaign c = crash_everywhere(seed, 160, 10);
    EXPECT_EQ(c.bad, 0U) << "seed " << seed << ": " << c.first_bad;
    states += c.states;
    as_after += c.as_after;
    for (const auto& [name, n] : c.syncs) syncs[name] += n;
  }
  EXPECT_GT(states, 5000U);
  EXPECT_GT(as_after, 0U) << "transactions that a crash in their commit has kept";
  for (const char* e :
       {"logheap/E1", "logheap/E2", "logheap/E3", "logheap/E5", "logheap/E6", "logheap/E7", "logheap/E8", "logheap/E9"})
    EXPECT_GT(syncs[e], 0U) << e;
}

// The tester finds a sync that does nothing.
TEST(log_heap_sectors, show_a_sync_that_was_needed) {
  for (const char* e : {"logheap/E1", "logheap/E2", "logheap/E3"}) {
    std::uint64_t bad = 0;
    for (std::uint64_t seed = 1; seed <= 10 && bad == 0; ++seed) bad = crash_everywhere(seed, 120, 10, e).bad;
    EXPECT_GT(bad, 0U) << e;
  }
}

}  // namespace
}  // namespace nvm::logheap
