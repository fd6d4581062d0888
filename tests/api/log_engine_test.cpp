// Pools of the log-structured engine: what only they can do, or can be hurt by.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "nvm/kv.hpp"
#include "nvm/log.h"
#include "nvm/stm.hpp"
#include "pool/pool.hpp"
#include "scratch.hpp"

namespace nvm::tests {
namespace {

nvm_pool_options log_options() {
  nvm_pool_options o{};
  o.size = o.capacity = std::size_t{4} << 20;
  choose(o, pool_kind::log);
  return o;
}

class log_engine : public testing::Test {
 protected:
  ~log_engine() override {
    if (pool != nullptr) {
      EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    }
  }
  void make(const nvm_pool_options& o) {
    pool = nvm_pool_create_with(place.path().c_str(), &o);
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
  }
  void reopen(nvm_pool_options o = {}) {
    if (pool != nullptr) {
      ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    }
    o.size = o.capacity = 0;
    pool = nvm_pool_open_with(place.path().c_str(), &o);
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
  }
  // Findings of a full check of the closed pool, one a line.
  std::string findings(nvm_check_summary* summary = nullptr) {
    std::string all;
    EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    pool = nullptr;
    const std::int64_t n = nvm_pool_check(
        place.path().c_str(),
        [](std::uint64_t, const char* finding, void* to) {
          *static_cast<std::string*>(to) += finding, *static_cast<std::string*>(to) += '\n';
        },
        &all, summary);
    EXPECT_GE(n, 0) << nvm_errormsg();
    return all;
  }
  // Bytes of addresses that objects have, or had until lately.
  [[nodiscard]] std::uint64_t addresses_taken() {
    nvm_statistics s{};
    nvm_pool_info i{};
    EXPECT_EQ(nvm_pool_get_statistics(pool, &s), 0) << nvm_errormsg();
    EXPECT_EQ(nvm_pool_get_info(pool, &i), 0) << nvm_errormsg();
    EXPECT_LE(s.home_free_bytes, i.home_bytes);
    return i.home_bytes - s.home_free_bytes;
  }
  std::uint64_t* table(std::size_t words) {
    std::uint64_t* made = nullptr;
    EXPECT_EQ(nvm_tx_begin(pool), 0);
    made = static_cast<std::uint64_t*>(nvm_calloc(pool, 1, words, 8));
    EXPECT_NE(made, nullptr) << nvm_errormsg();
    EXPECT_EQ(nvm_pool_set_root(pool, made), 0) << nvm_errormsg();
    EXPECT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
    return made;
  }
  void set(std::uint64_t* word, std::uint64_t value) {
    ASSERT_EQ(nvm_tx_begin(pool), 0);
    ASSERT_EQ(nvm_tx_log(word, 8), 0) << nvm_errormsg();
    *word = value;
    ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  }

  scratch place{pool_kind::log};
  NVM_POOL* pool = nullptr;
};

TEST_F(log_engine, keeps_pointers_through_close_kill_and_cleaning) {
  make(log_options());
  std::uint64_t* const words = table(1000);
  for (int life = 0; life < 3; ++life) {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    int how = 0;
    waitpid(child, &how, 0);
    // Much more than the pool holds, so that chunks are cleaned.
    for (std::uint64_t i = 0; i < 120000; ++i) set(words + i * 37 % 1000, i + static_cast<std::uint64_t>(life));
    nvm_statistics s{};
    ASSERT_EQ(nvm_pool_get_statistics(pool, &s), 0);
    EXPECT_GT(s.cleaned_chunks, 0U);
    reopen();
    ASSERT_EQ(nvm_pool_get_root(pool), words);
    for (std::uint64_t i = 119000; i < 120000; ++i)
      ASSERT_EQ(words[i * 37 % 1000], i + static_cast<std::uint64_t>(life)) << i;
  }
  nvm_check_summary found{};
  EXPECT_EQ(findings(&found), "");
  EXPECT_EQ(found.objects, 1U);
  EXPECT_EQ(found.object_bytes, 8000U);
  EXPECT_EQ(found.structure_pages, 0U);
  EXPECT_GT(found.log_pages, 0U);
}

TEST_F(log_engine, finds_everything_that_was_committed_before_a_kill) {
  const nvm_pool_options o = log_options();
  const pid_t child = fork();
  if (child == 0) {
    pool = nvm_pool_create_with(place.path().c_str(), &o);
    if (pool == nullptr) _exit(1);
    std::uint64_t* const words = table(512);
    for (std::uint64_t i = 0; i < 3000; ++i) set(words + i % 512, i);
    (void)nvm_tx_begin(pool);
    (void)nvm_tx_log(words, 8);
    words[0] = 1U << 30;
    (void)nvm_alloc(pool, 1, 100);
    kill(getpid(), SIGKILL);
  }
  int how = 0;
  ASSERT_EQ(waitpid(child, &how, 0), child);
  ASSERT_TRUE(WIFSIGNALED(how));
  reopen();
  const auto* words = static_cast<std::uint64_t*>(nvm_pool_get_root(pool));
  for (std::uint64_t i = 3000 - 512; i < 3000; ++i) ASSERT_EQ(words[i % 512], i);
  nvm_check_summary found{};
  EXPECT_EQ(findings(&found), "");
  EXPECT_EQ(found.objects, 1U);
}

TEST_F(log_engine, takes_back_announced_stores_of_each_level) {
  make(log_options());
  std::uint64_t* const words = table(64);
  set(words, 1);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  ASSERT_EQ(nvm_tx_log(words, 16), 0);
  words[0] = 2;
  words[1] = 2;
  auto* outer = static_cast<std::uint64_t*>(nvm_alloc(pool, 2, 64));
  outer[0] = 5;
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  ASSERT_EQ(nvm_tx_log(words + 1, 16), 0);
  ASSERT_EQ(nvm_tx_log(outer, 8), 0);
  words[1] = words[2] = 3;
  outer[0] = 6;
  auto* inner = nvm_alloc(pool, 3, 5000);
  ASSERT_NE(inner, nullptr);
  ASSERT_EQ(nvm_free(pool, outer), 0);
  ASSERT_EQ(nvm_tx_abort(pool), 0);
  EXPECT_EQ(words[1], 2U);
  EXPECT_EQ(words[2], 0U);
  EXPECT_EQ(outer[0], 5U);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  ASSERT_EQ(nvm_tx_log(outer + 1, 8), 0);
  outer[1] = 7;
  ASSERT_EQ(nvm_tx_log(words + 3, 8), 0);
  words[3] = 4;
  ASSERT_EQ(nvm_tx_commit(pool), 0);
  ASSERT_EQ(nvm_tx_log(words + 4, 8), 0);
  words[4] = reinterpret_cast<std::uintptr_t>(outer);
  ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  reopen();
  EXPECT_EQ(words[0], 2U);
  EXPECT_EQ(words[1], 2U);
  EXPECT_EQ(words[2], 0U);
  EXPECT_EQ(words[3], 4U);
  EXPECT_EQ(outer[0], 5U);
  EXPECT_EQ(outer[1], 7U);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  ASSERT_EQ(nvm_tx_log(outer, 16), 0);
  outer[0] = 9;
  ASSERT_EQ(nvm_free(pool, outer), 0);
  ASSERT_EQ(nvm_tx_abort(pool), 0);
  EXPECT_EQ(outer[0], 5U);
  nvm_check_summary found{};
  EXPECT_EQ(findings(&found), "");
  EXPECT_EQ(found.objects, 2U);
}

// Home pages hold a quarter of the data: the rest comes and goes.
TEST_F(log_engine, has_more_data_than_memory_for_home_pages) {
  nvm_pool_options o = log_options();
  o.size = o.capacity = std::size_t{16} << 20;
  o.home_mib = 1;
  make(o);
  constexpr std::size_t objects = 1000, words = 512;
  std::vector<std::uint64_t*> all;
  for (std::size_t i = 0; i < objects; ++i) {
    ASSERT_EQ(nvm_tx_begin(pool), 0);
    auto* p = static_cast<std::uint64_t*>(nvm_alloc(pool, 1, words * 8));
    ASSERT_NE(p, nullptr) << nvm_errormsg();
    for (std::size_t w = 0; w < words; ++w) p[w] = i * words + w;
    ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
    all.push_back(p);
  }
  for (std::size_t i = 0; i < objects; i += 3) set(all[i] + 7, i);
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < objects; ++i) {
      for (std::size_t w = 0; w < words; ++w)
        ASSERT_EQ(all[i][w], w == 7 && i % 3 == 0 ? i : i * words + w) << i << " " << w;
    }
  }
  reopen(o);
  for (std::size_t i = objects; i-- > 0;) {
    ASSERT_EQ(all[i][3], i * words + 3);
    ASSERT_EQ(all[i][7], i % 3 == 0 ? i : i * words + 7);
  }
}

TEST_F(log_engine, aborts_when_it_is_full_and_reads_and_frees_go_on) {
  make(log_options());
  std::vector<void*> all;
  for (;;) {
    ASSERT_EQ(nvm_tx_begin(pool), 0);
    void* p = nvm_alloc(pool, 1, 10000);
    if (p != nullptr) std::memset(p, static_cast<int>(all.size()), 10000);
    if (nvm_tx_commit(pool) != 0) {
      EXPECT_TRUE(nvm_errno() == NVM_E_NO_SPACE || nvm_errno() == NVM_E_MUST_ABORT) << nvm_errormsg();
      break;
    }
    all.push_back(p);
    ASSERT_LT(all.size(), 500U);
  }
  EXPECT_GT(all.size(), 300U);
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(*static_cast<unsigned char*>(all[i]), i % 256);
  for (std::size_t i = 0; i < all.size(); i += 2) {
    ASSERT_EQ(nvm_tx_begin(pool), 0);
    ASSERT_EQ(nvm_free(pool, all[i]), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  }
  for (std::size_t i = 0; i < all.size() / 3; ++i) {
    ASSERT_EQ(nvm_tx_begin(pool), 0);
    void* p = nvm_alloc(pool, 1, 10000);
    ASSERT_NE(p, nullptr) << nvm_errormsg();
    std::memset(p, 1, 10000);
    ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  }
  EXPECT_EQ(findings(), "");
}

// Addresses: home space has four times the capacity, and a size that is rounded up takes one at most.
TEST_F(log_engine, holds_objects_of_any_size_after_those_of_any_other) {
  const nvm_pool_options o = log_options();
  make(o);
  std::vector<std::size_t> sizes{24, 60, 130, 250, 500, 1000, 2000, 4000, 9000, 40000, 200000};
  std::mt19937_64 random{7};
  for (int round = 0; round < 3; ++round) {
    std::shuffle(sizes.begin(), sizes.end(), random);
    for (const std::size_t size : sizes) {
      std::vector<unsigned char*> all;
      const auto fill = [&](std::size_t i) { return static_cast<int>((i + size) % 251); };
      const std::size_t each = std::max<std::size_t>(1, 4000 / size);
      for (bool room = true; room;) {
        ASSERT_EQ(nvm_tx_begin(pool), 0);
        const std::size_t before = all.size();
        for (std::size_t i = 0; i < each && room; ++i) {
          auto* const p = static_cast<unsigned char*>(nvm_alloc(pool, 1, size));
          room = p != nullptr;
          if (!room) break;
          std::memset(p, fill(all.size()), size);
          all.push_back(p);
        }
        if (room && nvm_tx_commit(pool) == 0) continue;
        ASSERT_TRUE(nvm_errno() == NVM_E_NO_SPACE || nvm_errno() == NVM_E_MUST_ABORT) << nvm_errormsg();
        if (!room) {
          ASSERT_NE(nvm_tx_commit(pool), 0);
        }
        all.resize(before);
        room = false;
      }
      ASSERT_GT(all.size() * (size + 64), o.capacity / 2) << size << " bytes, round " << round;
      ASSERT_GE(addresses_taken(), all.size() * size);
      for (std::size_t i = 0; i < all.size(); ++i) {
        ASSERT_TRUE(all[i][0] == fill(i) && all[i][size - 1] == fill(i)) << size << " bytes, round " << round;
      }
      for (std::size_t i = 0; i < all.size();) {
        ASSERT_EQ(nvm_tx_begin(pool), 0);
        for (std::size_t n = 0; n < 50 && i < all.size(); ++n) {
          ASSERT_EQ(nvm_free(pool, all[i++]), 0) << nvm_errormsg();
        }
        ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
      }
    }
    reopen();
    // Those of the dead that the log has not forgotten; home space is four times as large.
    ASSERT_LT(addresses_taken(), o.capacity);
  }
  EXPECT_EQ(findings(), "");
}

TEST_F(log_engine, tells_about_objects_while_it_visits_them) {
  make(log_options());
  (void)table(100);
  struct seen {
    NVM_POOL* pool;
    std::size_t bytes = 0;
  } s{pool};
  EXPECT_EQ(nvm_pool_each(
                pool,
                [](void* p, std::uint32_t, std::size_t, void* argument) {
                  auto& to = *static_cast<seen*>(argument);
                  to.bytes += nvm_size_of(to.pool, p);
                  return 0;
                },
                &s),
            0);
  EXPECT_EQ(s.bytes, 800U);
}

// Addresses that one transaction frees are another one's at once: what the first stored there before must not be seen.
TEST_F(log_engine, stores_nothing_into_what_it_has_freed) {
  make(log_options());
  constexpr std::size_t words = 6;
  std::uint64_t** shared = nullptr;
  ASSERT_TRUE(atomic(pool, [&](tx& t) {
    shared = static_cast<std::uint64_t**>(t.alloc(1, 8));
    *shared = nullptr;
  }));
  std::atomic<bool> stop{false};
  std::thread other{[&] {
    while (!stop) {
      (void)atomic(pool, [&](tx& t) {
        auto* p = t.load(shared);
        if (p == nullptr) return;
        for (std::size_t w = 0; w < words; ++w) t.store(p + w, std::uint64_t{0xBAD});
        t.free(p);
        t.store(shared, static_cast<std::uint64_t*>(nullptr));
      });
    }
  }};
  for (std::uint64_t i = 0; i < 20000 && !HasFailure(); ++i) {
    std::uint64_t* mine = nullptr;
    (void)atomic(pool, [&](tx& t) {
      mine = static_cast<std::uint64_t*>(t.alloc(1, words * 8));
      for (std::size_t w = 0; w < words; ++w) mine[w] = i;
    });
    (void)atomic(pool, [&](tx& t) {
      for (std::size_t w = 0; w < words; ++w) EXPECT_EQ(t.load(mine + w), i);
      if (t.load(shared) == nullptr) {
        t.store(shared, mine);
      } else {
        t.free(mine);
      }
    });
  }
  stop = true;
  other.join();
}

// ---- translated reads

class translated : public log_engine, public testing::WithParamInterface<enum nvm_mapping> {
 protected:
  nvm_pool_options options() const {
    nvm_pool_options o = log_options();
    o.log_flags = NVM_LOG_TRANSLATED;
    o.mapping = GetParam();
    return o;
  }
};
INSTANTIATE_TEST_SUITE_P(mappings, translated,
                         testing::Values(NVM_MAPPING_LEAVES, NVM_MAPPING_BASE, NVM_MAPPING_TWO_LAYERS,
                                         NVM_MAPPING_GROUP_UPDATE, NVM_MAPPING_CACHE, NVM_MAPPING_FULL));

TEST_P(translated, barriers_read_what_was_stored) {
  make(options());
  std::uint64_t* words = nullptr;
  ASSERT_TRUE(atomic(pool, [&](tx& t) {
    words = static_cast<std::uint64_t*>(t.alloc(1, 4096));
    std::memset(static_cast<void*>(words), 0, 4096);
    t.store(words + 1, std::uint64_t{11});
    EXPECT_EQ(t.load(words + 1), 11U);
  }));
  ASSERT_TRUE(atomic(pool, [&](tx& t) {
    EXPECT_EQ(t.load(words + 1), 11U);
    t.store(words + 1, std::uint64_t{12});
    t.store(words + 100, std::uint64_t{100});
    EXPECT_EQ(t.load(words + 1), 12U);
    std::uint64_t all[512];
    t.read(all, words, sizeof all);
    EXPECT_EQ(all[0], 0U);
    EXPECT_EQ(all[1], 12U);
    EXPECT_EQ(all[100], 100U);
  }));
  // Of a transaction that is rolled back nothing stays, in memory or in the log.
  EXPECT_FALSE(atomic(pool, [&](tx& t) {
    t.store(words + 1, std::uint64_t{13});
    t.cancel(1);
  }));
  reopen(options());
  ASSERT_TRUE(atomic(pool, [&](tx& t) {
    EXPECT_EQ(t.load(words + 1), 12U);
    EXPECT_EQ(t.load(words + 100), 100U);
    EXPECT_EQ(t.load(words + 511), 0U);
  }));
  EXPECT_EQ(nvm_tx_begin(pool), 0);
  EXPECT_EQ(nvm_tx_log(words, 8), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_ENGINE);
  EXPECT_EQ(nvm_tx_abort(pool), 0);
  EXPECT_EQ(findings(), "");
}

TEST_P(translated, key_value_stores_keep_their_entries) {
  make(options());
  std::map<std::string, std::string> model;
  {
    auto opened = kv::open(pool, "t", [] {
      nvm_kv_options k{};
      k.index = NVM_KV_BTREE;
      return k;
    }());
    ASSERT_TRUE(opened) << nvm_errormsg();
    kv& store = *opened;
    for (int i = 0; i < 3000; ++i) {
      const std::string key = std::to_string(i * 7919 % 700);
      if (i % 3 == 2) {
        EXPECT_EQ(store.contains(key), model.contains(key)) << key;
        (void)store.remove(key);
        model.erase(key);
      } else {
        const std::string value(static_cast<std::size_t>(i % 200), static_cast<char>('a' + i % 26));
        EXPECT_TRUE(store.put(key, value)) << nvm_errormsg();
        model[key] = value;
      }
    }
  }
  for (int life = 0; life < 2; ++life) {
    auto opened = kv::open(pool, "t");
    ASSERT_TRUE(opened) << nvm_errormsg();
    kv& store = *opened;
    std::map<std::string, std::string> found;
    for (const auto& e : store.entries()) found.emplace(e.key, e.value);
    EXPECT_EQ(found, model);
    opened.reset();
    if (life == 0) reopen(options());
  }
  EXPECT_EQ(findings(), "");
}

// ---- what is in the file may be anything

TEST_F(log_engine, names_the_damaged_block_and_keeps_the_rest) {
  make(log_options());
  std::uint64_t* const words = table(8);
  std::vector<std::uint64_t*> others;
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(nvm_tx_begin(pool), 0);
    auto* p = static_cast<std::uint64_t*>(nvm_alloc(pool, 1, 800));
    for (int w = 0; w < 100; ++w) p[w] = 0x5151515151510000 + static_cast<std::uint64_t>(i);
    ASSERT_EQ(nvm_tx_commit(pool), 0);
    others.push_back(p);
  }
  set(words, 77);
  ASSERT_EQ(nvm_pool_close(pool), 0);
  std::ifstream in{place.path(), std::ios::binary};
  std::vector<char> bytes{std::istreambuf_iterator<char>{in}, {}};
  // Contents of the tenth object.
  const std::uint64_t marked = 0x5151515151510000 + 10;
  const auto* pattern = reinterpret_cast<const char*>(&marked);
  const auto at = std::search(bytes.begin(), bytes.end(), pattern, pattern + 8);
  ASSERT_NE(at, bytes.end());
  *at = static_cast<char>(*at ^ 4);
  std::ofstream{place.path(), std::ios::binary}.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  pool = nvm_pool_open(place.path().c_str());
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  EXPECT_EQ(*static_cast<std::uint64_t*>(nvm_pool_get_root(pool)), 77U);
  for (std::size_t i = 0; i < others.size(); ++i) {
    if (i == 10) continue;
    ASSERT_EQ(*others[i], 0x5151515151510000 + i);
  }
  const std::string told = findings();
  EXPECT_NE(told.find("version"), std::string::npos) << told;
}

TEST_F(log_engine, is_refused_where_it_cannot_be) {
  nvm_pool_options o = log_options();
  o.log_bytes = 1 << 20;
  EXPECT_EQ(nvm_pool_create_with(place.path().c_str(), &o), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID) << nvm_errormsg();
  o = log_options();
  o.log_flags = 64;
  EXPECT_EQ(nvm_pool_create_with(place.path().c_str(), &o), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID) << nvm_errormsg();
}

TEST_F(log_engine, has_the_sizes_and_thresholds_that_a_program_wants) {
  const nvm_log_options wanted[] = {{.chunk_bytes = 4096,
                                     .partition_bytes = 1024,
                                     .cache_entries = 2048,
                                     .clean_below = 1,
                                     .clean_from = 1,
                                     .fault_threads = 1,
                                     .fault_around = 1,
                                     .struct_bytes = 0,
                                     .reserved = {}},
                                    {.chunk_bytes = 1 << 20,
                                     .partition_bytes = 65536,
                                     .cache_entries = 1 << 22,
                                     .clean_below = 90,
                                     .clean_from = 100,
                                     .fault_threads = 16,
                                     .fault_around = 256,
                                     .struct_bytes = 0,
                                     .reserved = {}}};
  for (const nvm_log_options& l : wanted) {
    for (const std::uint32_t mapping : {NVM_MAPPING_LEAVES, NVM_MAPPING_FULL}) {
      const std::string path = place.path((std::to_string(l.chunk_bytes) + "-" + std::to_string(mapping)).c_str());
      nvm_pool_options o = log_options();
      o.size = o.capacity = std::max<std::size_t>(16 << 20, 32 * l.chunk_bytes);
      o.mapping = mapping;
      o.log = &l;
      NVM_POOL* pool = nvm_pool_create_with(path.c_str(), &o);
      ASSERT_NE(pool, nullptr) << nvm_errormsg();
      // Many times what there is room for.
      for (std::uint64_t i = 1; i <= 1600; ++i) {
        ASSERT_EQ(nvm_tx_begin(pool), 0);
        void* const root = nvm_alloc(pool, 100, 100'000);
        ASSERT_NE(root, nullptr) << nvm_errormsg();
        std::memset(root, static_cast<int>(i % 250), 100'000);
        void* const old = nvm_pool_get_root(pool);
        if (old != nullptr) {
          ASSERT_EQ(nvm_free(pool, old), 0) << nvm_errormsg();
        }
        ASSERT_EQ(nvm_pool_set_root(pool, root), 0) << nvm_errormsg();
        ASSERT_EQ(nvm_tx_commit(pool), 0) << i << ": " << nvm_errormsg();
      }
      ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
      // Chunks are the pool's, the rest is each open's.
      pool = nvm_pool_open(path.c_str());
      ASSERT_NE(pool, nullptr) << nvm_errormsg();
      EXPECT_EQ(static_cast<const unsigned char*>(nvm_pool_get_root(pool))[99'999], 1600 % 250);
      ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
      EXPECT_EQ(nvm_pool_check(path.c_str(), nullptr, nullptr, nullptr), 0);
    }
  }
}

// Nearly all chunks are the ends of logs, in which nothing lives: no thread has filled its own.
TEST_F(log_engine, takes_the_dead_from_the_ends_of_logs) {
  constexpr unsigned threads = 6;
  const nvm_log_options l{.chunk_bytes = 65536,
                          .partition_bytes = 0,
                          .cache_entries = 0,
                          .clean_below = 0,
                          .clean_from = 0,
                          .fault_threads = 0,
                          .fault_around = 0,
                          .struct_bytes = 0,
                          .reserved = {}};
  nvm_pool_options o = log_options();
  o.size = o.capacity = 2 << 20;
  o.log = &l;
  pool = nvm_pool_create_with(place.path().c_str(), &o);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  const auto make = [&](void* old) -> void* {
    void* made = nullptr;
    EXPECT_EQ(nvm_tx_begin(pool), 0) << nvm_errormsg();
    made = nvm_alloc(pool, 100, 4000);
    if (made != nullptr && (old == nullptr || nvm_free(pool, old) == 0) && nvm_tx_commit(pool) == 0) return made;
    if (nvm_tx_depth(pool) != 0) nvm_tx_abort(pool);
    return nullptr;
  };
  std::atomic<unsigned> filled{0}, freed{0};
  std::vector<std::thread> all;
  for (unsigned i = 0; i < threads; ++i) {
    all.emplace_back([&] {
      std::array<void*, 20> mine{};
      for (int turn = 0; turn < 200; ++turn) {
        void*& at = mine[static_cast<std::size_t>(turn) % mine.size()];
        if (void* const made = make(at); made != nullptr) at = made;
      }
      ++filled;
      while (filled != threads) std::this_thread::yield();
      for (void* const o : mine) {
        if (o == nullptr) continue;
        EXPECT_EQ(nvm_tx_begin(pool), 0);
        EXPECT_EQ(nvm_free(pool, o), 0) << nvm_errormsg();
        EXPECT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
      }
      ++freed;
      while (freed != threads) std::this_thread::yield();
      void* last = nullptr;
      for (int turn = 0; turn < 100; ++turn) {
        void* const made = make(last);
        ASSERT_NE(made, nullptr) << turn << ": " << nvm_errormsg();
        last = made;
      }
    });
  }
  for (std::thread& t : all) t.join();
}

TEST_F(log_engine, has_no_sizes_outside_their_bounds) {
  std::vector<nvm_log_options> wrong;
  const auto with = [&](auto member, std::initializer_list<std::uint64_t> values) {
    for (const std::uint64_t v : values) {
      nvm_log_options l{};
      l.*member = static_cast<std::remove_reference_t<decltype(l.*member)>>(v);
      wrong.push_back(l);
    }
  };
  with(&nvm_log_options::chunk_bytes, {1, 2048, 12288, 1 << 20, 2 << 20, ~std::uint64_t{0}});
  with(&nvm_log_options::partition_bytes, {1, 512, 3000, 1 << 17});
  with(&nvm_log_options::cache_entries, {1, 1024, 3000, 1 << 23});
  with(&nvm_log_options::clean_below, {91, 4'000'000'000});
  with(&nvm_log_options::clean_from, {101, 4'000'000'000});
  with(&nvm_log_options::fault_threads, {17, 4'000'000'000});
  with(&nvm_log_options::fault_around, {257, 4'000'000'000});
  wrong.push_back({});
  wrong.back().reserved[1] = 1;
  for (const nvm_log_options& l : wrong) {
    nvm_pool_options o = log_options();
    o.log = &l;
    EXPECT_EQ(nvm_pool_create_with(place.path().c_str(), &o), nullptr);
    EXPECT_EQ(nvm_errno(), NVM_E_INVALID) << nvm_errormsg();
  }
}

// Without a log area beside its data nothing in it depends on the medium.
TEST_F(log_engine, is_at_home_on_any_medium) {
  nvm_pool_options o = log_options();
  o.medium = NVM_MEDIUM_SSD;
  NVM_POOL* pool = nvm_pool_create_with(place.path().c_str(), &o);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  for (std::uint64_t value : {1, 2, 3}) {
    ASSERT_EQ(nvm_tx_begin(pool), 0);
    void* const root = nvm_alloc(pool, 1, 100);
    ASSERT_NE(root, nullptr) << nvm_errormsg();
    std::memset(root, static_cast<int>(value), 100);
    ASSERT_EQ(nvm_pool_set_root(pool, root), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
    nvm_statistics counts{};
    ASSERT_EQ(nvm_pool_get_statistics(pool, &counts), 0);
    EXPECT_EQ(counts.syncs != 0, o.medium == NVM_MEDIUM_SSD);
    ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    o.medium = o.medium == NVM_MEDIUM_SSD ? NVM_MEDIUM_SHM : NVM_MEDIUM_SSD;
    pool = nvm_pool_open_with(place.path().c_str(), &o);
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    EXPECT_EQ(static_cast<const unsigned char*>(nvm_pool_get_root(pool))[99], value);
  }
  EXPECT_EQ(nvm_pool_close(pool), 0);
}

}  // namespace
}  // namespace nvm::tests
