// Levels of a transaction, with the work that is common to all engines when one begins and ends: hooks, the state that
// allows only abort, counters. Mark: an engine's note of where a level began.
//
// Threads: one, that of the transaction; counters are read by any.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "base/base.hpp"
#include "tx/first_failure.hpp"
#include "tx/hook.hpp"

namespace nvm::tx {

template <class Mark>
class level_stack {
 public:
  [[nodiscard]] unsigned depth() const noexcept { return static_cast<unsigned>(levels_.size()); }
  // The failure that leaves only abort; errc::ok: none.
  [[nodiscard]] errc failure() const noexcept { return failed_.code(); }
  // Notes a failure in the innermost level, or a forbidden call of the program: only abort is possible then.
  errc doom(errc code) noexcept { return failed_.note(code, depth()); }

  [[nodiscard]] status on(int event, void (*call)(), void* argument) noexcept try {
    hooks_.push_back({call, event, argument, false});
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for a hook");
  }
  // Objects, by their payloads, that the program has let go (reference_log.hpp), in levels that were not rolled back.
  [[nodiscard]] status add_let_go(std::uint64_t payload) noexcept try {
    let_go_.push_back(payload);
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for a free");
  }
  [[nodiscard]] const std::vector<std::uint64_t>& let_go() const noexcept { return let_go_; }
  // Hooks of the transaction that has ended.
  [[nodiscard]] bool has_hooks() const noexcept { return !hooks_.empty(); }
  std::vector<hook> take_hooks() noexcept { return std::exchange(hooks_, {}); }

  // Rolls the innermost level back by `end()` and moves its hooks to the caller, which runs them now: a program has to
  // put its volatile memory right before the enclosing level goes on.
  template <class End>
  void abort_level_by(End&& end, std::vector<hook>& hooks) noexcept {
    const auto first = static_cast<std::ptrdiff_t>(levels_.back().hooks);
    end();
    try {
      hooks.assign(hooks_.begin() + first, hooks_.end());
      hooks_.erase(hooks_.begin() + first, hooks_.end());
    } catch (const std::bad_alloc&) {
      hooks.clear();
      // They run at the end, so only abort is left until then.
      doom(fail(errc::no_memory, "no volatile memory for the hooks of a level"));
    }
  }

  // Counters since the transaction object was made.
  [[nodiscard]] std::uint64_t commits() const noexcept { return commits_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t aborts() const noexcept { return aborts_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t logged_bytes() const noexcept { return logged_bytes_.load(std::memory_order_relaxed); }

 protected:
  struct level {
    Mark mark;
    std::size_t hooks, let_go;
  };

  // May throw std::bad_alloc.
  void begin_level(const Mark& here) { levels_.push_back({here, hooks_.size(), let_go_.size()}); }
  [[nodiscard]] status refuse() const noexcept { return failed_.refuse(); }
  // Ends an inner level: `join()` gives its changes to the enclosing level; if that fails, or only abort is left,
  // `end()` rolls it back.
  template <class Join, class End>
  [[nodiscard]] status commit_level_by(Join&& join, End&& end) noexcept {
    NVM_ASSERT(levels_.size() > 1);
    if (failed_) return refuse_level(end);
    if (status s = join(); !s) {
      end();
      return doom(s.error());
    }
    levels_.pop_back();
    return {};
  }
  // The innermost level was rolled back.
  void level_aborted() noexcept {
    for (std::size_t i = levels_.back().hooks; i < hooks_.size(); ++i) hooks_[i].aborted = true;
    if (let_go_.size() > levels_.back().let_go) let_go_.resize(levels_.back().let_go);
    levels_.pop_back();
    failed_.levels_left(depth());
  }
  // All levels were rolled back.
  void all_aborted() noexcept {
    for (hook& h : hooks_) h.aborted = true;
    count(aborts_, 1);
  }
  // The transaction is over.
  void forget_levels() noexcept {
    levels_.clear();
    let_go_.clear();
    failed_.clear();
  }

  // One writer; relaxed: a reader wants a recent number, no order.
  static void count(std::atomic<std::uint64_t>& counter, std::uint64_t by) noexcept {
    counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }

  first_failure failed_;
  std::vector<level> levels_;
  std::vector<hook> hooks_;
  std::vector<std::uint64_t> let_go_;
  std::atomic<std::uint64_t> commits_{0};
  std::atomic<std::uint64_t> aborts_{0};
  std::atomic<std::uint64_t> logged_bytes_{0};

 private:
  // The failure becomes that of the enclosing level: if the program ignores it, the outer level must not commit in
  // part.
  template <class End>
  [[nodiscard]] status refuse_level(End& end) noexcept {
    const first_failure why = failed_;
    end();
    failed_ = why;
    failed_.concerns(depth());
    return refuse();
  }
};

}  // namespace nvm::tx
