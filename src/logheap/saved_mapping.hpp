// A clean close saves the results of a recovery, and the next open loads them (LSNVMM, sections 3.1 and 4.5); included
// by heap.hpp.
//
/// Close.  S store, F flush, | fence.
///   S ends of all logs; S the mapping, the slots, live bytes of chunks, into chunks of their own; F them;
///   S root.saved = the first of them; F;                   | logheap/E8  the heap is closed
/// The saved mapping proves itself, and a thread's chunk has no end or this one, so that the order does not matter: if
/// it is not whole, or a chunk has no end, it is not used, since the log has everything.  Ends of a cleaner's chunks,
/// which go on after older ones, are durable with each pass (logheap/E9).  Open takes it back before anything changes
/// (logheap/E7).
#pragma once

#include "logheap/heap.hpp"

namespace nvm::logheap {

template <media M, mapping Map>
class saved_mapping {
 public:
  using heap_type = heap<M, Map>;
  using thread = typename heap_type::thread;

  explicit saved_mapping(heap_type& h) noexcept : heap_{h} {}

  [[nodiscard]] status save() noexcept {
    heap_type& h = heap_;
    for (auto& t : h.threads_) {
      if (t != nullptr) t->log_.seal_all();
    }
    std::vector<layout::saved_record> records;
    bool all = true;  // of them have found room
    const auto note = [&](layout::saved_kind kind, std::uint64_t home, std::uint64_t size, std::uint64_t log) noexcept {
      try {
        records.push_back({home | std::uint64_t(kind) << 56, size, log});
      } catch (const std::bad_alloc&) {
        all = false;
      }
    };
    h.map_->for_each([&](const piece& p) noexcept { note(layout::saved_kind::piece, p.home, p.size, p.log); });
    h.homes_->for_each([&](const home_space::slot& s, slot_word w) noexcept {
      const std::uint64_t size = w.what() == slot_word::state::none ? s.bytes : h.size_of_entry(w.entry());
      note(layout::saved_kind::slot, s.home, size, w.code());
    });
    for (std::uint32_t i = 0; i < h.chunks_.count(); ++i) {
      const chunk& c = h.chunks_.at(i);
      if (c.state.load(std::memory_order_acquire) == chunk_state::free) continue;
      const std::uint64_t bytes =
          c.live.load(std::memory_order_relaxed) | std::uint64_t{c.filled.load(std::memory_order_relaxed)} << 24;
      note(layout::saved_kind::chunk, c.offset, bytes | damaged_bit(c), c.newest.load(std::memory_order_relaxed));
    }
    try {
      if (all) return write(records);
    } catch (const std::bad_alloc&) {
      all = false;
    }
    return fail(errc::no_memory, "no volatile memory to save the mapping");
  }
  // errc::corrupt: something does not hold, and the heap has to be recovered; no_memory.
  [[nodiscard]] status load() noexcept {
    heap_type& h = heap_;
    try {
      std::vector<layout::saved_record> records;
      std::uint64_t version = 0;
      if (status s = read(records, version); !s) return s;
      const auto t = h.join();
      if (!t) return t.error();
      const status s = apply(records, **t);
      h.leave(**t);
      if (!s) return s;
      h.clock_.store(version, std::memory_order_relaxed);
    } catch (const std::bad_alloc&) {
      return fail(errc::no_memory, "no volatile memory to load the mapping");
    }
    return {};
  }

 private:
  static constexpr std::uint64_t damaged_mark = std::uint64_t{1} << 48;
  [[nodiscard]] static std::uint64_t damaged_bit(const chunk& c) noexcept {
    return c.state.load(std::memory_order_relaxed) == chunk_state::damaged ? damaged_mark : 0;
  }

  // One block a chunk; `peer` leads to the next, 0: it is the last.
  [[nodiscard]] status write(const std::vector<layout::saved_record>& records) {
    heap_type& h = heap_;
    const std::uint64_t version = h.clock_.load(std::memory_order_relaxed) + 1;
    if (version > layout::version_max) return fail(errc::too_large, "no version is left to save the mapping with");
    const std::uint64_t room = h.chunks_.chunk_bytes() - sizeof(layout::chunk_header) - sizeof(layout::block_header);
    const std::uint64_t each = std::min<std::uint64_t>(room / sizeof(layout::saved_record), layout::entries_max);
    const std::uint64_t needed = std::max<std::uint64_t>(1, ceil_div(records.size(), each));
    std::vector<std::uint32_t> chunks;
    chunks.reserve(needed);
    typename chunk_store<M>::buffer none;
    for (std::uint64_t i = 0; i < needed; ++i) {
      const auto number = h.chunks_.take(none, chunk_store<M>::purpose::store);
      if (!number) {
        for (const std::uint32_t n : chunks) h.chunks_.give(n);
        return number.error();
      }
      chunks.push_back(*number);
    }
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      chunk& c = h.chunks_.at(chunks[i]);
      h.chunks_.begin(chunks[i], layout::chunk_use::saved, layout::stamp(h.chunks_.session(), 0, false));
      const std::uint64_t count = std::min(each, records.size() - i * each);
      const block_place place = h.chunks_.place(c, sizeof(layout::chunk_header));
      layout::block_header b{};
      b.version = version;
      const std::uint64_t peer = i + 1 == chunks.size() ? 0 : h.chunks_.at(chunks[i + 1]).offset;
      b.peer_and_count = peer | count << layout::peer_bits;
      b.bytes = static_cast<std::uint32_t>(sizeof b + count * sizeof(layout::saved_record));
      std::byte* to = h.base_ + place.offset();
      std::memcpy(to + sizeof b, records.data() + i * each, count * sizeof(layout::saved_record));
      b.header_check = header_check_of(b, place);
      b.content_check = content_check_of(to, b.bytes, place);
      std::memcpy(to, &b, sizeof b);
      h.medium_.flush(to, b.bytes);
    }
    h.chunks_.set_saved(h.chunks_.at(chunks.front()).offset);
    h.medium_.fence(edge{"logheap/E8"});
    return {};
  }
  [[nodiscard]] status read(std::vector<layout::saved_record>& records, std::uint64_t& version) {
    heap_type& h = heap_;
    std::uint64_t offset = h.chunks_.saved();
    for (std::uint32_t steps = 0; offset != 0; ++steps) {
      const std::uint32_t number = h.chunks_.number_of(offset);
      if (number == chunk_store<M>::none || h.chunks_.at(number).offset != offset ||
          h.chunks_.at(number).use != layout::chunk_use::saved || steps > h.chunks_.count()) {
        return fail(errc::corrupt, "saved mapping: offset %lu is no chunk of it", offset);
      }
      const block_place place = h.chunks_.place(h.chunks_.at(number), sizeof(layout::chunk_header));
      layout::block_header b;
      if (inspect_block(h.base_, place, h.chunks_.chunk_bytes(), b) != block_fault::none ||
          b.bytes != sizeof b + count_of(b) * sizeof(layout::saved_record) ||
          (version != 0 && b.version != version + 1)) {
        return fail(errc::corrupt, "saved mapping: the block at offset %lu does not hold", place.offset());
      }
      version = b.version - 1;
      const std::size_t before = records.size();
      records.resize(before + count_of(b));
      std::memcpy(records.data() + before, h.base_ + place.offset() + sizeof b, b.bytes - sizeof b);
      offset = peer_of(b);
    }
    return {};
  }
  [[nodiscard]] status apply(const std::vector<layout::saved_record>& records, thread& t) {
    heap_type& h = heap_;
    const typename heap_type::inside in{h, t};
    const auto nothing = [](const piece&) {};
    const auto kind_of = [](const layout::saved_record& r) {
      return static_cast<layout::saved_kind>(r.home_and_kind >> 56);
    };
    const auto home_of = [](const layout::saved_record& r) { return r.home_and_kind & home_bits_mask; };
    const auto refuse = [&](const layout::saved_record& r) {
      return fail(errc::corrupt, "saved mapping: a record about home %lx does not hold", home_of(r));
    };
    for (const layout::saved_record& r : records) {
      if (kind_of(r) == layout::saved_kind::chunk && !apply_chunk(home_of(r), r)) return refuse(r);
    }
    const auto in_log = [&](log_t at, std::uint64_t bytes) {
      const std::uint32_t n = h.chunks_.number_of(at);
      return n != chunk_store<M>::none &&
             at + bytes <= h.chunks_.at(n).offset + h.chunks_.at(n).used.load(std::memory_order_relaxed);
    };
    for (const layout::saved_record& r : records) {
      const home_t home = home_of(r);
      bool holds = true;
      switch (kind_of(r)) {
        case layout::saved_kind::piece: {
          const piece p{home, r.size, r.log};
          const home_range range{home, r.size};
          holds = h.homes_->inside(home, r.size) && r.size != 0 && in_log(r.log, r.size);
          if (!holds) break;
          if (status s = h.map_->reserve(t.client_, std::span{&range, 1}); !s) return s;
          h.map_->assign(t.client_, std::span{&p, 1}, nothing);
          break;
        }
        case layout::saved_kind::slot: {
          const slot_word w{r.log};
          if (status s = h.homes_->learn(home, r.size); !s) return s;
          holds = w.what() == slot_word::state::none || in_log(w.entry(), entry_live_bytes);
          if (holds) h.homes_->find(home).word().store(w.code(), std::memory_order_relaxed);
          break;
        }
        case layout::saved_kind::chunk:
          break;
        default:
          holds = false;
      }
      if (!holds) return refuse(r);
    }
    for (const layout::saved_record& r : records) {
      if (kind_of(r) != layout::saved_kind::piece) continue;
      const home_t home = home_of(r);
      if (!h.homes_->in_slots(home, r.size)) h.homes_->keep_out(home, r.size);
    }
    h.map_->release(t.client_);
    h.homes_->end_learning([&](log_t tombstone) { h.no_longer_live(tombstone, entry_live_bytes); });
    return {};
  }

  // False: it does not hold.
  [[nodiscard]] bool apply_chunk(std::uint64_t offset, const layout::saved_record& r) noexcept {
    heap_type& h = heap_;
    const std::uint32_t n = h.chunks_.number_of(offset);
    if (n == chunk_store<M>::none || h.chunks_.at(n).offset != offset) return false;
    chunk& c = h.chunks_.at(n);
    const std::uint64_t end = h.chunks_.load(offset + offsetof(layout::chunk_header, end)) & checked_mask;
    if (!layout::bound_to(end, c.generation) || static_cast<std::uint32_t>(end) > h.chunks_.chunk_bytes()) return false;
    c.live.store(static_cast<std::uint32_t>(r.size & 0xFF'FFFF), std::memory_order_relaxed);
    c.filled.store(static_cast<std::uint32_t>(r.size >> 24 & 0xFF'FFFF), std::memory_order_relaxed);
    c.newest.store(r.log, std::memory_order_relaxed);
    c.used.store(static_cast<std::uint32_t>(end), std::memory_order_relaxed);
    if ((r.size & damaged_mark) != 0) c.state.store(chunk_state::damaged, std::memory_order_relaxed);
    return true;
  }

  static constexpr std::uint64_t home_bits_mask = (std::uint64_t{1} << 56) - 1;
  heap_type& heap_;
};

template <media M, mapping Map>
status heap<M, Map>::close() noexcept {
  stop_cleaners();
  drain_limbo();
  return saved_mapping<M, Map>{*this}.save();
}

template <media M, mapping Map>
heap_statistics heap<M, Map>::statistics() noexcept {
  heap_statistics s;
  s.chunks = chunks_.count();
  s.free_chunks = chunks_.free_chunks();
  for (std::uint32_t i = 0; i < chunks_.count(); ++i) {
    const chunk& c = chunks_.at(i);
    const chunk_state state = c.state.load(std::memory_order_acquire);
    if (state == chunk_state::free || state == chunk_state::limbo) continue;
    s.live_bytes += c.live.load(std::memory_order_relaxed);
    s.filled_bytes += c.filled.load(std::memory_order_relaxed);
  }
  s.cleaned = recycled_.load(std::memory_order_relaxed);
  s.cleaned_fast = recycled_fast_.load(std::memory_order_relaxed);
  s.moved_bytes = moved_bytes_.load(std::memory_order_relaxed);
  s.passes = passes_.load(std::memory_order_relaxed);
  s.mapping_bytes = map_->bytes_used();
  s.superblocks = homes_->superblocks_known();
  s.home_free_bytes = homes_->free_bytes();
  s.seals = seals_.load(std::memory_order_relaxed);
  s.through = chunks_.through();
  s.version = clock_.load(std::memory_order_relaxed);
  return s;
}

}  // namespace nvm::logheap
