// Calls of code that holdfast-cc has compiled: to log a store, and to ask what is known about one.
#include "nvm/compiled.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <iterator>

#include "api/pool_object.hpp"

namespace nvm::api {
namespace {

// The store cannot be called off, and its old bytes cannot be kept: after it nothing could roll back.  Leaves the
// innermost nvm_tx_run(); without one the process ends, and the next open rolls back.
[[noreturn]] void cannot_keep(errc code, const void* p, std::size_t n) noexcept {
  thread_transactions& mine = thread_transactions::mine();
  if (entry* e = mine.around(p); e != nullptr && e->pool->file->ours()) e->transaction->doom(code);
  mine.runs().fail_innermost(code, static_cast<const char*>(__builtin_frame_address(0)));
  std::fprintf(stderr, "holdfast: the old bytes of [%p, +%zu) cannot be kept: %s\n", p, n, last_message());
  std::abort();
}

result<log::byte_range> range_in(const entry& e, const void* p, std::size_t n) noexcept {
  const std::uint64_t offset = reinterpret_cast<std::uintptr_t>(p) - e.base;
  if (!e.pool->file->geometry().in_objects(offset, n)) {
    return fail(errc::bad_pointer, "[%p, +%zu) is not inside the data of %s", p, n, e.pool->file->path());
  }
  return log::byte_range{offset, n};
}

// Transactions of this thread in pools of which pages are lost can only be rolled back from now on: stores of the
// program there reach no file any more.  False: there are none.
bool doom_lost(errc code) noexcept {
  bool found = false;
  for (const entry& e : thread_transactions::mine().open()) {
    if (!e.pool->file->lost()) continue;
    e.transaction->doom(code);
    found = true;
  }
  return found;
}

// Whether the transactions, which cannot commit any more, can still take back stores there.
bool are_kept(const nvm_range* ranges, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    const entry* e = thread_transactions::mine().around(ranges[i].p);
    if (e == nullptr) continue;
    const auto range = range_in(*e, ranges[i].p, ranges[i].n);
    if (!range || !e->transaction->covers(*range)) return false;
  }
  return true;
}

// relaxed: a thread that does not see an abort may report what was rolled back meanwhile, as if it had looked before.
std::uint64_t levels_aborted_on(const nvm_pool& pool, unsigned lane) noexcept {
  return pool.levels_aborted[lane % std::size(pool.levels_aborted)].load(std::memory_order_relaxed);
}

// Outside of any transaction a store is the program's own affair.
void log_ranges(const nvm_range* ranges, std::size_t count) noexcept {
  const status logged = announce(ranges, count, outside_of_transactions::left_out);
  if (!logged && logged.error() == errc::log_full && are_kept(ranges, count)) return;
  // A child that has a picture stores into that; a child without one is told of the failure at the store.
  if (!logged && logged.error() == errc::forked) return;
  if (logged || (logged.error() == errc::io && doom_lost(logged.error()))) return;
  cannot_keep(logged.error(), ranges[0].p, ranges[0].n);
}

}  // namespace
}  // namespace nvm::api

namespace api = nvm::api;

extern "C" {

NVM_API void __nvm_log(const void* p, size_t n) {
  const nvm_range range{p, n};
  api::log_ranges(&range, 1);
}

NVM_API void __nvm_log_many(const nvm_range* ranges, size_t count) { api::log_ranges(ranges, count); }

// Neighbours are one range.
NVM_API void __nvm_log_masked(const void* p, size_t n, uint64_t mask) {
  nvm_range runs[32];
  std::size_t count = 0;
  const auto* lane = static_cast<const char*>(p);
  while (mask != 0) {
    const int skipped = std::countr_zero(mask);
    lane += static_cast<std::size_t>(skipped) * n;
    mask >>= skipped;
    const int set = std::countr_one(mask);
    runs[count++] = {lane, static_cast<std::size_t>(set) * n};
    lane += static_cast<std::size_t>(set) * n;
    mask = set == 64 ? 0 : mask >> set;
  }
  if (count != 0) api::log_ranges(runs, count);
}

NVM_API void __nvm_log_scattered(const void* const* lanes, size_t n, uint64_t mask) {
  nvm_range ranges[64];
  std::size_t count = 0;
  for (; mask != 0; mask &= mask - 1) ranges[count++] = {lanes[std::countr_zero(mask)], n};
  if (count != 0) api::log_ranges(ranges, count);
}

NVM_API void __nvm_log_object(const void* p) {
  if (!nvm_is_durable(p) || api::thread_transactions::mine().around(p) == nullptr) return;
  const void* start = nullptr;
  const std::size_t bytes = __nvm_object_around(p, &start);
  if (bytes == 0) {
    if (api::doom_lost(nvm::errc::io)) return;
    api::report(nvm::fail(nvm::errc::bad_pointer, "it is not inside an object"));
    api::cannot_keep(nvm::errc::bad_pointer, p, 1);
  }
  __nvm_log(start, bytes);
}

int __nvm_tx_covers(const void* p, size_t n) {
  if (!nvm_is_durable(p)) return NVM_COVER_NO_POOL;
  const api::entry* e = api::thread_transactions::mine().around(p);
  if (e == nullptr) return nvm::find_pool(p) == nullptr ? NVM_COVER_NO_POOL : NVM_COVER_NO_TRANSACTION;
  const auto range = api::range_in(*e, p, n);
  return range && e->transaction->covers(*range) ? NVM_COVER_FULL : NVM_COVER_MISSING;
}

uint64_t __nvm_tx_ended(void) { return api::thread_transactions::mine().ended(); }

int __nvm_tx_turn(const void* p, nvm_turn* turn) {
  const api::entry* e = api::thread_transactions::mine().around(p);
  if (e == nullptr) return 0;
  const unsigned lane = e->transaction->lane();
  *turn = {e->pool->engine->turns_of(lane), e->pool->number, lane, api::levels_aborted_on(*e->pool, lane)};
  return 1;
}

int __nvm_tx_goes_on(const void* p, const nvm_turn* turn) {
  const api::entry* e = api::thread_transactions::mine().around(p);
  return e != nullptr && e->pool->number == turn->pool && e->pool->engine->turns_of(turn->lane) == turn->number &&
                 api::levels_aborted_on(*e->pool, turn->lane) == turn->levels_aborted
             ? 1
             : 0;
}

size_t __nvm_object_around(const void* p, const void** start) {
  NVM_POOL* pool = nvm_pool_of(p);
  const nvm::platform::in_call here;
  if (pool == nullptr || !pool->file->usable()) return 0;
  const auto facts =
      pool->engine->find_around(reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(pool->base()));
  if (!facts || !api::intact(pool)) return 0;
  *start = pool->base() + facts->payload;
  return facts->bytes;
}

size_t __nvm_room(const void* p, size_t n) {
  if (n == 0 || !nvm_is_durable(p)) return n;
  const api::entry* e = api::thread_transactions::mine().around(p);
  if (e == nullptr) return n;  // nothing is logged
  const auto at = reinterpret_cast<std::uintptr_t>(p);
  const void* start = nullptr;
  if (const std::size_t bytes = __nvm_object_around(p, &start); bytes != 0)
    return std::min(n, reinterpret_cast<std::uintptr_t>(start) + bytes - at);
  // The address is in no object, as inside of a key-value store: the end of the pool is a bound.
  const std::uint64_t end = e->base + e->pool->file->geometry().objects_end();
  return at < end ? std::min(n, end - at) : n;
}

void __nvm_jump_mark(nvm_jump_mark* mark) {
  const auto& open = api::thread_transactions::mine().open();
  mark->count = open.size();
  for (std::size_t k = 0; k < std::min(open.size(), std::size(mark->open)); ++k)
    mark->open[k] = {open[k].pool, open[k].transaction->depth()};
}

int __nvm_jump_back(const nvm_jump_mark* mark) {
  const nvm::platform::in_call here;
  api::thread_transactions& mine = api::thread_transactions::mine();
  if (mark->count > std::size(mark->open)) {
    return api::report(nvm::fail(nvm::errc::invalid,
                                 "setjmp was called with transactions of %lu pools open, at most %zu", mark->count,
                                 std::size(mark->open)));
  }
  const auto depth_then = [&](const nvm_pool* pool) -> std::uint64_t {
    for (std::uint64_t k = 0; k < mark->count; ++k) {
      if (mark->open[k].pool == pool) return mark->open[k].depth;
    }
    return 0;
  };
  for (std::uint64_t k = 0; k < mark->count; ++k) {
    const api::entry* e = mine.in(mark->open[k].pool);
    const std::uint64_t depth = e == nullptr ? 0 : e->transaction->depth();
    if (depth < mark->open[k].depth) {
      return api::report(nvm::fail(nvm::errc::no_transaction,
                                   "longjmp goes back into a transaction that has ended: %lu levels were open, now %lu",
                                   mark->open[k].depth, depth));
    }
  }
  // Latest first, as the program would have ended them.
  for (std::size_t k = mine.open().size(); k-- > 0;) {
    if (k >= mine.open().size()) continue;  // hooks of the last one ended more
    const api::entry e = mine.open()[k];
    const std::uint64_t then = depth_then(e.pool);
    if (then == 0) {
      api::abort_all_levels(e);
    } else {
      while (e.transaction->depth() > then) api::abort_one_level(e);
    }
  }
  (void)api::end_left_runs(mark);
  mine.runs().forget_left(reinterpret_cast<const char*>(mark));
  return 0;
}

}  // extern "C"
