// The common part of transactions of all engines with lanes: the objects that their levels allocate and free.
//
// Threads: one, the one that holds the lane; counters are read by any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "log/log.hpp"
#include "media/media.hpp"
#include "space/space.hpp"
#include "tx/assigned.hpp"
#include "tx/level_stack.hpp"
#include "tx/object_changes.hpp"

namespace nvm::tx {

template <media M, log::settler S>
class transaction_core : public level_stack<typename object_changes<M, S>::mark> {
  using stack = level_stack<typename object_changes<M, S>::mark>;

 public:
  using lanes_type = S;
  using space_type = space<M, S>;
  using byte_range = log::byte_range;
  using stack::doom;

  [[nodiscard]] unsigned lane() const noexcept { return lane_; }

  // Refuses an allocation that cannot be tried: like any that fails, it leaves only abort.
  [[nodiscard]] errc refuse_allocation(errc reason) noexcept { return doom(reason); }
  // As allocate() of the engine's transaction, in an attached store.
  [[nodiscard]] result<std::uint64_t> allocate_in(const store_attachment& store, std::uint64_t bytes,
                                                  layout::object_layout l) noexcept {
    return reserved(failed_ ? stack::refuse().error() : objects_.allocate_in(store, bytes, l));
  }
  // Allocates pages of a new cluster, of which the transaction writes `bytes` bytes; release_cluster() frees one.
  [[nodiscard]] result<std::uint64_t> allocate_cluster(std::uint64_t pages, std::uint64_t bytes) noexcept {
    return reserved(failed_ ? stack::refuse().error() : objects_.allocate_cluster(pages, bytes));
  }
  [[nodiscard]] status release_cluster(std::uint64_t offset) noexcept try {
    if (failed_) return stack::refuse();
    return objects_.release_cluster(offset);
  } catch (const std::bad_alloc&) {
    return doom(fail(errc::no_memory, "no volatile memory for a free"));
  }
  // Frees the object that starts at `offset` when the transaction commits.  A wrong pointer changes nothing.
  [[nodiscard]] status release(std::uint64_t offset, layout::object_layout l) noexcept try {
    if (failed_) return stack::refuse();
    return objects_.release(offset, l);
  } catch (const std::bad_alloc&) {
    return doom(fail(errc::no_memory, "no volatile memory for a free"));
  }

  // Gathers the remaining allocations and frees, which each_born() and each_freed() visit.
  [[nodiscard]] status gather_objects() noexcept { return objects_.gather(); }
  // Calls visit(offset of the header) for typed objects.
  template <class Visit>
  void each_born(Visit&& visit) const {
    for (const auto& a : objects_.allocations()) {
      if (!a.freed && a.layout == layout::object_layout::typed) visit(a.place.offset);
    }
  }
  // Whether this transaction has allocated the object that holds the range.
  [[nodiscard]] bool has_allocated(const byte_range& r) noexcept { return objects_.around(r) != no_allocation; }
  template <class Visit>
  void each_freed(Visit&& visit) const {
    objects_.each_freed(visit);
  }
  // Bytes of an object with its header; a following release() need not look it up again.
  [[nodiscard]] result<std::uint64_t> room_of(std::uint64_t offset, layout::object_layout l) noexcept {
    return objects_.room_of(offset, l);
  }

 protected:
  using stack::failed_;
  using stack::levels_;

  transaction_core(M& m, std::byte* base, S& lanes, space_type& space, unsigned lane)
      : media_{m}, base_{base}, lanes_{lanes}, space_{space}, lane_{lane}, objects_{base, space, lane} {}

  // May throw std::bad_alloc.
  void begin_level() { stack::begin_level(objects_.here()); }
  [[nodiscard]] result<typename space_type::reservation> allocate_object(std::uint64_t bytes,
                                                                         layout::object_layout l) noexcept {
    if (failed_) return stack::refuse().error();
    auto r = objects_.allocate(bytes, l);
    if (!r) doom(r.error());
    return r;
  }
  [[nodiscard]] result<std::uint64_t> reserved(const result<typename space_type::reservation>& r) noexcept {
    if (r) return r->offset;
    return failed_ ? r.error() : doom(r.error());
  }
  // The innermost level was rolled back.
  void forget_level() noexcept {
    objects_.drop(levels_.back().mark);
    stack::level_aborted();
  }
  // The outermost level was rolled back.
  void forget_all() noexcept {
    objects_.drop(levels_.front().mark);
    stack::all_aborted();
  }
  void reset_core() noexcept {
    stack::forget_levels();
    objects_.clear();
  }

  M& media_;
  std::byte* base_;
  S& lanes_;
  space_type& space_;
  unsigned lane_;
  object_changes<M, S> objects_;
};

}  // namespace nvm::tx
