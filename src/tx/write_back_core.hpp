// The common part of transactions whose changes reach home when they commit: only fresh objects are stored in place, so
// rolling a level back means forgetting.
//
// Threads: one, the one that holds the lane.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <vector>

#include "isolation/isolation.hpp"
#include "log/log.hpp"
#include "media/media.hpp"
#include "space/space.hpp"
#include "tx/reference_log.hpp"
#include "tx/transaction_core.hpp"

namespace nvm::tx {

template <media M, log::settler S>
class write_back_core : public transaction_core<M, S> {
 public:
  using core = transaction_core<M, S>;
  using typename core::byte_range;
  static constexpr bool writes_back = true;

  [[nodiscard]] status begin() noexcept try {
    if (levels_.empty()) forget_last();
    assigned_marks_.reserve(levels_.size() + 1);
    core::begin_level();
    assigned_marks_.push_back(assigned_.size());
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for a transaction");
  }

  // Announced stores, which are made in place, may only go to memory that this transaction has allocated.
  [[nodiscard]] status announce(const byte_range* ranges, std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
      if (ranges[i].bytes == 0 || covers(ranges[i])) continue;
      return core::doom(
          fail(errc::engine,
               "bytes at offset %lu: the pool's engine writes back, which takes stores by nvm/stm.h, not in place",
               ranges[i].offset));
    }
    return {};
  }
  [[nodiscard]] bool covers(const byte_range& r) noexcept {
    return objects_.each_part(r, [&](const byte_range&, std::size_t around) {
      return around != no_allocation && around >= levels_.back().mark.allocations;
    });
  }

  // Allocates `bytes` with their layout's header; the offset of the object.  Failure leaves only abort.
  [[nodiscard]] result<std::uint64_t> allocate(std::uint64_t bytes, layout::object_layout l) noexcept {
    auto r = core::allocate_object(bytes, l);
    if (!r) return r.error();
    return r->offset;
  }

  // Stores words of the pool when the transaction commits.
  [[nodiscard]] status assign(const assigned_word* words, std::size_t count) noexcept try {
    assigned_.insert(assigned_.end(), words, words + count);
    return {};
  } catch (const std::bad_alloc&) {
    return core::doom(fail(errc::no_memory, "no volatile memory for %zu words", count));
  }

  // The same for several words and half words.
  [[nodiscard]] status assign_all(std::span<const assigned_bytes> words) noexcept {
    status s;
    for (const assigned_bytes& w : words) {
      assigned_word whole{round_down(w.offset, 8), w.value};
      if (w.bytes != sizeof whole.value) {
        std::memcpy(&whole.value, base_ + whole.offset, sizeof whole.value);
        std::memcpy(reinterpret_cast<std::byte*>(&whole.value) + (w.offset - whole.offset), &w.value, w.bytes);
      }
      if (s) s = assign(&whole, 1);
    }
    return s;
  }

  // ---- references (tx/reference_log.hpp) ----

  template <class Visit>
  void each_old(Visit&&) const {}
  // Calls visit(offset, bytes, new bytes) for words that are not in place yet; the latest version last.
  template <class Visit>
  void each_new(Visit&& visit) const {
    for (const assigned_word& w : assigned_) {
      visit(w.offset, sizeof w.value, reinterpret_cast<const std::byte*>(&w.value));
    }
  }
  // The attachment goes with the outermost commit, which comes next.
  [[nodiscard]] status attach(const reference_attachment& what) noexcept {
    if (status s = assign(what.words.data(), what.words.size()); !s) return s;
    const assigned_word end{what.end_at, seal_word(what.end, word_seed(what.end_at))};
    return assign(&end, 1);
  }

  [[nodiscard]] status commit_level() noexcept {
    status s = core::commit_level_by([] { return status{}; }, [this] { abort_level(); });
    if (s) assigned_marks_.pop_back();
    return s;
  }
  void abort_level() noexcept {
    NVM_ASSERT(levels_.size() > 1);
    assigned_.resize(assigned_marks_.back());
    assigned_marks_.pop_back();
    core::forget_level();
    took_back_ = true;
  }

 protected:
  using core::base_;
  using core::failed_;
  using core::levels_;
  using core::objects_;

  write_back_core(M& m, std::byte* base, S& lanes, space<M, S>& space, unsigned lane)
      : core{m, base, lanes, space, lane} {}

  // Ends the transaction.  The rest is cleared when the next one first stores: stores right after the fence of a commit
  // would delay the loads of the next transaction.
  void reset_core() noexcept { levels_.clear(); }

  [[nodiscard]] std::uint64_t line_in_pool(const isolation::written_line& w) const noexcept {
    return w.line - reinterpret_cast<std::uintptr_t>(base_) / line_bytes;
  }
  // Stores words and lines where they belong; flushes nothing.
  void bring_home(std::span<const isolation::written_line> lines) noexcept {
    for (const assigned_word& w : assigned_) {
      // relaxed: readers without a transaction get the old or the new value; transactions check the orec.
      std::atomic_ref<std::uint64_t>{*reinterpret_cast<std::uint64_t*>(base_ + w.offset)}.store(
          w.value, std::memory_order_relaxed);
    }
    for (const auto& w : lines) isolation::store_home(w);
  }

  void forget_last() noexcept {
    core::reset_core();
    assigned_.clear();
    assigned_marks_.clear();
    took_back_ = false;
  }

  std::vector<assigned_word> assigned_;
  std::vector<std::size_t> assigned_marks_;  // of each level: where its words begin
  bool took_back_ = false;                   // some inner level was rolled back
};

}  // namespace nvm::tx
