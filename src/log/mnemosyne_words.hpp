// The word log of the mnemosyne engines: writing entries into a lane's ring, and reading a ring that a crash or a
// stranger left.
//
// Torn-bit: a word that did not reach the media still has the torn bit of the lap before, so the log ends at the first
// word with the wrong bit, and one fence makes any number of words count. Plain: the log ends at the tail, a word that
// is stored after the entries before it were fenced.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "log/intent.hpp"
#include "log/lane_layout.hpp"
#include "log/mnemosyne_layout.hpp"
#include "log/recovery.hpp"
#include "log/redo_record.hpp"
#include "media/media.hpp"
#include "pool/pool.hpp"

namespace nvm::log {

// A plain log proves itself by a mark, its tail; the other by a bit in each word.
[[nodiscard]] constexpr bool has_torn_bits(validation how) noexcept { return how != validation::commit_mark; }

// A lane's ring: its place, and how positions move in it.
struct word_ring {
  std::uint64_t offset = 0;  // of the lane in the pool
  std::uint64_t lines = 0;

  word_ring(const geometry& g, unsigned lane) noexcept
      : offset{g.log_offset + lane * g.lane_bytes}, lines{(g.lane_bytes - layout::mnemosyne_ring_at) / line_bytes} {}
  [[nodiscard]] std::uint64_t line_at(std::uint64_t position) const noexcept {
    return offset + layout::mnemosyne_ring_at + position % lines * line_bytes;
  }
  // Not a position.
  [[nodiscard]] std::uint64_t end() const noexcept { return 2 * lines; }
  [[nodiscard]] std::uint64_t next(std::uint64_t position) const noexcept { return (position + 1) % (2 * lines); }
  [[nodiscard]] std::uint64_t distance(std::uint64_t from, std::uint64_t to) const noexcept {
    return (to + 2 * lines - from) % (2 * lines);
  }
  [[nodiscard]] std::uint64_t torn_bit_at(std::uint64_t position) const noexcept {
    return position < lines ? layout::torn_bit : 0;
  }
};

// Appends words at a position; whole lines go past the caches as they fill.  Durable by the caller's next fence.
template <media M>
class word_writer {
 public:
  word_writer(M& m, std::byte* base, const word_ring& ring, bool torn) noexcept
      : media_{m}, base_{base}, ring_{ring}, torn_{torn} {}

  // Continues at this position; half-written words are dropped.
  void start(std::uint64_t position) noexcept {
    position_ = position;
    used_ = 0;
    rest_ = rest_bits_ = 0;
  }
  // Position of the line that is being filled, or of the next one.
  [[nodiscard]] std::uint64_t position() const noexcept { return position_; }

  void put(std::uint64_t word) noexcept {
    if (!torn_) return emit(word);
    emit(rest_ | (word << rest_bits_ & ~layout::torn_bit));
    rest_ = word >> (63 - rest_bits_);
    if (++rest_bits_ == 63) {
      emit(rest_);
      rest_ = rest_bits_ = 0;
    }
  }
  [[gnu::noinline]] void put_bytes(std::uint64_t offset, const std::byte* from, std::uint64_t bytes) noexcept {
    put(layout::pack_range(offset, bytes));
    for (std::uint64_t done = 0; done < bytes; done += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, from + done, bytes - done < 8 ? bytes - done : 8);
      put(word);
    }
  }
  // Called after an end word and its intents: the next word begins a line.
  [[gnu::noinline]] void align() noexcept {
    if (rest_bits_ != 0) {
      emit(rest_);
      rest_ = rest_bits_ = 0;
    }
    while (used_ != 0) emit(0);
  }

  // Most lines that `words` more words and a word that ends them take.
  static constexpr std::uint64_t lines_for(std::uint64_t words) noexcept { return words * 64 / 63 / 8 + 4; }

 private:
  void emit(std::uint64_t word) noexcept {
    line_[used_++] = torn_ ? word | ring_.torn_bit_at(position_) : word;
    if (used_ != words_of_line) return;
    used_ = 0;
    copy_out(media_, base_ + ring_.line_at(position_), line_, line_bytes);
    position_ = ring_.next(position_);
  }

  static constexpr unsigned words_of_line = line_bytes / 8;

  M& media_;
  std::byte* base_;
  word_ring ring_;
  bool torn_;
  std::uint64_t position_ = 0;
  alignas(line_bytes) std::uint64_t line_[words_of_line] = {};
  unsigned used_ = 0;
  std::uint64_t rest_ = 0;
  std::uint64_t rest_bits_ = 0;
};

// Reads words from a position, up to `end` (plain) or to the first one that is not of this lap (torn-bit).
class word_reader {
 public:
  word_reader(const std::byte* base, const word_ring& ring, bool torn, std::uint64_t from, std::uint64_t end) noexcept
      : base_{base}, ring_{ring}, torn_{torn}, position_{from}, end_{end}, lines_left_{ring.lines} {}

  // False: the log ends here.
  [[nodiscard]] bool get(std::uint64_t& word) noexcept {
    if (!torn_) return raw(word);
    if (rest_bits_ == 0) {
      if (!raw(rest_)) return false;
      rest_bits_ = 63;
    }
    std::uint64_t more = 0;
    if (!raw(more)) return false;
    word = rest_ | more << rest_bits_;
    const std::uint64_t taken = 64 - rest_bits_;
    rest_ = more >> taken;
    rest_bits_ = 63 - taken;
    return true;
  }
  // Continues at the next line, like word_writer::align().
  void align() noexcept {
    rest_ = rest_bits_ = 0;
    if (next_ != 0) leave_line();
  }
  [[nodiscard]] std::uint64_t position() const noexcept { return position_; }

 private:
  [[nodiscard]] bool raw(std::uint64_t& word) noexcept {
    if (lines_left_ == 0 || (!torn_ && position_ == end_)) return false;
    std::memcpy(&word, base_ + ring_.line_at(position_) + next_ * 8, 8);
    if (torn_) {
      if ((word & layout::torn_bit) != ring_.torn_bit_at(position_)) return false;
      word &= ~layout::torn_bit;
    }
    if (++next_ == line_bytes / 8) leave_line();
    return true;
  }
  void leave_line() noexcept {
    next_ = 0;
    --lines_left_;
    position_ = ring_.next(position_);
  }

  const std::byte* base_;
  word_ring ring_;
  bool torn_;
  std::uint64_t position_;
  std::uint64_t end_;
  std::uint64_t lines_left_;
  unsigned next_ = 0;  // word of the line
  std::uint64_t rest_ = 0;
  std::uint64_t rest_bits_ = 0;
};

}  // namespace nvm::log
