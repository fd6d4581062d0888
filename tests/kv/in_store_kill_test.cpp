// A process with four threads, each with key-value stores in an object store of its own which it changes, gives up,
// takes again, renames and deletes, is killed at any time: the next one finds the changes of all calls that had
// returned, of each thread's interrupted call all or nothing, and no other change.  NVM_KILLS=n: so many kills.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <thread>

#include "../random_seed.hpp"
#include "kv_testing.hpp"
#include "nvm/store_kv.h"

namespace nvm::tests {
namespace {

constexpr unsigned threads = 4;

struct contents {
  bool exists = false;
  bool renamed = false;
  model entries;
  bool operator==(const contents&) const = default;
};

std::string name_of(unsigned t, bool renamed) { return "thread/" + std::to_string(t) + (renamed ? "/b" : "/a"); }
enum nvm_kv_index index_of(unsigned t) { return indexes[t % std::size(indexes)]; }

// Call `i` of thread `t`: what it does follows from these alone, and from what is there.
enum class op : std::uint8_t { put, remove, batch, again, rename, drop };
struct call {
  op what = op::put;
  std::string key, value;
  std::vector<std::pair<std::string, std::string>> entries{};

  call(std::uint64_t seed, unsigned t, std::uint64_t i, const contents& now) {
    random_source random{seed * 1000003 + i * threads + t};
    const auto some_key = [&] { return number_key(random() % 60 * 0x9E3779B97F4A7C15); };
    key = some_key();
    value.assign(random() % 8 == 0 ? random() % 6000 : random() % 200, static_cast<char>('a' + i % 26));
    switch (random() % 40) {
      case 0:
        what = now.exists ? op::drop : op::put;
        break;
      case 1:
        what = now.exists ? op::rename : op::put;
        break;
      case 2:
      case 3:
        what = now.exists ? op::again : op::put;
        break;
      default:
        what = random() % 3 == 0 ? op::remove : random() % 3 == 0 ? op::batch : op::put;
        break;
    }
    for (unsigned n = random() % 12; n-- != 0;) entries.emplace_back(some_key(), std::string(random() % 300, 'b'));
  }
  void on(contents& c) const {
    switch (what) {
      case op::put:
        c.exists = true;
        c.entries[key] = value;
        break;
      case op::remove:
        c.exists = true;
        c.entries.erase(key);
        break;
      case op::batch:
        c.exists = true;
        for (const auto& [k, v] : entries) c.entries[k] = v;
        break;
      case op::again:
        break;
      case op::rename:
        c.renamed = !c.renamed;
        break;
      case op::drop:
        c = {};
        break;
    }
  }
};

// What a thread of the process that is killed has open.
class worker {
 public:
  worker(NVM_POOL* pool, unsigned t) : pool_{pool}, t_{t} {}
  void run(const call& c, const contents& now) {
    if (home_ == nullptr && c.what != op::rename && c.what != op::drop) attach(now.renamed);
    switch (c.what) {
      case op::put:
        must(nvm_kv_put(kv_, c.key.data(), c.key.size(), c.value.data(), c.value.size()) == 0);
        break;
      case op::remove:
        must(nvm_kv_remove(kv_, c.key.data(), c.key.size()) >= 0);
        break;
      case op::batch: {
        std::vector<nvm_kv_operation> all;
        for (const auto& [k, v] : c.entries)
          all.push_back({kv_, NVM_KV_PUT, 0, k.data(), k.size(), v.data(), v.size()});
        must(nvm_kv_batch(pool_, all.data(), all.size(), nullptr) == 0);
        break;
      }
      case op::again:
        detach();
        attach(now.renamed);
        break;
      case op::rename:
        detach();
        must(nvm_store_rename(pool_, name_of(t_, now.renamed).c_str(), name_of(t_, !now.renamed).c_str()) == 0);
        break;
      case op::drop:
        detach();
        must(nvm_store_delete(pool_, name_of(t_, now.renamed).c_str()) == 0);
        break;
    }
  }

 private:
  static void must(bool good) {
    if (good) return;
    std::fprintf(stderr, "a call failed: %s\n", nvm_errormsg());
    _exit(3);
  }
  void attach(bool renamed) {
    home_ = nvm_store_attach(pool_, name_of(t_, renamed).c_str(), NVM_STORE_CREATE);
    must(home_ != nullptr);
    nvm_kv_options o{};
    o.index = index_of(t_);
    kv_ = nvm_kv_open_in(home_, "one", &o);
    must(kv_ != nullptr);
  }
  void detach() {
    if (home_ == nullptr) return;
    must(nvm_kv_close(kv_) == 0);
    must(nvm_store_detach(home_) == 0);
    home_ = nullptr;
  }
  NVM_POOL* pool_;
  unsigned t_;
  nvm_store* home_ = nullptr;
  nvm_kv* kv_ = nullptr;
};

contents found_in(NVM_POOL* pool, unsigned t) {
  contents c;
  for (const bool renamed : {false, true}) {
    nvm_store* const s = nvm_store_attach(pool, name_of(t, renamed).c_str(), 0);
    if (s == nullptr) {
      EXPECT_EQ(nvm_errno(), NVM_E_NOT_FOUND) << nvm_errormsg();
      continue;
    }
    EXPECT_FALSE(c.exists) << "two stores of one thread";
    c.exists = true;
    c.renamed = renamed;
    nvm_kv_options o{};
    o.mode = NVM_KV_OPEN_ONLY;
    if (auto one = kv::of(nvm_kv_open_in(s, "one", &o))) {
      EXPECT_TRUE(one->statistics()) << nvm_errormsg();
      c.entries = entries_of(*one);
    } else {
      EXPECT_EQ(nvm_errno(), NVM_E_NOT_FOUND) << nvm_errormsg();
    }
    EXPECT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
  }
  return c;
}

struct shared {
  std::atomic<std::uint64_t> done[threads];
};

constexpr ground homes[] = {{"shm_undo", NVM_MEDIUM_SHM, NVM_ENGINE_UNDO},
                            {"shm_redo", NVM_MEDIUM_SHM, NVM_ENGINE_REDO},
                            {"ssd", NVM_MEDIUM_SSD, NVM_ENGINE_DETECT}};
class killed_in_stores : public testing::TestWithParam<ground> {};
INSTANTIATE_TEST_SUITE_P(everywhere, killed_in_stores, testing::ValuesIn(homes),
                         [](const auto& i) { return i.param.name; });

TEST_P(killed_in_stores, they_have_what_returned_calls_have_done) {
  const pool_place place{GetParam(), true};
  {
    (void)place.create(std::size_t{32} << 20);
  }
  auto* const done =
      static_cast<shared*>(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(done, MAP_FAILED);
  const std::uint64_t seed = seed_from_environment();
  contents expected[threads];
  std::uint64_t applied[threads] = {};
  const char* const wanted = std::getenv("NVM_KILLS");
  const unsigned kills = wanted == nullptr ? 12 : static_cast<unsigned>(std::strtoul(wanted, nullptr, 10));
  random_source random{seed};
  std::uint64_t all = 0;
  for (unsigned round = 0; round < kills; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      NVM_POOL* const pool = nvm_pool_open(place.path().c_str());
      if (pool == nullptr) _exit(2);
      std::vector<std::thread> workers;
      for (unsigned t = 0; t < threads; ++t) {
        workers.emplace_back([&, t] {
          worker w{pool, t};
          contents now = expected[t];
          for (std::uint64_t i = applied[t];; ++i) {
            const call c{seed, t, i, now};
            w.run(c, now);
            c.on(now);
            done->done[t].store(i + 1, std::memory_order_release);
          }
        });
      }
      for (auto& w : workers) w.join();
    }
    ::usleep(static_cast<useconds_t>(10'000 + random() % 30'000));
    ::kill(child, SIGKILL);
    int ended = 0;
    ASSERT_EQ(::waitpid(child, &ended, 0), child);
    ASSERT_TRUE(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGKILL) << "ended by " << ended;
    ASSERT_EQ(place.findings(), 0) << "round " << round << ", seed " << seed;
    pool p = place.open();
    for (unsigned t = 0; t < threads; ++t) {
      contents& of = expected[t];
      for (const std::uint64_t until = done->done[t].load(); applied[t] < until; ++applied[t])
        call{seed, t, applied[t], of}.on(of);
      const contents found = found_in(p.handle(), t);
      if (found != of) {
        // The call that it died in; one that would have made the store may have come no further than that.
        contents begun = of;
        begun.exists = true;
        if (found == begun) {
          of = begun;
        } else {
          call{seed, t, applied[t], of}.on(of);
          ++applied[t];
        }
        ASSERT_TRUE(found == of) << "round " << round << ", thread " << t << ", call " << applied[t] << ", seed "
                                 << seed;
      }
      done->done[t].store(applied[t]);
      all += applied[t];
    }
  }
  EXPECT_GT(all, kills * 10U);
  ::munmap(done, 4096);
}

}  // namespace
}  // namespace nvm::tests
