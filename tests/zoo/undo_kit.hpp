// The smallest undo log in which the bugs of logs can be shown: eight words of data, two log segments, one switch for
// each mistake.
//
//   S store, F flush, | fence
//   log    S entry {offset, bytes, old data, generation, sum}; F;   | kit/E1  old data before the change
//   change S in place
//   commit F changes;                                               | kit/E2  changes before the log lets go
//          S generation + 1; F;                                     | kit/E3  commit point
//   Recovery and abort put back, newest first, each entry whose sum holds and whose generation is the log's, then raise
//   it.
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
  bool truncate_before_abort = false;
  bool inner_commits = false;
  bool full_log_ignored = false;
};

inline std::uint64_t sum_of(const undo_entry& e, bool with_payload) noexcept {
  std::uint64_t h = e.generation * 0x9E3779B97F4A7C15ULL + e.offset * 31 + e.bytes + 1;
  for (std::size_t i = 0; with_payload && i < 12; ++i) h = (h ^ e.old[i]) * 0xD6E8FEB86659FD93ULL;
  return h;
}

class undo_kit {
 public:
  undo_kit(machine& m, mistakes wrong) : m_{m}, x_{*reinterpret_cast<undo_image*>(m.base())}, wrong_{wrong} {}

  // Of a transaction inside another one only the outer commit counts.
  void begin() {
    if (depth_++ != 0) return;
    start();
  }
  // Entries that may still be logged, of all transactions together: then there is no space, for once.
  void fail_after(unsigned entries) { entries_left_ = entries; }
  // Announces words [first, first + count); false if there is no space for the entry.
  bool log(std::size_t first, std::size_t count) {
    if (wrong_.drop_overlapping) {
      // "The range begins inside one that is logged": so it would be covered.
      for (std::size_t i = 0; i < changes_; ++i) {
        if (first >= changed_[i].first && first < changed_[i].first + changed_[i].count) return true;
      }
    }
    if (entries_left_-- == 0) return wrong_.full_log_ignored;
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
    return true;
  }
  // Words of an object that nobody can see yet: no old data, but to be flushed.
  void fresh(std::size_t first, std::size_t count) {
    m_.fresh(&x_.data[first], count * 8);
    changed_[changes_++] = {first, count};
  }
  [[nodiscard]] std::uint64_t get(std::size_t word) const { return x_.data[word]; }
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
    if (depth_ == 0) return;  // it was aborted
    --depth_;
    if (depth_ != 0 && !wrong_.inner_commits) return;
    line_set changed;
    for (std::size_t i = 0; i < changes_; ++i) changed.add(changed_[i].first * 8, changed_[i].count * 8);
    changed.flush(m_, x_);
    if (!wrong_.no_fence_before_truncate && changes_ != 0) m_.media().fence(edge{"kit/E2"});
    truncate(m_, x_, wrong_);
    m_.tx_end();
    if (depth_ != 0) start();
  }
  void abort() {
    const live_entries live{x_, wrong_};
    depth_ = 0;
    if (wrong_.truncate_before_abort) truncate(m_, x_, wrong_);
    live.put_back(m_, x_, wrong_);
    if (!wrong_.truncate_before_abort) truncate(m_, x_, wrong_);
    m_.tx_end();
  }

  static void truncate(machine& m, undo_image& x, mistakes wrong) {
    x.generation = x.generation + 1;
    m.media().flush(&x.generation, 8);
    if (!wrong.no_fence_after_truncate) m.media().fence(edge{"kit/E3"});
  }

  static verdict recover(machine& m, mistakes wrong) {
    auto& x = *reinterpret_cast<undo_image*>(m.base());
    const live_entries live{x, wrong};
    if (live.none()) return pass();
    live.put_back(m, x, wrong);
    truncate(m, x, mistakes{});
    return pass();
  }

 private:
  struct range {
    std::size_t first;
    std::size_t count;
  };

  // Lines of data: ranges may share some, and each is flushed once.
  class line_set {
   public:
    void add(std::size_t offset, std::size_t bytes) {
      for (std::size_t at = offset; at < offset + bytes; at += 8) there_[at / 64] = true;
    }
    void flush(machine& m, const undo_image& x) const {
      for (std::size_t line = 0; line < data_words / 8; ++line) {
        if (there_[line]) m.media().flush(&x.data[line * 8], 64);
      }
    }

   private:
    bool there_[data_words / 8] = {};
  };

  // The entries of the log that belong to an unfinished transaction.
  class live_entries {
   public:
    live_entries(const undo_image& x, mistakes wrong) {
      collect(x.first, x.generation, x, wrong);
      // The second segment continues a full first one.
      if (wrong.second_not_cleaned) {
        collect(x.second, x.second_generation, x, wrong);
      } else if (count_ == segment_entries) {
        collect(x.second, x.generation, x, wrong);
      }
    }
    [[nodiscard]] bool none() const { return count_ == 0; }
    void put_back(machine& m, undo_image& x, mistakes wrong) const {
      if (none()) return;
      line_set changed;
      for (std::size_t k = 0; k < count_; ++k) {
        const undo_entry& e = *live_[wrong.oldest_first ? k : count_ - 1 - k];
        std::memcpy(reinterpret_cast<std::byte*>(x.data) + e.offset, e.old, e.bytes);
        changed.add(e.offset, e.bytes);
      }
      changed.flush(m, x);
      m.media().fence(edge{"kit/R1"});
    }

   private:
    void collect(const undo_entry* segment, std::uint64_t generation, const undo_image& x, mistakes wrong) {
      for (std::size_t i = 0; i < segment_entries; ++i) {
        const undo_entry& e = segment[i];
        const bool ours = wrong.ignore_generation || e.generation == generation;
        if (e.bytes == 0 || !ours || e.sum != sum_of(e, !wrong.sum_without_payload)) return;
        if (e.bytes > sizeof e.old || e.offset > sizeof x.data - e.bytes) return;
        live_[count_++] = &e;
      }
    }
    std::array<const undo_entry*, 2 * segment_entries> live_;
    std::size_t count_ = 0;
  };

  void start() {
    m_.tx_begin();
    used_ = 0;
    changes_ = 0;
  }

  machine& m_;
  undo_image& x_;
  mistakes wrong_;
  std::size_t used_ = 0;
  std::array<range, 16> changed_;
  std::size_t changes_ = 0;
  unsigned depth_ = 0;
  unsigned entries_left_ = ~0U;
};

// A program of operations on the kit.
inline std::uint64_t digest_of_all(const std::uint64_t* data) {
  std::uint64_t d = 0;
  for (std::size_t i = 0; i < data_words; ++i) d += explore::word_hash(i, data[i]);
  return d;
}
struct kit_program {
  const char* name;
  mistakes wrong = {};
  unsigned operations = 1;
  std::function<void(undo_kit&, unsigned)> step;
  std::function<void(std::uint64_t* data)> format = {};          // at the start all words are 0, or as this leaves them
  std::function<void(machine&, std::uint64_t* data)> tidy = {};  // what recovery does after the log
  std::function<std::uint64_t(const std::uint64_t* data)> digest = digest_of_all;  // of what operations promise
  std::function<verdict(const std::uint64_t* data)> check = {};                    // of the structure, after recovery
};

inline subject subject_of(const kit_program& p) {
  auto history = std::make_shared<explore::digest_history>();
  subject s;
  s.name = p.name;
  s.image.resize(sizeof(undo_image));
  auto& start = *reinterpret_cast<undo_image*>(s.image.data());
  start.generation = 1;
  start.second_generation = 1;
  if (p.format) p.format(start.data);
  s.run = [p, history](machine& m) {
    undo_kit kit{m, p.wrong};
    const auto& x = *reinterpret_cast<const undo_image*>(m.base());
    history->clear();
    history->state(p.digest(x.data));
    for (unsigned i = 0; i < p.operations; ++i) {
      m.op_begin();
      p.step(kit, i);
      m.op_end();
      history->state(p.digest(x.data));
    }
  };
  s.recover = [p](machine& m) {
    if (auto wrong = undo_kit::recover(m, p.wrong)) return wrong;
    if (p.tidy) p.tidy(m, reinterpret_cast<undo_image*>(m.base())->data);
    return pass();
  };
  s.oracle = [p, history](machine& m, const window& w) -> verdict {
    const auto& x = *reinterpret_cast<const undo_image*>(m.base());
    if (p.check) {
      if (auto wrong = p.check(x.data)) return wrong;
    }
    return history->check(p.digest(x.data), w);
  };
  s.log_bytes = {{0, offsetof(undo_image, data)}};
  return s;
}

}  // namespace nvm::zoo
