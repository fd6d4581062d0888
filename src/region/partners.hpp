// Partners: slots that small regions have beside their own, for stores in place (Lewat, section IV-A: REWBL).
//
// A *replica* has the bytes of a region as they were before its last change.  A change goes in place and becomes
// durable with the new sum of the region; recovery, which looks at replicas, finds that the region has that sum, or
// puts the replica's bytes back.
//
// Or the region has two *copies*, one in its place and one in the partner.  A change writes all of the older one, with
// its sum and the next sequence number; recovery takes the newest whose sum holds.  Nothing is left to do afterwards.
//
/// Given.      S bytes of the region, both sums; F them;   | region/E10  before the replica is named
///             S owner; F it;                              | region/E11  before the region is stored to
/// Update.     S new sum of the region, bytes in place; F them;
///                                                         | region/E12  the commit point
/// Caught up.  S those bytes in the replica, its sum; F;   | region/E13  before the region is stored to again
/// Given away. S owner 0; F it;                            | region/E14  before the replica has other bytes
/// Recovery.   S bytes put back, and their sum; F all;     | region/E15  what failed has left no sum, and what has not
///                                                                     is durable before the replica gets it
//
/// Two copies. S the other one, sums, sequences; F them;  | region/E16  both are whole before they are named
///             S owner; F it;                              | region/E17  the commit point of the first change
/// Update.     S sum, sequence, the other one; F them;     | region/E18  the commit point
/// Recovery.   S sum and sequence 0 of a copy that fails;  | region/E15
//
// Beside the log.  While a region has a partner that is named, no record that leads to the region counts: the log is
// truncated to the region's newest record before.  Every other change of the region (of several regions at once, its
// header, a record, a move) makes the owner zero by the same record, and the partner is free when that record stops
// counting.  So if recovery, which replays records first, meets a partner and a record of one region, the record is
// newer, and frees the partner.  Bytes that are newer in the partner than in the region's place go there before such a
// record, fenced by region/E2: recovery takes them from the one or from the other.
//
// The sum of a failed change is replaced by that of the bytes put back before the region can be changed again: a later
// change might pass through the very bytes that the old sum proves (holes R1 to R7 of docs/design/023).
//
// Threads.  A partner is used by the thread that holds its region.  One lock guards which region has which partner;
// under it locks of regions are taken only if they are free.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <vector>

#include "base/base.hpp"
#include "base/plant.hpp"
#include "isolation/isolation.hpp"
#include "media/media.hpp"
#include "region/entry.hpp"
#include "region/places.hpp"

namespace nvm::region {

// State of a partner, used by the thread that holds its region.
struct partner_state {
  std::atomic<entry*> of{nullptr};  // changed under the lock of all
  std::uint64_t offset = 0;         // of its line
  std::uint8_t in_class = 0;
  layout::partner_kind kind = layout::partner_kind::none;
  std::atomic<bool> used{false};    // updated since the hand has passed
  std::atomic<bool> behind{false};  // it lacks bytes of its region:
  std::uint64_t low = 0, high = 0;  // these bytes
  std::uint64_t sequence = 0;       // of the newest copy
  bool newest_here = false;         // the newest bytes are here, not in the region's place

  [[nodiscard]] std::uint64_t bytes_at() const noexcept { return offset + sizeof(layout::partner); }
};

// The partners of one set, by number, from 1 on.
class partners {
 public:
  static constexpr std::uint32_t count_max = 1U << 18;

  [[nodiscard]] partner_state& at(std::uint32_t i) const noexcept {
    // acquire: pairs with add().
    return chunks_[i / chunk].load(std::memory_order_acquire)[i % chunk];
  }
  // 0: there are too many, or no volatile memory.
  [[nodiscard]] std::uint32_t add(entry& e, std::uint64_t offset, unsigned in_class, layout::partner_kind kind) noexcept
      try {
    const std::lock_guard guard{lock_};
    std::uint32_t i = last_ + 1;
    if (!unused_.empty()) {
      i = unused_.back();
      unused_.pop_back();
    } else if (!reserve(i)) {
      return 0;
    } else {
      last_ = i;
    }
    partner_state& p = at(i);
    p.offset = offset;
    p.in_class = static_cast<std::uint8_t>(in_class);
    p.kind = kind;
    p.low = p.high = p.sequence = 0;
    p.newest_here = false;
    p.behind.store(false, std::memory_order_relaxed);
    p.used.store(true, std::memory_order_relaxed);
    p.of.store(&e, std::memory_order_relaxed);
    if (kind == layout::partner_kind::replica) ++replicas_;
    return i;
  } catch (const std::bad_alloc&) {
    return 0;
  }
  void remove(std::uint32_t i) noexcept {
    const std::lock_guard guard{lock_};
    at(i).of.store(nullptr, std::memory_order_relaxed);
    unused_.push_back(i);  // there is room: reserve()
    if (at(i).kind == layout::partner_kind::replica) --replicas_;
  }

  [[nodiscard]] std::uint64_t count() const noexcept {
    const std::lock_guard guard{lock_};
    return last_ - unused_.size();
  }
  // How many replicas there may be before one is taken from a region for another.
  void limit(std::uint32_t most) noexcept { most_.store(most, std::memory_order_relaxed); }
  [[nodiscard]] bool full() const noexcept {
    const std::lock_guard guard{lock_};
    return replicas_ >= most_.load(std::memory_order_relaxed);
  }
  // A replica whose region has not been updated since the last round, with the region held; 0: there is none.  Round
  // robin, so that all of them wear alike.
  [[nodiscard]] std::uint32_t hold_least_recent() noexcept {
    const std::lock_guard guard{lock_};
    for (std::uint32_t steps = 0; steps < 2 * last_; ++steps) {
      hand_ = hand_ >= last_ ? 1 : hand_ + 1;
      partner_state& p = at(hand_);
      entry* const e = p.of.load(std::memory_order_relaxed);
      if (e == nullptr || p.kind != layout::partner_kind::replica) continue;
      if (p.used.exchange(false, std::memory_order_relaxed)) continue;
      if (e->lock.try_hold_for_a_moment()) return hand_;
    }
    return 0;
  }
  // Holds the regions of up to all.size() partners that lag, from number `from` on, which it advances.
  [[nodiscard]] std::size_t hold_behind(std::uint32_t& from, std::span<std::uint32_t> all,
                                        layout::partner_kind kind) noexcept {
    const std::lock_guard guard{lock_};
    std::size_t n = 0;
    for (; from <= last_ && n < all.size(); ++from) {
      const partner_state& p = at(from);
      entry* const e = p.of.load(std::memory_order_relaxed);
      if (e != nullptr && p.kind == kind && p.behind.load(std::memory_order_relaxed) && e->lock.try_hold_for_a_moment())
        all[n++] = from;
    }
    return n;
  }

 private:
  static constexpr std::uint32_t chunk = 256;

  // May throw std::bad_alloc.
  [[nodiscard]] bool reserve(std::uint32_t i) {
    if (i >= count_max) return false;
    unused_.reserve(round_up(i + 1, chunk));
    if (chunks_[i / chunk].load(std::memory_order_relaxed) != nullptr) return true;
    owned_.push_back(std::make_unique<partner_state[]>(chunk));
    chunks_[i / chunk].store(owned_.back().get(), std::memory_order_release);
    return true;
  }

  mutable std::mutex lock_;
  std::array<std::atomic<partner_state*>, count_max / chunk> chunks_{};
  std::vector<std::unique_ptr<partner_state[]>> owned_;
  std::vector<std::uint32_t> unused_;
  std::uint32_t last_ = 0;
  std::uint32_t replicas_ = 0;
  std::uint32_t hand_ = 0;
  std::atomic<std::uint32_t> most_{0};
};

// ---- on media ------------------------------------------------------------------------------------------------------

[[nodiscard]] inline std::uint64_t sum_of(const void* bytes, std::uint64_t n, std::uint64_t header,
                                          std::uint64_t key) noexcept {
  return checksum(bytes, n, mix_seed(mix_seed(key, header), n));
}
[[nodiscard]] inline layout::partner& partner_at(std::byte* base, std::uint64_t offset) noexcept {
  return *reinterpret_cast<layout::partner*>(base + offset);
}
[[nodiscard]] inline std::uint64_t owner_word(std::uint64_t line, std::uint64_t header,
                                              layout::partner_kind kind) noexcept {
  const std::uint64_t content = header | std::uint64_t(kind) << layout::owner_bits;
  return seal_word(content, word_seed(line + offsetof(layout::partner, owner)));
}
// Where the line's owner is.
[[nodiscard]] constexpr std::uint64_t owner_at(std::uint64_t line) noexcept {
  return line + offsetof(layout::partner, owner);
}

// Stores to the bytes of partners and their regions.
template <media M>
class partner_stores {
 public:
  partner_stores(M& medium, std::byte* base, std::uint64_t key) noexcept : medium_{medium}, base_{base}, key_{key} {}

  // Gives a partner to the region, which is held, and to which no record leads that counts.
  void give(const partner_state& p, const entry& e) noexcept {
    layout::partner& line = partner_at(base_, p.offset);
    const std::uint64_t n = e.written.load(std::memory_order_relaxed);
    line.rid = e.rid;
    line.sum[0] = line.sum[1] = sum_of(base_ + e.home(), n, e.header, key_);
    line.sequence[0] = line.sequence[1] = 0;
    std::memset(line.reserved, 0, sizeof line.reserved);
    medium_.flush(&line, sizeof line);
    if (!planted(plant::replica_not_filled)) copy(p.bytes_at(), e.home(), n);
    medium_.fence(edge{"region/E10"});
    line.owner = owner_word(p.offset, e.header, p.kind);
    medium_.flush(&line.owner, 8);
    medium_.fence(edge{"region/E11"});
  }
  // Stores the sum of the region's new bytes.
  void promise(const partner_state& p, const entry& e, const std::byte* becomes) noexcept {
    layout::partner& line = partner_at(base_, p.offset);
    line.sum[0] = sum_of(becomes, e.written.load(std::memory_order_relaxed), e.header, key_);
    medium_.flush(&line.sum[0], 8);
  }
  // have_caught_up() comes before a region is stored to again.
  void catch_up(const partner_state& p, const entry& e) noexcept {
    layout::partner& line = partner_at(base_, p.offset);
    if (p.kind == layout::partner_kind::copies) {
      // The older copy is voided: recovery would otherwise take damage of the newer for a torn change.
      const unsigned older = p.newest_here ? 0 : 1;
      line.sum[older] = line.sequence[older] = 0;
      medium_.flush(&line, sizeof line);  // the older one's
      return;
    }
    copy(p.bytes_at() + p.low, e.home() + p.low, p.high - p.low);
    line.sum[1] = line.sum[0];
    medium_.flush(&line.sum[1], 8);
  }
  void have_caught_up() noexcept { medium_.fence(edge{"region/E13"}); }
  void give_away(const partner_state& p) noexcept {
    if (planted(plant::replica_given_early)) return;
    layout::partner& line = partner_at(base_, p.offset);
    line.owner = 0;
    medium_.flush(&line.owner, 8);
    medium_.fence(edge{"region/E14"});
  }

  // Stores sum and sequence of the copy `which`: 0 in the region's place, 1 in the partner.
  void promise_copy(const partner_state& p, const entry& e, unsigned which, std::uint64_t sequence,
                    const std::byte* bytes) noexcept {
    layout::partner& line = partner_at(base_, p.offset);
    line.sum[which] = sum_of_copy(bytes, e, sequence);
    line.sequence[which] = sequence;
  }
  // Makes the region one with two copies, the newer one in the partner.  No record that counts leads to it.
  void begin_copies(partner_state& p, const entry& e, const std::byte* becomes) noexcept {
    layout::partner& line = partner_at(base_, p.offset);
    line.rid = e.rid;
    std::memset(line.reserved, 0, sizeof line.reserved);
    promise_copy(p, e, 0, 1, base_ + e.home());
    promise_copy(p, e, 1, 2, becomes);
    medium_.flush(&line, sizeof line);
    put(p.bytes_at(), becomes, e.written.load(std::memory_order_relaxed));
    medium_.fence(edge{"region/E16"});
    line.owner = owner_word(p.offset, e.header, p.kind);
    medium_.flush(&line.owner, 8);
    medium_.fence(edge{"region/E17"});
    p.sequence = 2;
    p.newest_here = true;
    p.behind.store(true, std::memory_order_relaxed);
  }
  void write_copy(partner_state& p, const entry& e, const std::byte* becomes) noexcept {
    layout::partner& line = partner_at(base_, p.offset);
    const unsigned which = p.newest_here ? 0 : 1;
    promise_copy(p, e, which, p.sequence + 1, becomes);
    medium_.flush(&line, sizeof line);
    put(which == 0 ? e.home() : p.bytes_at(), becomes, e.written.load(std::memory_order_relaxed));
    medium_.fence(edge{"region/E18"});
    ++p.sequence;
    p.newest_here = !p.newest_here;
    p.behind.store(true, std::memory_order_relaxed);
  }
  // Stores the first bytes of the region from the partner; the caller fences.
  void bring_home(const partner_state& p, const entry& e, std::uint64_t n) noexcept {
    if (!planted(plant::copy_not_home)) copy(e.home(), p.bytes_at(), n);
  }

  // Whether a region whose partner is damaged is whole nevertheless, and where it belongs.
  [[nodiscard]] bool home_is_whole(const layout::partner& line, const entry& e) const noexcept {
    const std::uint64_t n = e.written.load(std::memory_order_relaxed);
    const std::byte* const home = base_ + e.home();
    if (line.sequence[0] == 0 && line.sequence[1] == 0) return line.sum[0] == sum_of(home, n, e.header, key_);
    return line.sequence[0] > line.sequence[1] && line.sum[0] == sum_of_copy(home, e, line.sequence[0]);
  }

  // Settles a partner after a crash; the caller fences.  `back`: the region got the replica's bytes; otherwise the
  // replica lags, and before it gets bytes that a killed process has left in caches, the region has to be durable.
  // Returns nullptr, or what is wrong with them.
  [[nodiscard]] const char* settle(partner_state& p, entry& e, bool& back) noexcept {
    if (p.kind == layout::partner_kind::copies) return settle_copies(p, e, back);
    layout::partner& line = partner_at(base_, p.offset);
    const std::uint64_t n = e.written.load(std::memory_order_relaxed);
    back = sum_of(base_ + e.home(), n, e.header, key_) != line.sum[0];
    if (back) {
      if (sum_of(base_ + p.bytes_at(), n, e.header, key_) != line.sum[1]) {
        return "a region fails its sum, and its replica as well";
      }
      std::memcpy(base_ + e.home(), base_ + p.bytes_at(), n);
      if (!planted(plant::failed_sum_kept)) line.sum[0] = line.sum[1];
    } else {
      p.high = n;
      p.behind.store(true, std::memory_order_relaxed);
    }
    medium_.flush(base_ + e.home(), n);
    medium_.flush(&line, sizeof line);
    return nullptr;
  }

 private:
  [[nodiscard]] const char* settle_copies(partner_state& p, entry& e, bool& back) noexcept {
    layout::partner& line = partner_at(base_, p.offset);
    const std::uint64_t places[2] = {e.home(), p.bytes_at()};
    bool holds[2];
    for (unsigned i = 0; i < 2; ++i) {
      holds[i] = line.sequence[i] != 0 && line.sum[i] == sum_of_copy(base_ + places[i], e, line.sequence[i]);
    }
    if (!holds[0] && !holds[1]) return "a region has two copies, and both fail their sums";
    const unsigned newest = !holds[0] || (holds[1] && line.sequence[1] > line.sequence[0]) ? 1 : 0;
    p.sequence = line.sequence[newest];
    p.newest_here = newest == 1;
    e.place.store(places[newest], std::memory_order_relaxed);
    back = line.sequence[1 - newest] > p.sequence;
    p.behind.store(line.sequence[1 - newest] != 0, std::memory_order_relaxed);
    if (!holds[1 - newest] && !planted(plant::failed_sum_kept)) line.sum[1 - newest] = line.sequence[1 - newest] = 0;
    // A killed process may have left both in caches.
    medium_.flush(base_ + places[newest], e.written.load(std::memory_order_relaxed));
    medium_.flush(&line, sizeof line);
    return nullptr;
  }
  [[nodiscard]] std::uint64_t sum_of_copy(const std::byte* bytes, const entry& e,
                                          std::uint64_t sequence) const noexcept {
    return sum_of(bytes, e.written.load(std::memory_order_relaxed), e.header, mix_seed(key_, sequence));
  }
  // Readers that began earlier may look there.
  void put(std::uint64_t to, const std::byte* from, std::uint64_t n) noexcept {
    isolation::copy_in(base_ + to, from, n);
    medium_.flush(base_ + to, n);
  }
  void copy(std::uint64_t to, std::uint64_t from, std::uint64_t n) noexcept { put(to, base_ + from, n); }

  M& medium_;
  std::byte* base_;
  const std::uint64_t key_;
};

}  // namespace nvm::region
