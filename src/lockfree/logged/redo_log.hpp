// Redo logging for lock-based structures, by hand, with which the log-free structures are compared (log-free, section
// 6.2).
//
// An operation holds its locks, knows which links it is going to change and to what, and has made its new nodes:
//
/// 1. F new nodes, F their allocation words; S record {new nodes, links and values}; F it; | logged/E1  commit point
/// 2. S the links; F them
///    rule::settled:                                         | logged/E2  before another thread can change them again
///    S the record's tag 0; F it;                            | logged/E3  before its locks go
/// Before a node is unlinked its area is active, durably:      logged/E6
/// Recovery: the allocation bits and the links of every record that is whole, in the order of their tags;
///                                                            | logged/E4
///    S all tags 0; F them;                                   | logged/E5
///
// A record is whole when all of its lines have the same tag, which is stored last in each, and so have the lines of its
// new nodes: stores to one line become durable in program order (docs/persistency-model.md).
//
// rule::settled is redo logging as it is usually done by hand: three syncs an update.  rule::stamped needs one: each
// link has a stamp beside it, in its line and stored after it: the tag of the record, taken under the locks.  So an
// overtaken record is recognised; it need not be closed, and may be replayed together with any others; the changes of
// an operation are durable with the fence of the thread's next one, and its record lasts until then because a thread
// has two.
//
// Locks are words beside the links and hold this opening's token, so that a crash leaves none locked.  NV-epochs keep
// account of nodes, as for the log-free structures.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "lockfree/link.hpp"
#include "lockfree/node_heap.hpp"
#include "media/media.hpp"
#include "space/space.hpp"
#include "sync/sync.hpp"

namespace nvm::lockfree::logged {

enum class rule : std::uint8_t { settled = 1, stamped = 2 };

// A link with the stamp of the record that changed it last; both in one line.
struct alignas(16) stamped_link {
  link_word word;
  std::uint64_t stamp;

  // acquire: pairs with put(): what it leads to is complete, and committed.
  [[nodiscard]] link_word load() const noexcept {
    return std::atomic_ref<link_word>{const_cast<link_word&>(word)}.load(std::memory_order_acquire);
  }
  // For a node that no other thread can see.  release: everything in its line comes before the stamp.
  void set(link_word w, std::uint64_t tag) noexcept {
    std::atomic_ref<link_word>{word}.store(w, std::memory_order_relaxed);
    std::atomic_ref<std::uint64_t>{stamp}.store(tag, std::memory_order_release);
  }
  // Called under its lock, after the commit.  release: pairs with load(); the stamp comes after the link.
  void put(link_word w, std::uint64_t now) noexcept {
    std::atomic_ref<link_word>{word}.store(w, std::memory_order_release);
    std::atomic_ref<std::uint64_t>{stamp}.store(now, std::memory_order_release);
  }
};

// A lock, held by the thread that stored the token of this opening.
struct token_lock {
  std::uint64_t holder;

  void lock(std::uint64_t token) noexcept {
    for (unsigned spins = 0; !try_lock(token); ++spins) {
      if (spins < 64) {
        isa::spin_hint();
      } else {
        std::this_thread::yield();
      }
    }
  }
  [[nodiscard]] bool try_lock(std::uint64_t token) noexcept {
    const std::atomic_ref<std::uint64_t> h{holder};
    std::uint64_t now = h.load(std::memory_order_relaxed);
    // acquire: pairs with unlock().
    return now != token && h.compare_exchange_strong(now, token, std::memory_order_acquire, std::memory_order_relaxed);
  }
  void unlock() noexcept { std::atomic_ref<std::uint64_t>{holder}.store(0, std::memory_order_release); }
};

inline constexpr unsigned threads_max = 64;
inline constexpr unsigned changes_max = 18;
inline constexpr unsigned births_max = 6;

namespace layout {
inline constexpr std::uint64_t magic = 0x474F'4C44'4552'464C;  // "LFREDLOG" in file order
// The root of each structure begins so.
struct root {
  std::uint64_t magic;
  std::uint64_t rule;
  std::uint64_t openings;
  std::uint64_t log_offset;
  std::uint64_t reserved[4];
};
static_assert(sizeof(root) == 64);

// For a link: where it is, and what it becomes.  For a new node's line: where its tag is, and which node it is.
struct item {
  std::uint64_t place;
  std::uint64_t word;
};
struct line {
  std::uint64_t counts;  // lines of new nodes (8 bits), links (8); in the first line, elsewhere 0
  item items[3];         // new nodes before links
  std::uint64_t tag;
};
static_assert(sizeof(line) == line_bytes);
inline constexpr unsigned record_lines = (births_max + changes_max + 2) / 3;
struct thread_log {
  line records[2][record_lines];
};
inline constexpr std::uint64_t log_bytes = threads_max * sizeof(thread_log);
}  // namespace layout

// The changes that an operation is going to make.
class change_set {
 public:
  // A line of a new node, by the word that is stored last in it.
  void bear(std::uint64_t tag_at, std::uint64_t node) noexcept {
    NVM_ASSERT(births_ < births_max && births_ == count_);
    items_[count_++] = {tag_at, node};
    ++births_;
  }
  // Adds a link, after all lines of new nodes.
  void add(std::uint64_t link_at, link_word word) noexcept {
    NVM_ASSERT(count_ - births_ < changes_max);
    items_[count_++] = {link_at, word};
  }
  [[nodiscard]] unsigned births() const noexcept { return births_; }
  [[nodiscard]] unsigned count() const noexcept { return count_; }
  [[nodiscard]] const layout::item& operator[](unsigned i) const noexcept { return items_[i]; }

 private:
  unsigned count_ = 0;
  unsigned births_ = 0;
  std::array<layout::item, births_max + changes_max> items_;
};

template <class Memory>
class redo_log {
 public:
  using session = typename Memory::session;

  // Makes a root that nothing leads to yet; `log` has layout::log_bytes.  The caller makes both durable.
  static void make_root(std::byte* root, rule r, std::byte* log, std::uint64_t log_offset) noexcept {
    *reinterpret_cast<layout::root*>(root) = {layout::magic, static_cast<std::uint64_t>(r), 0, log_offset, {}};
    std::fill_n(log, layout::log_bytes, std::byte{});
  }

  // Replays what a crash has left.  No thread is in the structure.
  redo_log(Memory& memory, std::uint64_t root) noexcept
      : memory_{memory},
        medium_{memory.of().medium()},
        root_{*reinterpret_cast<layout::root*>(memory.at(root))},
        log_{reinterpret_cast<layout::thread_log*>(memory.at(root_.log_offset))},
        stamped_{root_.rule == static_cast<std::uint64_t>(rule::stamped)} {
    recover();
  }

  [[nodiscard]] std::uint64_t token() const noexcept { return token_; }
  [[nodiscard]] bool has_room_for(session& s) const noexcept { return s.thread().number() < threads_max; }

  // Tag of the record that this thread, holding all of its locks, is about to commit.
  [[nodiscard]] std::uint64_t begin(session& s) noexcept {
    const unsigned number = s.thread().number();
    // relaxed: the locks order it.
    if (stamped_) return next_.fetch_add(1, std::memory_order_relaxed) + 1;
    return opening_base_ | std::uint64_t{number} << 32 | ++side_[number].tags;
  }
  // Makes the changes, all or none, durably on return.  The thread holds their locks; new nodes bear the tag and are
  // flushed.  committed() runs when the changes are certain, before the first is seen.
  template <class Committed>
  void commit(session& s, std::uint64_t tag, const change_set& changes, Committed&& committed) noexcept {
    const unsigned number = s.thread().number();
    layout::line* const record = log_[number].records[stamped_ ? side_[number].turn++ & 1 : 0];
    const unsigned lines = (changes.count() + 2) / 3;
    for (unsigned i = 0; i < lines; ++i) {
      layout::line& l = record[i];
      l.counts = i != 0 ? 0 : changes.births() | std::uint64_t{changes.count() - changes.births()} << 8;
      for (unsigned k = 0; k < 3 && 3 * i + k < changes.count(); ++k) l.items[k] = changes[3 * i + k];
      // release: the tag is the last store to its line.
      std::atomic_ref<std::uint64_t>{l.tag}.store(tag, std::memory_order_release);
    }
    medium_.flush(record, lines * sizeof(layout::line));
    medium_.fence(edge{"logged/E1"});
    committed();
    const std::byte* line = nullptr;
    for (unsigned i = changes.births(); i < changes.count(); ++i) {
      auto* l = reinterpret_cast<stamped_link*>(memory_.at(changes[i].place));
      put(*l, changes[i].word, tag);
      const std::byte* const of = line_of(l);
      if (line != nullptr && of != line) medium_.flush(line, 1);
      line = of;
    }
    if (line != nullptr) medium_.flush(line, 1);
    if (stamped_) return;
    medium_.fence(edge{"logged/E2"});
    // release: after the links.
    std::atomic_ref<std::uint64_t>{record->tag}.store(0, std::memory_order_release);
    medium_.flush(&record->tag, 8);
    medium_.fence(edge{"logged/E3"});
  }

  // A node, one of `count`, will be unlinked by the next commit; false: it may not be, for want of memory.
  [[nodiscard]] bool may_unlink(session& s, std::uint64_t offset, std::size_t count = 1) noexcept {
    const std::uint64_t misses = s.thread().areas.counts().unlink_misses;
    if (!memory_.of().may_unlink(s.thread(), memory_.heap(), offset, true, count)) return false;
    if (s.thread().areas.counts().unlink_misses != misses) medium_.fence(edge{"logged/E6"});
    return true;
  }

  [[nodiscard]] std::uint64_t replayed() const noexcept { return replayed_; }

 private:
  struct alignas(line_bytes) volatile_side {
    std::uint32_t turn = 0;
    std::uint32_t tags = 0;
  };
  // Without stamps a link keeps the tag of its node.
  void put(stamped_link& l, link_word word, std::uint64_t tag) const noexcept {
    if (stamped_) {
      l.put(word, tag);
    } else {
      // release: pairs with load().
      std::atomic_ref<link_word>{l.word}.store(word, std::memory_order_release);
    }
  }
  static std::byte* line_of(void* p) noexcept {
    return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(p) / line_bytes * line_bytes);
  }

  static const layout::item& item_of(const layout::line* record, unsigned i) noexcept {
    return record[i / 3].items[i % 3];
  }
  static unsigned births_of(const layout::line* record) noexcept { return record->counts & 0xFF; }
  static unsigned count_of(const layout::line* record) noexcept {
    return births_of(record) + (record->counts >> 8 & 0xFF);
  }
  [[nodiscard]] bool is_whole(const layout::line* record) const noexcept {
    const unsigned count = count_of(record);
    if (record->tag == 0 || count == 0 || count > births_max + changes_max) return false;
    for (unsigned i = 0; i < (count + 2) / 3; ++i) {
      if (record[i].tag != record->tag) return false;
    }
    for (unsigned i = 0; i < count; ++i) {
      const std::uint64_t place = item_of(record, i).place;
      if (place % 8 != 0 || memory_.at(place) == nullptr) return false;
      if (i >= births_of(record)) continue;
      // Later stamps tell that the node was there, too: they come after this record's commit.
      const std::uint64_t tag = *reinterpret_cast<const std::uint64_t*>(memory_.at(place));
      if (stamped_ ? tag < record->tag : tag != record->tag) return false;
    }
    return true;
  }
  // The node is allocated: its record was durable, its bit may not have been.
  void set_bit_of(std::uint64_t node) noexcept {
    const word_table& words = memory_.of().words();
    const std::uint64_t inside = node - words.data_offset;
    const std::uint64_t slot = inside % words.shape.bytes / slot_bytes;
    const std::uint64_t at = words.word_offset(inside / words.shape.bytes * words.shape.words + slot / checked_bits);
    auto* word = reinterpret_cast<std::uint64_t*>(memory_.at(at));
    *word = seal_word((*word & checked_mask) | std::uint64_t{1} << slot % checked_bits, word_seed(at));
    medium_.flush(word, 8);
  }
  void replay(const layout::line* record) noexcept {
    bool newest = false;
    for (unsigned i = births_of(record); i < count_of(record); ++i) {
      auto* l = reinterpret_cast<stamped_link*>(memory_.at(item_of(record, i).place));
      if (stamped_ && l->stamp > record->tag) continue;
      put(*l, item_of(record, i).word, record->tag);
      medium_.flush(l, sizeof *l);
      newest = true;
      ++replayed_;
    }
    for (unsigned i = 0; newest && i < births_of(record); ++i) set_bit_of(item_of(record, i).word);
  }
  void recover() noexcept {
    std::array<const layout::line*, threads_max * 2> found{};
    unsigned n = 0;
    for (unsigned t = 0; t < threads_max; ++t) {
      for (const auto& record : log_[t].records) {
        if (is_whole(record)) found[n++] = record;
      }
    }
    std::sort(found.begin(), found.begin() + n, [](const auto* a, const auto* b) { return a->tag < b->tag; });
    for (unsigned r = 0; r < n; ++r) replay(found[r]);
    medium_.fence(edge{"logged/E4"});
    for (unsigned t = 0; t < threads_max; ++t) {
      for (auto& record : log_[t].records) {
        for (auto& l : record) {
          if (l.tag == 0) continue;
          l.tag = 0;
          medium_.flush(&l, sizeof l);
        }
      }
    }
    const std::uint64_t opening = root_.openings + 1;
    std::atomic_ref<std::uint64_t>{root_.openings}.store(opening, std::memory_order_relaxed);
    medium_.flush(&root_, sizeof root_);
    medium_.fence(edge{"logged/E5"});
    token_ = opening;
    opening_base_ = opening << 40;
    next_.store(opening_base_, std::memory_order_relaxed);
  }

  Memory& memory_;
  std::remove_reference_t<decltype(std::declval<Memory&>().of().medium())>& medium_;
  layout::root& root_;
  layout::thread_log* const log_;
  const bool stamped_;
  std::uint64_t token_ = 0;
  std::uint64_t opening_base_ = 0;
  std::uint64_t replayed_ = 0;
  std::array<volatile_side, threads_max> side_{};
  alignas(line_bytes) std::atomic<std::uint64_t> next_{0};
};

}  // namespace nvm::lockfree::logged
