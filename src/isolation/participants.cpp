#include "isolation/participants.hpp"

#include <algorithm>
#include <new>
#include <thread>

#include "isolation/orec.hpp"
#include "isolation/patience.hpp"

namespace nvm::isolation {

constinit std::atomic<participant*> participant::list{nullptr};
constinit std::atomic<participant*> participant::serial_owner{nullptr};

namespace {
// Served in order: whoever asks first runs alone first.
alignas(line_bytes) constinit std::atomic<std::uint64_t> next_ticket{0};
constinit std::atomic<std::uint64_t> now_served{0};
constinit std::atomic<std::uint64_t> made{0};
}  // namespace

participant* participant::join_list() noexcept {
  for (participant* p = list.load(std::memory_order_acquire); p != nullptr; p = p->next_) {
    // acquire: pairs with the release in leave_list().
    if (!p->taken_.load(std::memory_order_relaxed) && !p->taken_.exchange(true, std::memory_order_acquire)) return p;
  }
  const std::uint64_t number = made.fetch_add(1, std::memory_order_relaxed);
  auto* p = number < orec_word::owners_max ? new (std::nothrow) participant : nullptr;
  if (p == nullptr) return nullptr;
  p->number_ = number;
  p->next_ = list.load(std::memory_order_relaxed);
  // release: pairs with the acquire of whoever walks the list.
  while (!list.compare_exchange_weak(p->next_, p, std::memory_order_release, std::memory_order_relaxed)) {
  }
  return p;
}

void participant::leave_list() noexcept { taken_.store(false, std::memory_order_release); }

void participant::wait_outside() noexcept {
  do {
    leave();
    // acquire: pairs with end_serial(): what the thread that was alone did.
    wait_until([] { return serial_owner.load(std::memory_order_acquire) == nullptr; });
    active_.exchange(inside_since(version_clock::of_process().now()), std::memory_order_seq_cst);
  } while (serial_owner.load(std::memory_order_seq_cst) != nullptr);
}

void participant::enter_alone(const void* subject) noexcept {
  subject_.store(subject, std::memory_order_relaxed);
  const std::uint64_t mine = next_ticket.fetch_add(1, std::memory_order_relaxed);
  // acquire: pairs with the release in end_serial().
  wait_until([mine] { return now_served.load(std::memory_order_acquire) == mine; });
  serial_owner.store(this, std::memory_order_seq_cst);
  each([this](participant& p) {
    // acquire: pairs with the release in leave(): what its transactions did.
    if (&p != this) wait_until([&p] { return p.active_.load(std::memory_order_seq_cst) == 0; });
  });
  active_.exchange(inside_since(version_clock::of_process().now()), std::memory_order_seq_cst);
}

void participant::end_serial() noexcept {
  serial_owner.store(nullptr, std::memory_order_release);
  now_served.fetch_add(1, std::memory_order_release);
}

void participant::wait_for_older(std::uint64_t version) const noexcept {
  // seq_cst: after the draw of `version`, see the handshake above.
  each([&](const participant& p) {
    if (&p == this) return;
    wait_until([&] {
      const std::uint64_t since = p.active_.load(std::memory_order_seq_cst);
      return since == 0 || since >= inside_since(version);
    });
  });
}

bool participant::outwait_older(std::uint64_t version) const noexcept {
  for (unsigned round = 0; oldest_of_others(version) < version; ++round) {
    if (round == 400) return false;
    std::this_thread::yield();
  }
  return true;
}

std::uint64_t participant::oldest_of_others(std::uint64_t limit) const noexcept {
  std::uint64_t oldest = limit;
  each([&](const participant& p) {
    if (&p == this) return;
    const std::uint64_t since = p.active_.load(std::memory_order_seq_cst);
    if (since != 0) oldest = std::min(oldest, since >> 1);
  });
  return oldest;
}

bool participant::any_inside(const void* subject) noexcept {
  bool found = false;
  each([&](const participant& p) {
    found = found ||
            (p.active_.load(std::memory_order_acquire) != 0 && p.subject_.load(std::memory_order_relaxed) == subject);
  });
  return found;
}

}  // namespace nvm::isolation
