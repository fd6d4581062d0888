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
#include "nvm/nvm.h"
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

void run_hooks(nvm_pool* pool, std::vector<tx::hook>& hooks, bool committed) noexcept {
  for (const tx::hook& h : hooks) {
    const int happened = committed && !h.aborted ? NVM_TX_ON_COMMIT : NVM_TX_ON_ABORT;
    if (h.event != happened) continue;
    reinterpret_cast<nvm_tx_hook>(h.call)(pool, static_cast<nvm_tx_event>(h.event), h.argument);
  }
}

// The pool is this process's and open for change.
status changeable(const nvm_pool* pool) noexcept {
  if (pool == nullptr) return fail(errc::invalid, "the pool is NULL");
  if (status s = pool->file->usable(); !s) return s;
  if (pool->file->read_only()) return fail(errc::read_only, "%s is open read-only", pool->file->path());
  return {};
}

result<entry*> open_in(const nvm_pool* pool) noexcept {
  if (pool == nullptr) return fail(errc::invalid, "the pool is NULL");
  if (status s = pool->file->usable(); !s) return s.error();
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

// The transaction is over: the thread forgets it, its hooks run.
void leave(const entry& e, std::vector<tx::hook>& hooks, bool committed) noexcept {
  thread_transactions::mine().remove(e.pool);
  run_hooks(e.pool, hooks, committed);
}

result<lsn_t> commit(nvm_pool* pool, bool& ended) noexcept {
  ended = false;
  auto found = open_in(pool);
  if (!found) return found.error();
  const entry e = **found;
  if (e.transaction->depth() > 1) {
    if (status s = e.transaction->commit_level(); !s) return s.error();
    return lsn_t{0};
  }
  ended = true;
  std::vector<tx::hook> hooks;
  result<lsn_t> lsn = e.transaction->commit(hooks);
  leave(e, hooks, lsn.has_value());
  return lsn;
}

[[noreturn]] void cannot_go_on(const char* what) noexcept {
  std::fprintf(stderr, "holdfast: an atomic block cannot be %s: %s\n", what, nvm_errormsg());
  std::abort();
}

}  // namespace

// Of a program that is checked: a range ends where the object does in which it begins.
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
  thread_transactions& mine = thread_transactions::mine();
  log::byte_range few[8];
  log::byte_range* list = few;
  if (count > std::size(few)) list = mine.room_for(count);
  entry* target = nullptr;
  std::size_t n = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const nvm_range& r = ranges[i];
    if (r.n == 0 || !nvm_is_durable(r.p)) continue;
    // Its old bytes are read for the log, then it is written: the miss, if it is one, begins here.
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
    if (e->pool->checked && what == outside_of_transactions::refused) [[unlikely]] {
      if (status s = check_end(r); !s) return s;
    }
    if (target != nullptr && e != target) {
      if (status s = target->transaction->announce(list, n); !s) return s;
      n = 0;
    }
    target = e;
    list[n++] = {offset, r.n};
  }
  return n == 0 ? status{} : target->transaction->announce(list, n);
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for %zu ranges", count);
}

status not_in_announced() noexcept {
  const auto& open = thread_transactions::mine().open();
  if (open.empty()) return {};
  const errc code = fail(errc::tx_open,
                         "this thread has a transaction of announced stores open in %s, which is rolled back now: "
                         "inside it use nvm_tx_log(), nvm_alloc() and their kin; barrier transactions and key-value "
                         "stores before or after it",
                         open.back().pool->file->path());
  for (const entry& e : open) {
    if (!e.pool->file->forked()) e.transaction->doom(code);
  }
  return code;
}

void abort_one_level(const entry& e) noexcept {
  std::vector<tx::hook> hooks;
  e.transaction->abort_level(hooks);
  run_hooks(e.pool, hooks, false);
}

result<open_transaction*> begin_on_lane(nvm_pool* pool, unsigned& lane, bool& parked) noexcept {
  auto t = pool->engine->begin(lane, parked);
  if (!t) return t;
  isa::compiler_fence();
  // relaxed: ordered by the barrier in all threads.
  if (!pool->ending.load(std::memory_order_relaxed)) [[likely]]
    return t;
  std::vector<tx::hook> none;
  (*t)->abort(none);
  return fail(errc::invalid, "pool %s was closed: the process ends", pool->file->path());
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
  leave(e, hooks, false);
}

}  // namespace nvm::api

using nvm::errc;
using nvm::fail;
namespace api = nvm::api;

extern "C" {

int nvm_tx_begin(NVM_POOL* pool) {
  if (nvm::status s = api::changeable(pool); !s) return api::report(s.error());
  api::thread_transactions& mine = api::thread_transactions::mine();
  if (api::entry* e = mine.in(pool); e != nullptr) return api::answer(e->transaction->begin());
  // Else a thread that does nothing but transactions could not be cancelled.
  if (mine.open().empty()) nvm::platform::may_be_cancelled();
  if (nvm::status s = api::not_in_barriers("nvm_tx_begin()", "a level by nvm_stm_run() or nvm::atomic()"); !s) {
    return api::report(s.error());
  }
  if (nvm::status s = api::bring_types(pool); !s) return api::report(s.error());
  return api::answer(api::begin_transaction(pool, mine));
}

int nvm_tx_commit(NVM_POOL* pool) {
  bool ended = false;
  auto lsn = api::commit(pool, ended);
  if (!lsn) return api::report(lsn.error());
  if (!ended || *lsn == 0) return 0;
  return api::answer(pool->engine->wait(*lsn));
}

int nvm_tx_commit_async(NVM_POOL* pool, uint64_t* lsn) {
  bool ended = false;
  auto ordered = api::commit(pool, ended);
  if (!ordered) return api::report(ordered.error());
  if (lsn != nullptr) *lsn = *ordered;
  return 0;
}

int nvm_wait(NVM_POOL* pool, uint64_t lsn) {
  if (pool == nullptr) return api::report(fail(errc::invalid, "the pool is NULL"));
  if (nvm::status s = pool->file->usable(); !s) return api::report(s.error());
  return api::answer(pool->engine->wait(lsn));
}

int nvm_tx_abort(NVM_POOL* pool) {
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
  if (nvm_tx_commit(block->pool) != 0 && nvm_errno() != NVM_E_MUST_ABORT) api::cannot_go_on("committed");
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
  if (e != nullptr && e->pool->file->usable()) {
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
  if (hook == nullptr || (event != NVM_TX_ON_COMMIT && event != NVM_TX_ON_ABORT)) {
    return api::report(fail(errc::invalid, "a hook needs a function and an event, found event %d", event));
  }
  auto found = api::open_in(pool);
  if (!found) return api::report(found.error());
  // Called with its own type again by run_hooks().
  return api::answer((*found)->transaction->on(event, reinterpret_cast<void (*)()>(hook), argument));
}

}  // extern "C"
