// Scans of lock-free structures from a key on, a bounded number of entries at a time, and handles that are closed.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "nvm/lockfree.h"
#include "scratch.hpp"

namespace {

struct scanned_kind {
  const char* name;
  std::uint32_t kind;
  std::uint32_t medium;
  std::uint32_t flags = 0;
};
constexpr scanned_kind scanned_kinds[] = {
    {"list", NVM_LF_LIST, NVM_MEDIUM_SHM},
    {"hash", NVM_LF_HASH, NVM_MEDIUM_SHM},
    {"skip_list", NVM_LF_SKIP_LIST, NVM_MEDIUM_SHM},
    {"tree", NVM_LF_TREE, NVM_MEDIUM_SHM},
    {"skip_list_on_ssd", NVM_LF_SKIP_LIST, NVM_MEDIUM_SSD, NVM_LF_NO_WAIT},
    {"tree_on_ssd", NVM_LF_TREE, NVM_MEDIUM_SSD, NVM_LF_NO_WAIT},
    {"list_rebuilt", NVM_LF_LIST, NVM_MEDIUM_SHM, NVM_LF_VOLATILE_LINKS},
    {"skip_list_rebuilt", NVM_LF_SKIP_LIST, NVM_MEDIUM_SHM, NVM_LF_VOLATILE_LINKS}};

class lockfree_scans : public ::testing::TestWithParam<scanned_kind> {
 protected:
  using texts = std::vector<std::string>;
  using numbers = std::vector<std::uint64_t>;

  void SetUp() override {
    place = std::make_unique<nvm::tests::scratch>(GetParam().medium == NVM_MEDIUM_SSD);
    nvm_pool_options o{};
    o.size = 32 << 20;
    o.medium = GetParam().medium;
    pool = nvm_pool_create_with(place->path().c_str(), &o);
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
  }
  void TearDown() override { EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg(); }
  nvm_lf* open(const char* name, std::uint32_t flags = 0) {
    nvm_lf_options o{};
    o.kind = GetParam().kind;
    o.flags = GetParam().flags | flags;
    return nvm_lf_open(pool, name, &o);
  }
  [[nodiscard]] static bool is_sorted() { return GetParam().kind != NVM_LF_HASH; }

  static int take_number(std::uint64_t key, std::uint64_t value, void* to) {
    EXPECT_EQ(value, key + 1);
    static_cast<numbers*>(to)->push_back(key);
    return 0;
  }
  static int take_text(const nvm_lf_entry* e, void* to) {
    static_cast<texts*>(to)->emplace_back(static_cast<const char*>(e->key), e->key_bytes);
    return 0;
  }
  static numbers from(nvm_lf* lf, std::uint64_t key, unsigned flags, std::size_t most) {
    numbers all;
    EXPECT_EQ(nvm_lf_scan_from64(lf, key, flags, most, take_number, &all), 0) << nvm_errormsg();
    return all;
  }
  static texts from(nvm_lf* lf, const std::string& key, unsigned flags, std::size_t most) {
    texts all;
    EXPECT_EQ(nvm_lf_scan_from(lf, key.data(), key.size(), flags, most, take_text, &all), 0) << nvm_errormsg();
    return all;
  }
  static int put(nvm_lf* lf, const std::string& key) { return nvm_lf_put(lf, key.data(), key.size(), "v", 1, 0, 0); }

  std::unique_ptr<nvm::tests::scratch> place;
  NVM_POOL* pool = nullptr;
};

TEST_P(lockfree_scans, show_words_a_number_at_a_time) {
  nvm_lf* const lf = open("words");
  ASSERT_NE(lf, nullptr) << nvm_errormsg();
  numbers all;
  for (std::uint64_t k = 0; k < 100; ++k) all.push_back((k * 7919 % 100) * 1000);
  all.push_back(UINT64_MAX);
  for (const std::uint64_t k : all) ASSERT_EQ(nvm_lf_put64(lf, k, k + 1, 0), 1) << nvm_errormsg();
  std::sort(all.begin(), all.end());

  numbers seen;
  std::uint64_t cursor = 0;
  std::size_t calls = 0;
  do {
    const std::size_t before = seen.size();
    ASSERT_EQ(nvm_lf_scan64(lf, &cursor, 7, take_number, &seen), 0) << nvm_errormsg();
    EXPECT_TRUE(seen.size() - before == 7 || cursor == 0);
    ASSERT_LE(++calls, 15U) << "the cursor goes round";
  } while (cursor != 0);
  if (is_sorted()) {
    EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, all);

  if (!is_sorted()) {
    EXPECT_EQ(nvm_lf_scan_from64(lf, 0, 0, 1, take_number, &seen), -1);
    EXPECT_EQ(nvm_errno(), NVM_E_TYPE_MISMATCH);
    return;
  }
  EXPECT_EQ(from(lf, 0, 0, 3), (numbers{0, 1000, 2000}));
  EXPECT_EQ(from(lf, 0, NVM_LF_AFTER, 2), (numbers{1000, 2000}));
  EXPECT_EQ(from(lf, 1, 0, 2), (numbers{1000, 2000}));
  EXPECT_EQ(from(lf, 1, NVM_LF_AFTER, 2), (numbers{1000, 2000}));
  EXPECT_EQ(from(lf, 98500, 0, 10), (numbers{99000, UINT64_MAX}));
  EXPECT_EQ(from(lf, UINT64_MAX, 0, 10), (numbers{UINT64_MAX}));
  EXPECT_EQ(from(lf, UINT64_MAX, NVM_LF_AFTER, 10), numbers{});
  EXPECT_EQ(from(lf, 0, 0, 1000), all);
  // Not one that is removed, and one that replaces another at its place.
  ASSERT_EQ(nvm_lf_remove64(lf, 1000), 1);
  ASSERT_EQ(nvm_lf_put64(lf, 2000, 2001, 0), 2);
  EXPECT_EQ(from(lf, 1, 0, 2), (numbers{2000, 3000}));
}

TEST_P(lockfree_scans, divide_keys_that_begin_alike) {
  nvm_lf* const lf = open("bytes", NVM_LF_BYTES);
  ASSERT_NE(lf, nullptr) << nvm_errormsg();
  // The first eight bytes of most are the same.
  std::set<std::string> keys{
      "",    std::string(1, '\0'), std::string(8, '\0'), std::string(9, '\0'), "customer", std::string("customer\0", 9),
      "\xff"};
  for (int i = 0; i < 100; ++i) keys.insert("customer/" + std::to_string(i));
  for (const std::string& k : keys) ASSERT_EQ(put(lf, k), 1) << nvm_errormsg();
  const texts all{keys.begin(), keys.end()};
  if (!is_sorted()) {
    texts none;
    EXPECT_EQ(nvm_lf_scan_from(lf, "a", 1, 0, 1, take_text, &none), -1);
    EXPECT_EQ(nvm_errno(), NVM_E_TYPE_MISMATCH);
    return;
  }
  EXPECT_EQ(from(lf, "", 0, 1000), all);
  texts seen = from(lf, "", 0, 5);
  while (seen.size() < all.size()) {
    const texts more = from(lf, seen.back(), NVM_LF_AFTER, 5);
    ASSERT_EQ(more.size(), std::min<std::size_t>(5, all.size() - seen.size()));
    seen.insert(seen.end(), more.begin(), more.end());
  }
  EXPECT_EQ(seen, all);
  EXPECT_EQ(from(lf, seen.back(), NVM_LF_AFTER, 5), texts{});
  EXPECT_EQ(from(lf, "customer/5", 0, 2), (texts{"customer/5", "customer/50"}));
  EXPECT_EQ(from(lf, "customer/50a", 0, 1), (texts{"customer/51"}));
}

TEST_P(lockfree_scans, stop_where_the_visitor_wants) {
  nvm_lf* const lf = open("words");
  for (std::uint64_t k = 0; k < 10; ++k) ASSERT_EQ(nvm_lf_put64(lf, k, k, 0), 1) << nvm_errormsg();
  const auto stop = [](std::uint64_t, std::uint64_t, void* to) { return ++*static_cast<int*>(to) == 3 ? 77 : 0; };
  const auto throws = [](std::uint64_t, std::uint64_t, void*) -> int { throw std::runtime_error{"enough"}; };
  int n = 0;
  std::uint64_t cursor = 0;
  EXPECT_EQ(nvm_lf_scan64(lf, &cursor, 10, stop, &n), 77);
  EXPECT_THROW((void)nvm_lf_scan64(lf, &cursor, 10, throws, nullptr), std::runtime_error);
  if (is_sorted()) {
    n = 0;
    EXPECT_EQ(nvm_lf_scan_from64(lf, 0, 0, 10, stop, &n), 77);
    EXPECT_EQ(n, 3);
    EXPECT_THROW((void)nvm_lf_scan_from64(lf, 0, 0, 10, throws, nullptr), std::runtime_error);
  }
  EXPECT_EQ(nvm_lf_put64(lf, 1, 1, 0), 2) << "it goes on: " << nvm_errormsg();
}

TEST_P(lockfree_scans, refuse_what_makes_no_sense) {
  nvm_lf* const words = open("words");
  nvm_lf* const bytes = open("bytes", NVM_LF_BYTES);
  ASSERT_TRUE(words != nullptr && bytes != nullptr) << nvm_errormsg();
  numbers all;
  std::uint64_t cursor = 0;
  const auto fails = [](int answer, int code) { EXPECT_TRUE(answer == -1 && nvm_errno() == code) << nvm_errormsg(); };
  fails(nvm_lf_scan64(words, nullptr, 1, take_number, &all), NVM_E_INVALID);
  fails(nvm_lf_scan64(words, &cursor, 0, take_number, &all), NVM_E_INVALID);
  fails(nvm_lf_scan64(words, &cursor, 1, nullptr, &all), NVM_E_INVALID);
  fails(nvm_lf_scan64(bytes, &cursor, 1, take_number, &all), NVM_E_TYPE_MISMATCH);
  fails(nvm_lf_scan64(nullptr, &cursor, 1, take_number, &all), NVM_E_INVALID);
  fails(nvm_lf_scan_from64(words, 0, 2, 1, take_number, &all), NVM_E_INVALID);
  fails(nvm_lf_scan_from64(words, 0, 0, 0, take_number, &all), NVM_E_INVALID);
  fails(nvm_lf_scan_from64(words, 0, 0, 1, nullptr, &all), NVM_E_INVALID);
  fails(nvm_lf_scan_from64(bytes, 0, 0, 1, take_number, &all), NVM_E_TYPE_MISMATCH);
  fails(nvm_lf_scan_from(words, "k", 1, 0, 1, take_text, &all), NVM_E_TYPE_MISMATCH);
  fails(nvm_lf_scan_from(bytes, nullptr, 1, 0, 1, take_text, &all), NVM_E_INVALID);
  fails(nvm_lf_scan_from(bytes, "k", NVM_LF_KEY_MAX + 1, 0, 1, take_text, &all), NVM_E_TOO_LARGE);
}

// While others insert and remove, each scan shows the entries that stay, each once and in order, and comes to an end.
TEST_P(lockfree_scans, show_what_stays_beside_changes) {
  if (!is_sorted()) GTEST_SKIP() << "a hash table has no order of keys";
  nvm_lf* const lf = open("bytes", NVM_LF_BYTES);
  const auto key = [](int i) { return "customer/" + std::to_string(100000 + i); };
  constexpr int keys = 300;
  for (int i = 0; i < keys; i += 3) ASSERT_EQ(put(lf, key(i)), 1) << nvm_errormsg();
  std::atomic<bool> over{false};
  std::vector<std::thread> others;
  for (int t = 1; t <= 2; ++t) {
    others.emplace_back([&, t] {
      for (int i = t; !over.load(); i = (i + 3 * 7) % keys / 3 * 3 + t) {
        const std::string k = key(i);
        EXPECT_GE(put(lf, k), 1) << nvm_errormsg();
        EXPECT_EQ(nvm_lf_remove(lf, k.data(), k.size()), 1) << nvm_errormsg();
      }
    });
  }
  for (int round = 0; round < 30; ++round) {
    texts seen = from(lf, "", 0, 10);
    for (texts more = seen; more.size() == 10;) {
      more = from(lf, seen.back(), NVM_LF_AFTER, 10);
      seen.insert(seen.end(), more.begin(), more.end());
    }
    EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
    EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end());
    for (int i = 0; i < keys; i += 3) EXPECT_TRUE(std::binary_search(seen.begin(), seen.end(), key(i))) << i;
  }
  over.store(true);
  for (std::thread& t : others) t.join();
}

TEST_P(lockfree_scans, handles_are_good_until_they_are_closed_as_often_as_opened) {
  nvm_lf* const lf = open("words");
  ASSERT_NE(lf, nullptr) << nvm_errormsg();
  ASSERT_EQ(open("words"), lf);
  EXPECT_EQ(nvm_lf_kind_of(lf), static_cast<int>(GetParam().kind));
  EXPECT_EQ(nvm_lf_holds_bytes(lf), 0);
  ASSERT_EQ(nvm_lf_close(lf), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_lf_put64(lf, 1, 2, 0), 1) << nvm_errormsg();
  ASSERT_EQ(nvm_lf_enter(lf), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_lf_close(lf), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_lf_leave(lf), 0) << "a thread that is inside may leave: " << nvm_errormsg();
  const auto is_closed = [&](int answer) {
    return answer == -1 && nvm_errno() == NVM_E_INVALID &&
           std::string{nvm_errormsg()}.find("closed") != std::string::npos;
  };
  std::uint64_t n = 0;
  EXPECT_TRUE(is_closed(nvm_lf_put64(lf, 1, 2, 0)));
  EXPECT_TRUE(is_closed(nvm_lf_get64(lf, 1, &n)));
  EXPECT_TRUE(is_closed(nvm_lf_get_count(lf, &n)));
  EXPECT_TRUE(is_closed(nvm_lf_enter(lf)));
  EXPECT_TRUE(is_closed(nvm_lf_wait(lf)));
  EXPECT_TRUE(is_closed(nvm_lf_kind_of(lf)));
  EXPECT_TRUE(is_closed(nvm_lf_close(lf)));
  EXPECT_EQ(nvm_lf_close(nullptr), -1);

  nvm_lf* const again = open("words");
  ASSERT_NE(again, nullptr) << nvm_errormsg();
  EXPECT_EQ(nvm_lf_get64(again, 1, &n), 1) << nvm_errormsg();
  EXPECT_EQ(n, 2U);
  // A structure that is dropped, and a pool that is closed, leave handles that can be closed.
  ASSERT_EQ(nvm_lf_drop(pool, "words"), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_lf_put64(again, 1, 2, 0), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_NOT_FOUND);
  EXPECT_EQ(nvm_lf_close(again), 0) << nvm_errormsg();
  nvm_lf* const last = open("other");
  ASSERT_NE(last, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_lf_close(last), 0) << nvm_errormsg();
  EXPECT_TRUE(is_closed(nvm_lf_close(last)));
  pool = nvm_pool_open(place->path().c_str());
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
}

// ---- settings of all structures of a pool ----

class lockfree_settings : public ::testing::Test {
 protected:
  void make(std::uint32_t persist = 0) {
    nvm_pool_options o{};
    o.size = 8 << 20;
    o.persist = persist;
    as.persist = persist;
    pool = nvm_pool_create_with(place.path().c_str(), &o);
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
  }
  void reopen() {
    ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    pool = nvm_pool_open_with(place.path().c_str(), &as);
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
  }
  void TearDown() override { EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg(); }
  nvm_lf* open(const char* name, const nvm_lf_options& o) { return nvm_lf_open(pool, name, &o); }

  nvm::tests::scratch place{false};
  nvm_pool_options as{};
  NVM_POOL* pool = nullptr;
};

TEST_F(lockfree_settings, are_chosen_by_the_first_open_and_kept_until_the_pool_is_closed) {
  make();
  const auto nothing = [](const char*, int, void*) { return 0; };
  ASSERT_EQ(nvm_lf_names(pool, nothing, nullptr), 0) << "names alone choose nothing: " << nvm_errormsg();
  nvm_lf_options o{};
  o.links = NVM_LF_LINK_CACHE;
  o.allocation = NVM_LF_ONE_AT_A_TIME;
  o.recovery = NVM_LF_TRAVERSAL;
  o.area_bytes = 65536;
  ASSERT_NE(open("first", o), nullptr) << nvm_errormsg();
  ASSERT_NE(open("second", o), nullptr) << nvm_errormsg();
  ASSERT_NE(open("third", {}), nullptr) << nvm_errormsg();
  const auto busy = [&](const nvm_lf_options& other, int code) {
    EXPECT_EQ(open("first", other), nullptr);
    EXPECT_EQ(nvm_errno(), code) << nvm_errormsg();
  };
  nvm_lf_options other{};
  other.links = NVM_LF_LINK_AND_PERSIST;
  busy(other, NVM_E_BUSY);
  other = {};
  other.allocation = NVM_LF_WORD_AT_ONCE;
  busy(other, NVM_E_BUSY);
  other = {};
  other.recovery = NVM_LF_SEARCH;
  busy(other, NVM_E_BUSY);
  other = {};
  other.area_bytes = 4096;
  busy(other, NVM_E_EXISTS);
  reopen();
  busy(other, NVM_E_EXISTS);
  other = {};
  other.recovery = NVM_LF_SEARCH;
  other.area_bytes = 65536;
  ASSERT_NE(open("first", other), nullptr) << nvm_errormsg();
}

TEST_F(lockfree_settings, that_make_no_sense_are_refused) {
  make();
  const auto refused = [&](const nvm_lf_options& o) {
    EXPECT_EQ(open("any", o), nullptr);
    EXPECT_EQ(nvm_errno(), NVM_E_INVALID) << nvm_errormsg();
  };
  nvm_lf_options o{};
  o.links = 3;
  refused(o);
  o = {};
  o.allocation = 3;
  refused(o);
  o = {};
  o.recovery = 4;
  refused(o);
  for (const std::uint32_t area : {1U, 2048U, 4097U, 12288U, 524288U}) {
    o = {};
    o.area_bytes = area;
    refused(o);
  }
  o = {};
  o.reserved[1] = 1;
  refused(o);
}

// Lines and fences of changes that nobody waits for, and of the wait.  Each new key is put after one of its own that is
// durable: a change beside one that is not waits for it, and which keys of a hash table are beside each other differs
// from one to the next.
TEST_F(lockfree_settings, link_cache_keeps_links_until_somebody_waits) {
  struct costs {
    std::uint64_t fences, lines;
  };
  const auto costs_now = [&] {
    nvm_statistics s{};
    EXPECT_EQ(nvm_pool_get_statistics(pool, &s), 0) << nvm_errormsg();
    return costs{s.fences, s.flushed_lines};
  };
  as.meter = 1;
  make(NVM_PERSIST_CLFLUSHOPT);
  for (const std::uint32_t links : {NVM_LF_LINK_AND_PERSIST, NVM_LF_LINK_CACHE}) {
    reopen();
    nvm_lf_options o{};
    o.kind = NVM_LF_LIST;
    o.links = links;
    o.flags = NVM_LF_NO_WAIT;
    nvm_lf* const lf = open("words", o);
    ASSERT_NE(lf, nullptr) << nvm_errormsg();
    o.flags = 0;
    nvm_lf* const waits = open("words", o);
    ASSERT_NE(waits, nullptr) << nvm_errormsg();
    const std::uint64_t first = links * 1000;
    // The area and the allocation words of all are known then.
    for (std::uint64_t k = first; k <= first + 30; k += 10) ASSERT_EQ(nvm_lf_put64(lf, k, 1, 0), 1) << nvm_errormsg();
    ASSERT_EQ(nvm_lf_wait(lf), 0) << nvm_errormsg();
    const bool cached = links == NVM_LF_LINK_CACHE;
    costs before = costs_now();
    for (std::uint64_t k = first + 1; k < first + 40; k += 10)
      ASSERT_EQ(nvm_lf_put64(lf, k, k, 0), 1) << nvm_errormsg();
    costs after = costs_now();
    EXPECT_EQ(after.fences - before.fences, cached ? 0U : 4U);
    EXPECT_EQ(after.lines - before.lines, cached ? 4U : 8U) << "of nodes, and of links";
    before = after;
    ASSERT_EQ(nvm_lf_wait(lf), 0) << nvm_errormsg();
    after = costs_now();
    EXPECT_EQ(after.fences - before.fences, cached ? 1U : 0U);
    EXPECT_EQ(after.lines - before.lines, cached ? 4U : 0U);
    // A handle that waits leaves none there, and neither does asking for the position.
    ASSERT_EQ(nvm_lf_put64(waits, first + 41, 1, 0), 1) << nvm_errormsg();
    before = costs_now();
    ASSERT_EQ(nvm_lf_wait(lf), 0) << nvm_errormsg();
    EXPECT_EQ(costs_now().lines, before.lines);
    ASSERT_EQ(nvm_lf_put64(lf, first + 51, 1, 0), 1) << nvm_errormsg();
    before = costs_now();
    std::uint64_t position = 0;
    ASSERT_EQ(nvm_lf_get_position(lf, &position), 0) << nvm_errormsg();
    EXPECT_EQ(costs_now().lines - before.lines, cached ? 1U : 0U);
  }
}

// Each way of allocation and recovery, with memory that is written back, and a process that ends without a word.
TEST_F(lockfree_settings, keep_what_was_done_whatever_they_are) {
  make(NVM_PERSIST_CLFLUSHOPT);
  for (const std::uint32_t links : {NVM_LF_LINK_AND_PERSIST, NVM_LF_LINK_CACHE}) {
    for (const std::uint32_t allocation : {NVM_LF_WORD_AT_ONCE, NVM_LF_ONE_AT_A_TIME}) {
      for (const std::uint32_t recovery : {NVM_LF_BY_KIND, NVM_LF_SEARCH, NVM_LF_TRAVERSAL}) {
        ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
        nvm_lf_options o{};
        o.kind = NVM_LF_SKIP_LIST;
        o.links = links;
        o.allocation = allocation;
        o.recovery = recovery;
        const pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
          pool = nvm_pool_open_with(place.path().c_str(), &as);
          o.flags = NVM_LF_NO_WAIT;
          nvm_lf* const lf = pool == nullptr ? nullptr : open("all", o);
          bool good = lf != nullptr;
          for (std::uint64_t k = 0; good && k < 500; ++k) good = nvm_lf_put64(lf, k * 7919 % 500, recovery + k, 0) > 0;
          for (std::uint64_t k = 0; good && k < 500; k += 5) good = nvm_lf_remove64(lf, k) == 1;
          good = good && nvm_lf_wait(lf) == 0;
          _exit(good ? 0 : 1);
        }
        int status = -1;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        ASSERT_EQ(status, 0);
        pool = nvm_pool_open_with(place.path().c_str(), &as);
        ASSERT_NE(pool, nullptr) << nvm_errormsg();
        o.flags = 0;
        nvm_lf* const lf = open("all", o);
        ASSERT_NE(lf, nullptr) << nvm_errormsg();
        for (std::uint64_t k = 0; k < 500; ++k) EXPECT_EQ(nvm_lf_get64(lf, k, nullptr), k % 5 == 0 ? 0 : 1) << k;
        EXPECT_EQ(nvm_lf_count(lf), 400U);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(all, lockfree_scans, ::testing::ValuesIn(scanned_kinds),
                         [](const auto& info) { return std::string{info.param.name}; });

}  // namespace
