// The sector model judges a physical journal on a block device: right as it is, wrong without any of its syncs.
//
//   W device write, | sync.  Failure atomicity: a sector.
//   1. W payload sectors                 | journal/E1  payload before the commit sector
//   2. W commit sector                   | journal/E2  commit point
//   3. W home sectors                    | journal/E3  home before the journal lets go
//   4. W commit sector, empty            | journal/E4  before the payload is overwritten
//   Recovery: if the commit sector is full, 3 (journal/R1) and 4 (journal/R2) again.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>

#include "explore/explore.hpp"

namespace nvm::explore {
namespace {

constexpr std::uint64_t homes = 6;
constexpr std::uint64_t per_tx = 3;
constexpr std::uint64_t commit_at = 0;
constexpr std::uint64_t payload_at = 512;
constexpr std::uint64_t homes_at = payload_at + per_tx * 512;
constexpr std::uint64_t file_bytes = homes_at + homes * 512;

struct commit_sector {
  std::uint64_t full;
  std::uint64_t home[per_tx];
  std::byte rest[512 - 8 - 8 * per_tx];
};
using sector = std::array<std::byte, 512>;

status bring_home(block_device& d, const commit_sector& c, const char* home_edge, const char* clear_edge) {
  for (std::uint64_t i = 0; i < per_tx; ++i) {
    sector s;
    if (auto r = d.read(payload_at + i * 512, s.data(), 512); !r) return r;
    if (auto r = d.write(homes_at + c.home[i] * 512, s.data(), 512); !r) return r;
  }
  if (auto r = d.sync(edge{home_edge}); !r) return r;
  const commit_sector empty{};
  if (auto r = d.write(commit_at, &empty, 512); !r) return r;
  return d.sync(edge{clear_edge});
}

status update(block_device& d, const std::array<std::uint64_t, per_tx>& which, std::uint64_t version) {
  for (std::uint64_t i = 0; i < per_tx; ++i) {
    sector s;
    s.fill(std::byte(version));
    std::memcpy(s.data(), &version, 8);
    if (auto r = d.write(payload_at + i * 512, s.data(), 512); !r) return r;
  }
  if (auto r = d.sync(edge{"journal/E1"}); !r) return r;
  commit_sector c{};
  c.full = 1;
  std::copy(which.begin(), which.end(), c.home);
  if (auto r = d.write(commit_at, &c, 512); !r) return r;
  if (auto r = d.sync(edge{"journal/E2"}); !r) return r;
  return bring_home(d, c, "journal/E3", "journal/E4");
}

status recover(block_device& d) {
  commit_sector c{};
  if (auto r = d.read(commit_at, &c, 512); !r) return r;
  if (c.full == 0) return {};
  for (const std::uint64_t h : c.home) {
    if (h >= homes) return fail(errc::corrupt, "home %lu", static_cast<unsigned long>(h));
  }
  return bring_home(d, c, "journal/R1", "journal/R2");
}

std::uint64_t digest_of(const std::byte* file) {
  std::uint64_t d = 0;
  for (std::uint64_t i = 0; i < homes * 64; ++i) {
    std::uint64_t w;
    std::memcpy(&w, file + homes_at + i * 8, 8);
    d += word_hash(i, w);
  }
  return d;
}

subject journal(std::vector<std::byte> start = std::vector<std::byte>(file_bytes)) {
  auto history = std::make_shared<digest_history>();
  subject s;
  s.name = "sector journal";
  s.image = std::move(start);
  s.run = [=](machine& m) {
    device d{m};
    if (!recover(d)) throw std::logic_error("recovery failed");
    history->clear();
    history->state(digest_of(m.base()));
    for (std::uint64_t version = 1; version <= 40; ++version) {
      m.op_begin();
      if (!update(d, {version % homes, (version + 1) % homes, (version + 3) % homes}, version)) std::abort();
      m.op_end();
      history->state(digest_of(m.base()));
    }
  };
  s.recover = [](machine& m) -> verdict {
    device d{m};
    return recover(d) ? pass() : fault(last_message());
  };
  s.oracle = [=](machine& m, const window& w) { return history->check(digest_of(m.base()), w); };
  return s;
}

options sectors() {
  options o;
  o.persistency = model::ssd;
  o.nesting = 2;
  return o;
}

TEST(sector_journal, survives_every_explored_power_cut) {
  const report r = explore(journal(), sectors());
  EXPECT_TRUE(r.clean()) << r.text();
  EXPECT_GT(r.unique_states, 100U) << r.text();
}

TEST(sector_journal, needs_each_of_its_syncs_and_writes) {
  std::vector<subject> subjects{journal()};
  // A journal that is full, for what recovery's last sync is there for.
  std::vector<std::byte> crashed;
  options o = sectors();
  o.on_image = [&](const machine& m, const window& w) {
    if (w.started == 3 && m.base()[commit_at] == std::byte{1} && crashed.empty()) {
      crashed.assign(m.base(), m.base() + m.size());
    }
  };
  (void)explore(subjects[0], o);
  ASSERT_FALSE(crashed.empty());
  subjects.push_back(journal(crashed));
  const mutation_report r = mutation_score(subjects, sectors());
  EXPECT_TRUE(r.clean());
  EXPECT_EQ(r.mutants.size(), 10U) << "six syncs, four writes";
  EXPECT_EQ(r.score(), 1.0) << r.text();
}

TEST(sector_journal, failure_names_the_sector_that_was_lost) {
  options o = sectors();
  o.print_violations = false;
  const report r = explore(journal(), o, without(edge{"journal/E1"}));
  ASSERT_FALSE(r.violations.empty());
  EXPECT_NE(r.violations[0].report.find("sector +0x"), std::string::npos) << r.violations[0].report;
  EXPECT_NE(r.violations[0].report.find("no sync between them"), std::string::npos) << r.violations[0].report;
}

}  // namespace
}  // namespace nvm::explore
