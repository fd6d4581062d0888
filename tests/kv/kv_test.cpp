// Promises of stores beyond those of a map: names, limits, full pools, batches, cursors that outlive a change,
// transactions of the caller, drops and renames.
#include <sys/wait.h>

#include <cstring>
#include <set>
#include <stdexcept>

#include "../sanitized.hpp"
#include "kv_testing.hpp"
#include "nvm/stm.h"

namespace nvm::tests {
namespace {

class stores : public testing::TestWithParam<ground_and_index> {
 protected:
  const pool_place place{GetParam().where};
  pool p = place.create(std::size_t{1} << 20);
  kv open(const char* name = "store") { return open_store(p, name, GetParam().index); }
  static std::string key(std::uint64_t n) { return number_key(n); }
};
INSTANTIATE_TEST_SUITE_P(everywhere, stores, testing::ValuesIn(kinds_of_build(grounds_and_indexes())), name_of);

TEST_P(stores, keep_their_names_and_leave_the_root_alone) {
  const std::string longest(NVM_KV_NAME_MAX, 'n');
  for (const char* name : {"a", "b", longest.c_str()}) {
    kv s = open(name);
    EXPECT_TRUE(s.put(key(1), name));
  }
  EXPECT_EQ(nvm_pool_get_root(p.handle()), nullptr);
  ASSERT_TRUE(p.close());
  p = place.open();
  std::vector<std::string> names;
  ASSERT_EQ(nvm_kv_each(
                p.handle(),
                [](const char* name, enum nvm_kv_index, void* to) {
                  static_cast<std::vector<std::string>*>(to)->emplace_back(name);
                  return 0;
                },
                &names),
            0);
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b", longest}));
  for (const std::string& name : names) {
    const auto s = kv::open(p, name.c_str());
    ASSERT_TRUE(s) << nvm_errormsg();
    EXPECT_EQ(s->name(), name);
    EXPECT_EQ(s->index(), GetParam().index);
    EXPECT_EQ(*s->get(key(1)), name);
  }
}

TEST_P(stores, refuse_names_modes_and_another_index) {
  nvm_kv_options o{};
  o.mode = NVM_KV_OPEN_ONLY;
  EXPECT_FALSE(kv::open(p, "store", o));
  EXPECT_EQ(nvm_errno(), NVM_E_NOT_FOUND);
  EXPECT_NE(std::string{nvm_errormsg()}.find("\"store\""), std::string::npos);
  EXPECT_FALSE(kv::open(p, ""));
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  EXPECT_FALSE(kv::open(p, std::string(NVM_KV_NAME_MAX + 1, 'x').c_str()));
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  for (const bool is_open : {true, false}) {
    std::optional<kv> s = open();
    if (!is_open) s.reset();
    o.mode = NVM_KV_CREATE_ONLY;
    EXPECT_FALSE(kv::open(p, "store", o));
    EXPECT_EQ(nvm_errno(), NVM_E_EXISTS);
    const auto other = GetParam().index == NVM_KV_LIST ? NVM_KV_HASH : NVM_KV_LIST;
    EXPECT_FALSE(kv::open(p, "store", other));
    EXPECT_EQ(nvm_errno(), NVM_E_TYPE_MISMATCH);
    const std::string words = nvm_errormsg();
    EXPECT_NE(words.find(nvm_kv_index_name(other)), std::string::npos) << words;
    EXPECT_NE(words.find(nvm_kv_index_name(GetParam().index)), std::string::npos) << words;
    EXPECT_TRUE(kv::open(p, "store"));
  }
  o.mode = 3;
  EXPECT_FALSE(kv::open(p, "store", o));
  o = {};
  o.index = 9;
  EXPECT_FALSE(kv::open(p, "store", o));
  o = {};
  o.reserved[4] = 1;
  EXPECT_FALSE(kv::open(p, "store", o));
}

TEST_P(stores, opened_twice_are_one) {
  kv a = open();
  {
    kv b = open();
    EXPECT_TRUE(b.put(key(1), "x"));
  }
  EXPECT_EQ(*a.get(key(1)), "x");
}

TEST_P(stores, are_busy_in_a_second_process) {
  kv s = open();
  EXPECT_TRUE(s.put(key(1), "x"));
  const pid_t child = ::fork();
  if (child == 0) {
    NVM_POOL* again = nvm_pool_open(place.path().c_str());
    _exit(again == nullptr && nvm_errno() == NVM_E_BUSY ? 0 : 1);
  }
  int ended = 0;
  ASSERT_EQ(::waitpid(child, &ended, 0), child);
  EXPECT_EQ(ended, 0);
}

TEST_P(stores, refuse_keys_and_values_over_their_limits_and_change_nothing) {
  kv s = open();
  ASSERT_TRUE(s.put(key(1), "one"));
  const std::string long_key(NVM_KV_KEY_MAX + 1, 'k');
  EXPECT_EQ(s.put(long_key, "v").code(), NVM_E_TOO_LARGE);
  EXPECT_NE(std::string{nvm_errormsg()}.find("65536 bytes: at most 65535"), std::string::npos) << nvm_errormsg();
  EXPECT_EQ(s.get(long_key).code(), NVM_E_TOO_LARGE);
  EXPECT_EQ(s.remove(long_key).code(), NVM_E_TOO_LARGE);
  EXPECT_EQ(nvm_kv_put(s.handle(), "12345678", 8, "", std::size_t{NVM_KV_VALUE_MAX} + 1), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_TOO_LARGE);
  EXPECT_EQ(nvm_kv_put(s.handle(), nullptr, 8, "", 0), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  EXPECT_EQ(nvm_kv_put(s.handle(), "12345678", 8, nullptr, 1), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  EXPECT_EQ(s.put(key(1), "two", 8).code(), NVM_E_INVALID);
  EXPECT_EQ(s.put(key(1), "two", NVM_KV_PUT_ABSENT | NVM_KV_PUT_NEW).code(), NVM_E_INVALID);
  if (GetParam().index == NVM_KV_RBTREE) {
    EXPECT_EQ(s.put("short", "v").code(), NVM_E_INVALID);
  } else {
    const std::string longest(NVM_KV_KEY_MAX, 'k');
    EXPECT_TRUE(s.put(longest, "v")) << nvm_errormsg();
    EXPECT_EQ(*s.get(longest), "v");
    EXPECT_TRUE(s.remove(longest));
  }
  EXPECT_EQ(*s.size(), 1U);
  EXPECT_EQ(*s.get(key(1)), "one");
}

TEST_P(stores, take_values_of_megabytes) {
  const pool_place roomy{GetParam().where};
  pool q = roomy.create();
  kv s = open_store(q, "store", GetParam().index);
  // On ssd a record of the log has at most half of it.
  std::string value((std::size_t{3} << 20) / (place.ssd() ? 2 : 1), '\0');
  for (std::size_t i = 0; i < value.size(); ++i) value[i] = static_cast<char>(i * 7 + i / 1000);
  ASSERT_TRUE(s.put(key(1), value)) << nvm_errormsg();
  EXPECT_TRUE(*s.get(key(1)) == value);
  ASSERT_TRUE(s.update(key(1), [](std::string& v) { v[1 << 20] = '!'; }));
  value[1 << 20] = '!';
  EXPECT_TRUE(*s.get(key(1)) == value);
  ASSERT_TRUE(s.put(key(1), "small"));
  EXPECT_EQ(*s.get(key(1)), "small");
  EXPECT_EQ(s.statistics()->value_bytes, 5U) << nvm_errormsg();
}

TEST_P(stores, undo_a_whole_batch_that_fills_the_pool_and_stay_usable) {
  const pool_place small{GetParam().where};
  pool q = small.create(std::size_t{1} << 20, std::size_t{1} << 20);
  kv s = open_store(q, "store", GetParam().index);
  ASSERT_TRUE(s.put(key(0), "before")) << nvm_errormsg();
  kv_batch batch;
  batch.put(s, key(0), "changed");
  for (std::uint64_t i = 1; i < 3000; ++i) batch.put(s, key(i), std::string(1000, 'v'), NVM_KV_PUT_NEW);
  const auto done = batch.commit();
  EXPECT_TRUE(done.code() == NVM_E_NO_SPACE || done.code() == NVM_E_LOG_FULL) << nvm_errormsg();
  EXPECT_GT(batch.failed(), 0U);
  EXPECT_EQ(*s.get(key(0)), "before");
  EXPECT_EQ(*s.size(), 1U);
  EXPECT_TRUE(s.statistics()) << nvm_errormsg();
  // Until one by one it is full, too.
  std::uint64_t n = 1;
  while (s.put(key(n), std::string(1000, 'v'))) ++n;
  EXPECT_EQ(nvm_errno(), NVM_E_NO_SPACE) << nvm_errormsg();
  EXPECT_GT(n, 300U);
  EXPECT_EQ(*s.size(), n);
  ASSERT_TRUE(s.statistics()) << nvm_errormsg();
  for (std::uint64_t i = 1; i < n; ++i) ASSERT_TRUE(s.remove(key(i))) << nvm_errormsg();
  EXPECT_TRUE(s.put(key(7), std::string(1000, 'w'))) << nvm_errormsg();
  EXPECT_EQ(*s.size(), 2U);
}

TEST_P(stores, name_the_operation_that_a_batch_fails_at) {
  kv s = open();
  ASSERT_TRUE(s.put(key(1), "one"));
  kv_batch batch;
  batch.put(s, key(2), "two").remove(s, key(1)).put(s, key(3), "", NVM_KV_PUT_PRESENT).put(s, key(4), "four");
  EXPECT_EQ(batch.commit().code(), NVM_E_NOT_FOUND);
  EXPECT_EQ(batch.failed(), 2U);
  EXPECT_EQ(*s.get(key(1)), "one");
  EXPECT_EQ(*s.size(), 1U);
  batch.clear();
  batch.put(s, key(2), "two").put(s, std::string(70000, 'k'), "");
  EXPECT_EQ(batch.commit().code(), NVM_E_TOO_LARGE);
  EXPECT_EQ(batch.failed(), 1U);
  EXPECT_FALSE(s.contains(key(2)));
}

TEST_P(stores, change_together_in_a_batch) {
  kv a = open("a");
  kv b = open("b");
  ASSERT_TRUE(a.put(key(1), "x"));
  kv_batch move;
  move.remove(a, key(1)).put(b, key(1), "x");
  if (GetParam().index == NVM_KV_REGIONS) {
    EXPECT_EQ(move.commit().code(), NVM_E_INVALID);
    EXPECT_EQ(move.failed(), 1U);
    EXPECT_TRUE(a.contains(key(1)));
    EXPECT_FALSE(b.contains(key(1)));
    return;
  }
  ASSERT_TRUE(move.commit()) << nvm_errormsg();
  EXPECT_FALSE(a.contains(key(1)));
  EXPECT_EQ(*b.get(key(1)), "x");
  const pool_place elsewhere{GetParam().where};
  pool q = elsewhere.create(std::size_t{1} << 20);
  kv c = open_store(q, "c", GetParam().index);
  kv_batch wrong;
  wrong.put(a, key(1), "x").put(c, key(1), "x");
  EXPECT_EQ(wrong.commit().code(), NVM_E_INVALID);
  EXPECT_FALSE(a.contains(key(1)));
}

TEST_P(stores, take_part_in_a_transaction_of_the_caller) {
  if (GetParam().index == NVM_KV_REGIONS) return;  // regions_test.cpp
  kv a = open("a");
  kv b = open("b");
  ASSERT_TRUE(a.put(key(1), "x"));
  struct both {
    nvm_kv* a;
    nvm_kv* b;
    int answer;
    int nested;
  } c{a.handle(), b.handle(), 5, 0};
  const auto body = [](nvm_stm*, void* raw) {
    auto* k = static_cast<both*>(raw);
    const std::string one = number_key(1);
    if (nvm_kv_put(k->b, one.data(), 8, "y", 1) != 0) return 1;
    if (nvm_kv_remove(k->a, one.data(), 8) != 1) return 2;
    // A call that fails takes back itself alone.
    k->nested = nvm_kv_put_with(k->a, one.data(), 8, "z", 1, NVM_KV_PUT_PRESENT);
    if (nvm_kv_get(k->b, one.data(), 8, nullptr, 0, nullptr) != 1) return 3;
    return k->answer;
  };
  EXPECT_EQ(nvm_stm_run(p.handle(), body, &c), 5);
  EXPECT_EQ(*a.get(key(1)), "x");
  EXPECT_FALSE(b.contains(key(1)));
  c.answer = 0;
  EXPECT_EQ(nvm_stm_run(p.handle(), body, &c), 0) << nvm_errormsg();
  EXPECT_EQ(c.nested, -1);
  EXPECT_FALSE(a.contains(key(1)));
  EXPECT_EQ(*b.get(key(1)), "y");
  EXPECT_TRUE(a.statistics() && b.statistics()) << nvm_errormsg();
}

TEST_P(stores, cannot_be_opened_or_dropped_inside_a_transaction) {
  open();
  struct inside {
    NVM_POOL* pool;
    int codes[3];
  } c{p.handle(), {}};
  EXPECT_EQ(nvm_stm_run(
                p.handle(),
                [](nvm_stm*, void* raw) {
                  auto* k = static_cast<inside*>(raw);
                  k->codes[0] = nvm_kv_open(k->pool, "store", nullptr) == nullptr ? nvm_errno() : 0;
                  k->codes[1] = nvm_kv_drop(k->pool, "store") != 0 ? nvm_errno() : 0;
                  k->codes[2] = nvm_kv_rename(k->pool, "store", "other") != 0 ? nvm_errno() : 0;
                  return 0;
                },
                &c),
            -1);
  EXPECT_EQ(nvm_errno(), NVM_E_TX_OPEN) << nvm_errormsg();
  for (const int code : c.codes) EXPECT_EQ(code, NVM_E_TX_OPEN);
  EXPECT_TRUE(open().put(key(1), "there"));
}

TEST_P(stores, give_values_to_visits_that_may_use_them) {
  kv s = open();
  ASSERT_TRUE(s.put(key(1), "first"));
  std::string seen;
  EXPECT_TRUE(s.visit(key(1), [&](std::string_view value) {
    ASSERT_TRUE(s.put(key(2), "second"));
    EXPECT_EQ(*s.get(key(2)), "second");
    seen = value;  // not overwritten by the calls in between
  }));
  EXPECT_EQ(seen, "first");
  const auto none = s.visit(key(9), [](std::string_view) { FAIL(); });
  EXPECT_FALSE(none);
  EXPECT_EQ(none.code(), NVM_OK);
  EXPECT_THROW((void)s.visit(key(1), [](std::string_view) { throw std::runtime_error{"mine"}; }), std::runtime_error);
  EXPECT_EQ(*s.get(key(1)), "first");
}

TEST_P(stores, give_values_to_visits_inside_of_visits) {
  kv s = open();
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(s.put(key(i), std::string(500, static_cast<char>('a' + i))));
  unsigned met = 0;
  EXPECT_TRUE(s.visit(key(0), [&](std::string_view outer) {
    EXPECT_TRUE(s.visit(key(1), [&](std::string_view inner) {
      EXPECT_TRUE(s.update(key(2), [](std::string& v) { v[0] = 'x'; }));
      EXPECT_EQ(inner, std::string(500, 'b'));
      ++met;
    }));
    EXPECT_EQ(outer, std::string(500, 'a'));
    ++met;
  }));
  EXPECT_EQ(met, 2U);
}

TEST_P(stores, leave_a_value_alone_when_its_edit_throws_or_declines) {
  kv s = open();
  ASSERT_TRUE(s.put(key(1), "first"));
  EXPECT_THROW((void)s.update(key(1),
                              [](std::string& v) {
                                v = "other";
                                throw std::runtime_error{"mine"};
                              }),
               std::runtime_error);
  EXPECT_EQ(*s.get(key(1)), "first");
  EXPECT_TRUE(s.update(key(1), [](std::string& v) {
    v = "other";
    return false;
  }));
  EXPECT_EQ(*s.get(key(1)), "first");
  EXPECT_TRUE(s.update(key(1), [](std::string& v) { v.append(10000, 'x'); })) << nvm_errormsg();
  EXPECT_EQ(s.get(key(1))->size(), 10005U);
  EXPECT_TRUE(s.update(key(1), [](std::string& v) { v.resize(2); }));
  EXPECT_EQ(*s.get(key(1)), "fi");
  EXPECT_FALSE(s.update(key(2), [](std::string&) { FAIL(); }));
  EXPECT_TRUE(s.statistics()) << nvm_errormsg();
}

TEST_P(stores, let_a_cursor_outlive_every_change) {
  kv s = open();
  std::set<std::string> stays;
  for (std::uint64_t i = 0; i < 300; ++i) {
    ASSERT_TRUE(s.put(key(i * 10), "old"));
    if (i % 2 == 0) stays.insert(key(i * 10));
  }
  std::set<std::string> met;
  std::uint64_t i = 0;
  kv_cursor cursor = s.entries();
  while (const auto e = cursor.next()) {
    EXPECT_TRUE(met.emplace(e->key).second) << "met twice";
    // All odd ones go while the cursor is on its way, itself included, and others come.
    if (i < 150) {
      ASSERT_EQ(s.remove(key((i * 2 + 1) * 10)).code(), NVM_OK);
      ASSERT_TRUE(s.put(key(i * 10 + 5), "new"));
      ASSERT_TRUE(s.put(key(i * 20), std::string(200, 'v')));
    }
    ++i;
  }
  EXPECT_EQ(cursor.code(), NVM_OK) << nvm_errormsg();
  for (const std::string& k : stays) EXPECT_TRUE(met.count(k) != 0);
  EXPECT_TRUE(s.statistics()) << nvm_errormsg();
  // Everything goes under a cursor.
  kv_cursor last = s.entries();
  ASSERT_TRUE(last.next());
  std::vector<std::string> all;
  for (const auto& e : s.entries()) all.emplace_back(e.key);
  for (const std::string& k : all) ASSERT_TRUE(s.remove(k));
  while (last.next()) continue;
  EXPECT_EQ(last.code(), NVM_OK) << nvm_errormsg();
}

TEST_P(stores, refuse_ranges_where_there_is_no_order) {
  kv s = open();
  ASSERT_TRUE(s.put(key(1), "x"));
  kv_range r;
  r.from = "a";
  const bool ordered = GetParam().index == NVM_KV_BTREE || GetParam().index == NVM_KV_RBTREE;
  EXPECT_EQ(s.entries(r).code(), ordered ? NVM_OK : NVM_E_INVALID);
  r = {};
  r.backward = true;
  EXPECT_EQ(s.entries(r).code(), ordered ? NVM_OK : NVM_E_INVALID);
}

TEST_P(stores, scan_until_told_to_stop) {
  kv s = open();
  for (std::uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(s.put(key(i), "v"));
  unsigned seen = 0;
  EXPECT_EQ(nvm_kv_scan(
                s.handle(), nullptr,
                [](const nvm_kv_entry* e, void* n) {
                  EXPECT_EQ(e->key_bytes, 8U);
                  return ++*static_cast<unsigned*>(n) == 40 ? 7 : 0;
                },
                &seen),
            7);
  EXPECT_EQ(seen, 40U);
}

TEST_P(stores, are_dropped_with_all_that_is_in_them) {
  {
    kv s = open("doomed");
    kv t = open("other");
    for (std::uint64_t i = 0; i < 400; ++i) ASSERT_TRUE(s.put(key(i * 3), std::string(i, 'v')));
    ASSERT_TRUE(t.put(key(1), "x"));
    EXPECT_EQ(nvm_kv_drop(p.handle(), "doomed"), -1);
    EXPECT_EQ(nvm_errno(), NVM_E_BUSY);
  }
  ASSERT_EQ(nvm_kv_drop(p.handle(), "doomed"), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_kv_drop(p.handle(), "doomed"), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_NOT_FOUND);
  ASSERT_EQ(nvm_kv_drop(p.handle(), "other"), 0) << nvm_errormsg();
  // What is left are the header of the directory.
  std::size_t objects = 0;
  (void)nvm_pool_each(
      p.handle(),
      [](void*, std::uint32_t, std::size_t, void* n) {
        ++*static_cast<std::size_t*>(n);
        return 0;
      },
      &objects);
  EXPECT_EQ(objects, 1U);
}

TEST_P(stores, take_the_place_of_others_by_name) {
  {
    kv a = open("a");
    kv b = open("b");
    ASSERT_TRUE(a.put(key(1), "a"));
    ASSERT_TRUE(b.put(key(1), "b"));
    EXPECT_EQ(nvm_kv_rename(p.handle(), "a", "b"), -1);
    EXPECT_EQ(nvm_errno(), NVM_E_BUSY);
  }
  ASSERT_EQ(nvm_kv_rename(p.handle(), "a", "b"), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_kv_rename(p.handle(), "a", "b"), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_NOT_FOUND);
  EXPECT_EQ(*open("b").get(key(1)), "a");
  ASSERT_EQ(nvm_kv_rename(p.handle(), "b", "b"), 0);
  ASSERT_EQ(nvm_kv_rename(p.handle(), "b", "c"), 0);
  EXPECT_EQ(*open("c").get(key(1)), "a");
}

// A generation a minute: filled beside the store, then put in its place.
TEST_P(stores, that_went_long_ago_are_refused_and_so_are_cursors_over_them) {
  nvm_kv* old = nullptr;
  nvm_kv_cursor* over = nullptr;
  {
    kv first = open("main");
    ASSERT_TRUE(first.put(key(1), "a"));
    old = first.handle();
    over = nvm_kv_cursor_open(old, nullptr);
    ASSERT_NE(over, nullptr) << nvm_errormsg();
  }
  for (int i = 0; i < 80; ++i) {
    ASSERT_TRUE(open("next").put(key(1), "b"));
    ASSERT_EQ(nvm_kv_rename(p.handle(), "next", "main"), 0) << nvm_errormsg();
  }
  const std::string k = key(1);
  std::size_t bytes = 0;
  EXPECT_EQ(nvm_kv_get(old, k.data(), k.size(), nullptr, 0, &bytes), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  EXPECT_STREQ(nvm_kv_name(old), "main");
  EXPECT_EQ(nvm_kv_pool(old), p.handle());
  EXPECT_EQ(nvm_kv_close(old), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  nvm_kv_entry e;
  EXPECT_EQ(nvm_kv_cursor_next(over, &e), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  nvm_kv_cursor_close(over);
  EXPECT_EQ(*open("main").get(key(1)), "b");
}

TEST_P(stores, can_be_read_where_the_pool_is_open_read_only) {
  {
    kv s = open();
    for (std::uint64_t i = 0; i < 50; ++i) ASSERT_TRUE(s.put(key(i), "v"));
  }
  ASSERT_TRUE(p.close());
  auto o = place.options();
  o.size = o.capacity = 0;
  o.read_only = 1;
  auto q = pool::open(place.path().c_str(), o);
  ASSERT_TRUE(q) << nvm_errormsg();
  auto s = kv::open(*q, "store");
  ASSERT_TRUE(s) << nvm_errormsg();
  EXPECT_EQ(*s->get(key(7)), "v");
  EXPECT_TRUE(s->statistics()) << nvm_errormsg();
  EXPECT_EQ(s->put(key(7), "w").code(), NVM_E_READ_ONLY) << nvm_errormsg();
  EXPECT_EQ(s->put(key(77), "w").code(), NVM_E_READ_ONLY) << nvm_errormsg();
  EXPECT_FALSE(kv::open(*q, "new"));
  EXPECT_EQ(nvm_errno(), NVM_E_READ_ONLY) << nvm_errormsg();
  s.reset();
  ASSERT_TRUE(q->close());
  p = place.open();
}

TEST(lists, show_the_newest_entry_first) {
  const pool_place place{grounds[0]};
  pool p = place.create();
  kv s = open_store(p, "list", NVM_KV_LIST);
  for (const char* k : {"one", "two", "three"}) ASSERT_TRUE(s.put(k, k));
  ASSERT_TRUE(s.put("two", "changed"));  // and stays where it is
  ASSERT_TRUE(s.put("one", std::string(9000, 'x')));
  ASSERT_TRUE(s.put("three", "again", NVM_KV_PUT_NEW));  // known to be absent, wrongly
  std::vector<std::string> found;
  for (const auto& e : s.entries()) found.emplace_back(e.key);
  EXPECT_EQ(found, (std::vector<std::string>{"three", "three", "two", "one"}));
  EXPECT_EQ(*s.get("three"), "again");
  EXPECT_TRUE(s.remove("three"));
  EXPECT_EQ(*s.get("three"), "three");
  EXPECT_EQ(s.statistics()->entries, 3U) << nvm_errormsg();
}

class large : public testing::TestWithParam<enum nvm_kv_index> {};
INSTANTIATE_TEST_SUITE_P(indexes, large, testing::Values(NVM_KV_HASH, NVM_KV_BTREE, NVM_KV_RBTREE),
                         [](const auto& i) { return nvm_kv_index_name(i.param); });

TEST_P(large, stores_grow_and_shrink_through_every_size) {
  const pool_place place{grounds[0]};
  pool p = place.create(std::size_t{64} << 20);
  kv s = open_store(p, "store", GetParam());
  constexpr std::uint64_t n = 60000;
  const auto scattered = [](std::uint64_t i) { return number_key(i * 0x9E3779B97F4A7C15); };
  for (std::uint64_t i = 0; i < n; ++i) ASSERT_TRUE(s.put(scattered(i), "v")) << nvm_errormsg();
  auto full = s.statistics();
  ASSERT_TRUE(full) << nvm_errormsg();
  EXPECT_EQ(full->entries, n);
  if (GetParam() == NVM_KV_HASH) {
    EXPECT_GE(full->buckets, n / 6);
    EXPECT_LE(full->longest_chain, 3U);
  }
  if (GetParam() == NVM_KV_BTREE) {
    EXPECT_GE(full->depth, 4U);
    EXPECT_GT(full->load, 0.6);
  }
  for (std::uint64_t i = 0; i < n; ++i) ASSERT_TRUE(s.contains(scattered(i)));
  EXPECT_FALSE(s.contains(scattered(n)));
  for (std::uint64_t i = 0; i < n; ++i) {
    ASSERT_TRUE(s.remove(scattered(i))) << nvm_errormsg();
    if (i % 10000 == 0) {
      ASSERT_TRUE(s.statistics()) << nvm_errormsg();
    }
  }
  auto empty = s.statistics();
  ASSERT_TRUE(empty) << nvm_errormsg();
  EXPECT_EQ(empty->entries, 0U);
  EXPECT_EQ(empty->leaves + empty->inner_nodes, 0U);
  EXPECT_EQ(empty->overflow_buckets, 0U);
}

TEST(btree, is_full_where_keys_come_in_order) {
  const pool_place place{grounds[0]};
  pool p = place.create();
  kv s = open_store(p, "store", NVM_KV_BTREE);
  for (std::uint64_t i = 0; i < 20000; ++i) ASSERT_TRUE(s.put(number_key(i), "v"));
  EXPECT_GT(s.statistics()->load, 0.95);
}

// A header, record or node that something has damaged is refused, not followed.
TEST(damaged_stores, are_refused_with_a_place) {
  for (const auto index : indexes) {
    const pool_place place{grounds[0]};
    {
      pool p = place.create(std::size_t{1} << 20);
      kv s = open_store(p, "store", index);
      for (std::uint64_t i = 0; i < 200; ++i) ASSERT_TRUE(s.put(number_key(i * 77), std::string(20, 'v')));
    }
    random_source random{3};
    unsigned refused = 0;
    for (unsigned round = 0; round < 60; ++round) {
      pool p = place.open();
      struct damager {
        random_source& random;
        std::vector<std::pair<std::uint64_t*, std::uint64_t>> before;
      } d{random, {}};
      (void)nvm_pool_each(
          p.handle(),
          [](void* object, std::uint32_t type, std::size_t size, void* raw) {
            auto* k = static_cast<damager*>(raw);
            if (type < 0xF04B5600 || type > 0xF04B56FF || size < 16 || k->random() % 40 != 0) return 0;
            auto* word = static_cast<std::uint64_t*>(object) + k->random() % (size / 8);
            k->before.emplace_back(word, *word);
            *word = k->random() % 3 == 0 ? 0 : *word ^ std::uint64_t{1} << k->random() % 64;
            return 0;
          },
          &d);
      {
        auto s = kv::open(p, "store");
        if (s) {
          if (!s->statistics()) {
            ++refused;
            EXPECT_TRUE(nvm_errno() == NVM_E_CORRUPT || nvm_errno() == NVM_E_VERSION) << nvm_errormsg();
          }
          for (std::uint64_t i = 0; i < 20; ++i) (void)s->get(number_key(i * 77));
          for (const auto& e : s->entries()) (void)e;
        } else {
          ++refused;
        }
      }
      for (const auto& [word, value] : d.before) *word = value;
    }
    EXPECT_GT(refused, 20U) << nvm_kv_index_name(index);
  }
}

}  // namespace
}  // namespace nvm::tests
