// What a forked child does with the pools of its parent.
#include "api/fork.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>

#include "api/pool_object.hpp"
#include "base/given_options.hpp"
#include "nvm/malloc.h"
#include "space/face.hpp"
#include "tier/tier.hpp"

namespace nvm::api {

constinit std::atomic<bool> has_pictures{false};

namespace {

constexpr std::size_t pictures_max = 8;

struct picture {
  std::atomic<nvm_pool*> pool{nullptr};  // of the parent; nullptr: the entry is free
  std::byte* copy = nullptr;             // while a fork is under way
  std::byte* base = nullptr;             // of the child's picture
  std::uint64_t bytes = 0;
};
constinit std::array<picture, pictures_max> pictures{};
constinit std::mutex changing;

void* reserve(std::uint64_t bytes) noexcept {
  void* const got = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return got == MAP_FAILED ? nullptr : got;
}

// nullptr: the pool's mapping has all of its data, and may be looked at.
const char* unseen_part_of(nvm_pool* pool) noexcept {
  if (pool->file->geometry().home_bytes != 0) return "its engine has objects elsewhere than in its file";
  if (pool->tier != nullptr && pool->tier->exists()) return "it has pages in a second file";
  if (pool->file->has_feature(layout::feature_stores)) return "it has object stores";
  if (relocation_of(pool).pages_left != 0) return "its relocation goes on in the background";
  return nullptr;
}

// Pages in use keep their blocks meanwhile, and there comes no first object store whose pages could not be read: both
// wait for this copy, and it waits for no call of the program.
void copy_pool(picture& p) noexcept {
  nvm_pool* const pool = p.pool.load(std::memory_order_relaxed);
  pool_file& file = *pool->file;
  p.copy = nullptr;
  // Before the lock: the relocation answers under one of its own, with which it waits for growths of the file.
  if (!file.usable() || unseen_part_of(pool) != nullptr) return;
  const std::lock_guard stay{file.blocks_going()};
  // Alone of these reasons this one may have come since.
  if (file.has_feature(layout::feature_stores)) return;
  const platform::in_call here;
  const geometry g = file.geometry();
  p.bytes = g.size_bytes();
  p.base = file.base();
  p.copy = static_cast<std::byte*>(reserve(p.bytes));
  if (p.copy == nullptr) return;
  std::memcpy(p.copy, p.base, g.page_map_offset + 8 * g.size_pages);
  for (std::uint64_t page = 0; page < g.size_pages;) {
    // Other threads may be taking pages.  acquire: the content of a page that is seen is complete.
    const std::uint64_t word = std::atomic_ref{*reinterpret_cast<std::uint64_t*>(p.base + g.entry_offset(page))}.load(
        std::memory_order_acquire);
    layout::page_entry e;
    const bool taken = word != 0 && entry_fault(word, page, g, g.size_pages, e) == nullptr;
    const std::uint64_t pages = taken ? std::max<std::uint64_t>(e.length_pages, 1) : 1;
    if (taken) {
      std::memcpy(p.copy + g.page_offset(page), p.base + g.page_offset(page), pages << g.page_shift);
    }
    page += pages;
  }
  if (!file.usable()) {  // pages were lost meanwhile
    (void)::munmap(p.copy, p.bytes);
    p.copy = nullptr;
  }
}

void before_fork() noexcept {
  changing.lock();
  for (picture& p : pictures) {
    if (p.pool.load(std::memory_order_relaxed) != nullptr) copy_pool(p);
  }
}
void in_parent() noexcept {
  for (picture& p : pictures) {
    if (p.copy != nullptr) (void)::munmap(p.copy, p.bytes);
    p.copy = nullptr;
  }
  changing.unlock();
}
void in_child() noexcept {
  for (picture& p : pictures) {
    // A child that has pictures hands them on to its own children.
    if (p.pool.load(std::memory_order_relaxed) == nullptr && has_pictures.load(std::memory_order_relaxed)) continue;
    const bool moved =
        p.copy != nullptr && ::mremap(p.copy, p.bytes, p.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, p.base) != MAP_FAILED;
    p.copy = nullptr;
    p.pool.store(nullptr, std::memory_order_relaxed);
    if (moved) {
      has_pictures.store(true, std::memory_order_relaxed);
    } else {
      p.bytes = 0;
    }
  }
  changing.unlock();
}

status can_be_pictured(nvm_pool* pool) noexcept {
  if (status s = pool->file->usable(); !s) return s;
  const char* const why = unseen_part_of(pool);
  if (why == nullptr) return {};
  return fail(errc::engine, "%s: a forked child cannot have a picture of it: %s", pool->file->path(), why);
}

status set_picture(nvm_pool* pool, bool yes) noexcept {
  if (status s = yes ? can_be_pictured(pool) : pool->file->ours(); !s) return s;
  static const status handled = platform::at_fork(before_fork, in_parent, in_child);
  if (!handled) return handled;
  const std::lock_guard guard{changing};
  picture* free = nullptr;
  for (picture& p : pictures) {
    nvm_pool* const of = p.pool.load(std::memory_order_relaxed);
    if (of == pool) {
      if (!yes) p.pool.store(nullptr, std::memory_order_relaxed);
      return {};
    }
    if (of == nullptr) free = &p;
  }
  if (!yes) return {};
  if (free == nullptr) return fail(errc::too_large, "pictures of more than %zu pools at a fork", pictures_max);
  free->pool.store(pool, std::memory_order_relaxed);
  return {};
}

}  // namespace

void forget_picture(nvm_pool* pool) noexcept {
  const std::lock_guard guard{changing};
  for (picture& p : pictures) {
    if (p.pool.load(std::memory_order_relaxed) == pool) p.pool.store(nullptr, std::memory_order_relaxed);
  }
}

void forget_transactions_of_parent() noexcept {
  if (thread_transactions::known() == nullptr) return;
  thread_transactions& mine = thread_transactions::mine();
  for (bool found = true; found;) {
    found = false;
    for (const entry& e : mine.open()) {
      if (!e.pool->file->forked()) continue;
      mine.remove(e.pool);
      found = true;
      break;
    }
  }
}

bool in_picture_slowly(const void* p) noexcept {
  const auto* at = static_cast<const std::byte*>(p);
  if (find_pool(p) != nullptr) return false;  // a pool of this process has taken the addresses
  return std::any_of(pictures.begin(), pictures.end(), [&](const picture& one) {
    return one.bytes != 0 && static_cast<std::uint64_t>(at - one.base) < one.bytes;
  });
}

std::size_t bytes_in_picture(const void* payload) noexcept {
  const auto* at = static_cast<const std::byte*>(payload);
  for (const picture& one : pictures) {
    const std::uint64_t offset = static_cast<std::uint64_t>(at - one.base);
    if (one.bytes == 0 || offset >= one.bytes || offset < sizeof(layout::object_header)) continue;
    const std::uint64_t header = offset - sizeof(layout::object_header);
    layout::object_header h;
    std::memcpy(&h, one.base + header, sizeof h);
    const auto a = layout::alignment_of(h, header);
    if (!layout::object_header_holds(h, header) || !a) return 0;
    const std::uint64_t size = layout::object_size(h);
    return size > a->padding() ? size - a->padding() : 0;
  }
  return 0;
}

}  // namespace nvm::api

namespace api = nvm::api;
using nvm::errc;
using nvm::fail;

extern "C" {

int nvm_pool_set_fork(NVM_POOL* pool, uint32_t what) {
  if (pool == nullptr) return api::report(fail(errc::invalid, "the pool is NULL"));
  if (what != NVM_FORK_NOTHING && what != NVM_FORK_PICTURE) {
    return api::report(fail(errc::invalid, "%u is none of enum nvm_fork", what));
  }
  return api::answer(api::set_picture(pool, what == NVM_FORK_PICTURE));
}

NVM_POOL* nvm_pool_after_fork(NVM_POOL* pool, const nvm_pool_options* options, unsigned wait_ms) {
  using clock = std::chrono::steady_clock;
  if (pool == nullptr) return api::report_null<NVM_POOL>(fail(errc::invalid, "the pool is NULL"));
  const nvm::pool_file& parents = *pool->file;
  if (!parents.forked()) {
    return api::report_null<NVM_POOL>(fail(errc::invalid, "pool %s is not of a parent process", parents.path()));
  }
  const auto known = nvm::given_options<176>(options, "nvm_pool_options");
  if (!known) return api::report_null<NVM_POOL>(known.error());
  nvm_pool_options o = *known;
  if (o.address == 0) o.address = reinterpret_cast<std::uintptr_t>(parents.base());
  const auto until = clock::now() + std::chrono::milliseconds{wait_ms};
  NVM_POOL* ours = nvm_pool_open_with(parents.path(), &o);
  while (ours == nullptr && nvm_errno() == NVM_E_BUSY && clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
    ours = nvm_pool_open_with(parents.path(), &o);
  }
  api::thread_transactions& mine = api::thread_transactions::mine();
  if (ours != nullptr && mine.takes_transactions() && mine.scope() == pool) mine.set_scope(ours);
  return ours;
}

}  // extern "C"
