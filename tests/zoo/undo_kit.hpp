// The smallest undo log in which the bugs of logs can be shown: eight words of data, two log segments, one switch for
// each mistake.
//
//   S store, F flush, | fence
//   log    S entry {offset, bytes, old data, generation, sum}; F;   | kit/E1  old data before the change
//   change S in place
//   commit F changes;                                               | kit/E2  changes before the log lets go
//          S generation + 1; F;                                     | kit/E3  commit point
//   Recovery puts back, newest first, each entry whose sum holds and whose generation is the log's, then raises it.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "zoo.hpp"

namespace nvm::zoo {

inline constexpr std::size_t data_words = 24;
inline constexpr std::size_t segment_entries = 3;

struct undo_entry {
  alignas(64) std::uint64_t generation;
  std::uint64_t offset;
  std::uint64_t bytes;
  std::uint64_t sum;
  std::uint64_t old[12];
};
struct undo_image {
  alignas(64) std::uint64_t generation;         // of the running transaction; entries of others are stale
  alignas(64) std::uint64_t second_generation;  // of the second segment, for the one mistake that gives it its own
  undo_entry first[segment_entries];
  undo_entry second[segment_entries];
  alignas(64) std::uint64_t data[data_words];
};

struct mistakes {
  bool log_after_store = false;
  bool size_of_pointer = false;
  bool drop_overlapping = false;
  bool sum_without_payload = false;
  bool ignore_generation = false;
  bool second_not_cleaned = false;
  bool no_fence_before_truncate = false;
  bool no_fence_after_truncate = false;
  bool oldest_first = false;
};

inline std::uint64_t sum_of(const undo_entry& e, bool with_payload) noexcept {
  std::uint64_t h = e.generation * 0x9E3779B97F4A7C15ULL + e.offset * 31 + e.bytes + 1;
  for (std::size_t i = 0; with_payload && i < 12; ++i) h = (h ^ e.old[i]) * 0xD6E8FEB86659FD93ULL;
  return h;
}

class undo_kit {
 public:
  undo_kit(machine& m, mistakes wrong) : m_{m}, x_{*reinterpret_cast<undo_image*>(m.base())}, wrong_{wrong} {}

  void begin() {
    m_.tx_begin();
    used_ = 0;
    changes_ = 0;
  }
  // Announces words [first, first + count).
  void log(std::size_t first, std::size_t count) {
    if (wrong_.drop_overlapping) {
      // "The range begins inside one that is logged": so it would be covered.
      for (std::size_t i = 0; i < changes_; ++i) {
        if (first >= changed_[i].first && first < changed_[i].first + changed_[i].count) return;
      }
    }
    const std::size_t bytes = wrong_.size_of_pointer ? sizeof(&x_.data[first]) : count * 8;
    undo_entry& e = used_ < segment_entries ? x_.first[used_] : x_.second[used_ - segment_entries];
    ++used_;
    // One generation for both segments: raising it truncates them in one store.
    e.generation = used_ > segment_entries && wrong_.second_not_cleaned ? x_.second_generation : x_.generation;
    e.offset = first * 8;
    e.bytes = bytes;
    std::memset(e.old, 0, sizeof e.old);
    std::memcpy(e.old, &x_.data[first], bytes);
    e.sum = sum_of(e, !wrong_.sum_without_payload);
    m_.media().flush(&e, sizeof e);
    m_.media().fence(edge{"kit/E1"});
    m_.logged(&x_.data[first], bytes);
    changed_[changes_++] = {first, count};
  }
  void set(std::size_t word, std::uint64_t value) { x_.data[word] = value; }
  // The two in the right order, or not.
  void log_and_set(std::size_t word, std::uint64_t value) {
    if (wrong_.log_after_store) {
      set(word, value);
      log(word, 1);
    } else {
      log(word, 1);
      set(word, value);
    }
  }
  void commit() {
    // Ranges may share lines; each line is flushed once.
    bool changed[data_words / 8] = {};
    for (std::size_t i = 0; i < changes_; ++i) {
      for (std::size_t w = 0; w < changed_[i].count; ++w) changed[(changed_[i].first + w) / 8] = true;
    }
    for (std::size_t line = 0; line < data_words / 8; ++line) {
      if (changed[line]) m_.media().flush(&x_.data[line * 8], 64);
    }
    if (!wrong_.no_fence_before_truncate && changes_ != 0) m_.media().fence(edge{"kit/E2"});
    truncate(m_, x_, wrong_);
    m_.tx_end();
  }

  static void truncate(machine& m, undo_image& x, mistakes wrong) {
    x.generation = x.generation + 1;
    m.media().flush(&x.generation, 8);
    if (!wrong.no_fence_after_truncate) m.media().fence(edge{"kit/E3"});
  }

  static verdict recover(machine& m, mistakes wrong) {
    auto& x = *reinterpret_cast<undo_image*>(m.base());
    std::array<const undo_entry*, 2 * segment_entries> live;
    std::size_t count = 0;
    const auto collect = [&](const undo_entry* segment, std::uint64_t generation) {
      for (std::size_t i = 0; i < segment_entries; ++i) {
        const undo_entry& e = segment[i];
        const bool ours = wrong.ignore_generation || e.generation == generation;
        if (e.bytes == 0 || !ours || e.sum != sum_of(e, !wrong.sum_without_payload)) return;
        if (e.bytes > sizeof e.old || e.offset > sizeof x.data - e.bytes) return;
        live[count++] = &e;
      }
    };
    collect(x.first, x.generation);
    // The second segment continues a full first one.
    if (wrong.second_not_cleaned) {
      collect(x.second, x.second_generation);
    } else if (count == segment_entries) {
      collect(x.second, x.generation);
    }
    if (count == 0) return pass();
    for (std::size_t k = 0; k < count; ++k) {
      const undo_entry& e = *live[wrong.oldest_first ? k : count - 1 - k];
      std::memcpy(reinterpret_cast<std::byte*>(x.data) + e.offset, e.old, e.bytes);
      m.media().flush(reinterpret_cast<std::byte*>(x.data) + e.offset, e.bytes);
    }
    m.media().fence(edge{"kit/R1"});
    truncate(m, x, mistakes{});
    return pass();
  }

 private:
  struct range {
    std::size_t first;
    std::size_t count;
  };
  machine& m_;
  undo_image& x_;
  mistakes wrong_;
  std::size_t used_ = 0;
  std::array<range, 16> changed_;
  std::size_t changes_ = 0;
};

}  // namespace nvm::zoo
