// Transactions of the C interface: which transaction of this thread a call means, and its translation into offsets.
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <new>
#include <vector>

#include "api/misuse.hpp"
#include "api/pool_object.hpp"
#include "nvm/compiled.h"
#include "nvm/malloc.h"
#include "nvm/nvm.h"
#include "nvm/stm.h"
#include "sync/sync.hpp"

namespace nvm::api {

thread_local constinit thread_transactions* thread_transactions::known_ = nullptr;

constinit thread_transactions thread_transactions::of_no_thread;

thread_transactions& thread_transactions::make_mine() noexcept {
  struct owner {
    std::unique_ptr<thread_transactions> state;
    // Destructors that run later still ask for the thread's transactions.
    ~owner() {
      state.reset();
      known_ = &of_no_thread;
    }
  };
  thread_local owner mine;
  if (mine.state == nullptr) mine.state.reset(new (std::nothrow) thread_transactions);
  if (mine.state == nullptr) return of_no_thread;
  return *(known_ = mine.state.get());
}

thread_transactions::~thread_transactions() { end_all(); }

status thread_transactions::takes_transactions() const noexcept {
  if (this != &of_no_thread) return {};
  if (known_ == this) return fail(errc::no_lane, "the thread is ending: it begins no transaction any more");
  return fail(errc::no_memory, "no volatile memory for the transactions of a thread");
}

log::byte_range* thread_transactions::room_for(std::size_t count) {
  if (this == &of_no_thread) throw std::bad_alloc{};
  ranges_.resize(count);
  return ranges_.data();
}

void thread_transactions::end_all() noexcept {
  const platform::in_call here;
  while (!open_.empty()) {
    const entry e = open_.back();
    open_.pop_back();
    // A forked child's memory of the parent's transaction is not the child's to end.
    if (!e.pool->file->forked()) abort_all_levels(e);
  }
  for (const known_lane& l : lanes_) {
    if (!l.owner->of_this_process()) continue;
    const std::lock_guard guard{l.owner->lock};
    if (l.parked && l.owner->lanes != nullptr) l.owner->lanes->give_back(l.lane);
  }
}

entry* thread_transactions::in(const nvm_pool* pool) noexcept {
  for (entry& e : open_) {
    if (e.pool == pool) return &e;
  }
  return nullptr;
}

entry* thread_transactions::around(const void* p) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  for (entry& e : open_) {
    if (address - e.base < e.capacity) return &e;
  }
  return nullptr;
}

void thread_transactions::remove(const nvm_pool* pool) noexcept {
  if (this == &of_no_thread) return;
  std::erase_if(open_, [&](const entry& e) { return e.pool == pool; });
  ++ended_;
}

thread_transactions::known_lane& thread_transactions::lane_in(const nvm_pool* pool) {
  if (this == &of_no_thread) throw std::bad_alloc{};
  for (known_lane& l : lanes_) {
    if (l.pool == pool->number) return l;
  }
  return first_lane_in(pool);
}

thread_transactions::known_lane& thread_transactions::first_lane_in(const nvm_pool* pool) {
  std::erase_if(lanes_, [](const known_lane& l) {
    if (!l.owner->of_this_process()) return true;
    const std::lock_guard guard{l.owner->lock};
    return l.owner->lanes == nullptr;
  });
  lanes_.push_back({pool->number, static_cast<unsigned>(thread_token()), false, pool->lanes});
  return lanes_.back();
}

namespace {

// Checks that the pool is this process's, and open for change.
status changeable(const nvm_pool* pool) noexcept {
  if (pool == nullptr) return fail(errc::invalid, "the pool is NULL");
  if (status s = pool->file->usable(); !s) return s;
  if (pool->file->read_only()) return fail(errc::read_only, "%s is open read-only", pool->file->path());
  return {};
}

// A transaction of a pool that has failed is ended like any other.
result<entry*> open_in(const nvm_pool* pool) noexcept {
  if (pool == nullptr) return fail(errc::invalid, "the pool is NULL");
  if (status s = pool->file->ours(); !s) return s.error();
  entry* e = thread_transactions::mine().in(pool);
  if (e == nullptr) {
    if (status s = not_in_barriers("a call of nvm_tx_begin()'s kind", "nvm_stm_cancel(), nvm_stm_on() and their kin");
        !s) {
      return s.error();
    }
    return fail(errc::no_transaction, "%s: this thread has no transaction open", pool->file->path());
  }
  return e;
}

// Runs hooks of inner levels that were rolled back without memory to run them.
void run_hooks_of_aborted_levels(nvm_pool* pool, std::span<const tx::hook> hooks) noexcept {
  for (const tx::hook& h : hooks) {
    if (h.aborted) run_hooks(pool, {&h, 1}, NVM_TX_ON_ABORT);
  }
}

// A commit from the request until its caller has been told what became of it.
struct ending {
  bool outermost = false;
  lsn_t lsn = 0;  // 0: durable, or nothing was changed
  std::vector<tx::hook> hooks;
};

// 0, and ORDERED hooks have run; -1, and everything was rolled back and ABORT hooks have run.
int order(nvm_pool* pool, ending& end) noexcept {
  auto found = open_in(pool);
  if (!found) return report(found.error());
  const entry e = **found;
  if (e.transaction->depth() > 1) {
    const status level = e.transaction->commit_level();
    return answer(if_intact(pool, level));
  }
  end.outermost = true;
  std::vector<late_frees::object> freed;
  if (pool->late.any()) [[unlikely]]
    freed = take_late_frees(e);
  const result<lsn_t> lsn = e.transaction->commit(end.hooks);
  thread_transactions::mine().remove(pool);
  if (!lsn) {
    if (!freed.empty()) pool->late.put_back(std::move(freed));
    const reported failure{if_intact(pool, lsn.error()).error()};
    run_hooks(pool, end.hooks, NVM_TX_ON_ABORT);
    return failure.again();
  }
  end.lsn = *lsn;
  if (!end.hooks.empty()) {
    run_hooks_of_aborted_levels(pool, end.hooks);
    run_hooks(pool, end.hooks, NVM_TX_ON_ORDERED);
  }
  return 0;
}

// Waits, and tells the hooks and the caller.
int conclude(nvm_pool* pool, const ending& end) noexcept {
  status s = wait_for_commit(pool, end.lsn);
  if (s) s = change_is_intact(pool);
  if (!s) [[unlikely]] {
    const reported failure{s.error()};
    run_waiting_hooks(pool, is_failure_of_medium(s));
    run_hooks(pool, end.hooks, NVM_TX_ON_IN_DOUBT);
    return failure.again();
  }
  if (pool->waiting.any()) [[unlikely]]
    run_waiting_hooks(pool, false);
  if (!end.hooks.empty()) run_hooks(pool, end.hooks, NVM_TX_ON_COMMIT);
  return 0;
}

// Keeps the hooks of a commit until a thread learns what became of it; runs them now if that is known.
void conclude_later(nvm_pool* pool, ending& end) noexcept {
  if (!end.hooks.empty()) {
    if (pool->engine->is_durable(end.lsn)) {
      (void)conclude(pool, end);
      return;
    }
    try {
      pool->waiting.add(end.lsn, end.hooks);
    } catch (const std::bad_alloc&) {
      (void)conclude(pool, end);
      return;
    }
  }
  if (pool->waiting.any()) [[unlikely]]
    run_waiting_hooks(pool, false);
}

// Leaves the innermost nvm_tx_run(), unless the outcome of a commit is in doubt; else the process ends.
[[noreturn]] void cannot_go_on(const char* what) noexcept {
  const errc code = reported_code();
  if (code != errc::in_doubt) {
    thread_transactions::mine().runs().fail_innermost(code, static_cast<const char*>(__builtin_frame_address(0)));
  }
  std::fprintf(stderr, "holdfast: an atomic block cannot be %s: %s\n", what, nvm_errormsg());
  std::abort();
}

}  // namespace

// Check of a checked program: a range may not end after the object in which it begins.
status check_end(const nvm_range& r) noexcept {
  const void* start = nullptr;
  const std::size_t bytes = __nvm_object_around(r.p, &start);
  if (bytes == 0) return {};  // not known
  const auto before = static_cast<std::size_t>(static_cast<const char*>(r.p) - static_cast<const char*>(start));
  if (r.n <= bytes - before) return {};
  return fail(errc::bad_pointer, "a log of %zu bytes at %p: the object there, at %p, has %zu bytes", r.n, r.p, start,
              bytes);
}

status announce(const nvm_range* ranges, std::size_t count, outside_of_transactions what) noexcept try {
  const platform::in_call here;
  thread_transactions& mine = thread_transactions::mine();
  log::byte_range few[8];
  log::byte_range* list = few;
  if (count > std::size(few)) list = mine.room_for(count);
  entry* target = nullptr;
  std::size_t n = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const nvm_range& r = ranges[i];
    if (r.n == 0 || !nvm_is_durable(r.p)) continue;
    // The old bytes are read for the log, then the line is written: the cache miss begins here.
    __builtin_prefetch(r.p, 1);
    entry* e = mine.around(r.p);
    if (e == nullptr && what == outside_of_transactions::left_out) continue;
    if (e == nullptr) {
      if (status s = not_in_barriers("nvm_tx_log()", "stores by nvm_stm_store64() and its kin, or tx.store()"); !s) {
        return s;
      }
      const pool_file* other = find_pool(r.p);
      if (other == nullptr) return fail(errc::bad_pointer, "%p is inside no open pool", r.p);
      return fail(errc::no_transaction, "%p lies in %s, where this thread has no transaction open", r.p, other->path());
    }
    if (status s = e->pool->file->usable(); !s) return s;
    const std::uint64_t offset = reinterpret_cast<std::uintptr_t>(r.p) - e->base;
    if (!e->pool->file->geometry().in_objects(offset, r.n)) {
      return fail(errc::bad_pointer, "[%p, +%zu) is not inside the data of %s", r.p, r.n, e->pool->file->path());
    }
    if (status s = admits_change(*e->pool, offset, r.n); !s) [[unlikely]]
      return s;
    if (e->pool->checked && what == outside_of_transactions::refused) [[unlikely]] {
      if (status s = check_end(r); !s) return s;
    }
    if (target != nullptr && e != target) {
      if (status s = if_intact(target->pool, target->transaction->announce(list, n)); !s) return s;
      n = 0;
    }
    target = e;
    list[n++] = {offset, r.n};
  }
  return n == 0 ? status{} : if_intact(target->pool, target->transaction->announce(list, n));
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for %zu ranges", count);
}

void run_hooks(nvm_pool* pool, std::span<const tx::hook> hooks, nvm_tx_event event) noexcept {
  for (const tx::hook& h : hooks) {
    if (h.event != event || (h.aborted && event != NVM_TX_ON_ABORT)) continue;
    const platform::out_of_call theirs;
    reinterpret_cast<nvm_tx_hook>(h.call)(pool, event, h.argument);
  }
}

void run_waiting_hooks(nvm_pool* pool, bool failed) noexcept {
  const auto busy = [pool] { return thread_transactions::mine().in(pool) != nullptr || in_barrier_transaction(); };
  waiting_hooks::commit over;
  while (pool->waiting.any() && !busy() &&
         pool->waiting.take(over, [=](lsn_t lsn) { return failed || pool->engine->is_durable(lsn); })) {
    // As conclude() does for the caller of that commit.
    const bool durable = wait_for_commit(pool, over.lsn) && change_is_intact(pool);
    run_hooks(pool, over.hooks, durable ? NVM_TX_ON_COMMIT : NVM_TX_ON_IN_DOUBT);
  }
}

status wait_for_commit(nvm_pool* pool, lsn_t lsn) noexcept {
  if (lsn == 0) return {};
  const status s = pool->engine->wait(lsn);
  // The pool has failed since; this commit was durable before.
  if (s.error() == errc::io && pool->engine->is_durable(lsn)) return {};
  return s;
}

status not_in_announced() noexcept {
  const auto& open = thread_transactions::mine().open();
  if (open.empty()) return {};
  const errc code = fail(errc::tx_open,
                         "this thread has a transaction of announced stores open in %s, which is rolled back now: "
                         "inside it use nvm_tx_log(), nvm_alloc() and their kin; barrier transactions, key-value "
                         "stores, and the making and dropping of lock-free structures before or after it",
                         open.back().pool->file->path());
  for (const entry& e : open) {
    if (!e.pool->file->forked()) e.transaction->doom(code);
  }
  return code;
}
status not_in_transaction(const NVM_POOL* pool, const char* call) noexcept {
  if (nvm_stm* tx = nvm_stm_current(); tx != nullptr && nvm_stm_pool(tx) == pool) {
    return not_in_barriers(call, "it before the transaction or after it");
  }
  return thread_transactions::mine().in(pool) != nullptr ? not_in_announced() : status{};
}

status admit_alignment(nvm_pool* pool) noexcept {
  if (pool->file->has_feature(layout::feature_aligned)) [[likely]]
    return {};
  return pool->engine->add_feature(layout::feature_aligned);
}

status intact_slowly(const nvm_pool* pool) noexcept {
  if (pool != nullptr && pool->file->lost()) return pool->file->intact();
  return platform::call_was_struck() ? status{platform::fail_struck()} : status{};
}

status change_is_intact_slowly(const nvm_pool* pool) noexcept {
  const status s = intact_slowly(pool);
  if (s) return s;
  return fail(errc::in_doubt, "in doubt, the next open finds it or not: %s", last_message());
}

errc closed_bytes(const nvm_pool& pool, const void* p, std::size_t n) noexcept {
  return fail(errc::bad_pointer, "[%p, +%zu) is in an object store of %s that is not attached", p, n,
              pool.file->path());
}
status accessible_slowly(const void* p, std::size_t n) noexcept {
  nvm_pool* const pool = nvm_pool_of(p);
  return pool == nullptr || n == 0 ? status{} : accessible(*pool, p, n);
}
status readable_slowly(const void* p, std::size_t n) noexcept {
  const pool_file* const file = find_pool(p);
  if (file == nullptr || n == 0) return {};
  if (status s = accessible_slowly(p, n); !s) return s;
  const auto* const first = static_cast<const std::byte*>(p);
  for (std::size_t at = 0; at < n; at += platform::page_bytes()) {
    (void)*const_cast<const volatile std::byte*>(first + at);
  }
  (void)*const_cast<const volatile std::byte*>(first + n - 1);
  return file->intact();
}

void abort_one_level(const entry& e) noexcept {
  std::vector<tx::hook> hooks;
  // Before what it has allocated is another's.  relaxed: only compared.
  auto& counts = e.pool->levels_aborted;
  counts[e.transaction->lane() % std::size(counts)].fetch_add(1, std::memory_order_relaxed);
  e.transaction->abort_level(hooks);
  run_hooks(e.pool, hooks, NVM_TX_ON_ABORT);
}

result<open_transaction*> begin_on_lane(nvm_pool* pool, unsigned& lane, bool& parked) noexcept {
  for (;;) {
    auto t = pool->engine->begin(lane, parked);
    if (!t) return t;
    isa::compiler_fence();
    // relaxed: ordered by the barrier in all threads.
    const bool ends = pool->ending.load(std::memory_order_relaxed);
    // acquire: pairs with the release in resume(): what was done in the pause is seen.
    const bool waits = pool->paused.load(std::memory_order_acquire);
    if (!ends && !waits) [[likely]]
      return t;
    std::vector<tx::hook> none;
    (*t)->abort(none);
    if (ends) return fail(errc::invalid, "pool %s was closed: the process ends", pool->file->path());
    const std::lock_guard until_it_ends{pool->pausing};
  }
}

status begin_transaction(nvm_pool* pool, thread_transactions& mine) noexcept {
  if (status s = mine.takes_transactions(); !s) return s;
  open_transaction* begun = nullptr;
  try {
    auto& lane = mine.lane_in(pool);
    auto t = begin_on_lane(pool, lane.lane, lane.parked);
    if (!t) return t.error();
    begun = *t;
    mine.add({pool, begun, reinterpret_cast<std::uintptr_t>(pool->base()), pool->file->geometry().address_bytes()});
  } catch (const std::bad_alloc&) {
    std::vector<tx::hook> none;
    if (begun != nullptr) begun->abort(none);
    return fail(errc::no_memory, "no volatile memory for a transaction");
  }
  return {};
}

void abort_all_levels(const entry& e) noexcept {
  std::vector<tx::hook> hooks;
  e.transaction->abort(hooks);
  thread_transactions::mine().remove(e.pool);
  run_hooks(e.pool, hooks, NVM_TX_ON_ABORT);
}

}  // namespace nvm::api

using nvm::errc;
using nvm::fail;
namespace api = nvm::api;

extern "C" {

int nvm_tx_begin(NVM_POOL* pool) {
  if (nvm::status s = api::changeable(pool); !s) return api::report(s.error());
  api::thread_transactions& mine = api::thread_transactions::mine();
  // Otherwise a thread that runs only transactions could never be cancelled.
  if (mine.open().empty()) nvm::platform::may_be_cancelled();
  const nvm::platform::in_call here;
  if (api::entry* e = mine.in(pool); e != nullptr) return api::answer(e->transaction->begin());
  if (nvm::status s = api::not_in_barriers("nvm_tx_begin()", "a level by nvm_stm_run() or nvm::atomic()"); !s) {
    return api::report(s.error());
  }
  if (nvm::status s = api::bring_types(pool); !s) return api::report(s.error());
  return api::answer(api::if_intact(pool, api::begin_transaction(pool, mine)));
}

static int commit_and_wait(NVM_POOL* pool) {
  const nvm::platform::in_call here;
  api::ending end;
  if (api::order(pool, end) != 0) return -1;
  return end.outermost ? api::conclude(pool, end) : 0;
}
int nvm_tx_commit(NVM_POOL* pool) {
  const int committed = commit_and_wait(pool);
  if (committed == 0 && pool->checked && pool->references != nullptr) [[unlikely]]
    api::tell_wrong_frees(pool);
  return committed;
}

static int commit_and_go_on(NVM_POOL* pool, uint64_t* lsn) {
  if (lsn != nullptr) *lsn = NVM_LSN_NONE;
  const nvm::platform::in_call here;
  api::ending end;
  if (api::order(pool, end) != 0) return -1;
  // Set before hooks can run that wait for it.
  if (lsn != nullptr) *lsn = end.lsn;
  if (!end.outermost) return 0;
  if (const nvm::status s = api::change_is_intact(pool); !s) return api::conclude(pool, end);
  api::conclude_later(pool, end);
  return 0;
}
int nvm_tx_commit_async(NVM_POOL* pool, uint64_t* lsn) {
  const int committed = commit_and_go_on(pool, lsn);
  if (committed == 0 && pool->checked && pool->references != nullptr) [[unlikely]]
    api::tell_wrong_frees(pool);
  return committed;
}

// Called before a turn of a program that always has a transaction open: whether there is one to commit.
static nvm::result<bool> turn_is_open(const NVM_POOL* pool) {
  const unsigned depth = pool == nullptr ? 0 : nvm_tx_depth(const_cast<NVM_POOL*>(pool));
  if (depth <= 1) return depth == 1;
  return fail(errc::tx_open, "%s: the transaction has %u levels open: a turn ends at the outermost one",
              pool->file->path(), depth);
}
int nvm_tx_next(NVM_POOL* pool) {
  const auto open = turn_is_open(pool);
  if (!open) return api::report(open.error());
  if (*open && nvm_tx_commit(pool) != 0) return -1;
  return nvm_tx_begin(pool);
}
int nvm_tx_get_room(NVM_POOL* pool, nvm_tx_room* room) {
  if (room == nullptr) return api::report(fail(errc::invalid, "there is no place for the answer"));
  auto found = api::open_in(pool);
  if (!found) return api::report(found.error());
  const nvm::tx::log_room now = (*found)->transaction->room();
  *room = {now.used, now.most};
  return 0;
}

int nvm_tx_next_async(NVM_POOL* pool, uint64_t* lsn) {
  if (lsn != nullptr) *lsn = 0;
  const auto open = turn_is_open(pool);
  if (!open) return api::report(open.error());
  if (*open && nvm_tx_commit_async(pool, lsn) != 0) return -1;
  return nvm_tx_begin(pool);
}

int nvm_wait(NVM_POOL* pool, uint64_t lsn) {
  if (pool == nullptr) return api::report(fail(errc::invalid, "the pool is NULL"));
  const nvm::platform::in_call here;
  if (nvm::status s = pool->file->ours(); !s) return api::report(s.error());
  if (lsn == NVM_LSN_NONE) return api::report(fail(errc::invalid, "the LSN is that of a commit that failed"));
  // LSN 0 needs no wait, but a failed pool answers with its failure.
  nvm::status s = lsn == 0 ? pool->engine->wait(0) : api::wait_for_commit(pool, lsn);
  // A commit that is in the log stays there, whatever becomes of the pool.
  if (s && lsn == 0) s = api::intact(pool);
  if (s && !pool->waiting.any()) return 0;
  if (s) {
    api::run_waiting_hooks(pool, false);
    return 0;
  }
  const api::reported failure{s.error()};
  api::run_waiting_hooks(pool, api::is_failure_of_medium(s));
  return failure.again();
}

int nvm_tx_cause(NVM_POOL* pool) {
  if (const auto failure = api::barrier_failure(pool)) return static_cast<int>(*failure);
  if (const api::entry* e = pool == nullptr ? nullptr : api::thread_transactions::mine().in(pool); e != nullptr) {
    return static_cast<int>(e->transaction->failure());
  }
  return static_cast<int>(nvm::reported_cause());
}

int nvm_tx_abort(NVM_POOL* pool) {
  const nvm::platform::in_call here;
  auto found = api::open_in(pool);
  if (!found) return api::report(found.error());
  const api::entry e = **found;
  if (e.transaction->depth() > 1) {
    api::abort_one_level(e);
  } else {
    api::abort_all_levels(e);
  }
  return 0;
}

unsigned nvm_tx_depth(NVM_POOL* pool) {
  const api::entry* e = api::thread_transactions::mine().in(pool);
  return e == nullptr ? 0 : e->transaction->depth();
}

nvm_atomic_block nvm_atomic_begin(NVM_POOL* pool) {
  if (nvm_tx_begin(pool) != 0) api::cannot_go_on("begun");
  return {pool, nvm_tx_depth(pool)};
}

void nvm_atomic_end(nvm_atomic_block* block) {
  if (nvm_tx_depth(block->pool) < block->depth) return;  // the block has aborted it itself
  if (nvm_tx_commit(block->pool) == 0 || nvm_errno() == NVM_E_MUST_ABORT) return;
  api::cannot_go_on(nvm_errno() == NVM_E_IN_DOUBT ? "made durable" : "committed");
}

int nvm_tx_log(const void* p, size_t n) {
  const nvm_range range{p, n};
  return api::answer(api::announce(&range, 1, api::outside_of_transactions::refused));
}

int nvm_tx_log_or_fail(const void* p, size_t n) {
  const nvm_range range{p, n};
  const nvm::status s = api::announce(&range, 1, api::outside_of_transactions::refused);
  if (s) return 0;
  api::report(s.error());
  const api::entry* e = api::thread_transactions::mine().around(p);
  if (e != nullptr && e->pool->file->ours()) {
    e->transaction->doom(s.error());
  } else {
    api::misused(s.error(), p, __builtin_return_address(0));
  }
  return -1;
}

int nvm_tx_log_many(const nvm_range* ranges, size_t count) {
  if (ranges == nullptr && count != 0) return api::report(fail(errc::invalid, "the list of ranges is NULL"));
  return api::answer(api::announce(ranges, count, api::outside_of_transactions::refused));
}

int nvm_tx_on(NVM_POOL* pool, enum nvm_tx_event event, nvm_tx_hook hook, void* argument) {
  if (hook == nullptr || !api::is_event(event)) {
    return api::report(fail(errc::invalid, "a hook needs a function and an event, found event %d", event));
  }
  auto found = api::open_in(pool);
  if (!found) return api::report(found.error());
  // Called with its own type again by run_hooks().
  return api::answer((*found)->transaction->on(event, reinterpret_cast<void (*)()>(hook), argument));
}

}  // extern "C"
