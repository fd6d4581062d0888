// The table of active areas of one thread (log-free, section 5.4): where it has allocated or unlinked nodes lately. The
// areas are durable, so that recovery looks there for nodes that nothing leads to; when an area may leave the table is
// known in volatile memory only.
//
// A word also says whether anything may have been allocated in the area.  Where nodes were only unlinked, every
// allocated node was once linked, and a node that nothing leads to bears the durable mark of unlinked nodes
// (structure.hpp): recovery need not look for the others.
//
/// A table:  S zeros; F them;                     | lockfree/E8  S word that leads to it; F that
/// An area:  S word: area, structure, what is     | lockfree/E6  known before a node in it is lost, or deleted: by the
///           done; F it                               RMW that comes next (E1 of the deletion); the same when more
///                                                    is done
/// When its nodes are linked or free:             | lockfree/E7  durably so
///           S word 0; F it;                          no fence: a word too many costs recovery a look
///           S word without the allocations; F it     the same, where unlinked nodes wait still
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#include "lockfree/lockfree_layout.hpp"
#include "media/media.hpp"
#include "space/space.hpp"

namespace nvm::lockfree {

inline constexpr unsigned trim_first = 16;

struct area_counts {
  std::uint64_t allocation_hits = 0;
  std::uint64_t allocation_misses = 0;
  std::uint64_t unlink_hits = 0;
  std::uint64_t unlink_misses = 0;
  std::uint64_t trims = 0;
};

template <media M>
class active_areas {
 public:
  // `trim_due` is set when trimming is worth a try.  `marks_durable`: unlinked nodes bear their mark durably by then.
  active_areas(M& medium, std::byte* base, structure_pages& pages, unsigned arena, bool marks_durable,
               bool& trim_due) noexcept
      : medium_{medium},
        base_{base},
        pages_{pages},
        arena_{arena},
        marks_durable_{marks_durable},
        trim_due_{trim_due},
        words_per_table_{pages.sizes().page_bytes() / 8 - 1} {}
  active_areas(const active_areas&) = delete;
  active_areas& operator=(const active_areas&) = delete;

  // `first_at` is the offset of the word that leads to the tables.  Words that a recovery has not cleared yet stay as
  // they are until all areas have left.  errc::no_memory, no_space.
  [[nodiscard]] status open(std::uint64_t first_at) noexcept {
    std::uint64_t link_at = first_at;
    for (;;) {
      const std::uint64_t word = load_word(base_, link_at);
      const std::uint64_t table = word & checked_mask;
      if (word == 0 || !is_table(word, link_at)) break;  // a damaged one is replaced
      if (status s = know(table); !s) return s;
      for (std::uint64_t i = 0; i < words_per_table_; ++i) {
        const std::uint64_t at = table + i * 8;
        const std::uint64_t row = load_word(base_, at);
        const bool says = word_holds(row, word_seed(at)) && (row & checked_mask) != 0;
        if (says) used_ = static_cast<std::uint32_t>((tables_ - 1) * words_per_table_ + i + 1);
      }
      link_at = table + words_per_table_ * 8;
    }
    link_at_ = link_at;
    return tables_ != 0 ? status{} : grow(false);
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  // Trimming is worth a try.
  [[nodiscard]] bool full() const noexcept { return size_ > trim_at_; }
  [[nodiscard]] const area_counts& counts() const noexcept { return counts_; }

  // A node in the area is about to be allocated in operation `operation`, or (pinned) may be at any time.  Durable
  // before the thread's next store to durable memory, if that is a locked one; with fence() in any case.
  [[nodiscard]] status allocates(std::uint64_t area, std::uint16_t owner, std::uint64_t operation, bool pin) noexcept {
    const std::uint64_t key = layout::area_word(area, owner);
    row* r = find(key);
    if (r != nullptr && r->allocated) [[likely]] {
      ++counts_.allocation_hits;
    } else {
      ++counts_.allocation_misses;
      if (r != nullptr) {
        r->allocated = true;
        announce(*r, false);
      } else {
        const auto added = add(key, true, false);
        if (!added) return added.error();
        r = *added;
      }
    }
    r->operation = operation;
    if (pin) ++r->pins;
    return {};
  }
  void unpin(std::uint64_t area, std::uint16_t owner, std::uint64_t operation) noexcept {
    row* r = find(layout::area_word(area, owner));
    NVM_ASSERT(r != nullptr && r->pins != 0);
    --r->pins;
    r->operation = operation;
  }
  void fence() noexcept { medium_.fence(edge{"lockfree/E20"}); }
  // A node in the area is about to be unlinked, and will be freed with `generation`.  `ordered`: the caller fences
  // before that.
  [[nodiscard]] status unlinks(std::uint64_t area, std::uint16_t owner, std::uint64_t generation,
                               bool ordered) noexcept {
    const std::uint64_t key = layout::area_word(area, owner);
    row* r = find(key);
    if (r != nullptr) {
      ++counts_.unlink_hits;
    } else {
      ++counts_.unlink_misses;
      const auto added = add(key, !marks_durable_, ordered);
      if (!added) return added.error();
      r = *added;
    }
    if (generation > r->generation) r->generation = generation;
    return {};
  }

  // Clears the "allocated" state of areas whose allocations are settled; unlike trim(), it need not wait for readers.
  void forget_allocations(std::uint64_t operation) noexcept {
    if (!marks_durable_ || fresh_count_ < fresh_due) return;
    bool fenced = false;
    for (std::uint32_t n = 0; n < fresh_count_; ++n) {
      row& r = rows_[fresh_[n]];
      if (!r.allocated || r.pins != 0 || r.operation == operation) continue;
      fence_links(fenced);
      r.allocated = false;
      store_row(r);
    }
    list_fresh();
  }
  // Areas leave the table whose unlinked nodes have been freed (all generations up to `freed`), and where `operation`,
  // which is under way, has not allocated; other areas where it has not are no longer known for allocations.  The
  // caller has made every link durable.
  void trim(std::uint64_t freed, std::uint64_t operation) noexcept {
    ++counts_.trims;
    bool fenced = false;
    for (std::uint32_t i = 0; i < used_; ++i) {
      row& r = rows_[i];
      if (r.key == 0 || r.pins != 0 || r.operation == operation) continue;
      const bool waits = r.generation > freed;
      if (waits && (!r.allocated || !marks_durable_)) continue;
      fence_links(fenced);
      if (waits) {
        r.allocated = false;
        store_row(r);
        continue;
      }
      r = {.next_free = free_};
      store_row(r);
      free_ = i + 1;
      --size_;
    }
    list_fresh();
    if (size_ == 0) used_ = free_ = 0;
    // The next look is put off: an area that could not leave now will not for a while.
    trim_at_ = size_ < trim_first / 2 ? trim_first : 2 * size_;
    index_all();
  }

 private:
  [[nodiscard]] bool is_table(std::uint64_t word, std::uint64_t at) const noexcept {
    if (!word_holds(word, word_seed(at)) || tables_ == tables_max) return false;
    const std::uint64_t table = word & checked_mask;
    const auto run = pages_.owned_at(table);
    return run && run->offset == table && run->owner == layout::directory_owner &&
           run->bytes == pages_.sizes().page_bytes();
  }
  struct row {
    std::uint64_t key = 0;         // area_word(); 0: free
    std::uint64_t generation = 0;  // newest generation that frees something unlinked here
    std::uint64_t operation = 0;   // the operation that allocated here last
    std::uint32_t next_free = 0;   // index + 1
    std::uint16_t pins = 0;
    bool allocated = false;  // something may have been allocated here, not only unlinked
  };
  static_assert(sizeof(row) == 32);
  static constexpr unsigned tables_max = 64;
  static constexpr std::uint32_t fresh_due = 16;

  void fence_links(bool& fenced) noexcept {
    if (!fenced) medium_.fence(edge{"lockfree/E7"});
    fenced = true;
  }
  // Lists, of the rows listed, those that are still known for allocations.
  void list_fresh() noexcept {
    const auto end = std::remove_if(fresh_.begin(), fresh_.begin() + fresh_count_,
                                    [&](std::uint32_t i) { return !rows_[i].allocated; });
    fresh_count_ = static_cast<std::uint32_t>(end - fresh_.begin());
  }

  [[nodiscard]] std::size_t slot_of(std::uint64_t key) const noexcept {
    return static_cast<std::size_t>(key * 0x9E37'79B9'7F4A'7C15ULL >> 32) & (index_size_ - 1);
  }
  [[nodiscard]] row* find(std::uint64_t key) noexcept {
    for (std::size_t i = slot_of(key); index_[i] != 0; i = (i + 1) & (index_size_ - 1)) {
      row& r = rows_[index_[i] - 1];
      if (r.key == key) return &r;
    }
    return nullptr;
  }
  [[nodiscard, gnu::noinline]] result<row*> add(std::uint64_t key, bool allocated, bool ordered) noexcept {
    if (free_ == 0 && used_ == capacity()) {
      if (status s = grow(!allocated); !s) return s.error();
    }
    std::uint32_t i = used_;
    if (free_ != 0) {
      i = free_ - 1;
      free_ = rows_[i].next_free;
    } else {
      ++used_;
    }
    rows_[i] = {.key = key, .allocated = allocated};
    ++size_;
    index_one(i);
    announce(rows_[i], ordered);
    trim_due_ = trim_due_ || full();
    return &rows_[i];
  }
  void announce(const row& r, bool ordered) noexcept {
    // A row without room in the list stays as it is until it is trimmed.
    if (r.allocated && fresh_count_ < fresh_.size())
      fresh_[fresh_count_++] = static_cast<std::uint32_t>(&r - rows_.get());
    trim_due_ = trim_due_ || (marks_durable_ && fresh_count_ == fresh_due);
    store_row(r);
    if (!ordered) fence_by_rmw(medium_, edge{"lockfree/E6"});
  }
  void index_one(std::uint32_t i) noexcept {
    std::size_t at = slot_of(rows_[i].key);
    while (index_[at] != 0) at = (at + 1) & (index_size_ - 1);
    index_[at] = i + 1;
  }
  void index_all() noexcept {
    std::fill_n(index_.get(), index_size_, 0U);
    for (std::uint32_t i = 0; i < used_; ++i) {
      if (rows_[i].key != 0) index_one(i);
    }
  }

  // ---- durable words ----

  [[nodiscard]] std::uint32_t capacity() const noexcept {
    return static_cast<std::uint32_t>(tables_ * words_per_table_);
  }
  void store_row(const row& r) noexcept {
    const std::uint64_t content = r.key == 0 || r.allocated ? r.key : r.key | layout::area_unlinked_only;
    const auto i = static_cast<std::uint64_t>(&r - rows_.get());
    const std::uint64_t at = table_at_[i / words_per_table_] + i % words_per_table_ * 8;
    auto* word = reinterpret_cast<std::uint64_t*>(base_ + at);
    // relaxed: no other thread looks at it before the next process does.
    std::atomic_ref<std::uint64_t>{*word}.store(seal_word(content, word_seed(at)), std::memory_order_relaxed);
    medium_.flush(word, 8);
  }
  // Volatile room for the words of one more table.
  [[nodiscard]] status know(std::uint64_t table) noexcept {
    if (tables_ == tables_max) return fail(errc::no_space, "a thread has too many active areas: %zu", size_);
    const std::size_t rows = (tables_ + 1) * words_per_table_;
    const std::size_t index_size = std::bit_ceil(2 * rows);
    std::unique_ptr<row[]> larger{new (std::nothrow) row[rows]};
    std::unique_ptr<std::uint32_t[]> index{new (std::nothrow) std::uint32_t[index_size]};
    if (larger == nullptr || index == nullptr) {
      return fail(errc::no_memory, "no volatile memory for a table of active areas");
    }
    std::copy_n(rows_.get(), used_, larger.get());
    rows_ = std::move(larger);
    index_ = std::move(index);
    index_size_ = index_size;
    table_at_[tables_++] = table;
    index_all();
    return {};
  }
  // One more table, empty, on media.
  [[nodiscard, gnu::noinline]] status grow(bool for_removal) noexcept {
    const std::uint64_t bytes = pages_.sizes().page_bytes();
    const auto table = pages_.take_run(arena_, run_wish{.protocol = nvm::layout::slot_protocol::epoch,
                                                        .owner = layout::directory_owner,
                                                        .bytes = bytes,
                                                        .for_log = for_removal});
    if (!table) return table.error();
    if (status s = know(*table); !s) {
      pages_.give(*table);
      return s;
    }
    std::memset(base_ + *table, 0, bytes);
    medium_.flush(base_ + *table, bytes);
    medium_.fence(edge{"lockfree/E8"});
    auto* word = reinterpret_cast<std::uint64_t*>(base_ + link_at_);
    std::atomic_ref<std::uint64_t>{*word}.store(seal_word(*table, word_seed(link_at_)), std::memory_order_relaxed);
    medium_.flush(word, 8);
    link_at_ = *table + words_per_table_ * 8;
    return {};  // the fence of the first area in it orders the link, too
  }

  M& medium_;
  std::byte* const base_;
  structure_pages& pages_;
  const unsigned arena_;
  const bool marks_durable_;
  bool& trim_due_;
  const std::uint64_t words_per_table_;
  std::array<std::uint64_t, tables_max> table_at_{};  // offsets
  unsigned tables_ = 0;
  std::uint64_t link_at_ = 0;               // offset of the word that will lead to the next table
  std::unique_ptr<row[]> rows_;             // row i has word i of the tables
  std::unique_ptr<std::uint32_t[]> index_;  // hash table of rows + 1
  std::size_t index_size_ = 0;
  std::uint32_t used_ = 0;
  std::uint32_t free_ = 0;                 // index + 1
  std::array<std::uint32_t, 64> fresh_{};  // rows that were known for allocations when they were last written
  std::uint32_t fresh_count_ = 0;
  std::size_t size_ = 0;
  std::size_t trim_at_ = trim_first;
  area_counts counts_;
};

}  // namespace nvm::lockfree
