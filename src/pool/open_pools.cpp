#include "pool/open_pools.hpp"

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "pool/pool_file.hpp"

namespace nvm {
namespace open_pools {

struct access {
  static pool_file*& older(pool_file& p) noexcept { return p.older_; }
  static const pool_file* older(const pool_file& p) noexcept { return p.older_; }
  static bool& seen_at_exit(pool_file& p) noexcept { return p.seen_at_exit_; }
  static void poison(pool_file& p) noexcept { p.poison_in_child(); }
  static bool is_file(const pool_file& p, std::uint64_t device, std::uint64_t inode) noexcept {
    return p.device_ == device && p.inode_ == inode;
  }
};

namespace {

using platform::granule_count;
using platform::granule_shift;

// Trivially destructible, all of it: programs use pools until their very last static destructor.
constinit std::array<std::atomic<pool_file*>, granule_count> directory{};
constinit std::mutex mutex;
constinit pool_file* newest = nullptr;  // list through pool_file::older_, under `mutex`
constinit std::atomic<void (*)(pool_file&) noexcept> exit_hook{nullptr};

void lock_for_fork() noexcept { mutex.lock(); }
void unlock_after_fork() noexcept { mutex.unlock(); }
void become_child() noexcept {
  for (pool_file* p = newest; p != nullptr; p = access::older(*p)) {
    if (p->base() != nullptr) platform::miss_in_child(p->base(), p->geometry().address_bytes(), p->path());
    access::poison(*p);
  }
  newest = nullptr;
  for (auto& entry : directory) {
    if (entry.load(std::memory_order_relaxed) != nullptr) entry.store(nullptr, std::memory_order_relaxed);
  }
  mutex.unlock();
}

void close_all() noexcept {
  const auto hook = exit_hook.load(std::memory_order_acquire);
  while (hook != nullptr) {
    pool_file* next = nullptr;
    {
      const std::lock_guard lock{mutex};
      for (next = newest; next != nullptr && access::seen_at_exit(*next);) next = access::older(*next);
      if (next == nullptr) return;
      access::seen_at_exit(*next) = true;
    }
    hook(*next);
  }
}

std::size_t granule_of(const std::byte* base) noexcept {
  return (reinterpret_cast<std::uintptr_t>(base) - platform::window_base) >> granule_shift;
}

void set_directory(pool_file& pool, pool_file* value) noexcept {
  const std::size_t first = granule_of(pool.base());
  const std::uint64_t count = ceil_div(pool.geometry().address_bytes(), platform::granule_bytes);
  // release: pairs with the acquire in find_pool(); a thread that finds the pool sees it complete.
  for (std::size_t i = first; i < first + count; ++i) directory[i].store(value, std::memory_order_release);
}

}  // namespace

status start() noexcept {
  static const status started = []() noexcept -> status {
    if (std::atexit([] { close_all(); }) != 0) return fail(errc::no_memory, "cannot register what to do at exit");
    return platform::at_fork(lock_for_fork, unlock_after_fork, become_child);
  }();
  return started;
}

std::mutex& guard() noexcept { return mutex; }

void list(pool_file& pool) noexcept {
  access::older(pool) = newest;
  newest = &pool;
}

void unlist(pool_file& pool) noexcept {
  for (pool_file** at = &newest; *at != nullptr; at = &access::older(**at)) {
    if (*at == &pool) {
      *at = access::older(pool);
      return;
    }
  }
}

const pool_file* same_file(const pool_file& self, std::uint64_t device, std::uint64_t inode) noexcept {
  for (const pool_file* p = newest; p != nullptr; p = access::older(*p)) {
    if (p != &self && access::is_file(*p, device, inode)) return p;
  }
  return nullptr;
}

const pool_file* same_uuid(const pool_file& self, const std::uint8_t* uuid) noexcept {
  for (const pool_file* p = newest; p != nullptr; p = access::older(*p)) {
    if (p != &self && std::memcmp(p->superblock().uuid, uuid, sizeof p->superblock().uuid) == 0) return p;
  }
  return nullptr;
}

void publish(pool_file& pool) noexcept {
  platform::miss_no_more(pool.base());
  set_directory(pool, &pool);
}
void withdraw(pool_file& pool) noexcept { set_directory(pool, nullptr); }

void set_exit_hook(void (*close)(pool_file& pool) noexcept) noexcept {
  exit_hook.store(close, std::memory_order_release);
}

}  // namespace open_pools

pool_file* find_pool(const void* p) noexcept {
  if (!platform::in_window(p)) return nullptr;
  const auto* byte = static_cast<const std::byte*>(p);
  pool_file* const pool = open_pools::directory[open_pools::granule_of(byte)].load(std::memory_order_acquire);
  if (pool == nullptr) return nullptr;
  return static_cast<std::uint64_t>(byte - pool->base()) < pool->geometry().address_bytes() ? pool : nullptr;
}

}  // namespace nvm
