// Pages of object stores that are not attached cannot be accessed. What the library does with links of the pool's own
// structures, and with addresses of the program's, that lead there: an error at most, no trap, no change of a store.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "api/pool_object.hpp"
#include "care/repair.hpp"
#include "engine/store_side.hpp"
#include "lockfree/link.hpp"
#include "nvm/gc.h"
#include "nvm/kv.h"
#include "nvm/lockfree.h"
#include "nvm/nvm.h"
#include "nvm/region.h"
#include "nvm/stm.h"
#include "nvm/store.h"
#include "platform/platform.hpp"
#include "store/names_layout.hpp"
#include "with_store.hpp"

namespace nvm::tests {
namespace {

// ---- links of lock-free structures ----------------------------------------------------------------------------------

struct structure_kind {
  const char* name;
  std::uint32_t kind;
  std::uint32_t flags;
};
class closed_pages : public testing::TestWithParam<structure_kind> {
 protected:
  static constexpr std::uint64_t keys = 80;
  static std::uint64_t word_of(std::uint64_t i) { return (i + 1) * 0x9E37'79B9'7F4A'7C15U; }
  [[nodiscard]] static bool bytes() { return (GetParam().flags & NVM_LF_BYTES) != 0; }

  void SetUp() override {
    in_.create();
    nvm_lf* const lf = opened();
    ASSERT_NE(lf, nullptr) << nvm_errormsg();
    for (std::uint64_t i = 0; i < keys / 2; ++i) ASSERT_EQ(put(lf, i), 0) << nvm_errormsg();
    in_.fill_store();
    for (std::uint64_t i = keys / 2; i < keys; ++i) ASSERT_EQ(put(lf, i), 0) << nvm_errormsg();
    find_links();
    in_.close();
    whole_ = bytes_of_file(in_.path());
  }
  nvm_lf* opened() {
    nvm_lf_options o{};
    o.kind = GetParam().kind;
    o.flags = GetParam().flags;
    return nvm_lf_open(in_.pool(), "one", &o);
  }
  static int put(nvm_lf* lf, std::uint64_t i) {
    const std::uint64_t key = word_of(i);
    if (!bytes()) return nvm_lf_put64(lf, key, i, 0) < 0 ? -1 : 0;
    return nvm_lf_put(lf, &key, sizeof key, "a value", 7, 0, 0) < 0 ? -1 : 0;
  }
  static int get(nvm_lf* lf, std::uint64_t i) {
    std::uint64_t key = word_of(i), value = 0;
    return !bytes() ? nvm_lf_get64(lf, key, &value) : nvm_lf_get(lf, &key, sizeof key, &value, sizeof value, nullptr);
  }
  static int take(nvm_lf* lf, std::uint64_t i) {
    const std::uint64_t key = word_of(i);
    return !bytes() ? nvm_lf_remove64(lf, key) : nvm_lf_remove(lf, &key, sizeof key);
  }
  static int walk(nvm_lf* lf) {
    std::uint64_t cursor = 0;
    return !bytes() ? nvm_lf_scan64(
                          lf, &cursor, 1000, [](std::uint64_t, std::uint64_t, void*) { return 0; }, nullptr)
                    : nvm_lf_scan(lf, &cursor, 1000, [](const nvm_lf_entry*, void*) { return 0; }, nullptr);
  }
  // Words of the pool that could be links of the structure, or are.
  void find_links() {
    const geometry g = in_.pool()->file->geometry();
    const auto side = in_.pool()->engine->stores();
    ASSERT_TRUE(side);
    for (std::uint64_t page = 0; page < g.size_pages; ++page) {
      if ((*side)->cluster_holding(g.page_offset(page)) != 0) continue;
      for (std::uint64_t at = g.page_offset(page); at < g.page_offset(page) + g.page_bytes(); at += 8) {
        std::uint64_t w = 0;
        std::memcpy(&w, in_.base() + at, sizeof w);
        const std::uint64_t to = lockfree::offset_of(w);
        if (to < g.data_offset || to >= g.size_bytes()) continue;
        if ((*side)->cluster_holding(to) == 0) links_.push_back({at, w});
      }
    }
  }
  struct found_link {
    std::uint64_t at, word;
    [[nodiscard]] std::uint64_t to(std::uint64_t place) const {
      return (word & lockfree::tags) | (place / 64 * 64 + lockfree::offset_of(word) % 64);
    }
  };
  // Each call either does what it should or says that something is damaged.  How many said so.
  unsigned work(nvm_lf* lf) {
    unsigned damaged = 0;
    const auto done = [&](int answer) {
      if (answer >= 0 || nvm_errno() == NVM_E_NOT_FOUND) return;
      EXPECT_EQ(nvm_errno(), NVM_E_CORRUPT) << nvm_errormsg();
      ++damaged;
    };
    for (std::uint64_t i = 0; i < keys; ++i) done(get(lf, i));
    done(walk(lf));
    for (std::uint64_t i = keys; i < keys + 20; ++i) done(put(lf, i));
    for (std::uint64_t i = 0; i < keys; i += 4) done(take(lf, i));
    for (std::uint64_t i = 1; i < keys; i += 4) done(put(lf, i));
    return damaged;
  }

  with_store in_{"closed_pages"};
  std::vector<found_link> links_;
  std::string whole_;
};
constexpr structure_kind structure_kinds[] = {{"list", NVM_LF_LIST, 0},
                                              {"list_of_bytes", NVM_LF_LIST, NVM_LF_BYTES},
                                              {"hash", NVM_LF_HASH, 0},
                                              {"hash_of_bytes", NVM_LF_HASH, NVM_LF_BYTES},
                                              {"hash_with_volatile_links", NVM_LF_HASH, NVM_LF_VOLATILE_LINKS},
                                              {"skip_list", NVM_LF_SKIP_LIST, 0},
                                              {"skip_list_of_bytes", NVM_LF_SKIP_LIST, NVM_LF_BYTES},
                                              {"tree", NVM_LF_TREE, 0},
                                              {"tree_of_bytes", NVM_LF_TREE, NVM_LF_BYTES}};
INSTANTIATE_TEST_SUITE_P(of, closed_pages, testing::ValuesIn(structure_kinds),
                         [](const auto& i) { return i.param.name; });

constexpr std::size_t tries = 24;

TEST_P(closed_pages, are_reached_by_no_link_of_an_open_structure) {
  ASSERT_FALSE(links_.empty());
  unsigned damaged = 0;
  const std::size_t step = links_.size() / tries + 1;
  for (std::size_t i = 0; i < links_.size(); i += step) {
    SCOPED_TRACE("word at " + std::to_string(links_[i].at));
    write_file(in_.path(), whole_);
    in_.open();
    nvm_lf* const lf = opened();
    ASSERT_NE(lf, nullptr) << nvm_errormsg();
    const std::uint64_t led = links_[i].to(in_.place());
    std::memcpy(in_.base() + links_[i].at, &led, sizeof led);
    damaged += work(lf);
    EXPECT_EQ(in_.sum_of_store(), with_store::sum);
    in_.close();
  }
  if ((GetParam().flags & NVM_LF_VOLATILE_LINKS) == 0) {
    EXPECT_GT(damaged, 0U);
  }
}

TEST_P(closed_pages, are_reached_by_no_link_that_an_open_or_a_check_finds) {
  unsigned mended = 0;
  const std::size_t step = links_.size() / tries + 1;
  for (std::size_t i = 0; i < links_.size(); i += step) {
    SCOPED_TRACE("word at " + std::to_string(links_[i].at));
    std::string damaged = whole_;
    const std::uint64_t led = links_[i].to(in_.place());
    std::memcpy(&damaged[links_[i].at], &led, sizeof led);
    write_file(in_.path(), damaged);
    const std::string findings = findings_in(in_.path());
    if (findings != "" && mended++ % 4 == 0) {
      // What is read on takes nothing of the store for entries.
      care::repair_request request;
      request.path = in_.path();
      request.in_place = true;
      request.accept_copy = true;
      care::repair_report report;
      if (!care::repair_pool(request, report)) write_file(in_.path(), damaged);
    }
    in_.open();
    nvm_lf* const lf = opened();
    unsigned said = 0;
    if (lf == nullptr) {
      EXPECT_EQ(nvm_errno(), NVM_E_CORRUPT) << nvm_errormsg();
    } else {
      said = work(lf);
    }
    if (said != 0 || lf == nullptr) {
      EXPECT_NE(findings, "");
    }
    EXPECT_EQ(in_.sum_of_store(), with_store::sum);
    in_.close();
  }
}

// ---- links of the names of stores -----------------------------------------------------------------------------------

// Whatever word of the catalogue or its trie leads there.
TEST(closed_pages_and_names, are_reached_by_no_link_of_the_names) {
  with_store in{"closed_names"};
  in.create();
  in.fill_store();
  // Names with one beginning, so that the trie has more than one level.
  for (int i = 0; i < 80; ++i) {
    const std::string name = "tenant/" + std::string(1, static_cast<char>('a' + i % 5)) + std::to_string(i);
    ASSERT_EQ(nvm_store_create(in.pool(), name.c_str(), nullptr), 0) << nvm_errormsg();
  }
  const std::uint64_t begin = in.pool()->file->geometry().data_offset;
  in.close();
  const std::string whole = bytes_of_file(in.path());
  std::vector<std::uint64_t> links;
  for (std::uint64_t at = begin; at + 8 <= whole.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, &whole[at], sizeof word);
    const std::uint64_t content = word & checked_mask;
    const std::uint64_t to = (content & ((std::uint64_t{1} << layout::trie_place_bits) - 1)) << 4;
    const std::uint64_t kind = content >> layout::trie_place_bits;
    const bool leads = (kind == 1 || kind == 2) && to >= begin && to < whole.size();
    if (word_holds(word, word_seed(at)) && leads) links.push_back(at);
  }
  ASSERT_GT(links.size(), 4U);
  unsigned refused = 0;
  for (const std::uint64_t at : links) {
    std::string damaged = whole;
    std::uint64_t was = 0;
    std::memcpy(&was, &damaged[at], sizeof was);
    const auto kind = static_cast<layout::trie_kind>((was & checked_mask) >> layout::trie_place_bits);
    const std::uint64_t led = seal_word(layout::trie_child(kind, in.place()), word_seed(at));
    std::memcpy(&damaged[at], &led, sizeof led);
    write_file(in.path(), damaged);
    NVM_POOL* const pool = nvm_pool_open(in.path().c_str());
    if (pool == nullptr) continue;  // a root of something else
    nvm_store_info info;
    const auto count = [](const char*, void*) { return 0; };
    for (const int answer : {nvm_store_stat(pool, "tenant/a0", &info), nvm_store_stat(pool, "tenant/e79", &info),
                             nvm_store_names(pool, "", count, nullptr), nvm_store_create(pool, "tenant/new", nullptr),
                             nvm_store_delete(pool, "tenant/c2")}) {
      if (answer == 0) continue;
      ++refused;
      EXPECT_TRUE(nvm_errno() == NVM_E_CORRUPT || nvm_errno() == NVM_E_NOT_FOUND || nvm_errno() == NVM_E_BAD_POINTER)
          << at << ' ' << nvm_errno() << ' ' << nvm_errormsg();
    }
    (void)nvm_pool_close(pool);
  }
  EXPECT_GT(refused, 0U);
}

// ---- links of the pool's own into a store that is attached ----------------------------------------------------------

// The store is attached, and its pages cannot be accessed all the same, so that a link that is followed is a trap.
class trap_in_store {
 public:
  explicit trap_in_store(const with_store& in) : in_{in} {
    s_ = nvm_store_attach(in.pool(), "closed", 0);
    EXPECT_NE(s_, nullptr) << nvm_errormsg();
    engines::store_side& side = **in.pool()->engine->stores();
    const std::uint64_t store = side.page_of(*side.holder(in.place()));
    EXPECT_TRUE(side.ranges(store, [&](std::uint64_t at, std::uint64_t bytes) { ranges_.push_back({at, bytes}); }));
    set(platform::page_access::none);
  }
  ~trap_in_store() {
    set(platform::page_access::all);
    EXPECT_EQ(nvm_store_detach(s_), 0) << nvm_errormsg();
  }
  trap_in_store(const trap_in_store&) = delete;
  trap_in_store& operator=(const trap_in_store&) = delete;

 private:
  void set(platform::page_access to) {
    for (const auto& [at, bytes] : ranges_) {
      EXPECT_TRUE(platform::set_page_access(reinterpret_cast<std::byte*>(in_.base() + at), bytes, to));
    }
  }
  const with_store& in_;
  nvm_store* s_ = nullptr;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges_;
};

// Calls word(place, value) for the words of pages that no store has.
template <class Word>
void each_word(const with_store& in, Word&& word) {
  const geometry g = in.pool()->file->geometry();
  engines::store_side& side = **in.pool()->engine->stores();
  for (std::uint64_t page = 0; page < g.size_pages; ++page) {
    if (side.cluster_holding(g.page_offset(page)) != 0) continue;
    for (std::uint64_t at = g.page_offset(page); at < g.page_offset(page + 1); at += 8) {
      std::uint64_t w = 0;
      std::memcpy(&w, in.base() + at, sizeof w);
      word(at, w);
    }
  }
}

TEST(attached_pages_and_names, are_reached_by_no_link_of_the_names) {
  with_store in{"attached_names"};
  in.create();
  in.fill_store();
  for (int i = 0; i < 80; ++i) {
    const std::string name = "tenant/" + std::string(1, static_cast<char>('a' + i % 5)) + std::to_string(i);
    ASSERT_EQ(nvm_store_create(in.pool(), name.c_str(), nullptr), 0) << nvm_errormsg();
  }
  const geometry g = in.pool()->file->geometry();
  unsigned refused = 0;
  each_word(in, [&](std::uint64_t at, std::uint64_t was) {
    const std::uint64_t content = was & checked_mask;
    const std::uint64_t to = (content & ((std::uint64_t{1} << layout::trie_place_bits) - 1)) << 4;
    const std::uint64_t kind = content >> layout::trie_place_bits;
    if ((kind != 1 && kind != 2) || !g.in_data(to, 16) || !word_holds(was, word_seed(at))) return;
    const trap_in_store trap{in};
    const std::uint64_t led =
        seal_word(layout::trie_child(static_cast<layout::trie_kind>(kind), in.place()), word_seed(at));
    std::memcpy(in.base() + at, &led, sizeof led);
    nvm_store_info info;
    const auto count = [](const char*, void*) { return 0; };
    for (const int answer :
         {nvm_store_stat(in.pool(), "tenant/a0", &info), nvm_store_stat(in.pool(), "tenant/e79", &info),
          nvm_store_names(in.pool(), "", count, nullptr)}) {
      if (answer == 0) continue;
      ++refused;
      EXPECT_EQ(nvm_errno(), NVM_E_CORRUPT) << at << ' ' << nvm_errormsg();
    }
    std::memcpy(in.base() + at, &was, sizeof was);
  });
  EXPECT_GT(refused, 0U);
  EXPECT_EQ(in.sum_of_store(), with_store::sum);
}

class attached_pages_and_key_values : public testing::TestWithParam<nvm_kv_index> {
 protected:
  static constexpr std::uint64_t keys = 300;
  nvm_kv* opened() {
    nvm_kv_options o{};
    o.index = GetParam();
    return nvm_kv_open(in_.pool(), "one", &o);
  }
  static int put(nvm_kv* kv, std::uint64_t i) { return nvm_kv_put(kv, &i, sizeof i, "a value of some bytes", 21); }
  // Each call either does what it should or says that something is damaged.  How many said so.
  static unsigned work(nvm_kv* kv) {
    unsigned damaged = 0;
    const auto done = [&](std::int64_t answer) {
      if (answer >= 0) return;
      EXPECT_TRUE(nvm_errno() == NVM_E_CORRUPT || nvm_errno() == NVM_E_NOT_FOUND) << nvm_errormsg();
      if (nvm_errno() == NVM_E_CORRUPT) ++damaged;
    };
    char value[32];
    for (std::uint64_t i = 0; i < keys; i += 7) done(nvm_kv_get(kv, &i, sizeof i, value, sizeof value, nullptr));
    done(nvm_kv_scan(kv, nullptr, [](const nvm_kv_entry*, void*) { return 0; }, nullptr));
    for (std::uint64_t i = keys; i < keys + 5; ++i) done(put(kv, i));
    for (std::uint64_t i = 1; i < keys; i += 50) done(nvm_kv_remove(kv, &i, sizeof i));
    return damaged;
  }
  with_store in_{"attached_key_values"};
};
INSTANTIATE_TEST_SUITE_P(of, attached_pages_and_key_values,
                         testing::Values(NVM_KV_LIST, NVM_KV_HASH, NVM_KV_BTREE, NVM_KV_RBTREE),
                         [](const auto& i) { return nvm_kv_index_name(i.param); });

TEST_P(attached_pages_and_key_values, are_reached_by_no_link_of_the_pools) {
  in_.create();
  nvm_kv* kv = opened();
  ASSERT_NE(kv, nullptr) << nvm_errormsg();
  for (std::uint64_t i = 0; i < keys; ++i) ASSERT_EQ(put(kv, i), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_kv_close(kv), 0) << nvm_errormsg();
  in_.fill_store();
  const geometry g = in_.pool()->file->geometry();
  std::vector<std::uint64_t> links;
  each_word(in_, [&](std::uint64_t at, std::uint64_t w) {
    const std::uint64_t to = (word_holds(w, word_seed(at)) ? w & checked_mask : w) / 16 * 16;
    if (g.in_data(to, 16)) links.push_back(at);
  });
  in_.close();
  const std::string whole = bytes_of_file(in_.path());
  unsigned damaged = 0;
  for (std::size_t i = 0; i < links.size(); i += links.size() / 60 + 1) {
    const std::uint64_t at = links[i];
    SCOPED_TRACE("word at " + std::to_string(at));
    write_file(in_.path(), whole);
    in_.open();
    {
      const trap_in_store trap{in_};
      std::uint64_t was = 0;
      std::memcpy(&was, in_.base() + at, sizeof was);
      const std::uint64_t to = in_.place() / 16 * 16;
      const std::uint64_t led = word_holds(was, word_seed(at)) ? seal_word(to, word_seed(at)) : to | was % 16;
      std::memcpy(in_.base() + at, &led, sizeof led);
      kv = opened();
      if (kv == nullptr) {
        EXPECT_EQ(nvm_errno(), NVM_E_CORRUPT) << nvm_errormsg();
        ++damaged;
      } else {
        damaged += work(kv);
        EXPECT_EQ(nvm_kv_close(kv), 0) << nvm_errormsg();
      }
      // It may be one of the names.
      std::uint64_t now = 0;
      std::memcpy(&now, in_.base() + at, sizeof now);
      if (now == led) std::memcpy(in_.base() + at, &was, sizeof was);
    }
    EXPECT_EQ(in_.sum_of_store(), with_store::sum);
    in_.close();
  }
  EXPECT_GT(damaged, 0U);
}

// ---- addresses that a program gives ---------------------------------------------------------------------------------

class address_in_closed_page : public testing::TestWithParam<pool_type> {
 protected:
  void SetUp() override {
    in_.create(GetParam().engine, GetParam().ssd);
    in_.fill_store();
    at_ = in_.base() + in_.place();
  }
  void TearDown() override {
    // What was stored and not refused would be there after the next open.
    in_.close();
    in_.open();
    EXPECT_EQ(in_.sum_of_store(), with_store::sum);
  }
  [[nodiscard]] NVM_POOL* pool() const { return in_.pool(); }
  [[nodiscard]] bool announces() const { return GetParam().ssd || GetParam().engine == NVM_ENGINE_UNDO; }
  // In a transaction that is rolled back.
  template <class Call>
  void refused_in_transaction(const char* what, Call&& call) {
    ASSERT_EQ(nvm_tx_begin(pool()), 0) << nvm_errormsg();
    EXPECT_LT(call(), 0) << what;
    EXPECT_EQ(nvm_errno(), NVM_E_BAD_POINTER) << what << nvm_errormsg();
    nvm_tx_abort(pool());
  }
  void refused_by_barrier(const char* what, int (*body)(nvm_stm* tx, void* at)) {
    EXPECT_NE(nvm_stm_run(pool(), body, at_), 0) << what;
    EXPECT_EQ(nvm_errno(), NVM_E_BAD_POINTER) << what << nvm_errormsg();
  }
  static void refused(const char* what, bool failed) {
    EXPECT_TRUE(failed) << what;
    EXPECT_EQ(nvm_errno(), NVM_E_BAD_POINTER) << what << nvm_errormsg();
  }

  with_store in_{"address_in_closed_page", GetParam().ssd};
  char* at_ = nullptr;  // the store's newest object
};
INSTANTIATE_TEST_SUITE_P(on, address_in_closed_page, testing::ValuesIn(pool_types),
                         [](const auto& i) { return i.param.name; });

TEST_P(address_in_closed_page, is_not_announced) {
  if (!announces()) GTEST_SKIP() << "stores are not announced";
  refused_in_transaction("one", [&] { return nvm_tx_log(at_, 8); });
  refused_in_transaction("a page and more", [&] { return nvm_tx_log(at_, 5000); });
  const nvm_range two[] = {{at_, 8}, {at_ + 64, 8}};
  refused_in_transaction("two", [&] { return nvm_tx_log_many(two, 2); });
  // Announcing goes on where a page is attached, or is not a store's.
  ASSERT_EQ(nvm_tx_begin(pool()), 0) << nvm_errormsg();
  auto* const own = static_cast<std::uint64_t*>(nvm_alloc(pool(), 1, 64));
  ASSERT_NE(own, nullptr) << nvm_errormsg();
  EXPECT_LT(nvm_tx_log(at_, 8), 0);
  EXPECT_EQ(nvm_tx_log(own, 8), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_tx_commit(pool()), 0) << nvm_errormsg();
  nvm_store* const s = nvm_store_attach(pool(), "closed", 0);
  ASSERT_NE(s, nullptr) << nvm_errormsg();
  for (int times = 0; times < 3; ++times) {
    ASSERT_EQ(nvm_tx_begin(pool()), 0) << nvm_errormsg();
    EXPECT_EQ(nvm_tx_log(at_, sizeof(item)), 0) << nvm_errormsg();
    EXPECT_EQ(nvm_tx_commit(pool()), 0) << nvm_errormsg();
  }
  ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
  refused_in_transaction("again", [&] { return nvm_tx_log(at_, 8); });
}

// A store that is detached in a transaction is closed when that has ended; until then its bytes can be stored to that
// were announced before.
TEST_P(address_in_closed_page, is_accessible_until_the_transaction_ends_that_has_announced_it) {
  if (!announces()) GTEST_SKIP() << "stores are not announced";
  nvm_store* const s = nvm_store_attach(pool(), "closed", 0);
  ASSERT_NE(s, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_begin(pool()), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_log(at_, 8), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
  refused("more of it", nvm_tx_log(at_ + 8, 8) != 0);
  nvm_stores_statistics st;
  ASSERT_EQ(nvm_stores_get_statistics(pool(), &st), 0);
  reinterpret_cast<item*>(at_)->number += 0;
  ASSERT_EQ(nvm_tx_commit(pool()), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_stores_get_statistics(pool(), &st), 0);
  refused_in_transaction("after that", [&] { return nvm_tx_log(at_, 8); });
}

TEST_P(address_in_closed_page, is_not_stored_to_by_barriers) {
  for (int times = 0; times < 2; ++times) {
    refused_by_barrier("store", [](nvm_stm* tx, void* at) {
      nvm_stm_store64(tx, static_cast<std::uint64_t*>(at), 7);
      return 0;
    });
    refused_by_barrier("second store", [](nvm_stm* tx, void* at) {
      auto* const own = static_cast<std::uint64_t*>(nvm_stm_alloc(tx, 1, 64));
      if (own == nullptr) return 1;
      nvm_stm_store64(tx, own, 7);
      nvm_stm_store64(tx, static_cast<std::uint64_t*>(at) + 8, 7);
      return 0;
    });
    refused_by_barrier("write", [](nvm_stm* tx, void* at) {
      nvm_stm_write(tx, at, "some bytes", 10);
      return 0;
    });
    refused_by_barrier("fill", [](nvm_stm* tx, void* at) {
      nvm_stm_fill(tx, at, 7, 300);
      return 0;
    });
  }
  // And where the store is attached they go on.
  nvm_store* const s = nvm_store_attach(pool(), "closed", 0);
  ASSERT_NE(s, nullptr) << nvm_errormsg();
  EXPECT_EQ(nvm_stm_run(
                pool(),
                [](nvm_stm* tx, void* at) {
                  auto* const one = static_cast<item*>(at);
                  nvm_stm_store64(tx, &one->number, nvm_stm_load64(tx, &one->number));
                  return 0;
                },
                at_),
            0)
      << nvm_errormsg();
  ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
}

TEST_P(address_in_closed_page, is_no_object_and_no_reference) {
  refused("type", nvm_type_of(pool(), at_) == 0);
  refused("around", nvm_object_around(pool(), at_ + 5) == nullptr);
  refused("hold", nvm_hold(at_) != 0);
  refused("drop", nvm_drop(at_) != 0);
  refused("weak pointer there", nvm_weak_get(at_ + 8) == nullptr);
  void* leads_there = at_;
  EXPECT_EQ(nvm_weak_get(&leads_there), nullptr);
  refused_in_transaction("resize", [&] { return nvm_realloc(pool(), at_, 7, 200) == nullptr ? -1 : 0; });
}

TEST_P(address_in_closed_page, is_no_source_of_bytes) {
  nvm_lf_options o{};
  o.flags = NVM_LF_BYTES;
  nvm_lf* const lf = nvm_lf_open(pool(), "one", &o);
  ASSERT_NE(lf, nullptr) << nvm_errormsg();
  refused("value of a structure", nvm_lf_put(lf, "k", 1, at_, 40, 0, 0) < 0);
  refused("key of a structure", nvm_lf_put(lf, at_, 40, "v", 1, 0, 0) < 0);
  nvm_lf_entry e{};
  e.place = in_.place();
  ASSERT_EQ(nvm_lf_enter(lf), 0) << nvm_errormsg();
  std::uint64_t mark = 0;
  refused("mark", nvm_lf_set_mark(lf, &e, 7) != 0);
  refused("change of a mark", nvm_lf_change_mark(lf, &e, &mark, 7, 0) != 0);
  refused("check of an entry", nvm_lf_verify(lf, &e) != 0);
  EXPECT_EQ(nvm_lf_each_beside(lf, &e, 16384, [](const nvm_lf_entry*, void*) { return 1; }, nullptr), 0);
  ASSERT_EQ(nvm_lf_leave(lf), 0);
  nvm_regions* const set = nvm_regions_open(pool(), "set", nullptr);
  ASSERT_NE(set, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_region_create(set, 1, 4096), 0) << nvm_errormsg();
  refused("bytes of a region", nvm_region_write(set, 1, 0, at_, 40) < 0);
}

TEST_P(address_in_closed_page, keeps_nothing_and_stops_no_collection) {
  ASSERT_EQ(nvm_tx_begin(pool()), 0) << nvm_errormsg();
  auto** const words = static_cast<char**>(nvm_calloc(pool(), 99, 8, sizeof(char*)));
  ASSERT_NE(words, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_pool_set_root(pool(), words), 0) << nvm_errormsg();
  for (int i = 0; i < 8; ++i) words[i] = at_ + 16 * i;  // it is new
  ASSERT_EQ(nvm_tx_commit(pool()), 0) << nvm_errormsg();
  nvm_gc_report report;
  nvm_gc_options o{};
  o.untyped = 2;
  EXPECT_EQ(nvm_gc(pool(), &o, &report), 0) << nvm_errormsg();
  o = {};
  o.conservative = 1;
  EXPECT_EQ(nvm_gc(pool(), &o, &report), 0) << nvm_errormsg();
}

}  // namespace
}  // namespace nvm::tests
