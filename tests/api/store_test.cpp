// Object stores through the C interface: names, rights, roots, transactions that span them, protection, deletion; on
// each engine and medium that has them.
#include "nvm/store.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../direct_place.hpp"
#include "../random_seed.hpp"
#include "../sanitized.hpp"
#include "../scratch_folder.hpp"
#include "nvm/stm.h"

namespace nvm::tests {
namespace {

struct store_pool_kind {
  const char* name;
  bool ssd;
  std::uint32_t engine;
};
constexpr store_pool_kind store_kinds[] = {{"undo", false, NVM_ENGINE_UNDO},
                                           {"redo", false, NVM_ENGINE_REDO},
                                           {"mnemosyne", false, NVM_ENGINE_MNEMOSYNE},
                                           {"ssd", true, NVM_ENGINE_UNDO}};

struct stored_item {
  std::uint64_t number;
  stored_item* next;
  char text[48];
};

class stores : public testing::TestWithParam<store_pool_kind> {
 protected:
  void SetUp() override { create(); }
  void TearDown() override {
    if (pool_ != nullptr) {
      EXPECT_EQ(nvm_pool_close(pool_), 0) << nvm_errormsg();
    }
    if (testing::Test::HasFatalFailure()) return;
    nvm_check_summary sum;
    std::string found;
    EXPECT_EQ(nvm_pool_check(
                  path().c_str(),
                  [](std::uint64_t at, const char* what, void* to) {
                    *static_cast<std::string*>(to) += std::string{what} + " at " + std::to_string(at) + "\n";
                  },
                  &found, &sum),
              0)
        << nvm_errormsg() << found;
  }
  [[nodiscard]] std::string path() const { return folder_.path("pool"); }
  void create(std::uint64_t size = 16 << 20, std::uint64_t capacity = 0) {
    nvm_pool_options o{};
    o.size = size;
    o.capacity = capacity;
    o.medium = GetParam().ssd ? NVM_MEDIUM_SSD : direct_medium();
    o.engine = GetParam().engine;
    pool_ = nvm_pool_create_with(path().c_str(), &o);
    ASSERT_NE(pool_, nullptr) << nvm_errormsg();
  }
  void close() {
    ASSERT_EQ(nvm_pool_close(pool_), 0) << nvm_errormsg();
    pool_ = nullptr;
  }
  void reopen(bool read_only = false) {
    if (pool_ != nullptr) close();
    nvm_pool_options o{};
    o.read_only = read_only ? 1 : 0;
    pool_ = nvm_pool_open_with(path().c_str(), &o);
    ASSERT_NE(pool_, nullptr) << nvm_errormsg();
  }
  [[nodiscard]] bool announces() const { return GetParam().ssd || GetParam().engine == NVM_ENGINE_UNDO; }
  nvm_store* attached(const char* name, unsigned flags = 0) {
    nvm_store* const s = nvm_store_attach(pool_, name, flags);
    EXPECT_NE(s, nullptr) << nvm_errormsg();
    return s;
  }
  // A list of `count` items whose first is the root.
  void fill(nvm_store* s, std::uint64_t count, std::uint64_t from = 0) {
    for (std::uint64_t i = 0; i < count; ++i) {
      ASSERT_EQ(nvm_tx_begin(pool_), 0) << nvm_errormsg();
      auto* const one = static_cast<stored_item*>(nvm_store_alloc(s, 7, sizeof(stored_item)));
      ASSERT_NE(one, nullptr) << nvm_errormsg();
      *one = {from + i, static_cast<stored_item*>(nvm_store_get_root(s)), "an item"};
      ASSERT_EQ(nvm_store_set_root(s, one), 0) << nvm_errormsg();
      ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
    }
  }
  [[nodiscard]] static std::vector<std::uint64_t> numbers(nvm_store* s) {
    std::vector<std::uint64_t> all;
    for (auto* i = static_cast<stored_item*>(nvm_store_get_root(s)); i != nullptr; i = i->next)
      all.push_back(i->number);
    return all;
  }
  std::vector<std::string> listed(const char* prefix) {
    std::vector<std::string> all;
    EXPECT_EQ(nvm_store_names(
                  pool_, prefix,
                  [](const char* name, void* to) {
                    static_cast<std::vector<std::string>*>(to)->emplace_back(name);
                    return 0;
                  },
                  &all),
              0)
        << nvm_errormsg();
    return all;
  }
  NVM_POOL* pool_ = nullptr;

 private:
  scratch_folder folder_{"stores", GetParam().ssd};
};
INSTANTIATE_TEST_SUITE_P(on, stores, testing::ValuesIn(kinds_of_build(store_kinds)),
                         [](const auto& i) { return i.param.name; });

TEST_P(stores, keep_their_objects_and_roots_over_a_close) {
  ASSERT_EQ(nvm_store_create(pool_, "tenant/1", nullptr), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_store_create(pool_, "tenant/2", nullptr), 0) << nvm_errormsg();
  nvm_store* const one = attached("tenant/1");
  nvm_store* const two = attached("tenant/2");
  ASSERT_TRUE(one != nullptr && two != nullptr);
  EXPECT_EQ(nvm_store_get_root(one), nullptr);
  fill(one, 100);
  fill(two, 3, 1000);
  EXPECT_STREQ(nvm_store_name(one), "tenant/1");
  EXPECT_EQ(nvm_store_pool(one), pool_);
  EXPECT_NE(nvm_store_number(one), nvm_store_number(two));
  EXPECT_EQ(nvm_store_of(nvm_store_get_root(one)), one);
  EXPECT_EQ(nvm_store_find(pool_, "tenant/2"), two);
  EXPECT_EQ(nvm_store_find(pool_, "tenant/3"), nullptr);
  reopen();
  nvm_store* const again = attached("tenant/1");
  ASSERT_NE(again, nullptr);
  const auto found = numbers(again);
  ASSERT_EQ(found.size(), 100U);
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(found[i], 99 - i);
  nvm_store_info info;
  ASSERT_EQ(nvm_store_stat(pool_, "tenant/1", &info), 0) << nvm_errormsg();
  EXPECT_EQ(info.objects, 100U);
  EXPECT_GE(info.used_bytes, 100 * sizeof(stored_item));
  EXPECT_GT(info.pages, 1U);
  EXPECT_EQ(info.attached, 1U);
  EXPECT_EQ(info.mode, 0600U);
  EXPECT_EQ(info.owner, geteuid());
  EXPECT_NE(info.created, 0U);
  ASSERT_EQ(nvm_store_detach(again), 0) << nvm_errormsg();
}

TEST_P(stores, have_names_of_any_bytes_and_no_two_the_same) {
  EXPECT_EQ(nvm_store_create(pool_, "", nullptr), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  EXPECT_EQ(nvm_store_create(pool_, nullptr, nullptr), -1);
  EXPECT_EQ(nvm_store_create(pool_, std::string(256, 'n').c_str(), nullptr), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  ASSERT_EQ(nvm_store_create(pool_, std::string(255, '\xFF').c_str(), nullptr), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_store_create(pool_, "\x01", nullptr), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_store_create(pool_, "\x01", nullptr), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_EXISTS);
  EXPECT_EQ(nvm_store_attach(pool_, "missing", 0), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_NOT_FOUND);
  EXPECT_EQ(nvm_store_delete(pool_, "missing"), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_NOT_FOUND);
  EXPECT_EQ(nvm_store_rename(pool_, "missing", "other"), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_NOT_FOUND);
  nvm_store_info info;
  EXPECT_EQ(nvm_store_stat(pool_, "missing", &info), -1);
  nvm_store_options o{};
  o.mode = 01000;
  EXPECT_EQ(nvm_store_create(pool_, "x", &o), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  o = {};
  o.reserved[2] = 1;
  EXPECT_EQ(nvm_store_create(pool_, "x", &o), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
}

TEST_P(stores, are_listed_by_prefix_in_order) {
  std::vector<std::string> all;
  for (unsigned i = 0; i < 300; ++i) {
    const std::string name = (i % 3 == 0 ? "robot/" : "tenant/") + std::to_string(i);
    ASSERT_EQ(nvm_store_create(pool_, name.c_str(), nullptr), 0) << nvm_errormsg();
    all.push_back(name);
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(listed(nullptr), all);
  std::erase_if(all, [](const std::string& n) { return !n.starts_with("tenant/1"); });
  EXPECT_EQ(listed("tenant/1"), all);
  unsigned seen = 0;
  const int stopped = nvm_store_list(
      pool_, "robot/",
      [](const nvm_store_info* info, void* n) {
        EXPECT_EQ(info->pages, 1U) << info->name;
        return ++*static_cast<unsigned*>(n) == 5 ? 42 : 0;
      },
      &seen);
  EXPECT_EQ(stopped, 42);
  EXPECT_EQ(seen, 5U);
}

TEST_P(stores, of_one_transaction_change_together_or_not_at_all) {
  nvm_store* const one = attached("one", NVM_STORE_CREATE);
  nvm_store* const two = attached("two", NVM_STORE_CREATE);
  ASSERT_TRUE(one != nullptr && two != nullptr);
  fill(one, 2);
  fill(two, 2);
  ASSERT_EQ(nvm_tx_begin(pool_), 0);
  for (nvm_store* s : {one, two}) {
    auto* const i = static_cast<stored_item*>(nvm_store_calloc(s, 7, 1, sizeof(stored_item)));
    ASSERT_NE(i, nullptr) << nvm_errormsg();
    EXPECT_EQ(i->number, 0U);
    ASSERT_EQ(nvm_store_set_root(s, i), 0) << nvm_errormsg();
  }
  EXPECT_EQ(nvm_store_detach(one), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_BUSY);
  EXPECT_EQ(nvm_store_create(pool_, "three", nullptr), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_TX_OPEN);
  ASSERT_EQ(nvm_tx_abort(pool_), 0);
  EXPECT_EQ(numbers(one), (std::vector<std::uint64_t>{1, 0}));
  EXPECT_EQ(numbers(two), (std::vector<std::uint64_t>{1, 0}));
  ASSERT_EQ(nvm_tx_begin(pool_), 0);
  auto* const first = static_cast<stored_item*>(nvm_store_get_root(one));
  ASSERT_EQ(nvm_store_set_root(one, first->next), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_free(pool_, first), 0) << nvm_errormsg();
  char* const text = nvm_store_strdup(two, "a text");
  ASSERT_NE(text, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_store_set_root(two, text), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  reopen();
  EXPECT_EQ(numbers(attached("one")), (std::vector<std::uint64_t>{0}));
  EXPECT_STREQ(static_cast<char*>(nvm_store_get_root(attached("two"))), "a text");
}

TEST_P(stores, take_objects_that_grow_within_them) {
  nvm_store* const s = attached("s", NVM_STORE_CREATE);
  ASSERT_NE(s, nullptr);
  ASSERT_EQ(nvm_tx_begin(pool_), 0);
  void* p = nvm_store_alloc(s, 0, 100);
  ASSERT_NE(p, nullptr) << nvm_errormsg();
  std::memset(p, 'x', 100);
  p = nvm_realloc(pool_, p, 0, 300'000);
  ASSERT_NE(p, nullptr) << nvm_errormsg();
  EXPECT_EQ(nvm_store_of(p), s);
  EXPECT_EQ(std::string(static_cast<char*>(p), 100), std::string(100, 'x'));
  ASSERT_EQ(nvm_store_set_root(s, p), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_size_of(pool_, nvm_store_get_root(s)), 300'000U);
}

TEST_P(stores, take_another_ones_name_in_one_step) {
  fill(attached("new", NVM_STORE_CREATE), 5);
  fill(attached("old", NVM_STORE_CREATE), 2);
  EXPECT_EQ(nvm_store_rename(pool_, "new", "old"), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_BUSY);
  EXPECT_NE(std::strstr(nvm_errormsg(), "attached"), nullptr) << nvm_errormsg();
  EXPECT_EQ(nvm_store_delete(pool_, "old"), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_BUSY);
  ASSERT_EQ(nvm_store_detach(nvm_store_find(pool_, "new")), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_store_detach(nvm_store_find(pool_, "old")), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_store_rename(pool_, "new", "old"), 0) << nvm_errormsg();
  EXPECT_EQ(listed(nullptr), std::vector<std::string>{"old"});
  ASSERT_EQ(nvm_store_rename(pool_, "old", "old"), 0) << nvm_errormsg();
  EXPECT_EQ(numbers(attached("old")).size(), 5U);
  nvm_stores_statistics st;
  ASSERT_EQ(nvm_stores_get_statistics(pool_, &st), 0) << nvm_errormsg();
  EXPECT_EQ(st.names, 1U);
  EXPECT_EQ(st.dying, 0U);
  EXPECT_EQ(st.attached, 1U);
  EXPECT_EQ(st.burst, 35U);
}

TEST_P(stores, give_their_pages_back_when_they_are_deleted) {
  ASSERT_EQ(nvm_store_create(pool_, "first", nullptr), 0);  // the catalogue stays
  nvm_pool_info before;
  ASSERT_EQ(nvm_pool_get_info(pool_, &before), 0);
  nvm_store* const s = attached("large", NVM_STORE_CREATE);
  fill(s, 3000);
  nvm_pool_info full;
  ASSERT_EQ(nvm_pool_get_info(pool_, &full), 0);
  EXPECT_GT(full.used_pages, before.used_pages + 50);
  ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_store_detach(s), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  ASSERT_EQ(nvm_store_delete(pool_, "large"), 0) << nvm_errormsg();
  nvm_pool_info after;
  ASSERT_EQ(nvm_pool_get_info(pool_, &after), 0);
  EXPECT_LE(after.used_pages, before.used_pages + 8);
  EXPECT_EQ(listed(nullptr), std::vector<std::string>{"first"});
}

TEST_P(stores, of_a_full_pool_can_be_deleted) {
  close();
  ASSERT_EQ(::unlink(path().c_str()), 0);
  create(2 << 20, 2 << 20);
  unsigned made = 0;
  for (;; ++made) {
    nvm_store* const s = nvm_store_attach(pool_, ("s" + std::to_string(made)).c_str(), NVM_STORE_CREATE);
    if (s == nullptr) break;
    bool full = false;
    for (unsigned i = 0; i < 40 && !full; ++i) {
      ASSERT_EQ(nvm_tx_begin(pool_), 0);
      void* const p = nvm_store_alloc(s, 0, 4000);
      full = p == nullptr;
      if (full) {
        ASSERT_EQ(nvm_tx_abort(pool_), 0);
      } else {
        std::memset(p, 1, 4000);
        ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
      }
    }
    ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
    ASSERT_LT(made, 1000U);
  }
  EXPECT_EQ(nvm_errno(), NVM_E_NO_SPACE) << nvm_errormsg();
  ASSERT_GT(made, 3U);
  for (const std::string& name : listed(nullptr)) {
    ASSERT_EQ(nvm_store_delete(pool_, name.c_str()), 0) << nvm_errormsg();
  }
  EXPECT_TRUE(listed(nullptr).empty());
  EXPECT_NE(attached("again", NVM_STORE_CREATE), nullptr);
}

TEST_P(stores, have_at_most_their_quota) {
  nvm_store_options o{};
  o.quota = 16 * 4096;
  ASSERT_EQ(nvm_store_create(pool_, "small", &o), 0) << nvm_errormsg();
  nvm_store* const s = attached("small");
  ASSERT_NE(s, nullptr);
  unsigned objects = 0;
  for (;; ++objects) {
    ASSERT_EQ(nvm_tx_begin(pool_), 0);
    if (nvm_store_alloc(s, 0, 2000) == nullptr) break;
    ASSERT_EQ(nvm_tx_commit(pool_), 0);
    ASSERT_LT(objects, 64U);
  }
  EXPECT_EQ(nvm_errno(), NVM_E_NO_SPACE) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_abort(pool_), 0);
  nvm_store_info info;
  ASSERT_EQ(nvm_store_stat(pool_, "small", &info), 0);
  EXPECT_LE(info.pages, 16U);
  EXPECT_EQ(info.quota, 16U * 4096);
  EXPECT_EQ(nvm_store_quota(pool_, "small", 4096), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID) << nvm_errormsg();
  ASSERT_EQ(nvm_store_quota(pool_, "small", 0), 0) << nvm_errormsg();
  fill(s, 200);
}

TEST_P(stores, are_attached_as_often_as_they_are_asked_for) {
  nvm_store* const s = attached("s", NVM_STORE_CREATE);
  EXPECT_EQ(attached("s"), s);
  EXPECT_EQ(nvm_store_attach(pool_, "s", NVM_STORE_READ_ONLY), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_BUSY);
  EXPECT_EQ(nvm_store_attach(pool_, "s", 64), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  ASSERT_EQ(nvm_store_detach(s), 0);
  fill(s, 1);
  ASSERT_EQ(nvm_store_detach(s), 0);
  nvm_store* const reads = attached("s", NVM_STORE_READ_ONLY);
  ASSERT_NE(reads, nullptr);
  EXPECT_EQ(numbers(reads), std::vector<std::uint64_t>{0});
  ASSERT_EQ(nvm_tx_begin(pool_), 0);
  EXPECT_EQ(nvm_store_alloc(reads, 0, 8), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_READ_ONLY);
  ASSERT_EQ(nvm_tx_abort(pool_), 0);
  EXPECT_EQ(nvm_store_set_root(reads, nullptr), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_READ_ONLY);
}

TEST_P(stores, name_each_others_objects_by_references) {
  nvm_store* const s = attached("s", NVM_STORE_CREATE);
  fill(s, 2);
  void* const object = nvm_store_get_root(s);
  const nvm_store_ref ref = nvm_store_ref_of(object);
  EXPECT_EQ(ref.store, nvm_store_number(s));
  EXPECT_EQ(nvm_store_at(pool_, ref), object);
  EXPECT_EQ(nvm_store_at(pool_, {}), nullptr);
  EXPECT_EQ(nvm_store_at(pool_, {ref.store, ref.place + 16}), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_BAD_POINTER);
  EXPECT_EQ(nvm_store_at(pool_, {ref.store + 100, ref.place}), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_NOT_FOUND);
  int local = 0;
  EXPECT_EQ(nvm_store_ref_of(&local).store, 0U);
  EXPECT_EQ(nvm_errno(), NVM_E_BAD_POINTER);
  ASSERT_EQ(nvm_store_detach(s), 0);
  EXPECT_EQ(nvm_store_at(pool_, ref), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_NOT_FOUND);
  EXPECT_EQ(nvm_store_at(pool_, {nvm_store_number(attached("s")), ref.place}), object);
}

TEST_P(stores, ask_for_rights_as_files_do) {
  nvm_store_options o{};
  o.mode = 0640;
  ASSERT_EQ(nvm_store_create(pool_, "s", &o), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_store_create(pool_, "other", nullptr), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_store_chmod(pool_, "s", 01777), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  const bool superuser = geteuid() == 0;
  constexpr uid_t stranger = 65534;
  if (superuser) {
    ASSERT_EQ(setegid(stranger), 0);
    ASSERT_EQ(seteuid(stranger), 0);
  } else {
    ASSERT_EQ(nvm_store_chmod(pool_, "s", 0), 0) << nvm_errormsg();
  }
  errno = 0;
  EXPECT_EQ(nvm_store_attach(pool_, "s", 0), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_SYSTEM) << nvm_errormsg();
  EXPECT_EQ(errno, EACCES);
  EXPECT_NE(std::strstr(nvm_errormsg(), superuser ? "mode 0640" : "mode 0000"), nullptr) << nvm_errormsg();
  EXPECT_EQ(nvm_store_attach(pool_, "s", NVM_STORE_READ_ONLY), nullptr);
  if (superuser) {
    for (const auto& call :
         {nvm_store_delete(pool_, "s"), nvm_store_rename(pool_, "s", "t"), nvm_store_chmod(pool_, "s", 0777),
          nvm_store_chown(pool_, "s", stranger, stranger), nvm_store_quota(pool_, "s", 0)}) {
      EXPECT_EQ(call, -1);
      EXPECT_EQ(nvm_errno(), NVM_E_SYSTEM) << nvm_errormsg();
    }
    ASSERT_EQ(seteuid(0), 0);
    ASSERT_EQ(setegid(0), 0);
    ASSERT_EQ(nvm_store_chown(pool_, "s", stranger, UINT32_MAX), 0) << nvm_errormsg();
    nvm_store_info info;
    ASSERT_EQ(nvm_store_stat(pool_, "s", &info), 0);
    EXPECT_EQ(info.owner, stranger);
    EXPECT_EQ(info.group, 0U);
    ASSERT_EQ(seteuid(stranger), 0);
    nvm_store* const mine = nvm_store_attach(pool_, "s", 0);
    EXPECT_NE(mine, nullptr) << nvm_errormsg();
    if (mine != nullptr) {
      EXPECT_EQ(nvm_store_detach(mine), 0);
    }
    EXPECT_EQ(nvm_store_chmod(pool_, "s", 0400), 0) << nvm_errormsg();
    EXPECT_EQ(nvm_store_attach(pool_, "s", 0), nullptr);
    EXPECT_NE(nvm_store_attach(pool_, "s", NVM_STORE_READ_ONLY), nullptr) << nvm_errormsg();
    ASSERT_EQ(seteuid(0), 0);
  }
}

TEST_P(stores, of_a_pool_that_is_open_read_only_can_be_read) {
  fill(attached("s", NVM_STORE_CREATE), 4);
  reopen(true);
  EXPECT_EQ(nvm_store_attach(pool_, "s", 0), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_READ_ONLY);
  nvm_store* const s = attached("s", NVM_STORE_READ_ONLY);
  ASSERT_NE(s, nullptr);
  EXPECT_EQ(numbers(s).size(), 4U);
  EXPECT_EQ(nvm_store_create(pool_, "t", nullptr), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_READ_ONLY);
  EXPECT_EQ(nvm_store_delete(pool_, "s"), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_READ_ONLY);
  EXPECT_EQ(listed(nullptr), std::vector<std::string>{"s"});
}

TEST_P(stores, burst_as_the_pool_was_told) {
  nvm_stores_options o{};
  o.burst = 4;
  ASSERT_EQ(nvm_stores_configure(pool_, &o), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_stores_configure(pool_, &o), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_EXISTS);
  for (unsigned i = 0; i < 30; ++i) ASSERT_EQ(nvm_store_create(pool_, std::to_string(i).c_str(), nullptr), 0);
  nvm_stores_statistics st;
  ASSERT_EQ(nvm_stores_get_statistics(pool_, &st), 0);
  EXPECT_EQ(st.burst, 4U);
  EXPECT_EQ(st.names, 30U);
}

// ---- protection -----------------------------------------------------------------------------------------------------

sigjmp_buf after_trap;
void trapped(int) { siglongjmp(after_trap, 1); }

class protected_stores : public stores {
 protected:
  void SetUp() override {
    stores::SetUp();
    struct sigaction action{};
    action.sa_handler = trapped;
    sigemptyset(&action.sa_mask);
    ASSERT_EQ(sigaction(SIGSEGV, &action, &before_), 0);
  }
  void TearDown() override {
    sigaction(SIGSEGV, &before_, nullptr);
    stores::TearDown();
  }
  static bool store_traps(volatile char* at) {
    if (sigsetjmp(after_trap, 1) != 0) return true;
    *at = static_cast<char>(0x5A);
    return false;
  }
  static bool load_traps(const volatile char* at) {
    if (sigsetjmp(after_trap, 1) != 0) return true;
    (void)*at;
    return false;
  }
  std::vector<char> file_bytes() const {
    std::ifstream in{path(), std::ios::binary};
    return {std::istreambuf_iterator<char>{in}, {}};
  }

 private:
  struct sigaction before_{};
};
INSTANTIATE_TEST_SUITE_P(on, protected_stores, testing::ValuesIn(kinds_of_build(store_kinds)),
                         [](const auto& i) { return i.param.name; });

TEST_P(protected_stores, ten_thousand_stray_stores_trap_and_change_no_byte) {
  constexpr unsigned count = 20;
  std::vector<char*> closed;  // objects of detached stores
  std::vector<char*> read_only;
  for (unsigned i = 0; i < count; ++i) {
    nvm_store* const s = attached(("s" + std::to_string(i)).c_str(), NVM_STORE_CREATE);
    ASSERT_NE(s, nullptr);
    fill(s, 100, i);
    for (auto* o = static_cast<stored_item*>(nvm_store_get_root(s)); o != nullptr; o = o->next) {
      (i % 2 == 0 ? closed : read_only).push_back(reinterpret_cast<char*>(o));
    }
    ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
  }
  for (unsigned i = 1; i < count; i += 2)
    ASSERT_NE(attached(("s" + std::to_string(i)).c_str(), NVM_STORE_READ_ONLY), nullptr);
  nvm_stores_statistics st;
  ASSERT_EQ(nvm_stores_get_statistics(pool_, &st), 0);
  EXPECT_EQ(st.given_up, 0U);
  EXPECT_EQ(st.left_open_bytes, 0U);
  EXPECT_GE(st.closed_bytes, count / 2 * 4096U);
  EXPECT_GE(st.read_only_bytes, count / 2 * 4096U);
  const auto before = file_bytes();
  std::mt19937_64 random{seed_from_environment()};
  unsigned loads = 0;
  for (unsigned i = 0; i < 10'000; ++i) {
    auto& from = i % 2 == 0 ? closed : read_only;
    // Anywhere in the page of an object.
    const auto page = reinterpret_cast<std::uintptr_t>(from[random() % from.size()]) / 4096 * 4096;
    auto* const at = reinterpret_cast<char*>(page + random() % 4096);
    ASSERT_TRUE(store_traps(at)) << i;
    loads += load_traps(at) ? 1 : 0;
  }
  EXPECT_EQ(loads, 5'000U) << "what is detached cannot be read, what is attached read-only can";
  // On ssd the file gets what is in the log, whenever that is, and nothing from memory.
  if (!GetParam().ssd) {
    EXPECT_EQ(file_bytes(), before);
  }
  for (unsigned i = 1; i < count; i += 2) {
    nvm_store* const s = nvm_store_find(pool_, ("s" + std::to_string(i)).c_str());
    EXPECT_EQ(numbers(s).size(), 100U);
    ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
  }
  for (unsigned i = 0; i < count; ++i) EXPECT_EQ(numbers(attached(("s" + std::to_string(i)).c_str())).size(), 100U);
}

TEST_P(protected_stores, are_so_from_the_open_on_and_accessible_to_walks) {
  nvm_store* s = attached("s", NVM_STORE_CREATE);
  fill(s, 10);
  reopen();
  s = attached("s");
  auto* const object = static_cast<char*>(nvm_store_get_root(s));
  reopen();  // at the same address
  EXPECT_TRUE(load_traps(object));
  std::uint64_t visited = 0;
  ASSERT_EQ(nvm_pool_each(
                pool_,
                [](void*, std::uint32_t type, std::size_t, void* n) {
                  if (type == 7) ++*static_cast<std::uint64_t*>(n);
                  return 0;
                },
                &visited),
            0)
      << nvm_errormsg();
  EXPECT_EQ(visited, 10U);
  EXPECT_TRUE(load_traps(object));
  nvm_stores_options o{};
  o.protection = NVM_STORES_UNPROTECTED;
  ASSERT_EQ(nvm_stores_configure(pool_, &o), 0) << nvm_errormsg();
  EXPECT_FALSE(load_traps(object));
  o.protection = NVM_STORES_PROTECTED;
  ASSERT_EQ(nvm_stores_configure(pool_, &o), 0) << nvm_errormsg();
  EXPECT_TRUE(load_traps(object));
}

TEST_P(protected_stores, wait_for_transactions_that_may_still_write) {
  nvm_store* const s = attached("s", NVM_STORE_CREATE);
  fill(s, 2);
  auto* const object = static_cast<stored_item*>(nvm_store_get_root(s));
  if (announces()) {
    ASSERT_EQ(nvm_tx_begin(pool_), 0);
    ASSERT_EQ(nvm_tx_log(&object->number, 8), 0) << nvm_errormsg();
    object->number = 77;
    ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
    object->number = 78;  // it is open still
    ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  } else {
    ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
  }
  nvm_stores_statistics st;
  ASSERT_EQ(nvm_stores_get_statistics(pool_, &st), 0);
  EXPECT_TRUE(load_traps(reinterpret_cast<char*>(object)));
  const auto found = numbers(attached("s", NVM_STORE_READ_ONLY));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0], announces() ? 78U : 1U);
}

// ---- threads --------------------------------------------------------------------------------------------------------

// Each place at which an object could be, aligned ones too, by which calls look at words before it.
TEST_P(stores, have_no_object_at_any_address_while_they_are_detached) {
  nvm_store* const s = attached("s", NVM_STORE_CREATE);
  fill(s, 100);
  char* const page =
      static_cast<char*>(nvm_store_get_root(s)) - reinterpret_cast<std::uintptr_t>(nvm_store_get_root(s)) % 4096;
  ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
  for (char* at = page; at < page + 4096; at += 16) {
    EXPECT_EQ(nvm_size_of(pool_, at), 0U);
    EXPECT_EQ(nvm_errno(), NVM_E_BAD_POINTER) << nvm_errormsg();
    ASSERT_EQ(nvm_tx_begin(pool_), 0);
    EXPECT_EQ(nvm_free(pool_, at), -1);
    EXPECT_EQ(nvm_errno(), NVM_E_BAD_POINTER) << nvm_errormsg();
    nvm_tx_abort(pool_);
    EXPECT_NE(nvm_stm_run(pool_, [](nvm_stm* tx, void* p) { return nvm_stm_free(tx, p); }, at), 0);
    EXPECT_EQ(nvm_errno(), NVM_E_BAD_POINTER) << nvm_errormsg();
  }
}

TEST_P(stores, are_made_filled_and_deleted_by_four_threads) {
  std::mutex lock;
  std::string failures;
  const auto must = [&](bool good, const char* what) {
    if (good) return;
    const std::lock_guard guard{lock};
    failures += std::string{what} + ": " + nvm_errormsg() + "\n";
  };
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random{seed_from_environment() * 4 + t};
      for (unsigned i = 0; i < 60; ++i) {
        const std::string name = "t" + std::to_string(t) + "/" + std::to_string(random() % 5);
        nvm_store* const s = nvm_store_attach(pool_, name.c_str(), NVM_STORE_CREATE);
        must(s != nullptr, "an attach");
        if (s == nullptr) return;
        for (unsigned k = 0; k < 5; ++k) {
          must(nvm_tx_begin(pool_) == 0, "a begin");
          auto* const one = static_cast<stored_item*>(nvm_store_alloc(s, 7, sizeof(stored_item)));
          must(one != nullptr, "an allocation");
          if (one == nullptr) {
            must(nvm_tx_abort(pool_) == 0, "an abort");
            return;
          }
          *one = {k, static_cast<stored_item*>(nvm_store_get_root(s)), ""};
          must(nvm_store_set_root(s, one) == 0, "a root");
          must(nvm_tx_commit(pool_) == 0, "a commit");
        }
        must(numbers(s).size() % 5 == 0, "the items");
        must(nvm_store_detach(s) == 0, "a detach");
        if (random() % 2 == 0) must(nvm_store_delete(pool_, name.c_str()) == 0, "a deletion");
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(failures, "");
  for (const std::string& name : listed(nullptr)) {
    EXPECT_EQ(numbers(attached(name.c_str())).size() % 5, 0U) << name;
  }
}

TEST(stores_of_other_pools, are_refused_where_there_can_be_none) {
  const scratch_folder folder{"stores", false};
  nvm_pool_options o{};
  o.size = 8 << 20;
  o.medium = direct_medium();
  o.engine = NVM_ENGINE_LOG;
  NVM_POOL* const pool = nvm_pool_create_with(folder.path("pool").c_str(), &o);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  EXPECT_EQ(nvm_store_create(pool, "s", nullptr), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_ENGINE) << nvm_errormsg();
  EXPECT_EQ(nvm_store_create(nullptr, "s", nullptr), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  EXPECT_EQ(nvm_store_detach(nullptr), -1);
  EXPECT_EQ(nvm_pool_close(pool), 0);
}

}  // namespace
}  // namespace nvm::tests
