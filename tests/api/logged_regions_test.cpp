// Repair of pools whose log of regions has records that count: their changes are there afterwards, and nothing that a
// crash leaves is told as damage.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>

#include "care/repair.hpp"
#include "edited_pool.hpp"
#include "nvm/region.h"
#include "region/region.hpp"
#include "scratch.hpp"

namespace nvm::tests {
namespace {

namespace regions = region::layout;

constexpr std::uint64_t small = 77, large = 78;
constexpr std::size_t large_bytes = std::size_t{2} << 20;  // more than a ring has
const std::string old_bytes = "what was here before";
const std::string new_bytes = "what was written now";

class logged_regions : public testing::Test, protected edited_pool {
 protected:
  void SetUp() override {
    ::setenv("HOLDFAST_ACCEPT_COPY", "1", 1);
    nvm_pool_options o{};
    o.size = o.capacity = std::size_t{16} << 20;
    o.medium = direct_medium();
    NVM_POOL* pool = nvm_pool_create_with(path("pool").c_str(), &o);
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    nvm_regions* set = nvm_regions_open(pool, "s", nullptr);
    ASSERT_NE(set, nullptr) << nvm_errormsg();
    const std::string many(large_bytes, 'o');
    ASSERT_EQ(nvm_region_create_with(set, small, old_bytes.data(), old_bytes.size(), 400), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_region_create_with(set, large, many.data(), many.size(), 0), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    begin_with(read_file(path("pool")));
  }
  [[nodiscard]] std::string path(const char* of) const { return place_.path(of); }

  // A process changes regions, and is killed.
  void killed_after(const std::function<bool(nvm_regions*)>& change) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      NVM_POOL* pool = nvm_pool_open(path("pool").c_str());
      nvm_regions* set = pool == nullptr ? nullptr : nvm_regions_open(pool, "s", nullptr);
      if (set == nullptr || !change(set)) ::_exit(1);
      ::kill(::getpid(), SIGKILL);
    }
    int how = 0;
    ASSERT_EQ(::waitpid(pid, &how, 0), pid);
    ASSERT_TRUE(WIFSIGNALED(how));
    bytes = read_file(path("pool"));
  }
  // The offset of a region's header before that.
  [[nodiscard]] std::uint64_t header_of(std::uint64_t rid) const {
    const auto* base = reinterpret_cast<const std::byte*>(sound().data());
    for (std::uint64_t page = 0; page < shape().size_pages; ++page) {
      const std::uint64_t extent = shape().page_offset(page);
      const unsigned c = region::class_of_extent(base, extent);
      if (c == regions::all_classes || regions::is_of_partners(c)) continue;
      for (std::uint64_t i = 0; i < regions::slots_in(regions::extent_pages * 4096, c); ++i) {
        const std::uint64_t at = extent + regions::slot_at(c, i);
        regions::header h;
        std::memcpy(&h, base + at, sizeof h);
        if (h.rid == rid && h.seal != 0) return at;
      }
    }
    ADD_FAILURE() << "no header of region " << rid;
    return 0;
  }
  // As if these bytes had not been written back when the machine failed.
  void take_back(std::uint64_t at, std::size_t n) { std::memcpy(&bytes[at], &sound()[at], n); }
  void take_back_bytes_of(std::uint64_t rid) {
    const std::uint64_t at = header_of(rid);
    regions::header h;
    std::memcpy(&h, &sound()[at], sizeof h);
    const regions::facts f = regions::unpack(h);
    take_back(f.where == regions::state::run ? shape().page_offset(f.page) : at + sizeof h, f.written);
  }

  void write(const char* name) const {
    write_file(path(name), bytes);
    ASSERT_EQ(::chmod(path(name).c_str(), 0600), 0);
  }
  // What a region has after a repair, which tells of nothing.
  std::string mended(std::uint64_t rid) {
    write("crashed");
    care::repair_request request;
    request.path = path("crashed");
    request.out = path("mended");
    request.accept_copy = true;
    ::unlink(request.out.c_str());
    care::repair_report report;
    const status done = care::repair_pool(request, report);
    EXPECT_TRUE(done) << last_message();
    for (const care::repair_note& n : report.notes) ADD_FAILURE() << n.what;
    return done ? content_of(rid, "mended") : "";
  }
  [[nodiscard]] std::string content_of(std::uint64_t rid, const char* in) const {
    NVM_POOL* pool = nvm_pool_open(path(in).c_str());
    nvm_regions* set = pool == nullptr ? nullptr : nvm_regions_open(pool, "s", nullptr);
    EXPECT_NE(set, nullptr) << nvm_errormsg();
    if (set == nullptr) return "";
    std::string found(large_bytes + 1, '?');
    const auto n = nvm_region_read(set, rid, 0, found.data(), found.size());
    EXPECT_GE(n, 0) << nvm_errormsg();
    found.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
    EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    return found;
  }

 private:
  scratch place_{pool_kind::shm};
};

bool write_checked(nvm_regions* set, std::uint64_t rid, const std::string& with) {
  return nvm_region_begin(set, rid, NVM_REGION_CHECKED) == 0 &&
         nvm_region_write(set, rid, 0, with.data(), with.size()) == 0 && nvm_region_commit(set, rid) == 0;
}

// A pool is closed without a call about its regions: the superblock says so, and their log still counts.
TEST_F(logged_regions, are_as_their_log_says_in_a_pool_that_was_closed_since) {
  for (const std::uint64_t rid : {small, large}) {
    const std::string expected = rid == small ? new_bytes : std::string(large_bytes, 'n');
    killed_after([&](nvm_regions* set) { return write_checked(set, rid, expected); });
    NVM_POOL* pool = nvm_pool_open(path("pool").c_str());
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    bytes = read_file(path("pool"));
    take_back_bytes_of(rid);
    ASSERT_NE(bytes, read_file(path("pool"))) << "the change went to another place";
    EXPECT_TRUE(mended(rid) == expected) << "region " << rid;
    // So the next open makes of it.
    EXPECT_TRUE(content_of(rid, "crashed") == expected) << "region " << rid;
  }
}

TEST_F(logged_regions, have_no_damaged_header_where_their_log_has_it) {
  constexpr int appends = 5;
  killed_after([](nvm_regions* set) {
    for (int i = 0; i < appends; ++i) {
      if (nvm_region_append(set, small, new_bytes.data(), new_bytes.size(), nullptr) != 0) return false;
    }
    return true;
  });
  std::string expected = old_bytes;
  for (int i = 0; i < appends; ++i) expected += new_bytes;
  const file_bytes whole = bytes;
  constexpr unsigned words = sizeof(regions::header) / 8;
  for (unsigned some = 0; some < 1U << words; ++some) {
    bytes = whole;
    for (unsigned i = 0; i < words; ++i) {
      if ((some >> i & 1) != 0) take_back(header_of(small) + std::uint64_t{8} * i, 8);
    }
    EXPECT_TRUE(mended(small) == expected) << "words " << some;
  }
}

}  // namespace
}  // namespace nvm::tests
