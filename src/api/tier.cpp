// Calls of include/nvm/tier.h.
#include "nvm/tier.h"

#include <algorithm>
#include <cinttypes>
#include <shared_mutex>

#include "api/pool_object.hpp"
#include "engine/store_side.hpp"
#include "tier/tier.hpp"

namespace nvm::api {
namespace {

// Of a pool that has a tier.
result<tier::pool_tier*> tier_of(NVM_POOL* pool) noexcept {
  if (pool == nullptr) return fail(errc::invalid, "the pool is NULL");
  if (status s = pool->file->ours(); !s) return s.error();
  if (pool->tier == nullptr || !pool->tier->exists()) {
    return fail(errc::invalid, "pool %s has no second file", pool->file->path());
  }
  return pool->tier.get();
}

// The data pages that a range of the pool's addresses touches.
result<tier::page_range> pages_of(NVM_POOL* pool, const void* p, std::size_t bytes) noexcept {
  const geometry g = pool->file->geometry();
  const std::uint64_t offset = reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(pool->base());
  if (bytes == 0 || offset < g.page_offset(0) || !range_inside(offset, bytes, g.size_bytes())) {
    return fail(errc::bad_pointer, "%zu bytes at %p are not inside the data of %s", bytes, p, pool->file->path());
  }
  return tier::pages_touched(offset - g.page_offset(0), bytes);
}

// Whether the library may read the pages, asked while no store can be detached: nor are those of a store that comes to
// be meanwhile made inaccessible (object_stores::close_page()).  errc::bad_pointer: the program has not attached the
// object store that has one of them.
status may_read(NVM_POOL& pool, const tier::page_range& r) noexcept {
  const geometry g = pool.file->geometry();
  const std::uint64_t begin = g.page_offset(0) + r.first * tier::swapper::page_bytes;
  const std::uint64_t end = begin + r.count * tier::swapper::page_bytes;
  if (!pool.own_links.may_lead_into_store(begin, end - begin)) return {};
  const std::uint64_t step = std::min(g.page_bytes(), tier::swapper::page_bytes);
  for (std::uint64_t at = begin; at < end; at += step) {
    if (rights_at(pool, at) != attachments::rights::none) continue;
    const void* const p = pool.base() + at;
    return fail(errc::bad_pointer, "%p is in an object store of %s that is not attached", p, pool.file->path());
  }
  return {};
}

// A thread that detaches a store waits until the pages of this call have come, so they are few.
status pin_few(NVM_POOL& pool, tier::swapper& s, const tier::page_range& r) noexcept {
  std::shared_lock<writers_first_lock> stay;
  if (const auto side = pool.engine->stores(); side) {
    stay = (*side)->stay();
    if (status may = may_read(pool, r); !may) return may;
  }
  return s.pin(r.first, r.count, tier::swapper::pinned_by::program);
}

// All or none.
status pin(NVM_POOL& pool, tier::swapper& s, const tier::page_range& r) noexcept {
  constexpr std::uint64_t pages_at_once = 64;
  for (std::uint64_t pinned = 0; pinned < r.count;) {
    const std::uint64_t count = std::min(pages_at_once, r.count - pinned);
    if (const status done = pin_few(pool, s, {r.first + pinned, count}); !done) {
      s.unpin(r.first, pinned, tier::swapper::pinned_by::program);
      return done;
    }
    pinned += count;
  }
  return {};
}

// Lets `f` work on the pages where they come and go; does nothing where all pages stay.
template <class F>
int with_pages(NVM_POOL* pool, const void* p, std::size_t bytes, F&& f) noexcept {
  const auto t = tier_of(pool);
  if (!t) return report(t.error());
  const platform::in_call here;
  const auto pages = pages_of(pool, p, bytes);
  if (!pages) return report(pages.error());
  tier::swapper* const s = (*t)->pages();
  return s == nullptr ? 0 : answer(f(*s, *pages));
}

}  // namespace

void tell_tier(nvm_pool& pool, std::uint64_t offset, std::uint64_t bytes, bool referenced) noexcept {
  const auto pages = pages_of(&pool, pool.base() + offset, bytes);
  tier::swapper* const s = pool.tier->pages();
  if (pages && s != nullptr) s->refer(pages->first, pages->count, referenced);
}

}  // namespace nvm::api

namespace api = nvm::api;
using nvm::errc;
using nvm::fail;

extern "C" {

int nvm_tier_get_statistics(NVM_POOL* pool, nvm_tier_statistics* out) {
  if (out == nullptr) return api::report(fail(errc::invalid, "the result is NULL"));
  const auto t = api::tier_of(pool);
  if (!t) return api::report(t.error());
  const nvm::platform::in_call here;
  (*t)->statistics(*out);
  return 0;
}

int nvm_tier_refer(NVM_POOL* pool, const void* p, size_t bytes, int referenced) {
  return api::with_pages(pool, p, bytes, [&](nvm::tier::swapper& s, const nvm::tier::page_range& r) noexcept {
    s.refer(r.first, r.count, referenced != 0);
    return nvm::status{};
  });
}

int nvm_tier_pin(NVM_POOL* pool, const void* p, size_t bytes) {
  return api::with_pages(pool, p, bytes, [=](nvm::tier::swapper& s, const nvm::tier::page_range& r) noexcept {
    return api::pin(*pool, s, r);
  });
}

int nvm_tier_unpin(NVM_POOL* pool, const void* p, size_t bytes) {
  return api::with_pages(pool, p, bytes, [](nvm::tier::swapper& s, const nvm::tier::page_range& r) noexcept {
    s.unpin(r.first, r.count, nvm::tier::swapper::pinned_by::program);
    return nvm::status{};
  });
}

int nvm_tier_shrink(NVM_POOL* pool, uint64_t bytes) {
  const auto t = api::tier_of(pool);
  if (!t) return api::report(t.error());
  const nvm::platform::in_call here;
  if (nvm::tier::swapper* const s = (*t)->pages(); s != nullptr) s->shrink(bytes / nvm::tier::swapper::page_bytes);
  return 0;
}

int nvm_tier_inspect(const char* pool, nvm_tier_info* out) {
  if (pool == nullptr || *pool == 0 || out == nullptr) {
    return api::report(fail(errc::invalid, "the path or the result is NULL"));
  }
  const nvm::platform::in_call here;
  return api::answer(nvm::tier::inspect_tier(pool, *out));
}

}  // extern "C"
