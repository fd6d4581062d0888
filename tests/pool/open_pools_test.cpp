#include "pool/open_pools.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <thread>

#include "../platform/faults.hpp"
#include "pool/pool_file.hpp"
#include "pool_testing.hpp"

namespace nvm {
namespace {

using namespace nvm::testing;
using tests::faults;

pool_file::pointer made(const std::string& path) {
  auto pool = pool_file::create(path.c_str(), small_pool());
  EXPECT_TRUE(pool) << last_message();
  return pool ? std::move(*pool) : nullptr;
}

TEST(open_pools, several_pools_are_found_by_their_addresses) {
  scratch folder;
  std::vector<pool_file::pointer> pools;
  for (unsigned i = 0; i < 8; ++i) pools.push_back(made(folder.path(std::to_string(i))));
  for (const auto& p : pools) {
    ASSERT_NE(p, nullptr);
    const std::uint64_t end = p->geometry().capacity_bytes();
    EXPECT_EQ(find_pool(p->base()), p.get());
    EXPECT_EQ(find_pool(p->base() + end - 1), p.get());
    EXPECT_EQ(find_pool(p->base() + end), nullptr);
  }
  int volatile_object = 0;
  EXPECT_EQ(find_pool(&volatile_object), nullptr);
  EXPECT_EQ(find_pool(nullptr), nullptr);
  const std::byte* base = pools[3]->base();
  pools[3].reset();
  EXPECT_EQ(find_pool(base), nullptr);
}

TEST(open_pools, find_runs_beside_opening_and_closing_of_others) {
  scratch folder;
  const auto stays = made(folder.path("stays"));
  ASSERT_NE(stays, nullptr);
  std::atomic<bool> done{false};
  std::thread finder{[&] {
    while (!done.load(std::memory_order_relaxed)) ASSERT_EQ(find_pool(stays->base() + 100), stays.get());
  }};
  for (unsigned i = 0; i < 20; ++i) made(folder.path("goes" + std::to_string(i)));
  done.store(true, std::memory_order_relaxed);
  finder.join();
}

TEST(open_pools, copy_of_an_open_pool_is_refused_by_its_uuid) {
  scratch folder;
  closed_pool(folder.path("a.nvm"));
  std::filesystem::copy_file(folder.path("a.nvm"), folder.path("b.nvm"));
  auto a = pool_file::open(folder.path("a.nvm").c_str(), on_medium(NVM_MEDIUM_SHM));
  ASSERT_TRUE(a) << last_message();
  EXPECT_EQ(pool_file::open(folder.path("b.nvm").c_str(), on_medium(NVM_MEDIUM_SHM)).error(), errc::address);
  EXPECT_MESSAGE("copy");
  EXPECT_MESSAGE("a.nvm");
}

TEST(open_pools, new_pool_avoids_addresses_that_are_taken) {
  scratch folder;
  auto o = small_pool();
  const std::uint8_t uuid[16] = {9};
  o.uuid = uuid;
  auto first = pool_file::create(folder.path("a").c_str(), o);
  ASSERT_TRUE(first) << last_message();
  EXPECT_EQ(pool_file::create(folder.path("b").c_str(), o).error(), errc::address);
  EXPECT_FALSE(std::filesystem::exists(folder.path("b")));
  // Half of the window is taken, so that some first choices are too.
  auto slot = platform::slot::take(platform::window_base + platform::window_bytes / 2, platform::window_bytes / 2);
  if (slot) {
    for (unsigned i = 0; i < 8; ++i) {
      const auto p = made(folder.path("c" + std::to_string(i)));
      ASSERT_NE(p, nullptr);
      EXPECT_LT(reinterpret_cast<std::uint64_t>(p->base()), platform::window_base + platform::window_bytes / 2);
    }
  }
}

TEST(open_pools, hold_the_object_of_the_layer_above) {
  scratch folder;
  const auto p = made(folder.path());
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(p->owner(), nullptr);
  int upper = 0;
  p->set_owner(&upper);
  EXPECT_EQ(find_pool(p->base())->owner(), &upper);
}

TEST(forked_child, has_poisoned_pools_whose_addresses_fault) {
  scratch folder;
  auto pool = made(folder.path());
  ASSERT_NE(pool, nullptr);
  std::byte* base = pool->base();
  EXPECT_EQ(in_child([&] {
              if (!pool->forked() || pool->usable().error() != errc::forked) return 1;
              if (find_pool(base) != nullptr) return 2;
              if (!faults(base)) return 3;
              if (pool->file()) return 4;  // its descriptor is closed
              plain_media m;
              if (pool->grow(m, 100).error() != errc::forked) return 5;
              if (!pool->close()) return 6;
              pool.reset();
              return 0;
            }),
            0);
  // Nothing of that reached the parent or the file.
  EXPECT_FALSE(pool->forked());
  EXPECT_FALSE(faults(base));
  EXPECT_EQ(find_pool(base), pool.get());
  ASSERT_TRUE(pool->close());
  auto again = pool_file::open(folder.path().c_str(), on_medium(NVM_MEDIUM_SHM));
  ASSERT_TRUE(again) << last_message();
  EXPECT_TRUE((*again)->was_clean());
}

TEST(forked_child, that_lives_on_does_not_keep_the_lock) {
  scratch folder;
  auto pool = made(folder.path());
  ASSERT_NE(pool, nullptr);
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(pipe_ends[1]);
    char c = 0;
    [[maybe_unused]] const auto n = ::read(pipe_ends[0], &c, 1);  // until the parent is done
    ::_exit(0);
  }
  ::close(pipe_ends[0]);
  pool.reset();
  EXPECT_TRUE(pool_file::open(folder.path().c_str(), on_medium(NVM_MEDIUM_SHM))) << last_message();
  ::close(pipe_ends[1]);
  ::waitpid(child, nullptr, 0);
}

TEST(forked_child, opens_pools_of_its_own) {
  scratch folder;
  auto pool = made(folder.path("parent"));
  ASSERT_NE(pool, nullptr);
  EXPECT_EQ(in_child([&] {
              auto own = pool_file::create(folder.path("child").c_str(), small_pool());
              if (!own) return 1;
              if (find_pool((*own)->base()) != own->get()) return 2;
              return (*own)->close() ? 0 : 3;
            }),
            0);
}

TEST(forked_child, opens_the_same_pool_once_the_parent_has_closed_it) {
  scratch folder;
  auto pool = made(folder.path());
  ASSERT_NE(pool, nullptr);
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char c = 0;
    if (::read(pipe_ends[0], &c, 1) != 1) ::_exit(9);
    ::_exit(pool_file::open(folder.path().c_str(), on_medium(NVM_MEDIUM_SHM)) ? 0 : 1);
  }
  ASSERT_TRUE(pool->close());
  ASSERT_EQ(::write(pipe_ends[1], "x", 1), 1);
  int wait_status = 0;
  ::waitpid(child, &wait_status, 0);
  EXPECT_EQ(WEXITSTATUS(wait_status), 0);
}

TEST(exit_of_the_process, closes_pools_newest_first) {
  scratch folder;
  closed_pool(folder.path("a"));
  closed_pool(folder.path("b"));
  EXPECT_EQ(in_child([&] {
              open_pools::set_exit_hook([](pool_file& p) noexcept {
                std::printf("%s\n", p.path());
                if (!p.close()) std::abort();
                delete &p;
              });
              auto a = pool_file::open(folder.path("a").c_str(), on_medium(NVM_MEDIUM_SHM));
              auto b = pool_file::open(folder.path("b").c_str(), on_medium(NVM_MEDIUM_SHM));
              if (!a || !b) return 1;
              const std::string order = folder.path("order");
              if (std::freopen(order.c_str(), "w", stdout) == nullptr) return 2;
              (void)a->release();
              (void)b->release();
              std::exit(0);
            }),
            0);
  std::ifstream order{folder.path("order")};
  std::string first, second;
  order >> first >> second;
  EXPECT_EQ(first, folder.path("b"));
  EXPECT_EQ(second, folder.path("a"));
  for (const char* name : {"a", "b"}) {
    auto pool = pool_file::open(folder.path(name).c_str(), on_medium(NVM_MEDIUM_SHM));
    ASSERT_TRUE(pool) << last_message();
    EXPECT_TRUE((*pool)->was_clean()) << name;
  }
}

}  // namespace
}  // namespace nvm
