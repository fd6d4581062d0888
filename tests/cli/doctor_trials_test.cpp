// The trials of the doctor find planted faults, and descriptions of places that do not keep promises.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "../scratch_folder.hpp"
#include "cli/kill_run.hpp"
#include "cli/place_facts.hpp"
#include "cli/power_cut_run.hpp"

namespace nvm::cli {
namespace {

using tests::scratch_folder;

std::string new_pool(const std::string& path, std::uint32_t medium) {
  nvm_pool_options o{};
  o.size = 1 << 20;
  o.capacity = 4 << 20;
  o.medium = medium;
  return proof_pool::create(path, o);
}

// A pool after transactions 1 to `last`.
void fill(const std::string& path, std::uint32_t medium, std::uint64_t last) {
  ASSERT_EQ(new_pool(path, medium), "");
  NVM_POOL* pool = proof_pool::open(path, medium);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  for (std::uint64_t n = 1; n <= last; ++n) ASSERT_TRUE(proof_pool::step(pool, n)) << nvm_errormsg();
  ASSERT_EQ(nvm_pool_close(pool), 0);
}

TEST(proof_pool, tells_a_transaction_that_is_lost_or_was_never_begun) {
  const scratch_folder folder{"cli", false};
  const std::string path = folder.path("pool");
  fill(path, NVM_MEDIUM_SHM, 20);
  EXPECT_EQ(proof_pool::judge(path, NVM_MEDIUM_SHM, 20, 20), "");
  EXPECT_NE(proof_pool::judge(path, NVM_MEDIUM_SHM, 21, 21).find("acknowledged"), std::string::npos);
  EXPECT_NE(proof_pool::judge(path, NVM_MEDIUM_SHM, 10, 19).find("never begun"), std::string::npos);
}

TEST(proof_pool, tells_every_changed_byte_of_what_it_holds) {
  const scratch_folder folder{"cli", false};
  const std::string path = folder.path("pool");
  fill(path, NVM_MEDIUM_SHM, 20);
  NVM_POOL* pool = proof_pool::open(path, NVM_MEDIUM_SHM);
  ASSERT_NE(pool, nullptr);
  // A byte of each block: outside of any transaction, as a stray store.
  struct visit {
    std::vector<unsigned char*> bytes;
  } v;
  (void)nvm_pool_each(
      pool,
      [](void* object, std::uint32_t type, std::size_t, void* to) {
        if (type == 3) static_cast<visit*>(to)->bytes.push_back(static_cast<unsigned char*>(object) + 9);
        return 0;
      },
      &v);
  ASSERT_EQ(v.bytes.size(), 8U);
  *v.bytes[3] ^= 1;
  ASSERT_EQ(nvm_pool_close(pool), 0);
  EXPECT_NE(proof_pool::judge(path, NVM_MEDIUM_SHM, 20, 20).find("damaged"), std::string::npos);
}

TEST(in_a_child, tells_how_the_child_died) {
  EXPECT_EQ(in_a_child([] { return std::string{"well"}; }), "well");
  EXPECT_NE(in_a_child([]() -> std::string { std::abort(); }).find("signal 6"), std::string::npos);
}

// For a new pool in the folder.
kill_settings settings_in(const scratch_folder& folder) {
  kill_settings s;
  s.path = folder.path("pool");
  s.medium = NVM_MEDIUM_SHM;
  EXPECT_EQ(new_pool(s.path, s.medium), "");
  return s;
}

TEST(kill_run, finds_nothing_in_pools_that_are_used_as_they_should_be) {
  const scratch_folder folder{"cli", false};
  kill_settings s = settings_in(folder);
  s.seconds = 0.5;
  const kill_outcome o = run_kills(s);
  EXPECT_EQ(o.fault, "");
  EXPECT_GT(o.kills, 0U);
  EXPECT_GT(o.transactions, 0U);
}

TEST(kill_run, goes_on_until_a_slow_disk_has_acknowledged_a_transaction) {
  const scratch_folder folder{"cli", false};
  kill_settings s = settings_in(folder);
  s.seconds = 0.01;
  s.step = [](NVM_POOL* pool, std::uint64_t n) {
    std::this_thread::sleep_for(std::chrono::milliseconds{50});
    return proof_pool::step(pool, n);
  };
  const kill_outcome o = run_kills(s);
  EXPECT_EQ(o.fault, "");
  EXPECT_GT(o.transactions, 0U);
}

TEST(kill_run, finds_a_store_that_was_forgotten) {
  const scratch_folder folder{"cli", false};
  kill_settings s = settings_in(folder);
  s.seconds = 8;  // it ends with the first
  s.step = proof_pool::step_with_a_store_forgotten;
  const kill_outcome o = run_kills(s);
  EXPECT_NE(o.fault.find("half there"), std::string::npos) << o.fault << " after " << o.kills << " kills";
}

TEST(kill_run, tells_when_the_process_dies_by_itself) {
  const scratch_folder folder{"cli", false};
  kill_settings s = settings_in(folder);
  s.step = [](NVM_POOL*, std::uint64_t) -> bool { std::abort(); };
  EXPECT_NE(run_kills(s).fault.find("signal 6"), std::string::npos);
}

TEST(power_cut_run, finds_nothing_where_syncs_hold) {
  const scratch_folder folder{"cli", false};
  power_cut_settings s;
  s.path = folder.path("pool");
  s.state = folder.path("state");
  s.seconds = 0.6;
  const power_cut_outcome o = run_power_cuts(s);
  EXPECT_EQ(o.problem, "");
  EXPECT_EQ(o.fault, "");
  EXPECT_GT(o.states, 0U);
  EXPECT_GT(o.syncs, 0U);
}

TEST(power_cut_run, finds_syncs_that_do_nothing) {
  const scratch_folder folder{"cli", false};
  power_cut_settings s;
  s.path = folder.path("pool");
  s.state = folder.path("state");
  s.seconds = 8;  // it ends with the first
  s.syncs_do_nothing = true;
  const power_cut_outcome o = run_power_cuts(s);
  EXPECT_EQ(o.problem, "");
  EXPECT_NE(o.fault, "") << o.states << " states";
}

constexpr const char* mounts =
    "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
    "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n"
    "30 27 0:27 / /dev/shm rw - tmpfs tmpfs rw,size=24684092k\n"
    "31 27 8:1 / /data\\040one rw,noatime shared:7 master:1 - xfs /dev/sda1 rw,attr2\n"
    "32 31 0:40 / /data\\040one/remote rw - nfs4 server:/export rw\n"
    "33 27 8:2 / /old rw - ext3 /dev/sda2 rw,barrier=0\n"
    "34 27 8:3 / /old rw - ext4 /dev/sda3 rw\n"
    "35 27 0:50 / /box rw - overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w,volatile\n"
    "broken\n";

TEST(place_facts, find_the_mount_that_a_path_lies_on) {
  EXPECT_EQ(mount_of("/srv/x", mounts).type, "ext4");
  EXPECT_EQ(mount_of("/dev/shm/pools", mounts).type, "tmpfs");
  EXPECT_EQ(mount_of("/dev/shmpools", mounts).type, "ext4");
  const mount_facts spaced = mount_of("/data one/x", mounts);
  EXPECT_EQ((std::tuple{spaced.type, spaced.source, spaced.point, spaced.device_major, spaced.device_minor}),
            (std::tuple{std::string{"xfs"}, std::string{"/dev/sda1"}, std::string{"/data one"}, 8U, 1U}));
  EXPECT_EQ(spaced.options, "rw,noatime,rw,attr2");
  EXPECT_EQ(mount_of("/data one/remote/y", mounts).source, "server:/export");
  EXPECT_EQ(mount_of("/old/z", mounts).source, "/dev/sda3");  // mounted over the other
  EXPECT_EQ(mount_of("/x", "").type, "");
}

TEST(place_facts, tell_places_that_do_not_keep_what_syncs_promise) {
  const auto judged = [](const mount_facts& m, const char* preloaded = "", const mount_facts* below = nullptr) {
    return judge_syncs(m, {"sda", "write back", "", ""}, preloaded, below).holds;
  };
  const mount_facts good = mount_of("/", mounts);
  EXPECT_EQ(judged(good), verdict::yes);
  EXPECT_EQ(judged(good, "/usr/lib/libeatmydata.so"), verdict::no);
  EXPECT_EQ(judged(mount_of("/dev/shm", mounts)), verdict::no);
  EXPECT_EQ(judged(mount_of("/data one/remote", mounts)), verdict::unknown);
  EXPECT_EQ(judged(mount_of("/box", mounts)), verdict::no);
  mount_facts overlay = mount_of("/box", mounts);
  overlay.options = "rw,upperdir=/u";
  EXPECT_EQ(judged(overlay), verdict::unknown);
  EXPECT_EQ(judged(overlay, "", &good), verdict::yes);
  mount_facts fast = good;
  for (const char* option : {"nobarrier", "barrier=0", "fsync_mode=nobarrier"}) {
    fast.options = std::string{"rw,"} + option;
    EXPECT_EQ(judged(fast), verdict::no) << option;
    EXPECT_EQ(judged(overlay, "", &fast), verdict::no) << option;
  }
  EXPECT_EQ(judge_syncs(good, {"loop0", "", "", "/tmp/disk"}, "", nullptr).holds, verdict::unknown);
  EXPECT_EQ(judge_syncs({}, {}, "", nullptr).holds, verdict::unknown);
}

}  // namespace
}  // namespace nvm::cli
