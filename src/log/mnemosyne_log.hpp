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
/// The committing thread waits for every fence; no work is left to a background thread or a later transaction. A
/// transaction's entries are void before another thread sees its stores. So lanes need no order among them, a freed
/// slot may be used again at once, and tags need no settling (tag.hpp).
//
// Threads: a lane is used by the one that acquired it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "log/mnemosyne_words.hpp"
#include "log/tag.hpp"
#include "media/media.hpp"
#include "pool/pool.hpp"
#include "sync/sync.hpp"

namespace nvm::log {

template <media M>
class mnemosyne_log : public number_owners {
 public:
  static constexpr bool ordered = false;

  mnemosyne_log(M& m, std::byte* base, const geometry& g, unsigned count, validation how)
      : number_owners{count}, media_{m}, base_{base}, geometry_{g}, validation_{how}, lanes_{new lane[count]} {}

  [[nodiscard]] validation validated_by() const noexcept { return validation_; }

  // The lane continues at this position; no entry in it counts.
  void start(unsigned index, std::uint64_t position) noexcept { lanes_[index].head = lanes_[index].begin = position; }

  // Called before the lane's first transaction, by the thread that holds it. False: no volatile memory.
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

  // Makes room for `words` more words of the open transaction, and for its end. If need be it gives up the entries of
  // aborted transactions in the ring.
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
  // Lines that the open transaction takes, and lines in all.
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
  // From now on the entries and these intents count; there is room for them.
  [[gnu::noinline]] void commit_point(unsigned index, const std::vector<std::uint64_t>& intents) noexcept {
    end(index, layout::mnemosyne_end::commit, intents);
    media_.fence(edge{"mnemosyne/E1"});
    store_tail(index);
  }
  // Undo: entries since the last group count from now on, and their places may be overwritten.
  void end_group(unsigned index) noexcept {
    end(index, layout::mnemosyne_end::group, {});
    media_.fence(edge{"mnemosyne/E5"});
    store_tail(index);
  }
  // Makes intents that count; they are durable on return, as are all earlier flushes.
  [[gnu::noinline]] void settle_intents(const std::vector<std::uint64_t>& intents) noexcept {
    (void)each_intent(intents.data(), intents.size(), [&](const intent& i) {
      apply(base_, i);
      each_store(i, [&](std::uint64_t offset, std::uint64_t bytes) { media_.flush(base_ + offset, bytes); });
      return true;
    });
    media_.fence(edge{"mnemosyne/E3"});
  }
  // Entries that counted are home, and count no more. No transaction is open.
  void truncate(unsigned index) noexcept {
    lane& l = lanes_[index];
    NVM_ASSERT(!l.open);
    move_head(index, l.begin);
    l.garbage_end = l.begin;
  }
  // Whether there are entries that count, or did.
  [[nodiscard]] bool has_entries(unsigned index) const noexcept { return lanes_[index].head != lanes_[index].begin; }
  // Makes entries without an end void for ever.
  [[gnu::noinline]] void forget(unsigned index) noexcept {
    lane& l = lanes_[index];
    if (!l.open) return;
    if (!torn() || l.writer->position() == l.begin) {  // the tail says so, or no word has left the processor
      l.writer->start(l.begin);
      l.open = false;
      return;
    }
    // A reader reads through them, up to the word that makes them void. The fence is for the next transaction, which
    // may be another thread's: that thread's fence would not wait for these.
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

  // Empties every lane: the next recovery finds nothing to do. No transaction is open.
  void come_to_rest() noexcept {
    for (unsigned i = 0; i < count(); ++i) {
      if (has_entries(i)) truncate(i);
    }
  }

  // ---- settling (tag.hpp): no entry is ever left that could be replayed ----
  void settle(tag, unsigned) noexcept {}
  void settle_all(tag) noexcept {}

 private:
  struct alignas(line_bytes) lane {
    std::uint64_t head = 0;         // as on media
    std::uint64_t garbage_end = 0;  // no entry before here counts, even if the head is lower
    std::uint64_t begin = 0;        // after the last end word
    std::uint64_t written = 0;
    bool open = false;  // there are words without an end
    std::unique_ptr<word_writer<M>> writer;
  };

  [[nodiscard]] bool torn() const noexcept { return has_torn_bits(validation_); }
  // Writes the last word of a group of entries, with its intents; then a new line begins.
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
