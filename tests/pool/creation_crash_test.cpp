// Method: creation runs over recorded file calls.  Killed before each call, the folder is looked at as it is, where the
// file system has files without names, and where it has none.  For power
// loss a model of the device replays the calls: what a sync has not covered is lost, kept, or torn by sectors.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <random>

#include "pool/place.hpp"
#include "pool/pool_file.hpp"
#include "pool_testing.hpp"

namespace nvm {
namespace {

using namespace nvm::testing;

struct event {
  enum kind { allocate, write, sync } what;
  std::uint64_t offset = 0;
  std::vector<std::byte> bytes;  // write
  std::uint64_t end = 0;         // allocate: length of the file afterwards at least
};

struct {
  std::vector<event> events;
  unsigned calls = 0;
  unsigned fatal = ~0U;  // this call does not happen
  int error = 0;         // 0: the process dies there; else the call fails so
} plan;

// True: the call goes on.  Failure of the chosen one otherwise.
bool goes_on() {
  if (plan.calls++ != plan.fatal) return true;
  if (plan.error == 0) ::kill(::getpid(), SIGKILL);
  errno = plan.error;
  return false;
}

platform::file_calls recorded_calls() {
  platform::file_calls t = platform::system_file_calls();
  t.fallocate = [](int d, int mode, off_t at, off_t bytes) {
    if (!goes_on()) return -1;
    plan.events.push_back({event::allocate, 0, {}, static_cast<std::uint64_t>(at + bytes)});
    return ::fallocate(d, mode, at, bytes);
  };
  t.pwrite = [](int d, const void* from, std::size_t n, off_t at) -> ssize_t {
    if (!goes_on()) return -1;
    const auto* first = static_cast<const std::byte*>(from);
    plan.events.push_back({event::write, static_cast<std::uint64_t>(at), {first, first + n}, 0});
    return ::pwrite(d, from, n, at);
  };
  t.fdatasync = [](int d) {
    if (!goes_on()) return -1;
    plan.events.push_back({event::sync, 0, {}, 0});
    return ::fdatasync(d);
  };
  t.fsync = [](int d) {
    if (!goes_on()) return -1;
    plan.events.push_back({event::sync, 0, {}, 0});
    return ::fsync(d);
  };
  t.link = [](int d, const char* path) { return goes_on() ? platform::system_file_calls().link(d, path) : -1; };
  t.rename = [](const char* from, const char* to, unsigned flags) {
    return goes_on() ? platform::system_file_calls().rename(from, to, flags) : -1;
  };
  return t;
}

// As a file system without O_TMPFILE.
platform::file_calls with_names_only(platform::file_calls t) {
  t.open = [](const char* path, int flags, unsigned mode) {
    if ((flags & O_TMPFILE) != O_TMPFILE) return goes_on() ? platform::system_file_calls().open(path, flags, mode) : -1;
    errno = EOPNOTSUPP;
    return -1;
  };
  return t;
}

const std::uint8_t fixed_uuid[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

// Creation with log content that must be there in whatever opens.
pool_create_options creation(std::uint32_t medium) {
  auto o = small_pool(medium);
  o.uuid = fixed_uuid;
  o.created_unix_s = 1;
  o.prepare.run = [](void*, platform::file& file, const layout::superblock& sb) noexcept -> status {
    const std::array<std::uint64_t, 128> head{0xABCDEF};
    return file.write(sb.log_offset, head.data(), sizeof head);
  };
  return o;
}

struct ground {
  std::uint32_t medium;
  bool nameless = true;
};

class creation_crash : public ::testing::TestWithParam<ground> {
 protected:
  scratch folder{memory_folder()};
  std::string path = folder.path();
  platform::file_calls table = GetParam().nameless ? recorded_calls() : with_names_only(recorded_calls());
  std::uint32_t medium = GetParam().medium;
  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator{folder.folder()}, {}));
  }

  void TearDown() override { platform::use_file_calls(nullptr); }
  // Number of calls that creation makes.
  unsigned record() {
    plan.events.clear();
    plan.calls = 0;
    plan.fatal = ~0U;
    platform::use_file_calls(&table);
    EXPECT_TRUE(pool_file::create(path.c_str(), creation(medium))) << last_message();
    platform::use_file_calls(nullptr);
    std::filesystem::remove(path);
    return plan.calls;
  }
};
INSTANTIATE_TEST_SUITE_P(medium, creation_crash,
                         ::testing::Values(ground{tests::direct_medium()}, ground{NVM_MEDIUM_SSD},
                                           ground{tests::direct_medium(), false}, ground{NVM_MEDIUM_SSD, false}),
                         [](const auto& p) {
                           return std::string{medium_name(p.param.medium)} + (p.param.nameless ? "" : "_with_names");
                         });

// An empty pool with nothing missing.
bool is_whole(const std::vector<std::byte>& image, const layout::superblock& sb) {
  const geometry g = geometry_of(sb);
  std::uint64_t head = 0;
  std::memcpy(&head, image.data() + g.log_offset, sizeof head);
  return image.size() >= g.size_bytes() && head == 0xABCDEF && *read_root(image.data(), g) == 0;
}

TEST_P(creation_crash, by_kill_before_any_call_leaves_no_file_or_a_whole_pool) {
  const unsigned calls = record();
  ASSERT_GT(calls, 6U);
  unsigned opened = 0;
  for (unsigned k = 0; k < calls; ++k) {
    ASSERT_EQ(in_child([&] {
                plan.calls = 0;
                plan.fatal = k;
                plan.error = 0;
                platform::use_file_calls(&table);
                const auto pool = pool_file::create(path.c_str(), creation(medium));
                return pool ? 1 : 2;
              }),
              1000 + SIGKILL)
        << k;
    if (std::filesystem::exists(path)) {
      ++opened;
      const auto image = bytes_of(path);
      const auto pool = pool_file::open(path.c_str(), on_medium(medium));
      ASSERT_TRUE(pool) << k << ": " << last_message();
      EXPECT_TRUE(is_whole(image, (*pool)->superblock())) << k;
    } else {
      EXPECT_LE(files(), GetParam().nameless ? 0U : 1U) << k;
      ASSERT_TRUE(pool_file::create(path.c_str(), creation(medium))) << k << ": " << last_message();
    }
    EXPECT_EQ(files(), 1U) << k << ": nothing of the killed one is left beside the pool";
    std::filesystem::remove(path);
  }
  // Killed before the folder was opened or synced, or before the mark of the owner was cleared.
  EXPECT_GE(opened, 1U);
  EXPECT_LE(opened, 3U);
}

TEST_P(creation_crash, leaves_what_another_process_is_making) {
  if (GetParam().nameless) GTEST_SKIP() << "nobody sees it";
  platform::use_file_calls(&table);
  plan.calls = 0;
  plan.fatal = ~0U;
  platform::pending_name first, second;
  auto made = first.begin(path.c_str(), 0600);
  ASSERT_TRUE(made) << last_message();
  EXPECT_EQ(second.begin(path.c_str(), 0600).error(), errc::busy);
  EXPECT_EQ(pool_file::create(path.c_str(), creation(medium)).error(), errc::busy) << last_message();
  EXPECT_TRUE(made->has_name(first.temporary().c_str()));
  ASSERT_TRUE(first.give(*made)) << last_message();
  EXPECT_EQ(pool_file::create(path.c_str(), creation(medium)).error(), errc::exists) << last_message();
  EXPECT_EQ(files(), 1U);
}

// A file that is closed without a name is a leftover; after that the name is that of the process that took it away.
TEST_P(creation_crash, that_failed_leaves_what_another_process_began_since) {
  if (GetParam().nameless) GTEST_SKIP() << "nobody sees it";
  platform::use_file_calls(&table);
  plan.calls = 0;
  plan.fatal = ~0U;
  platform::pending_name second;
  result<platform::file> others = fail(errc::not_found, "not begun");
  {
    platform::pending_name first;
    auto made = first.begin(path.c_str(), 0600);
    ASSERT_TRUE(made) << last_message();
    made->close();
    others = second.begin(path.c_str(), 0600);
    ASSERT_TRUE(others) << last_message();
    first.drop(*made);
  }
  EXPECT_TRUE(others->has_name(second.temporary().c_str()));
  second.drop(*others);
  EXPECT_EQ(files(), 0U);
}

TEST_P(creation_crash, is_not_disturbed_by_questions_about_its_medium) {
  platform::use_file_calls(&table);
  plan.calls = 0;
  plan.fatal = ~0U;
  platform::pending_name name;
  const auto made = name.begin(path.c_str(), 0600);
  ASSERT_TRUE(made) << last_message();
  const auto there = files();
  const auto medium_of_made = detect_medium(*made), medium_of_path = detect_medium(path.c_str());
  ASSERT_TRUE(medium_of_path) << last_message();
  EXPECT_EQ(*medium_of_path, *medium_of_made);
  EXPECT_EQ(files(), there);
  name.drop(*made);
  EXPECT_EQ(files(), 0U);
}

// Between its first look and its name somebody else has made a file of that name.
TEST_P(creation_crash, replaces_no_file_that_came_into_being_meanwhile) {
  auto o = creation(medium);
  o.prepare.context = &path;
  o.prepare.run = [](void* context, platform::file&, const layout::superblock&) noexcept -> status {
    put_bytes(*static_cast<std::string*>(context), std::vector<std::byte>(10, std::byte{7}));
    return {};
  };
  platform::use_file_calls(&table);
  plan.fatal = ~0U;
  EXPECT_EQ(pool_file::create(path.c_str(), o).error(), errc::exists);
  EXPECT_EQ(bytes_of(path), std::vector<std::byte>(10, std::byte{7}));
  EXPECT_EQ(files(), 1U);
}

TEST_P(creation_crash, by_failure_of_any_call_leaves_no_file) {
  const unsigned calls = record();
  unsigned unnoticed = 0;
  for (const int error : {ENOSPC, EIO}) {
    for (unsigned k = 0; k < calls; ++k) {
      plan.calls = 0;
      plan.fatal = k;
      plan.error = error;
      platform::use_file_calls(&table);
      const auto pool = pool_file::create(path.c_str(), creation(medium));
      const int number = errno;
      platform::use_file_calls(nullptr);
      if (pool) {  // the mark of the owner, written and cleared: nothing depends on it
        ++unnoticed;
        std::filesystem::remove(path);
        continue;
      }
      EXPECT_EQ(files(), 0U) << k;
      EXPECT_EQ(number, error) << k << ": " << last_message();
      if (error == ENOSPC) {
        EXPECT_TRUE(pool.error() == errc::no_space || pool.error() == errc::io) << k << ": " << last_message();
      }
    }
  }
  EXPECT_EQ(unnoticed, 4U);
  EXPECT_TRUE(pool_file::create(path.c_str(), creation(medium)))
      << "the addresses were not given back: " << last_message();
}

// The device after the first `done` events of which the first `synced` are safe; keep(k) chooses the fate of the
// rest: bytes kept of write k, by sectors of the file.
std::vector<std::byte> device(const std::vector<event>& events, std::size_t synced, std::size_t done,
                              const std::function<bool(std::size_t, std::uint64_t)>& keep) {
  std::vector<std::byte> image;
  for (std::size_t k = 0; k < done; ++k) {
    const event& e = events[k];
    if (e.what == event::sync) continue;
    const bool safe = k < synced;
    const std::uint64_t end = e.what == event::allocate ? e.end : e.offset + e.bytes.size();
    if (image.size() < end && (safe || keep(k, ~std::uint64_t{0}))) image.resize(end);
    for (std::uint64_t i = 0; e.what == event::write && i < e.bytes.size(); ++i) {
      const std::uint64_t at = e.offset + i;
      if (at < image.size() && (safe || keep(k, at / sector_bytes))) image[at] = e.bytes[i];
    }
  }
  return image;
}

// Crashes at each event, keeps chosen parts of what no sync covers; counts images that open and are not whole.
std::size_t half_pools(const std::vector<event>& events, std::size_t& states) {
  std::mt19937_64 random{7};
  std::size_t bad = 0;
  for (std::size_t done = 0; done <= events.size(); ++done) {
    std::size_t synced = 0;
    for (std::size_t k = 0; k < done; ++k) {
      if (events[k].what == event::sync) synced = k + 1;
    }
    const auto look = [&](const std::function<bool(std::size_t, std::uint64_t)>& keep) {
      ++states;
      const auto image = device(events, synced, done, keep);
      const auto sb =
          pick_superblock(image.data(), std::min<std::size_t>(image.size(), superblock_probe_bytes), image.size());
      if (sb && !is_whole(image, *sb)) ++bad;
    };
    look([](std::size_t, std::uint64_t) { return true; });
    look([](std::size_t, std::uint64_t) { return false; });
    for (std::size_t one = synced; one < done; ++one) {
      look([&](std::size_t k, std::uint64_t) { return k == one; });
      look([&](std::size_t k, std::uint64_t) { return k != one; });
    }
    for (unsigned round = 0; round < 60; ++round) {
      std::map<std::pair<std::size_t, std::uint64_t>, bool> fate;
      look([&](std::size_t k, std::uint64_t sector) {
        auto [at, is_new] = fate.try_emplace({k, sector}, false);
        if (is_new) at->second = (random() & 1) != 0;
        return at->second;
      });
    }
  }
  return bad;
}

TEST_P(creation_crash, by_power_loss_opens_nothing_or_a_whole_pool) {
  record();
  std::size_t states = 0;
  EXPECT_EQ(half_pools(plan.events, states), 0U);
  EXPECT_GT(states, 400U);
}

// The same with the sync before the superblocks taken out of the record: the model must notice.
TEST_P(creation_crash, opens_half_a_pool_without_sync_C1) {
  record();
  auto events = plan.events;
  for (std::size_t k = 0; k < events.size(); ++k) {
    if (events[k].what == event::sync) {
      events.erase(events.begin() + static_cast<std::ptrdiff_t>(k));
      break;
    }
  }
  std::size_t states = 0;
  EXPECT_GT(half_pools(events, states), 0U);
}

}  // namespace
}  // namespace nvm
