// Which page leaves fast memory next.
//
// A policy is told which pages come, are used and go, and names victims.  It learns of use from a hand that goes round
// (swapper.hpp): used() at most once in a round for each page that was touched. A page that comes was touched by the
// thread that needed it; used() does not tell of that.  The host answers what a policy asks about a page:
//   dirty       leaving costs a write: the second file does not have its bytes
//   referenced  of an attached store, or touched since the hand passed (HEAPO, section II-E: mapped by a process)
//
// Policies here.
//   fifo           the oldest
//   lru            the one used longest ago
//   second_chance  the oldest, unless it was used: then it begins anew
//   cflru          clean first among the quarter of pages that were used longest ago; else the one used longest ago
//                  (Park et al., CASES 2006)
//   uflru          unreferenced first, clean first, as the paper has it: two lists (below)
//   steady         ours (below)
//
/// uflru.  Pages that come, and pages that are used, go to the head of the active list.  For a victim:
///   1. while the inactive list is shorter than the active one, the tail of the active list goes to the inactive one:
///      to its head if it is referenced or dirty, else to its tail
///   2. the victim is the tail of the inactive list
//
/// steady.  A small queue of pages on trial, a large one of pages that have passed it, and for each page the number of
/// victims when it left.
///   come    while no page has left yet: large queue. Back before as many victims as there are pages: large queue.
///           Else on trial.
///   victim  the trial queue's, while it is longer than a tenth; a page there that was used goes to the large queue.
///           Else the large queue's oldest, but a page that was used loses one of its uses and begins anew, and one
///           of an attached store is spared once for each time that it was seen to be used, and at first.
///           Among the 32 oldest those that were not used could leave: the first that is clean and of no attached store
///           is taken, then the first that is clean, then the oldest.
/// A scan passes through the trial queue and displaces nothing else; a loop over more pages than there is room for
/// keeps its first pages, and finds them each time round.
//
// Threads: one at a time.
#pragma once

#include <concepts>
#include <memory>

#include "nvm/tier.h"
#include "tier/page_queues.hpp"

namespace nvm::tier {

// What a policy may ask about a page that was not named a victim yet.
class page_host {
 public:
  [[nodiscard]] virtual bool dirty(page_t page) noexcept = 0;
  [[nodiscard]] virtual bool referenced(page_t page) noexcept = 0;
  // Whether the page is of an attached store: a part of referenced(), and cheaper.
  [[nodiscard]] virtual bool attached(page_t page) noexcept = 0;

 protected:
  ~page_host() = default;
};

template <class P>
concept policy = std::constructible_from<P, std::uint64_t> && requires(P& p, page_t page, page_host& host) {
  { P::name } -> std::convertible_to<const char*>;
  // Whether there was memory for its tables.
  { p.exists() } noexcept -> std::same_as<bool>;
  // The page is in fast memory; it was not before.
  { p.came(page) } noexcept;
  // It has been touched since it came, or since the last call of this.
  { p.used(page) } noexcept;
  // It has left, or must not be named any more.
  { p.gone(page) } noexcept;
  // The next to leave, which the policy forgets; no_page: it has none.
  { p.victim(host) } noexcept -> std::same_as<page_t>;
  // Pages that have come and not left.
  { p.size() } noexcept -> std::same_as<std::uint64_t>;
};

// Pages in one queue, the newest first.
class one_queue {
 public:
  explicit one_queue(std::uint64_t pages) noexcept : queues_{pages} {}
  [[nodiscard]] bool exists() const noexcept { return queues_.exists(); }
  void came(page_t page) noexcept { queues_.push_newest(0, page); }
  void gone(page_t page) noexcept { queues_.remove(page); }
  [[nodiscard]] std::uint64_t size() const noexcept { return queues_.size(0); }

 protected:
  void make_newest(page_t page) noexcept {
    if (queues_.queue_of(page) == 0) return;
    queues_.remove(page);
    queues_.push_newest(0, page);
  }
  // A page of the queue, or none.
  page_t take(page_t page) noexcept {
    if (page != no_page) queues_.remove(page);
    return page;
  }
  page_t take_oldest() noexcept { return take(queues_.oldest(0)); }

  page_queues<1> queues_;
};

class fifo : public one_queue {
 public:
  static constexpr const char* name = "fifo";
  using one_queue::one_queue;
  void used(page_t) noexcept {}
  [[nodiscard]] page_t victim(page_host&) noexcept { return take_oldest(); }
};

class lru : public one_queue {
 public:
  static constexpr const char* name = "lru";
  using one_queue::one_queue;
  void used(page_t page) noexcept { make_newest(page); }
  [[nodiscard]] page_t victim(page_host&) noexcept { return take_oldest(); }
};

class second_chance : public one_queue {
 public:
  static constexpr const char* name = "second_chance";
  using one_queue::one_queue;
  void came(page_t page) noexcept {
    queues_.mark(page) = 0;
    one_queue::came(page);
  }
  void used(page_t page) noexcept { queues_.mark(page) = 1; }
  [[nodiscard]] page_t victim(page_host&) noexcept {
    for (;;) {
      const page_t oldest = take_oldest();
      if (oldest == no_page || queues_.mark(oldest) == 0) return oldest;
      came(oldest);
    }
  }
};

class cflru : public one_queue {
 public:
  static constexpr const char* name = "cflru";
  using one_queue::one_queue;
  void used(page_t page) noexcept { make_newest(page); }
  [[nodiscard]] page_t victim(page_host& host) noexcept {
    page_t chosen = queues_.oldest(0);
    std::uint64_t left = size() / 4;
    for (page_t page = chosen; page != no_page && left != 0; page = queues_.newer_than(page), --left) {
      if (host.dirty(page)) continue;
      chosen = page;
      break;
    }
    return take(chosen);
  }
};

class uflru {
 public:
  static constexpr const char* name = "uflru";
  explicit uflru(std::uint64_t pages) noexcept : queues_{pages} {}
  [[nodiscard]] bool exists() const noexcept { return queues_.exists(); }
  void came(page_t page) noexcept { queues_.push_newest(active, page); }
  void used(page_t page) noexcept {
    if (queues_.queue_of(page) == 0) return;
    queues_.remove(page);
    queues_.push_newest(active, page);
  }
  void gone(page_t page) noexcept { queues_.remove(page); }
  [[nodiscard]] page_t victim(page_host& host) noexcept {
    while (queues_.size(inactive) < queues_.size(active)) {
      const page_t tail = queues_.oldest(active);
      queues_.remove(tail);
      if (host.referenced(tail) || host.dirty(tail)) {
        queues_.push_newest(inactive, tail);
      } else {
        queues_.push_oldest(inactive, tail);
      }
    }
    const page_t tail = queues_.oldest(inactive);
    if (tail != no_page) queues_.remove(tail);
    return tail;
  }
  [[nodiscard]] std::uint64_t size() const noexcept { return queues_.size(active) + queues_.size(inactive); }
  [[nodiscard]] bool is_active(page_t page) const noexcept { return queues_.queue_of(page) == active + 1; }

 private:
  static constexpr unsigned active = 0, inactive = 1;
  page_queues<2> queues_;
};

class steady {
 public:
  static constexpr const char* name = "steady";
  explicit steady(std::uint64_t pages) noexcept : queues_{pages}, left_{pages * sizeof(std::uint32_t)} {}
  [[nodiscard]] bool exists() const noexcept { return queues_.exists() && left_.data() != nullptr; }
  void came(page_t page) noexcept {
    queues_.mark(page) = 0;
    const std::uint32_t left = left_at(page);
    const bool back_soon = left != 0 && victims_ - left < size();
    queues_.push_newest(victims_ == 0 || back_soon ? stood : trial, page);
  }
  void used(page_t page) noexcept {
    std::uint8_t& uses = queues_.mark(page);
    uses &= uses_bits;
    if (uses < uses_max) ++uses;
  }
  void gone(page_t page) noexcept { queues_.remove(page); }
  [[nodiscard]] page_t victim(page_host& host) noexcept;
  [[nodiscard]] std::uint64_t size() const noexcept { return queues_.size(trial) + queues_.size(stood); }

 private:
  static constexpr unsigned trial = 0, stood = 1;
  static constexpr std::uint8_t uses_max = 3;
  static constexpr std::uint8_t uses_bits = 0x7F;
  static constexpr std::uint8_t spared_bit = 0x80;
  static constexpr unsigned looked_at = 32;
  [[nodiscard]] std::uint32_t& left_at(page_t page) noexcept { return static_cast<std::uint32_t*>(left_.data())[page]; }
  [[nodiscard]] page_t cheapest(unsigned queue, page_host& host) noexcept;

  page_queues<2> queues_;         // marks: uses since it came or was examined, and whether it was spared
  platform::zeroed_memory left_;  // victims when the page left, 0: never
  std::uint32_t victims_ = 0;     // wraps after 2^32: one wrong guess for each page
};

// Among the oldest that were not used.
inline page_t steady::cheapest(unsigned queue, page_host& host) noexcept {
  page_t chosen = no_page;
  bool chosen_clean = false;
  unsigned left = looked_at;
  for (page_t page = queues_.oldest(queue); page != no_page && left != 0; page = queues_.newer_than(page), --left) {
    if ((queues_.mark(page) & uses_bits) != 0) continue;
    const bool clean = !host.dirty(page);
    if (clean && !host.attached(page)) return page;
    if (chosen == no_page || (clean && !chosen_clean)) {
      chosen = page;
      chosen_clean = clean;
    }
  }
  return chosen;
}

inline page_t steady::victim(page_host& host) noexcept {
  // Each round takes a use away, spares a page, or moves one out of the trial: so the loop ends.
  for (;;) {
    const bool from_trial = queues_.size(trial) != 0 && queues_.size(trial) >= size() / 10;
    const unsigned queue = from_trial || queues_.size(stood) == 0 ? trial : stood;
    const page_t oldest = queues_.oldest(queue);
    if (oldest == no_page) return no_page;
    std::uint8_t& mark = queues_.mark(oldest);
    const bool was_used = (mark & uses_bits) != 0;
    if (was_used || ((mark & spared_bit) == 0 && host.attached(oldest))) {
      queues_.remove(oldest);
      mark = static_cast<std::uint8_t>(!was_used ? mark | spared_bit : queue == trial ? mark & spared_bit : mark - 1);
      queues_.push_newest(stood, oldest);
      continue;
    }
    const page_t chosen = cheapest(queue, host);
    queues_.remove(chosen);
    if (++victims_ == 0) ++victims_;
    left_at(chosen) = victims_;
    return chosen;
  }
}

static_assert(policy<fifo> && policy<lru> && policy<second_chance> && policy<cflru> && policy<uflru> && policy<steady>);

// A policy that is chosen at run time.
class any_policy {
 public:
  virtual ~any_policy() = default;
  any_policy(const any_policy&) = delete;
  any_policy& operator=(const any_policy&) = delete;
  [[nodiscard]] virtual const char* name() const noexcept = 0;
  virtual void came(page_t page) noexcept = 0;
  virtual void used(page_t page) noexcept = 0;
  virtual void gone(page_t page) noexcept = 0;
  [[nodiscard]] virtual page_t victim(page_host& host) noexcept = 0;
  [[nodiscard]] virtual std::uint64_t size() const noexcept = 0;

 protected:
  any_policy() noexcept = default;
};

// For pages 0 to `pages` - 1.  errc::no_memory; errc::invalid: `which` is none of enum nvm_tier_policy.
[[nodiscard]] result<std::unique_ptr<any_policy>> make_policy(std::uint32_t which, std::uint64_t pages) noexcept;
// "?": none.
[[nodiscard]] const char* policy_name(std::uint32_t which) noexcept;

}  // namespace nvm::tier
