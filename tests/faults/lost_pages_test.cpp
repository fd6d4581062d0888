// Each page of a pool that holds metadata is lost: its file has zeros or other bytes there, or the page cannot be read
// any more. Opening, the check and the repair say so, or all data is intact; wrong data is never shown in silence.
// Files that are cut off are lost pages, too.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "../fault_injection.hpp"
#include "../fuzz/metadata.hpp"
#include "../fuzz/pool_files.hpp"
#include "care/repair.hpp"

namespace nvm::tests {
namespace {

using namespace nvm::fuzz;

constexpr std::uint64_t page_bytes = 4096;
bool is_refusal(int code) { return code == NVM_E_CORRUPT || code == NVM_E_VERSION || code == NVM_E_NOT_A_POOL; }
bool is_one_of(const contents& found, const std::vector<contents>& allowed) {
  return std::any_of(allowed.begin(), allowed.end(), [&](const contents& c) { return found.same_as(c); });
}
std::string repaired_path() { return scratch_path() + "-repaired"; }

// Offsets of pages that hold metadata, and what.
std::map<std::uint64_t, std::string> metadata_pages(const bytes& image) {
  std::map<std::uint64_t, std::set<std::string>> found;
  for (const byte_run& run : metadata_of(image)) {
    for (std::uint64_t at = run.from / page_bytes * page_bytes; at < run.from + run.bytes; at += page_bytes)
      found[at].insert(run.what);
  }
  std::map<std::uint64_t, std::string> named;
  for (const auto& [at, what] : found) {
    for (const std::string& w : what) named[at] += (named[at].empty() ? "" : ", ") + w;
  }
  return named;
}

struct findings {
  std::int64_t count = 0;
  std::int64_t of_stores = 0;  // in key-value stores, which repair keeps as they are and names
  std::string first;
};
findings check(const std::string& path) {
  findings f;
  f.count = nvm_pool_check(
      path.c_str(),
      [](std::uint64_t, const char* text, void* to) {
        auto& all = *static_cast<findings*>(to);
        if (all.first.empty()) all.first = text;
        if (std::string_view{text}.find("key-value store") != std::string_view::npos) ++all.of_stores;
      },
      &f, nullptr);
  if (f.count < 0) f.first = nvm_errormsg();
  return f;
}

class lost_pages : public testing::TestWithParam<std::size_t> {
 protected:
  const pool_file_image& image = pool_file_images()[GetParam()];
  void TearDown() override {
    injected.bad = {};
    ::unlink(scratch_path().c_str());
    ::unlink(repaired_path().c_str());
  }
  // The scratch file, whose damage is `place`, is opened, checked and mended.
  void expect_no_silence(const std::string& place, bool told_by_nobody);
  // A page with metadata cannot be read.
  void expect_told(bool poisoned);
  unsigned refused = 0, mended = 0;
};
INSTANTIATE_TEST_SUITE_P(pools, lost_pages, testing::Range(std::size_t{0}, pool_file_images().size()),
                         [](const auto& i) {
                           const pool_file_image& p = pool_file_images()[i.param];
                           return p.name + (p.closed ? "_closed" : "_crashed");
                         });

void lost_pages::expect_no_silence(const std::string& place, bool told_by_nobody) {
  const findings checked = check(scratch_path());
  const bytes before = read_scratch();
  // Repair works on a copy.
  care::repair_request request;
  request.path = scratch_path();
  request.out = repaired_path();
  ::unlink(repaired_path().c_str());
  care::repair_report report;
  const status repaired = care::repair_pool(request, report);
  EXPECT_TRUE(are_same(read_scratch(), before)) << place << "repair has changed the file";
  const bool exists = ::access(repaired_path().c_str(), F_OK) == 0;
  EXPECT_EQ(exists, repaired.has_value()) << place;
  if (repaired) {
    ++mended;
    const findings left = check(repaired_path());
    EXPECT_EQ(left.count, left.of_stores) << place << left.first;
    NVM_POOL* const pool = nvm_pool_open(repaired_path().c_str());
    ASSERT_NE(pool, nullptr) << place << nvm_errormsg();
    const contents now = look(pool);
    const bool told = std::any_of(report.notes.begin(), report.notes.end(),
                                  [](const care::repair_note& n) { return n.how != mending::mended; }) ||
                      report.rolled_back != 0;
    EXPECT_TRUE(is_one_of(now, image.allowed) || told || now.refused || told_by_nobody)
        << place << "the repaired pool has lost something, and the report does not say so";
    EXPECT_EQ(nvm_pool_close(pool), 0) << place << nvm_errormsg();
  } else {
    EXPECT_STRNE(last_message(), "") << place;
  }
  NVM_POOL* const pool = nvm_pool_open(scratch_path().c_str());
  if (pool == nullptr) {
    ++refused;
    EXPECT_TRUE(is_refusal(nvm_errno())) << place << nvm_error_name(nvm_errno());
    EXPECT_NE(std::string{nvm_errormsg()}.find(scratch_path()), std::string::npos) << place << nvm_errormsg();
    EXPECT_NE(checked.count, 0) << place << "refused, and the check finds nothing: " << nvm_errormsg();
    return;
  }
  const contents now = look(pool);
  EXPECT_TRUE(is_one_of(now, image.allowed) || (now.refused && now.code == NVM_E_CORRUPT) || told_by_nobody)
      << place << "something is lost, and nobody was told: " << difference(now, image.allowed.front()) << " " << now.why
      << "; the check says: " << checked.first;
  EXPECT_EQ(nvm_pool_close(pool), 0) << place << nvm_errormsg();
}

TEST_P(lost_pages, that_hold_zeros_or_anything_are_mended_or_named) {
  std::mt19937_64 random{static_cast<std::uint64_t>(GetParam()) + 1};
  // Of a log of new bytes, the page with the newest records: it is as if they had never been written.
  std::uint64_t newest = 0;
  for (const auto& [at, what] : metadata_pages(image.file)) {
    const bool of_new_bytes = image.name == "ssd" || image.name.starts_with("redo");
    if (what == "log" && !image.closed && of_new_bytes) newest = at;
  }
  for (const auto& [at, what] : metadata_pages(image.file)) {
    for (const bool zeros : {true, false}) {
      bytes lost = image.file;
      for (std::uint64_t i = 0; i < page_bytes; ++i)
        lost[at + i] = zeros ? std::byte{0} : static_cast<std::byte>(random());
      write_scratch(lost);
      expect_no_silence((zeros ? "zeros at " : "anything at ") + std::to_string(at) + ", " + what + ": ",
                        at == newest && newest != 0);
      ASSERT_FALSE(HasFailure());
    }
  }
  std::printf("%u refused, %u mended\n", refused, mended);
}

bool is_about_reading(const std::string& message) {
  return message.find("cannot be read") != std::string::npos || message.find("is lost: ") != std::string::npos ||
         message.find("Input/output error") != std::string::npos;
}

// In a process of its own, which a store or load that the system cannot serve ends.
template <class F>
int in_child(F&& f) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGBUS, SIG_DFL);  // sanitizers have handlers that tell stories
    ::alarm(30);
    ::_exit(f());
  }
  int how = 0;
  EXPECT_EQ(::waitpid(child, &how, 0), child);
  return WIFEXITED(how) ? WEXITSTATUS(how) : 1000 + WTERMSIG(how);
}

void lost_pages::expect_told(bool poisoned) {
  const geometry g = geometry_of(*pick_superblock(image.file.data(), image.file.size()));
  write_scratch(image.file);
  struct ::stat file{};
  ASSERT_EQ(::stat(scratch_path().c_str(), &file), 0);
  turns_of_build turns{fault_stride};
  for (const auto& [at, what] : metadata_pages(image.file)) {
    if (!turns.takes()) continue;
    const std::string place = "page at " + std::to_string(at) + ", " + what + ": ";
    // What is read when the pool is opened.
    const bool looked_at = at < g.log_offset || (at < g.data_offset && !image.closed);
    for (const bool checks : {false, true}) {
      const int end = in_child([&, bad = at] {
        injected.bad = {file.st_dev, file.st_ino, static_cast<off_t>(bad), poisoned};
        if (checks) {
          const findings f = check(scratch_path());
          if (f.count < 0 && is_about_reading(f.first)) return 1;
          return f.count == 0 ? 0 : 2;
        }
        NVM_POOL* const pool = nvm_pool_open(scratch_path().c_str());
        if (pool == nullptr) {
          const std::string message = nvm_errormsg();
          const bool named = is_about_reading(message) && message.find(scratch_path()) != std::string::npos;
          if (!named) std::fprintf(stderr, "%s%s\n", place.c_str(), message.c_str());
          return named ? 1 : 3;
        }
        const contents now = look(pool);
        if (now.refused && now.code == NVM_E_IO) return is_about_reading(now.why) ? 1 : 3;
        if (is_one_of(now, image.allowed)) return 0;
        std::fprintf(stderr, "%s%s %s\n", place.c_str(), nvm_error_name(now.code), now.why.c_str());
        return 4;
      });
      if (looked_at || checks) {
        EXPECT_TRUE(end == 0 || end == 1) << place << (checks ? "the check" : "opening") << " ends with " << end;
      } else {  // or the program itself has looked at an object
        EXPECT_TRUE(end == 0 || end == 1 || end == 1000 + SIGBUS) << place << end;
      }
    }
    ASSERT_FALSE(HasFailure());
  }
}

TEST_P(lost_pages, that_cannot_be_read_are_named_where_the_pool_is_opened) { expect_told(false); }
TEST_P(lost_pages, that_are_poisoned_are_named_where_the_pool_is_opened) {
  const int can = in_child([] {
    void* const page = ::mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return page != MAP_FAILED && poison_page(page) ? 0 : 1;
  });
  if (can != 0) GTEST_SKIP() << "the kernel does not poison pages, or not for this process";
  expect_told(true);
}

// Within each part of the file, and at its edges.
std::vector<std::uint64_t> lengths_of(const pool_file_image& image) {
  const geometry g = geometry_of(*pick_superblock(image.file.data(), image.file.size()));
  return {0,
          1,
          100,                               // a superblock
          page_bytes,                        // one copy
          page_bytes + 512,                  // the other
          g.page_map_offset,                 //
          g.page_map_offset + 8,             // the page map
          g.log_offset,                      //
          g.log_offset + 100,                // the log
          g.data_offset,                     //
          g.data_offset + page_bytes + 100,  // the first pages
          g.data_offset + (g.size_pages / 2 << g.page_shift),
          image.file.size() - page_bytes,
          image.file.size() - 1};
}

TEST_P(lost_pages, of_a_file_that_was_cut_off_are_refused) {
  for (const std::uint64_t length : lengths_of(image)) {
    const std::string place = "cut off to " + std::to_string(length) + " bytes: ";
    const bytes rest{image.file.begin(), image.file.begin() + static_cast<std::ptrdiff_t>(length)};
    write_scratch(rest);
    EXPECT_NE(check(scratch_path()).count, 0) << place;
    for (const bool reads : {false, true}) {
      nvm_pool_options o{};
      o.read_only = reads ? 1 : 0;
      EXPECT_EQ(nvm_pool_open_with(scratch_path().c_str(), &o), nullptr) << place;
      EXPECT_TRUE(is_refusal(nvm_errno())) << place << nvm_errormsg();
      EXPECT_NE(std::string{nvm_errormsg()}.find(scratch_path()), std::string::npos) << place << nvm_errormsg();
    }
    care::repair_request request;
    request.path = scratch_path();
    request.out = repaired_path();
    care::repair_report report;
    EXPECT_FALSE(care::repair_pool(request, report)) << place;
    EXPECT_NE(::access(repaired_path().c_str(), F_OK), 0) << place;
    EXPECT_TRUE(are_same(read_scratch(), rest)) << place << "the file was changed";
    ASSERT_FALSE(HasFailure());
  }
}

// A store of the program into what is gone is SIGBUS; gone_pages_test.cpp has the library's.  Where there is none,
// commits may be acknowledged; the next open refuses.
TEST_P(lost_pages, of_a_file_that_is_cut_off_under_an_open_pool_are_never_taken_for_empty) {
  turns_of_build turns{fault_stride};
  for (const std::uint64_t length : lengths_of(image)) {
    if (!turns.takes()) continue;
    const std::string place = "cut off to " + std::to_string(length) + " bytes: ";
    write_scratch(image.file);
    const int end = in_child([&] {
      NVM_POOL* const pool = nvm_pool_open(scratch_path().c_str());
      if (pool == nullptr || ::truncate(scratch_path().c_str(), static_cast<off_t>(length)) != 0) return 2;
      return work(pool, 5) ? 0 : 1;
    });
    EXPECT_TRUE(end == 0 || end == 1 || end == 1000 + SIGBUS) << place << end;
    // Nothing has made the file as long again.
    EXPECT_EQ(nvm_pool_open(scratch_path().c_str()), nullptr) << place;
    EXPECT_TRUE(is_refusal(nvm_errno())) << place << nvm_errormsg();
    EXPECT_NE(check(scratch_path()).count, 0) << place;
    ASSERT_FALSE(HasFailure());
  }
}

}  // namespace
}  // namespace nvm::tests
