// Recovery of the mnemosyne engines from their word logs.
//
/// 1. read and check what counts in every lane's log; nothing is stored if one is damaged (errc::corrupt)
///    F every lane's head and tail; torn-bit: its ring
///                                          | mnemosyne/E13  what the next steps see stays
/// 2. redo: S the committed entries' bytes, in order
///    undo: S the old bytes of a transaction that did not commit, newest first
///    committed: S its intents; F all       | mnemosyne/E8   done before the log is gone
/// 3. S head = after what counted; F        | mnemosyne/E9   nothing counts any more
/// 4. torn-bit: S every line ahead that has words of the lap to be written; F
///                                          | mnemosyne/E10  before the lane is used
/// Repeatable: 2 stores the same bytes again until 3 is durable; from then on the log is empty, and 4 concerns lines
/// that it does not reach. A lane without entries that count and without words ahead is left alone: after a close,
/// every lane.
///
/// The fence of 1. A killed process leaves its last stores in caches only. If an end word or the tail were lost when
/// half of its group is home, the transaction would be torn; if a head were taken back, the log would begin with
/// entries for places that other lanes have overwritten since. The same process may have been in 4, and a line does not
/// show that its bit is in a cache only: so all are written back.
///
/// Step 4. After the last word that counts there may be others of its lap that reached the media before the words
/// between. The next transactions would write up to them, and a crash could then show them as their continuation; so
/// could the missing words, a lap later. So 3 continues at the first line that has no word of its lap, and 4 gives all
/// lines from there on, once round the ring, the bit of the lap before.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

#include "log/mnemosyne_words.hpp"
#include "log/recovery.hpp"
#include "media/media.hpp"
#include "pool/pool.hpp"

namespace nvm::log {

enum class mnemosyne_kind : std::uint8_t { redo, undo };

// Contents of a lane's head and tail; errc::corrupt if they are invalid.
struct mnemosyne_state {
  std::uint64_t head = 0;
  std::uint64_t tail = 0;
};
[[nodiscard]] inline result<mnemosyne_state> read_mnemosyne_state(const std::byte* base, const geometry& g,
                                                                  unsigned lane) noexcept {
  const word_ring ring{g, lane};
  const auto position_at = [&](std::uint64_t at, const char* name) -> result<std::uint64_t> {
    std::uint64_t word = 0;
    std::memcpy(&word, base + at, sizeof word);
    if (word_holds(word, word_seed(at)) && (word & checked_mask) < 2 * ring.lines) return word & checked_mask;
    return fail(errc::corrupt, "lane %u at offset %lu: %s: found %016lx, which is no place in the ring", lane, at, name,
                word);
  };
  const auto head = position_at(ring.offset + offsetof(layout::mnemosyne_head, head), "head");
  if (!head) return head.error();
  const auto tail = position_at(ring.offset + offsetof(layout::mnemosyne_head, tail), "tail");
  if (!tail) return tail.error();
  return mnemosyne_state{*head, *tail};
}

template <targets V>
class mnemosyne_reader {
 public:
  mnemosyne_reader(const std::byte* base, const geometry& g, mnemosyne_kind kind, bool torn, unsigned lane,
                   const V& valid) noexcept
      : base_{base}, geometry_{g}, kind_{kind}, torn_{torn}, lane_{lane}, ring_{g, lane}, valid_{valid} {}

  [[nodiscard]] status validate() noexcept try {
    auto s = read_mnemosyne_state(base_, geometry_, lane_);
    if (!s) return s.error();
    state_ = *s;
    rest_ = torn_ ? first_free_line() : state_.tail;
    if (torn_ && rest_ == ring_.end()) {
      return fail(errc::corrupt, "lane %u at offset %lu: no line of the ring is free", lane_, ring_.offset);
    }
    word_reader words{base_, ring_, torn_, state_.head, state_.tail};
    bool whole = true;
    for (std::uint64_t word = 0; whole && words.get(word);) {
      if (const std::uint64_t bytes = layout::range_bytes(word); bytes != 0) {
        whole = read_entry(words, layout::range_offset(word), bytes);
        continue;
      }
      const auto end = static_cast<layout::mnemosyne_end>(word & 15);
      whole = end != layout::mnemosyne_end::commit || read_intents(words, word >> 4);
      if (!whole) break;
      switch (end) {
        case layout::mnemosyne_end::commit:
          if (status checked = check(entries_counted_); !checked) return checked;
          committed_ = true;
          if (kind_ == mnemosyne_kind::undo) entries_.clear();
          break;
        case layout::mnemosyne_end::abort:
          entries_.resize(entries_counted_);
          break;
        case layout::mnemosyne_end::group:
          whole = kind_ == mnemosyne_kind::undo;
          break;
        default:
          whole = false;  // a word that no transaction writes: the log has ended
      }
      if (!whole) break;
      entries_counted_ = entries_.size();
      intents_counted_ = intents_.size();
      words.align();
    }
    intents_.resize(intents_counted_);
    entries_.resize(entries_counted_);
    return kind_ == mnemosyne_kind::undo ? check(0) : status{};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for what lane %u has logged", lane_);
  }

  // Whether no entry counts and no word in the ring can come to count.
  [[nodiscard]] bool at_rest() const noexcept {
    return !found_any() && rest_ == state_.head && !(torn_ && stops_at_line_ahead([](std::uint64_t) { return false; }));
  }
  // Where the lane continues after repair().
  [[nodiscard]] std::uint64_t rest() const noexcept { return rest_; }
  [[nodiscard]] bool found_any() const noexcept { return !entries_.empty() || !intents_.empty(); }
  [[nodiscard]] bool committed() const noexcept { return committed_; }

  // The flushes of step 1, after validate(); the caller fences.
  template <media M>
  void write_back(M& m) const noexcept {
    m.flush(base_ + ring_.offset, torn_ ? layout::mnemosyne_ring_at + ring_.lines * line_bytes : line_bytes);
  }
  // Steps 2 to 4, after validate(); the lane goes on at the position returned.
  template <media M>
  std::uint64_t repair(M& m, std::byte* base) noexcept {
    if (found_any()) {
      put_bytes(m, base);
      each_intent(intents_.data(), intents_.size(), [&](const intent& i) {
        apply(base, i);
        each_store(i, [&](std::uint64_t offset, std::uint64_t bytes) { m.flush(base + offset, bytes); });
        return true;
      });
      m.fence(edge{"mnemosyne/E8"});
    }
    if (rest_ != state_.head) {
      auto* word = reinterpret_cast<std::uint64_t*>(base + ring_.offset);
      *word = seal_word(rest_, word_seed(ring_.offset));
      m.flush(word, sizeof *word);
      m.fence(edge{"mnemosyne/E9"});
    }
    if (torn_) give_old_bits(m, base);
    return rest_;
  }

 private:
  struct entry {
    std::uint64_t offset;
    std::uint64_t bytes;
    std::size_t data;  // words of data_
  };

  [[nodiscard]] bool read_entry(word_reader& words, std::uint64_t offset, std::uint64_t bytes) {
    const entry e{offset, bytes, data_.size()};
    for (std::uint64_t done = 0; done < bytes; done += 8) {
      std::uint64_t word = 0;
      if (!words.get(word)) return false;
      data_.push_back(word);
    }
    entries_.push_back(e);
    return true;
  }
  [[nodiscard]] bool read_intents(word_reader& words, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      std::uint64_t word = 0;
      if (!words.get(word)) return false;
      intents_.push_back(word);
    }
    return true;
  }
  // Checks the entries from `first` on, and the intents that do not count yet.
  [[nodiscard]] status check(std::size_t first) const noexcept {
    for (std::size_t i = first; i < entries_.size(); ++i) {
      if (valid_.range(entries_[i].offset, entries_[i].bytes)) continue;
      return fail(errc::corrupt, "lane %u at offset %lu: found an entry of %lu bytes at %lu, which do not exist", lane_,
                  ring_.offset, entries_[i].bytes, entries_[i].offset);
    }
    const bool good = each_intent(intents_.data() + intents_counted_, intents_.size() - intents_counted_,
                                  [&](const intent& i) { return valid_.word(i); });
    if (!good) {
      return fail(errc::corrupt, "lane %u at offset %lu: found allocation words that do not exist", lane_,
                  ring_.offset);
    }
    return {};
  }
  template <media M>
  void put_bytes(M& m, std::byte* base) noexcept {
    const auto put = [&](const entry& e) {
      std::memcpy(base + e.offset, data_.data() + e.data, e.bytes);
      m.flush(base + e.offset, e.bytes);
    };
    if (kind_ == mnemosyne_kind::redo) {
      for (const entry& e : entries_) put(e);
    } else {
      for (std::size_t i = entries_.size(); i-- > 0;) put(entries_[i]);
    }
  }
  // Whether words of the line have the torn bit that they will get when this position is written.
  [[nodiscard]] bool has_new_bits(std::uint64_t position) const noexcept {
    const auto* words = reinterpret_cast<const std::uint64_t*>(base_ + ring_.line_at(position));
    const std::uint64_t mine = ring_.torn_bit_at(position);
    return std::any_of(words, words + line_bytes / 8,
                       [mine](std::uint64_t w) { return (w & layout::torn_bit) == mine; });
  }
  // The first free line from the head on; ring_.end() if there is none. The log cannot continue after it.
  [[nodiscard]] std::uint64_t first_free_line() const noexcept {
    std::uint64_t position = state_.head;
    for (std::uint64_t i = 0; i < ring_.lines; ++i, position = ring_.next(position)) {
      if (!has_new_bits(position)) return position;
    }
    return ring_.end();
  }
  // Calls f(position) for each line that has new bits, from where the lane continues, once round the ring, until a call
  // returns false; true if that happened.
  template <class F>
  bool stops_at_line_ahead(F&& f) const noexcept {
    std::uint64_t position = rest_;
    for (std::uint64_t i = 0; i < ring_.lines; ++i, position = ring_.next(position)) {
      if (has_new_bits(position) && !f(position)) return true;
    }
    return false;
  }
  template <media M>
  void give_old_bits(M& m, std::byte* base) noexcept {
    bool any = false;
    (void)stops_at_line_ahead([&](std::uint64_t position) {
      auto* line = reinterpret_cast<std::uint64_t*>(base + ring_.line_at(position));
      std::fill_n(line, line_bytes / 8, layout::torn_bit & ~ring_.torn_bit_at(position));
      m.flush(line, line_bytes);
      any = true;
      return true;
    });
    if (any) m.fence(edge{"mnemosyne/E10"});
  }

  const std::byte* base_;
  const geometry& geometry_;
  mnemosyne_kind kind_;
  bool torn_;
  unsigned lane_;
  word_ring ring_;
  const V& valid_;
  mnemosyne_state state_;
  std::uint64_t rest_ = 0;  // where the lane continues
  std::vector<entry> entries_;
  std::vector<std::uint64_t> data_;
  std::vector<std::uint64_t> intents_;
  std::size_t entries_counted_ = 0;  // entries whose end was read
  std::size_t intents_counted_ = 0;
  bool committed_ = false;
};

}  // namespace nvm::log
