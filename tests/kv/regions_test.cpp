// Key-value stores over regions: features that the other indexes lack, and refusals.
#include <algorithm>
#include <string>
#include <vector>

#include "../sanitized.hpp"
#include "kv/item_image.hpp"
#include "kv_testing.hpp"
#include "nvm/region.h"

namespace nvm::tests {
namespace {

constexpr ground shm_undo = grounds[0];

class kv_of_regions : public testing::Test {
 protected:
  const pool_place place{shm_undo};
  pool p = make();
  pool make() {
    nvm_pool_options o = place.options(std::size_t{64} << 20);
    o.meter = 1;
    return std::move(*pool::create(place.path().c_str(), o));
  }
  kv open(const char* name = "store", unsigned flags = 0) {
    nvm_kv_options o{};
    o.index = NVM_KV_REGIONS;
    o.flags = flags;
    auto s = kv::open(p, name, o);
    EXPECT_TRUE(s) << nvm_errormsg();
    return std::move(*s);
  }
  unsigned sets() {
    unsigned n = 0;
    EXPECT_EQ(nvm_regions_names(
                  p.handle(),
                  [](const char*, std::uint64_t, void* count) {
                    ++*static_cast<unsigned*>(count);
                    return 0;
                  },
                  &n),
              0);
    return n;
  }
  struct cost {
    std::uint64_t fences, lines;
  };
  template <class Call>
  cost cost_of(Call&& call) {
    nvm_statistics before{};
    nvm_statistics after{};
    EXPECT_EQ(nvm_pool_get_statistics(p.handle(), &before), 0);
    call();
    EXPECT_EQ(nvm_pool_get_statistics(p.handle(), &after), 0);
    return {after.fences - before.fences, after.flushed_lines - before.flushed_lines};
  }
  static std::string key(std::uint64_t n) { return number_key(n * 0x9E3779B97F4A7C15); }
  // Name of the set of the only store.
  std::string set_of_store() {
    std::string found;
    EXPECT_EQ(nvm_regions_names(
                  p.handle(),
                  [](const char* name, std::uint64_t, void* to) {
                    *static_cast<std::string*>(to) = name;
                    return 0;
                  },
                  &found),
              0);
    EXPECT_EQ(found.substr(0, 3), "kv-");
    return found;
  }
  // The next key of segment 0, from number `n` on.
  static std::string key_of_segment_0(std::uint64_t seed, std::uint64_t& n) {
    for (;;) {
      const std::string found = key(n++);
      keyed::key k{reinterpret_cast<const std::byte*>(found.data()), static_cast<std::uint32_t>(found.size())};
      k.take_hash(seed);
      if (layout::item_segment(k.hash) == 0) return found;
    }
  }
  void reopen() {
    ASSERT_TRUE(p.close());
    p = place.open();
  }
  static void change(kv& s, const std::string& key, std::size_t from, std::size_t bytes) {
    EXPECT_TRUE(s.update(key, [&](std::string& v) {
      for (std::size_t i = 0; i < bytes; ++i) v[from + i] ^= 1;
    })) << nvm_errormsg();
  }
};

TEST_F(kv_of_regions, write_of_a_large_value_what_an_edit_has_changed) {
  for (const unsigned flags : {0U, unsigned{NVM_KV_NO_CHECKSUMS}}) {
    kv s = open(flags == 0 ? "checked" : "plain", flags);
    for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(s.put(key(i), std::string(2048, 'v')));
    change(s, key(1), 0, 16);  // what the first calls do besides is done
    const cost middle = cost_of([&] { change(s, key(1), 1000, 16); });
    EXPECT_EQ(middle.fences, 1U);
    // A record: its head, 16 bytes, the checksum, with their places.
    EXPECT_LE(middle.lines, flags == 0 ? 3U : 2U);
    // Bytes that are far from each other are two ranges of the same record.
    const cost both =
        cost_of([&] { EXPECT_TRUE(s.update(key(1), [](std::string& v) { v.front() ^= 1, v.back() ^= 1; })); });
    EXPECT_EQ(both.fences, 1U);
    EXPECT_LE(both.lines, 3U);
    // An edit that changes nothing writes nothing.
    EXPECT_EQ(cost_of([&] { EXPECT_TRUE(s.update(key(1), [](std::string&) {})); }).fences, 0U);
    std::string expected(2048, 'v');
    for (int i = 0; i < 16; ++i) expected[i] ^= 1, expected[1000 + i] ^= 1;
    expected.front() ^= 1, expected.back() ^= 1;
    EXPECT_EQ(*s.get(key(1)), expected);
  }
}

TEST_F(kv_of_regions, change_small_entries_at_one_fence_each) {
  kv s = open();
  for (std::uint64_t i = 0; i < 2000; ++i) ASSERT_TRUE(s.put(key(i), "sixteen bytes...")) << nvm_errormsg();
  EXPECT_EQ(cost_of([&] { EXPECT_TRUE(s.put(key(1), "other sixteen...")); }).fences, 1U);
  EXPECT_EQ(cost_of([&] { EXPECT_TRUE(s.remove(key(2))); }).fences, 1U);
  EXPECT_EQ(cost_of([&] { EXPECT_TRUE(s.get(key(3))); }).fences, 0U);
  EXPECT_EQ(*s.get(key(1)), "other sixteen...");
  EXPECT_FALSE(s.get(key(2)));
}

TEST_F(kv_of_regions, split_their_buckets_and_find_everything_after_an_open) {
  const std::uint64_t entries = rounds_of_build(60000);
  {
    kv s = open();
    for (std::uint64_t i = 0; i < entries; ++i) ASSERT_TRUE(s.put(key(i), std::to_string(i))) << nvm_errormsg();
    EXPECT_EQ(*s.size(), entries);
    const auto stats = s.statistics();
    ASSERT_TRUE(stats) << nvm_errormsg();
    EXPECT_EQ(stats->entries, entries);
    EXPECT_EQ(stats->own_regions, 0U);
    EXPECT_GT(stats->buckets, 256U);
    // Four and more to a bucket of 256 bytes.
    EXPECT_GT(stats->load, 4.0);
  }
  ASSERT_TRUE(p.close());
  p = place.open();
  kv s = open();
  for (std::uint64_t i = 0; i < entries; ++i) ASSERT_EQ(*s.get(key(i)), std::to_string(i));
  EXPECT_FALSE(s.get(key(entries)));
  EXPECT_EQ(*s.size(), entries);
  for (std::uint64_t i = 0; i < entries; i += 2) ASSERT_TRUE(s.remove(key(i)));
  EXPECT_EQ(*s.size(), entries / 2);
  EXPECT_EQ(entries_of(s).size(), entries / 2);
}

// An open goes by the numbers of regions: what buckets hold is counted when their segment is first changed.
TEST_F(kv_of_regions, go_on_splitting_their_buckets_after_an_open) {
  const std::uint64_t entries = rounds_of_build(40000);
  for (unsigned round = 0; round < 3; ++round) {
    kv s = open();
    const std::uint64_t begin = entries * round;
    for (std::uint64_t i = begin; i < begin + entries; ++i) {
      ASSERT_TRUE(s.put(key(i), i % 16 == 0 ? std::string(300, 'v') : std::to_string(i))) << nvm_errormsg();
    }
    const auto stats = s.statistics();
    ASSERT_TRUE(stats) << nvm_errormsg();
    const double in_bucket =
        static_cast<double>(stats->entries - stats->own_regions) / static_cast<double>(stats->buckets);
    EXPECT_GT(in_bucket, 3.0) << round;
    EXPECT_LT(in_bucket, 8.0) << round;
    reopen();
  }
  kv s = open();
  EXPECT_EQ(*s.get(key(16)), std::string(300, 'v'));
  EXPECT_EQ(*s.size(), 3 * entries);
  for (std::uint64_t i = 0; i < 3 * entries; i += 7) ASSERT_TRUE(s.get(key(i))) << i;
}

TEST_F(kv_of_regions, move_entries_that_grow_out_of_a_bucket_or_fit_one_again) {
  kv s = open();
  for (std::uint64_t i = 0; i < 500; ++i) ASSERT_TRUE(s.put(key(i), std::string(20, 'a')));
  // The bound is an entry of 128 bytes: 8 of sizes, 8 of key, 8 of checksum.
  for (const std::size_t bytes : {103U, 104U, 105U, 2000U, 30U, 5000U, 200000U, 100000U, 0U}) {
    const std::string value(bytes, static_cast<char>('b' + bytes % 20));
    ASSERT_TRUE(s.put(key(7), value)) << nvm_errormsg();
    EXPECT_EQ(*s.get(key(7)), value);
    const auto stats = s.statistics();
    ASSERT_TRUE(stats) << nvm_errormsg();
    EXPECT_EQ(stats->own_regions, bytes > 104 ? 1U : 0U);
    EXPECT_EQ(stats->entries, 500U);
  }
  char few[4] = {};
  std::size_t all = 0;
  ASSERT_TRUE(s.put(key(7), "ab" + std::string(300000, 'x')));
  EXPECT_EQ(nvm_kv_get(s.handle(), key(7).data(), 8, few, 2, &all), 1);
  EXPECT_EQ(all, 300002U);
  EXPECT_STREQ(few, "ab");
}

TEST_F(kv_of_regions, refuse_calls_inside_of_transactions) {
  kv s = open();
  ASSERT_TRUE(s.put(key(1), "x"));
  const auto calls = {
      +[](nvm_kv* k) { return nvm_kv_put(k, "a", 1, "b", 1); },
      +[](nvm_kv* k) { return nvm_kv_get(k, "a", 1, nullptr, 0, nullptr); },
      +[](nvm_kv* k) { return nvm_kv_remove(k, "a", 1); },
      +[](nvm_kv* k) { return static_cast<int>(nvm_kv_size(k)); },
      +[](nvm_kv* k) { return nvm_kv_visit(k, "a", 1, [](const void*, size_t, void*) {}, nullptr); },
      +[](nvm_kv* k) { return nvm_kv_update(k, "a", 1, 0, [](void*, size_t*, size_t, void*) { return 0; }, nullptr); },
      +[](nvm_kv* k) {
        nvm_kv_statistics out;
        return nvm_kv_get_statistics(k, &out);
      },
      +[](nvm_kv* k) { return nvm_kv_scan(k, nullptr, [](const nvm_kv_entry*, void*) { return 0; }, nullptr); },
      +[](nvm_kv* k) {
        const nvm_kv_operation one{k, NVM_KV_PUT, 0, "a", 1, "b", 1};
        return nvm_kv_batch(nvm_kv_pool(k), &one, 1, nullptr);
      }};
  struct argument {
    nvm_kv* store;
    int (*call)(nvm_kv*);
    int answer = 0, code = 0;
  };
  for (const auto call : calls) {
    argument a{s.handle(), call};
    EXPECT_EQ(nvm_stm_run(
                  p.handle(),
                  [](nvm_stm*, void* raw) {
                    auto* r = static_cast<argument*>(raw);
                    r->answer = r->call(r->store);
                    r->code = nvm_errno();
                    return 0;
                  },
                  &a),
              -1);
    EXPECT_EQ(a.answer, -1);
    EXPECT_EQ(a.code, NVM_E_TX_OPEN) << nvm_errormsg();
    EXPECT_NE(std::string{nvm_errormsg()}.find("index regions"), std::string::npos) << nvm_errormsg();
  }
  ASSERT_EQ(nvm_tx_begin(p.handle()), 0);
  EXPECT_EQ(nvm_kv_put(s.handle(), "a", 1, "b", 1), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_TX_OPEN) << nvm_errormsg();
  EXPECT_EQ(nvm_tx_abort(p.handle()), 0);
  EXPECT_EQ(*s.size(), 1U);
}

TEST_F(kv_of_regions, keep_a_batch_to_themselves) {
  kv a = open("a");
  kv b = open_store(p, "b", NVM_KV_BTREE);
  for (const bool first : {true, false}) {
    kv_batch mixed;
    (first ? mixed.put(a, "k", "v").put(b, "k", "v") : mixed.put(b, "k", "v").put(a, "k", "v"));
    EXPECT_EQ(mixed.commit().code(), NVM_E_INVALID) << nvm_errormsg();
    EXPECT_EQ(mixed.failed(), 1U);
  }
  EXPECT_FALSE(a.get("k"));
  EXPECT_FALSE(b.get("k"));
  kv_batch both;
  both.put(a, "k", "v").put(a, "l", std::string(3000, 'w')).remove(a, "k").put(a, "m", "x");
  ASSERT_TRUE(both.commit()) << nvm_errormsg();
  both.clear();
  both.put(a, "k", "v").put(a, "l", std::string(3000, 'y')).remove(a, "k").put(a, "m", "z");
  const cost of = cost_of([&] { EXPECT_TRUE(both.commit()) << nvm_errormsg(); });
  EXPECT_EQ(of.fences, 2U);  // the large value, the commit
  EXPECT_EQ(*a.size(), 2U);
}

TEST_F(kv_of_regions, have_a_set_as_long_as_they_have_a_name) {
  {
    kv a = open("a");
    ASSERT_TRUE(a.put(key(1), "a"));
    kv b = open("b");
    EXPECT_EQ(sets(), 2U);
    EXPECT_EQ(a.index(), NVM_KV_REGIONS);
  }
  ASSERT_EQ(nvm_kv_rename(p.handle(), "a", "b"), 0) << nvm_errormsg();
  EXPECT_EQ(sets(), 1U);
  EXPECT_EQ(*open("b").get(key(1)), "a");
  ASSERT_EQ(nvm_kv_drop(p.handle(), "b"), 0) << nvm_errormsg();
  EXPECT_EQ(sets(), 0U);
}

TEST_F(kv_of_regions, are_dropped_by_the_next_process_where_a_transaction_of_regions_is_open) {
  ASSERT_TRUE(open("a").put(key(1), "a"));
  nvm_regions* const mine = nvm_regions_open(p.handle(), "mine", nullptr);
  ASSERT_NE(mine, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_region_create(mine, 1, 8), 0);
  ASSERT_EQ(nvm_region_begin(mine, 1, NVM_REGION_ADAPTIVE), 0);
  EXPECT_EQ(nvm_kv_drop(p.handle(), "a"), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_kv_drop(p.handle(), "a"), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_NOT_FOUND);
  ASSERT_EQ(nvm_region_abort(mine, 1), 0);
  EXPECT_EQ(sets(), 2U);
  ASSERT_TRUE(p.close());
  EXPECT_EQ(place.findings(), 0);
  p = place.open();
  EXPECT_EQ(*open("a").size(), 0U);
  EXPECT_EQ(sets(), 2U);  // that of the new one, and mine
}

TEST_F(kv_of_regions, that_could_not_be_dropped_go_with_the_next_call) {
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(open(name).put(key(1), "x"));
  nvm_regions* const mine = nvm_regions_open(p.handle(), "mine", nullptr);
  ASSERT_EQ(nvm_region_create(mine, 1, 8), 0);
  ASSERT_EQ(nvm_region_begin(mine, 1, NVM_REGION_ADAPTIVE), 0);
  EXPECT_EQ(nvm_kv_drop(p.handle(), "a"), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_kv_drop(p.handle(), "b"), 0) << nvm_errormsg();
  EXPECT_EQ(sets(), 4U);
  ASSERT_EQ(nvm_region_abort(mine, 1), 0);
  {
    const kv d = open("d");
  }
  EXPECT_EQ(sets(), 3U);  // c, d, mine
  ASSERT_EQ(nvm_region_begin(mine, 1, NVM_REGION_ADAPTIVE), 0);
  EXPECT_EQ(nvm_kv_drop(p.handle(), "c"), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_region_abort(mine, 1), 0);
  EXPECT_EQ(nvm_kv_drop(p.handle(), "d"), 0) << nvm_errormsg();
  EXPECT_EQ(sets(), 1U);
  ASSERT_TRUE(p.close());
  EXPECT_EQ(place.findings(), 0);
}

// More than any ring of the log has room for, new entries and changed ones, also many of one bucket.
TEST_F(kv_of_regions, take_batches_of_any_length) {
  constexpr std::uint64_t count = 5000;
  std::vector<std::string> keys;
  {
    kv s = open();
    const std::uint64_t seed = std::stoull(set_of_store().substr(3), nullptr, 16);
    std::uint64_t n = 0;
    while (keys.size() < 300) keys.push_back(key_of_segment_0(seed, n));
    while (keys.size() < count) keys.push_back(key(n++));
    const auto put_all = [&](char with, std::size_t bytes) {
      kv_batch batch;
      for (const std::string& k : keys) batch.put(s, k, std::string(bytes, with));
      ASSERT_TRUE(batch.commit()) << nvm_errormsg();
      EXPECT_EQ(*s.size(), count);
      for (std::size_t i = 0; i < count; i += 7) EXPECT_EQ(*s.get(keys[i]), std::string(bytes, with));
    };
    put_all('a', 20);
    put_all('b', 20);
    put_all('c', 300);  // each moves to a region of its own
  }
  ASSERT_TRUE(p.close());
  EXPECT_EQ(place.findings(), 0);
  p = place.open();
  kv s = open();
  kv_batch gone;
  for (const std::string& k : keys) gone.put(s, k, "short").remove(s, k);
  ASSERT_TRUE(gone.commit()) << nvm_errormsg();
  EXPECT_EQ(*s.size(), 0U);
}

TEST_F(kv_of_regions, are_not_made_where_the_pool_has_room_for_no_more_sets) {
  char name[16];
  for (unsigned i = 0; i < 64; ++i) {
    std::snprintf(name, sizeof name, "set %u", i);
    ASSERT_NE(nvm_regions_open(p.handle(), name, nullptr), nullptr) << nvm_errormsg();
  }
  EXPECT_EQ(nvm_kv_open(p.handle(), "store",
                        [] {
                          static nvm_kv_options o{};
                          o.index = NVM_KV_REGIONS;
                          return &o;
                        }()),
            nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_TOO_LARGE) << nvm_errormsg();
  EXPECT_FALSE(kv::open(p, "store", nvm_kv_options{0, NVM_KV_OPEN_ONLY, 0, 0, {}}));
  EXPECT_EQ(nvm_errno(), NVM_E_NOT_FOUND);
  ASSERT_EQ(nvm_regions_drop(p.handle(), "set 7"), 0);
  EXPECT_TRUE(open().put(key(1), "x"));
}

// A bucket is long where there was no room to split it.
TEST_F(kv_of_regions, change_entries_at_the_beginning_of_a_long_bucket) {
  {
    kv s = open();
  }
  const std::string name = set_of_store();
  const std::uint64_t seed = std::stoull(name.substr(3), nullptr, 16);
  std::vector<std::string> keys;
  std::vector<std::byte> image;
  const std::string value(96, 'v');
  for (std::uint64_t n = 0; image.size() <= std::size_t{100} << 10;) {
    keys.push_back(key_of_segment_0(seed, n));
    const keyed::key k{reinterpret_cast<const std::byte*>(keys.back().data()), 8};
    const std::size_t at = image.size();
    image.resize(at + 8 + 8 + value.size() + 8);
    keyed::lewat::write_item(image.data() + at, k, {reinterpret_cast<const std::byte*>(value.data()), value.size()},
                             {true, seed});
  }
  nvm_regions* const set = nvm_regions_open(p.handle(), name.c_str(), nullptr);
  ASSERT_NE(set, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_region_create_with(set, 0, image.data(), image.size(), 0), 0) << nvm_errormsg();
  reopen();
  kv s = open();
  model expected;
  for (const std::string& k : keys) expected[k] = value;
  // Within the first 512 bytes: one that goes, splits nothing.
  ASSERT_TRUE(s.remove(keys[1])) << nvm_errormsg();
  expected.erase(keys[1]);
  ASSERT_EQ(entries_of(s), expected);
  ASSERT_TRUE(s.put(keys[0], "shorter")) << nvm_errormsg();
  ASSERT_TRUE(s.update(keys[2], [](std::string& v) { v.front() = 'w'; })) << nvm_errormsg();
  expected[keys[0]] = "shorter";
  expected[keys[2]].front() = 'w';
  EXPECT_EQ(entries_of(s), expected);
  for (const auto& [k, v] : expected) ASSERT_EQ(*s.get(k), v);
  EXPECT_GT(s.statistics()->buckets, 512U);  // it is split by the first change that adds to it
  ASSERT_TRUE(p.close());
  EXPECT_EQ(place.findings(), 0);
}

// Whoever counts up to it would never end.
TEST_F(kv_of_regions, refuse_the_number_of_a_bucket_that_cannot_be) {
  ASSERT_TRUE(open().put(key(1), "x"));
  nvm_regions* const set = nvm_regions_open(p.handle(), set_of_store().c_str(), nullptr);
  ASSERT_NE(set, nullptr) << nvm_errormsg();
  const std::uint64_t forged = layout::region_of_bucket(3, (std::uint64_t{1} << 48) - 1);
  ASSERT_EQ(nvm_region_create(set, forged, 0), 0) << nvm_errormsg();
  reopen();
  EXPECT_FALSE(kv::open(p, "store", NVM_KV_REGIONS));
  EXPECT_EQ(nvm_errno(), NVM_E_CORRUPT) << nvm_errormsg();
  EXPECT_NE(std::string{nvm_errormsg()}.find("0003ffffffffffff"), std::string::npos) << nvm_errormsg();
  ASSERT_TRUE(p.close());
  std::string told;
  EXPECT_EQ(
      nvm_pool_check(
          place.path().c_str(),
          [](std::uint64_t, const char* what, void* to) { *static_cast<std::string*>(to) += what; }, &told, nullptr),
      1);
  EXPECT_NE(told.find("a region whose number no entry has"), std::string::npos) << told;
  p = place.open();
  ASSERT_EQ(nvm_region_drop(nvm_regions_open(p.handle(), set_of_store().c_str(), nullptr), forged), 0);
  EXPECT_EQ(*open().get(key(1)), "x");
}

// What is damaged may be the entry that is looked for; a damaged bucket says nothing about larger entries.
TEST_F(kv_of_regions, tell_damage_from_a_miss) {
  {
    kv s = open();
  }
  const std::string name = set_of_store();
  nvm_regions* const set = nvm_regions_open(p.handle(), name.c_str(), nullptr);
  ASSERT_NE(set, nullptr) << nvm_errormsg();
  const auto bucket_of = [&](const std::string& text) {
    keyed::key k{reinterpret_cast<const std::byte*>(text.data()), static_cast<std::uint32_t>(text.size())};
    k.take_hash(std::stoull(name.substr(3), nullptr, 16));
    return layout::bucket_region(k.hash, 1);
  };
  // Of one bucket each, whatever the seed of the store.
  const auto apart = [&](std::string text, const std::vector<std::string>& others) {
    const auto beside = [&](const std::string& o) { return bucket_of(o) == bucket_of(text); };
    while (std::any_of(others.begin(), others.end(), beside)) text += 'x';
    return text;
  };
  const std::string small = apart("small", {"large"});
  const std::string other = apart("other", {"large", small});
  {
    kv s = open();
    ASSERT_TRUE(s.put(small, "1"));
    ASSERT_TRUE(s.put("large", std::string(3000, 'l')));
  }
  // A letter of its key.
  ASSERT_EQ(nvm_region_write(set, bucket_of(small), 8, "S", 1), 0) << nvm_errormsg();
  {
    kv s = open();
    EXPECT_EQ(nvm_kv_get(s.handle(), small.data(), small.size(), nullptr, 0, nullptr), 0) << nvm_errormsg();
  }
  {
    kv s = open("store", NVM_KV_VERIFY_READS);
    EXPECT_EQ(nvm_kv_get(s.handle(), small.data(), small.size(), nullptr, 0, nullptr), -1);
    EXPECT_EQ(nvm_errno(), NVM_E_CORRUPT) << nvm_errormsg();
    EXPECT_NE(std::string{nvm_errormsg()}.find("\"S" + small.substr(1) + "\""), std::string::npos) << nvm_errormsg();
    EXPECT_FALSE(s.put(small, "2"));
    EXPECT_EQ(nvm_errno(), NVM_E_CORRUPT) << nvm_errormsg();
  }
  // Sizes that cannot be, before an entry that has a region of its own.
  const std::uint64_t bucket = bucket_of("large");
  ASSERT_EQ(nvm_region_create_with(set, bucket, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 8, 0), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_region_create_with(set, bucket_of(other), "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 8, 0), 0);
  reopen();
  kv again = open();
  EXPECT_EQ(*again.get("large"), std::string(3000, 'l'));
  EXPECT_EQ(nvm_kv_get(again.handle(), other.data(), other.size(), nullptr, 0, nullptr), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_CORRUPT) << nvm_errormsg();
  EXPECT_FALSE(again.put("large", "now small")) << "into a damaged bucket";
  EXPECT_EQ(nvm_errno(), NVM_E_CORRUPT) << nvm_errormsg();
  EXPECT_TRUE(again.put("large", std::string(4000, 'm'))) << nvm_errormsg();
  EXPECT_EQ(*again.get("large"), std::string(4000, 'm'));
}

TEST_F(kv_of_regions, take_nothing_of_a_full_pool_and_can_be_emptied) {
  nvm_pool_options o = place.options(std::size_t{4} << 20, std::size_t{4} << 20);
  ASSERT_TRUE(p.close());
  ASSERT_EQ(std::remove(place.path().c_str()), 0);
  p = std::move(*pool::create(place.path().c_str(), o));
  kv s = open();
  std::uint64_t n = 0;
  while (n < 100000 && s.put(key(n), std::string(n % 3 == 0 ? 3000 : 30, 'v'))) ++n;
  EXPECT_EQ(nvm_errno(), NVM_E_NO_SPACE) << nvm_errormsg();
  EXPECT_EQ(*s.size(), n);
  for (std::uint64_t i = 0; i < n; ++i) ASSERT_TRUE(s.get(key(i))) << i << nvm_errormsg();
  for (std::uint64_t i = 0; i < n; ++i) ASSERT_TRUE(s.remove(key(i))) << i << nvm_errormsg();
  EXPECT_EQ(*s.size(), 0U);
  EXPECT_TRUE(s.put(key(1), std::string(3000, 'v'))) << nvm_errormsg();
}

TEST(kv_in_a_pool_of_the_engine_log, has_no_index_of_regions) {
  const pool_place place{grounds[2]};
  pool p = place.create();
  EXPECT_FALSE(kv::open(p, "store", NVM_KV_REGIONS));
  EXPECT_EQ(nvm_errno(), NVM_E_ENGINE) << nvm_errormsg();
  EXPECT_NE(std::string{nvm_errormsg()}.find("regions"), std::string::npos) << nvm_errormsg();
  // Nothing of it is left that the next process would have to drop.
  ASSERT_TRUE(p.close());
  p = place.open();
  EXPECT_TRUE(kv::open(p, "store", NVM_KV_BTREE)) << nvm_errormsg();
  EXPECT_FALSE(kv::open(p, "store", NVM_KV_REGIONS));
  EXPECT_EQ(nvm_errno(), NVM_E_TYPE_MISMATCH) << nvm_errormsg();
  ASSERT_EQ(nvm_kv_drop(p.handle(), "store"), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_kv_each(p.handle(), [](const char*, enum nvm_kv_index, void*) { return 1; }, nullptr), 0);
}

// Entries whose hashes are equal share a region.
TEST(an_image_of_entries, finds_each_by_its_key_and_tells_what_does_not_fit) {
  using namespace keyed;
  const record_sums sums{true, 7};
  const std::string keys[] = {"one", "", "three"};
  const std::string values[] = {"1", std::string(200, 'x'), ""};
  std::vector<std::byte> image;
  const auto bytes = [](const std::string& s) { return reinterpret_cast<const std::byte*>(s.data()); };
  const auto key_of = [&](const std::string& s) { return key{bytes(s), static_cast<std::uint32_t>(s.size())}; };
  for (int i = 0; i < 3; ++i) {
    const std::size_t at = image.size();
    image.resize(at + lewat::bytes_of({values[i].size(), keys[i].size(), 0}, sums));
    lewat::write_item(image.data() + at, key_of(keys[i]), {bytes(values[i]), values[i].size()}, sums);
  }
  lewat::item found;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(lewat::find_item(image.data(), image.size(), key_of(keys[i]), sums, found), lewat::found::yes);
    EXPECT_EQ(found.sizes.value, values[i].size());
    EXPECT_TRUE(lewat::sum_holds(image.data(), found, key_of(keys[i]), sums));
  }
  EXPECT_EQ(lewat::find_item(image.data(), image.size(), key_of("two"), sums, found), lewat::found::no);
  for (std::size_t cut = 1; cut < 29; ++cut) {
    EXPECT_EQ(lewat::find_item(image.data(), image.size() - cut, key_of("two"), sums, found),
              cut == 21 ? lewat::found::no : lewat::found::damaged)
        << cut;
  }
}

}  // namespace
}  // namespace nvm::tests
