// The lanes of the mnemosyne engines: a word log each, emptied at the end of every transaction.
//
/// One transaction.  S store, F flush, | fence.  Failure atomicity: one aligned 8-byte store.
///   redo:  1. S, F an entry for each store as it is made (new bytes), one for each fresh object, a commit word with
///             intents                                        | mnemosyne/E1  torn-bit: the commit point
///             plain: S, F tail                               | mnemosyne/E2  plain: the commit point
///          2. S, F new bytes home, S, F intents              | mnemosyne/E3  home before the entries stop counting
///          3. S, F head = tail                               | mnemosyne/E4  they count no more
///   undo:  1. S, F an entry for each store before it is made (old bytes)
///                                                            | mnemosyne/E5  old bytes durable before the store
///             plain: S, F tail                               | mnemosyne/E2  the same
///          2. S new bytes in place
///          3. F new bytes, fresh objects                     | mnemosyne/E6  new bytes durable before the old ones go
///          4. with intents: a commit word with them, as redo 1: the commit point; then
///             S, F intents                                   | mnemosyne/E3
///          5. S, F head = tail                               | mnemosyne/E4  without intents: the commit point
/// Large fresh objects of redo are no entries: F them         | mnemosyne/E7  before the commit point
/// Redo, rolled back: S, F an abort word (torn-bit)           | mnemosyne/E12 before the next transaction's entries
/// Every fence is waited for by the thread that commits; nothing is left to a background thread or to a later one.
/// A transaction's entries are gone before anyone sees what it wrote, so lanes need no order among them, a freed slot
/// may be used again at once, and nothing has to settle (tag.hpp).
//
// Threads: a lane is used by the one that acquired it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "log/lane_owners.hpp"
#include "log/mnemosyne_words.hpp"
#include "log/tag.hpp"
#include "media/media.hpp"
#include "pool/pool.hpp"

namespace nvm::log {

template <media M>
class mnemosyne_log : public lane_owners {
 public:
  static constexpr bool ordered = false;

  mnemosyne_log(M& m, std::byte* base, const geometry& g, unsigned count, validation how)
      : lane_owners{count}, media_{m}, base_{base}, geometry_{g}, validation_{how}, lanes_{new lane[count]} {}

  [[nodiscard]] validation validated_by() const noexcept { return validation_; }

  // The lane goes on at this position; nothing in it counts.
  void start(unsigned index, std::uint64_t position) noexcept { lanes_[index].head = lanes_[index].begin = position; }

  // Before the lane's first transaction, by who holds it.  False: no volatile memory.
  [[nodiscard]] bool furnish(unsigned index) noexcept {
    lane& l = lanes_[index];
    if (l.writer != nullptr) return true;
    l.writer.reset(new (std::nothrow) word_writer<M>{media_, base_, word_ring{geometry_, index}, torn()});
    if (l.writer == nullptr) return false;
    l.writer->start(l.head);
    l.begin = l.garbage_end = l.head;
    return true;
  }

  // ---- the lane's owner ----

  // Room for `words` more words of the open transaction, and for ending it.  What aborted transactions have left in the
  // ring is given up if need be.
  [[nodiscard]] status make_room(unsigned index, std::uint64_t words) noexcept {
    lane& l = lanes_[index];
    const word_ring ring{geometry_, index};
    const std::uint64_t lines = word_writer<M>::lines_for(words);
    if (ring.distance(l.head, l.writer->position()) + lines < ring.lines) return {};
    if (l.garbage_end != l.head && ring.distance(l.garbage_end, l.writer->position()) + lines < ring.lines) {
      move_head(index, l.garbage_end);
      return {};
    }
    return fail(errc::log_full, "a transaction of more than %lu lines of log: the lane's ring has %lu",
                ring.distance(l.garbage_end, l.writer->position()) + lines, ring.lines);
  }
  // Lines that the open transaction takes, and that there are.
  struct lines_taken {
    std::uint64_t used, all;
  };
  [[nodiscard]] lines_taken lines_of(unsigned index) const noexcept {
    const lane& l = lanes_[index];
    const word_ring ring{geometry_, index};
    return {ring.distance(l.garbage_end, l.writer->position()), ring.lines};
  }
  void put_bytes(unsigned index, std::uint64_t offset, const std::byte* from, std::uint64_t bytes) noexcept {
    lane& l = lanes_[index];
    l.writer->put_bytes(offset, from, bytes);
    l.written += 8 + round_up(bytes, 8);
    l.open = true;
  }
  // The entries count from now on, and these intents; there is room for them.
  [[gnu::noinline]] void commit_point(unsigned index, const std::vector<std::uint64_t>& intents) noexcept {
    end(index, layout::mnemosyne_end::commit, intents);
    media_.fence(edge{"mnemosyne/E1"});
    store_tail(index);
  }
  // Undo: what was put since the last group counts, and may be overwritten where it came from.
  void end_group(unsigned index) noexcept {
    end(index, layout::mnemosyne_end::group, {});
    media_.fence(edge{"mnemosyne/E5"});
    store_tail(index);
  }
  // Intents that count are made; they are durable on return, as is everything that was flushed before.
  [[gnu::noinline]] void settle_intents(const std::vector<std::uint64_t>& intents) noexcept {
    (void)each_intent(intents.data(), intents.size(), [&](const intent& i) {
      apply(base_, i);
      each_store(i, [&](std::uint64_t offset, std::uint64_t bytes) { media_.flush(base_ + offset, bytes); });
      return true;
    });
    media_.fence(edge{"mnemosyne/E3"});
  }
  // What counted is home: it counts no more.  Nothing is open.
  void truncate(unsigned index) noexcept {
    lane& l = lanes_[index];
    NVM_ASSERT(!l.open);
    move_head(index, l.begin);
    l.garbage_end = l.begin;
  }
  // Something counts, or did.
  [[nodiscard]] bool has_entries(unsigned index) const noexcept { return lanes_[index].head != lanes_[index].begin; }
  // What was put and has no end is never to count.
  [[gnu::noinline]] void forget(unsigned index) noexcept {
    lane& l = lanes_[index];
    if (!l.open) return;
    if (!torn() || l.writer->position() == l.begin) {  // the tail says so, or nothing has left the processor
      l.writer->start(l.begin);
      l.open = false;
      return;
    }
    // The log is read through them, up to a word that says what they are.  The fence is for the next transaction, which
    // may be another thread's: its own would not wait for these.
    const bool nothing_counts = l.garbage_end == l.begin;
    end(index, layout::mnemosyne_end::abort, {});
    media_.fence(edge{"mnemosyne/E12"});
    if (nothing_counts) l.garbage_end = l.begin;
  }
  // Bytes of entries since the last call.
  [[nodiscard]] std::uint64_t take_written(unsigned index) noexcept {
    const std::uint64_t written = lanes_[index].written;
    lanes_[index].written = 0;
    return written;
  }

  // Every lane is empty: the next recovery finds nothing to do.  No transaction is open.
  void come_to_rest() noexcept {
    for (unsigned i = 0; i < count(); ++i) {
      if (has_entries(i)) truncate(i);
    }
  }

  // ---- settling (tag.hpp): nothing is ever left that could be replayed ----
  void settle(tag, unsigned) noexcept {}
  void settle_all(tag) noexcept {}

 private:
  struct alignas(line_bytes) lane {
    std::uint64_t head = 0;         // as on media
    std::uint64_t garbage_end = 0;  // nothing counts before here, even if the head is lower
    std::uint64_t begin = 0;        // after the last end word
    std::uint64_t written = 0;
    bool open = false;  // there are words without an end
    std::unique_ptr<word_writer<M>> writer;
  };

  [[nodiscard]] bool torn() const noexcept { return has_torn_bits(validation_); }
  // The last word of a group of entries, and what belongs to it; begins a line.
  void end(unsigned index, layout::mnemosyne_end kind, std::span<const std::uint64_t> intents) noexcept {
    lane& l = lanes_[index];
    l.writer->put(layout::pack_end(kind, intents.size()));
    for (const std::uint64_t word : intents) l.writer->put(word);
    l.writer->align();
    l.written += 8 + 8 * intents.size();
    l.begin = l.writer->position();
    l.open = false;
  }
  void store_tail(unsigned index) noexcept {
    if (torn()) return;
    const std::uint64_t at = word_ring{geometry_, index}.offset + offsetof(layout::mnemosyne_head, tail);
    store_word(at, lanes_[index].begin);
    media_.fence(edge{"mnemosyne/E2"});
  }
  void store_word(std::uint64_t at, std::uint64_t content) noexcept {
    auto* word = reinterpret_cast<std::uint64_t*>(base_ + at);
    *word = seal_word(content, word_seed(at));
    media_.flush(word, sizeof *word);
  }
  void move_head(unsigned index, std::uint64_t position) noexcept {
    lane& l = lanes_[index];
    store_word(word_ring{geometry_, index}.offset + offsetof(layout::mnemosyne_head, head), position);
    media_.fence(edge{"mnemosyne/E4"});
    l.head = position;
  }

  M& media_;
  std::byte* base_;
  geometry geometry_;
  validation validation_;
  std::unique_ptr<lane[]> lanes_;
};

}  // namespace nvm::log
