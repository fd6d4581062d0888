// The catalogue: a store has a name or is dying after any creation, drop or rename; numbers are used once; and each
// changed word reaches the engine's transaction once, at the end.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "../random_seed.hpp"
#include "buffer_memory.hpp"

namespace nvm::tests {
namespace {

using namespace stores;

struct expected_catalogue {
  std::map<std::string, std::uint64_t> names;
  std::set<std::uint64_t> dying;
  std::uint64_t next_number = 1;
};

template <class M>
void must_be(M& m, const catalogue_place& c, const expected_catalogue& expected) {
  std::map<std::string, std::uint64_t> names;
  trie_check how;
  how.tell = [](std::uint64_t place, const char* fault) { ADD_FAILURE() << fault << " at " << place; };
  how.name = [&](std::string_view name, std::uint64_t page) { names.emplace(name, page); };
  const auto sum = check_catalogue(m, c.place, how);
  ASSERT_TRUE(sum) << last_message();
  EXPECT_EQ(names, expected.names);
  EXPECT_EQ(std::set(sum->dying.begin(), sum->dying.end()), expected.dying);
  EXPECT_EQ(sum->next_number, expected.next_number);
  const auto count = count_names(m, c);
  ASSERT_TRUE(count);
  EXPECT_EQ(*count, expected.names.size());
}

TEST(catalogue, gives_each_number_once) {
  buffer_memory m{1 << 16};
  const auto c = make_catalogue(m, 35);
  ASSERT_TRUE(c);
  for (std::uint32_t n = 1; n < 5; ++n) {
    const auto number = take_number(m, *c);
    ASSERT_TRUE(number);
    EXPECT_EQ(*number, n);
  }
  ASSERT_TRUE(put_word(m, c->number_at(), UINT32_MAX));
  EXPECT_EQ(*take_number(m, *c), UINT32_MAX);
  EXPECT_EQ(take_number(m, *c).error(), errc::too_large);
}

TEST(catalogue, refuses_what_is_none) {
  buffer_memory m{1 << 16};
  EXPECT_EQ(make_catalogue(m, 1).error(), errc::invalid);
  EXPECT_EQ(make_catalogue(m, 256).error(), errc::invalid);
  const auto c = make_catalogue(m, 7);
  ASSERT_TRUE(c);
  const auto read = read_catalogue(m, c->place);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->burst_names, 7U);
  for (const std::uint64_t place : {c->place + 8, c->place + 16, std::uint64_t{1 << 20}}) {
    EXPECT_EQ(read_catalogue(m, place).error(), errc::corrupt) << place;
  }
  for (std::uint64_t bit = 0; bit < 8 * offsetof(layout::catalogue, root); ++bit) {
    buffer_memory hurt = m;
    hurt.bytes()[c->place + bit / 8] ^= std::byte(1U << bit % 8);
    EXPECT_EQ(read_catalogue(hurt, c->place).error(), errc::corrupt) << bit;
  }
  // A later version, whole.
  layout::catalogue later;
  std::memcpy(&later, m.bytes().data() + c->place, sizeof later);
  ++later.version;
  later.check = catalogue_check(later, c->place);
  m.fill(c->place, &later, sizeof later);
  EXPECT_EQ(read_catalogue(m, c->place).error(), errc::version);
}

TEST(catalogue, has_no_place_for_more_dying_stores_than_it_says) {
  buffer_memory m{1 << 16};
  const auto c = make_catalogue(m, 35);
  ASSERT_TRUE(c);
  expected_catalogue expected;
  for (unsigned i = 0; i < dying_stores_max + 1; ++i) {
    ASSERT_TRUE(enter_name(m, *c, std::to_string(i), 4096 * (i + 1)));
    expected.names[std::to_string(i)] = 4096 * (i + 1);
  }
  for (unsigned i = 0; i < dying_stores_max; ++i) {
    const auto page = drop_name(m, *c, std::to_string(i));
    ASSERT_TRUE(page) << last_message();
    expected.names.erase(std::to_string(i));
    expected.dying.insert(*page);
  }
  must_be(m, *c, expected);
  buffer_memory tried = m;
  EXPECT_EQ(drop_name(tried, *c, std::to_string(dying_stores_max)).error(), errc::busy);
  ASSERT_TRUE(end_dying(m, *c, 4096 * 5));
  EXPECT_EQ(end_dying(m, *c, 4096 * 5).error(), errc::not_found);
  expected.dying.erase(4096 * 5);
  must_be(m, *c, expected);
  EXPECT_TRUE(drop_name(m, *c, std::to_string(dying_stores_max)));
}

// An engine's transaction as names_transaction sees it: stores words when it is told to, and counts them.
struct told_transaction {
  buffer_memory& m;
  std::uint64_t words = 0;
  unsigned calls = 0;
  result<std::uint64_t> allocate(std::uint32_t type, std::uint64_t bytes) noexcept { return m.allocate(type, bytes); }
  status release(std::uint64_t place) noexcept { return m.give_back(place, m.objects().at(place).bytes); }
  status assign_all(std::span<const tx::assigned_bytes> all) noexcept {
    ++calls;
    words += all.size();
    for (const auto& w : all) std::memcpy(m.bytes().data() + w.offset, &w.value, w.bytes);
    return {};
  }
};

TEST(catalogue, holds_what_was_made_dropped_and_renamed) {
  const std::uint64_t seed = seed_from_environment();
  std::mt19937_64 random{seed};
  SCOPED_TRACE("seed " + std::to_string(seed));
  buffer_memory m{8 << 20};
  const auto c = make_catalogue(m, 4);
  ASSERT_TRUE(c);
  expected_catalogue expected;
  for (unsigned i = 0; i < 2000; ++i) {
    told_transaction t{m};
    const pool_bytes place{m.bytes().data(), 0, m.bytes().size()};
    names_transaction names{t, place};
    const std::string name = "s" + std::to_string(random() % 60);
    const std::string other = "s" + std::to_string(random() % 60);
    const bool is_there = expected.names.contains(name);
    switch (random() % 4) {
      case 0:
      case 1: {
        if (is_there) continue;
        const auto number = take_number(names, *c);
        ASSERT_TRUE(number);
        ASSERT_TRUE(enter_name(names, *c, name, *number * 4096UL)) << last_message();
        expected.names[name] = *number * 4096UL;
        ++expected.next_number;
        break;
      }
      case 2: {
        if (!is_there) continue;
        const auto page = drop_name(names, *c, name);
        ASSERT_TRUE(page) << last_message();
        expected.names.erase(name);
        expected.dying.insert(*page);
        break;
      }
      default: {
        if (!is_there) continue;
        const auto replaced = move_name(names, *c, name, other);
        ASSERT_TRUE(replaced) << last_message();
        if (name == other) break;
        EXPECT_EQ(*replaced, expected.names.contains(other) ? expected.names[other] : 0);
        if (*replaced != 0) expected.dying.insert(*replaced);
        expected.names[other] = expected.names[name];
        expected.names.erase(name);
      }
    }
    // The transaction reads what it has changed; nobody else does before it is finished.
    must_be(names, *c, expected);
    ASSERT_TRUE(names.finish()) << last_message();
    EXPECT_LE(t.calls, 1U);
    names_reader reader{place};
    must_be(reader, *c, expected);
    if (expected.dying.size() > 20) {
      for (const std::uint64_t page : expected.dying) ASSERT_TRUE(end_dying(m, *c, page));
      expected.dying.clear();
    }
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(expected.next_number, 100U);
}

TEST(catalogue, its_check_finds_a_store_with_two_names_and_one_that_dies_with_one) {
  buffer_memory m{1 << 16};
  const auto c = make_catalogue(m, 35);
  ASSERT_TRUE(c);
  ASSERT_TRUE(enter_name(m, *c, "a", 4096));
  const auto faults = [](buffer_memory& in, std::uint64_t place) {
    std::vector<std::string> told;
    trie_check how;
    how.tell = [&](std::uint64_t, const char* fault) { told.emplace_back(fault); };
    EXPECT_TRUE(check_catalogue(in, place, how));
    return told;
  };
  EXPECT_TRUE(faults(m, c->place).empty());
  {
    buffer_memory twice = m;
    ASSERT_TRUE(enter_name(twice, *c, "b", 4096));
    EXPECT_EQ(faults(twice, c->place), std::vector<std::string>{"the store at offset 4096 is there twice"});
  }
  {
    buffer_memory dying = m;
    ASSERT_TRUE(begin_dying(dying, *c, 4096));
    EXPECT_EQ(faults(dying, c->place),
              std::vector<std::string>{"the store at offset 4096 has a name and is being dropped"});
  }
  {
    buffer_memory miscounted = m;
    ASSERT_TRUE(add_to_names(miscounted, *c, 1));
    EXPECT_EQ(faults(miscounted, c->place), std::vector<std::string>{"names: found 1 in the trie, expected 2"});
  }
}

}  // namespace
}  // namespace nvm::tests
