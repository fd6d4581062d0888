#include "isolation/participants.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <new>
#include <thread>

#include "isolation/orec.hpp"
#include "isolation/patience.hpp"
#include "sync/sync.hpp"

namespace nvm::isolation {

constinit std::atomic<participant*> participant::list{nullptr};
constinit std::atomic<participant*> participant::serial_owner{nullptr};
constinit std::atomic<participant*> participant::favourite{nullptr};
constinit std::atomic<bool> participant::unfenced{false};

namespace {
// Tickets, served in order: the thread that asks first runs alone first.
alignas(line_bytes) constinit std::atomic<std::uint64_t> next_ticket{0};
constinit std::atomic<std::uint64_t> now_served{0};
// Waits until nobody is left before this thread, as before() says.  With hundreds that wait, the one they wait for
// would find no processor if all looked all the time: the more are before a thread, the longer it sleeps.
template <class Before>
void wait_in_turn(Before&& before) noexcept {
  constexpr unsigned rounds_awake = 64;
  constexpr std::uint64_t most = 200;
  for (unsigned round = 0;; ++round) {
    const std::uint64_t left = before();
    if (left == 0) return;
    if (left == 1 || round < rounds_awake) {
      pause_in_round(round);
    } else {
      const platform::uncancelled until_awake;
      std::this_thread::sleep_for(std::chrono::microseconds{50} * std::min(left, most));
    }
  }
}
constinit spin_lock list_lock;
constinit std::uint64_t made = 0;  // under list_lock
// Stands in for the favourite while its favour is being ended: a thread that enters waits for the lock until the
// favourite is not busy.
constinit participant ending;

// Barrier between a store of this thread and its loads of what other threads store before they load that word.
void barrier_for_all(const std::atomic<bool>& unfenced) noexcept {
  if (unfenced.load(std::memory_order_relaxed)) {
    platform::fence_all_threads();
  } else {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
}
}  // namespace

participant* participant::join_list() noexcept {
  const std::lock_guard guard{list_lock};
  participant* mine = nullptr;
  each([&](participant& p) {
    if (!p.taken_) mine = &p;
  });
  if (mine == nullptr) {
    mine = made < orec_word::owners_max ? new (std::nothrow) participant : nullptr;
    if (mine == nullptr) return nullptr;
    // relaxed: a thread that enters has been here; before that, other threads see no participant at all.
    if (made == 0) unfenced.store(platform::can_fence_all_threads(), std::memory_order_relaxed);
    mine->number_ = made++;
    mine->next_ = list.load(std::memory_order_relaxed);
    // release: pairs with the acquire of a thread that walks the list.
    list.store(mine, std::memory_order_release);
  }
  mine->taken_ = true;
  mine->quiet_ = 0;
  mine->patience_.store(patience_first, std::memory_order_relaxed);
  return mine;
}

void participant::leave_list() noexcept {
  const std::lock_guard guard{list_lock};
  taken_ = false;
  if (favourite.load(std::memory_order_relaxed) == this) favourite.store(nullptr, std::memory_order_relaxed);
}

std::uint64_t participant::others_entered() const noexcept {
  std::uint64_t sum = 0;
  each([&](const participant& p) {
    if (&p != this) sum += p.entered_.load(std::memory_order_relaxed);
  });
  return sum;
}

void participant::ask_for_favour() noexcept {
  quiet_ = 0;
  const std::uint64_t others = others_entered();
  const bool was_quiet = others == others_then_;
  others_then_ = others;
  if (!was_quiet || !unfenced.load(std::memory_order_relaxed)) return;
  const std::lock_guard guard{list_lock};
  if (favourite.load(std::memory_order_relaxed) != nullptr) return;
  // release: pairs with in_peace(), which this thread itself calls.  Any thread that enters after this waits for the
  // lock.
  favourite.store(this, std::memory_order_release);
  barrier_for_all(unfenced);
  each([this](const participant& p) {
    // acquire: pairs with the release in leave(): what its transactions did.
    if (&p != this && p.active_.load(std::memory_order_acquire) != 0) {
      favourite.store(nullptr, std::memory_order_relaxed);
    }
  });
}

void participant::end_favour() noexcept {
  const std::lock_guard guard{list_lock};
  end_favour_locked();
}

std::uint64_t participant::draw_outside() noexcept {
  // Under the lock no thread can become the favourite, and only that one draws by plain stores.
  const std::lock_guard guard{list_lock};
  end_favour_locked();
  return version_clock::of_process().next();
}

void participant::end_favour_locked() noexcept {
  participant* const first = favourite.load(std::memory_order_relaxed);
  if (first == nullptr) return;
  favourite.store(&ending, std::memory_order_relaxed);
  barrier_for_all(unfenced);
  // acquire: pairs with the release in in_peace().
  wait_until([first] { return !first->busy_.load(std::memory_order_acquire); });
  // release: pairs with enter(): a thread that finds no favourite sees what the last one did.
  favourite.store(nullptr, std::memory_order_release);
  const std::uint64_t patience = first->patience_.load(std::memory_order_relaxed);
  first->patience_.store(std::min(patience * 8, patience_max), std::memory_order_relaxed);
}

void participant::wait_outside() noexcept {
  do {
    leave();
    // acquire: pairs with end_serial(): what the thread that was alone did.
    wait_in_turn([]() -> std::uint64_t {
      if (serial_owner.load(std::memory_order_acquire) == nullptr) return 0;
      // relaxed: how long to sleep.
      return 1 + next_ticket.load(std::memory_order_relaxed) - now_served.load(std::memory_order_relaxed);
    });
    publish();
  } while (serial_owner.load(std::memory_order_seq_cst) != nullptr);
}

void participant::enter_alone(const void* subject) noexcept {
  subject_.store(subject, std::memory_order_relaxed);
  const std::uint64_t mine = next_ticket.fetch_add(1, std::memory_order_relaxed);
  // acquire: pairs with the release in end_serial().
  wait_in_turn([mine] { return mine - now_served.load(std::memory_order_acquire); });
  serial_owner.store(this, std::memory_order_seq_cst);
  barrier_for_all(unfenced);
  each([this](participant& p) {
    // acquire: pairs with the release in leave(): what its transactions did.
    if (&p != this) wait_until([&p] { return p.active_.load(std::memory_order_seq_cst) == 0; });
  });
  publish();
}

void participant::end_serial() noexcept {
  serial_owner.store(nullptr, std::memory_order_release);
  now_served.fetch_add(1, std::memory_order_release);
}

void participant::wait_for_older(std::uint64_t version) noexcept {
  barrier_for_all(unfenced);
  each([&](const participant& p) {
    if (&p == this) return;
    wait_until([&] {
      const std::uint64_t since = p.active_.load(std::memory_order_seq_cst);
      return since == 0 || since >= inside_since(version);
    });
  });
}

bool participant::outwait_older(std::uint64_t version) noexcept {
  for (unsigned round = 0; oldest_of_others(version) < version; ++round) {
    if (round == 400) return false;
    std::this_thread::yield();
  }
  return true;
}

std::uint64_t participant::oldest_of_others(std::uint64_t limit) noexcept {
  std::uint64_t oldest = limit;
  barrier_for_all(unfenced);
  each([&](const participant& p) {
    if (&p == this) return;
    const std::uint64_t since = p.active_.load(std::memory_order_seq_cst);
    if (since != 0) oldest = std::min(oldest, since >> 1);
  });
  return oldest;
}

bool participant::any_inside(const void* subject) noexcept {
  bool found = false;
  barrier_for_all(unfenced);
  each([&](const participant& p) {
    found = found ||
            (p.active_.load(std::memory_order_acquire) != 0 && p.subject_.load(std::memory_order_relaxed) == subject);
  });
  return found;
}

visits visits::now(const void* subject) {
  visits all;
  barrier_for_all(participant::unfenced);
  // acquire: pairs with the release in join_list().
  for (const participant* p = participant::list.load(std::memory_order_acquire); p != nullptr; p = p->next_) {
    if (p->active_.load(std::memory_order_acquire) == 0) continue;
    if (p->subject_.load(std::memory_order_relaxed) != subject) continue;
    // Of the transaction that was inside, or of one that has come since.
    all.under_way_.push_back({p, p->entered_.load(std::memory_order_relaxed)});
  }
  return all;
}

bool visits::over() noexcept {
  std::erase_if(under_way_, [](const visit& v) {
    // acquire: pairs with the release in leave(), and with that of the thread's next visit: what the transaction did.
    return v.who->active_.load(std::memory_order_acquire) == 0 ||
           v.who->entered_.load(std::memory_order_acquire) != v.number;
  });
  return under_way_.empty();
}

bool participant::wait_for_leaving(const void* subject, std::uint64_t patience_ns) noexcept {
  barrier_for_all(unfenced);
  const std::uint64_t until = platform::monotonic_ns() + patience_ns;
  bool all = true;
  each([&](const participant& p) {
    const std::uint64_t then = p.entered_.load(std::memory_order_relaxed);
    const auto is_inside = [&] {
      // acquire: pairs with the releases in leave() and in publish(): what its transactions did.
      return p.active_.load(std::memory_order_acquire) != 0 && p.entered_.load(std::memory_order_acquire) == then &&
             p.subject_.load(std::memory_order_relaxed) == subject;
    };
    while (all && is_inside()) {
      all = platform::monotonic_ns() < until;
      std::this_thread::yield();
    }
  });
  return all;
}

}  // namespace nvm::isolation
