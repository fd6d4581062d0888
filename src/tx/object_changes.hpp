// The objects that an open transaction allocates and frees, for every engine: reserving them, giving them up with a
// level, and the intents of those that remain.
//
// Threads: one, the one that holds the lane.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <new>
#include <vector>

#include "log/log.hpp"
#include "media/media.hpp"
#include "space/space.hpp"

namespace nvm::tx {

inline constexpr std::size_t no_allocation = ~std::size_t{0};

// Calls visit(offset, bytes, old bytes) for the entries of an undo log that are of objects from before the transaction,
// the oldest version of a place last.
template <class Entries, class Visit>
void each_older_version(const Entries& undo, Visit&& visit) {
  for (auto u = undo.rbegin(); u != undo.rend(); ++u) {
    if (u->allocation == no_allocation) visit(u->offset, u->bytes, u->old);
  }
}

template <media M, log::settler S>
class object_changes {
 public:
  using space_type = space<M, S>;
  struct allocation {
    typename space_type::reservation place;
    std::uint64_t bytes;
    bool freed;  // by this transaction, at its commit
    layout::object_layout layout;
  };
  struct mark {
    std::size_t allocations, frees;
  };

  object_changes(std::byte* base, space_type& space, unsigned lane) noexcept
      : base_{base}, space_{space}, lane_{lane} {}

  [[nodiscard]] mark here() const noexcept { return {allocations_.size(), frees_.size()}; }
  [[nodiscard]] const std::vector<allocation>& allocations() const noexcept { return allocations_; }
  // As in structure_pages.
  [[nodiscard]] std::uint64_t freed_by() const noexcept { return space_.freed_by(); }
  // Figures of a commit now: fresh objects, the bytes of those that go through a log (others are whole pages, and go
  // straight to their place), and frees of objects that existed before.
  struct remains {
    std::uint64_t fresh = 0, logged_bytes = 0, frees = 0;
  };
  // From how many bytes on whole pages go straight.  While there are no changes.
  void set_straight_from(std::uint64_t bytes) noexcept { straight_from_ = bytes; }
  [[nodiscard]] std::uint64_t straight_from() const noexcept { return straight_from_; }
  [[nodiscard]] const remains& remaining() const noexcept { return remaining_; }
  // Nothing was allocated or freed.
  [[nodiscard]] bool none() const noexcept { return allocations_.empty() && frees_.empty(); }

  [[nodiscard]] result<typename space_type::reservation> allocate(std::uint64_t bytes,
                                                                  layout::object_layout l) noexcept {
    return allocate_by(bytes, l, [&] { return space_.reserve(lane_, bytes, l); });
  }
  [[nodiscard]] result<typename space_type::reservation> allocate_in(const store_attachment& store, std::uint64_t bytes,
                                                                     layout::object_layout l) noexcept {
    return allocate_by(bytes, l, [&] { return space_.reserve_in(store, lane_, bytes, l); });
  }
  // Pages for a cluster, of which the transaction writes `bytes` bytes.
  [[nodiscard]] result<typename space_type::reservation> allocate_cluster(std::uint64_t pages,
                                                                          std::uint64_t bytes) noexcept {
    return allocate_by(bytes, layout::object_layout::raw, [&] { return space_.reserve_cluster(lane_, pages); });
  }

  // Bytes of the object that starts at `offset`, with its header.
  [[nodiscard]] result<std::uint64_t> room_of(std::uint64_t offset, layout::object_layout l) noexcept {
    auto o = space_.find(offset, l, space_type::name_of(lane_));
    if (!o) return o.error();
    found_ = *o;
    return o->bytes;
  }
  // Frees the object that starts at `offset` when the transaction commits.  A wrong pointer changes nothing.  May throw
  // std::bad_alloc.
  [[nodiscard]] status release(std::uint64_t offset, layout::object_layout l) {
    frees_.emplace_back();
    status s = begin_free(offset, l, frees_.back());
    if (!s) {
      frees_.pop_back();
    } else {
      count_free(frees_.back(), true);
    }
    return s;
  }

  // The same for a cluster of a store that is not attached.
  [[nodiscard]] status release_cluster(std::uint64_t offset) {
    auto o = space_.find_cluster(offset);
    if (!o) return o.error();
    frees_.push_back({*o, no_allocation, layout::object_layout::raw});
    status s = space_.begin_free(*o, lane_);
    if (!s) {
      frees_.pop_back();
    } else {
      count_free(frees_.back(), true);
    }
    return s;
  }

  // Index of the allocation of this transaction that contains the whole range, or no_allocation.
  [[nodiscard]] std::size_t around(const log::byte_range& r) noexcept {
    const part first = part_of(r);
    return first.bytes == r.bytes ? first.around : no_allocation;
  }
  // The first bytes of a range: those of one allocation of this transaction, or those before its next allocation.
  struct part {
    std::uint64_t bytes;
    std::size_t around;  // no_allocation: of none
  };
  [[nodiscard]] part part_of(const log::byte_range& r) noexcept {
    if (last_hit_ < allocations_.size() && contains(allocations_[last_hit_], r)) return {r.bytes, last_hit_};
    part p{r.bytes, no_allocation};
    if (!by_offset_.empty()) {
      const auto after = by_offset_.upper_bound(r.offset);
      if (after != by_offset_.end()) limit(p, r, after->second);
      if (after != by_offset_.begin()) limit(p, r, std::prev(after)->second);
    } else {
      for (std::size_t i = allocations_.size(); i-- > 0 && p.around == no_allocation;) limit(p, r, i);
    }
    if (p.around != no_allocation) last_hit_ = p.around;
    return p;
  }
  // Calls visit(range, its allocation or no_allocation) for the parts of a range until it says false; whether it never
  // did.  Objects of this transaction and older ones may lie in one range.
  template <class Visit>
  bool each_part(const log::byte_range& r, Visit&& visit) {
    if (r.bytes != 0 && allocations_.empty()) return visit(r, no_allocation);
    for (std::uint64_t done = 0; done < r.bytes;) {
      log::byte_range rest{r.offset + done, r.bytes - done};
      const part p = part_of(rest);
      rest.bytes = p.bytes;
      if (!visit(rest, p.around)) return false;
      done += p.bytes;
    }
    return true;
  }

  // Calls visit(offset) for typed objects that existed before.
  template <class Visit>
  void each_freed(Visit& visit) const {
    for (const pending_free& f : frees_) {
      if (f.allocation == no_allocation && f.layout == layout::object_layout::typed) visit(f.object.offset);
    }
  }

  // Gives up allocations and frees back to the mark.
  void drop(const mark& m) noexcept {
    while (frees_.size() > m.frees) {
      space_.cancel_free(frees_.back().object, lane_);
      count_free(frees_.back(), false);
      frees_.pop_back();
    }
    while (allocations_.size() > m.allocations) {
      space_.cancel(allocations_.back().place, lane_);
      forget_last_allocation();
    }
  }

  // Fills words() with the intents of what remains: not of objects both allocated and freed here.
  [[nodiscard]] status gather() noexcept { return none() ? status{} : gather_some(); }
  // After gather().
  [[nodiscard]] const std::vector<std::uint64_t>& words() const noexcept { return words_; }
  [[nodiscard]] bool nothing_remains() const noexcept { return live_ == 0 && words_.empty(); }

  // The transaction has committed as generation or version `g` of the lane: tells space, which applies the intents; 0
  // if they were applied already.
  void conclude(std::uint64_t g) noexcept {
    for (const pending_free& f : frees_) {
      if (f.allocation == no_allocation) {
        if (!planted(plant::reuse_before_commit)) {
          space_.finish_free(f.object, lane_, g);
        } else if (g != 0) {
          log::apply(base_, f.object.clear);
        }
      } else {
        space_.cancel_free(f.object, lane_);
      }
    }
    for (const allocation& a : allocations_) {
      if (a.freed) {
        space_.cancel(a.place, lane_);
      } else {
        space_.committed(a.place, lane_, g);
      }
    }
  }

  void clear() noexcept {
    // Words also of a transaction that gave everything up after gather().
    words_.clear();
    live_ = 0;
    found_.bytes = 0;
    if (none()) return;
    remaining_ = {};
    allocations_.clear();
    if (!by_offset_.empty()) by_offset_.clear();
    frees_.clear();
    last_hit_ = 0;
  }

 private:
  template <class Reserve>
  [[nodiscard]] result<typename space_type::reservation> allocate_by(std::uint64_t bytes, layout::object_layout l,
                                                                     Reserve&& reserve) noexcept try {
    allocations_.emplace_back();
    auto r = reserve();
    if (!r) {
      allocations_.pop_back();
      return r;
    }
    allocations_.back() = {*r, bytes, false, l};
    count_fresh(allocations_.back(), true);
    platform::memory_watch::object(base_ + r->offset, bytes, r->bytes);
    index_last_allocation();
    return r;
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for an allocation of %lu bytes", bytes);
  }
  [[gnu::noinline]] status gather_some() noexcept try {
    words_.clear();
    live_ = 0;
    for (const pending_free& f : frees_) {
      if (f.allocation != no_allocation) allocations_[f.allocation].freed = true;
    }
    for (const allocation& a : allocations_) {
      if (a.freed) continue;
      ++live_;
      words_.push_back(a.place.set.code);
      if (a.place.set.words() == 2) words_.push_back(a.place.set.value);
    }
    for (const pending_free& f : frees_) {
      if (f.allocation == no_allocation) words_.push_back(f.object.clear.code);
    }
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for the changes of allocation");
  }
  struct pending_free {
    typename space_type::object object;
    std::size_t allocation;  // no_allocation: the object existed before
    layout::object_layout layout;
  };

  [[nodiscard]] status begin_free(std::uint64_t offset, layout::object_layout l, pending_free& f) noexcept {
    if (found_.bytes != 0 && found_.offset == offset) {
      // Space checks whether it still exists.
      f.object = found_;
      found_.bytes = 0;
    } else {
      auto o = space_.find(offset, l, space_type::name_of(lane_));
      if (!o) return o.error();
      f.object = *o;
    }
    f.allocation = no_allocation;
    f.layout = l;
    if (f.object.reserved) {
      f.allocation = allocation_at(offset);
      if (f.allocation == no_allocation) {
        return fail(errc::bad_pointer, "object at offset %lu belongs to another open transaction", offset);
      }
    }
    status s = space_.begin_free(f.object, lane_);
    if (s && planted(plant::reuse_before_commit)) space_.finish_free(f.object, lane_, 0);
    return s;
  }

  // Few allocations are searched one by one, the latest first: most frees and writes go there. If there are more,
  // by_offset_ has them all.
  static constexpr std::size_t scanned_allocations_max = 32;

  void index_last_allocation() {
    // Also where an inner level was given up since, so that there are few again: an index has them all.
    if (by_offset_.empty() && allocations_.size() <= scanned_allocations_max) return;
    for (std::size_t i = by_offset_.empty() ? 0 : allocations_.size() - 1; i < allocations_.size(); ++i) {
      by_offset_[allocations_[i].place.offset] = i;
    }
  }
  void forget_last_allocation() noexcept {
    if (!by_offset_.empty()) by_offset_.erase(allocations_.back().place.offset);
    count_fresh(allocations_.back(), false);
    allocations_.pop_back();
  }
  void count_fresh(const allocation& a, bool more) noexcept {
    const std::uint64_t one = more ? 1 : ~std::uint64_t{0};
    remaining_.fresh += one;
    if (a.place.length_byte != nullptr || a.bytes < straight_from_) remaining_.logged_bytes += one * a.bytes;
  }
  void count_free(const pending_free& f, bool more) noexcept {
    if (f.allocation != no_allocation) return count_fresh(allocations_[f.allocation], !more);
    remaining_.frees += more ? 1 : ~std::uint64_t{0};
  }
  // Index of the live allocation of this transaction at `offset`.
  [[nodiscard]] std::size_t allocation_at(std::uint64_t offset) noexcept {
    const std::size_t i = around({offset, 1});
    return i != no_allocation && allocations_[i].place.offset == offset ? i : no_allocation;
  }
  // Cuts a part where allocation `i` ends or begins.
  void limit(part& p, const log::byte_range& r, std::size_t i) const noexcept {
    const auto& at = allocations_[i].place;
    if (r.offset >= at.offset) {
      if (r.offset - at.offset < at.bytes) p = {std::min(p.bytes, at.bytes - (r.offset - at.offset)), i};
    } else {
      p.bytes = std::min(p.bytes, at.offset - r.offset);
    }
  }
  static bool contains(const allocation& a, const log::byte_range& r) noexcept {
    return r.offset >= a.place.offset && range_inside(r.offset - a.place.offset, r.bytes, a.place.bytes);
  }

  std::byte* base_;
  space_type& space_;
  unsigned lane_;
  std::vector<allocation> allocations_;
  std::map<std::uint64_t, std::size_t> by_offset_;  // empty while allocations are few
  std::vector<pending_free> frees_;
  typename space_type::object found_;  // by the last room_of(), until it is released; 0 bytes: none
  std::vector<std::uint64_t> words_;
  std::size_t live_ = 0;
  std::size_t last_hit_ = 0;
  std::uint64_t straight_from_ = UINT64_MAX;
  remains remaining_;
};

}  // namespace nvm::tx
