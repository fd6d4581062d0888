// Entries of one or more transactions laid out over the ends of a thread's logs, and then written.
//
// Laying out takes the chunks that it needs and can fail; nothing durable has changed then, and drop() gives the chunks
// back.  Writing cannot fail.  The caller fences (logheap/E1, E2).
//
// An entry that does not fit the rest of a chunk is split: an update into several, an allocation into a bare one and
// updates.  A block is in one chunk; the blocks of a transaction lead to each other in a cycle.
#pragma once

#include <array>
#include <vector>

#include "logheap/chunk_store.hpp"

namespace nvm::logheap {

// The end of a log: blocks are appended at `at` of the chunk.
struct log_end {
  std::uint32_t chunk = ~std::uint32_t{0};
  std::uint64_t at = 0;
};

struct part {
  entry what;                                // log and self: where they have come to lie, after write()
  const std::byte* from = nullptr;           // contents; nullptr: the writer's gather function has them
  std::uint32_t object = ~std::uint32_t{0};  // for the caller: which allocation or release this is about
  bool carries = false;                      // a cleaner's: counted among the entries about a slot like the entry that
                                             // it copies
};

template <media M>
class log_writer {
 public:
  using chunks_type = chunk_store<M>;
  using purpose = typename chunks_type::purpose;

  log_writer(M& medium, std::byte* base, chunks_type& chunks, bool separate) noexcept
      : medium_{medium}, base_{base}, chunks_{chunks}, separate_{separate} {}

  std::uint32_t stamp = 0;
  typename chunks_type::buffer buffer;  // free chunks of this thread

  // ---- laying out: try, and drop() the rest after an exception or an error ----

  void start() noexcept {
    parts_.clear();
    blocks_.clear();
    fresh_.clear();
    ends_ = committed_ends_;
    open_.fill(none);
  }
  // Adds the entry to the log that takes its kind; its contents are contiguous at `p.from`, if that is set.  `version`:
  // 0 is filled in by write().  Throws std::bad_alloc.
  [[nodiscard]] status add(part p, purpose why, std::uint64_t version = 0) {
    const layout::chunk_use use = use_for(p.what.kind);
    return add_to(use, p, why, version);
  }
  // The same for the log of a given use.
  [[nodiscard]] status add_to(layout::chunk_use use, part p, purpose why, std::uint64_t version) {
    const bool allocations = use == layout::chunk_use::allocation;
    for (;;) {
      if (status s = open_block(use, why, version); !s) return s;
      block& b = blocks_[open_[std::size_t(use)]];
      const std::uint64_t left = room_in(b);
      const std::uint64_t words = words_of(p.what, allocations) * 8;
      const std::uint64_t contents = layout::has_contents(p.what.kind) ? p.what.size : 0;
      if (words + contents <= left) {
        put(b, p, words, contents);
        return {};
      }
      // Wide, because the whole does not fit.
      if (p.what.kind == layout::entry_kind::allocation && left >= 2 * wide_bytes + split_min) {
        part bare = p;
        bare.what.kind = layout::entry_kind::bare;
        put(b, bare, wide_bytes, 0);
        p.what.kind = layout::entry_kind::update;
        p.object = ~std::uint32_t{0};
        continue;
      }
      const std::uint64_t least = why == purpose::clean ? split_copy_min : split_min;
      if (p.what.kind == layout::entry_kind::update && left >= wide_bytes + least) {
        part head = p;
        head.what.size = left - 8;
        if (words_of(head.what, allocations) == 2) head.what.size = left - wide_bytes;
        put(b, head, words_of(head.what, allocations) * 8, head.what.size);
        p.what.home += head.what.size;
        p.what.size -= head.what.size;
        if (p.from != nullptr) p.from += head.what.size;
        NVM_ASSERT(p.what.size != 0);  // the whole did not fit
        continue;
      }
      close_block(use);
      if (status s = next_chunk(use, why); !s) return s;
    }
  }
  // The entries that follow begin blocks of their own.
  void close_blocks() noexcept { open_.fill(none); }
  void drop() noexcept {
    for (const auto& [use, number] : fresh_) buffer.push_back(number);
    start();
  }
  [[nodiscard]] bool empty() const noexcept { return blocks_.empty(); }
  [[nodiscard]] std::vector<part>& parts() noexcept { return parts_; }
  // Chunks that write() will begin.
  [[nodiscard]] std::size_t fresh_chunks() const noexcept { return fresh_.size(); }
  // Makes room for the notes of write(), so that it cannot fail.  Throws std::bad_alloc.
  void prepare() {
    to_seal_.reserve(to_seal_.size() + fresh_.size() + layout::chunk_uses);
    buffer.reserve(buffer.size() + fresh_.size());
    written_.reserve(written_.size() + blocks_.size());
  }

  // ---- writing ----

  // Seals the chunks that no log ends in, after the blocks of earlier writes have become durable: they may be cleaned.
  // Flushed; the caller fences.
  void seal_full() noexcept {
    for (const std::uint32_t number : to_seal_) seal(number);
    to_seal_.clear();
  }
  // Writes all blocks, which flush_written() flushes, with `version` where they have none; gather(to, home, size)
  // stores contents that no part leads to.  One transaction: its blocks lead to each other; otherwise each to itself.
  template <class Gather>
  void write(std::uint64_t version, std::uint32_t flags, bool one_transaction, Gather&& gather) noexcept {
    for (const auto& [use, number] : fresh_) chunks_.begin(number, use, stamp);
    // Blocks of a log are in the order in which they were opened; their parts are chained through `next`.
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const block& next = blocks_[one_transaction ? (i + 1) % blocks_.size() : i];
      write_block(blocks_[i], version, flags, chunks_.at(next.chunk).offset + next.at, gather);
    }
    for (std::size_t u = 0; u < layout::chunk_uses; ++u) {
      const std::uint32_t old = committed_ends_[u].chunk;
      if (old != none && old != ends_[u].chunk) to_seal_.push_back(old);
    }
    // A chunk that was filled from its beginning to its end by this one write.
    for (const auto& [use, number] : fresh_) {
      if (number != ends_[std::size_t(use)].chunk) to_seal_.push_back(number);
    }
    committed_ends_ = ends_;
  }
  // Once for blocks that stand beside each other: they share lines.
  void flush_written() noexcept {
    for (const byte_range& w : written_) medium_.flush(base_ + w.from, w.end - w.from);
    written_.clear();
  }
  // Ends the logs for good, whose blocks are durable: their chunks may be cleaned.  Flushed; the caller fences.
  void seal_all() noexcept {
    seal_full();
    for (log_end& e : committed_ends_) {
      if (e.chunk != none) seal(e.chunk);
      e = {};
    }
  }
  // Cleaners: everything in the logs is durable, and in the chunks that they have left since the last pass, which are
  // not sealed yet.  Flushed; the caller fences.
  void mark_ends() noexcept {
    for (const log_end& e : committed_ends_) {
      if (e.chunk != none) mark_end(chunks_.at(e.chunk));
    }
    for (const std::uint32_t number : to_seal_) mark_end(chunks_.at(number));
  }

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  static constexpr std::uint64_t wide_bytes = 16;
  static constexpr std::uint64_t split_min = 32;        // bytes of contents that are worth an entry of their own
  static constexpr std::uint64_t split_copy_min = 128;  // in a copy: an entry that is split once is copied split ever
                                                        // after

 public:
  // Bytes that a copy may leave free at a chunk's end.
  static constexpr std::uint64_t left_free_max =
      sizeof(layout::block_header) + 2 * wide_bytes + std::max(split_min, split_copy_min);

 private:
  struct byte_range {
    std::uint64_t from;
    std::uint64_t end;
  };
  struct block {
    std::uint32_t chunk;
    layout::chunk_use use;
    std::uint64_t at;
    std::uint64_t version;
    std::uint64_t entry_bytes = 0;
    std::uint64_t content_bytes = 0;
    std::uint32_t first = none;  // part
    std::uint32_t last = none;
    unsigned count = 0;
  };

  void mark_end(chunk& c) noexcept { chunks_.mark_end(c, c.used.load(std::memory_order_relaxed)); }
  void seal(std::uint32_t number) noexcept {
    chunk& c = chunks_.at(number);
    // The end of a cleaner's chunk is durable with its pass (logheap/E9).
    if (!c.by_cleaner) mark_end(c);
    // release: pairs with the thread that cleans it.
    c.state.store(chunk_state::sealed, std::memory_order_release);
  }
  [[nodiscard]] layout::chunk_use use_for(layout::entry_kind k) const noexcept {
    if (!separate_) return layout::chunk_use::mixed;
    if (k == layout::entry_kind::tombstone) return layout::chunk_use::deallocation;
    return k == layout::entry_kind::update ? layout::chunk_use::update : layout::chunk_use::allocation;
  }
  [[nodiscard]] std::uint64_t room_in(const block& b) const noexcept {
    if (b.count == layout::entries_max) return 0;
    return chunks_.chunk_bytes() - b.at - sizeof(layout::block_header) - b.entry_bytes - b.content_bytes;
  }
  void put(block& b, const part& p, std::uint64_t words, std::uint64_t contents) {
    const auto number = static_cast<std::uint32_t>(parts_.size());
    parts_.push_back(p);
    next_.resize(parts_.size());
    next_[number] = none;
    if (b.first == none) {
      b.first = number;
    } else {
      next_[b.last] = number;
    }
    b.last = number;
    ++b.count;
    b.entry_bytes += words;
    b.content_bytes += contents;
    log_end& e = ends_[std::size_t(b.use)];
    e.at = b.at + round_up(sizeof(layout::block_header) + b.entry_bytes + b.content_bytes, layout::block_align);
  }
  [[nodiscard]] status open_block(layout::chunk_use use, purpose why, std::uint64_t version) {
    std::uint32_t& open = open_[std::size_t(use)];
    if (open != none) return {};
    const log_end& e = ends_[std::size_t(use)];
    if (e.chunk == none || chunks_.chunk_bytes() - e.at < sizeof(layout::block_header) + 2 * wide_bytes) {
      if (status s = next_chunk(use, why); !s) return s;
    }
    open = static_cast<std::uint32_t>(blocks_.size());
    blocks_.push_back({e.chunk, use, e.at, version});
    return {};
  }
  void close_block(layout::chunk_use use) noexcept {
    std::uint32_t& open = open_[std::size_t(use)];
    NVM_ASSERT(open != none);
    // A block without entries.
    if (blocks_[open].count == 0) {
      NVM_ASSERT(open + 1 == blocks_.size());
      blocks_.pop_back();
    }
    open = none;
  }
  [[nodiscard]] status next_chunk(layout::chunk_use use, purpose why) {
    fresh_.reserve(fresh_.size() + 1);
    buffer.reserve(buffer.size() + fresh_.size() + 1);  // for drop()
    const auto number = chunks_.take(buffer, why);
    if (!number) return number.error();
    fresh_.push_back({use, *number});
    ends_[std::size_t(use)] = {*number, sizeof(layout::chunk_header)};
    return {};
  }
  template <class Gather>
  void write_block(const block& b, std::uint64_t version, std::uint32_t flags, std::uint64_t peer,
                   Gather& gather) noexcept {
    chunk& c = chunks_.at(b.chunk);
    const block_place place = chunks_.place(c, b.at);
    std::byte* const to = base_ + place.offset();
    const bool allocations = b.use == layout::chunk_use::allocation;
    layout::block_header h{};
    h.version = b.version != 0 ? b.version : version;
    h.peer_and_count = peer | std::uint64_t{b.count} << layout::peer_bits;
    h.bytes = static_cast<std::uint32_t>(sizeof h + b.entry_bytes + b.content_bytes);
    h.flags = flags | (allocations ? layout::block_allocations : 0);
    std::uint64_t at = sizeof h;
    std::uint64_t log = sizeof h + b.entry_bytes;
    std::uint32_t live = 0;
    for (std::uint32_t i = b.first; i != none; i = next_[i]) {
      part& p = parts_[i];
      p.what.self = place.offset() + at;
      std::uint64_t words[2];
      const std::uint64_t n = put_entry(words, p.what, allocations) * 8;
      std::memcpy(to + at, words, n);
      at += n;
      if (p.what.kind != layout::entry_kind::update) live += entry_live_bytes;
      if (!layout::has_contents(p.what.kind)) continue;
      p.what.log = place.offset() + log;
      if (p.from != nullptr) {
        std::memcpy(to + log, p.from, p.what.size);
      } else {
        gather(to + log, p.what.home, p.what.size);
      }
      log += p.what.size;
      live += static_cast<std::uint32_t>(p.what.size);
    }
    NVM_ASSERT(at == sizeof h + b.entry_bytes && log == h.bytes);
    h.flags |= entry_check_of(to, at, h, place);
    h.header_check = header_check_of(h, place);
    h.content_check = content_check_of(to, h.bytes, place);
    std::memcpy(to, &h, sizeof h);
    c.used.store(static_cast<std::uint32_t>(b.at + round_up(h.bytes, layout::block_align)), std::memory_order_relaxed);
    c.newest.store(std::max(c.newest.load(std::memory_order_relaxed), h.version), std::memory_order_relaxed);
    // Counted before any part of it can be replaced.
    c.live.fetch_add(live, std::memory_order_relaxed);
    // relaxed: only the thread that fills the chunk changes this.
    c.filled.store(c.filled.load(std::memory_order_relaxed) + live, std::memory_order_relaxed);
    const std::uint64_t end = place.offset() + h.bytes;
    if (!written_.empty() && round_up(written_.back().end, layout::block_align) == place.offset()) {
      written_.back().end = end;
    } else {
      written_.push_back({place.offset(), end});
    }
  }

  M& medium_;
  std::byte* base_;
  chunks_type& chunks_;
  const bool separate_;
  std::array<log_end, layout::chunk_uses> committed_ends_;
  std::array<log_end, layout::chunk_uses> ends_;
  std::array<std::uint32_t, layout::chunk_uses> open_{};  // block of each log that takes entries
  std::vector<part> parts_;
  std::vector<std::uint32_t> next_;  // of each part: the next of its block
  std::vector<block> blocks_;
  std::vector<std::pair<layout::chunk_use, std::uint32_t>> fresh_;
  std::vector<std::uint32_t> to_seal_;
  std::vector<byte_range> written_;  // written and not flushed yet
};

}  // namespace nvm::logheap
