// The burst trie against an ordered map: whatever names come and go, both hold the same, in the same order; the nodes
// are whole, no object is lost, and a removal needs no room.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "../random_seed.hpp"
#include "buffer_memory.hpp"

namespace nvm::tests {
namespace {

using stores::check_trie;
using stores::trie_each;
using stores::trie_figures;
using stores::trie_find;
using stores::trie_insert;
using stores::trie_remove;
using stores::trie_replace;
using stores::trie_tidy;

constexpr std::uint64_t root = buffer_memory::root_at;
using model = std::map<std::string, std::uint64_t>;

// Everything that the trie holds, by its full check, which must find nothing; every object is one of its nodes.
trie_figures must_hold(buffer_memory& m, const model& expected, unsigned limit) {
  model found;
  std::map<std::uint64_t, buffer_memory::object> nodes;
  stores::trie_check how;
  how.limit = limit;
  how.tell = [](std::uint64_t place, const char* fault) { ADD_FAILURE() << fault << " at " << place; };
  how.meet = [&](std::uint64_t place, std::uint64_t bytes, std::uint32_t type) { nodes[place] = {bytes, type}; };
  how.name = [&](std::string_view name, std::uint64_t value) { found.emplace(name, value); };
  const auto sum = check_trie(m, root, how);
  EXPECT_TRUE(sum) << last_message();
  EXPECT_EQ(found, expected);
  EXPECT_EQ(nodes, m.objects());
  if (!sum) return {};
  EXPECT_EQ(sum->names, expected.size());
  return *sum;
}

std::optional<std::uint64_t> found(buffer_memory& m, std::string_view name) {
  const auto at = trie_find(m, root, name);
  EXPECT_TRUE(at) << last_message();
  return at ? *at : std::nullopt;
}
void insert(buffer_memory& m, model& names, const std::string& name, std::uint64_t value, unsigned limit) {
  ASSERT_TRUE(trie_insert(m, root, name, value, limit)) << last_message();
  names[name] = value;
}
void remove(buffer_memory& m, model& names, const std::string& name) {
  const std::uint64_t made = m.allocations;
  const auto had = trie_remove(m, root, name);
  ASSERT_TRUE(had) << last_message();
  EXPECT_EQ(*had, names.at(name));
  EXPECT_EQ(m.allocations, made) << "a removal needs room";
  names.erase(name);
}
std::vector<std::string> listed(buffer_memory& m, std::string_view prefix, std::string_view after = {},
                                std::size_t most = SIZE_MAX) {
  std::vector<std::string> all;
  const auto more = trie_each(m, root, prefix, after, [&](std::string_view name, std::uint64_t) {
    all.emplace_back(name);
    return all.size() < most;
  });
  EXPECT_TRUE(more) << last_message();
  return all;
}
std::vector<std::string> expected_list(const model& names, const std::string& prefix, const std::string& after = {}) {
  std::vector<std::string> all;
  for (const auto& [name, value] : names) {
    if (name.starts_with(prefix) && (after.empty() || name > after)) all.push_back(name);
  }
  return all;
}

TEST(burst_trie, finds_what_was_put_in_and_nothing_else) {
  buffer_memory m{1 << 16};
  model names;
  EXPECT_EQ(found(m, "a"), std::nullopt);
  for (const char* name : {"b", "a", "ab", "abc", "c"}) insert(m, names, name, names.size() * 10 + 7, 35);
  for (const auto& [name, value] : names) EXPECT_EQ(found(m, name), value) << name;
  for (const char* name : {"", "abcd", "ac", "d", "bb"}) EXPECT_EQ(found(m, name), std::nullopt) << name;
  const auto sum = must_hold(m, names, 35);
  EXPECT_EQ(sum.containers, 1U);
  EXPECT_EQ(sum.inner_nodes, 0U);
}

TEST(burst_trie, refuses_a_name_twice_and_the_removal_of_none) {
  buffer_memory m{1 << 20};
  model names;
  for (unsigned i = 0; i < 60; ++i) insert(m, names, "store/" + std::to_string(i), i, 35);
  insert(m, names, "store/", 60, 35);
  const auto before = m.bytes();
  for (const auto& [name, value] : names) {
    EXPECT_EQ(trie_insert(m, root, name, 1, 35).error(), errc::exists) << name;
  }
  for (const char* none : {"s", "store", "store/x", "store/600", "zzz", "store/1x"}) {
    EXPECT_EQ(trie_remove(m, root, none).error(), errc::not_found) << none;
    EXPECT_EQ(trie_replace(m, root, none, 1).error(), errc::not_found) << none;
  }
  EXPECT_EQ(m.bytes(), before);
  must_hold(m, names, 35);
}

TEST(burst_trie, bursts_at_its_limit_and_not_before) {
  for (const unsigned limit : {2U, 3U, 35U, 255U}) {
    buffer_memory m{1 << 20};
    model names;
    for (unsigned i = 0; i < limit; ++i) insert(m, names, std::string(1, static_cast<char>(1 + i)), i, limit);
    EXPECT_EQ(must_hold(m, names, limit).inner_nodes, 0U) << limit;
    insert(m, names, "xy", limit, limit);
    EXPECT_EQ(must_hold(m, names, limit).inner_nodes, 1U) << limit;
  }
}

TEST(burst_trie, takes_a_long_common_way_in_one_node_and_parts_it_anywhere) {
  const std::string way(200, 'w');
  for (const std::size_t cut : {0U, 1U, 57U, 199U, 200U}) {
    buffer_memory m{1 << 20};
    model names;
    for (unsigned i = 0; i < 6; ++i) insert(m, names, way + "/" + std::to_string(i), i, 4);
    EXPECT_EQ(must_hold(m, names, 4).inner_nodes, 1U);
    insert(m, names, way.substr(0, cut) + "x", 100, 4);
    if (cut != 0) insert(m, names, way.substr(0, cut), 101, 4);
    EXPECT_LE(must_hold(m, names, 4).inner_nodes, 3U) << cut;
    for (const auto& [name, value] : names) EXPECT_EQ(found(m, name), value);
  }
}

TEST(burst_trie, holds_the_longest_names_and_all_bytes_but_zero) {
  buffer_memory m{4 << 20};
  model names;
  std::mt19937_64 random{seed_from_environment()};
  for (unsigned i = 0; i < 500; ++i) {
    std::string name(255, '\0');
    for (char& c : name) c = static_cast<char>(1 + random() % 255);
    if (i % 3 == 0) name = std::string(250, '\xFF') + name.substr(250);
    if (!names.contains(name)) insert(m, names, name, i, 35);
  }
  must_hold(m, names, 35);
  // Their containers burst by bytes, not by names.
  EXPECT_GT(names.size(), 400U);
  for (const auto& [name, value] : names) EXPECT_EQ(found(m, name), value);
  EXPECT_EQ(listed(m, ""), expected_list(names, ""));
  while (!names.empty()) remove(m, names, names.begin()->first);
  EXPECT_TRUE(m.objects().empty());
}

TEST(burst_trie, lists_by_prefix_in_order_and_goes_on_after_any_name) {
  buffer_memory m{4 << 20};
  model names;
  for (unsigned i = 0; i < 400; ++i) {
    insert(m, names, "tenant/" + std::to_string(i * 37 % 400), i, 5);
    insert(m, names, "device-" + std::to_string(i * 91 % 400) + "/log", i, 5);
  }
  insert(m, names, "tenant/", 1, 5);
  insert(m, names, "t", 1, 5);
  for (const char* prefix :
       {"", "t", "tenant/", "tenant/1", "tenant/39", "device-7/log", "device-7/log/", "zz", "\1"}) {
    EXPECT_EQ(listed(m, prefix), expected_list(names, prefix)) << prefix;
    for (const char* after : {"a", "device-", "tenant/", "tenant/2", "tenant/399", "tenant/40", "z"}) {
      EXPECT_EQ(listed(m, prefix, after), expected_list(names, prefix, after)) << prefix << " after " << after;
    }
  }
  // In parts, while names go that have been listed.
  std::vector<std::string> all;
  const auto whole = expected_list(names, "tenant/");
  for (std::string after;;) {
    const auto part = listed(m, "tenant/", after, 7);
    if (part.empty()) break;
    all.insert(all.end(), part.begin(), part.end());
    after = part.back();
    remove(m, names, after);
  }
  EXPECT_EQ(all, whole);
}

TEST(burst_trie, is_empty_after_everything_went) {
  buffer_memory m{4 << 20};
  model names;
  for (unsigned i = 0; i < 1000; ++i) insert(m, names, "n" + std::to_string(i * 7919 % 1000), i, 35);
  EXPECT_GE(must_hold(m, names, 35).inner_nodes, 10U);
  while (!names.empty()) {
    remove(m, names, std::next(names.begin(), static_cast<std::ptrdiff_t>(names.size() / 2))->first);
    if (names.size() % 100 == 0) must_hold(m, names, 35);
  }
  EXPECT_TRUE(m.objects().empty());
  std::uint64_t link = 1;
  std::memcpy(&link, m.bytes().data() + root, sizeof link);
  EXPECT_EQ(link, 0U);
}

TEST(burst_trie, becomes_small_again_when_it_is_tidied) {
  buffer_memory m{4 << 20};
  model names;
  for (unsigned i = 0; i < 2000; ++i) insert(m, names, "a/long/common/way/" + std::to_string(i), i, 35);
  const auto large = must_hold(m, names, 35);
  while (names.size() > 12) {
    const std::string gone = std::next(names.begin(), static_cast<std::ptrdiff_t>(names.size() / 3))->first;
    remove(m, names, gone);
    ASSERT_TRUE(trie_tidy(m, root, gone, 35)) << last_message();
  }
  const auto small = must_hold(m, names, 35);
  EXPECT_EQ(small.inner_nodes, 0U);
  EXPECT_EQ(small.containers, 1U);
  EXPECT_GT(large.containers, 50U);
}

TEST(burst_trie, a_replaced_value_is_found_and_needs_no_room) {
  buffer_memory m{1 << 20};
  model names;
  for (unsigned i = 0; i < 100; ++i) insert(m, names, "n" + std::to_string(i), i, 9);
  insert(m, names, "n", 100, 9);
  m.fail_after(0);
  for (auto& [name, value] : names) {
    const auto had = trie_replace(m, root, name, value + 1000);
    ASSERT_TRUE(had) << last_message();
    EXPECT_EQ(*had, value);
    value += 1000;
  }
  must_hold(m, names, 9);
}

// Names that begin alike, so that nodes are split, joined, and end inside of each other.
std::string some_name(std::mt19937_64& random) {
  static const char* const parts[] = {"a", "b", "/", "ab", "robot", "\xFF", "\x01", "tenant-", "0", "1"};
  std::string name;
  for (std::uint64_t n = 1 + random() % 6; n > 0; --n) name += parts[random() % std::size(parts)];
  if (random() % 20 == 0) name.append(random() % 200, 'x');
  name.resize(std::min<std::size_t>(name.size(), 255));
  return name;
}

TEST(burst_trie, holds_what_a_map_holds_whatever_comes_and_goes) {
  const std::uint64_t seed = seed_from_environment();
  for (std::uint64_t k = 0; k < 12; ++k) {
    std::mt19937_64 random{seed * 100 + k};
    const unsigned limit = k % 3 == 0 ? 35 : 2 + static_cast<unsigned>(random() % 12);
    buffer_memory m{16 << 20};
    model names;
    SCOPED_TRACE("seed " + std::to_string(seed * 100 + k) + ", limit " + std::to_string(limit));
    for (unsigned i = 0; i < 3000; ++i) {
      const std::string name = some_name(random);
      const bool grows = (i / 600) % 2 == 0;
      if (names.contains(name)) {
        if (random() % 4 == 0) {
          ASSERT_TRUE(trie_replace(m, root, name, i)) << last_message();
          names[name] = i;
        } else if (!grows || random() % 2 == 0) {
          remove(m, names, name);
          if (random() % 2 == 0) {
            ASSERT_TRUE(trie_tidy(m, root, name, limit)) << last_message();
          }
        }
      } else if (grows || random() % 3 == 0) {
        insert(m, names, name, i, limit);
      } else if (!names.empty()) {
        auto at = names.lower_bound(name);
        if (at == names.end()) at = names.begin();
        remove(m, names, std::string{at->first});
      }
      if (i % 200 == 0) must_hold(m, names, limit);
      const auto at = names.find(name);
      EXPECT_EQ(found(m, name), at == names.end() ? std::nullopt : std::optional{at->second});
    }
    must_hold(m, names, limit);
    const std::string after = some_name(random);
    EXPECT_EQ(listed(m, ""), expected_list(names, ""));
    EXPECT_EQ(listed(m, "a", after), expected_list(names, "a", after));
    if (testing::Test::HasFailure()) return;
  }
}

// A change that finds no room is told so, and reads as it was once its transaction is rolled back.
TEST(burst_trie, tells_that_there_is_no_room) {
  model names;
  buffer_memory m{4 << 20};
  std::mt19937_64 random{7};
  while (names.size() < 300) {
    const std::string name = some_name(random);
    if (!names.contains(name)) insert(m, names, name, names.size(), 3);
  }
  unsigned refused = 0;
  for (unsigned i = 0; i < 200; ++i) {
    const std::string name = some_name(random);
    if (names.contains(name)) continue;
    for (int left = 0;; ++left) {
      buffer_memory tried = m;
      tried.fail_after(left);
      const status s = trie_insert(tried, root, name, 1, 3);
      if (s) break;
      EXPECT_EQ(s.error(), errc::no_space);
      ++refused;
    }
  }
  EXPECT_GT(refused, 100U);
  must_hold(m, names, 3);
}

// Each bit of a trie: what is read is what was put in, or a fault is told; nothing else.
TEST(burst_trie, a_flipped_bit_is_told_by_look_ups_or_changes_no_answer) {
  buffer_memory m{1 << 16};
  model names;
  for (unsigned i = 0; i < 30; ++i) insert(m, names, "way/to/" + std::to_string(i * i), i + 1, 5);
  insert(m, names, "way", 99, 5);
  insert(m, names, "way/to/", 98, 5);
  std::uint64_t told = 0;
  for (std::uint64_t bit = root * 8; bit < m.used() * 8; ++bit) {
    if (bit >= (root + 8) * 8 && bit < 64 * 8) continue;
    buffer_memory hurt = m;
    hurt.bytes()[bit / 8] ^= std::byte(1U << bit % 8);
    for (const auto& [name, value] : names) {
      const auto at = trie_find(hurt, root, name);
      if (!at) {
        ++told;
        EXPECT_EQ(at.error(), errc::corrupt);
      } else {
        EXPECT_EQ(*at, value) << "bit " << bit << ", " << name;
      }
    }
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(told, 10000U);
}

TEST(burst_trie, a_node_that_lies_elsewhere_is_told) {
  buffer_memory m{1 << 16};
  model names;
  for (unsigned i = 0; i < 40; ++i) insert(m, names, std::to_string(i), i, 35);
  // A copy of a container, where the link of another node leads.
  const auto first = m.objects().begin();
  buffer_memory moved = m;
  const auto place = moved.allocate(layout::names_type_container, first->second.bytes);
  ASSERT_TRUE(place);
  moved.fill(*place, m.bytes().data() + first->first, first->second.bytes);
  ASSERT_TRUE(stores::put_link(moved, root, {stores::trie_kind::container, *place}));
  EXPECT_EQ(trie_find(moved, root, "1").error(), errc::corrupt);
}

TEST(burst_trie, cycles_and_shared_nodes_are_followed_no_further_than_a_name_is_long) {
  buffer_memory m{1 << 16};
  model names;
  for (unsigned i = 0; i < 8; ++i) insert(m, names, "aaa" + std::to_string(i), i, 4);
  // The link of one of the node's bytes leads to the node itself.
  const auto to = stores::read_link(m, root);
  ASSERT_TRUE(to && to->kind == stores::trie_kind::inner);
  alignas(8) std::byte room[stores::inner_node::room_bytes];
  const auto n = stores::read_inner(m, to->place, room);
  ASSERT_TRUE(n);
  ASSERT_TRUE(stores::put_link(m, n->word_at(2), *to));
  std::string name;
  while (name.size() < 250) name += "aaa2";
  EXPECT_EQ(found(m, name), std::nullopt);
  const auto walked = trie_each(m, root, "", "", [](std::string_view, std::uint64_t) { return true; });
  EXPECT_EQ(walked.error(), errc::corrupt);
  unsigned faults = 0;
  stores::trie_check how;
  how.tell = [&](std::uint64_t, const char*) { ++faults; };
  ASSERT_TRUE(check_trie(m, root, how));
  EXPECT_GT(faults, 0U);
}

// Names of four kinds: numbers, random letters, paths, random hexadecimal.
std::string name_of_kind(unsigned kind, unsigned i, std::mt19937_64& random) {
  static const std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";
  if (kind == 0) return "tenant-" + std::to_string(10'000'000 + i);
  if (kind == 2) return "/srv/robots/" + std::to_string(random() % 997) + "/joint/" + std::to_string(i);
  std::string name;
  for (unsigned k = 0; k < (kind == 1 ? 16 : 24); ++k) name += letters[random() % (kind == 1 ? 64 : 16)];
  return name;
}

// NVM_NAMES=1000000: so many; the time of a look-up is printed, in random order.
TEST(burst_trie, a_name_costs_at_most_forty_bytes_beyond_its_text) {
  const char* const wanted = std::getenv("NVM_NAMES");
  const auto count = wanted == nullptr ? 50'000U : static_cast<unsigned>(std::strtoul(wanted, nullptr, 10));
  std::mt19937_64 random{3};
  for (unsigned kind = 0; kind < 4; ++kind) {
    buffer_memory m{(std::uint64_t{count} + 100'000) * 80};
    std::vector<std::string> names;
    for (unsigned i = 0; i < count; ++i) {
      names.push_back(name_of_kind(kind, i, random));
      ASSERT_TRUE(trie_insert(m, root, names.back(), i, 35)) << last_message();
    }
    std::shuffle(names.begin(), names.end(), random);
    const auto start = std::chrono::steady_clock::now();
    for (const std::string& name : names) ASSERT_TRUE(found(m, name)) << name;
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    const auto sum = check_trie(m, root, {});
    ASSERT_TRUE(sum);
    const std::uint64_t spent = sum->node_bytes + 16 * (sum->inner_nodes + sum->containers);  // with objects' headers
    EXPECT_EQ(sum->names, count);
    const double each = static_cast<double>(spent) / count;
    const double beyond = each - static_cast<double>(sum->name_bytes) / count;
    EXPECT_LE(beyond, 40.0) << "kind " << kind;
    std::printf("kind %u: %u names, %.1f bytes each, %.1f beyond their text, %.0f ns a look-up\n", kind, count, each,
                beyond, took.count() / count);
  }
}

}  // namespace
}  // namespace nvm::tests
