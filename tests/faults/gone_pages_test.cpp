// Pages of a pool's file that go while it is open: the file is cut off, or one page cannot be had any more.  No call of
// the library ends the process by a signal: it gives what it should, or an error that names the file.  Nothing is
// acknowledged that is not there, and the file does not become longer again.  A load or store of the program itself
// is SIGBUS as before, after a sentence.
//
// Each of these is a process and a copy of a pool: of first calls and pages a part is tried, which goes by the day.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <csetjmp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <vector>

#include "../scratch_folder.hpp"
#include "gone_pages_scene.hpp"
#include "pool/pool.hpp"

namespace nvm::tests {
namespace {

class gone_pages : public testing::TestWithParam<ground> {
 protected:
  void SetUp() override {
    // One pool of each kind serves all tests.
    static std::map<std::string, std::unique_ptr<scratch_folder>> folders;
    auto& mine = folders[GetParam().name];
    const bool is_new = mine == nullptr;
    if (is_new) mine = std::make_unique<scratch_folder>("gone", GetParam().medium == NVM_MEDIUM_SSD);
    folder_ = mine.get();
    if (!is_new) return;
    const int made = in_child([&] {
      open_pool p;
      nvm_pool_options o{};
      o.size = std::uint64_t{4} << 20;
      o.capacity = std::uint64_t{16} << 20;
      o.medium = GetParam().medium;
      o.engine = GetParam().engine;
      p.pool = nvm_pool_create_with(whole().c_str(), &o);
      if (p.pool != nullptr && open_all(p) && fill(p) && nvm_pool_close(p.pool) == 0) return 0;
      std::fprintf(stderr, "%s\n", nvm_errormsg());
      return wrong;
    });
    ASSERT_EQ(made, 0);
  }
  [[nodiscard]] std::string whole() const { return folder_->path("whole"); }
  [[nodiscard]] std::string path() const { return folder_->path("pool"); }
  void copy() const { std::filesystem::copy_file(whole(), path(), std::filesystem::copy_options::overwrite_existing); }
  [[nodiscard]] geometry shape() const {
    std::ifstream in{whole(), std::ios::binary};
    std::vector<char> header(2 * page_bytes);
    in.read(header.data(), static_cast<std::streamsize>(header.size()));
    const auto sb = pick_superblock(reinterpret_cast<const std::byte*>(header.data()), header.size(),
                                    std::filesystem::file_size(whole()));
    EXPECT_TRUE(sb.has_value());
    return sb ? geometry_of(*sb) : geometry{};
  }
  // Opens the pool, `harm`s it, makes all calls beginning with one of them, and closes it.
  template <class Harm>
  int life(std::size_t first, Harm&& harm) const {
    return in_child([&] {
      scene s{GetParam(), path()};
      s.p.pool = nvm_pool_open(path().c_str());
      if (s.p.pool == nullptr || !open_all(s.p)) {
        s.say("opening", nvm_errormsg());
        return wrong;
      }
      harm(s);
      const auto& calls = all_calls();
      for (std::size_t i = 0; i < calls.size(); ++i) s.run(calls[(first + i) % calls.size()]);
      if (nvm_pool_close(s.p.pool) != 0) {
        const std::string message = nvm_errormsg();
        if (nvm_errno() != NVM_E_IO || message.find(path()) == std::string::npos) s.say("nvm_pool_close", message);
      } else if (s.refused()) {
        s.say("nvm_pool_close", "succeeds where calls were refused");
      }
      return s.failed ? wrong : 0;
    });
  }

  scratch_folder* folder_ = nullptr;
};
INSTANTIATE_TEST_SUITE_P(pools, gone_pages, testing::ValuesIn(grounds), [](const auto& i) { return i.param.name; });

TEST_P(gone_pages, of_a_file_that_is_cut_off_fail_calls_and_end_no_process) {
  const geometry g = shape();
  const std::uint64_t lengths[] = {0,
                                   g.page_map_offset,
                                   g.log_offset + page_bytes,
                                   g.data_offset,
                                   g.data_offset + 5 * page_bytes + 100,
                                   g.data_offset + (g.size_pages / 8 << g.page_shift)};
  const std::size_t stride = sanitized || GetParam().medium == NVM_MEDIUM_SSD ? 14 : 3;
  auto turn = static_cast<std::size_t>(day_of_run());
  for (const std::uint64_t length : lengths) {
    for (std::size_t first = turn++ % stride; first < all_calls().size(); first += stride) {
      copy();
      const int end = life(first, [&](scene& s) {
        if (::truncate(path().c_str(), static_cast<off_t>(length)) != 0) s.say("truncate", std::strerror(errno));
      });
      ASSERT_EQ(end, 0) << "cut off to " << length << " bytes, first call " << all_calls()[first].name;
      // Nothing has made the file as long again, nor what is there a pool.
      EXPECT_EQ(nvm_pool_open(path().c_str()), nullptr) << "cut off to " << length;
    }
  }
}

// Each page that the file has, one at a time: a mapping of an empty file faults as a page does that a device has lost.
TEST_P(gone_pages, that_a_device_has_lost_fail_calls_and_end_no_process) {
  const geometry g = shape();
  const std::uint64_t data_end = g.data_offset + (std::uint64_t{g.size_pages} << g.page_shift);
  std::vector<std::uint64_t> pages;
  for (std::uint64_t at = 0; at < data_end; at += page_bytes) {
    const bool in_log = at >= g.log_offset && at < g.log_offset + g.log_bytes;
    if (!in_log || at / page_bytes % 16 == 0) pages.push_back(at);
  }
  // Behind a page cache each commit waits for a device.
  const std::size_t stride = sanitized || GetParam().medium == NVM_MEDIUM_SSD ? 113 : 9;
  std::size_t first = 0;
  for (std::size_t i = static_cast<std::size_t>(day_of_run()) % stride; i < pages.size(); i += stride) {
    copy();
    const std::uint64_t at = pages[i];
    const int end = life(first++, [&](scene& s) {
      nvm_pool_info info;
      const int empty = ::memfd_create("gone", MFD_CLOEXEC);
      if (nvm_pool_get_info(s.p.pool, &info) != 0 ||
          ::mmap(reinterpret_cast<void*>(info.base + at), page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED,
                 empty, 0) == MAP_FAILED) {
        s.say("mmap", std::strerror(errno));
      }
      ::close(empty);
    });
    ASSERT_EQ(end, 0) << "page at " << at << " lost, first call " << all_calls()[(first - 1) % all_calls().size()].name;
  }
}

// ---- what the program does itself ----

struct ending {
  int how = 0;
  std::string printed;
};
template <class F>
ending in_child_that_prints(const std::string& to, F&& f) {
  ending e;
  e.how = in_child([&] {
    if (std::freopen(to.c_str(), "w", stderr) == nullptr) return wrong;
    return f();
  });
  std::ifstream in{to};
  e.printed.assign(std::istreambuf_iterator<char>{in}, {});
  return e;
}

// An object that a pool of any engine has at an address: the last one of the list.
cell* root_of(NVM_POOL* pool) {
  void* root = nullptr;
  return nvm_pool_read_root(pool, &root) == 0 ? static_cast<cell*>(root) : nullptr;
}

TEST_P(gone_pages, that_the_program_touches_itself_are_sigbus_after_a_sentence) {
  for (const bool stores : {false, true}) {
    copy();
    const ending e = in_child_that_prints(folder_->path("said"), [&] {
      NVM_POOL* const pool = nvm_pool_open(path().c_str());
      if (pool == nullptr) return wrong;
      volatile cell* const object = root_of(pool);
      if (object == nullptr || ::truncate(path().c_str(), 0) != 0) return wrong;
      if (stores) {
        object->number = 5;
      } else {
        // Zeros for a call of the library are none for the program.
        if (nvm_pool_build_index(pool, 1) != 0 && nvm_errno() != NVM_E_IO) return wrong;
        nvm_lf_options o{};
        if (nvm_lf_open(pool, "unknown", &o) != nullptr) return wrong;
        return object->number == 1000 + cells - 1 ? 1 : 2;
      }
      return 3;
    });
    if (GetParam().engine == NVM_ENGINE_LOG) {
      // A home page may have been built before.
      EXPECT_TRUE(e.how == 1000 + SIGBUS || e.how == 1 || e.how == 3) << e.how << e.printed;
      continue;
    }
    EXPECT_EQ(e.how, 1000 + SIGBUS) << e.printed;
    EXPECT_NE(
        e.printed.find("holdfast: " + path() + ": the program has touched what it cannot have: the page at offset"),
        std::string::npos)
        << e.printed;
    EXPECT_NE(e.printed.find("the file was cut off to 0 bytes"), std::string::npos) << e.printed;
  }
}

sigjmp_buf back;

TEST_P(gone_pages, that_the_program_survives_by_a_handler_of_its_own_fail_the_pool) {
  if (GetParam().engine == NVM_ENGINE_LOG) GTEST_SKIP() << "its objects are not in the file";
  copy();
  const ending e = in_child_that_prints(folder_->path("said"), [&] {
    struct sigaction a{};
    a.sa_handler = [](int) { siglongjmp(back, 1); };
    ::sigaction(SIGBUS, &a, nullptr);
    NVM_POOL* const pool = nvm_pool_open(path().c_str());
    if (pool == nullptr) return wrong;
    volatile cell* const object = root_of(pool);
    if (object == nullptr || ::truncate(path().c_str(), 0) != 0) return wrong;
    if (sigsetjmp(back, 1) == 0) return object->number == 0 ? 2 : 3;
    if (nvm_kv_open(pool, "list", nullptr) != nullptr || nvm_errno() != NVM_E_IO) return 4;
    return nvm_pool_close(pool) == -1 && nvm_errno() == NVM_E_IO ? 0 : 5;
  });
  EXPECT_EQ(e.how, 0) << e.printed;
}

// A visitor is the program: it is given nothing that is lost, and what it touches itself is SIGBUS.
TEST_P(gone_pages, that_a_visitor_touches_are_sigbus) {
  if (GetParam().engine == NVM_ENGINE_LOG) GTEST_SKIP() << "its objects are not in the file";
  copy();
  const ending e = in_child_that_prints(folder_->path("said"), [&] {
    NVM_POOL* const pool = nvm_pool_open(path().c_str());
    if (pool == nullptr) return wrong;
    const int walked = nvm_pool_each(
        pool,
        [](void* object, std::uint32_t type, std::size_t, void* raw) {
          if (type != cell_type) return 0;
          if (::truncate(static_cast<const char*>(raw), 0) != 0) return 2;
          return static_cast<volatile cell*>(object)->number == 0 ? 3 : 4;
        },
        const_cast<char*>(path().c_str()));
    return walked;
  });
  EXPECT_EQ(e.how, 1000 + SIGBUS) << e.printed;
  EXPECT_EQ(e.printed.rfind("holdfast: ", 0), 0U) << e.printed;
}

// ---- pools that are opened, checked and mended while they lose pages ----

TEST_P(gone_pages, of_a_file_that_is_cut_off_in_the_middle_of_a_check_fail_it) {
  copy();
  const int end = in_child([&] {
    struct harm {
      std::string path;
      bool done = false;
    } h{path()};
    nvm_check_options o{};
    o.argument = &h;
    o.progress = [](std::uint64_t, std::uint64_t, void* raw) {
      auto& k = *static_cast<harm*>(raw);
      if (k.done) return;
      k.done = true;
      if (::truncate(k.path.c_str(), 5 * 4096) != 0) std::abort();
    };
    const std::int64_t answer = nvm_pool_check_with(path().c_str(), &o, nullptr);
    if (answer > 0) return 0;  // it has seen how long the file is
    if (answer != -1 || nvm_errno() != NVM_E_IO) {
      std::fprintf(stderr, "%ld %s\n", static_cast<long>(answer), nvm_errormsg());
      return wrong;
    }
    return std::string{nvm_errormsg()}.find("cut off to 20480 bytes") != std::string::npos ? 0 : 2;
  });
  EXPECT_EQ(end, 0);
}

// ---- holes ----

// Every page of the data becomes a hole, one at a time, under an open pool or before it is opened: it reads as zeros.
// Whoever looks at check sums finds that or everything as it was; the check does.
TEST_P(gone_pages, that_are_holes_are_found_where_contents_are_checked) {
  if (GetParam().engine == NVM_ENGINE_LOG) GTEST_SKIP() << "its entries have the log's checks: lost_pages_test";
  const geometry g = shape();
  const std::uint64_t data_end = g.data_offset + (std::uint64_t{g.size_pages} << g.page_shift);
  const std::size_t stride = sanitized || GetParam().medium == NVM_MEDIUM_SSD ? 61 : 9;
  std::vector<std::uint64_t> pages{g.data_offset};  // and others, of which some hold nothing
  for (std::uint64_t at = g.data_offset + (1 + static_cast<std::uint64_t>(day_of_run()) % stride) * page_bytes;
       at < data_end; at += stride * page_bytes) {
    pages.push_back(at);
  }
  unsigned found = 0;
  for (const bool under_open_pool : {false, true}) {
    for (const std::uint64_t at : pages) {
      copy();
      const auto punch = [&] {
        const int file = ::open(path().c_str(), O_RDWR | O_CLOEXEC);
        const bool done =
            ::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(at), page_bytes) == 0;
        ::close(file);
        return done;
      };
      if (!under_open_pool && !punch()) GTEST_SKIP() << "no holes here: " << std::strerror(errno);
      const int end = in_child([&] {
        NVM_POOL* const pool = nvm_pool_open(path().c_str());
        if (pool == nullptr) return nvm_errno() == NVM_E_CORRUPT ? 1 : wrong;
        if (under_open_pool && !punch()) return 3;
        bool told = false;
        for (unsigned index = NVM_KV_LIST; index <= NVM_KV_BTREE; ++index) {
          nvm_kv_options o{};
          o.mode = NVM_KV_OPEN_ONLY;
          o.flags = NVM_KV_VERIFY_READS;
          nvm_kv* const kv = nvm_kv_open(pool, store_name(index), &o);
          if (kv == nullptr) {
            if (nvm_errno() != NVM_E_CORRUPT) return wrong;
            told = true;
            continue;
          }
          for (unsigned i = 0; i < entries; ++i) {
            char value[value_bytes];
            std::size_t bytes = 0;
            const int got = nvm_kv_get(kv, key_of(i).data(), 8, value, sizeof value, &bytes);
            if (got < 0 && nvm_errno() != NVM_E_CORRUPT) return wrong;
            told = told || got != 1;
            if (got == 1 && value_of(i).compare(0, bytes, value, bytes) != 0) {
              std::fprintf(stderr, "hole at %lu: another value of %u\n", at, i);
              return wrong;
            }
          }
        }
        return told ? 1 : 0;
      });
      ASSERT_TRUE(end == 0 || end == 1) << "hole at " << at << ": " << end;
      found += end == 1 ? 1 : 0;
      if (end == 1 && !under_open_pool) {
        EXPECT_NE(nvm_pool_check(path().c_str(), nullptr, nullptr, nullptr), 0) << at;
      }
    }
  }
  EXPECT_GT(found, 0U);
}

}  // namespace
}  // namespace nvm::tests
