// Numbers of threads in a side: the lock-free structures or the regions of a pool, or those of an object store.
//
// A side has numbers for epochs::threads_max threads, of which each stands for memory that its thread alone uses.  Any
// number of threads may work there: a thread keeps its number between calls, and a call costs it two stores to a line
// of its own; a thread that finds none free takes over the number of a thread that is in no call, and from then on that
// number is taken for each call (sync/number_owners.hpp).  What a thread has begun and not ended (nvm_lf_enter(), a
// transaction of regions) keeps its number meanwhile.
//
// Handing on.  The thread that gives a number up has fenced (side.hand_over()); after a number was taken from a thread
// that has not, all threads execute a barrier, which is as good (sync/epochs.hpp).  A thread notes at the end of each
// call up to where it has to wait on `ssd`, since its next number may know less.
//
// Side: join() -> result<unsigned>, leave(number), hand_over(number), position(number) -> lsn_t, owe(number, lsn)
//       (engine/structure_side.hpp).
// All:  the sides and handles of one pool (named.hpp); `places` are those of its side, and new for each side.
//
// Threads: a place is its thread's own; places are shared.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "base/base.hpp"
#include "platform/platform.hpp"
#include "sync/sync.hpp"

namespace nvm::api {

// The numbers of one side.
struct thread_places {
  static constexpr unsigned none = ~0U;
  // `positions`: changes become durable up to a position (on ssd), and not one by one.
  explicit thread_places(bool positions) : has_positions{positions} { numbers.fill(none); }

  const bool has_positions;
  number_owners owners{epochs::threads_max, "numbers of threads"};
  std::array<unsigned, epochs::threads_max> numbers;  // in the side; written by the owner of the index
  std::atomic<unsigned> users{0};                     // threads that have a place
};

// Place of one thread, with a number or without.
struct thread_place {
  enum class way : std::uint8_t { nothing, parked, for_this_use };
  std::shared_ptr<thread_places> of;
  unsigned index = 0;
  unsigned number = 0;
  number_owners::owner* seat = nullptr;  // of `index`, where the number is parked
  const bool has_positions;
  unsigned uses = 0;     // that nest, under way now
  unsigned entered = 0;  // of these, nvm_lf_enter() without nvm_lf_leave()
  way has = way::nothing;
  std::uint64_t owes = 0;  // LSN of what it had done and seen when its last use ended

  explicit thread_place(std::shared_ptr<thread_places> places) noexcept
      : of{std::move(places)}, has_positions{of->has_positions} {
    of->users.fetch_add(1, std::memory_order_relaxed);
  }
  ~thread_place() {
    // release: pairs with the acquire of used_by_others().
    of->users.fetch_sub(1, std::memory_order_release);
  }
  thread_place(const thread_place&) = delete;
  thread_place& operator=(const thread_place&) = delete;
};

// Whether threads besides the calling one, which has a place or not, have one.
[[nodiscard]] inline bool used_by_others(const thread_places& p, bool has_one) noexcept {
  return p.users.load(std::memory_order_acquire) > (has_one ? 1U : 0U);
}

// Begins a use where the thread's number is not its own.  errc::no_lane, no_memory; invalid: the side was closed.
template <class All>
[[nodiscard, gnu::noinline]] status find_place(All& all, thread_place& p) noexcept {
  p.has = thread_place::way::nothing;  // it was taken over, if it had one
  number_owners& owners = p.of->owners;
  const auto index = owners.acquire(p.index);
  if (!index) return index.error();
  unsigned& number = p.of->numbers[*index];
  if (number == thread_places::none) {
    const std::lock_guard guard{all.lock};
    auto joined =
        all.closed() ? result<unsigned>{fail(errc::invalid, "what the thread works in was closed")} : all.side->join();
    if (!joined) {
      owners.release(*index);
      return joined.error();
    }
    number = *joined;
  }
  p.index = *index;
  p.number = number;
  p.has = owners.park(*index) ? thread_place::way::parked : thread_place::way::for_this_use;
  p.seat = &owners.at(*index);
  p.uses = 1;
  if (p.owes != 0) all.side->owe(number, p.owes);
  return {};
}

// Begins a use of the thread's number, inside of another one or not.
template <class All>
[[nodiscard]] inline status begin_use(All& all, thread_place& p) noexcept {
  if (p.uses != 0) {
    ++p.uses;
    return {};
  }
  if (p.has == thread_place::way::parked && p.of->owners.resume(*p.seat)) [[likely]] {
    p.uses = 1;
    return {};
  }
  return find_place(all, p);
}
// Its number is another thread's from now on.
template <class All>
[[gnu::noinline]] void hand_over(All& all, thread_place& p) noexcept {
  // A child that was forked meanwhile has the number for itself, and must not wait for locks.
  if (all.process != platform::process_id()) return;
  p.has = thread_place::way::nothing;
  all.side->hand_over(p.number);
  p.of->owners.release(p.index);
}
template <class All>
inline void end_use(All& all, thread_place& p) noexcept {
  if (--p.uses != 0) return;
  if (p.has_positions) p.owes = all.side->position(p.number);
  if (p.has == thread_place::way::parked) [[likely]] {
    if (!p.of->owners.is_wanted() || all.process != platform::process_id() || !p.of->owners.unpark(p.index)) [[likely]]
      return number_owners::leave_parked(*p.seat);
  }
  hand_over(all, p);
}
// LSN of all that the thread has done and seen; costs it no number.
template <class All>
[[nodiscard]] std::uint64_t position_of(All& all, const thread_place& p) noexcept {
  return p.uses != 0 && p.has_positions ? all.side->position(p.number) : p.owes;
}

// The thread ends, whatever uses it has begun.  `leave(number)`: called where it has a number, which nobody has then.
template <class Leave>
void leave_place(thread_place& p, Leave&& leave) noexcept {
  number_owners& owners = p.of->owners;
  const bool parked = p.has == thread_place::way::parked;
  if (p.has == thread_place::way::nothing || (parked && !owners.resume(p.index))) return;
  leave(p.number);
  p.of->numbers[p.index] = thread_places::none;
  p.has = thread_place::way::nothing;
  if (parked) {
    owners.give_back(p.index);
  } else {
    owners.release(p.index);
  }
}

// A use, for a scope or for as long as something is open.  Moved from, or for no place: none.
template <class All>
class place_in_use {
 public:
  place_in_use() noexcept = default;
  // The use has begun.
  place_in_use(All& all, thread_place& p) noexcept : all_{&all}, place_{&p} {}
  ~place_in_use() { end(); }
  place_in_use(place_in_use&& o) noexcept : all_{o.all_}, place_{std::exchange(o.place_, nullptr)} {}
  place_in_use& operator=(place_in_use&& o) noexcept {
    if (this != &o) {
      end();
      all_ = o.all_;
      place_ = std::exchange(o.place_, nullptr);
    }
    return *this;
  }
  [[nodiscard]] unsigned number() const noexcept { return place_->number; }
  // It is ended elsewhere.
  void go_on() noexcept { place_ = nullptr; }
  void end() noexcept {
    if (place_ != nullptr) end_use(*all_, *std::exchange(place_, nullptr));
  }

 private:
  All* all_ = nullptr;
  thread_place* place_ = nullptr;
};

}  // namespace nvm::api
