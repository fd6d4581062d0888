// Many threads on the same stores: each sees whole calls, nothing is lost, cursors meet what stays.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>

#include "../sanitized.hpp"
#include "kv/open_stores.hpp"
#include "kv_testing.hpp"

namespace nvm::tests {
namespace {

class kv_threads : public testing::TestWithParam<enum nvm_kv_index> {};
class kv_threads_on_any_index : public testing::TestWithParam<enum nvm_kv_index> {};
INSTANTIATE_TEST_SUITE_P(indexes, kv_threads_on_any_index,
                         testing::Values(NVM_KV_LIST, NVM_KV_HASH, NVM_KV_BTREE, NVM_KV_RBTREE, NVM_KV_REGIONS),
                         [](const auto& i) { return nvm_kv_index_name(i.param); });
INSTANTIATE_TEST_SUITE_P(indexes, kv_threads, testing::ValuesIn(indexes),
                         [](const auto& i) { return nvm_kv_index_name(i.param); });

// Two accounts, from one of which a unit goes to the other.
struct pair {
  nvm_kv* store;
  std::string from, to;
};
int transfer(nvm_stm* /*tx*/, void* raw) {
  const auto* t = static_cast<pair*>(raw);
  char text[2][24] = {};
  const std::string* keys[2] = {&t->from, &t->to};
  for (int i = 0; i < 2; ++i) {
    if (nvm_kv_get(t->store, keys[i]->data(), 8, text[i], 23, nullptr) != 1) return 1;
  }
  const long have = std::atol(text[0]);
  if (have == 0) return 0;
  for (int i = 0; i < 2; ++i) {
    const int n = std::snprintf(text[i], sizeof text[i], "%ld", std::atol(text[i]) + (i == 0 ? -1 : 1));
    if (nvm_kv_put(t->store, keys[i]->data(), 8, text[i], static_cast<std::size_t>(n)) != 0) return 2;
  }
  return 0;
}

struct sum {
  nvm_kv* store;
  std::uint64_t total;
};
int add_up(nvm_stm* /*tx*/, void* raw) {
  auto* k = static_cast<sum*>(raw);
  k->total = 0;
  return nvm_kv_scan(
      k->store, nullptr,
      [](const nvm_kv_entry* e, void* to) {
        static_cast<sum*>(to)->total += std::stoul(std::string{static_cast<const char*>(e->value), e->value_bytes});
        return 0;
      },
      k);
}

// Accounts in the values: every transfer is a batch, so that their sum never changes, for cursors in a transaction too.
TEST_P(kv_threads, see_no_half_of_a_batch) {
  const pool_place place{grounds[0]};
  pool p = place.create();
  kv s = open_store(p, "accounts", GetParam());
  constexpr std::uint64_t accounts = 40;
  constexpr std::uint64_t opening = 1000;
  for (std::uint64_t i = 0; i < accounts; ++i) ASSERT_TRUE(s.put(number_key(i), std::to_string(opening)));
  const int rounds = rounds_of_build(4000);
  std::atomic<int> failures{0};
  std::atomic<bool> done{false};
  const auto work = [&](unsigned seed) {
    random_source random{seed};
    for (int i = 0; i < rounds; ++i) {
      const std::uint64_t from = random() % accounts;
      pair t{s.handle(), number_key(from), number_key((from + 1 + random() % (accounts - 1)) % accounts)};
      if (nvm_stm_run(p.handle(), transfer, &t) != 0) ++failures;
    }
  };
  const auto watch = [&] {
    sum t{s.handle(), 0};
    while (!done) {
      const int ended = nvm_stm_run(p.handle(), add_up, &t);
      if (ended != 0 || t.total != accounts * opening) ++failures;
      std::this_thread::yield();
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 3; ++i) threads.emplace_back(work, i + 1);
  std::thread watcher{watch};
  for (std::thread& t : threads) t.join();
  done = true;
  watcher.join();
  EXPECT_EQ(failures, 0);
  std::uint64_t total = 0;
  for (const auto& e : s.entries()) total += std::stoul(std::string{e.value});
  EXPECT_EQ(total, accounts * opening);
  EXPECT_TRUE(s.statistics()) << nvm_errormsg();
}

// A handle that the test closes while others use it.
nvm_kv* opened(const pool& p, const char* name, enum nvm_kv_index index) {
  nvm_kv_options o{};
  o.index = index;
  return nvm_kv_open(p.handle(), name, &o);
}

// The store of a call is closed and dropped after its transaction has begun: the next attempt finds that out.
struct late_change {
  std::atomic<int> attempts{0};
  std::atomic<bool> dropped{false};  // all but to give pages back, for which a drop waits for open transactions
};
int change_late(void* value, std::size_t* bytes, std::size_t /*room*/, void* raw) {
  auto* l = static_cast<late_change*>(raw);
  if (++l->attempts == 1) {
    while (!l->dropped) std::this_thread::yield();
  }
  std::memset(value, 'x', *bytes);
  return 0;
}
TEST_P(kv_threads_on_any_index, a_call_that_began_before_its_store_was_dropped_is_refused) {
  const pool_place place{grounds[0]};
  pool p = place.create();
  nvm_kv* const doomed = opened(p, "doomed", GetParam());
  ASSERT_NE(doomed, nullptr) << nvm_errormsg();
  const std::string key = number_key(1);
  ASSERT_EQ(nvm_kv_put(doomed, key.data(), key.size(), "value", 5), 0) << nvm_errormsg();
  late_change l;
  std::thread drops{[&] {
    while (l.attempts == 0) std::this_thread::yield();
    EXPECT_EQ(nvm_kv_close(doomed), 0) << nvm_errormsg();
    nvm_kv_drop_options d{};
    d.argument = &l;
    d.progress = [](std::uint64_t, std::uint64_t, void* raw) { static_cast<late_change*>(raw)->dropped = true; };
    EXPECT_EQ(nvm_kv_drop_with(p.handle(), "doomed", &d), 0) << nvm_errormsg();
    l.dropped = true;  // of a store of regions nothing is told before
  }};
  EXPECT_EQ(nvm_kv_update(doomed, key.data(), key.size(), 0, change_late, &l), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID) << nvm_errormsg();
  drops.join();
}

// An entry that a drop would have left behind.
TEST(kv_threads_beside_a_drop, a_late_put_is_refused_while_entries_go) {
  const pool_place place{grounds[0]};
  pool p = place.create();
  nvm_kv* const doomed = opened(p, "doomed", NVM_KV_HASH);
  ASSERT_NE(doomed, nullptr) << nvm_errormsg();
  for (std::uint64_t i = 0; i < 1500; ++i) {
    const std::string key = number_key(i);
    ASSERT_EQ(nvm_kv_put(doomed, key.data(), key.size(), "value", 5), 0) << nvm_errormsg();
  }
  struct shared {
    std::atomic<bool> entered{false}, drops{false}, answered{false};
    static void wait_for(const std::atomic<bool>& what) {
      while (!what) std::this_thread::yield();
    }
  } all;
  std::thread late{[&] {
    int attempts = 0;
    const status s = keyed::run_on(*doomed, [&](keyed::operation& op) -> status {
      all.entered = true;
      if (attempts++ == 0) shared::wait_for(all.drops);
      keyed::key k{reinterpret_cast<const std::byte*>("late"), 4};
      k.take_hash(op.of.seed);
      return keyed::put(op, k, {reinterpret_cast<const std::byte*>("value"), 5}, 0);
    });
    EXPECT_EQ(s.error(), errc::invalid) << last_message();
    all.answered = true;
  }};
  shared::wait_for(all.entered);
  ASSERT_EQ(nvm_kv_close(doomed), 0) << nvm_errormsg();
  nvm_kv_drop_options d{};
  d.argument = &all;
  d.progress = [](std::uint64_t, std::uint64_t, void* raw) {
    static_cast<shared*>(raw)->drops = true;
    shared::wait_for(static_cast<shared*>(raw)->answered);
  };
  EXPECT_EQ(nvm_kv_drop_with(p.handle(), "doomed", &d), 0) << nvm_errormsg();
  late.join();
}

// A drop waits for transactions that are open, and a transaction may close stores.
TEST(kv_threads_beside_a_drop, a_transaction_may_close_another_store) {
  const pool_place place{grounds[0]};
  pool p = place.create();
  struct shared {
    nvm_kv* first;
    nvm_kv* second;
    std::atomic<bool> closed{false};
  } all{nvm_kv_open(p.handle(), "first", nullptr), nvm_kv_open(p.handle(), "second", nullptr)};
  ASSERT_TRUE(all.first != nullptr && all.second != nullptr) << nvm_errormsg();
  std::thread drops{[&] {
    while (!all.closed) std::this_thread::yield();
    EXPECT_EQ(nvm_kv_drop(p.handle(), "first"), 0) << nvm_errormsg();
  }};
  const auto body = [](nvm_stm*, void* raw) {
    auto& a = *static_cast<shared*>(raw);
    if (a.closed) return 0;  // begun anew
    if (nvm_kv_put(a.first, "key", 3, "value", 5) != 0 || nvm_kv_close(a.first) != 0) return 1;
    a.closed = true;
    std::this_thread::sleep_for(std::chrono::milliseconds{100});
    return nvm_kv_close(a.second) == 0 ? 0 : 1;
  };
  EXPECT_EQ(nvm_stm_run(p.handle(), body, &all), 0) << nvm_errormsg();
  drops.join();
}

// A change of a store over regions that has another name by then, and another handle.
TEST(kv_threads_beside_a_drop, a_change_that_began_before_a_rename_is_refused) {
  const pool_place place{grounds[0]};
  pool p = place.create();
  nvm_kv* const before = opened(p, "before", NVM_KV_REGIONS);
  ASSERT_NE(before, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_kv_put(before, "key", 3, "value", 5), 0) << nvm_errormsg();
  struct shared {
    std::atomic<bool> edits{false}, renamed{false};
  } all;
  nvm_kv* after = nullptr;
  std::thread renames{[&] {
    while (!all.edits) std::this_thread::yield();
    EXPECT_EQ(nvm_kv_close(before), 0) << nvm_errormsg();
    EXPECT_EQ(nvm_kv_rename(p.handle(), "before", "after"), 0) << nvm_errormsg();
    after = opened(p, "after", NVM_KV_REGIONS);
    all.renamed = true;
  }};
  const auto edit = [](void* value, std::size_t* bytes, std::size_t room, void* raw) {
    auto& a = *static_cast<shared*>(raw);
    a.edits = true;
    while (!a.renamed) std::this_thread::yield();
    std::memset(value, 'x', *bytes = room);  // it would go to a region of its own
    return 0;
  };
  EXPECT_EQ(nvm_kv_update(before, "key", 3, 900, edit, &all), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID) << nvm_errormsg();
  renames.join();
  char text[8] = {};
  ASSERT_EQ(nvm_kv_get(after, "key", 3, text, sizeof text, nullptr), 1) << nvm_errormsg();
  EXPECT_STREQ(text, "value");
  EXPECT_EQ(nvm_kv_size(after), 1);
}

// Each thread has keys of its own between those of the others, so that the nodes are everybody's.
TEST_P(kv_threads_on_any_index, lose_nothing_while_the_index_grows_and_shrinks) {
  const pool_place place{grounds[0]};
  pool p = place.create(std::size_t{64} << 20);
  kv s = open_store(p, "store", GetParam());
  for (std::uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(s.put(number_key(i << 32), "stays"));
  const unsigned keys = GetParam() == NVM_KV_LIST ? 60 : 1500;
  const int rounds = rounds_of_build(GetParam() == NVM_KV_LIST ? 1500 : 12000);
  constexpr unsigned workers = 4;
  std::vector<model> expected(workers);
  std::atomic<int> failures{0};
  std::atomic<bool> done{false};
  const auto work = [&](unsigned me) {
    random_source random{me + 17};
    auto& mine = expected[me];
    for (int i = 0; i < rounds; ++i) {
      const bool growing = i / (rounds / 4) % 2 == 0;
      const std::string k = number_key((random() % keys * workers + me) * 0x9E3779B97F4A7C15 | 1);
      if (random() % 10 < (growing ? 7U : 3U)) {
        const std::string v(random() % 150, static_cast<char>('a' + me));
        if (!s.put(k, v)) ++failures;
        mine[k] = v;
      } else if (random() % 2 == 0) {
        if (s.remove(k).has_value() != (mine.erase(k) != 0)) ++failures;
      } else {
        const auto v = s.get(k);
        const auto known = mine.find(k);
        if (v.has_value() != (known != mine.end()) || (v && *v != known->second)) ++failures;
      }
    }
  };
  const auto watch = [&] {
    while (!done) {
      unsigned stayed = 0;
      kv_cursor cursor = s.entries();
      while (const auto e = cursor.next()) stayed += e->value == "stays" ? 1 : 0;
      if (stayed != 100 || cursor.code() != NVM_OK) ++failures;
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < workers; ++i) threads.emplace_back(work, i);
  std::thread watcher{watch};
  for (std::thread& t : threads) t.join();
  done = true;
  watcher.join();
  EXPECT_EQ(failures, 0);
  model all;
  for (const auto& m : expected) all.insert(m.begin(), m.end());
  for (std::uint64_t i = 0; i < 100; ++i) all[number_key(i << 32)] = "stays";
  EXPECT_TRUE(entries_of(s) == all);
  const auto figures = s.statistics();
  ASSERT_TRUE(figures) << nvm_errormsg();
  EXPECT_EQ(figures->entries, all.size());
}

// A counter in a value: updates of all threads add up.
TEST_P(kv_threads_on_any_index, update_one_after_the_other) {
  const pool_place place{grounds[0]};
  pool p = place.create();
  kv s = open_store(p, "store", GetParam());
  ASSERT_TRUE(s.put(number_key(1), std::string(8, '\0')));
  const int rounds = rounds_of_build(2000);
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < rounds; ++n) {
        const auto done = s.update(number_key(1), [](std::string& v) {
          std::uint64_t count = 0;
          std::memcpy(&count, v.data(), 8);
          ++count;
          std::memcpy(v.data(), &count, 8);
        });
        if (!done) ++failures;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(failures, 0);
  std::uint64_t count = 0;
  std::memcpy(&count, s.get(number_key(1))->data(), 8);
  EXPECT_EQ(count, 4U * static_cast<unsigned>(rounds));
}

// What the edit of an update looks at is part of its transaction: somebody changes it, and the update begins again, as
// often as that happens.
TEST_P(kv_threads, begin_an_update_again_whose_edit_meets_others) {
  const pool_place place{grounds[0]};
  pool p = place.create();
  kv s = open_store(p, "store", GetParam());
  ASSERT_TRUE(s.put(number_key(1), "0"));
  ASSERT_TRUE(s.put(number_key(2), "0"));
  // A conflict leaves the edit without an end: nothing in its frame may need one.
  struct meeting {
    kv* store;
    char other[8];
    int count;
  } m{&s, {}, 0};
  std::memcpy(m.other, number_key(2).data(), 8);
  const int done = nvm_kv_update(
      s.handle(), number_key(1).data(), 8, 8,
      [](void* value, std::size_t* bytes, std::size_t room, void* raw) {
        auto* met = static_cast<meeting*>(raw);
        char seen[8];
        std::size_t n = 0;
        if (nvm_kv_get(met->store->handle(), met->other, 8, seen, sizeof seen, &n) != 1) return 1;
        if (++met->count <= 10) {
          std::thread([met] { (void)met->store->put({met->other, 8}, std::to_string(met->count)); }).join();
        }
        return nvm_kv_get(met->store->handle(), met->other, 8, value, room, bytes) == 1 ? 0 : 1;
      },
      &m);
  EXPECT_EQ(done, 1) << nvm_errormsg();
  EXPECT_EQ(m.count, 11);
  EXPECT_EQ(*s.get(number_key(1)), "10");
}

// Entries that change between small and large, and buckets that are split: who looks finds each, of one moment.
TEST(kv_threads_of_regions, find_every_entry_while_it_moves) {
  const pool_place place{grounds[0]};
  pool p = place.create(std::size_t{64} << 20);
  kv s = open_store(p, "store", NVM_KV_REGIONS);
  constexpr std::uint64_t keys = 600;
  const auto key = [](std::uint64_t n) { return number_key(n * 0x9E3779B97F4A7C15); };
  const auto value = [](std::uint64_t n) {
    static constexpr std::size_t sizes[] = {10, 300, 60, 5000, 0, 120};
    return std::string(sizes[n % 6], static_cast<char>('a' + n % 26));
  };
  for (std::uint64_t i = 0; i < keys; ++i) ASSERT_TRUE(s.put(key(i), value(i)));
  const int rounds = rounds_of_build(6000);
  std::atomic<int> failures{0};
  std::atomic<unsigned> writing{2};
  const auto whole = [](std::string_view v) { return v.find_first_not_of(v.empty() ? 'a' : v[0]) == v.npos; };
  const auto write = [&](unsigned me) {
    random_source random{me};
    for (int i = 0; i < rounds; ++i) {
      if (!s.put(key(random() % keys), value(random()))) ++failures;
      // Others make the buckets split.
      if (!s.put(key(keys + me * 1000000 + static_cast<unsigned>(i)), "new")) ++failures;
    }
    --writing;
  };
  const auto read = [&](unsigned me) {
    random_source random{me};
    while (writing != 0) {
      const auto v = s.get(key(random() % keys));
      if (!v || !whole(*v)) ++failures;
    }
  };
  const auto scan = [&] {
    while (writing != 0) {
      std::vector<unsigned> met(keys);
      std::map<std::string, std::uint64_t> numbers;
      for (std::uint64_t i = 0; i < keys; ++i) numbers[key(i)] = i;
      kv_cursor cursor = s.entries();
      while (const auto e = cursor.next()) {
        if (!whole(e->value) && e->value != "new") ++failures;
        const auto known = numbers.find(std::string{e->key});
        if (known != numbers.end()) ++met[known->second];
      }
      if (cursor.code() != NVM_OK || std::count(met.begin(), met.end(), 1U) != keys) ++failures;
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 2; ++i) threads.emplace_back(write, i + 1);
  for (unsigned i = 0; i < 2; ++i) threads.emplace_back(read, i + 5);
  threads.emplace_back(scan);
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(*s.size(), keys + 2U * static_cast<unsigned>(rounds));
  EXPECT_TRUE(s.statistics()) << nvm_errormsg();
}

// Two entries that change in one batch, mostly in two segments: who reads one and then the other never finds it older.
TEST(kv_threads_of_regions, see_batches_in_the_order_in_which_they_were) {
  const pool_place place{grounds[0]};
  pool p = place.create();
  kv s = open_store(p, "store", NVM_KV_REGIONS);
  constexpr std::uint64_t pairs = 20;
  const auto put_pair = [&](std::uint64_t i, const std::string& v, bool turned) {
    kv_batch both;
    both.put(s, number_key(2 * i + (turned ? 1 : 0)), v).put(s, number_key(2 * i + (turned ? 0 : 1)), v);
    return both.commit();
  };
  for (std::uint64_t i = 0; i < pairs; ++i) ASSERT_TRUE(put_pair(i, "0", false));
  const int rounds = rounds_of_build(4000);
  std::atomic<int> failures{0};
  std::atomic<bool> done{false};
  std::thread writer{[&] {
    random_source random{3};
    // Numbers rise; some values are large.
    for (int i = 1; i <= rounds; ++i) {
      std::string v = std::to_string(i);
      v.append(random() % 2 == 0 ? 300 : 0, ' ');
      if (!put_pair(random() % pairs, v, i % 2 == 0)) ++failures;
    }
    done = true;
  }};
  std::vector<std::thread> readers;
  for (unsigned me = 0; me < 2; ++me) {
    readers.emplace_back([&, me] {
      random_source random{me + 40};
      while (!done) {
        const std::uint64_t i = random() % pairs;
        const std::uint64_t first = random() % 2;
        const auto a = s.get(number_key(2 * i + first));
        const auto b = s.get(number_key(2 * i + 1 - first));
        if (!a || !b || std::stoi(*b) < std::stoi(*a)) ++failures;
      }
    });
  }
  writer.join();
  for (std::thread& t : readers) t.join();
  EXPECT_EQ(failures, 0);
}

}  // namespace
}  // namespace nvm::tests
