// A pool is collected beside transactions, by the thread that calls nvm_gc(): object/beside_collection.hpp of all that
// the pool has.
#include "api/gc_beside.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <thread>
#include <vector>

#include "api/object_stores.hpp"
#include "api/pool_collections.hpp"
#include "object/collected_ground.hpp"

namespace nvm::api {
namespace {

using object::beside_collection;

constexpr unsigned frees_at_once = 128;       // of one transaction, which others may wait for
constexpr unsigned slices_between_told = 64;  // progress
constexpr std::uint64_t rest_least_ns = 200'000;

// Of a processor, by this thread: what others took from it meanwhile is not its share.
std::uint64_t spent_ns() noexcept {
  std::timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(t.tv_nsec);
}

status admit(nvm_pool* pool, const nvm_gc_options& o) noexcept {
  const char* const path = pool->file->path();
  if (o.beside > 1) return fail(errc::invalid, "beside: found %u, expected 0 or 1", o.beside);
  if (o.processor_percent > 100)
    return fail(errc::invalid, "processor_percent: found %u, expected at most 100", o.processor_percent);
  if (o.conservative != 0)
    return fail(errc::invalid, "%s: words that may be pointers are looked at where the pool is at rest", path);
  if (o.untyped > 1)
    return fail(errc::invalid, "%s: words of unknown types are looked at where the pool is at rest", path);
  if (o.pointer != nullptr)
    return fail(errc::invalid, "%s: pointers to no object are told where the pool is at rest", path);
  if (o.ways != 0) return fail(errc::invalid, "%s: ways to garbage are found where the pool is at rest", path);
  if (pool->references != nullptr)
    return fail(errc::invalid, "%s counts references: it is collected where it is at rest", path);
  if (pool->file->geometry().home_bytes != 0)
    return fail(errc::engine, "%s: pools of this engine are collected where they are at rest", path);
  if (thread_transactions::mine().in(pool) != nullptr)
    return fail(errc::tx_open, "%s: garbage cannot be collected while this thread has a transaction open", path);
  return not_in_barriers("nvm_gc()", "it after the transaction");
}

class pool_collection {
 public:
  pool_collection(nvm_pool* pool, const nvm_gc_options& options, nvm_gc_report& report) noexcept
      : pool_{pool}, options_{options}, report_{report} {}

  [[nodiscard]] status run() {
    // Before one is made: pages that come to the first store of the pool meanwhile stay open, too.
    if (const auto all = object_stores::of(pool_); !all && all.error() == errc::no_memory) return all.error();
    const all_pages_open stores{pool_};
    if (status s = bring_types(pool_); !s) return s;
    pool_collections host{pool_};
    const auto made = make_collection(pool_, host, types_lock::waited_for, options_.untyped != 0);
    if (!made) return made.error();
    beside_collection& c = **made;
    spent_ = spent_ns();
    const std::uint64_t since = platform::monotonic_ns();
    status s =
        c.begin(std::make_unique<object::pool_ground>(), beside_collection::with::transactions, options_.dry_run != 0);
    if (!s) return s;
    s = finish_collection(pool_, c, "the pool", frees_at_once, [&] { between(c, since); });
    const std::uint64_t all_ns = platform::monotonic_ns() - since;
    if (marked_ns_ == 0) marked_ns_ = all_ns;
    tell_sums(c.sums(), all_ns);
    if (s) tell_types(c);
    return s;
  }

 private:
  void between(const beside_collection& c, std::uint64_t since) {
    const object::collection_sums& sums = c.sums();
    if (marked_ns_ == 0 && c.frees()) marked_ns_ = platform::monotonic_ns() - since;
    if (options_.progress != nullptr && ++slices_ % slices_between_told == 0) {
      const platform::out_of_call theirs;
      if (c.frees()) {
        options_.progress(NVM_GC_FREEING, sums.freed_objects, sums.garbage_objects, options_.argument);
      } else {
        options_.progress(NVM_GC_MARKING, sums.reachable_objects, sums.objects, options_.argument);
      }
    }
    if (options_.processor_percent == 0 || options_.processor_percent == 100) return;
    const std::uint64_t owes = (spent_ns() - spent_) * (100 - options_.processor_percent) / options_.processor_percent;
    if (owes < rest_least_ns) return;
    std::this_thread::sleep_for(std::chrono::nanoseconds{owes});
    spent_ = spent_ns();
  }

  void tell_sums(const object::collection_sums& sums, std::uint64_t all_ns) noexcept {
    report_.objects = sums.objects;
    report_.reachable_objects = sums.reachable_objects;
    report_.reachable_bytes = sums.reachable_bytes;
    report_.garbage_objects = sums.garbage_objects;
    report_.garbage_bytes = sums.garbage_bytes;
    report_.freed_objects = sums.freed_objects;
    report_.freed_bytes = sums.freed_bytes;
    report_.transactions = sums.transactions;
    report_.pointers = sums.pointers;
    report_.stray_pointers = sums.stray_pointers;
    report_.foreign_pointers = sums.foreign_pointers;
    report_.held_objects = sums.held_objects;
    report_.mark_ns = marked_ns_;
    report_.free_ns = all_ns - marked_ns_;
    report_.pause_ns = sums.pause_ns;
  }

  void tell_types(const beside_collection& c) {
    if (options_.type == nullptr) return;
    std::vector<nvm_gc_type> order;
    for (const auto& [type, of] : c.garbage()) {
      nvm_gc_type t{};
      t.type = type;
      t.objects = of.objects;
      t.bytes = of.bytes;
      order.push_back(t);
    }
    std::ranges::sort(order, [](const nvm_gc_type& a, const nvm_gc_type& b) {
      return a.bytes != b.bytes ? a.bytes > b.bytes : a.type < b.type;
    });
    const platform::out_of_call theirs;
    for (const nvm_gc_type& t : order) options_.type(&t, options_.argument);
  }

  nvm_pool* pool_;
  const nvm_gc_options& options_;
  nvm_gc_report& report_;
  std::uint64_t marked_ns_ = 0;
  std::uint64_t spent_ = 0;
  unsigned slices_ = 0;
};

}  // namespace

status collect_beside(nvm_pool* pool, const nvm_gc_options& options, nvm_gc_report& report) {
  if (status s = admit(pool, options); !s) return s;
  return pool_collection{pool, options, report}.run();
}

}  // namespace nvm::api
