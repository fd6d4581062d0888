// The part of a domain that saves the tables of its sets when no thread is at work, and takes them when it is opened
// (saved_table.hpp); included by domain.hpp.
//
/// Saved.  S page map entry of a run; F it; S the table there; F it; S tally and name; F them;
///                                       | region/E22  a pool that is closed has no pages that nothing leads to
// A crash before that leaves a run that nothing leads to, which the next open frees, or a name of a table that fails
// its check.
#pragma once

#include <cstdio>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "region/domain.hpp"

namespace nvm::region {

namespace detail {

// Lays a table out in a run, part by part.  May throw std::bad_alloc.
template <media M>
class table_writer {
 public:
  table_writer(M& medium, std::byte* base, std::uint64_t offset, std::uint64_t key) noexcept
      : medium_{medium}, base_{base}, offset_{offset}, at_{offset + sizeof(layout::saved_head)}, key_{key} {}

  // The cells of one part, zero at first.
  std::vector<layout::saved_cell>& begin_part(std::uint64_t buckets) {
    cells_.assign(buckets * layout::saved_cells, {});
    return cells_;
  }
  void end_part() { put(cells_.data(), cells_.size() * sizeof(layout::saved_cell)); }
  void words(const std::vector<std::uint64_t>& all) { put(all.data(), all.size() * sizeof(std::uint64_t)); }
  // After all of it.
  void end(layout::saved_head& h) {
    const std::byte* const data = base_ + offset_ + sizeof h;
    std::vector<std::uint64_t> sums(saved_view::blocks(h));
    for (std::uint64_t i = 0; i < sums.size(); ++i) sums[i] = saved_sum(h, data, i, key_);
    words(sums);
    h.sums_crc = checksum(sums.data(), sums.size() * sizeof(std::uint64_t), key_);
    h.crc = saved_crc(h, offset_, key_);
    at_ = offset_;
    put(&h, sizeof h);
  }

 private:
  void put(const void* from, std::uint64_t bytes) noexcept {
    if (bytes != 0) copy_out(medium_, base_ + at_, from, bytes);
    at_ += bytes;
  }

  M& medium_;
  std::byte* base_;
  const std::uint64_t offset_;
  std::uint64_t at_;
  const std::uint64_t key_;
  std::vector<layout::saved_cell> cells_;
};

}  // namespace detail

template <media M>
tally::table domain<M>::save(set& s) noexcept {
  const tally::table made = write_table(s);
  if (made.offset != 0) return made;
  // The old table is out of date.
  const std::lock_guard guard{giving_};
  give_saved_table(s);
  return {};
}
template <media M>
tally::table domain<M>::write_table(set& s) noexcept {
  // A place that waits for a lease is neither free nor in use by a region.
  const bool can =
      s.saves_at_rest && options_.saved_from != 0 && s.regions.count() >= options_.saved_from && limbo_.bytes() == 0;
  if (!can) return {};
  s.where.read_saved();
  if (s.where.forgets()) return {};
  std::uint64_t run = 0;
  try {
    const std::vector<std::uint64_t> extents = s.where.partner_extents();
    const std::vector<std::uint64_t> slots = s.where.free_slots();
    layout::saved_head h{};
    h.magic = layout::saved_magic;
    h.extents = extents.size();
    h.slots = slots.size();
    for (unsigned p = 0; p < layout::saved_parts; ++p) {
      const std::uint64_t n = s.regions.count_of(p);
      h.regions += n;
      h.parts[p] = saved_table::buckets_for(n) << 32 | n;
    }
    const auto taken = pages_.take_run(0, run_wish{.protocol = nvm::layout::slot_protocol::region,
                                                   .owner = s.where.owner(),
                                                   .bytes = saved_view::all_bytes(h),
                                                   .fenced = false});
    if (!taken) return {};
    run = *taken;
    detail::table_writer<M> out{medium_, base_, run, key_};
    saved_table::bits known;
    const saved_table* const before = s.regions.saved();
    for (unsigned p = 0; p < layout::saved_parts; ++p) {
      const std::uint64_t buckets = saved_view::buckets_of(h.parts[p]);
      auto& cells = out.begin_part(buckets);
      known[p].resize(ceil_div(cells.size(), std::size_t{64}));
      s.regions.for_each_of(p, [&](const entry* e) {
        const std::uint64_t i =
            saved_table::put(cells.data(), buckets, {e->rid, layout::saved_place(e->header, e->in_class)});
        known[p][i / 64] |= std::uint64_t{1} << i % 64;
      });
      if (before != nullptr) {
        (void)before->each_left(p, [&](std::uint64_t, const layout::saved_cell& c) {
          saved_table::put(cells.data(), buckets, c);
          return true;
        });
      }
      out.end_part();
    }
    out.words(extents);
    out.words(slots);
    out.end(h);
    // From here on entries are made of this one.
    saved_view v;
    v.offset = run;
    v.head = reinterpret_cast<const layout::saved_head*>(base_ + run);
    v.cells = reinterpret_cast<const layout::saved_cell*>(base_ + run + sizeof h);
    s.regions.begin_with(std::make_unique<saved_table>(base_, pages_, s.where.owner(), key_, v, std::move(known)));
    const std::lock_guard guard{giving_};
    const std::uint64_t old = std::exchange(s.saved_run, run);
    if (old != 0) pages_.give(old);
    return {run, h.crc};
  } catch (const std::bad_alloc&) {
    if (run != 0) pages_.give(run);
    return {};
  }
}

template <media M>
bool domain<M>::take_saved(set& s, unsigned parts) {
  saved_view v;
  if (!s.saves_at_rest || saved_fault(base_, pages_, s.where.owner(), entry_at(s.index), key_, parts, v) != nullptr) {
    return false;
  }
  s.where.begin_with(v.slots, v.extents);
  s.regions.begin_with(std::make_unique<saved_table>(base_, pages_, s.where.owner(), key_, v));
  s.saved = {v.offset, v.head->crc};
  s.saved_run = v.offset;
  return true;
}

template <media M>
const char* domain<M>::check_saved(const set& s, unsigned parts, std::vector<std::uint64_t>& named) const {
  saved_view v;
  const char* what = saved_fault(base_, pages_, s.where.owner(), entry_at(s.index), key_, parts, v);
  if (what == no_table) return nullptr;
  if (what == nullptr) named.push_back(v.offset);
  std::uint64_t first = 0;
  for (unsigned p = 0; p < layout::saved_parts && what == nullptr; ++p) {
    const std::uint64_t buckets = saved_view::buckets_of(v.head->parts[p]);
    const layout::saved_cell* const cells = v.cells + first * layout::saved_cells;
    s.regions.for_each_of(p, [&](const entry* e) {
      const std::uint64_t i = saved_table::cell_of(cells, buckets, e->rid);
      const bool leads = i != saved_table::none && cells[i].place == layout::saved_place(e->header, e->in_class);
      if (!leads) what = "the table leads elsewhere";
    });
    first += buckets;
  }
  return what;
}
template <media M>
void domain<M>::check_saved(unsigned parts, const told& tell, std::vector<std::uint64_t>& named) const {
  for (const auto& s : sets_) {
    const char* const what = s == nullptr || !s->saves_at_rest ? nullptr : check_saved(*s, parts, named);
    if (what == nullptr) continue;
    char text[192];
    (void)std::snprintf(text, sizeof text, "set of regions '%s': what the close has saved is not as it was: %s",
                        entry_of(s->index).name, what);
    tell(saved_word_at(entry_at(s->index)), text);
  }
}

template <media M>
void domain<M>::give_saved_table(set& s) noexcept {
  if (s.saved_run == 0 || !s.regions.load_all()) return;
  s.where.read_saved();
  about_to_change(s);
  pages_.give(std::exchange(s.saved_run, 0));
}
template <media M>
void domain<M>::give_saved_tables() noexcept {
  const std::lock_guard guard{giving_};
  for (const auto& s : sets_) {
    if (s != nullptr) give_saved_table(*s);
  }
}

}  // namespace nvm::region
