// Structures whose links are volatile survive a crash at any point, on each medium and under each model of it; each of
// their fences and write-backs is necessary.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <set>

#include "edge_survivors.hpp"
#include "lockfree_stories.hpp"
#include "story_cases.hpp"
#include "today.hpp"

namespace nvm::tests {
namespace {

using enum shape_of_structure;
using explore::explore;
using explore::model;
using explore::mutation_report;
using explore::options;
using explore::report;
using explore::subject;
using player = lockfree_player;

const lockfree_variant on_direct{.name = "volatile_links", .volatile_links = true};
const lockfree_variant on_image{.name = "volatile_links_on_ssd", .image = true, .volatile_links = true};

// The stories of all structures that mean something here.
const std::set<std::string_view> shared_stories{"the first structure",
                                                "a list lives",
                                                "a hash table lives",
                                                "a skip list lives",
                                                "levels come and go",
                                                "a list of bytes lives",
                                                "a hash table of bytes lives",
                                                "a skip list of bytes lives",
                                                "runs come and go",
                                                "one is dropped",
                                                "dropped again and again",
                                                "a table grows",
                                                "threads take turns",
                                                "threads end",
                                                "closed and opened",
                                                "it dies and goes on",
                                                "it dies after freeing",
                                                "a list is killed inserting",
                                                "a list is killed replacing",
                                                "a list is killed removing",
                                                "a hash table is killed inserting",
                                                "a skip list is killed replacing",
                                                "a skip list is killed removing",
                                                "the pool is full"};

// Places are used again at once, for the same key and others: what was there must not come back, and what was not
// finished not be finished later.
void places_change_hands(player& p) {
  p.create("hash", words_hash, 1);
  p.on_machine().explore_from_here();
  for (std::uint64_t round = 0; round < 3; ++round) {
    for (std::uint64_t key = 1; key <= 4; ++key) p.insert("hash", key, key);
    p.replace("hash", 2, 20 + round);
    p.replace("hash", 2, 30 + round);
    for (std::uint64_t key = 1; key <= 4; ++key) p.remove("hash", key);
    // The same again, in the same places.
    p.insert("hash", 1, 1);
    p.remove("hash", 1);
    p.insert("hash", 7, round);
    p.replace("hash", 7, round + 1);
    p.remove("hash", 7);
  }
}
// A process dies, and the words that it has left in caches are lost with the next one.
void dies_again_and_again(player& p) {
  p.create("list", words_list);
  for (std::uint64_t key = 1; key <= 4; ++key) p.insert("list", key, key);
  p.remove("list", 3);
  p.reopen();
  p.on_machine().explore_from_here();
  for (std::uint64_t round = 0; round < 3; ++round) {
    p.put("list", 10 + round, round);
    p.replace("list", 1, 100 + round);
    p.remove("list", 2 + 2 * round);
    p.reopen();
  }
}

std::vector<lockfree_story> stories() {
  std::vector<lockfree_story> all;
  for (const lockfree_story& s : lockfree_stories()) {
    if (shared_stories.contains(s.name)) all.push_back(s);
  }
  all.push_back({"places change hands", places_change_hands});
  all.push_back({"it dies again and again", dies_again_and_again});
  return all;
}

// ---- what only a crash in the middle of an operation leaves, made by hand ----

constexpr std::uint64_t some_key = 0x5151;
constexpr std::uint64_t first_value = 0x7272;

// Of the node of `some_key` with this value, in a list.
std::byte* node_in(std::vector<std::byte>& image, std::uint64_t value) {
  for (std::size_t at = 0; at + 32 <= image.size(); at += 64) {
    std::uint64_t words[4];
    std::memcpy(words, image.data() + at, sizeof words);
    if (words[1] == some_key && words[3] == value) return image.data() + at;
  }
  ADD_FAILURE() << "the image has no such node";
  return image.data();
}
// A node was torn: its seal says that it lives, and one word is missing.  Another node in its place brings this word.
subject torn_node() {
  std::vector<std::byte> image = lockfree_image_after(on_direct, [](player& p) {
    p.create("list", words_list);
    p.insert("list", 1, 1);
    p.insert("list", some_key, first_value);
  });
  const std::uint64_t other = 0xDEAD;
  std::memcpy(node_in(image, first_value) + 24, &other, sizeof other);
  return lockfree_subject_from(
      on_direct, "a node was torn",
      [](player& p) {
        p.look_up("list", some_key);
        p.insert("list", 3, first_value);
        p.insert("list", 4, first_value);
        p.remove("list", 3);
      },
      std::move(image));
}
// A replacement was durable, and what it replaces still lives.
subject two_of_a_key() {
  std::vector<std::byte> image = lockfree_image_after(on_direct, [](player& p) {
    p.create("list", words_list);
    p.insert("list", some_key, first_value);
    p.replace("list", some_key, 7);
  });
  std::byte* const seal = node_in(image, first_value) + 16;
  *seal = (*seal & ~std::byte{3}) | std::byte{2};
  return lockfree_subject_from(
      on_direct, "two of a key",
      [](player& p) {
        p.look_up("list", some_key);
        p.remove("list", some_key);
        p.insert("list", 3, 3);
        p.insert("list", some_key, 9);
      },
      std::move(image));
}

TEST(volatile_links_crash_by_hand, a_torn_node_never_becomes_whole) {
  for (const model m : {model::x86, model::torn8, model::eadr}) {
    const report r = explore(torn_node(), lockfree_options(m, on_direct));
    EXPECT_TRUE(r.clean()) << r.text();
  }
}
TEST(volatile_links_crash_by_hand, the_newer_of_two_stays) {
  for (const model m : {model::x86, model::torn8, model::eadr}) {
    const report r = explore(two_of_a_key(), lockfree_options(m, on_direct));
    EXPECT_TRUE(r.clean()) << r.text();
  }
}

using volatile_links_case = on_model<lockfree_story, lockfree_variant>;

class volatile_links_crash : public testing::TestWithParam<volatile_links_case> {};

TEST_P(volatile_links_crash, loses_nothing_and_leaks_nothing) {
  const auto& [of, with, under] = GetParam();
  const report r = explore_today(subject_of(of, with), lockfree_options(under, with));
  EXPECT_TRUE(r.clean()) << r.text();
  std::printf("%s\n", r.text().c_str());
}
INSTANTIATE_TEST_SUITE_P(stories, volatile_links_crash,
                         testing::ValuesIn(cases_of(stories(), std::vector{on_direct, on_image})), name_of_case{});

bool is_ours(const std::string& file) {
  return file == "lockfree/sealed_memory.hpp" || file == "lockfree/sealed_nodes.hpp" ||
         file == "lockfree/rebuilt.hpp" || file == "lockfree/tally.hpp";
}
// The fence before anybody works takes a tally away.
bool is_own(const std::string& place) {
  return place.starts_with("records/") || place == "lockfree/E19" ||
         place.find("lockfree/sealed_") != std::string::npos ||
         place.find("lockfree/rebuilt.hpp") != std::string::npos ||
         place.find("lockfree/tally.hpp") != std::string::npos;
}
const survivor_list survivors{
    {"lockfree/tally.hpp", "flush(&e.tally, sizeof(std::uint64_t))",
     "a tally that does not reach the medium says nothing, as in a pool whose owner died"},
};
const mutation_report& score() {
  static const mutation_report r = [] {
    std::vector<subject> subjects;
    for (const lockfree_story& s : stories()) subjects.push_back(subject_of(s, on_direct));
    subjects.push_back(torn_node());
    subjects.push_back(two_of_a_key());
    options o = lockfree_options(model::torn8, {});
    o.full_points_max = 2;
    o.nested_every = 64;
    o.idempotence_every = 0;
    o.after_every = 64;
    const auto waivers = waivers_of(survivors, places_in_sources({"lockfree"}, std::regex{"."}, true));
    mutation_report made = mutation_score(subjects, o, waivers, {}, is_own);
    std::printf("%s\n", made.text().c_str());
    return made;
  }();
  return r;
}
TEST(volatile_links_edges, are_all_necessary) {
  expect_all_necessary(score());
  EXPECT_GE(score().mutants.size(), 12U);  // five fences, seven write-backs
}
TEST(volatile_links_edges, are_all_known) {
  const auto met = places_met(score());
  auto labels = places_in_sources({"lockfree"}, std::regex{R"re(edge\{"([^"]+)"\})re"}, false);
  std::erase_if(labels, [](const place_in_sources& p) { return !p.text.starts_with("records/"); });
  EXPECT_EQ(labels.size(), 4U);
  expect_labels_met(met, labels);
  auto sites = places_in_sources({"lockfree"}, std::regex{R"re(\bmedium\(\)\.flush\()re"}, true);
  std::erase_if(sites, [](const place_in_sources& p) { return !is_ours(p.text.substr(0, p.text.find(':'))); });
  expect_sites_met(met, sites);
}

}  // namespace
}  // namespace nvm::tests
