// Pools with a second file that are opened where something is missing, or was left: each open is refused, or shows what
// the last life has left.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "nvm/kv.h"
#include "nvm/space.h"
#include "platform/platform.hpp"
#include "tiered_pool.hpp"

namespace nvm::tests {
namespace {

class tiered_pool_opened : public tiered_pool {
 protected:
  static constexpr unsigned blocks = 400;
  static constexpr int ok = 0, refused = 10, wrong = 11;

  // What f() returns, run by a process of its own that ends without a close of what is open.
  template <class F>
  static int in_child(F&& f) {
    const pid_t pid = ::fork();
    EXPECT_GE(pid, 0);
    if (pid == 0) {
      const int code = f();
      std::fflush(nullptr);
      ::_exit(HasFailure() ? wrong : code);
    }
    int how = 0;
    EXPECT_EQ(::waitpid(pid, &how, 0), pid);
    EXPECT_TRUE(WIFEXITED(how));
    return WIFEXITED(how) ? WEXITSTATUS(how) : -1;
  }
  // Opens the pool, and asks whether it is whole.
  static int look(const std::string& path, const nvm_pool_options* o = nullptr) {
    NVM_POOL* const p = nvm_pool_open_with(path.c_str(), o);
    if (p == nullptr) return refused;
    verify(p, blocks);
    EXPECT_EQ(nvm_pool_close(p), 0) << nvm_errormsg();
    return ok;
  }
};

// The descriptors run out anywhere in an open.
TEST_F(tiered_pool_opened, without_descriptors_is_refused_or_whole) {
  NVM_POOL* p = create(4 * mib, mib);
  NEEDS_USER_FAULTS(p);
  build(p, blocks);
  ASSERT_EQ(nvm_tier_shrink(p, 0), 0);
  ASSERT_EQ(nvm_pool_close(p), 0);
  unsigned refusals = 0;
  for (rlim_t spare = 1; spare < 16; ++spare) {
    const int how = in_child([&] {
      const int next = ::dup(0);
      ::close(next);
      rlimit limit{};
      EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
      limit.rlim_cur = static_cast<rlim_t>(next) + spare;
      EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
      const int found = look(fast());
      return found;
    });
    EXPECT_TRUE(how == ok || how == refused) << spare << " descriptors: " << how;
    refusals += how == refused ? 1 : 0;
  }
  EXPECT_GT(refusals, 3U);
  EXPECT_LT(refusals, 15U);
  EXPECT_EQ(look(fast()), ok) << nvm_errormsg();
}

// From now on this process has no user faults, as in a container that forbids them.
bool forbid_user_faults() {
  sock_filter steps[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(UFFDIO_API), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program{static_cast<unsigned short>(std::size(steps)), steps};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}
bool is_active(NVM_POOL* p) {
  nvm_tier_statistics s{};
  EXPECT_EQ(nvm_tier_get_statistics(p, &s), 0) << nvm_errormsg();
  return s.active != 0;
}
// Allocates objects of a page each, which nothing leads to.
void take_pages(NVM_POOL* p, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    ASSERT_EQ(nvm_tx_begin(p), 0) << nvm_errormsg();
    void* const q = nvm_alloc(p, 1, 4000);
    ASSERT_NE(q, nullptr) << nvm_errormsg();
    std::memset(q, 1, 4000);
    ASSERT_EQ(nvm_tx_commit(p), 0) << nvm_errormsg();
  }
}

TEST_F(tiered_pool_opened, after_an_exit_without_a_close_is_whole) {
  NVM_POOL* p = create(4 * mib, mib);
  NEEDS_USER_FAULTS(p);
  build(p, blocks);
  ASSERT_EQ(nvm_tier_shrink(p, 0), 0);
  ASSERT_EQ(nvm_pool_close(p), 0);
  EXPECT_EQ(in_child([&]() -> int {
              NVM_POOL* const q = nvm_pool_open(fast().c_str());
              if (q == nullptr) return refused;
              verify(q, blocks);
              std::exit(HasFailure() ? wrong : ok);
            }),
            ok);
  EXPECT_EQ(look(fast()), ok) << nvm_errormsg();
  expect_whole(fast());
}

TEST_F(tiered_pool_opened, after_a_session_without_user_faults_is_whole) {
  NVM_POOL* p = create(4 * mib, 8 * mib);
  NEEDS_USER_FAULTS(p);
  build(p, blocks);
  ASSERT_EQ(nvm_pool_close(p), 0);
  EXPECT_EQ(in_child([&] {
              if (!forbid_user_faults()) return 77;
              NVM_POOL* const q = nvm_pool_open(fast().c_str());
              if (q == nullptr) return refused;
              EXPECT_FALSE(is_active(q));
              verify(q, blocks);
              take_pages(q, 100);
              EXPECT_EQ(nvm_pool_close(q), 0) << nvm_errormsg();
              return ok;
            }),
            ok);
  EXPECT_EQ(look(fast()), ok) << nvm_errormsg();
  EXPECT_EQ(look(fast()), ok) << nvm_errormsg();
}

TEST_F(tiered_pool_opened, without_user_faults_remembers_where_its_second_file_has_moved_to) {
  NVM_POOL* p = create(4 * mib, 8 * mib);
  NEEDS_USER_FAULTS(p);
  build(p, blocks);
  ASSERT_EQ(nvm_pool_close(p), 0);
  const std::string moved = slow("moved");
  std::filesystem::rename(slow(), moved);
  EXPECT_EQ(in_child([&] {
              if (!forbid_user_faults()) return 77;
              nvm_tier_options t{};
              t.path = moved.c_str();
              nvm_pool_options o{};
              o.tier = &t;
              return look(fast(), &o);
            }),
            ok);
  nvm_tier_info info{};
  ASSERT_EQ(nvm_tier_inspect(fast().c_str(), &info), 0) << nvm_errormsg();
  EXPECT_EQ(std::string{info.path}, moved);
  EXPECT_EQ(look(fast()), ok) << nvm_errormsg();
}

// A page that was never stored to, and is read through a private mapping of the file, would be made in it.
TEST_F(tiered_pool_opened, after_a_reader_without_user_faults_is_as_before) {
  NVM_POOL* p = create(4 * mib, 8 * mib);
  NEEDS_USER_FAULTS(p);
  ASSERT_EQ(nvm_tx_begin(p), 0);
  auto* const untouched = static_cast<unsigned char*>(nvm_alloc(p, 1, mib));
  ASSERT_NE(untouched, nullptr) << nvm_errormsg();
  untouched[0] = 1;
  ASSERT_EQ(nvm_pool_set_root(p, untouched), 0);
  ASSERT_EQ(nvm_tx_commit(p), 0);
  ASSERT_EQ(nvm_pool_close(p), 0);
  nvm_tier_info before{}, after{};
  ASSERT_EQ(nvm_tier_inspect(fast().c_str(), &before), 0) << nvm_errormsg();
  EXPECT_EQ(in_child([&] {
              if (!forbid_user_faults()) return 77;
              nvm_pool_options o{};
              o.read_only = 1;
              NVM_POOL* const q = nvm_pool_open_with(fast().c_str(), &o);
              if (q == nullptr) return refused;
              EXPECT_FALSE(is_active(q));
              const auto* const r = static_cast<const volatile unsigned char*>(nvm_pool_get_root(q));
              std::uint64_t sum = 0;
              for (std::size_t i = 0; i < mib; ++i) sum += r[i];
              EXPECT_EQ(sum, 1U);
              EXPECT_EQ(nvm_pool_close(q), 0) << nvm_errormsg();
              return ok;
            }),
            ok);
  ASSERT_EQ(nvm_tier_inspect(fast().c_str(), &after), 0) << nvm_errormsg();
  EXPECT_EQ(after.fast_bytes, before.fast_bytes);
  p = nvm_pool_open(fast().c_str());
  ASSERT_NE(p, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_pool_close(p), 0);
}

// A mapping for each hole would be more than a process may have.
TEST_F(tiered_pool_opened, by_a_reader_without_user_faults_takes_few_mappings) {
  constexpr std::size_t bytes = 40 * mib, long_extent = 8 * mib;
  NVM_POOL* p = create(48 * mib, 64 * mib);
  NEEDS_USER_FAULTS(p);
  ASSERT_EQ(nvm_tx_begin(p), 0);
  auto* const words = static_cast<std::uint64_t*>(nvm_alloc(p, 1, bytes));
  ASSERT_NE(words, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_pool_set_root(p, words), 0);
  ASSERT_EQ(nvm_tx_commit(p), 0);
  // Backwards, so that no page comes ahead.
  constexpr std::size_t words_in_page = 512;
  const auto is_stored_to = [](std::size_t page) { return page % 2 == 1 || page < long_extent / 4096; };
  for (std::size_t page = bytes / 4096; page-- > 0;) {
    if (is_stored_to(page)) words[page * words_in_page + 7] = page + 1;
  }
  ASSERT_EQ(nvm_pool_close(p), 0);
  EXPECT_EQ(in_child([&] {
              if (!forbid_user_faults()) return 77;
              nvm_pool_options o{};
              o.read_only = 1;
              NVM_POOL* const q = nvm_pool_open_with(fast().c_str(), &o);
              if (q == nullptr) return refused;
              EXPECT_FALSE(is_active(q));
              std::ifstream maps{"/proc/self/maps"};
              EXPECT_LT(std::count(std::istreambuf_iterator<char>{maps}, {}, '\n'), 1000);
              const auto* const r = static_cast<const volatile std::uint64_t*>(nvm_pool_get_root(q));
              for (std::size_t page = 0; page < bytes / 4096; ++page) {
                EXPECT_EQ(r[page * words_in_page + 7], is_stored_to(page) ? page + 1 : 0) << page;
              }
              EXPECT_EQ(nvm_pool_close(q), 0) << nvm_errormsg();
              return ok;
            }),
            ok);
  p = nvm_pool_open(fast().c_str());
  ASSERT_NE(p, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_pool_close(p), 0);
}

// Its file had blocks for all pages, or, trimmed, gets them when free pages are used again.
TEST_F(tiered_pool_opened, for_a_pool_with_blocks_of_its_own_keeps_the_limit_and_its_books) {
  for (const bool trimmed : {false, true}) {
    const char* const name = trimmed ? "trimmed" : "pool";
    nvm_pool_options o{};
    o.size = 16 * mib;
    o.medium = NVM_MEDIUM_SHM;
    NVM_POOL* p = nvm_pool_create_with(fast(name).c_str(), &o);
    ASSERT_NE(p, nullptr) << nvm_errormsg();
    if (trimmed) {
      take_pages(p, 1000);
      ASSERT_EQ(nvm_pool_trim(p, nullptr, nullptr), 0) << nvm_errormsg();
    }
    ASSERT_EQ(nvm_pool_close(p), 0);
    const std::string second = slow(name);
    nvm_tier_options t{};
    t.path = second.c_str();
    t.fast_bytes = mib;
    o = {};
    o.tier = &t;
    p = nvm_pool_open_with(fast(name).c_str(), &o);
    ASSERT_NE(p, nullptr) << nvm_errormsg();
    NEEDS_USER_FAULTS(p);
    build(p, 2000);
    verify(p, 2000);
    ASSERT_EQ(nvm_pool_close(p), 0);
    nvm_tier_info info;
    ASSERT_EQ(nvm_tier_inspect(fast(name).c_str(), &info), 0) << nvm_errormsg();
    EXPECT_LE(info.fast_bytes, mib) << name;
    p = nvm_pool_open(fast(name).c_str());
    ASSERT_NE(p, nullptr) << nvm_errormsg();
    verify(p, 2000);
    ASSERT_EQ(nvm_pool_close(p), 0);
  }
}

// From now on each file is of a file system that has huge pages, in tmpfs's words.
void see_huge_pages(bool see) {
  static platform::file_calls table;
  table = platform::system_file_calls();
  table.fstat = [](int descriptor, struct ::stat* out) {
    const int got = ::fstat(descriptor, out);
    out->st_blksize = 2 << 20;
    return got;
  };
  platform::use_file_calls(see ? &table : nullptr);
}
struct sees_huge_pages {
  sees_huge_pages() { see_huge_pages(true); }
  ~sees_huge_pages() { see_huge_pages(false); }
};

// A part of a huge page that is given back becomes zeros, without a word, while the kernel holds the page.
TEST_F(tiered_pool_opened, where_its_pages_may_be_huge_gets_no_second_file) {
  nvm_pool_options o{};
  o.size = 8 * mib;
  o.medium = NVM_MEDIUM_SHM;
  NVM_POOL* p = nvm_pool_create_with(fast().c_str(), &o);
  ASSERT_NE(p, nullptr) << nvm_errormsg();
  build(p, blocks);
  take_pages(p, 300);
  ASSERT_EQ(nvm_pool_close(p), 0);
  const sees_huge_pages seen;
  const std::string second = slow();
  nvm_tier_options t{};
  t.path = second.c_str();
  t.fast_bytes = mib;
  o = {};
  o.tier = &t;
  p = nvm_pool_open_with(fast().c_str(), &o);
  ASSERT_NE(p, nullptr) << nvm_errormsg();
  nvm_tier_statistics s{};
  ASSERT_EQ(nvm_tier_get_statistics(p, &s), 0) << nvm_errormsg();
  EXPECT_EQ(s.active, 0U);
  EXPECT_NE(std::string{s.why}.find("huge=never"), std::string::npos) << s.why;
  EXPECT_FALSE(std::filesystem::exists(second));
  verify(p, blocks);
  EXPECT_EQ(nvm_pool_close(p), 0);
}

TEST_F(tiered_pool_opened, where_its_pages_may_be_huge_keeps_those_that_were_there) {
  NVM_POOL* p = nullptr;
  std::uint64_t there = 0;
  const auto shrink = [&] {
    nvm_tier_statistics s{};
    EXPECT_EQ(nvm_tier_shrink(p, 0), 0) << nvm_errormsg();
    EXPECT_EQ(nvm_tier_get_statistics(p, &s), 0) << nvm_errormsg();
    return s.fast_bytes;
  };
  {
    // A new pool has a tier: pages come one by one.
    const sees_huge_pages seen;
    p = create(16 * mib, mib);
    NEEDS_USER_FAULTS(p);
    build(p, 2000);
    nvm_tier_statistics s{};
    ASSERT_EQ(nvm_tier_get_statistics(p, &s), 0) << nvm_errormsg();
    EXPECT_GT(s.pages_out, 0U);
    ASSERT_EQ(nvm_pool_close(p), 0);
    nvm_tier_info info{};
    ASSERT_EQ(nvm_tier_inspect(fast().c_str(), &info), 0) << nvm_errormsg();
    there = info.fast_bytes;
    ASSERT_GE(there, mib / 2);
    p = nvm_pool_open(fast().c_str());
    ASSERT_NE(p, nullptr) << nvm_errormsg();
    verify(p, 2000);
    EXPECT_EQ(shrink(), there);
    // Also without room below the limit for the others.
    verify(p, 2000);
    ASSERT_EQ(nvm_pool_close(p), 0);
  }
  p = nvm_pool_open(fast().c_str());
  ASSERT_NE(p, nullptr) << nvm_errormsg();
  EXPECT_LT(shrink(), there);
  verify(p, 2000);
  ASSERT_EQ(nvm_pool_close(p), 0);
}

// Another program reads a page through a mapping of its own that no program has stored to.
TEST_F(tiered_pool_opened, after_pages_were_made_behind_its_back_is_whole) {
  NVM_POOL* p = create(4 * mib, mib);
  NEEDS_USER_FAULTS(p);
  build(p, blocks);
  const int file = ::open(fast().c_str(), O_RDONLY);
  ASSERT_GE(file, 0);
  const auto bytes = std::filesystem::file_size(fast());
  void* const other = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0);
  ASSERT_NE(other, MAP_FAILED);
  EXPECT_EQ(static_cast<const volatile unsigned char*>(other)[bytes - 5], 0);
  ::munmap(other, bytes);
  ::close(file);
  ASSERT_EQ(nvm_pool_close(p), 0);
  EXPECT_EQ(look(fast()), ok) << nvm_errormsg();
}

TEST_F(tiered_pool_opened, without_user_faults_is_refused_if_its_file_is_a_copy_without_holes) {
  NVM_POOL* p = create(4 * mib, mib);
  NEEDS_USER_FAULTS(p);
  build(p, blocks);
  ASSERT_EQ(nvm_tier_shrink(p, 0), 0);
  ASSERT_EQ(nvm_pool_close(p), 0);
  std::ifstream in{fast(), std::ios::binary};
  const std::string all{std::istreambuf_iterator<char>{in}, {}};
  std::filesystem::remove(fast());
  std::ofstream{fast(), std::ios::binary} << all;
  std::filesystem::permissions(fast(), std::filesystem::perms{0600});
  EXPECT_EQ(in_child([&] {
              if (!forbid_user_faults()) return 77;
              nvm_pool_options o{};
              o.accept_copy = 1;
              const int found = look(fast(), &o);
              EXPECT_EQ(nvm_errno(), NVM_E_COPY) << nvm_errormsg();
              return found;
            }),
            refused);
}

// Each check and salvage of a pool goes on past a page of the second file that is damaged.
TEST_F(tiered_pool_opened, for_reading_with_a_damaged_page_ends_no_call_by_a_signal) {
  NVM_POOL* p = create(4 * mib, mib);
  NEEDS_USER_FAULTS(p);
  build(p, blocks);
  ASSERT_EQ(nvm_tier_shrink(p, 0), 0);
  ASSERT_EQ(nvm_pool_close(p), 0);
  {
    // Every byte of the slots; all pages are there.
    const auto bytes = std::filesystem::file_size(slow());
    nvm_tier_info info;
    ASSERT_EQ(nvm_tier_inspect(fast().c_str(), &info), 0) << nvm_errormsg();
    std::fstream second{slow(), std::ios::binary | std::ios::in | std::ios::out};
    const std::string junk(info.slow_bytes / 8, 'x');
    second.seekp(static_cast<std::streamoff>(bytes - junk.size()));
    second << junk;
  }
  EXPECT_EQ(in_child([&] {
              const auto n = nvm_pool_check(fast().c_str(), nullptr, nullptr, nullptr);
              EXPECT_NE(n, 0);
              return ok;
            }),
            ok);
  EXPECT_EQ(in_child([&] {
              (void)nvm_kv_salvage(fast().c_str(), "none", nullptr);
              return ok;
            }),
            ok);
}

// What salvage has told.
struct salvaged {
  std::uint64_t entries = 0, wrong = 0;
  std::vector<std::string> lost;
};
std::int64_t salvage(const std::string& path, const std::string& value, salvaged& out) {
  static const std::string* expected;
  expected = &value;
  nvm_kv_salvage_options o{};
  o.argument = &out;
  o.entry = [](const nvm_kv_entry* e, enum nvm_kv_proof, void* raw) {
    auto& s = *static_cast<salvaged*>(raw);
    ++s.entries;
    if (std::string(static_cast<const char*>(e->value), e->value_bytes) != *expected) ++s.wrong;
  };
  o.lost = [](uint64_t, const void*, size_t, const char* what, void* raw) {
    static_cast<salvaged*>(raw)->lost.emplace_back(what);
  };
  return nvm_kv_salvage(path.c_str(), "main", &o);
}

// Of a store whose entries lie in many pages all but those of one page can be had.
TEST_F(tiered_pool_opened, for_salvage_with_a_damaged_page_gives_the_other_entries) {
  constexpr unsigned entries = 2000;
  const std::string value(500, 'v');
  nvm_tier_options t{};
  const std::string second = slow();
  t.path = second.c_str();
  t.fast_bytes = 8 * mib;  // each page leaves once
  t.compression = NVM_TIER_PLAIN;
  nvm_pool_options o{};
  o.size = 8 * mib;
  o.medium = NVM_MEDIUM_SHM;
  o.tier = &t;
  NVM_POOL* p = nvm_pool_create_with(fast().c_str(), &o);
  ASSERT_NE(p, nullptr) << nvm_errormsg();
  NEEDS_USER_FAULTS(p);
  nvm_kv* const kv = nvm_kv_open(p, "main", nullptr);
  ASSERT_NE(kv, nullptr) << nvm_errormsg();
  for (unsigned i = 0; i < entries; ++i) ASSERT_EQ(nvm_kv_put(kv, &i, sizeof i, value.data(), value.size()), 0);
  ASSERT_EQ(nvm_tier_shrink(p, 0), 0);
  ASSERT_EQ(nvm_pool_close(p), 0);
  {
    // In the middle of a value, of a page that has entries alone.
    std::fstream file{second, std::ios::binary | std::ios::in | std::ios::out};
    const std::string all{std::istreambuf_iterator<char>{file}, {}};
    const std::size_t at = all.rfind(value);
    ASSERT_NE(at, std::string::npos);
    file.clear();
    file.seekp(static_cast<std::streamoff>(at + 250));
    file.put('w');
  }
  EXPECT_EQ(in_child([&] {
              salvaged s;
              const std::int64_t lost = salvage(fast(), value, s);
              EXPECT_EQ(lost, static_cast<std::int64_t>(s.lost.size())) << nvm_errormsg();
              EXPECT_GE(s.entries, entries - 12);
              EXPECT_LT(s.entries, entries);
              EXPECT_EQ(s.wrong, 0U);
              EXPECT_TRUE(std::any_of(s.lost.begin(), s.lost.end(), [](const std::string& what) {
                return what.find("is lost: ") != std::string::npos;
              }));
              return ok;
            }),
            ok);
}

// A thread that has the loader's lock needs a page that is compressed.
TEST_F(tiered_pool_opened, needs_no_lock_of_the_loader_for_its_pages) {
  const int made = in_child([&] {
    NVM_POOL* const p = create(4 * mib, mib);
    if (p == nullptr) return wrong;
    if (!works(p)) return 77;
    nvm_tier_statistics s{};
    EXPECT_EQ(nvm_tier_get_statistics(p, &s), 0);
    build(p, blocks);
    EXPECT_EQ(nvm_tier_shrink(p, 0), 0);
    EXPECT_EQ(nvm_pool_close(p), 0) << nvm_errormsg();
    return s.compression == NVM_TIER_LZ4 ? ok : 77;
  });
  if (made == 77) GTEST_SKIP() << "no user faults, or no LZ4";
  ASSERT_EQ(made, ok);
  EXPECT_EQ(in_child([&] {
              ::alarm(60);  // in place of waiting for ever
              nvm_tier_options t{};
              t.compression = NVM_TIER_PLAIN;
              nvm_pool_options o{};
              o.tier = &t;
              NVM_POOL* p = nvm_pool_open_with(fast().c_str(), &o);
              if (p == nullptr) return refused;
              const auto touch = [](dl_phdr_info*, std::size_t, void* pool) {
                verify(static_cast<NVM_POOL*>(pool), blocks);
                return 1;
              };
              ::dl_iterate_phdr(touch, p);
              EXPECT_EQ(nvm_pool_close(p), 0) << nvm_errormsg();
              return ok;
            }),
            ok);
}

std::atomic<int> writes_until_failure{0};

// An open that would have given the pool a second file fails, at any of its writes.
TEST_F(tiered_pool_opened, that_fails_while_it_joins_leaves_no_second_file_that_the_pool_does_not_name) {
  const std::string second = slow();
  unsigned failures = 0;
  for (int k = 1; k < 30; ++k) {
    nvm_pool_options o{};
    o.size = 4 * mib;
    o.medium = NVM_MEDIUM_SHM;
    NVM_POOL* p = nvm_pool_create_with(fast().c_str(), &o);
    ASSERT_NE(p, nullptr) << nvm_errormsg();
    build(p, 20);
    ASSERT_EQ(nvm_pool_close(p), 0);
    nvm_tier_options t{};
    t.path = second.c_str();
    t.fast_bytes = mib;
    o = {};
    o.tier = &t;
    platform::file_calls table = platform::system_file_calls();
    table.pwrite = [](int d, const void* from, std::size_t bytes, off_t at) -> ssize_t {
      if (--writes_until_failure != 0) return ::pwrite(d, from, bytes, at);
      errno = EIO;
      return -1;
    };
    writes_until_failure = k;
    platform::use_file_calls(&table);
    p = nvm_pool_open_with(fast().c_str(), &o);
    platform::use_file_calls(nullptr);
    const bool reached = writes_until_failure <= 0;
    if (p == nullptr) {
      ++failures;
      // Either it is the pool's second file, or there is none.
      p = nvm_pool_open(fast().c_str());
      ASSERT_NE(p, nullptr) << nvm_errormsg();
      nvm_tier_statistics s{};
      EXPECT_EQ(std::filesystem::exists(second), nvm_tier_get_statistics(p, &s) == 0) << "write " << k;
    }
    verify(p, 20);
    ASSERT_EQ(nvm_pool_close(p), 0);
    std::filesystem::remove(fast());
    std::filesystem::remove(second);
    if (!reached) break;
  }
  EXPECT_GE(failures, 3U);
}

}  // namespace
}  // namespace nvm::tests
