// Relocation of one page at a time, before any thread sees the page (Breeze, section IV-E: lazily).
//
// A stored pointer says by its value which base it assumes (object/relocation.hpp), so a pool is legal in which some
// pages were put right and others were not, whatever has happened to the pages that were seen meanwhile:
//   1. begin_relocation()                                 | pool/E1, E2
//   2. each page, before it is shown or when nothing else is to be done: S moved pointers; F their lines
//      each thread that has done so, before another one can begin 3
//                                                         | object/E2     a fence orders what its own thread has
//                                                                         flushed, and nothing else
//   3. when all pages are right: finish_relocation()      | pool/E1, E2
// Pages that were added since hold no old pointer.  A process that ends before 3 leaves a pool of several bases; the
// next open, of either way, begins at 1 again.
//
// What changes meanwhile.  A page that no thread has seen holds what it held when the pool was opened, also where its
// object was freed, or where another was made in its place: the bytes of such an object in the page are not specified,
// and may become anything.  A page that was shown is never touched again.
//
// An object whose bytes say which of its words are pointers (unions with tags, visitors) is put right whole, its words
// in pages that were not shown yet included, since a thread that has seen its tag may change that.
//
// Threads: one at a time in put_right() and settle(); all other calls come before the first of these.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

#include "object/pointer_walk.hpp"
#include "object/relocation.hpp"
#include "space/space.hpp"

namespace nvm::object {

template <media M>
class page_relocation {
 public:
  // `memory`: the pool at the size that `g` names, at an address where no access waits for a page.  May throw
  // std::bad_alloc.
  page_relocation(M& m, std::byte* memory, const geometry& g, pointer_plans plans, const mover& to)
      : medium_{m},
        memory_{memory},
        g_{g},
        plans_{std::move(plans)},
        to_{to},
        finder_{plans_},
        runs_{g.size_pages},
        right_((g.size_pages + 63) / 64) {}
  page_relocation(const page_relocation&) = delete;
  page_relocation& operator=(const page_relocation&) = delete;

  // Where the runs of several pages begin: reads the page map.  errc::no_memory.  run(parts, f) as in relocate().
  template <class Run>
  [[nodiscard]] status look_at_page_map(unsigned parts, Run&& run) noexcept {
    if (!runs_.exists()) return fail(errc::no_memory, "no volatile memory to relocate a pool");
    run(parts, [&](unsigned part) noexcept {
      const std::uint64_t end = g_.size_pages * (part + 1) / parts;
      for (std::uint64_t page = g_.size_pages * part / parts; page < end;) {
        layout::page_entry e;
        const bool holds = entry_of(page, e);
        if (holds && e.kind == layout::page_kind::run && e.length_pages > 1) runs_.begin(page);
        if (holds && e.kind == layout::page_kind::cluster) look_at_cluster(page, e.length_pages);
        page += holds ? e.length_pages : 1;
      }
    });
    if (no_memory_) return fail(errc::no_memory, "no volatile memory to relocate the stores of a pool");
    std::ranges::sort(clusters_, {}, &cluster::page);
    return {};
  }

  [[nodiscard]] std::uint64_t pages() const noexcept { return g_.size_pages; }
  // relaxed: for reports.
  [[nodiscard]] std::uint64_t pages_left() const noexcept {
    return g_.size_pages - done_.load(std::memory_order_relaxed);
  }
  // What was found in pages that were put right.
  [[nodiscard]] const relocation_report& report() const noexcept { return report_; }

  // Step 2, and then settle().  Made again it does nothing.
  void put_right(std::uint64_t page) noexcept {
    if (page >= g_.size_pages || is_right(page)) return;
    from_ = g_.page_offset(page);
    lines_ = 0;
    layout::page_entry e;
    std::uint64_t head = page;
    if (find_head(head, e)) {
      if (e.kind == layout::page_kind::run) {
        look_at(g_.page_offset(head), std::uint64_t{e.length_pages} << g_.page_shift);
      } else {
        look_at_extent(g_.page_offset(head), e.kind);
      }
    }
    write_back();
    right_[page / 64] |= std::uint64_t{1} << page % 64;
    // relaxed: for reports.
    done_.store(done_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  // Makes the pages durable that this thread has put right, before another thread may find that all pages are right.
  void settle() noexcept { medium_.fence(edge{"object/E2"}); }

 private:
  [[nodiscard]] bool is_right(std::uint64_t page) const noexcept { return (right_[page / 64] >> page % 64 & 1) != 0; }
  [[nodiscard]] bool entry_of(std::uint64_t page, layout::page_entry& e) const noexcept {
    const std::uint64_t word = load_word(memory_, g_.entry_offset(page));
    if (word != 0) return entry_fault(word, page, g_, g_.size_pages, e) == nullptr;
    const auto behind = std::ranges::upper_bound(clusters_, page, {}, &cluster::page);
    if (behind == clusters_.begin() || !std::prev(behind)->has(page)) return false;
    const cluster& c = *std::prev(behind);
    const std::uint64_t inner = load_word(memory_, c.entry_offset(g_, page));
    return inner != 0 && inner_entry_fault(inner, page, c, g_, e) == nullptr;
  }
  // Notes where a cluster lies, and its runs.
  void look_at_cluster(std::uint64_t page, std::uint64_t pages) noexcept try {
    cluster c;
    if (cluster_fault(memory_, g_, page, pages, c).what != nullptr) return;  // the check names it
    each_inner_entry(
        memory_, g_, c,
        [&](std::uint64_t inner, const layout::page_entry& e, std::uint64_t) {
          if (e.kind == layout::page_kind::run && e.length_pages > 1) runs_.begin(inner);
          return true;
        },
        [](const damage&) {});
    const std::lock_guard guard{clusters_lock_};
    clusters_.push_back(c);
  } catch (const std::bad_alloc&) {
    no_memory_ = true;
  }
  // The extent or run of objects that the page belongs to; false: there is none.
  [[nodiscard]] bool find_head(std::uint64_t& page, layout::page_entry& e) const noexcept {
    const std::uint64_t sought = page;
    const auto holds = [&] {
      return entry_of(page, e) && page + e.length_pages > sought && layout::transactional(e) &&
             e.layout == layout::object_layout::typed &&
             (e.kind == layout::page_kind::run || e.kind == layout::page_kind::fine ||
              e.kind == layout::page_kind::coarse);
    };
    if (holds()) return true;
    page = round_down(sought, layout::coarse_extent_pages);
    if (holds() && e.kind == layout::page_kind::coarse) return true;
    const auto run = runs_.last(sought);
    if (!run) return false;
    page = *run;
    return holds() && e.kind == layout::page_kind::run;
  }
  void look_at_extent(std::uint64_t extent, layout::page_kind kind) noexcept {
    const layout::extent_shape s = layout::shape_of(kind, g_.page_shift);
    const std::uint64_t end = from_ + g_.page_bytes();
    read_extent(
        memory_, extent, kind, s,
        [&](unsigned slot, unsigned slots) {
          const std::uint64_t at = extent + slot * s.slot_bytes;
          if (at < end && at + slots * s.slot_bytes > from_) look_at(at, slots * s.slot_bytes);
        },
        [](const damage&) {});  // the check names it
  }
  // The words in this page of the object with this room.
  void look_at(std::uint64_t header, std::uint64_t room) noexcept {
    layout::object_header h;
    std::memcpy(&h, memory_ + header, sizeof h);
    const auto a = layout::alignment_of(h, header);
    const std::uint64_t size = layout::object_size(h);
    const bool first_page = header >= from_;
    if (!layout::object_header_holds(h, header) || !a || size > room - sizeof h) return;
    const pointer_plan* const plan = finder_.find(h.type);
    report_.objects += first_page ? 1 : 0;
    if (plan == nullptr || plan->none()) return;
    const std::uint64_t payload = header + a->gap, bytes = size - a->padding();
    const std::uint64_t end = from_ + g_.page_bytes();
    std::uint64_t lo = from_ > payload ? from_ - payload : 0;
    std::uint64_t hi = end > payload ? std::min(end - payload, bytes) : 0;
    if (plan->asks_object() && header != whole_) {
      whole_ = header;
      lo = 0;
      hi = bytes;
    }
    plan->each_in(memory_ + payload, bytes, lo, hi, [&](const pointer_word& p) {
      const std::uint64_t at = payload + p.at;
      const std::uint64_t page = g_.page_of(at);
      if (p.kind == layout::field_kind::static_pointer || p.at % 8 != 0 || page >= g_.size_pages || is_right(page))
        return;
      move(payload, p.at, h.type);
    });
  }
  void move(std::uint64_t payload, std::uint64_t at, std::uint32_t type) noexcept {
    auto* const word = reinterpret_cast<std::uint64_t*>(memory_ + payload + at);
    std::uint64_t value = *word;
    report_.pointers += value != 0 ? 1 : 0;
    switch (to_.move(value)) {
      case mover::what::stays:
        if (to_.goes_on() && value != 0) stored(payload + at);
        break;
      case mover::what::foreign:
        report_.found_foreign({payload, at, value, type});
        break;
      case mover::what::moves:
        // relaxed: one store, so that a crash finds the pointer or the one that it becomes.
        std::atomic_ref{*word}.store(value, std::memory_order_relaxed);
        stored(payload + at);
        ++report_.moved;
        break;
    }
  }

  void stored(std::uint64_t at) noexcept {
    const std::uint64_t line = (at - from_) / line_bytes;
    if (line < 64) {
      lines_ |= std::uint64_t{1} << line;
    } else {
      write_back(at, sizeof(std::uint64_t));
    }
  }
  void write_back(std::uint64_t at, std::uint64_t bytes) noexcept { medium_.flush(memory_ + at, bytes); }
  void write_back() noexcept {
    while (lines_ != 0) {
      const auto first = static_cast<unsigned>(std::countr_zero(lines_));
      const auto count = static_cast<unsigned>(std::countr_one(lines_ >> first));
      write_back(from_ + first * line_bytes, count * line_bytes);
      lines_ &= count == 64 ? 0 : ~(((std::uint64_t{1} << count) - 1) << first);
    }
  }

  M& medium_;
  std::byte* memory_;
  geometry g_;  // at open
  pointer_plans plans_;
  mover to_;
  plan_finder finder_;
  page_heads runs_;                // of several pages, at open
  std::mutex clusters_lock_;       // while parts of the page map are read
  std::vector<cluster> clusters_;  // of object stores, at open; in order once all parts are read
  std::atomic<bool> no_memory_{false};
  std::vector<std::uint64_t> right_;  // a bit a page
  std::atomic<std::uint64_t> done_{0};
  std::uint64_t from_ = 0;   // the page that is put right
  std::uint64_t lines_ = 0;  // lines of that page that were stored to, among its first 64
  std::uint64_t whole_ = 0;  // the object that was put right whole last
  relocation_report report_;
};

}  // namespace nvm::object
