// What every engine's transaction has in common: levels, objects, hooks, the state in which only abort is left,
// counters.
//
// Threads: one, the one that holds the lane; counters are read by any.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "log/log.hpp"
#include "media/media.hpp"
#include "space/space.hpp"
#include "tx/first_failure.hpp"
#include "tx/hook.hpp"
#include "tx/object_changes.hpp"

namespace nvm::tx {

// A word of the pool and its new value.
struct assigned_word {
  std::uint64_t offset;
  std::uint64_t value;
};
inline constexpr std::size_t assigned_words_max = 4;

template <media M, log::settler S>
class transaction_core {
 public:
  using lanes_type = S;
  using space_type = space<M, S>;
  using byte_range = log::byte_range;

  [[nodiscard]] unsigned depth() const noexcept { return static_cast<unsigned>(levels_.size()); }
  [[nodiscard]] unsigned lane() const noexcept { return lane_; }
  // errc::ok: nothing has failed that leaves only abort.
  [[nodiscard]] errc failure() const noexcept { return failed_.code(); }

  // An allocation that cannot be tried: leaves only abort like any that fails.
  [[nodiscard]] errc refuse_allocation(errc reason) noexcept { return doom(reason); }
  // What has just failed in the innermost level, or what the program did in it and may not, leaves only abort.
  errc doom(errc code) noexcept { return failed_.note(code, depth()); }
  // Frees the object that starts at `offset` when the transaction commits.  A wrong pointer changes nothing.
  [[nodiscard]] status release(std::uint64_t offset, layout::object_layout l) noexcept try {
    if (failed_) return refuse();
    return objects_.release(offset, l);
  } catch (const std::bad_alloc&) {
    return doom(fail(errc::no_memory, "no volatile memory for a free"));
  }

  // Bytes of an object with its header; its release() will know it already.
  [[nodiscard]] result<std::uint64_t> room_of(std::uint64_t offset, layout::object_layout l) noexcept {
    return objects_.room_of(offset, l);
  }

  [[nodiscard]] status on(int event, void (*call)(), void* argument) noexcept try {
    hooks_.push_back({call, event, argument, false});
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for a hook");
  }
  // Hooks of the transaction that has ended.
  [[nodiscard]] bool has_hooks() const noexcept { return !hooks_.empty(); }
  std::vector<hook> take_hooks() noexcept { return std::move(hooks_); }

  // Counters since the transaction object was made; readable from any thread.
  [[nodiscard]] std::uint64_t commits() const noexcept { return commits_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t aborts() const noexcept { return aborts_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t logged_bytes() const noexcept { return logged_bytes_.load(std::memory_order_relaxed); }

 protected:
  struct level {
    typename object_changes<M, S>::mark objects;
    std::size_t hooks;
  };

  transaction_core(M& m, std::byte* base, S& lanes, space_type& space, unsigned lane)
      : media_{m}, base_{base}, lanes_{lanes}, space_{space}, lane_{lane}, objects_{base, space, lane} {}

  [[nodiscard]] status refuse() const noexcept { return failed_.refuse(); }
  // An inner level that allows only abort is rolled back by `end()`, and its failure becomes that of the level around:
  // an unread failure of the inner level must not become half an outer one.
  template <class End>
  [[nodiscard]] status refuse_level(End&& end) noexcept {
    const first_failure why = failed_;
    end();
    failed_ = why;
    failed_.concerns(depth());
    return refuse();
  }

  // May throw std::bad_alloc.
  void begin_level() { levels_.push_back({objects_.here(), hooks_.size()}); }
  [[nodiscard]] result<typename space_type::reservation> allocate_object(std::uint64_t bytes,
                                                                         layout::object_layout l) noexcept {
    if (failed_) return refuse().error();
    auto r = objects_.allocate(bytes, l);
    if (!r) doom(r.error());
    return r;
  }
  // The innermost level was rolled back.
  void forget_level() noexcept {
    const level l = levels_.back();
    objects_.drop(l.objects);
    for (std::size_t i = l.hooks; i < hooks_.size(); ++i) hooks_[i].aborted = true;
    levels_.pop_back();
    failed_.levels_left(depth());
  }
  // Hooks of the level that is about to be rolled back begin here.
  [[nodiscard]] std::size_t hooks_of_level() const noexcept { return levels_.back().hooks; }
  // After forget_level(): those, for the caller to run now.  What a program keeps in volatile memory beside what the
  // level changed has to be put right before the level around goes on.
  void take_hooks_from(std::size_t index, std::vector<hook>& hooks) noexcept {
    const auto first = static_cast<std::ptrdiff_t>(index);
    try {
      hooks.assign(hooks_.begin() + first, hooks_.end());
      hooks_.erase(hooks_.begin() + first, hooks_.end());
    } catch (const std::bad_alloc&) {
      hooks.clear();
      // They run at the end, and nothing but that may come before.
      doom(fail(errc::no_memory, "no volatile memory for the hooks of a level"));
    }
  }
  // The outermost level was rolled back.
  void forget_all() noexcept {
    objects_.drop(levels_.front().objects);
    for (hook& h : hooks_) h.aborted = true;
    count(aborts_, 1);
  }
  void reset_core() noexcept {
    levels_.clear();
    objects_.clear();
    failed_.clear();
  }

  // One writer, the lane's owner; relaxed: a reader wants a recent number, no order.
  static void count(std::atomic<std::uint64_t>& counter, std::uint64_t by) noexcept {
    counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }

  M& media_;
  std::byte* base_;
  S& lanes_;
  space_type& space_;
  unsigned lane_;
  first_failure failed_;
  std::vector<level> levels_;
  object_changes<M, S> objects_;
  std::vector<hook> hooks_;
  std::atomic<std::uint64_t> commits_{0};
  std::atomic<std::uint64_t> aborts_{0};
  std::atomic<std::uint64_t> logged_bytes_{0};
};

}  // namespace nvm::tx
