// Recovery of a pool's transactions: pure functions over its bytes; the caller supplies threads, if any.
//
//   1. validate every lane; nothing is stored if one is damaged (errc::corrupt); F their heads and commit records
//                                                                          | recover/E9  step 2's input stays
//   2. repair each lane (log/recovery.hpp)
//   3. when all lanes are at rest, free the log runs: S zero entry; F      | recover/E5
/// A crash between 2 and 3 leaves log runs that nothing refers to; the next recovery frees them.  The fence of 3 is for
/// a process that opens the pool and closes it without a change: then nothing may be left to recover.
/// The fence of 1 is for a killed process: its commit record may be only in a cache. If the record were lost after a
/// part of its intents is durable, the transaction would be torn. Undo records need no fence: before one is durable, no
/// byte that it names is overwritten.
#pragma once

#include <cstddef>
#include <cstdint>

#include "log/log.hpp"
#include "media/media.hpp"
#include "pool/pool.hpp"
#include "space/face.hpp"
#include "tx/face.hpp"

namespace nvm::tx {

// Valid targets of transactions: words of the anchors, data, existing allocation words.
class pool_targets {
 public:
  pool_targets(const std::byte* base, const geometry& g) noexcept : base_{base}, g_{g} {}

  bool range(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    for (unsigned copy = 0; copy < 2; ++copy) {
      const std::uint64_t inside = offset - g_.anchor_at(copy);
      if (bytes == 8 && inside % 8 == 0 && inside / 8 < anchor_words) return true;
    }
    return g_.in_data(offset, bytes);
  }

  bool word(const log::intent& i) const noexcept {
    const std::uint64_t offset = i.word_offset();
    const bool entry = i.op() == log::intent_op::clear_entry || i.op() == log::intent_op::set_entry;
    if (entry) {
      if (offset < g_.page_map_offset) return false;
      if (offset >= g_.entry_offset(g_.size_pages)) return word_of_cluster(i);
      return i.op() == log::intent_op::clear_entry ||
             (word_holds(i.value, word_seed(offset)) && run_fits(i.value, (offset - g_.page_map_offset) / 8));
    }
    if (!g_.in_data(offset, 8)) return false;
    std::uint64_t page = g_.page_of(offset);
    layout::page_entry e = entry_of(page);
    if (e.kind != layout::page_kind::fine && e.kind != layout::page_kind::coarse) {
      page = round_down(page, layout::coarse_extent_pages);
      e = entry_of(page);
      if (e.kind != layout::page_kind::coarse && !extent_in_cluster(g_.page_of(offset), page, e)) return false;
    }
    const layout::extent_shape shape = layout::shape_of(e.kind, g_.page_shift);
    const std::uint64_t inside = offset - g_.page_offset(page);
    if (inside < layout::first_words_at || inside >= shape.lengths_at) return false;
    const auto number = static_cast<unsigned>((inside - layout::first_words_at) / 8);
    if (number * checked_bits + i.bit() >= shape.slots) return false;
    return i.op() == log::intent_op::clear_bit || i.lengths_distance() == layout::lengths_distance(shape, number);
  }

  bool segment(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    return log_run(offset, bytes) && bytes == log_run_bytes(offset);
  }

  // The beginning of a log run, or all of it.
  bool log_run(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    return bytes != 0 && g_.in_data(offset, bytes) && bytes <= log_run_bytes(offset);
  }

  // The entry of a page; a damaged one counts as free.
  layout::page_entry entry_of(std::uint64_t page) const noexcept {
    const std::uint64_t at = g_.entry_offset(page);
    const std::uint64_t word = *reinterpret_cast<const std::uint64_t*>(base_ + at);
    return word_holds(word, word_seed(at)) ? layout::unpack(word & checked_mask) : layout::page_entry{};
  }

 private:
  // Bytes that the log run at `offset` of the data claims; 0: no run begins there.
  std::uint64_t log_run_bytes(std::uint64_t offset) const noexcept {
    const std::uint64_t page = g_.page_of(offset);
    const layout::page_entry e = entry_of(page);
    if (e.kind != layout::page_kind::log || offset != g_.page_offset(page)) return 0;
    return std::uint64_t{e.length_pages} << g_.page_shift;
  }
  // Whether the entry of a run, or of a store page that is being made, fits.
  bool run_fits(std::uint64_t value, std::uint64_t page) const noexcept {
    const layout::page_entry e = layout::unpack(value & checked_mask);
    const bool is_run = e.kind == layout::page_kind::run || e.kind == layout::page_kind::cluster;
    return is_run && e.length_pages != 0 && range_inside(page, e.length_pages, g_.size_pages);
  }

  // ---- in clusters of object stores (space/space_stores.hpp), which the page map has before intents name words ----

  // Whether `page` is of a cluster, which `out` is set to.
  bool cluster_with(std::uint64_t page, cluster& out) const noexcept {
    if (!last_.has(page)) {
      const std::uint64_t head = cluster_head(base_, g_, page);
      if (head == no_cluster) return false;
      const std::uint64_t pages = entry_of(head).length_pages;
      if (cluster_fault(base_, g_, head, pages, last_).what != nullptr) {
        last_ = {};
        return false;
      }
    }
    out = last_;
    return true;
  }
  // The entry of a run in the map of a cluster.
  bool word_of_cluster(const log::intent& i) const noexcept {
    const std::uint64_t offset = i.word_offset();
    cluster c;
    if (!g_.in_data(offset, 8) || !cluster_with(g_.page_of(offset), c)) return false;
    const std::uint64_t first = c.entry_offset(g_, c.page + c.header_pages);
    if (offset < first || offset >= c.entry_offset(g_, c.end())) return false;
    if (i.op() == log::intent_op::clear_entry) return true;
    layout::page_entry e;
    return inner_entry_fault(i.value, c.page + c.header_pages + (offset - first) / 8, c, g_, e) == nullptr &&
           e.kind == layout::page_kind::run && layout::transactional(e);
  }
  // The extent in a cluster that has page `sought`; sets its first page and its entry.
  bool extent_in_cluster(std::uint64_t sought, std::uint64_t& page, layout::page_entry& e) const noexcept {
    cluster c;
    if (!cluster_with(sought, c)) return false;
    for (const std::uint64_t head : {sought, round_down(sought, layout::coarse_extent_pages)}) {
      if (!c.has(head)) continue;
      const std::uint64_t word = *reinterpret_cast<const std::uint64_t*>(base_ + c.entry_offset(g_, head));
      if (word == 0 || inner_entry_fault(word, head, c, g_, e) != nullptr || !layout::transactional(e)) continue;
      page = head;
      if (e.kind == layout::page_kind::fine) return head == sought;
      if (e.kind == layout::page_kind::coarse) return true;
    }
    return false;
  }

  const std::byte* base_;
  const geometry& g_;
  mutable cluster last_;  // the last one found; one thread
};

// Steps 1 and 2.  started(lane, generation, end of its ring of activation records) tells where each lane continues.
template <media M, class Started>
[[nodiscard]] status recover_lanes(M& m, std::byte* base, const geometry& g, std::uint64_t key, recovery_report& report,
                                   Started&& started) {
  const pool_targets targets{base, g};
  for (unsigned i = 0; i < g.lane_count; ++i) {
    log::lane_reader lane{base, g, key, i, targets};
    if (status s = lane.validate(); !s) return s;
    lane.write_back(m);
  }
  if (g.lane_count != 0) m.fence(edge{"recover/E9"});
  for (unsigned i = 0; i < g.lane_count; ++i) {
    log::lane_reader lane{base, g, key, i, targets};
    if (status s = lane.validate(); !s) return s;
    const log::lane_report r = lane.repair(m, base);
    report.replayed_intents += r.replayed;
    report.rolled_back += r.rolled_back;
    report.completed += r.completed;
    started(i, r.generation, lane.attached());
  }
  return {};
}

// Step 3, for the pages of part `part` of `parts`.  The fence is the caller's when all parts are done; true if needed.
template <media M>
[[nodiscard]] bool free_log_runs(M& m, std::byte* base, const geometry& g, unsigned part, unsigned parts,
                                 recovery_report& report) noexcept {
  const pool_targets targets{base, g};
  bool freed = false;
  const std::uint64_t from = g.size_pages * part / parts;
  const std::uint64_t to = g.size_pages * (part + 1) / parts;
  for (std::uint64_t page = from; page < to; ++page) {
    auto* word = reinterpret_cast<std::uint64_t*>(base + g.entry_offset(page));
    if (*word == 0 || targets.entry_of(page).kind != layout::page_kind::log) continue;
    *word = 0;
    m.flush(word, 8);
    ++report.freed_log_runs;
    freed = true;
  }
  return freed;
}

// The same, of all pages.
template <media M>
void free_all_log_runs(M& m, std::byte* base, const geometry& g, recovery_report& report) noexcept {
  if (free_log_runs(m, base, g, 0, 1, report)) m.fence(edge{"recover/E5"});
}

// All of it in one thread.
template <media M, class Started>
[[nodiscard]] status recover(M& m, std::byte* base, const geometry& g, std::uint64_t key, recovery_report& report,
                             Started&& started) {
  if (status s = recover_lanes(m, base, g, key, report, started); !s) return s;
  free_all_log_runs(m, base, g, report);
  return {};
}

// Recovery of a pool of the redo engine: replay (log/redo_recovery.hpp), then step 3.  `used`: the highest version that
// may have been used.
template <media M>
[[nodiscard]] status recover_redo(M& m, std::byte* base, const geometry& g, std::uint64_t key, log::validation how,
                                  recovery_report& report, std::uint64_t& used) {
  const pool_targets targets{base, g};
  log::redo_reader reader{base, g, key, how, targets};
  if (status s = reader.validate(); !s) return s;
  reader.replay(m, base);
  report.completed += reader.report().records;
  used = reader.report().used;
  free_all_log_runs(m, base, g, report);
  return {};
}

}  // namespace nvm::tx
