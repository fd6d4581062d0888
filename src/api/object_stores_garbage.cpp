// Garbage in the object stores of a pool: collections on request, and those of detached stores.
//
// This process remembers which stores have changed since their last collection: all that it has made since then, or
// attached for change.  It does not know what other processes have done, so each store is collected once after the pool
// was opened.
//
// A store that is collected while it is detached is attached only by the library, and has no handle.  A thread that
// asks for it by its name ends the collection first.
#include <algorithm>
#include <cerrno>
#include <new>
#include <optional>
#include <utility>

#include "api/object_stores.hpp"
#include "space/clusters_layout.hpp"
#include "space/extent_image.hpp"

namespace nvm::api {

using object::beside_collection;

namespace {
constexpr std::size_t names_looked_at = 64;  // in one slice
// Barrier transactions last for less, most of them: one of their calls waits so long at most.
constexpr std::uint64_t owed_patience_ns = 5'000'000;
// A store of so many pages gives back its empty pages in less than a slice.
constexpr std::uint64_t trimmed_pages_max = 1024;
}  // namespace

no_detached_collection::no_detached_collection(NVM_POOL* pool) noexcept {
  {
    const std::lock_guard guard{pool->object_stores_lock};
    of_ = pool->object_stores;
  }
  if (of_ != nullptr) of_->rest();
}
no_detached_collection::~no_detached_collection() {
  if (of_ != nullptr) of_->go_on();
}

void object_stores::stop_collecting(NVM_POOL* pool) noexcept {
  std::shared_ptr<object_stores> all;
  {
    const std::lock_guard guard{pool->object_stores_lock};
    all = pool->object_stores;
  }
  if (all != nullptr) all->collector_->stop();
}

// ---- asked for ------------------------------------------------------------------------------------------------------

// The store is attached meanwhile, so that it stays; its local collections keep away.
status object_stores::collect(const char* name, bool dry_run, nvm_store_gc_report& report) {
  if (pool_->file->read_only() && !dry_run) return fail(errc::read_only, "%s is open read-only", path());
  if (status s = bring_types(pool_); !s) return s;
  const auto made = collector_->make(types_lock::waited_for);
  if (!made) return made.error();
  bool read_only = dry_run;
  {
    const taking taken{lock_};
    if (const nvm_store* const there = attached(name)) read_only = there->read_only;
  }
  if (read_only && !dry_run) return fail(errc::read_only, "store \"%s\" is attached read-only", name);
  const auto s = attach(name, read_only ? unsigned{NVM_STORE_READ_ONLY} : 0U, attached_for::library);
  if (!s) return s.error();
  nvm_store& store = **s;
  status done;
  {
    const std::unique_lock mine{store.local.lock, std::try_to_lock};
    const auto root = root_of(store);
    if (!mine) {
      done = fail(errc::busy, "store \"%s\" is being collected by another thread", name);
    } else if (!root) {
      done = root.error();
    } else if (*root == 0) {
      done = fail(errc::invalid, "store \"%s\" has no root: all objects of it would be garbage", name);
    } else {
      store.local.runs.reset();
      store.local.active.store(false, std::memory_order_relaxed);
      done = collector_->collect_now(**made, *store.of, dry_run, report);
    }
  }
  // A transaction that has allocated or freed there meanwhile keeps it attached for the library.  The result is that of
  // the collection, and so is the message.
  std::optional<reported> failure;
  if (!done) failure.emplace(done.error());
  if (!detach(store, attached_for::library)) {
    const taking taken{lock_};
    ++store.owed;
    owes_.store(true, std::memory_order_relaxed);
  }
  if (failure) (void)failure->again();
  return done;
}

void object_stores::detach_what_is_owed() {
  if (!owes_.load(std::memory_order_relaxed)) [[likely]]
    return;
  std::uint64_t after = 0;  // attachments up to this one were tried
  for (;;) {
    nvm_store* next = nullptr;
    {
      const taking taken{lock_};
      if (after == 0) owes_.store(false, std::memory_order_relaxed);
      for (const auto& [name, s] : attached_) {
        if (s->owed != 0 && s->attachment > after && (next == nullptr || s->attachment < next->attachment)) {
          next = s.get();
        }
      }
      if (next == nullptr) return;
      after = next->attachment;
      --next->owed;  // it stays until this thread has detached it
      if (next->owed != 0) owes_.store(true, std::memory_order_relaxed);
    }
    if (detach(*next, attached_for::library, owed_patience_ns)) continue;
    const taking taken{lock_};
    if (next->times == 0) continue;
    ++next->owed;
    owes_.store(true, std::memory_order_relaxed);
  }
}

// ---- detached -------------------------------------------------------------------------------------------------------

bool object_stores::collect_detached(const object::collection_slice& slice) noexcept try {
  if (resting_.load(std::memory_order_relaxed) != 0) return false;
  lock_.lock_for_library();
  const taking taken{lock_, std::adopt_lock};
  // Asked again under the lock: a thread that calls rest() waits for this lock once.
  if (side_ == nullptr || resting_.load(std::memory_order_relaxed) != 0) return false;
  // One whose collection has ended and that could not be detached then.
  // A slice of its own: an attach of another store waits for one.
  if (collector_->detached() && std::exchange(collected_.wants_trim, false)) {
    (void)side_->trim(*collected_.of);
    return true;
  }
  if (!collector_->detached() || (collected_.page != 0 && collected_.runs == nullptr)) {
    const bool was_left = collector_->detached();
    return end_detached() && was_left;
  }
  close_what_has_ended();
  if (collected_.page == 0) {
    if (waiting_.empty() && !fill_waiting()) return false;
    if (!waiting_.empty()) {
      const named_page which = std::move(waiting_.back());
      waiting_.pop_back();
      begin_detached(which);
    }
    return true;
  }
  const auto now = collector_->slice(*collected_.runs, collector_->detached_counts(), slice);
  if (now == beside_collection::state::goes_on || now == beside_collection::state::waits) return true;
  if (now == beside_collection::state::failed && collected_.runs->why() == errc::no_memory) {
    any_changed_ = true;  // the next round
  } else {
    unchanged_.insert(collected_.page);
  }
  collector_->account(*collected_.runs, now, collector_->detached_counts());
  collected_.wants_trim =
      collected_.runs->sums().freed_objects != 0 && object::pages_of(*collected_.of) <= trimmed_pages_max;
  collected_.runs.reset();
  return true;
} catch (const std::bad_alloc&) {
  any_changed_ = true;  // the next round
  return false;
}

bool object_stores::waits_for_transactions(std::uint64_t page) const noexcept {
  return std::ranges::any_of(closing_, [&](const closing& c) { return c.page == page; });
}

// Some more stores of this round; false: it is over, or there is nothing to do.
bool object_stores::fill_waiting() {
  if (round_at_.empty() && !any_changed_) return false;
  if (status s = find_catalogue(wanted_catalogue::as_it_is); !s || !catalogue_) return false;
  if (round_at_.empty()) any_changed_ = false;
  stores::names_reader m{bytes()};
  std::size_t looked_at = 0;
  std::string last;
  const auto more = trie_each(m, catalogue_->root_at(), "", round_at_, [&](std::string_view name, std::uint64_t page) {
    try {
      last = name;
      // An attached store is collected locally, and counts as changed when it is detached.
      if (unchanged_.count(page) == 0 && attached(name) == nullptr) waiting_.push_back({last, page});
    } catch (const std::bad_alloc&) {
      return false;
    }
    return ++looked_at < names_looked_at;
  });
  round_at_ = more ? last : std::string{};
  return !round_at_.empty();
}

void object_stores::begin_detached(const named_page& which) {
  const auto page = page_of(which.name);
  if (!page || *page != which.page || attached(which.name) != nullptr) return;
  if (waits_for_transactions(*page)) {
    any_changed_ = true;  // the next round
    return;
  }
  auto made = collector_->make(types_lock::tried);
  if (!made) {
    any_changed_ = true;  // the next round
    return;
  }
  closing_.reserve(closing_.size() + 1);
  pages_keeper::recording recorded{keeper_};
  const open_for_a_while at_once{keeper_.guard, take_where_it_lay(*page), true};
  const auto of = side_->attach(*page, false);
  recorded.end();
  if (!of) {
    if (of.error() == errc::no_memory) {
      any_changed_ = true;  // the next round
    } else {
      // It is damaged, most likely: a program that attaches it is told.
      unchanged_.insert(*page);
    }
    return;
  }
  protect(*page, platform::page_access::all);
  keeper_.close_all(recorded.opened);
  side_->make_known(**of);
  collected_ = {*page, *of, std::move(*made)};
  const std::uint64_t root = load_word(pool_->base(), *page + offsetof(layout::cluster_header, root)) & checked_mask;
  const status begun = root == 0 ? errc::not_found : collected_.runs->begin(**of, beside_collection::with::nobody);
  if (!begun) {
    // Busy: another thread trims it at the moment.
    if (begun.error() == errc::busy || begun.error() == errc::no_memory) {
      any_changed_ = true;
    } else {
      unchanged_.insert(*page);
    }
    (void)end_detached();
    return;
  }
  collector_->count_begun();
}

status object_stores::end_detached() noexcept try {
  if (collected_.page == 0) return {};
  if (collected_.runs != nullptr) collected_.runs->stop();
  collected_.runs.reset();
  if (std::exchange(collected_.wants_trim, false)) (void)side_->trim(*collected_.of);
  closing_.reserve(closing_.size() + 1);
  closing after{.page = collected_.page};
  // Only the collection has had it attached, and that has no transaction open.
  if (status detached = side_->detach(*collected_.of, after.left); !detached) return detached;
  closing_.push_back(std::move(after));
  collected_ = {};
  close_what_has_ended();
  return {};
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory to detach a store that was collected");
}

status object_stores::interrupt_detached(std::uint64_t page) noexcept {
  if (collected_.page == 0 || collected_.page != page) return {};
  if (collected_.runs != nullptr) {
    collector_->account(*collected_.runs, beside_collection::state::waits, collector_->detached_counts());
    collector_->count_interrupted();
    any_changed_ = true;
  }
  return end_detached();
}

}  // namespace nvm::api
