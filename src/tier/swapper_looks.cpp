// The observing half of the swapper: the hand that finds out which pages are used, wishes of the program, statistics,
// the check.
#include "tier/swapper.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cinttypes>

#include "base/unsteady.hpp"
#include "tier/extents.hpp"

namespace nvm::tier {
namespace {

constexpr std::uint64_t mapped_bit = std::uint64_t{1} << 63;  // of an entry of /proc/self/pagemap

}  // namespace

// ---- durations ----

void durations::add(std::uint64_t ns) noexcept {
  const unsigned octave = static_cast<unsigned>(std::bit_width(ns | 1)) - 1;
  const std::uint64_t part = octave < 3 ? 0 : ns >> (octave - 3) & (per_octave - 1);
  ++counts_[octave * per_octave + part];
  ++all_;
}

std::uint64_t durations::at(std::uint64_t per_mille) const noexcept {
  const std::uint64_t wanted = ceil_div(all_ * per_mille, std::uint64_t{1000});
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < counts_.size() && all_ != 0; ++i) {
    seen += counts_[i];
    if (seen < wanted) continue;
    const std::uint64_t octave = i / per_octave;
    const std::uint64_t part = i % per_octave + 1;
    return (std::uint64_t{1} << octave) + (octave < 3 ? part : part << (octave - 3));
  }
  return 0;
}

// ---- the hand ----

// Once round for each time that half of fast memory is given to other pages.  evicting_ is held.
void swapper::move_hand(unsigned leaving_now) noexcept {
  if (pagemap_ < 0) return;
  std::uint64_t pages = 0;
  {
    const std::lock_guard guard{lock_};
    pages = pages_known_;
  }
  if (pages == 0) return;
  hand_owes_ += leaving_now * ceil_div(2 * pages, limit());
  const std::uint64_t block = std::clamp<std::uint64_t>(limit() / 16, 16, hand_block);
  hand_owes_ = std::min(hand_owes_, 2 * pages);
  for (; hand_owes_ >= block; hand_owes_ -= block) {
    if (hand_ >= pages) hand_ = 0;
    const std::uint64_t count = std::min(block, pages - hand_);
    look_at_block(hand_, count);
    hand_ += count;
  }
}

void swapper::look_at_block(std::uint64_t first, std::uint64_t count) noexcept {
  std::array<std::uint64_t, hand_block> entries;
  const std::uint64_t at = reinterpret_cast<std::uintptr_t>(settings_.base) / page_bytes + first;
  const ssize_t got =
      ::pread(pagemap_, entries.data(), count * sizeof entries[0], static_cast<off_t>(at * sizeof entries[0]));
  if (got != static_cast<ssize_t>(count * sizeof entries[0])) return;
  std::uint64_t low = count, high = 0;
  {
    const std::lock_guard guard{lock_};
    for (std::uint64_t i = 0; i < count; ++i) {
      if ((entries[i] & mapped_bit) == 0) continue;
      const auto page = static_cast<page_t>(first + i);
      low = std::min(low, i);
      high = i + 1;
      if ((states()[page] & fresh_bit) != 0) {
        states()[page] &= static_cast<std::uint8_t>(~fresh_bit);
      } else if (const state now = state_of(page); now == clean || now == stored_to) {
        policy_->used(page);
      }
    }
  }
  // The pages stay in the file, and protected ones stay protected.
  if (low < high)
    (void)platform::drop_private_pages(address(static_cast<page_t>(first + low)), (high - low) * page_bytes);
}

bool swapper::is_mapped(page_t page) const noexcept {
  if (pagemap_ < 0) return false;
  std::uint64_t entry = 0;
  const std::uint64_t at = reinterpret_cast<std::uintptr_t>(address(page)) / page_bytes;
  return ::pread(pagemap_, &entry, sizeof entry, static_cast<off_t>(at * sizeof entry)) == sizeof entry &&
         (entry & mapped_bit) != 0;
}

bool swapper::referenced(page_t page) noexcept { return attached(page) || is_mapped(page); }

// ---- wishes and questions ----

void swapper::refer(std::uint64_t first, std::uint64_t count, bool referenced) noexcept {
  const std::lock_guard guard{lock_};
  for (std::uint64_t page = first; page < first + count; ++page) {
    states()[page] = static_cast<std::uint8_t>((states()[page] & ~referenced_bit) | (referenced ? referenced_bit : 0));
  }
}

status swapper::pin(std::uint64_t first, std::uint64_t count, pinned_by whom) noexcept {
  {
    const std::lock_guard guard{lock_};
    for (std::uint64_t page = first; page < first + count; ++page) {
      if (pins(whom)[page] != 0xFF) continue;
      return fail(errc::too_large, "page %" PRIu64 " has 255 pins already", page);
    }
    for (std::uint64_t page = first; page < first + count; ++page) ++pins(whom)[page];
  }
  // They come by being touched, whatever other threads store there.
  for (std::uint64_t page = first; page < first + count; ++page) {
    std::byte touched;
    copy_unsteady(&touched, address(static_cast<page_t>(page)), sizeof touched);
  }
  return {};
}

void swapper::unpin(std::uint64_t first, std::uint64_t count, pinned_by whom) noexcept {
  const std::lock_guard guard{lock_};
  for (std::uint64_t page = first; page < first + count; ++page) {
    if (pins(whom)[page] == 0) continue;
    --pins(whom)[page];
    if (is_pinned(static_cast<page_t>(page)) || (states()[page] & held_bit) == 0) continue;
    list_again(static_cast<page_t>(page));
  }
}

swapper_statistics swapper::statistics() noexcept {
  const std::lock_guard guard{lock_};
  swapper_statistics s = counts_;
  s.present = present_;
  s.dirty = static_cast<std::uint64_t>(dirty_);
  s.slow = slow_pages_;
  // Pages that were not in memory when the file's end was cut off are still counted.
  if (settings_.grows != nullptr) {
    const auto bytes = settings_.grows->size();
    if (bytes) s.slow = std::min(s.slow, (*bytes - std::min(*bytes, settings_.offset)) / page_bytes);
  }
  s.fault_ns_p50 = fault_ns_.at(500);
  s.fault_ns_p99 = fault_ns_.at(990);
  return s;
}

std::string swapper::why() {
  const std::lock_guard guard{lock_};
  return why_;
}

// A thread goes on when its page is there, a moment before the books say so.
void swapper::settle(std::unique_lock<std::mutex>& held) noexcept {
  if (!bringing_) return;
  ++settling_;
  settled_.wait(held, [this, now = counts_.faults] { return !bringing_ || counts_.faults != now; });
  --settling_;
}

result<std::uint64_t> swapper::present_at_rest() noexcept {
  {
    std::unique_lock held{lock_};
    settle(held);
  }
  std::uint64_t bytes = 0;
  const status s = each_extent(*settings_.fast, settings_.offset, settings_.offset + settings_.pages * page_bytes,
                               [&](std::uint64_t from, std::uint64_t to, bool in_file) noexcept -> status {
                                 bytes += in_file ? to - from : 0;
                                 return {};
                               });
  if (!s) return s.error();
  return bytes / page_bytes;
}

std::string swapper::check() {
  // Before the first lock, which the thread that brings pages may take.
  {
    std::unique_lock held{lock_};
    settle(held);
  }
  const std::lock_guard one{evicting_};
  const std::lock_guard guard{lock_};
  std::uint64_t there = 0;
  for (std::uint64_t page = 0; page < pages_known_; ++page) {
    const state now = state_of(static_cast<page_t>(page));
    if (now == lost) continue;
    if (now == coming || now == leaving) return "page " + std::to_string(page) + " is on its way, at rest";
    const std::uint64_t at = settings_.offset + page * page_bytes;
    const auto data = settings_.fast->next_data(at);
    if (!data) return last_message();
    const bool in_file = *data < at + page_bytes;
    if (in_file != (now != absent) && settings_.shared) {
      return "page " + std::to_string(page) + ": the fast file " + (in_file ? "has it" : "has a hole") +
             ", the books say state " + std::to_string(now);
    }
    there += now != absent ? 1 : 0;
  }
  if (there != present_) return std::to_string(there) + " pages present, counted " + std::to_string(present_);
  if (settings_.shared && policy_->size() + held_ != present_) {
    return std::to_string(policy_->size()) + " pages in the policy's lists, " + std::to_string(held_) + " held, " +
           std::to_string(present_) + " present";
  }
  return {};
}

}  // namespace nvm::tier
