// nvm_pool_trim() on files: what a pool gives back, what it keeps, and beside what; after kills, too.
#include <gtest/gtest.h>

#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "../sanitized.hpp"
#include "../scratch_folder.hpp"
#include "nvm/kv.h"
#include "nvm/lockfree.h"
#include "nvm/region.h"
#include "nvm/space.h"
#include "nvm/stm.h"
#include "nvm/store.h"
#include "nvm/tier.h"

namespace nvm::tests {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

struct trimmed_kind {
  const char* name;
  std::uint32_t medium, engine;
};
constexpr trimmed_kind trimmed_kinds[] = {
    {"shm", NVM_MEDIUM_SHM, NVM_ENGINE_UNDO},
    {"shm_redo", NVM_MEDIUM_SHM, NVM_ENGINE_REDO},
    {"shm_mnemosyne", NVM_MEDIUM_SHM, NVM_ENGINE_MNEMOSYNE},
    {"shm_log", NVM_MEDIUM_SHM, NVM_ENGINE_LOG},
    {"ssd", NVM_MEDIUM_SSD, NVM_ENGINE_UNDO},
    {"ssd_log", NVM_MEDIUM_SSD, NVM_ENGINE_LOG},
};
bool is_log(const trimmed_kind& k) { return k.engine == NVM_ENGINE_LOG; }

std::uint64_t allocated(const std::string& path) {
  struct stat s{};
  return ::stat(path.c_str(), &s) == 0 ? static_cast<std::uint64_t>(s.st_blocks) * 512 : 0;
}
std::uint64_t length(const std::string& path) {
  struct stat s{};
  return ::stat(path.c_str(), &s) == 0 ? static_cast<std::uint64_t>(s.st_size) : 0;
}

// A node of a list whose head is the root.
struct node {
  node* next;
  std::uint64_t bytes;
  unsigned char fill;
};

class trim : public testing::TestWithParam<trimmed_kind> {
 protected:
  void create(std::size_t size = 4 * mib) {
    nvm_pool_options o{};
    o.size = size;
    o.capacity = 256 * mib;
    o.medium = GetParam().medium;
    o.engine = GetParam().engine;
    pool = nvm_pool_create_with(path.c_str(), &o);
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
  }
  void close() {
    if (pool == nullptr) return;
    EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    pool = nullptr;
  }
  void reopen() {
    close();
    nvm_pool_options o{};
    o.medium = GetParam().medium;
    pool = nvm_pool_open_with(path.c_str(), &o);
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
  }
  ~trim() override { close(); }

  // In front of the list; by barriers, which every engine has.
  bool push(std::uint64_t bytes, unsigned char fill) {
    return run([&](nvm_stm* tx) {
      auto* n = static_cast<node*>(nvm_stm_alloc(tx, 7, sizeof(node) + bytes));
      if (n == nullptr) return false;
      const node value{static_cast<node*>(nvm_stm_get_root(tx)), bytes, fill};
      nvm_stm_write(tx, n, &value, sizeof value);
      const std::vector<unsigned char> content(bytes, fill);
      nvm_stm_write(tx, n + 1, content.data(), bytes);
      return nvm_stm_set_root(tx, n) == 0;
    });
  }
  // Of every `nth` node of the list, from the first.
  unsigned drop(unsigned nth) {
    unsigned dropped = 0;
    EXPECT_TRUE(run([&](nvm_stm* tx) {
      dropped = 0;
      node* before = nullptr;
      unsigned i = 0;
      for (auto* n = static_cast<node*>(nvm_stm_get_root(tx)); n != nullptr; ++i) {
        node value;
        nvm_stm_read(tx, &value, n, sizeof value);
        if (i % nth != 0) {
          before = n;
        } else {
          if (before == nullptr) {
            if (nvm_stm_set_root(tx, value.next) != 0) return false;
          } else {
            nvm_stm_write(tx, &before->next, &value.next, sizeof value.next);
          }
          if (nvm_stm_free(tx, n) != 0) return false;
          ++dropped;
        }
        n = value.next;
      }
      return true;
    }));
    return dropped;
  }
  unsigned count_intact() {
    unsigned good = 0;
    EXPECT_TRUE(run([&](nvm_stm* tx) {
      good = 0;
      for (auto* n = static_cast<node*>(nvm_stm_get_root(tx)); n != nullptr;) {
        node value;
        nvm_stm_read(tx, &value, n, sizeof value);
        std::vector<unsigned char> content(value.bytes);
        nvm_stm_read(tx, content.data(), n + 1, value.bytes);
        good += std::all_of(content.begin(), content.end(), [&](unsigned char c) { return c == value.fill; });
        n = value.next;
      }
      return true;
    }));
    return good;
  }
  template <class F>
  bool run(F&& body) {
    struct closure {
      F& body;
      bool good;
    } c{body, false};
    const int done = nvm_stm_run(
        pool,
        [](nvm_stm* tx, void* raw) {
          auto& of = *static_cast<closure*>(raw);
          of.good = of.body(tx);
          return of.good ? 0 : 1;
        },
        &c);
    return done == 0 && c.good;
  }
  nvm_trim_report trim_now(std::uint32_t flags = 0) {
    nvm_trim_options o{};
    o.flags = flags;
    nvm_trim_report r{};
    EXPECT_EQ(nvm_pool_trim(pool, &o, &r), 0) << nvm_errormsg();
    EXPECT_STREQ(r.why, "");
    return r;
  }

  scratch_folder folder{"trim", GetParam().medium == NVM_MEDIUM_SSD};
  std::string path = folder.path("pool.nvm");
  NVM_POOL* pool = nullptr;
};
INSTANTIATE_TEST_SUITE_P(kinds, trim, testing::ValuesIn(trimmed_kinds),
                         [](const testing::TestParamInfo<trimmed_kind>& i) { return std::string{i.param.name}; });

TEST_P(trim, makes_the_file_take_less_and_keeps_what_is_in_use) {
  create();
  for (unsigned i = 0; i < 80; ++i)
    ASSERT_TRUE(push(100 + i % 5 * 20000, static_cast<unsigned char>(i))) << nvm_errormsg();
  const unsigned dropped = drop(2);
  const std::uint64_t before = allocated(path);
  const nvm_trim_report r = trim_now();
  EXPECT_EQ(r.allocated_before, before);
  EXPECT_EQ(r.allocated_after, allocated(path));
  EXPECT_EQ(r.file_after, length(path));
  if (!is_log(GetParam())) {
    EXPECT_LT(r.allocated_after + mib, before);
    EXPECT_GT(r.punched + r.cut, mib);
  }
  EXPECT_EQ(r.file_before - r.file_after, r.cut);
  EXPECT_EQ(count_intact(), 80 - dropped);
  // The next open leaves holes alone.
  close();
  const std::uint64_t closed = allocated(path);
  reopen();
  EXPECT_LE(allocated(path), closed + 64 * 1024);
  EXPECT_EQ(count_intact(), 80 - dropped);
  // And the pool is used and grows as before.
  for (unsigned i = 0; i < 100; ++i) ASSERT_TRUE(push(50000, static_cast<unsigned char>(i))) << nvm_errormsg();
  EXPECT_EQ(count_intact(), 180 - dropped);
  reopen();
  EXPECT_EQ(count_intact(), 180 - dropped);
}

TEST_P(trim, cuts_an_empty_pool_down_and_it_grows_again) {
  create(256 * 1024);
  if (is_log(GetParam())) GTEST_SKIP() << "its chunks stay the log's";
  for (unsigned round = 0; round < 3; ++round) {
    for (unsigned i = 0; i < 100; ++i) ASSERT_TRUE(push(100000, static_cast<unsigned char>(i))) << nvm_errormsg();
    EXPECT_GT(length(path), 10 * mib);
    EXPECT_EQ(drop(1), 100U);
    const nvm_trim_report r = trim_now();
    EXPECT_GT(r.cut, 8 * mib);
    EXPECT_LT(length(path), 8 * mib);
    if (round == 1) reopen();
  }
}

TEST_P(trim, says_what_keeps_it_from_trimming) {
  create();
  nvm_trim_options o{};
  o.flags = 8;
  EXPECT_EQ(nvm_pool_trim(pool, &o, nullptr), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  o = {};
  o.reserved[3] = 1;
  EXPECT_EQ(nvm_pool_trim(pool, &o, nullptr), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  EXPECT_EQ(nvm_pool_trim(nullptr, nullptr, nullptr), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  EXPECT_EQ(nvm_pool_trim(pool, nullptr, nullptr), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_TX_OPEN);
  ASSERT_EQ(nvm_tx_abort(pool), 0);
  close();
  o = {};
  nvm_pool_options how{};
  how.read_only = 1;
  how.medium = GetParam().medium;
  pool = nvm_pool_open_with(path.c_str(), &how);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  EXPECT_EQ(nvm_pool_trim(pool, &o, nullptr), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_READ_ONLY);
}

TEST_P(trim, ends_when_progress_says_so) {
  create();
  nvm_trim_options o{};
  unsigned calls = 0;
  o.argument = &calls;
  o.progress = [](std::uint64_t done, std::uint64_t total, void* argument) {
    EXPECT_LE(done, total);
    return ++*static_cast<unsigned*>(argument) == 1 ? 1 : 0;
  };
  nvm_trim_report r{};
  EXPECT_EQ(nvm_pool_trim(pool, &o, &r), 0) << nvm_errormsg();
  EXPECT_EQ(r.stopped, 1U);
  EXPECT_EQ(r.punched + r.cut, 0U);
  EXPECT_EQ(calls, 1U);
}

TEST_P(trim, happens_inside_when_the_pool_is_closed_and_when_a_store_is_dropped) {
  create();
  if (is_log(GetParam())) GTEST_SKIP() << "its objects have no extents";
  nvm_pool_info empty{};
  ASSERT_EQ(nvm_pool_get_info(pool, &empty), 0);
  for (unsigned i = 0; i < 600; ++i) ASSERT_TRUE(push(200, 1));
  EXPECT_EQ(drop(1), 600U);
  reopen();
  nvm_pool_info now{};
  ASSERT_EQ(nvm_pool_get_info(pool, &now), 0);
  EXPECT_LE(now.used_pages, empty.used_pages + 16);
  nvm_kv* kv = nvm_kv_open(pool, "some", nullptr);
  ASSERT_NE(kv, nullptr) << nvm_errormsg();
  for (unsigned i = 0; i < 1000; ++i) ASSERT_EQ(nvm_kv_put(kv, &i, sizeof i, path.data(), path.size()), 0);
  nvm_kv_close(kv);
  ASSERT_EQ(nvm_pool_get_info(pool, &now), 0);
  const std::uint64_t with = now.used_pages;
  ASSERT_EQ(nvm_kv_drop(pool, "some"), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_pool_get_info(pool, &now), 0);
  EXPECT_LT(now.used_pages, with / 2);
}

TEST_P(trim, works_beside_stores_structures_and_regions) {
  create();
  if (GetParam().engine == NVM_ENGINE_UNDO) {
    nvm_store* s = nvm_store_attach(pool, "tenant", NVM_STORE_CREATE);
    ASSERT_NE(s, nullptr) << nvm_errormsg();
    nvm_lf* lf = nvm_lf_open(pool, "words", nullptr);
    ASSERT_NE(lf, nullptr) << nvm_errormsg();
    for (std::uint64_t i = 1; i < 3000; ++i) ASSERT_EQ(nvm_lf_put64(lf, i, i * 3, 0), 1) << nvm_errormsg();
    ASSERT_EQ(nvm_tx_begin(pool), 0);
    auto* p = static_cast<unsigned char*>(nvm_store_alloc(s, 3, 5000));
    ASSERT_NE(p, nullptr) << nvm_errormsg();
    std::memset(p, 0x3C, 5000);
    ASSERT_EQ(nvm_store_set_root(s, p), 0);
    ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
    (void)trim_now();
    for (std::uint64_t i = 1; i < 2000; ++i) ASSERT_EQ(nvm_lf_remove64(lf, i), 1) << nvm_errormsg();
    (void)trim_now();
    for (std::uint64_t i = 2000; i < 3000; ++i) {
      std::uint64_t value = 0;
      ASSERT_EQ(nvm_lf_get64(lf, i, &value), 1);
      ASSERT_EQ(value, i * 3);
    }
    EXPECT_EQ(p[4999], 0x3C);
    for (std::uint64_t i = 1; i < 4000; ++i) ASSERT_GE(nvm_lf_put64(lf, i, i, 0), 1) << nvm_errormsg();
    ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
  }
  close();
  EXPECT_EQ(nvm_pool_check(path.c_str(), nullptr, nullptr, nullptr), 0) << nvm_errormsg();
}

TEST(trim_of_a_pool, with_a_second_file_is_refused_but_inside) {
  const scratch_folder folder{"trim", false};
  const std::string second = folder.path("second");
  nvm_tier_options t{};
  t.path = second.c_str();
  t.fast_bytes = mib;
  nvm_pool_options o{};
  o.size = 4 * mib;
  o.medium = NVM_MEDIUM_SHM;
  o.tier = &t;
  NVM_POOL* pool = nvm_pool_create_with(folder.path("pool").c_str(), &o);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  EXPECT_EQ(nvm_pool_trim(pool, nullptr, nullptr), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_ENGINE);
  nvm_trim_options inside{};
  inside.flags = NVM_TRIM_INSIDE;
  EXPECT_EQ(nvm_pool_trim(pool, &inside, nullptr), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
}

// Threads work on lists of their own while this one trims.
TEST_P(trim, may_be_done_while_threads_work) {
  create();
  struct table {
    void* heads[4];
  };
  ASSERT_TRUE(run([&](nvm_stm* tx) {
    auto* t = static_cast<table*>(nvm_stm_alloc(tx, 8, sizeof(table)));
    const table none{};
    nvm_stm_write(tx, t, &none, sizeof none);
    return nvm_stm_set_root(tx, t) == 0;
  }));
  auto* const heads = static_cast<table*>(nvm_pool_get_root(pool));
  std::atomic<unsigned> working{3};
  std::atomic<unsigned> bad{0};
  std::atomic<unsigned> trims{0};
  std::vector<std::thread> threads;
  for (unsigned k = 0; k < 3; ++k) {
    threads.emplace_back([&, k] {
      for (unsigned i = 0; i < 600 || trims == 0; ++i) {
        // The list of another thread is looked at, too: what is met there may be freed meanwhile.
        const bool good = run([&](nvm_stm* tx) {
          node* n = nullptr;
          nvm_stm_read(tx, &n, &heads->heads[(k + 1) % 3], sizeof n);
          for (unsigned steps = 0; n != nullptr && steps < 50; ++steps) {
            node value;
            nvm_stm_read(tx, &value, n, sizeof value);
            n = value.next;
          }
          node* first = nullptr;
          nvm_stm_read(tx, &first, &heads->heads[k], sizeof first);
          const bool adds = i < 600 ? i % 100 < 60 : i % 2 == 0;
          if (adds || first == nullptr) {
            auto* made = static_cast<node*>(nvm_stm_alloc(tx, 7, sizeof(node) + i % 7 * 3000));
            if (made == nullptr) return false;
            const node value{first, i % 7 * 3000, 0};
            nvm_stm_write(tx, made, &value, sizeof value);
            nvm_stm_write(tx, &heads->heads[k], &made, sizeof made);
            return true;
          }
          node value;
          nvm_stm_read(tx, &value, first, sizeof value);
          nvm_stm_write(tx, &heads->heads[k], &value.next, sizeof value.next);
          return nvm_stm_free(tx, first) == 0;
        });
        if (!good) ++bad;
      }
      --working;
    });
  }
  while (working != 0) {
    if (nvm_pool_trim(pool, nullptr, nullptr) != 0) ++bad;
    ++trims;
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(bad, 0U) << nvm_errormsg();
  close();
  EXPECT_EQ(nvm_pool_check(path.c_str(), nullptr, nullptr, nullptr), 0) << nvm_errormsg();
}

// The length of the file and its superblock are read at two moments, and growth or a cut may come between.
TEST_P(trim, may_be_done_while_others_look_at_the_file) {
  create();
  std::atomic<bool> over{false};
  std::thread looks{[&] {
    nvm_pool_info info;
    while (!over) EXPECT_EQ(nvm_pool_inspect(path.c_str(), &info), 0) << nvm_errormsg();
  }};
  for (unsigned i = 0; i < (sanitized ? 10 : 60); ++i) {
    // Its bytes are not written: the pool grows for it all the same.
    EXPECT_TRUE(run([](nvm_stm* tx) {
      void* const made = nvm_stm_alloc(tx, 7, 5 * mib);
      return made != nullptr && nvm_stm_set_root(tx, made) == 0;
    })) << nvm_errormsg();
    EXPECT_TRUE(run([](nvm_stm* tx) {
      void* const made = nvm_stm_get_root(tx);
      return nvm_stm_set_root(tx, nullptr) == 0 && nvm_stm_free(tx, made) == 0;
    })) << nvm_errormsg();
    EXPECT_EQ(nvm_pool_trim(pool, nullptr, nullptr), 0) << nvm_errormsg();
  }
  over = true;
  looks.join();
}

// A process works and trims and is killed: the next one finds what had been acknowledged.
TEST_P(trim, loses_nothing_when_the_process_is_killed) {
  create();
  close();
  auto* const told = static_cast<std::atomic<unsigned>*>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(told, MAP_FAILED);
  for (unsigned kill = 0; kill < 6; ++kill) {
    const pid_t child = ::fork();
    if (child == 0) {
      nvm_pool_options o{};
      o.medium = GetParam().medium;
      pool = nvm_pool_open_with(path.c_str(), &o);
      if (pool == nullptr) ::_exit(2);
      for (unsigned i = 0;; ++i) {
        if (!push(i % 3 == 0 ? 9000 : 300, static_cast<unsigned char>(i))) ::_exit(3);
        told[0].fetch_add(1);
        if (i % 8 == 7) {
          if (nvm_pool_trim(pool, nullptr, nullptr) != 0) ::_exit(4);
          told[1].fetch_add(1);
        }
        if (i % 64 == 63) {
          told[2].store(1);
          const unsigned gone = drop(3);
          told[0].fetch_sub(gone);
          told[2].store(0);
        }
      }
    }
    const unsigned trims = told[1].load();
    int how = 0;
    pid_t ended = 0;
    while (ended == 0 && told[1].load() < trims + 3 + kill) {
      ::usleep(200);
      ended = ::waitpid(child, &how, WNOHANG);
    }
    ASSERT_EQ(ended, 0) << "it ended by itself, with " << WEXITSTATUS(how);
    ::usleep(97 * kill);
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    ASSERT_EQ(::waitpid(child, &how, 0), child);
    ASSERT_TRUE(WIFSIGNALED(how)) << "ended with " << WEXITSTATUS(how);
    EXPECT_EQ(nvm_pool_check(path.c_str(), nullptr, nullptr, nullptr), 0) << nvm_errormsg();
    reopen();
    const unsigned found = count_intact();
    if (told[2].load() == 0) {
      EXPECT_GE(found, told[0].load());
      EXPECT_LE(found, told[0].load() + 1);
    }
    told[2].store(0);
    told[0].store(found);
    close();
  }
  (void)::munmap(told, 4096);
}

}  // namespace
}  // namespace nvm::tests
