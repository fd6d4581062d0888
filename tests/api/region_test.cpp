// Regions through the C interface, on shm and ssd, across closing, killing and reopening; refused calls, and their
// reasons.
#include "nvm/region.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "../file_bytes.hpp"
#include "../sanitized.hpp"
#include "scratch.hpp"

namespace {

struct medium {
  const char* name;
  std::uint32_t medium;
  std::uint32_t engine;
  std::uint32_t flags = 0;  // of the set
};
constexpr medium media[] = {{"shm", NVM_MEDIUM_SHM, NVM_ENGINE_UNDO},
                            {"shm_redo", NVM_MEDIUM_SHM, NVM_ENGINE_REDO},
                            {"ssd", NVM_MEDIUM_SSD, NVM_ENGINE_DETECT},
                            {"ssd_no_wait", NVM_MEDIUM_SSD, NVM_ENGINE_DETECT, NVM_REGIONS_NO_WAIT}};

class region_face : public ::testing::TestWithParam<medium> {
 protected:
  void SetUp() override {
    place = std::make_unique<nvm::tests::scratch>(GetParam().medium == NVM_MEDIUM_SSD);
    path = place->path();
    nvm_pool_options o{};
    o.size = 32 << 20;
    o.medium = GetParam().medium;
    o.engine = GetParam().engine;
    pool = nvm_pool_create_with(path.c_str(), &o);
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    set = open("things");
    ASSERT_NE(set, nullptr) << nvm_errormsg();
  }
  void TearDown() override {
    if (pool == nullptr) return;
    EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    EXPECT_EQ(nvm_pool_check(path.c_str(), print, nullptr, nullptr), 0) << nvm_errormsg();
  }
  static void print(std::uint64_t offset, const char* finding, void*) { ADD_FAILURE() << finding << " at " << offset; }
  nvm_regions* open(const char* name, std::uint32_t mode = 0) {
    nvm_regions_options o{};
    o.flags = GetParam().flags;
    o.mode = mode;
    return nvm_regions_open(pool, name, &o);
  }
  void reopen() {
    ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    pool = nvm_pool_open(path.c_str());
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    set = open("things", 1);
    ASSERT_NE(set, nullptr) << nvm_errormsg();
  }
  std::string get(std::uint64_t rid, std::uint64_t offset = 0, std::size_t most = 1 << 20) {
    std::string seen(most, '\0');
    const std::int64_t n = nvm_region_read(set, rid, offset, seen.data(), seen.size());
    if (n < 0) return std::string{"<"} + nvm_error_name(nvm_errno()) + ">";
    seen.resize(static_cast<std::size_t>(n));
    return seen;
  }
  int put(std::uint64_t rid, const std::string& bytes) {
    return nvm_region_create_with(set, rid, bytes.data(), bytes.size(), 0);
  }
  void survive_kills(std::uint64_t size);
  void expect_refused(int answer, int code) {
    EXPECT_EQ(answer, -1);
    EXPECT_EQ(nvm_errno(), code) << nvm_errormsg();
  }

  std::unique_ptr<nvm::tests::scratch> place;
  std::string path;
  NVM_POOL* pool = nullptr;
  nvm_regions* set = nullptr;
};
INSTANTIATE_TEST_SUITE_P(media, region_face, ::testing::ValuesIn(nvm::tests::kinds_of_build(media)),
                         [](const auto& i) { return i.param.name; });

TEST_P(region_face, keeps_what_was_written_across_closing) {
  ASSERT_EQ(put(1, "player one"), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_region_create(set, 2, 100'000), 0) << nvm_errormsg();
  const std::string big(5000, 'x');
  ASSERT_EQ(nvm_region_write(set, 2, 70'000, big.data(), big.size()), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_region_create(set, 3, 0), 0);
  std::string expected;
  for (int i = 0; i < 200; ++i) {
    const std::string line = "line " + std::to_string(i) + std::string(static_cast<std::size_t>(i * 7), '.') + "\n";
    std::uint64_t where = 0;
    ASSERT_EQ(nvm_region_append(set, 3, line.data(), line.size(), &where), 0) << nvm_errormsg();
    EXPECT_EQ(where, expected.size());
    expected += line;
  }
  ASSERT_EQ(nvm_region_truncate(set, 1, 6), 0);
  ASSERT_EQ(nvm_region_truncate(set, 1, 8), 0);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(get(1), std::string("player\0\0", 8));
    EXPECT_EQ(get(2), std::string(70'000, '\0') + big + std::string(25'000, '\0'));
    EXPECT_EQ(get(2, 74'990, 20), std::string(10, 'x') + std::string(10, '\0'));
    EXPECT_EQ(get(3), expected);
    std::uint64_t count = 0;
    EXPECT_EQ(nvm_regions_count(set, &count), 0);
    EXPECT_EQ(count, 3U);
    if (i == 0) reopen();
  }
  std::map<std::uint64_t, std::uint64_t> all;
  EXPECT_EQ(nvm_region_each(
                set,
                [](std::uint64_t rid, std::uint64_t size, void* to) {
                  (*static_cast<std::map<std::uint64_t, std::uint64_t>*>(to))[rid] = size;
                  return 0;
                },
                &all),
            0);
  EXPECT_EQ(all, (std::map<std::uint64_t, std::uint64_t>{{1, 8}, {2, 100'000}, {3, expected.size()}}));
  ASSERT_EQ(nvm_region_drop(set, 2), 0);
  EXPECT_EQ(get(2), "<NVM_E_NOT_FOUND>");
  EXPECT_EQ(put(2, "again"), 0);
  EXPECT_EQ(get(2), "again");
}

TEST_P(region_face, has_several_sets) {
  nvm_regions* const other = open("others");
  ASSERT_NE(other, nullptr) << nvm_errormsg();
  EXPECT_EQ(open("others"), other);
  EXPECT_EQ(open("others", 2), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_EXISTS);
  EXPECT_EQ(open("missing", 1), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_NOT_FOUND);
  ASSERT_EQ(put(7, "here"), 0);
  ASSERT_EQ(nvm_region_create_with(other, 7, "there", 5, 0), 0);
  EXPECT_EQ(get(7), "here");
  reopen();
  std::map<std::string, std::uint64_t> names;
  const auto note = [](const char* name, std::uint64_t regions, void* to) {
    (*static_cast<std::map<std::string, std::uint64_t>*>(to))[name] = regions;
    return 0;
  };
  EXPECT_EQ(nvm_regions_names(pool, note, &names), 0);
  EXPECT_EQ(names, (std::map<std::string, std::uint64_t>{{"others", 1}, {"things", 1}}));
  ASSERT_EQ(nvm_regions_drop(pool, "others"), 0) << nvm_errormsg();
  EXPECT_EQ(open("others", 1), nullptr);
  EXPECT_EQ(get(7), "here");
  expect_refused(nvm_regions_drop(pool, "others"), NVM_E_NOT_FOUND);
  // Its room is used again.
  for (int i = 0; i < 5; ++i) {
    nvm_regions* const again = open("others");
    ASSERT_NE(again, nullptr) << nvm_errormsg();
    ASSERT_EQ(nvm_region_create(again, 1, 4 << 20), 0);
    const std::string bytes(4 << 20, 'b');
    ASSERT_EQ(nvm_region_write(again, 1, 0, bytes.data(), bytes.size()), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_regions_drop(pool, "others"), 0) << nvm_errormsg();
  }
}

TEST_P(region_face, takes_back_what_is_not_committed) {
  ASSERT_EQ(put(1, std::string(3000, 'a')), 0);
  for (const unsigned mode : {NVM_REGION_ADAPTIVE, NVM_REGION_REPLICA, NVM_REGION_COPY, NVM_REGION_CHECKED,
                              NVM_REGION_MARKED, NVM_REGION_ALTERNATE}) {
    ASSERT_EQ(nvm_region_begin(set, 1, mode), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_region_write(set, 1, 10, "bbbb", 4), 0);
    ASSERT_EQ(nvm_region_append(set, 1, "tail", 4, nullptr), 0);
    EXPECT_EQ(get(1, 8, 8), "aabbbbaa");
    EXPECT_EQ(get(1, 2998), "aatail");
    std::string seen;
    std::thread{[&] { seen = get(1); }}.join();
    EXPECT_EQ(seen, std::string(3000, 'a'));
    ASSERT_EQ(nvm_region_abort(set, 1), 0);
    EXPECT_EQ(get(1), std::string(3000, 'a'));
  }
  ASSERT_EQ(nvm_region_begin(set, 1, NVM_REGION_ADAPTIVE), 0);
  ASSERT_EQ(nvm_region_write(set, 1, 0, "c", 1), 0);
  std::uint64_t position = 0;
  ASSERT_EQ(nvm_region_commit_async(set, 1, &position), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_wait(pool, position), 0) << nvm_errormsg();
  EXPECT_EQ(get(1, 0, 2), "ca");
}

TEST_P(region_face, reads_and_decides_as_it_was_opened) {
  nvm_regions_options o{};
  o.flags = GetParam().flags;
  o.readers = NVM_READERS_COUNTED;
  o.decide = NVM_REGION_DECIDE_MEASURED;
  ASSERT_EQ(nvm_regions_open(pool, "things", &o), set) << nvm_errormsg();
  nvm_region_statistics s{};
  ASSERT_EQ(nvm_region_get_statistics(set, &s), 0);
  const bool direct = GetParam().medium != NVM_MEDIUM_SSD;
  for (const uint64_t ps : {s.fence_ps, s.line_ps, s.copied_line_ps, s.byte_ps}) EXPECT_EQ(ps != 0, direct);
  ASSERT_EQ(put(1, std::string(3000, 'a')), 0);
  const std::string bytes(1000, 'b');
  ASSERT_EQ(nvm_region_write(set, 1, 100, bytes.data(), bytes.size()), 0) << nvm_errormsg();
  EXPECT_EQ(get(1), std::string(100, 'a') + bytes + std::string(1900, 'a'));
  o.readers = NVM_READERS_COUNTED + 1;
  EXPECT_EQ(nvm_regions_open(pool, "things", &o), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  o.readers = NVM_READERS_BY_VERSION;
  o.decide = NVM_REGION_DECIDE_MEASURED + 1;
  EXPECT_EQ(nvm_regions_open(pool, "things", &o), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  o.decide = NVM_REGION_DECIDE_THRESHOLDS;
  EXPECT_EQ(nvm_regions_open(pool, "things", &o), set) << nvm_errormsg();
}

// The count of changes in place outlives the process.
TEST_P(region_face, moves_what_is_overwritten_often_also_across_closings) {
  nvm_regions_options o{};
  o.flags = GetParam().flags;
  o.levelling = 16;
  ASSERT_EQ(put(1, std::string(3000, 'a')), 0);
  const auto levelled = [&](int writes) {
    EXPECT_EQ(nvm_regions_open(pool, "things", &o), set) << nvm_errormsg();
    for (int i = 0; i < writes; ++i) EXPECT_EQ(nvm_region_write(set, 1, 100, "0123456789abcdef", 16), 0);
    nvm_region_statistics s{};
    EXPECT_EQ(nvm_region_get_statistics(set, &s), 0);
    return s.levelled;
  };
  EXPECT_EQ(levelled(12), 0U);
  reopen();
  EXPECT_EQ(levelled(6), 1U);
  EXPECT_EQ(get(1), std::string(100, 'a') + "0123456789abcdef" + std::string(2884, 'a'));
  o.levelling = NVM_LEVELLING_NEVER;
  EXPECT_EQ(levelled(200), 1U) << "those of before";
  o.levelling = 4096;
  EXPECT_EQ(nvm_regions_open(pool, "things", &o), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
}

TEST_P(region_face, changes_in_place_where_that_is_asked_for) {
  nvm_regions_options o{};
  o.flags = GetParam().flags;
  o.replicas = 2;
  nvm_regions* const few = nvm_regions_open(pool, "things", &o);
  ASSERT_EQ(few, set) << nvm_errormsg();
  for (const std::uint64_t rid : {1, 2, 3}) ASSERT_EQ(put(rid, std::string(1000, 'a')), 0);
  for (const char c : {'b', 'c', 'd'}) {
    for (const std::uint64_t rid : {1, 2, 3}) {
      const std::string bytes(700, c);
      ASSERT_EQ(nvm_region_begin(set, rid, NVM_REGION_REPLICA), 0) << nvm_errormsg();
      ASSERT_EQ(nvm_region_write(set, rid, 100, bytes.data(), bytes.size()), 0);
      ASSERT_EQ(nvm_region_commit(set, rid), 0) << nvm_errormsg();
      EXPECT_EQ(get(rid), std::string(100, 'a') + bytes + std::string(200, 'a'));
    }
  }
  nvm_region_statistics s{};
  ASSERT_EQ(nvm_region_get_statistics(set, &s), 0);
  const bool direct = GetParam().medium != NVM_MEDIUM_SSD;
  EXPECT_EQ(s.in_place, direct ? 9U : 0U);
  EXPECT_EQ(s.bytes_in_place, direct ? 6300U : 0U);
  EXPECT_EQ(s.replicas_given, direct ? 7U : 0U);
  reopen();
  for (const std::uint64_t rid : {1, 2, 3}) EXPECT_EQ(get(rid, 100, 700), std::string(700, 'd'));
}

TEST_P(region_face, changes_several_regions_together) {
  for (const std::uint64_t rid : {1, 2, 3}) ASSERT_EQ(put(rid, "old"), 0);
  const std::uint64_t rids[] = {3, 1, 3};
  nvm_region_group* g = nvm_region_group_begin(set, rids, 3);
  ASSERT_NE(g, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_region_group_join(g, 2, NVM_REGION_ADAPTIVE), 0);
  ASSERT_EQ(nvm_region_write(set, 1, 0, "new", 3), 0);
  ASSERT_EQ(nvm_region_append(set, 3, std::string(4000, 'n').data(), 4000, nullptr), 0);
  ASSERT_EQ(nvm_region_group_drop(g, 2), 0);
  ASSERT_EQ(nvm_region_group_create(g, 4, 10), 0);
  ASSERT_EQ(nvm_region_write(set, 4, 0, "four", 4), 0);
  std::thread{[&] {
    EXPECT_EQ(get(1), "old");
    EXPECT_EQ(get(2), "old");
    EXPECT_EQ(get(4), "<NVM_E_NOT_FOUND>");
  }}.join();
  ASSERT_EQ(nvm_region_group_commit(g), 0) << nvm_errormsg();
  EXPECT_EQ(get(1), "new");
  EXPECT_EQ(get(2), "<NVM_E_NOT_FOUND>");
  EXPECT_EQ(get(3).size(), 4003U);
  EXPECT_EQ(get(4), std::string("four\0\0\0\0\0\0", 10));
  g = nvm_region_group_begin(set, rids, 2);
  ASSERT_NE(g, nullptr);
  ASSERT_EQ(nvm_region_write(set, 1, 0, "odd", 3), 0);
  ASSERT_EQ(nvm_region_group_create(g, 9, 1), 0);
  ASSERT_EQ(nvm_region_group_abort(g), 0);
  EXPECT_EQ(get(1), "new");
  EXPECT_EQ(get(9), "<NVM_E_NOT_FOUND>");
  reopen();
  EXPECT_EQ(get(1), "new");
  EXPECT_EQ(get(3).size(), 4003U);
}

TEST_P(region_face, begins_a_group_again_whose_order_would_wait_for_ever) {
  for (const std::uint64_t rid : {1, 2}) ASSERT_EQ(put(rid, "0000000"), 0);
  struct job {
    nvm_regions* set;
    std::uint64_t second;
  };
  const auto body = [](nvm_region_group* g, void* argument) {
    const job& j = *static_cast<const job*>(argument);
    if (!nvm_region_group_join(g, j.second, NVM_REGION_ADAPTIVE) || nvm_errno() == NVM_E_TX_OPEN) {
      for (const std::uint64_t rid : {1, 2}) {
        char digits[16] = {};
        if (nvm_region_read(j.set, rid, 0, digits, 7) != 7) return 2;
        std::snprintf(digits, sizeof digits, "%07d", (std::atoi(digits) + 1) % 10'000'000);
        if (nvm_region_write(j.set, rid, 0, digits, 7) != 0) return 3;
      }
      return 0;
    }
    return 1;
  };
  std::vector<std::thread> all;
  for (const std::uint64_t first : {1, 2}) {
    all.emplace_back([&, first] {
      job j{set, 3 - first};
      for (int i = 0; i < 100; ++i) EXPECT_EQ(nvm_region_group_run(set, &first, 1, body, &j), 0) << nvm_errormsg();
    });
  }
  for (std::thread& t : all) t.join();
  EXPECT_EQ(get(1), "0000200");
  EXPECT_EQ(get(2), "0000200");
}

// Each holds what the other asks for, by two transactions and by a call of its own.
TEST_P(region_face, does_not_wait_for_ever_beside_a_transaction) {
  for (const std::uint64_t rid : {1, 2}) ASSERT_EQ(put(rid, "bytes"), 0);
  ASSERT_EQ(nvm_region_begin(set, 2, NVM_REGION_ADAPTIVE), 0);
  std::promise<void> held;
  std::promise<void> tried;
  std::thread other{[&] {
    EXPECT_EQ(nvm_region_begin(set, 1, NVM_REGION_ADAPTIVE), 0);
    held.set_value();
    tried.get_future().wait();
    EXPECT_EQ(nvm_region_commit(set, 1), 0);
  }};
  held.get_future().wait();
  expect_refused(nvm_region_begin(set, 1, NVM_REGION_ADAPTIVE), NVM_E_BUSY);
  expect_refused(nvm_region_write(set, 1, 0, "x", 1), NVM_E_BUSY);
  tried.set_value();
  other.join();
  EXPECT_EQ(nvm_region_write(set, 1, 0, "x", 1), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_region_commit(set, 2), 0);
}

// A visitor may call for other pools, and cannot close this one.
TEST_P(region_face, visitors_call_for_other_pools) {
  ASSERT_EQ(put(1, "here"), 0);
  ASSERT_EQ(put(2, "here"), 0);
  struct other {
    std::string path;
    NVM_POOL* visited;
    int pools = 0;
  } o{place->path("other"), pool};
  const auto visit = [](std::uint64_t, std::uint64_t, void* raw) {
    other& in = *static_cast<other*>(raw);
    EXPECT_EQ(nvm_pool_close(in.visited), -1);
    EXPECT_EQ(nvm_errno(), NVM_E_BUSY);
    for (int i = 0; i < 4; ++i) {
      const std::string name = in.path + std::to_string(in.pools++);
      NVM_POOL* const p = nvm_pool_create(name.c_str(), 4 << 20);
      nvm_regions* const s = nvm_regions_open(p, "s", nullptr);
      EXPECT_EQ(nvm_region_create(s, 1, 10), 0) << nvm_errormsg();
      EXPECT_EQ(nvm_pool_close(p), 0) << nvm_errormsg();
    }
    return 0;
  };
  EXPECT_EQ(nvm_region_each(set, visit, &o), 0) << nvm_errormsg();
  EXPECT_EQ(o.pools, 8);
}

TEST_P(region_face, leases_bytes_that_stay) {
  const auto seen = [](const nvm_region_lease& l) { return std::string(static_cast<const char*>(l.bytes), l.length); };
  const std::string big(5000, 'a');
  ASSERT_EQ(put(1, "before"), 0);
  ASSERT_EQ(put(2, big), 0);
  ASSERT_EQ(nvm_region_create(set, 3, 100'000), 0);
  nvm_region_lease one;
  nvm_region_lease two;
  nvm_region_lease zeros;
  ASSERT_EQ(nvm_region_hold(set, 1, &one), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_region_hold(set, 2, &two), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_region_hold(set, 3, &zeros), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_region_write(set, 1, 0, "after.", 6), 0);
  const std::uint64_t rids[] = {1, 2};
  nvm_region_group* const g = nvm_region_group_begin(set, rids, 2);
  ASSERT_NE(g, nullptr);
  ASSERT_EQ(nvm_region_write(set, 2, 10, "new", 3), 0);
  ASSERT_EQ(nvm_region_write(set, 1, 0, "again", 5), 0);
  ASSERT_EQ(nvm_region_group_commit(g), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_region_write(set, 3, 50'000, "new", 3), 0);
  std::thread{[&] { EXPECT_EQ(nvm_region_drop(set, 2), 0) << nvm_errormsg(); }}.join();
  EXPECT_EQ(seen(one), "before");
  EXPECT_EQ(seen(two), big);
  EXPECT_EQ(seen(zeros), std::string(100'000, '\0'));
  EXPECT_EQ(get(1), "again.");
  nvm_region_statistics s;
  ASSERT_EQ(nvm_region_get_statistics(set, &s), 0);
  EXPECT_EQ(s.leases, 3U);
  // Neither goes away under it.
  expect_refused(nvm_pool_close(pool), NVM_E_BUSY);
  expect_refused(nvm_regions_drop(pool, "things"), NVM_E_BUSY);
  EXPECT_EQ(seen(two), big);
  // By any thread, once.
  nvm_region_lease copy = one;
  std::thread{[&] { EXPECT_EQ(nvm_region_let_go(&one), 0) << nvm_errormsg(); }}.join();
  EXPECT_EQ(one.set, nullptr);
  expect_refused(nvm_region_let_go(&one), NVM_E_INVALID);
  expect_refused(nvm_region_let_go(&copy), NVM_E_INVALID);
  expect_refused(nvm_region_let_go(nullptr), NVM_E_INVALID);
  expect_refused(nvm_region_hold(set, 1, nullptr), NVM_E_INVALID);
  expect_refused(nvm_region_hold(nullptr, 1, &one), NVM_E_INVALID);
  expect_refused(nvm_region_hold(set, 2, &one), NVM_E_NOT_FOUND);
  EXPECT_EQ(one.bytes, nullptr);
  EXPECT_EQ(nvm_region_let_go(&two), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_region_let_go(&zeros), 0) << nvm_errormsg();
  // A lease of one pool is none of another.
  NVM_POOL* const other = nvm_pool_create(place->path("other").c_str(), 4 << 20);
  nvm_regions* const others = nvm_regions_open(other, "things", nullptr);
  ASSERT_EQ(nvm_region_create_with(others, 1, "theirs", 6, 0), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_region_hold(others, 1, &two), 0);
  ASSERT_EQ(nvm_region_hold(set, 1, &one), 0);
  ASSERT_EQ(nvm_region_let_go(&one), 0);
  EXPECT_EQ(seen(two), "theirs");
  EXPECT_EQ(nvm_region_let_go(&two), 0);
  EXPECT_EQ(nvm_pool_close(other), 0) << nvm_errormsg();
}

TEST_P(region_face, refuses_what_cannot_be) {
  ASSERT_EQ(put(1, "abc"), 0);
  char byte = 0;
  expect_refused(put(1, "twice"), NVM_E_EXISTS);
  expect_refused(nvm_region_drop(set, 5), NVM_E_NOT_FOUND);
  expect_refused(nvm_region_write(set, 5, 0, "x", 1), NVM_E_NOT_FOUND);
  expect_refused(nvm_region_write(set, 1, 2, "xy", 2), NVM_E_INVALID);
  expect_refused(nvm_region_write(set, 1, ~std::uint64_t{0}, "xy", 2), NVM_E_INVALID);
  expect_refused(static_cast<int>(nvm_region_read(set, 1, 4, &byte, 1)), NVM_E_INVALID);
  EXPECT_EQ(nvm_region_read(set, 1, 3, &byte, 1), 0);
  expect_refused(nvm_region_create(set, 2, NVM_REGION_BYTES_MAX + 1), NVM_E_TOO_LARGE);
  expect_refused(nvm_region_truncate(set, 1, NVM_REGION_BYTES_MAX + 1), NVM_E_TOO_LARGE);
  expect_refused(nvm_region_begin(set, 1, 7), NVM_E_INVALID);
  expect_refused(nvm_region_begin(set, 1, 99), NVM_E_INVALID);
  expect_refused(nvm_region_commit(set, 1), NVM_E_INVALID);
  expect_refused(nvm_region_write(set, 1, 0, nullptr, 1), NVM_E_INVALID);
  EXPECT_EQ(nvm_region_write(set, 1, 0, nullptr, 0), 0);
  EXPECT_EQ(open(""), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  EXPECT_EQ(open(std::string(64, 'n').c_str()), nullptr);
  // More than the pool has: the region is there, and its bytes are not.
  ASSERT_EQ(nvm_region_create(set, 3, std::uint64_t{1} << 39), 0);
  expect_refused(nvm_region_write(set, 3, 0, "x", 1), NVM_E_TOO_LARGE);
  EXPECT_EQ(get(3, 0, 4), std::string(4, '\0'));
  // Transactions.
  ASSERT_EQ(nvm_region_begin(set, 1, NVM_REGION_ADAPTIVE), 0);
  expect_refused(nvm_region_begin(set, 1, NVM_REGION_ADAPTIVE), NVM_E_TX_OPEN);
  const std::uint64_t one[] = {1};
  EXPECT_EQ(nvm_region_group_begin(set, one, 1), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_TX_OPEN);
  expect_refused(nvm_pool_close(pool), NVM_E_BUSY);
  expect_refused(nvm_regions_drop(pool, "things"), NVM_E_BUSY);
  ASSERT_EQ(nvm_region_commit(set, 1), 0);
  nvm_region_group* const g = nvm_region_group_begin(set, one, 1);
  ASSERT_NE(g, nullptr);
  std::thread{[&] { expect_refused(nvm_region_group_commit(g), NVM_E_INVALID); }}.join();
  expect_refused(nvm_region_group_join(g, 1, NVM_REGION_ADAPTIVE), NVM_E_TX_OPEN);
  ASSERT_EQ(nvm_region_group_commit(g), 0);
  expect_refused(nvm_region_group_commit(g), NVM_E_INVALID);
  ASSERT_EQ(nvm_region_drop(set, 3), 0);
}

TEST_P(region_face, rolls_back_what_a_thread_has_left_open) {
  ASSERT_EQ(put(1, "before"), 0);
  std::thread{[&] {
    EXPECT_EQ(nvm_region_begin(set, 1, NVM_REGION_ADAPTIVE), 0);
    EXPECT_EQ(nvm_region_write(set, 1, 0, "during", 6), 0);
  }}.join();
  EXPECT_EQ(get(1), "before");
  ASSERT_EQ(nvm_region_write(set, 1, 0, "after.", 6), 0) << nvm_errormsg();
}

TEST_P(region_face, frees_a_full_pool) {
  const std::string bytes(300'000, 'f');
  std::uint64_t n = 0;
  while (n < 10'000 && put(n, bytes) == 0) ++n;
  EXPECT_EQ(nvm_errno(), NVM_E_NO_SPACE) << nvm_errormsg();
  ASSERT_GT(n, 20U);
  // Reads, small changes, truncation and dropping still work.
  EXPECT_EQ(get(0), bytes);
  EXPECT_EQ(nvm_region_write(set, 0, 100, "small", 5), 0) << nvm_errormsg();
  if (GetParam().medium == NVM_MEDIUM_SHM) {
    expect_refused(nvm_region_write(set, 2, 0, bytes.data(), bytes.size()), NVM_E_NO_SPACE);
    EXPECT_EQ(get(2), bytes);
  }
  EXPECT_EQ(nvm_region_truncate(set, 1, 10), 0) << nvm_errormsg();
  EXPECT_EQ(get(0, 99, 7), "fsmallf");
  for (std::uint64_t rid = 0; rid < n; rid += 2) EXPECT_EQ(nvm_region_drop(set, rid), 0) << nvm_errormsg();
  for (std::uint64_t rid = 0; rid < n; rid += 2) EXPECT_EQ(put(rid, bytes), 0) << nvm_errormsg();
}

// Kills: what a child has acknowledged is there, and groups are whole.
void region_face::survive_kills(std::uint64_t size) {
  for (std::uint64_t rid = 0; rid < 4; ++rid) ASSERT_EQ(nvm_region_create(set, rid, size), 0);
  ASSERT_EQ(nvm_pool_close(pool), 0);
  pool = nullptr;
  std::uint64_t least = 0;
  for (unsigned round = 0; round < 8; ++round) {
    int pipe_of[2];
    ASSERT_EQ(::pipe(pipe_of), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      NVM_POOL* mine = nvm_pool_open(path.c_str());
      nvm_regions* s = mine == nullptr ? nullptr : nvm_regions_open(mine, "things", nullptr);
      if (s == nullptr) _exit(3);
      std::vector<std::uint64_t> words(size / 8);
      for (std::uint64_t i = least + 1;; ++i) {
        std::fill(words.begin(), words.end(), i);
        const std::uint64_t rids[] = {i % 4, (i + 1) % 4};
        nvm_region_group* const g = nvm_region_group_begin(s, rids, 2);
        if (g == nullptr) _exit(4);
        for (const std::uint64_t rid : rids) {
          if (nvm_region_write(s, rid, 0, words.data(), i % 3 == 0 ? 64 : size) != 0) _exit(5);
          if (i % 3 == 0 && nvm_region_write(s, rid, 64, words.data(), size - 64) != 0) _exit(6);
        }
        if (nvm_region_group_commit(g) != 0) _exit(7);
        if (::write(pipe_of[1], &i, sizeof i) != sizeof i) _exit(8);
      }
    }
    ASSERT_GT(child, 0);
    ::close(pipe_of[1]);
    std::uint64_t last = 0;
    std::uint64_t told = 0;
    for (unsigned n = 0; n < 20 + 13 * round && ::read(pipe_of[0], &told, sizeof told) == sizeof told; ++n) last = told;
    ::kill(child, SIGKILL);
    while (::read(pipe_of[0], &told, sizeof told) == sizeof told) last = told;
    ::close(pipe_of[0]);
    int how = 0;
    ASSERT_EQ(::waitpid(child, &how, 0), child);
    ASSERT_TRUE(WIFSIGNALED(how)) << WEXITSTATUS(how);
    pool = nvm_pool_open(path.c_str());
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    set = open("things", 1);
    ASSERT_NE(set, nullptr) << nvm_errormsg();
    std::uint64_t newest = 0;
    std::uint64_t values[4];
    for (std::uint64_t rid = 0; rid < 4; ++rid) {
      std::vector<std::uint64_t> words(size / 8);
      ASSERT_EQ(nvm_region_read(set, rid, 0, words.data(), size), static_cast<std::int64_t>(size));
      for (const std::uint64_t w : words) ASSERT_EQ(w, words[0]) << "a torn region";
      values[rid] = words[0];
      newest = std::max(newest, words[0]);
    }
    EXPECT_GE(newest, last);
    EXPECT_LE(newest, last + 1);
    if (newest != 0) {
      EXPECT_EQ(values[newest % 4], newest) << "half of a group";
      EXPECT_EQ(values[(newest + 1) % 4], newest) << "half of a group";
    }
    least = newest;
    ASSERT_EQ(nvm_pool_close(pool), 0);
    pool = nullptr;
  }
  pool = nvm_pool_open(path.c_str());
  ASSERT_NE(pool, nullptr);
}
TEST_P(region_face, survives_kills) {
  if ((GetParam().flags & NVM_REGIONS_NO_WAIT) != 0) GTEST_SKIP() << "nothing is acknowledged one by one";
  survive_kills(600);
}
// On ssd whole values go straight to their pages, and short changes through the log.
TEST_P(region_face, large_values_survive_kills) {
  if ((GetParam().flags & NVM_REGIONS_NO_WAIT) != 0) GTEST_SKIP() << "nothing is acknowledged one by one";
  survive_kills(200'000);
}

// Whole values, what is added to them and what takes their place are written once on ssd, whatever the size of the log.
TEST_P(region_face, writes_large_values_once) {
  std::string value(6 << 20, '\0');
  std::uint64_t written = 0;
  nvm_statistics before;
  ASSERT_EQ(nvm_pool_get_statistics(pool, &before), 0);
  const auto fill = [&](char with) {
    for (std::size_t i = 0; i < value.size(); ++i) value[i] = static_cast<char>(with + i % 7);
  };
  for (char i = 0; i < 6; ++i) {
    fill(static_cast<char>('a' + i));
    ASSERT_EQ(i == 0 ? put(1, value) : nvm_region_write(set, 1, 0, value.data(), value.size()), 0) << nvm_errormsg();
    written += value.size();
  }
  std::string added(300'001, 'z');
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(nvm_region_append(set, 1, added.data(), added.size(), nullptr), 0) << nvm_errormsg();
    value += added;
    written += added.size();
  }
  nvm_statistics after;
  ASSERT_EQ(nvm_pool_get_statistics(pool, &after), 0);
  nvm_region_statistics of_regions;
  ASSERT_EQ(nvm_region_get_statistics(set, &of_regions), 0);
  const bool on_ssd = GetParam().medium == NVM_MEDIUM_SSD;
  if (on_ssd) {
    EXPECT_LE(after.logged_bytes - before.logged_bytes, written / 100);
    EXPECT_GE(of_regions.bytes_straight, written - written / 100);
    EXPECT_GE(of_regions.straight, 10U);
  } else {
    EXPECT_EQ(of_regions.straight, 0U);
  }
  ASSERT_EQ(nvm_region_write(set, 1, 1000, "between", 7), 0);
  value.replace(1000, 7, "between");
  EXPECT_EQ(get(1, 0, value.size() + 1), value);
  reopen();
  EXPECT_EQ(get(1, 0, value.size() + 1), value);
}

// Enough of them that the close saves where they are; what is damaged of that costs nothing.
TEST_P(region_face, many_are_found_by_what_the_close_has_saved) {
  constexpr std::uint64_t many = 5000;
  const auto bytes_of = [](std::uint64_t rid) { return std::to_string(rid * rid) + std::string(rid % 40, '+'); };
  for (std::uint64_t rid = 0; rid < many; ++rid) ASSERT_EQ(put(rid, bytes_of(rid)), 0) << nvm_errormsg();
  const auto expect_all = [&](std::uint64_t from, std::uint64_t to, std::uint64_t step) {
    for (std::uint64_t rid = from; rid < to; rid += step) ASSERT_EQ(get(rid, 0, 100), bytes_of(rid));
    EXPECT_EQ(get(to), "<NVM_E_NOT_FOUND>");
    std::uint64_t count = 0;
    EXPECT_EQ(nvm_regions_count(set, &count), 0);
    EXPECT_EQ(count, to - from);
  };
  ASSERT_NO_FATAL_FAILURE(reopen());
  ASSERT_NO_FATAL_FAILURE(expect_all(0, many, 97));
  for (std::uint64_t rid = 0; rid < 1000; ++rid) ASSERT_EQ(nvm_region_drop(set, rid), 0) << nvm_errormsg();
  for (std::uint64_t rid = many; rid < many + 500; ++rid) ASSERT_EQ(put(rid, bytes_of(rid)), 0) << nvm_errormsg();
  ASSERT_NO_FATAL_FAILURE(reopen());
  std::uint64_t met = 0;
  const auto visit = [](std::uint64_t, std::uint64_t, void* n) { return ++*static_cast<std::uint64_t*>(n), 0; };
  EXPECT_EQ(nvm_region_each(set, visit, &met), 0);
  EXPECT_EQ(met, many - 500);
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_pool_check(path.c_str(), print, nullptr, nullptr), 0) << nvm_errormsg();

  // The pages of the one before are free, and may still hold it.
  const auto sound = nvm::tests::read_file(path);
  const std::string_view magic = "$RGTABLE";
  struct told {
    int of_table = 0, all = 0;
  } found;
  const auto count = [](std::uint64_t, const char* what, void* to) {
    auto& t = *static_cast<told*>(to);
    ++t.all;
    t.of_table += std::strstr(what, "table") != nullptr ? 1 : 0;
  };
  for (auto at = sound.begin(); found.of_table == 0;) {
    at = std::search(at, sound.end(), magic.begin(), magic.end());
    ASSERT_GT(sound.end() - at, 4000) << "no table is one that counts";
    auto bytes = sound;
    bytes[static_cast<std::size_t>(at - sound.begin()) + 4000] ^= 4;
    nvm::tests::write_file(path, bytes);
    found = {};
    (void)nvm_pool_check(path.c_str(), count, &found, nullptr);
    ++at;
  }
  EXPECT_EQ(found.of_table, 1);
  EXPECT_EQ(found.all, 1);
  pool = nvm_pool_open(path.c_str());
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  set = open("things", 1);
  ASSERT_NE(set, nullptr) << nvm_errormsg();
  ASSERT_NO_FATAL_FAILURE(expect_all(1000, many + 500, 1));
}

TEST(region_pools, of_the_log_engine_have_none) {
  const nvm::tests::scratch place{nvm::tests::pool_kind::log};
  NVM_POOL* const pool = place.create();
  ASSERT_NE(pool, nullptr);
  EXPECT_EQ(nvm_regions_open(pool, "things", nullptr), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_ENGINE) << nvm_errormsg();
  EXPECT_EQ(nvm_pool_close(pool), 0);
}

}  // namespace
