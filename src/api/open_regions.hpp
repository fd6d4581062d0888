// What the C calls of regions have in common: a pool's open sets, a thread's part of them, and how a call runs.
//
// Threads.  A thread has a part in a pool from its first call there to its end, with a place (thread_places.hpp) that
// is in use during its calls and while it has a transaction open; transactions that it has begun and not committed are
// rolled back when it ends.  A group belongs to the thread that began it.
//
// Handles of groups are no addresses but tickets, of which the process gives out each once: one that is used after its
// group is over, or by another thread, finds nothing, whatever was begun since.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "api/named.hpp"
#include "api/thread_places.hpp"
#include "engine/background_truncation.hpp"
#include "nvm/region.h"

struct nvm_regions {
  nvm::api::debugger_view seen;  // first
  NVM_POOL* pool = nullptr;
  nvm::engines::open_set* of = nullptr;
  nvm::api::open_region_sets* all = nullptr;
  bool waits = true;
};

namespace nvm::api {

using engines::open_regions_change;
using engines::open_set;
using engines::region_side;

// The open sets of one pool; outlives the pool while threads refer to it.
struct open_region_sets : named<nvm_regions, region_side> {
  std::shared_ptr<thread_places> places;
  engines::background_truncation tidying;  // its thread ends before the side
};

// A transaction of regions of one set; its memory is used again by its thread after it is over.
struct open_group {
  nvm_regions* set = nullptr;
  place_in_use<open_region_sets> place;         // while it is open; ends after `change`
  std::unique_ptr<open_regions_change> change;  // null: it is over
  std::uint64_t ticket = 0;                     // 0: of nvm_region_begin()
  bool was_refused = false;                     // a region of it could not be waited for
  std::optional<std::uint64_t> refused;         // which; none: one that another transaction is about to make

  [[nodiscard]] bool single() const noexcept { return ticket == 0; }
};
// Tickets of the process; a thread takes many at once.
class tickets {
 public:
  [[nodiscard]] std::uint64_t next() noexcept {
    constexpr std::uint64_t many = 1024;
    if (left_ == 0) {
      next_ = last_.fetch_add(many, std::memory_order_relaxed) + 1;
      left_ = many;
    }
    --left_;
    return next_++;
  }

 private:
  static inline constinit std::atomic<std::uint64_t> last_{0};
  std::uint64_t next_ = 0;
  std::uint64_t left_ = 0;
};
static_assert(sizeof(std::uintptr_t) >= sizeof(std::uint64_t), "a ticket has room in a handle");

// What a thread has in one pool.
struct part_of_thread {
  explicit part_of_thread(std::shared_ptr<open_region_sets> all) noexcept
      : pool{all->number}, of{std::move(all)}, place{of->places} {}
  // While the place is in use.
  [[nodiscard]] unsigned number() const noexcept { return place.number; }

  unsigned pool;
  std::shared_ptr<open_region_sets> of;
  thread_place place;
  std::vector<std::unique_ptr<open_group>> groups;
  tickets of_groups;
};
[[nodiscard]] inline bool has_open_group(const part_of_thread& p) noexcept {
  return std::any_of(p.groups.begin(), p.groups.end(), [](const auto& g) { return g->change != nullptr; });
}
// The same, its place in use.
class part_in_use {
 public:
  explicit part_in_use(part_of_thread& p) noexcept : part_{&p}, use_{*p.of, p.place} {}
  [[nodiscard]] part_of_thread& operator*() const noexcept { return *part_; }
  [[nodiscard]] part_of_thread* operator->() const noexcept { return part_; }

 private:
  part_of_thread* part_;
  place_in_use<open_region_sets> use_;
};

// The calling thread's part of the pool, whose regions are open.  errc::no_lane, no_memory, invalid.
[[nodiscard]] result<part_in_use> part_in(const NVM_POOL* pool) noexcept;
// Waits until what the thread has done and seen in the pool is durable; takes no place for that.
[[nodiscard]] status wait_for_all_done(const NVM_POOL* pool) noexcept;
[[nodiscard]] status usable(const nvm_regions* set) noexcept;
// errc::read_only: a change would reach private memory only, where recovery of the log has put its content.
[[nodiscard]] inline status accepts_changes(const NVM_POOL* pool) noexcept {
  if (!pool->file->read_only()) [[likely]]
    return {};
  return fail(errc::read_only, "%s is open read-only", pool->file->path());
}
// Waits until what the thread has done and seen is durable.
[[nodiscard]] status wait_for_position(const nvm_regions* set, unsigned who) noexcept;
// The transaction of this thread that has the region; nullptr: none has.
[[nodiscard]] open_group* group_with(const part_of_thread& p, const nvm_regions* set, std::uint64_t rid) noexcept;
// The group of this thread that has the handle.  errc::invalid: it is over, or none of this thread.
[[nodiscard]] result<open_group*> group_of(const nvm_region_group* handle) noexcept;

// Runs call(part) -> result<T> for a C caller, whose part is in use; the set was found usable.
template <effect What, class Call>
[[nodiscard]] auto run(nvm_regions* set, const part_in_use& part, Call&& call) noexcept
    -> decltype(call(std::declval<part_of_thread&>())) {
  if constexpr (What != effect::looks) {
    if (status s = accepts_changes(set->pool); !s) return s.error();
  }
  // A failed pool refuses at once: the outcome could not be known.
  if (status s = medium_is_whole(set->pool); !s) return s.error();
  auto answer = call(*part);
  if (!answer) {
    // The answer (absent, present, length) may rest on a change that is not durable yet.
    const errc why = answer.error();
    const bool seen = why == errc::not_found || why == errc::exists || why == errc::invalid;
    if (seen && set->waits) {
      if (status s = wait_for_position(set, part->number()); !s) return s.error();
    }
    return if_intact(set->pool, why).error();
  }
  if constexpr (What != effect::begins) {
    const auto wait = [&] { return wait_for_position(set, part->number()); };
    if (status s = acknowledge<What>(set, wait); !s) return s.error();
  }
  if (status s = no_page_was_lost<What>(set->pool); !s) return s.error();
  return answer;
}
template <effect What, class Call>
[[nodiscard]] auto run(nvm_regions* set, Call&& call) noexcept -> decltype(call(std::declval<part_of_thread&>())) {
  if (status s = usable(set); !s) return s.error();
  if constexpr (What != effect::looks) {
    if (status s = accepts_changes(set->pool); !s) return s.error();
  }
  const auto part = part_in(set->pool);
  if (!part) return part.error();
  return run<What>(set, *part, std::forward<Call>(call));
}
inline int told(const result<int>& r) noexcept { return r ? *r : report(r.error()); }

}  // namespace nvm::api
