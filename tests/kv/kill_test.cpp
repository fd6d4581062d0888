// A process that is killed at any time: the next one finds what its calls had done when they returned, and of the call
// it died in all or nothing.  Drops go on, loads by batches are whole.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <atomic>
#include <map>

#include "kv_testing.hpp"

namespace nvm::tests {
namespace {

// Call number `i` of a run: of a process on the store, or of what is expected.
struct caller {
  std::uint64_t seed;
  static constexpr std::uint64_t keys = 70;

  template <class Put, class Remove, class Batch>
  void call(std::uint64_t i, Put&& put, Remove&& remove, Batch&& batch) const {
    random_source random{seed * 1000003 + i};
    const std::string key = number_key(random() % keys * 0x9E3779B97F4A7C15);
    switch (random() % 6) {
      case 0:
      case 1:
        remove(key);
        break;
      case 2: {
        std::vector<std::pair<std::string, std::string>> entries;
        for (unsigned n = random() % 12; n-- != 0;) {
          entries.emplace_back(number_key(random() % keys * 0x9E3779B97F4A7C15), std::string(random() % 300, 'b'));
        }
        batch(entries);
        break;
      }
      default:
        put(key, std::string(random() % 200, static_cast<char>('a' + i % 26)));
        break;
    }
  }
  void on(kv& store, std::uint64_t i) const {
    bool good = true;
    call(
        i, [&](const std::string& k, const std::string& v) { good = static_cast<bool>(store.put(k, v)); },
        [&](const std::string& k) { good = store.remove(k).code() == NVM_OK; },
        [&](const auto& entries) {
          kv_batch b;
          for (const auto& [k, v] : entries) b.put(store, k, v);
          good = static_cast<bool>(b.commit());
        });
    if (!good) _exit(3);
  }
  void on(model& expected, std::uint64_t i) const {
    call(
        i, [&](const std::string& k, const std::string& v) { expected[k] = v; },
        [&](const std::string& k) { expected.erase(k); },
        [&](const auto& entries) {
          for (const auto& [k, v] : entries) expected[k] = v;
        });
  }
};

class killed : public testing::TestWithParam<ground_and_index> {};
INSTANTIATE_TEST_SUITE_P(everywhere, killed, testing::ValuesIn(grounds_and_indexes()), name_of);

TEST_P(killed, stores_have_what_returned_calls_have_done) {
  const pool_place place{GetParam().where, true};
  {
    pool p = place.create();
    (void)open_store(p, "store", GetParam().index);
  }
  auto* done = static_cast<std::atomic<std::uint64_t>*>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(done, MAP_FAILED);
  const caller calls{GetParam().index * 77U};
  model expected;
  std::uint64_t applied = 0;
  random_source random{11};
  // A machine with much else to do may do little between two kills.
  for (int round = 0; round < 12 || (applied <= 20 && round < 200); ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      auto o = place.options();
      o.size = o.capacity = 0;
      auto p = pool::open(place.path().c_str(), o);
      if (!p) _exit(2);
      auto store = kv::open(*p, "store");
      if (!store) _exit(2);
      for (std::uint64_t i = applied;; ++i) {
        calls.on(*store, i);
        done->store(i + 1, std::memory_order_release);
      }
    }
    ::usleep(static_cast<useconds_t>(8000 + random() % (place.ssd() ? 60000 : 15000)));
    ::kill(child, SIGKILL);
    int ended = 0;
    ASSERT_EQ(::waitpid(child, &ended, 0), child);
    ASSERT_TRUE(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGKILL) << "ended by " << ended;
    for (const std::uint64_t until = done->load(std::memory_order_acquire); applied < until; ++applied) {
      calls.on(expected, applied);
    }
    pool p = place.open();
    auto store = kv::open(p, "store");
    ASSERT_TRUE(store) << nvm_errormsg();
    ASSERT_TRUE(store->statistics()) << nvm_errormsg();
    const model found = entries_of(*store);
    if (found != expected) {
      calls.on(expected, applied++);  // the call that it died in
      ASSERT_TRUE(found == expected) << "round " << round << ", call " << applied;
    }
    done->store(applied, std::memory_order_release);
  }
  EXPECT_GT(applied, 20U);
  ::munmap(done, 4096);
  EXPECT_EQ(place.findings(), 0);
}

TEST_P(killed, drops_go_on_where_they_were) {
  const pool_place place{GetParam().where, true};
  for (int round = 0; round < 4; ++round) {
    {
      pool p = round == 0 ? place.create() : place.open();
      kv store = open_store(p, "doomed", GetParam().index);
      kv_batch batch;
      for (std::uint64_t i = 0; i < 1500; ++i) batch.put(store, number_key(i), "v", NVM_KV_PUT_NEW);
      ASSERT_TRUE(batch.commit()) << nvm_errormsg();
    }
    const pid_t child = ::fork();
    if (child == 0) {
      auto o = place.options();
      o.size = o.capacity = 0;
      auto p = pool::open(place.path().c_str(), o);
      _exit(p && nvm_kv_drop(p->handle(), "doomed") == 0 ? 0 : 2);
    }
    ::usleep(static_cast<useconds_t>(3000 + round * 2500));
    ::kill(child, SIGKILL);
    int ended = 0;
    ASSERT_EQ(::waitpid(child, &ended, 0), child);
    pool p = place.open();
    // Whoever asks goes on with what was begun.
    nvm_kv_options o{};
    o.mode = NVM_KV_OPEN_ONLY;
    if (auto store = kv::open(p, "doomed", o)) {
      EXPECT_EQ(store->statistics()->entries, 1500U);
      store.reset();
      ASSERT_EQ(nvm_kv_drop(p.handle(), "doomed"), 0) << nvm_errormsg();
    } else {
      EXPECT_EQ(nvm_errno(), NVM_E_NOT_FOUND) << nvm_errormsg();
    }
    std::size_t objects = 0;
    (void)nvm_pool_each(
        p.handle(),
        [](void*, std::uint32_t, std::size_t, void* n) {
          ++*static_cast<std::size_t*>(n);
          return 0;
        },
        &objects);
    EXPECT_EQ(objects, 1U) << "of the directory";
  }
  EXPECT_EQ(place.findings(), 0);
}

}  // namespace
}  // namespace nvm::tests
