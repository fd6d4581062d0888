// Damage of partners: it is found and named, and costs at most one region, or none if a partner can mend it.
#include <algorithm>
#include <string>

#include "care/regions.hpp"
#include "ground.hpp"

namespace nvm::region::testing {
namespace {

constexpr std::uint64_t victim = 0x1122'3344'5566'7788;
constexpr std::uint64_t size = 300;

struct damage {
  const char* name;
  mode how;
  std::vector<unsigned> bits;  // of the line, and of the bytes after it
  bool of_home;                // and a bit of the region's place
  unsigned findings;
  bool lost;
};
void PrintTo(const damage& d, std::ostream* to) { *to << d.name; }
constexpr unsigned byte(unsigned at) { return 8 * at + 3; }
const damage all_damage[] = {
    {"replica_of_another_number", mode::replica, {byte(2)}, false, 1, false},
    {"replica_of_another_header", mode::replica, {byte(9)}, false, 1, false},
    {"replica_of_no_kind", mode::replica, {8 * 14 + 5}, false, 1, false},
    {"sum_of_region", mode::replica, {byte(17)}, false, 0, false},
    {"sum_of_replica", mode::replica, {byte(27)}, false, 0, false},
    {"bytes_of_replica", mode::replica, {byte(70)}, false, 0, false},
    {"bytes_of_region", mode::replica, {}, true, 0, false},
    {"bytes_of_both", mode::replica, {byte(70)}, true, 2, true},
    {"owner_and_region", mode::replica, {byte(9)}, true, 2, true},
    {"copies_of_another_number", mode::alternate, {byte(2)}, false, 2, true},
    {"copies_of_another_header", mode::alternate, {byte(9)}, false, 2, true},
    {"sum_of_newer_copy", mode::alternate, {byte(25)}, false, 2, true},
    {"sequence_of_newer_copy", mode::alternate, {byte(41)}, false, 2, true},
    {"bytes_of_newer_copy", mode::alternate, {byte(90)}, false, 2, true},
    {"bytes_of_older_copy", mode::alternate, {}, true, 0, false},
};

class partner_damage : public ::testing::TestWithParam<damage> {
 protected:
  void write(std::uint64_t rid, std::uint64_t bytes, mode how) {
    const auto b = pattern(rid, bytes);
    ASSERT_TRUE(change_alone(pool.all(), *set, *t, rid, how, true, [&](auto& tx) { return tx.write(rid, 0, b); }));
  }
  void flip(std::uint64_t at, unsigned bit) { pool.base()[at + bit / 8] ^= std::byte(1U << bit % 8); }
  std::vector<std::string> told(bool mends) {
    std::vector<std::string> all;
    const auto tell = [&](std::uint64_t, const char* what) { all.emplace_back(what); };
    // A check looks at a copy.
    std::vector<std::byte> kept(pool.base(), pool.base() + pool.sizes().capacity_bytes());
    EXPECT_TRUE(mends ? care::mend_regions(pool.base(), pool.sizes(), tell)
                      : care::check_regions(pool.base(), pool.sizes(), tell))
        << last_message();
    if (!mends) std::copy(kept.begin(), kept.end(), pool.base());
    return all;
  }

  ground<direct_media> pool{pool_geometry(256, 256), settings(), isa::best_write_back()};
  set_state<direct_media>* set = &pool.make("subject");
  thread_state<direct_media>* t = &pool.join();
};

TEST_P(partner_damage, is_found_and_costs_one_region_at_most) {
  const damage& d = GetParam();
  for (const std::uint64_t rid : {victim, std::uint64_t{1}, std::uint64_t{2}}) {
    ASSERT_TRUE(
        change_alone(pool.all(), *set, *t, rid, d.how, false, [&](auto& tx) { return tx.create(rid, size, 0); }));
    write(rid, size, mode::adaptive);
    for (unsigned i = 0; i < 3; ++i) write(rid, size, d.how);
  }
  entry& e = *set->regions.find(victim);
  ASSERT_NE(e.partner, 0U);
  const std::uint64_t line = set->partners_of.at(e.partner).offset;
  const std::uint64_t home = e.home();
  pool.all().come_to_rest();
  EXPECT_EQ(told(false), std::vector<std::string>{});
  for (const unsigned bit : d.bits) flip(line, bit);
  if (d.of_home) flip(home, 77);

  const auto found = told(false);
  EXPECT_EQ(found.size(), d.findings);
  const auto number = "region " + std::to_string(victim);
  if (d.lost) {
    EXPECT_TRUE(std::any_of(found.begin(), found.end(), [&](auto& f) { return f.find(number) != f.npos; }));
  }
  EXPECT_EQ(told(true).size(), d.findings);
  EXPECT_TRUE(told(false).empty());

  pool.crash_and_open();
  set = &pool.make("subject");
  t = &pool.join();
  for (const std::uint64_t rid : {victim, std::uint64_t{1}, std::uint64_t{2}}) {
    std::vector<std::byte> seen(size);
    const auto n = read(pool.all(), *set, *t, rid, 0, seen);
    if (d.lost && rid == victim) {
      EXPECT_EQ(n.error(), errc::not_found);
      continue;
    }
    ASSERT_TRUE(n) << last_message();
    EXPECT_TRUE(seen == pattern(rid, size)) << rid;
    write(rid, size - 10, d.how);
  }
}
INSTANTIATE_TEST_SUITE_P(bits, partner_damage, ::testing::ValuesIn(all_damage),
                         [](const auto& i) { return std::string{i.param.name}; });

// As whoever knows the key could write it: a region that lies after its header, in a slot that is a header alone.
TEST(region_headers, say_of_no_region_that_it_is_inside_of_a_slot_without_room) {
  ground<direct_media> pool{pool_geometry(256, 256), settings(), isa::best_write_back()};
  auto* set = &pool.make("subject");
  auto* t = &pool.join();
  ASSERT_TRUE(change_alone(pool.all(), *set, *t, victim, mode::adaptive, false,
                           [&](auto& tx) { return tx.create(victim, 5000, 0); }));
  const entry& e = *set->regions.find(victim);
  ASSERT_EQ(e.in_class, 0U);
  const std::uint64_t at = e.header;
  const std::uint64_t key = pool.all().key();
  pool.all().come_to_rest();
  layout::facts f;
  ASSERT_EQ(header_fault(pool.base(), at, 0, key, f), nullptr);
  f.where = layout::state::inside;
  f.written = 0;
  const layout::header made = sealed(f, at, key);
  std::memcpy(pool.base() + at, &made, sizeof made);
  EXPECT_NE(header_fault(pool.base(), at, 0, key, f), nullptr);
  std::vector<std::string> all;
  const auto tell = [&](std::uint64_t, const char* what) { all.emplace_back(what); };
  EXPECT_TRUE(care::check_regions(pool.base(), pool.sizes(), tell)) << last_message();
  ASSERT_FALSE(all.empty());
  EXPECT_NE(all.front().find("a slot without room"), std::string::npos) << all.front();
}

}  // namespace
}  // namespace nvm::region::testing
