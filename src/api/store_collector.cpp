#include "api/store_collector.hpp"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <new>
#include <system_error>
#include <utility>

#include "api/object_stores.hpp"

namespace nvm::api {

using object::beside_collection;
using collection_state = beside_collection::state;

namespace {

// Longest slice in an allocation; a transaction that frees may take the rest of a millisecond.
constexpr std::uint64_t local_slice_ns = 200'000;
constexpr unsigned local_frees_max = 64;
// Longest slice of the library's thread: an attach waits for the rest of one at most.
constexpr std::uint64_t detached_slice_ns = 300'000;
constexpr unsigned detached_frees_max = 64;
// The thread takes one part in so many of a processor.
constexpr std::uint64_t processor_share = 50;
// Processor time of this thread: time that others took meanwhile does not count.
std::uint64_t used_ns() noexcept {
  std::timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(t.tv_nsec);
}
}  // namespace

store_collector::store_collector(nvm_pool* pool, object_stores& stores) : pool_collections{pool}, stores_{stores} {}

// ---- settings -------------------------------------------------------------------------------------------------------

status store_collector::configure(const nvm_stores_options& o) {
  constexpr std::uint32_t all = NVM_STORES_COLLECT_NOTHING | NVM_STORES_COLLECT_LOCALLY | NVM_STORES_COLLECT_DETACHED;
  if ((o.collect & ~all) != 0 || ((o.collect & NVM_STORES_COLLECT_NOTHING) != 0 && o.collect != 1))
    return fail(errc::invalid, "collect %u is none of enum nvm_store_collections", o.collect);
  if (o.collect_grown != 0) grown_percent_ = o.collect_grown;
  if (o.collect_period_ms != 0) period_ms_ = o.collect_period_ms;
  if (o.collect_load != 0) load_percent_ = o.collect_load;
  if (o.collect == 0) return {};
  const char* const path = pool_->file->path();
  if (o.collect != NVM_STORES_COLLECT_NOTHING) {
    if (pool_->file->read_only()) return fail(errc::read_only, "%s is open read-only", path);
  }
  local_ = (o.collect & NVM_STORES_COLLECT_LOCALLY) != 0;
  const bool detached = (o.collect & NVM_STORES_COLLECT_DETACHED) != 0;
  if (detached) {
    if (status s = start_thread(); !s) return s;
  }
  detached_ = detached;
  woken_.notify_one();
  return {};
}

void store_collector::statistics(nvm_collection_statistics& out) noexcept {
  const std::lock_guard guard{counting_};
  out = sums_;
}
void store_collector::count_begun() noexcept {
  const std::lock_guard guard{counting_};
  ++sums_.detached.begun;
}
void store_collector::count_interrupted() noexcept {
  const std::lock_guard guard{counting_};
  ++sums_.detached.interrupted;
}

// ---- any collection -------------------------------------------------------------------------------------------------

collection_state store_collector::slice(beside_collection& c, nvm_collection_counts& counts,
                                        const object::collection_slice& s) noexcept {
  const std::uint64_t since = platform::monotonic_ns();
  const collection_state now = c.step(s);
  const std::uint64_t ns = platform::monotonic_ns() - since;
  const std::lock_guard guard{counting_};
  ++counts.slices;
  counts.ns += ns;
  counts.longest_ns = std::max(counts.longest_ns, ns);
  return now;
}

void store_collector::account(const beside_collection& c, collection_state end,
                              nvm_collection_counts& counts) noexcept {
  const std::lock_guard guard{counting_};
  const object::collection_sums& s = c.sums();
  counts.garbage_objects += s.garbage_objects;
  counts.garbage_bytes += s.garbage_bytes;
  counts.freed_objects += s.freed_objects;
  counts.freed_bytes += s.freed_bytes;
  if (end == collection_state::done) ++counts.finished;
  if (end == collection_state::refused) ++counts.refused;
  if (end == collection_state::failed) ++counts.given_up;
}

// ---- local ----------------------------------------------------------------------------------------------------------

void store_collector::before_allocation(nvm_store& s) noexcept {
  local_collection& l = s.local;
  // relaxed: a hint.
  if (!l.active.load(std::memory_order_relaxed)) return;
  const std::unique_lock guard{l.lock, std::try_to_lock};
  if (!guard || l.runs == nullptr) return;
  const collection_state now = slice(*l.runs, sums_.local, {.ns_max = local_slice_ns, .frees_max = local_frees_max});
  if (now == collection_state::goes_on || now == collection_state::waits) return;
  account(*l.runs, now, sums_.local);
  if (now == collection_state::done) {
    // At least a page, so that it counts as collected.
    l.bytes_left = std::max(l.runs->sums().reachable_room, geometry().page_bytes());
  }
  if (now == collection_state::refused) l.refused = true;
  l.runs.reset();
  l.active.store(false, std::memory_order_relaxed);
}

void store_collector::after_allocation(nvm_store& s, errc outcome) noexcept {
  local_collection& l = s.local;
  // A hint: another thread may have detached the store.
  const std::uint64_t pages = object::pages_of(*s.of);
  // relaxed: which of two threads sees the growth is all the same.
  const bool grown = pages > l.pages_seen.exchange(pages, std::memory_order_relaxed);
  if (!grown && outcome != errc::no_space) return;
  if (l.active.load(std::memory_order_relaxed) || l.refused.load(std::memory_order_relaxed)) return;
  const std::uint64_t left = l.bytes_left.load(std::memory_order_relaxed);
  const std::uint64_t percent = 100 + grown_percent_.load(std::memory_order_relaxed);
  const bool by_half = pages * geometry().page_bytes() >= left / 100 * percent;
  if (outcome != errc::no_space && !by_half) return;
  const std::unique_lock guard{l.lock, std::try_to_lock};
  // The store stays attached while the lock is held.
  if (guard && l.runs == nullptr && !l.ended) begin_local(s, l);
}

void store_collector::begin_local(nvm_store& s, local_collection& l) noexcept try {
  const auto root = stores_.root_of(s);
  if (!root || *root == 0) return;
  if (!has_types(pool_)) return;
  auto made = make(types_lock::tried);
  if (!made) {
    if (made.error() != errc::busy) l.refused = true;
    return;
  }
  if (!(*made)->begin(*s.of, beside_collection::with::transactions)) return;
  l.runs = std::move(*made);
  l.active.store(true, std::memory_order_relaxed);
  const std::lock_guard guard{counting_};
  ++sums_.local.begun;
} catch (const std::bad_alloc&) {
  // The store has grown; the next growth tries again.
}

void store_collector::end_local(nvm_store& s) noexcept {
  local_collection& l = s.local;
  const std::lock_guard guard{l.lock};
  l.ended = true;
  if (l.runs == nullptr) return;
  account(*l.runs, collection_state::waits, sums_.local);
  l.runs.reset();
  l.active.store(false, std::memory_order_relaxed);
  const std::lock_guard counted{counting_};
  ++sums_.local.interrupted;
}

void store_collector::go_on_locally(nvm_store& s) noexcept {
  const std::lock_guard guard{s.local.lock};
  s.local.ended = false;
}

// ---- asked for ------------------------------------------------------------------------------------------------------

status store_collector::collect_now(beside_collection& c, open_store& store, bool dry_run,
                                    nvm_store_gc_report& report) {
  const std::uint64_t since = platform::monotonic_ns();
  status s = c.begin(store, beside_collection::with::transactions, dry_run);
  if (!s) return s;
  s = finish_collection(pool_, c, "a store", object::collection_slice{}.frees_max, [] {});
  const object::collection_sums& sums = c.sums();
  report.objects = sums.objects;
  report.reachable_objects = sums.reachable_objects;
  report.reachable_bytes = sums.reachable_bytes;
  report.garbage_objects = sums.garbage_objects;
  report.garbage_bytes = sums.garbage_bytes;
  report.freed_objects = sums.freed_objects;
  report.freed_bytes = sums.freed_bytes;
  report.transactions = sums.transactions;
  report.stray_pointers = sums.stray_pointers;
  report.ns = platform::monotonic_ns() - since;
  return s;
}

// ---- detached -------------------------------------------------------------------------------------------------------

status store_collector::start_thread() noexcept try {
  const std::lock_guard guard{lock_};
  if (thread_.joinable() || stopping_) return {};
  const platform::signals_blocked meanwhile;
  thread_ = std::thread{[this] { run(); }};
  return {};
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "%s: no volatile memory for a thread to collect stores", pool_->file->path());
} catch (const std::exception&) {
  return fail(errc::system, "%s: no thread to collect stores", pool_->file->path());
}

void store_collector::stop() noexcept {
  {
    const std::lock_guard guard{lock_};
    stopping_ = true;
  }
  woken_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool store_collector::stopped_within(std::uint64_t ns) {
  std::unique_lock guard{lock_};
  return woken_.wait_for(guard, std::chrono::nanoseconds{ns}, [this] { return stopping_; });
}

// The average of the last minute counts threads that run and threads that wait to run.
bool store_collector::machine_is_busy() const noexcept {
  double load[1];
  if (::getloadavg(load, 1) != 1) return false;
  return load[0] * 100.0 > static_cast<double>(load_percent_.load()) * platform::processors();
}

void store_collector::run() noexcept {
  for (;;) {
    if (stopped_within(std::uint64_t{period_ms_.load()} * 1'000'000)) return;
    const platform::in_call here;
    if (!detached() || !medium_is_whole(pool_)) continue;
    const bool busy = machine_is_busy();
    {
      const std::lock_guard guard{counting_};
      ++(busy ? sums_.rounds_put_off : sums_.rounds);
    }
    for (bool more = !busy; more;) {
      const std::uint64_t since = used_ns();
      more = stores_.collect_detached(
          {.ns_max = detached_slice_ns, .frees_max = detached_frees_max, .wanted_back = stores_.callers()});
      if (stopped_within((used_ns() - since) * (processor_share - 1))) return;
    }
  }
}

}  // namespace nvm::api
