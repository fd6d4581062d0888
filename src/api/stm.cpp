// Barrier transactions of the C interface: levels with their restart functions, and the ways out of a body.
//
// A transaction that was rolled back is left level by level, each by its own restart function, since each level's frame
// may have to be left in its own way (longjmp, exception).  Until the outermost frame has begun the next attempt the
// transaction is dead: every call that its body still makes leaves the body again.
#include "nvm/stm.h"

#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "api/pool_object.hpp"
#include "api/stm_pieces.hpp"
#include "api/stm_runs.hpp"
#include "base/inlining.hpp"
#include "engine/store_side.hpp"
#include "platform/platform.hpp"
#include "stm/stm.hpp"

struct nvm_stm {
  explicit nvm_stm(nvm::isolation::participant& p) : who{p}, inner{p} { frames.reserve(8); }

  struct frame {
    nvm_stm_restart restart;
    void* argument;
    // For a level that a call of the library has begun: its frame returns to the inside of that call.
    unsigned char call_depth = 0;
  };
  nvm::isolation::participant& who;
  nvm::stm::transaction inner;
  NVM_POOL* pool = nullptr;
  std::vector<frame> frames;  // of each level; while the transaction is dead, those from before
  std::size_t to_leave = 0;   // dead: levels whose frame has not been told yet
  int why = 0;                // dead: enum nvm_stm_why
  int code = 0;
  nvm::api::open_runs runs{};
};

[[gnu::tls_model("initial-exec")]] __thread nvm_stm* nvm_stm_of_thread = nullptr;

namespace nvm::api {

using stm::verdict;

open_runs& runs_of(nvm_stm* of) noexcept { return of->runs; }

namespace {

// Holder of this thread's nvm_stm, also between transactions.
class holder {
 public:
  holder() noexcept {
    // Made before this object, and so destroyed after it: lanes are given back last.
    (void)thread_transactions::mine();
  }
  // Makes it, if there is memory now.
  [[nodiscard]] nvm_stm* made() noexcept {
    if (tx != nullptr) return tx.get();
    isolation::participant* who = isolation::participant::join_list();
    if (who == nullptr) return nullptr;
    try {
      tx = std::make_unique<nvm_stm>(*who);
    } catch (const std::bad_alloc&) {
      who->leave_list();
    }
    return tx.get();
  }
  ~holder();
  holder(const holder&) = delete;
  holder& operator=(const holder&) = delete;

  std::unique_ptr<nvm_stm> tx;
};

// The thread's transaction, null before it was made: a plain pointer is read without the check of a thread-local
// object.
[[gnu::tls_model("initial-exec")]] thread_local constinit nvm_stm* known = nullptr;

nvm_stm* of_thread() noexcept {
  if (known != nullptr) return known;
  thread_local holder state;
  return known = state.made();
}

[[gnu::noinline]] void run_abort_hooks(nvm_stm* tx, NVM_POOL* pool) {
  const std::vector<tx::hook> hooks = tx->inner.take_hooks();
  run_hooks(pool, hooks, NVM_TX_ON_ABORT);
}
// Runs the ABORT hooks of what was rolled back.  True: there were some.
inline bool tell_aborted(nvm_stm* tx, NVM_POOL* pool) {
  if (!tx->inner.has_hooks()) return false;
  run_abort_hooks(tx, pool);
  return true;
}

[[noreturn]] void leave_next_frame(nvm_stm* tx) {
  if (tx->to_leave > 0) --tx->to_leave;
  // A thread that calls again after the outermost frame was told has not left that frame yet.
  NVM_ASSERT(tx->to_leave < tx->frames.size());
  const nvm_stm::frame f = tx->frames[tx->to_leave];
  platform::go_back_to(f.call_depth);
  f.restart(tx, tx->why, f.argument);
  assertion_failed("a restart function does not return", __FILE__, __LINE__);
}

// Everything is rolled back; the body starts again.
[[noreturn, gnu::cold, gnu::noinline]] void start_again(nvm_stm* tx, stm::transaction::reason why) {
  if (tx->inner.depth() == 0) leave_next_frame(tx);
  {
    const platform::in_call here;
    tx->inner.roll_back(why);
  }
  tx->why = why == stm::transaction::reason::retry ? NVM_STM_RETRY : NVM_STM_CONFLICT;
  const auto series = tx->inner.interrupt_series();
  std::vector<nvm_stm::frame> frames;
  frames.swap(tx->frames);
  NVM_POOL* const pool = tx->pool;
  nvm_stm_of_thread = nullptr;
  const bool interrupted = tell_aborted(tx, pool);
  nvm_stm_of_thread = tx;
  tx->pool = pool;
  tx->frames.swap(frames);
  tx->inner.resume_series(series);
  if (why == stm::transaction::reason::retry && !interrupted) tx->inner.wait_for_change();
  tx->to_leave = tx->frames.size();
  tx->why = why == stm::transaction::reason::retry ? NVM_STM_RETRY : NVM_STM_CONFLICT;
  leave_next_frame(tx);
}

// Rolls the innermost level back.  The frame of an outermost level stays known, since its body may not have been left.
void take_back_level(nvm_stm* tx) {
  const platform::in_call here;
  NVM_POOL* const pool = tx->pool;
  if (tx->inner.depth() > 1) {
    tx->inner.roll_back_level();
    tx->frames.pop_back();
  } else {
    tx->inner.roll_back(stm::transaction::reason::left);
    tx->inner.end_series();
    nvm_stm_of_thread = nullptr;
  }
  tell_aborted(tx, pool);
}

// Rolls the innermost level back and leaves it.  `failure` is the failure that the program finds then.
[[noreturn, gnu::cold, gnu::noinline]] void leave_level(nvm_stm* tx, int why, int code, const reported& failure) {
  if (tx->inner.depth() == 0) leave_next_frame(tx);
  const nvm_stm::frame f = tx->frames.back();
  const bool outermost = tx->inner.depth() == 1;
  take_back_level(tx);
  tx->code = code;
  if (outermost) {
    tx->frames.assign(1, f);
    tx->to_leave = 0;
    tx->why = why;
  }
  failure.again();
  platform::go_back_to(f.call_depth);
  f.restart(tx, why, f.argument);
  assertion_failed("a restart function does not return", __FILE__, __LINE__);
}

[[noreturn, gnu::cold, gnu::noinline]] void give_way(nvm_stm* tx, verdict a) {
  if (a == verdict::conflict) start_again(tx, stm::transaction::reason::conflict);
  const errc code = tx->inner.failure();
  const reported failure{code};
  leave_level(tx, NVM_STM_FAILED, static_cast<int>(code), failure);
}

// What a barrier has read may be zeros in place of a page that is lost: the level is left.  A dead transaction has no
// failure of its own.
[[gnu::cold, gnu::noinline]] verdict if_intact_slowly(nvm_stm* tx, verdict a) noexcept {
  if (a == verdict::conflict || tx->inner.depth() == 0) return a;
  const status s = intact_slowly(tx->pool);
  return s ? a : tx->inner.doom_anew(s.error());
}
inline verdict if_intact(nvm_stm* tx, verdict a) noexcept {
  if (!platform::any_lost()) [[likely]]
    return a;
  return if_intact_slowly(tx, a);
}

// Calls f(transaction) -> verdict, and returns if that is `done`.
template <class F>
[[NVM_INLINE]] inline void go_on(nvm_stm* tx, F&& f) {
  verdict a = verdict::failed;
  try {
    const platform::in_call here;
    a = f(tx->inner);
    a = if_intact(tx, a);
  } catch (const std::bad_alloc&) {
    tx->inner.fails(fail(errc::no_memory, "no volatile memory for a transaction"));
  }
  if (a != verdict::done) [[unlikely]] {
    give_way(tx, a);
  }
}
// Runs a call that writes; in a dead transaction it leaves the body instead.
template <class F>
[[NVM_INLINE]] inline void change(nvm_stm* tx, F&& f) {
  if (tx->inner.depth() == 0) [[unlikely]] {
    leave_next_frame(tx);
  }
  go_on(tx, std::forward<F>(f));
}
// Runs a call that reports failure as -1.
template <class F>
int try_change(nvm_stm* tx, F&& f) {
  if (tx == nullptr) [[unlikely]] {
    if (status s = not_in_announced(); !s) return report(s.error());
    return report(fail(errc::no_transaction, "the barrier transaction is NULL: this thread has none open"));
  }
  if (tx->inner.depth() == 0) leave_next_frame(tx);
  verdict a = verdict::failed;
  try {
    const platform::in_call here;
    a = f(tx->inner);
    a = if_intact(tx, a);
  } catch (const std::bad_alloc&) {
    tx->inner.doom(fail(errc::no_memory, "no volatile memory for a transaction"));
  }
  if (a == verdict::conflict) start_again(tx, stm::transaction::reason::conflict);
  return a == verdict::done ? 0 : report(tx->inner.failure());
}

template <class T>
[[gnu::noinline]] T load_slowly(nvm_stm* tx, const T* p) {
  T value;
  go_on(tx, [&](stm::transaction& t) {
    return isolation::is_aligned(p) ? t.load(p, value) : t.read(&value, p, sizeof value);
  });
  return value;
}
// In both the quick way calls nothing.
template <class T>
[[NVM_INLINE]] inline T load(nvm_stm* tx, const T* p) {
  T value;
  bool loaded = false;
  {
    const platform::quick_access here;
    loaded = tx->inner.load_quickly(p, value);
  }
  // What was lost meanwhile is found by the slow way.
  if (loaded && !platform::any_lost()) [[likely]] {
    return value;
  }
  return load_slowly(tx, p);
}
template <class T>
[[gnu::noinline]] void store_slowly(nvm_stm* tx, T* p, T value) {
  change(tx, [&](stm::transaction& t) { return t.store(p, value); });
}
template <class T>
[[NVM_INLINE]] inline void store(nvm_stm* tx, T* p, T value) {
  if (tx->inner.store_quickly(p, value)) [[likely]] {
    return;
  }
  store_slowly(tx, p, value);
}

[[NVM_INLINE]] inline nvm_stm* has_begun(nvm_stm* tx, NVM_POOL* pool, nvm_stm_restart restart, void* argument,
                                         unsigned char depth) {
  if (tx->frames.size() == 1) [[likely]] {
    tx->frames.front() = {restart, argument, depth};
  } else {
    tx->frames.clear();
    tx->frames.push_back({restart, argument, depth});
  }
  tx->pool = pool;
  tx->why = 0;
  tx->runs.count = 0;
  return nvm_stm_of_thread = tx;
}

// The failure of a body that its program leaves with `code`: the failure that it has just met, or one of its own.
reported why_cancelled(nvm_stm* tx, int code) noexcept {
  if (tx->inner.doomed()) return reported{tx->inner.doomed().again()};
  if (code != NVM_OK && code == nvm_errno()) return reported{fail(static_cast<errc>(code), "%s", nvm_errormsg())};
  return reported{fail(errc::must_abort, "the body has cancelled its transaction, with code %d", code)};
}

// After the outermost commit: tells the hooks what became of it, and the caller.
int conclude(nvm_stm* tx, NVM_POOL* pool) {
  // Hooks may run transactions of their own.
  const stm::transaction::ended e = tx->inner.last();
  const std::vector<tx::hook> hooks = tx->inner.has_hooks() ? tx->inner.take_hooks() : std::vector<tx::hook>{};
  if (!hooks.empty()) run_hooks(pool, hooks, NVM_TX_ON_ORDERED);
  status s = tx->inner.finish_wait(e);
  if (s) s = e.changed ? change_is_intact(pool) : intact(pool);
  if (s) {
    if (pool != nullptr && pool->waiting.any()) [[unlikely]]
      run_waiting_hooks(pool, false);
    if (!hooks.empty()) run_hooks(pool, hooks, NVM_TX_ON_COMMIT);
    return 0;
  }
  const reported failure{s.error()};
  run_waiting_hooks(pool, is_failure_of_medium(s));
  run_hooks(pool, hooks, NVM_TX_ON_IN_DOUBT);
  return failure.again();
}

// A quick answer; false may be wrong.
bool may_surely_begin(NVM_POOL* pool) noexcept {
  const thread_transactions* mine = thread_transactions::known();
  return pool != nullptr && mine != nullptr && mine->open().empty() && !pool->file->forked() && !pool->file->closed() &&
         !pool->file->lost() && !pool->ending.load(std::memory_order_relaxed) && has_types(pool);
}
status may_begin(NVM_POOL* pool) noexcept {
  if (pool != nullptr) {
    if (status s = pool->file->usable(); !s) return s;
    if (pool->ending.load(std::memory_order_relaxed)) {
      return fail(errc::invalid, "pool %s was closed: the process ends", pool->file->path());
    }
  }
  if (status s = not_in_announced(); !s) return s;
  if (pool != nullptr) return bring_types(pool);
  return {};
}

}  // namespace

holder::~holder() {
  const platform::in_call here;
  known = nullptr;
  if (tx == nullptr) return;
  if (tx->inner.depth() != 0) {
    // A forked child's memory of the parent's transaction is not the child's to end.
    tx->frames.resize(tx->inner.depth());
    tx->inner.roll_back(stm::transaction::reason::left);
    tell_aborted(tx.get(), tx->pool);
  }
  nvm_stm_of_thread = nullptr;
  isolation::participant& who = tx->who;
  tx.reset();
  who.leave_list();
}

bool in_barrier_transaction() noexcept { return nvm_stm_of_thread != nullptr; }

status not_in_barriers(const char* call, const char* instead) noexcept {
  nvm_stm* tx = nvm_stm_of_thread;
  if (tx == nullptr) return {};
  const errc code = fail(errc::tx_open,
                         "%s inside a barrier transaction (nvm_stm_run(), nvm::atomic()), which is rolled back now: "
                         "use %s",
                         call, instead);
  if (tx->inner.depth() != 0) tx->inner.doom(code);
  return code;
}

std::optional<errc> barrier_failure(const nvm_pool* pool) noexcept {
  const nvm_stm* tx = nvm_stm_of_thread;
  if (tx == nullptr || tx->inner.depth() == 0 || (pool != nullptr && tx->pool != pool)) return std::nullopt;
  return tx->inner.doomed().code();
}

void abandon_barrier_transaction(const nvm_pool* pool) noexcept {
  nvm_stm* tx = nvm_stm_of_thread;
  if (tx == nullptr || tx->pool != pool || tx->inner.depth() == 0) return;
  const platform::in_call here;
  tx->inner.roll_back(stm::transaction::reason::left);
  nvm_stm_of_thread = nullptr;
  tell_aborted(tx, tx->pool);
}

void barrier_side::ready() noexcept {
  const geometry& g = pool_.file->geometry();
  lies_at(pool_.base(), g.address_bytes(), g.objects_offset(), g.home_bytes != 0 && pool_.engine->translates());
  // The engine of a read-only pool begins no transaction, so it cannot be asked for its policy.
  if (pool_.file->read_only()) engine_policy.store(stm::policy::write_through, std::memory_order_relaxed);
}

result<tx::open_transaction*> barrier_side::begin() noexcept try {
  // Refused only now: reads are allowed in a pool that is open read-only.
  if (pool_.file->read_only()) return fail(errc::read_only, "%s is open read-only", pool_.file->path());
  auto& lane = thread_transactions::mine().lane_in(&pool_);
  return begin_on_lane(&pool_, lane.lane, lane.parked);
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for a transaction");
}
result<stm::home_reader*> barrier_side::reader() noexcept try {
  auto& lane = thread_transactions::mine().lane_in(&pool_);
  return pool_.engine->reader(lane.lane, lane.parked);
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for a transaction");
}
std::uint64_t barrier_side::data_end() const noexcept { return pool_.file->geometry().objects_end(); }
stm::durable_side::two_words barrier_side::words_of(anchor_word which) const noexcept {
  const geometry& g = pool_.file->geometry();
  return {object_word_at(g, 0, which), object_word_at(g, 1, which)};
}
bool barrier_side::may_be_aligned(std::uint64_t place) const noexcept {
  if (!pool_.file->has_feature(layout::feature_stores)) return true;
  const auto side = pool_.engine->stores();
  return !side || (*side)->cluster_holding(place) == 0;
}
status barrier_side::admits_change(std::uint64_t place, std::uint64_t bytes) const noexcept {
  return api::admits_change(pool_, place, bytes);
}
bool barrier_side::takes_announced_stores() const noexcept {
  // The image of a pool on ssd is private to this process, so that it may be ahead of the log.
  // So are materialised home pages.
  return has_image(pool_.file->superblock()) || (pool_.file->geometry().home_bytes != 0 && !translates()) ||
         engine_policy.load(std::memory_order_relaxed) == stm::policy::write_through;
}
int set_anchor(nvm_stm* tx, anchor_word which, void* object) {
  return try_change(tx, [&](stm::transaction& t) { return t.set_anchor(which, object); });
}
void* anchor(nvm_stm* tx, anchor_word which) {
  void* found = nullptr;
  change(tx, [&](stm::transaction& t) { return t.anchor(which, found); });
  return found;
}

status barrier_side::wait(lsn_t lsn) noexcept { return wait_for_commit(&pool_, lsn); }
status barrier_side::wait_for_seen(lsn_t lsn) noexcept {
  status s = pool_.engine->wait(lsn);
  if (s.error() != errc::in_doubt) return s;
  return fail(errc::io, "what the transaction has read may be lost: %s", last_message());
}
status barrier_side::admit_alignment() noexcept { return api::admit_alignment(&pool_); }
void barrier_side::clear_new(std::uint32_t type, void* p, std::size_t bytes) noexcept {
  api::clear_new(pool_, type, p, bytes);
}
status barrier_side::let_go(tx::open_transaction& t, std::uint64_t payload) noexcept {
  return has_no_counts(pool_, payload) ? t.release(payload) : t.let_go(payload);
}

}  // namespace nvm::api

namespace api = nvm::api;
using nvm::errc;
using nvm::fail;
using nvm::stm::verdict;
using transaction = nvm::stm::transaction;

void* nvm::api::allocate_in(nvm_stm* tx, const nvm_pool* pool, const store_attachment& store, std::uint32_t type,
                            std::size_t bytes, errc why) {
  void* made = nullptr;
  const auto make = [&](stm::transaction& t) {
    if (store.store == nullptr) return t.doom(why);
    if (tx->pool == pool) return t.allocate_in(store, type, bytes, made);
    return t.doom(fail(errc::invalid, "the store is none of the barrier transaction's pool"));
  };
  return try_change(tx, make) == 0 ? made : nullptr;
}
void nvm::api::write_with_word(nvm_stm* tx, void* to, const void* from, std::size_t n, std::uint64_t last) {
  change(tx, [&](transaction& t) { return t.write_with_word(to, from, n, last); });
}

extern "C" {

nvm_stm* nvm_stm_current(void) { return nvm_stm_of_thread; }
unsigned nvm_stm_depth(const nvm_stm* tx) { return tx->inner.depth(); }
NVM_POOL* nvm_stm_pool(const nvm_stm* tx) { return tx->pool; }
int nvm_stm_code(const nvm_stm* tx) { return tx->code; }
int nvm_stm_is_irrevocable(const nvm_stm* tx) { return tx->inner.irrevocable() ? 1 : 0; }
int nvm_stm_is_in_place(const nvm_stm* tx) { return tx->inner.in_place() ? 1 : 0; }

namespace {
[[gnu::noinline]] nvm_stm* begin_carefully(nvm_stm* tx, NVM_POOL* pool, nvm_stm_restart restart, void* argument) {
  const unsigned char depth = nvm::platform::call_depth();
  const nvm::platform::in_call here;
  if (tx == nullptr) {
    return api::report_null<nvm_stm>(fail(errc::no_memory, "no volatile memory for this thread's transactions"));
  }
  verdict a = verdict::failed;
  try {
    if (tx->inner.depth() != 0) {
      if (pool != nullptr && tx->pool != nullptr && pool != tx->pool) {
        return api::report_null<nvm_stm>(fail(errc::invalid, "a transaction of %s cannot have a level in %s",
                                              tx->pool->file->path(), pool->file->path()));
      }
      if (pool != nullptr && tx->pool == nullptr) {
        if (nvm::status s = api::may_begin(pool); !s) return api::report_null<nvm_stm>(s.error());
      }
      tx->frames.push_back({restart, argument, depth});
      a = tx->inner.begin_level(pool == nullptr ? nullptr : &pool->barriers);
      if (a == verdict::done) {
        if (tx->pool == nullptr) tx->pool = pool;
        return tx;
      }
      tx->frames.pop_back();
    } else {
      if (nvm_stm_of_thread != nullptr) {
        // The outermost frame comes back; any other caller has not noticed that the transaction is dead.
        if (tx->to_leave != 0) api::leave_next_frame(tx);
        if (tx->why == NVM_STM_CONFLICT) tx->inner.wait_before_next_attempt();
      } else {
        if (nvm::status s = api::may_begin(pool); !s) return api::report_null<nvm_stm>(s.error());
        tx->inner.end_series();
      }
      tx->frames.reserve(1);  // what has begun must not fail
      a = tx->inner.begin(pool == nullptr ? nullptr : &pool->barriers);
      if (a == verdict::done) {
        return api::has_begun(tx, pool, restart, argument, depth);
      }
      nvm_stm_of_thread = nullptr;
    }
  } catch (const std::bad_alloc&) {
    tx->inner.fails(fail(errc::no_memory, "no volatile memory for a transaction"));
    if (tx->inner.depth() == 0) {
      nvm_stm_of_thread = nullptr;
    } else if (tx->frames.size() > tx->inner.depth()) {
      tx->frames.pop_back();
    }
  }
  return api::report_null<nvm_stm>(api::if_intact(pool, tx->inner.failure()).error());
}
}  // namespace

nvm_stm* nvm_stm_begin(NVM_POOL* pool, nvm_stm_restart restart, void* argument) {
  nvm_stm* tx = api::known;
  if (tx == nullptr) tx = api::of_thread();
  // The thread's first level of a first attempt, in a pool that it may use.
  if (tx == nullptr || tx->inner.depth() != 0 || nvm_stm_of_thread != nullptr || tx->frames.capacity() == 0 ||
      !api::may_surely_begin(pool)) {
    return begin_carefully(tx, pool, restart, argument);
  }
  tx->inner.end_series();
  if (tx->inner.begin(pool == nullptr ? nullptr : &pool->barriers) != verdict::done) {
    return api::report_null<nvm_stm>(api::if_intact(pool, tx->inner.failure()).error());
  }
  return api::has_begun(tx, pool, restart, argument, nvm::platform::call_depth());
}

namespace {
int commit_and_wait(nvm_stm* tx) {
  const nvm::platform::in_call here;
  if (tx->inner.depth() == 0) api::leave_next_frame(tx);
  verdict a = verdict::failed;
  if (tx->inner.depth() > 1) {
    try {
      a = tx->inner.commit_level();
    } catch (const std::bad_alloc&) {
      tx->inner.roll_back_level();
      tx->inner.doom(fail(errc::no_memory, "no volatile memory for a transaction"));
    }
    tx->frames.pop_back();
    if (a == verdict::done) return 0;
    const api::reported failure{api::if_intact(tx->pool, tx->inner.failure()).error()};
    api::tell_aborted(tx, tx->pool);
    return failure.again();
  }
  NVM_POOL* const pool = tx->pool;
  try {
    a = tx->inner.commit();
  } catch (const std::bad_alloc&) {
    tx->inner.fails(fail(errc::no_memory, "no volatile memory for a transaction"));
    tx->inner.roll_back(transaction::reason::left);
  }
  if (a == verdict::conflict) api::start_again(tx, transaction::reason::conflict);
  tx->inner.end_series();
  nvm_stm_of_thread = nullptr;
  if (a != verdict::done) {
    const api::reported failure{api::if_intact(pool, tx->inner.failure()).error()};
    api::tell_aborted(tx, pool);
    return failure.again();
  }
  return api::conclude(tx, pool);
}
}  // namespace

int nvm_stm_commit(nvm_stm* tx) {
  NVM_POOL* const pool = tx->pool;
  const int committed = commit_and_wait(tx);
  if (committed == 0 && pool != nullptr && pool->checked && pool->references != nullptr) [[unlikely]]
    api::tell_wrong_frees(pool);
  return committed;
}

void nvm_stm_rollback(nvm_stm* tx) {
  if (tx->inner.depth() == 0) {
    nvm_stm_give_up(tx);
    return;
  }
  api::take_back_level(tx);
}

void nvm_stm_give_up(nvm_stm* tx) {
  if (tx->inner.depth() != 0) return;
  tx->inner.end_series();
  nvm_stm_of_thread = nullptr;
}

void nvm_stm_unwind(nvm_stm* tx) { api::leave_next_frame(tx); }

void nvm_stm_check(nvm_stm* tx) {
  if (tx->inner.depth() == 0) api::leave_next_frame(tx);
}

void nvm_stm_cancel(nvm_stm* tx, int code) {
  if (tx->inner.depth() == 0) api::leave_next_frame(tx);
  api::leave_level(tx, NVM_STM_CANCEL, code, api::why_cancelled(tx, code));
}
void nvm_stm_retry(nvm_stm* tx) { api::start_again(tx, transaction::reason::retry); }
void nvm_stm_become_irrevocable(nvm_stm* tx) {
  api::change(tx, [](transaction& t) { return t.become_irrevocable(); });
}

// ---- memory

[[NVM_QUICK_ACCESS]] uint64_t nvm_stm_load64(nvm_stm* tx, const uint64_t* p) { return api::load(tx, p); }
[[NVM_QUICK_ACCESS]] uint32_t nvm_stm_load32(nvm_stm* tx, const uint32_t* p) { return api::load(tx, p); }
[[NVM_QUICK_ACCESS]] uint16_t nvm_stm_load16(nvm_stm* tx, const uint16_t* p) { return api::load(tx, p); }
[[NVM_QUICK_ACCESS]] uint8_t nvm_stm_load8(nvm_stm* tx, const uint8_t* p) { return api::load(tx, p); }
[[NVM_QUICK_ACCESS]] void* nvm_stm_load_pointer(nvm_stm* tx, const void* p) {
  return reinterpret_cast<void*>(api::load(tx, static_cast<const uint64_t*>(p)));
}
void nvm_stm_store64(nvm_stm* tx, uint64_t* p, uint64_t value) { api::store(tx, p, value); }
void nvm_stm_store32(nvm_stm* tx, uint32_t* p, uint32_t value) { api::store(tx, p, value); }
void nvm_stm_store16(nvm_stm* tx, uint16_t* p, uint16_t value) { api::store(tx, p, value); }
void nvm_stm_store8(nvm_stm* tx, uint8_t* p, uint8_t value) { api::store(tx, p, value); }
void nvm_stm_store_pointer(nvm_stm* tx, void* p, const void* value) {
  api::store(tx, static_cast<uint64_t*>(p), reinterpret_cast<uint64_t>(value));
}

void nvm_stm_read(nvm_stm* tx, void* to, const void* from, size_t n) {
  api::go_on(tx, [&](transaction& t) { return t.read(to, from, n); });
}
void nvm_stm_write(nvm_stm* tx, void* to, const void* from, size_t n) {
  api::change(tx, [&](transaction& t) { return t.write(to, from, n); });
}
void nvm_stm_log(nvm_stm* tx, const void* p, size_t n) {
  api::change(tx, [&](transaction& t) { return t.announce(p, n); });
}
void nvm_stm_expect(nvm_stm* tx, const nvm_range* ranges, size_t count) {
  for (size_t i = 0; i < count; ++i) nvm::isolation::fetch(ranges[i].p, ranges[i].n);
  api::change(tx, [&](transaction& t) { return t.expect(ranges, count); });
}
void nvm_stm_copy(nvm_stm* tx, void* to, const void* from, size_t n) {
  api::change(tx, [&](transaction& t) { return t.copy(to, from, n); });
}
void nvm_stm_fill(nvm_stm* tx, void* to, int byte, size_t n) {
  api::change(tx, [&](transaction& t) { return t.fill(to, byte, n); });
}
int nvm_stm_compare(nvm_stm* tx, const void* shared, const void* mine, size_t n) {
  int order = 0;
  api::go_on(tx, [&](transaction& t) { return t.compare(shared, mine, n, order); });
  return order;
}

// ---- objects

void* nvm_stm_alloc(nvm_stm* tx, uint32_t type_id, size_t size) {
  void* made = nullptr;
  const auto make = [&](transaction& t) { return t.allocate(type_id, size, nvm::layout::natural_alignment, made); };
  return api::try_change(tx, make) == 0 ? made : nullptr;
}
void* nvm_stm_alloc_aligned(nvm_stm* tx, uint32_t type_id, size_t size, size_t alignment) {
  void* made = nullptr;
  const auto make = [&](transaction& t) { return t.allocate(type_id, size, alignment, made); };
  return api::try_change(tx, make) == 0 ? made : nullptr;
}
void* nvm_stm_malloc(nvm_stm* tx, size_t size) {
  void* made = nullptr;
  return api::try_change(tx, [&](transaction& t) { return t.allocate_volatile(size, made); }) == 0 ? made : nullptr;
}
int nvm_stm_free(nvm_stm* tx, void* object) {
  if (tx != nullptr && tx->pool != nullptr && tx->pool->checked && tx->pool->references != nullptr) [[unlikely]]
    api::freeing(tx->pool, object, __builtin_return_address(0));
  return api::try_change(tx, [&](transaction& t) { return t.free(object); });
}
int nvm_stm_set_root(nvm_stm* tx, void* object) { return api::set_anchor(tx, nvm::anchor_word::root, object); }
void* nvm_stm_get_root(nvm_stm* tx) { return api::anchor(tx, nvm::anchor_word::root); }

int nvm_stm_on(nvm_stm* tx, enum nvm_tx_event event, nvm_tx_hook hook, void* argument) {
  if (hook == nullptr || !api::is_event(event)) {
    return api::report(fail(errc::invalid, "a hook needs a function and an event, found event %d", event));
  }
  // Called with its own type again by run_hooks().
  return api::try_change(tx, [&](transaction& t) { return t.on(event, reinterpret_cast<void (*)()>(hook), argument); });
}

// ---- privatisation

int nvm_stm_quiesce(void) {
  nvm_stm* tx = api::of_thread();
  if (tx == nullptr) return api::report(fail(errc::no_memory, "no volatile memory for this thread's transactions"));
  if (nvm_stm_of_thread != nullptr) {
    return api::report(fail(errc::tx_open, "inside a transaction nobody can be waited for"));
  }
  tx->who.wait_for_older(nvm::isolation::participant::draw_outside());
  return 0;
}
void nvm_stm_quiesce_at_commit(nvm_stm* tx) { tx->inner.privatise(); }

}  // extern "C"
