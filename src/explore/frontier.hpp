// Frontier: at one point of a trace, the stores that must be on media and those that may be lost.
//
// The image is cut into units; a crash leaves of each unit, independently of the others, a lower set of its steps:
//
//   x86    unit = line of 64 bytes.  Steps are aligned words.  Stores to one line become durable in program order, so
//          a unit is a chain of blocks: a scalar store is a block of one word; the words of one wide store, of one
//          copy, or of non-temporal stores with no fence between are one block, durable in any order among themselves.
//   torn8  unit = aligned word of 8 bytes; its steps are a chain.
//   ssd    unit = sector of 512 bytes; its writes are a chain.
//   eadr   as x86, but every store is durable at once except non-temporal ones.
//
// A cut numbers the lower sets of a unit: 0 = low (only what is guaranteed), choices - 1 = high (everything).
// "Guaranteed" grows at fences: a flush notes (thread, unit, steps so far), and the same thread's fence makes these
// guaranteed; a non-temporal store needs only the fence; a sync covers all writes before it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <vector>

#include "explore/trace.hpp"

namespace nvm::explore {

enum class model : std::uint8_t { x86, torn8, ssd, eadr };
[[nodiscard]] const char* name_of(model m) noexcept;

// Hash of an image as a sum over its words, so that a change of some words changes it by a difference.
inline std::uint64_t word_hash(std::uint64_t index, std::uint64_t value) noexcept {
  const auto product =
      static_cast<unsigned __int128>(value ^ (index * 0x9E3779B97F4A7C15ULL)) * (0xD6E8FEB86659FD93ULL + (index << 1));
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}
// Bytes of a word selected by an 8-bit mask.
inline std::uint64_t spread(std::uint8_t mask) noexcept {
  std::uint64_t w = mask;
  w = (w | w << 28) & 0x0000000F0000000FULL;
  w = (w | w << 14) & 0x0003000300030003ULL;
  w = (w | w << 7) & 0x0101010101010101ULL;
  return w * 0xFF;
}

struct step {
  std::uint64_t value;       // a word; ssd: unused, the event has the bytes
  std::uint32_t event;       // number in the trace
  std::uint8_t word;         // of the unit
  std::uint8_t mask;         // bytes of the word
  bool opens;                // begins a block
  std::uint8_t block_steps;  // valid where `opens`
};
static_assert(sizeof(step) == 16);

struct unit {
  std::uint64_t number = 0;   // offset / unit bytes
  std::uint64_t dropped = 0;  // count of the first of `steps`: guaranteed ones lie below it
  std::vector<step> steps;    // those that may be lost
  std::uint64_t block_epoch = 0;
  bool block_is_non_temporal = false;
  // Scratch for enumerating cuts: place among the units that matter, steps taken so far.
  std::uint32_t factor = 0;
  std::uint32_t taken = 0;

  // Filled by frontier::prepare().
  bool prepared = false;
  bool all_cached = false;    // contents and deltas hold all choices; else only high, at index 0
  std::uint32_t choices = 0;  // number of cuts
  std::vector<std::byte> contents;
  std::vector<std::uint64_t> deltas;  // hash of the unit with the cut, minus that with cut 0
};

class frontier {
 public:
  frontier() = default;
  // The durable image lives at `image`; the caller's copies of it are updated through on_raise.
  void start(model m, std::byte* image, std::size_t bytes, const trace* t, bool rmw_fences);

  // Feeds one event.  A fence must have been asked about (raises()) and explored before it is fed.
  void feed(std::uint32_t event_number);
  // Whether this event would make further stores durable.
  [[nodiscard]] bool raises(const event& e) const;
  // Called with offset and bytes after a unit's guaranteed content changed.
  std::function<void(std::uint64_t, std::uint32_t)> on_raise;

  [[nodiscard]] std::span<unit* const> active() const noexcept { return active_; }
  [[nodiscard]] std::uint32_t unit_bytes() const noexcept { return std::uint32_t{1} << shift_; }
  [[nodiscard]] std::uint64_t offset_of(const unit& u) const noexcept { return u.number << shift_; }
  // Hash of the durable image relative to the image at start().
  [[nodiscard]] std::uint64_t hash() const noexcept { return hash_; }

  // Makes cuts of the unit usable; cheap when nothing changed since.
  void prepare(unit& u);
  // What the cut adds to the hash.
  [[nodiscard]] std::uint64_t delta(unit& u, std::uint32_t cut);
  // The unit's bytes under the cut; valid until the next call.
  [[nodiscard]] const std::byte* content(unit& u, std::uint32_t cut);
  // False if no cut changes a byte.
  [[nodiscard]] bool matters(unit& u);
  // Number of the cut that holds exactly the first `count` steps.
  [[nodiscard]] static std::uint32_t cut_of_prefix(const unit& u, std::size_t count) noexcept;
  // Whether step i is in the cut.
  [[nodiscard]] static bool holds(const unit& u, std::uint32_t cut, std::size_t i) noexcept;

  // Steps since the last call of begin_epoch(), in program order: (unit, index of the step in it).
  struct epoch_step {
    unit* of;
    std::uint32_t index;
  };
  [[nodiscard]] std::span<const epoch_step> epoch() const noexcept { return epoch_; }
  void begin_epoch() noexcept { epoch_.clear(); }

  // For reports: whether a flush of the unit, by any thread, is pending that covers step i.
  [[nodiscard]] bool flushed(const unit& u, std::size_t i) const noexcept;

 private:
  struct pending {
    std::uint64_t unit;
    std::uint64_t count;  // absolute: dropped + steps at the flush
  };
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  static constexpr std::uint32_t cached_choices_max = 64;
  static constexpr std::uint32_t choices_max = 1U << 30;

  unit& unit_at(std::uint64_t number);
  unit* find(std::uint64_t number) const noexcept {
    const std::uint32_t slot = slot_of_[number];
    return slot == none ? nullptr : active_[slot];
  }
  void add_store(const event& e, std::uint32_t event_number);
  void add_words(const event& e, std::uint32_t event_number, bool non_temporal);
  void add_write(const event& e, std::uint32_t event_number);
  void add_step(unit& u, const step& s, bool opens, bool non_temporal);
  void add_flush(const event& e);
  void fence_of(std::uint8_t thread);
  void raise(unit& u, std::uint64_t count);
  void retire(unit& u);
  void apply(const unit& u, const step& s, std::byte* content) const;
  void compute(const unit& u, std::uint32_t cut, std::byte* out) const;
  std::uint64_t hash_of(const unit& u, const std::byte* content) const;

  model model_ = model::x86;
  unsigned shift_ = 6;
  bool rmw_fences_ = false;
  std::byte* image_ = nullptr;
  std::size_t bytes_ = 0;
  const trace* trace_ = nullptr;
  std::vector<std::uint32_t> slot_of_;  // by unit number
  std::vector<unit*> active_;
  std::vector<unit*> spare_;
  std::vector<std::vector<unit>> blocks_;
  std::vector<std::vector<pending>> pending_;  // by thread
  std::vector<epoch_step> epoch_;
  std::vector<std::byte> scratch_;
  std::uint64_t steps_total_ = 0;  // ever added
  std::uint64_t order_epoch_ = 0;  // counts flushes and fences
  std::uint64_t hash_ = 0;
};

}  // namespace nvm::explore
