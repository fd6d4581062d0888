#include "space/open_store.hpp"

#include <algorithm>
#include <bit>
#include <new>

namespace nvm {

// ---- the pages of a cluster ----------------------------------------------------------------------------------------

cluster_pages::cluster_pages(const cluster& c)
    : cluster_{c}, busy_(ceil_div(c.room, 64), ~std::uint64_t{0}), heads_(busy_.size(), 0) {
  cluster_.pages = c.header_pages;
  resize(c.pages);
}

void cluster_pages::resize(std::uint64_t pages) noexcept {
  NVM_ASSERT(pages >= cluster_.header_pages && pages <= cluster_.room);
  for (std::uint64_t i = cluster_.pages; i < pages; ++i) busy_[i / 64] &= ~(std::uint64_t{1} << i % 64);
  for (std::uint64_t i = pages; i < cluster_.pages; ++i) {
    NVM_ASSERT(!busy(i));
    busy_[i / 64] |= std::uint64_t{1} << i % 64;
  }
  free_ += pages - cluster_.pages;
  cluster_.pages = pages;
}

std::uint64_t cluster_pages::trailing_free() const noexcept {
  std::uint64_t i = cluster_.pages;
  while (i > cluster_.header_pages && !busy(i - 1)) --i;
  return cluster_.pages - i;
}

std::optional<std::uint64_t> cluster_pages::find(std::uint64_t count, bool aligned) const noexcept {
  if (count > free_) return std::nullopt;
  const std::uint64_t step = aligned ? layout::extent_align_pages : 1;
  std::uint64_t page = round_up(cluster_.page + cluster_.header_pages, step);
  while (page + count <= cluster_.end()) {
    std::uint64_t i = page - cluster_.page;
    const std::uint64_t end = i + count;
    while (i < end && !busy(i)) ++i;
    if (i == end) return page;
    // The free page after those in use.
    for (; i < cluster_.pages && busy(i); ++i) {
      const std::uint64_t left = ~busy_[i / 64] >> i % 64;
      const auto skip = left == 0 ? 64 - i % 64 : static_cast<unsigned>(std::countr_zero(left));
      if (skip == 0) break;
      i += skip - 1;
    }
    page = round_up(cluster_.page + i, step);
  }
  return std::nullopt;
}

std::optional<std::uint64_t> cluster_pages::take(std::uint64_t count, bool aligned) noexcept {
  const auto page = find(count, aligned);
  if (page) mark(*page, count);
  return page;
}

void cluster_pages::mark(std::uint64_t page, std::uint64_t count) noexcept {
  const std::uint64_t first = page - cluster_.page;
  for (std::uint64_t i = first; i < first + count; ++i) {
    NVM_ASSERT(!busy(i));
    busy_[i / 64] |= std::uint64_t{1} << i % 64;
  }
  heads_[first / 64] |= std::uint64_t{1} << first % 64;
  free_ -= count;
}

void cluster_pages::give(std::uint64_t page, std::uint64_t count) noexcept {
  const std::uint64_t first = page - cluster_.page;
  for (std::uint64_t i = first; i < first + count; ++i) {
    NVM_ASSERT(busy(i));
    busy_[i / 64] &= ~(std::uint64_t{1} << i % 64);
  }
  heads_[first / 64] &= ~(std::uint64_t{1} << first % 64);
  free_ += count;
}

std::optional<std::uint64_t> cluster_pages::head_of(std::uint64_t page) const noexcept {
  const std::uint64_t i = page - cluster_.page;
  if (!cluster_.has(page) || !busy(i)) return std::nullopt;
  std::uint64_t w = i / 64;
  std::uint64_t bits = heads_[w] & (~std::uint64_t{0} >> (63 - i % 64));
  while (bits == 0 && w != 0) bits = heads_[--w];
  if (bits == 0) return std::nullopt;
  return cluster_.page + w * 64 + 63 - static_cast<unsigned>(std::countl_zero(bits));
}

// ---- a store -------------------------------------------------------------------------------------------------------

status open_store::begin(const std::byte* base, const geometry& g, const std::vector<cluster>& clusters,
                         bool read_only) noexcept try {
  times_.fetch_add(1, std::memory_order_relaxed);
  number_.store(clusters.front().number, std::memory_order_relaxed);
  page_ = clusters.front().page;
  read_only_ = read_only;
  std::vector<cluster_pages> all;
  all.reserve(clusters.size() + 1);
  std::uint64_t count = 0;
  for (const cluster& c : clusters) {
    all.emplace_back(c);
    count += c.pages;
  }
  std::ranges::sort(all, {}, [](const cluster_pages& c) { return c.what().page; });
  {
    const std::lock_guard guard{pages};
    clusters_ = std::move(all);
  }
  page_count_.store(count, std::memory_order_relaxed);
  return read_maps(base, g);
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory to attach store %u", clusters.front().number);
}

status open_store::read_maps(const std::byte* base, const geometry& g) {
  status outcome;
  std::int64_t extents = 0;
  for (cluster_pages& c : clusters_) {
    each_inner_entry(
        base, g, c.what(),
        [&](std::uint64_t page, const layout::page_entry& e, std::uint64_t) {
          c.mark(page, e.length_pages);
          if (e.kind != layout::page_kind::run && layout::transactional(e)) {
            unindexed_[slot_set_of(e.kind, e.layout)].push_back(page);
            ++extents;
          }
          return true;
        },
        [&](const damage& d) {
          if (!outcome) return;
          outcome = fail(errc::corrupt, "store %u: %s, at offset %lu: found %lx, expected %lx", number(), d.what,
                         d.offset, d.found, d.expected);
        });
  }
  unindexed_left_.store(extents, std::memory_order_relaxed);
  return outcome;
}

void open_store::end() noexcept {
  const std::lock_guard guard{pages};
  clusters_ = {};
  bits_ = nullptr;
  for (auto& set : unindexed_) set = {};
  page_count_.store(0, std::memory_order_relaxed);
}

cluster_pages* open_store::having(std::uint64_t page) noexcept {
  const auto behind =
      std::ranges::upper_bound(clusters_, page, {}, [](const cluster_pages& c) { return c.what().page; });
  if (behind == clusters_.begin()) return nullptr;
  cluster_pages& c = *std::prev(behind);
  return c.what().has(page) ? &c : nullptr;
}

std::optional<std::uint64_t> open_store::take(std::uint64_t count, bool aligned) noexcept {
  for (cluster_pages& c : clusters_) {
    if (const auto page = c.take(count, aligned)) return page;
  }
  return std::nullopt;
}

bool open_store::fits(std::uint64_t count, bool aligned) const noexcept {
  return std::ranges::any_of(clusters_, [&](const cluster_pages& c) { return c.find(count, aligned).has_value(); });
}

status open_store::prepare_to_add(const cluster& c) noexcept try {
  prepared_.clear();
  prepared_.emplace_back(c);
  std::vector<cluster_pages> more;
  {
    const std::lock_guard guard{pages};
    if (clusters_.capacity() > clusters_.size()) return {};
  }
  // Nobody else adds.
  more.reserve(clusters_.size() * 2 + 4);
  const std::lock_guard guard{pages};
  for (cluster_pages& has : clusters_) more.push_back(std::move(has));
  clusters_ = std::move(more);
  return {};
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for a cluster of store %u", number());
}

void open_store::add_prepared() noexcept {
  const std::lock_guard guard{pages};
  cluster_pages& c = prepared_.front();
  const auto behind =
      std::ranges::upper_bound(clusters_, c.what().page, {}, [](const cluster_pages& x) { return x.what().page; });
  page_count_.fetch_add(c.what().pages, std::memory_order_relaxed);
  if (bits_ != nullptr) bits_->add(c.what().page, c.what().pages);
  clusters_.insert(behind, std::move(c));
  prepared_.clear();
}

void open_store::remove(std::uint64_t page) noexcept {
  const auto at = std::ranges::find(clusters_, page, [](const cluster_pages& c) { return c.what().page; });
  NVM_ASSERT(at != clusters_.end());
  page_count_.fetch_sub(at->what().pages, std::memory_order_relaxed);
  if (bits_ != nullptr) bits_->remove(at->what().page, at->what().pages);
  clusters_.erase(at);
}

void open_store::resize(cluster_pages& c, std::uint64_t pages_now) noexcept {
  const std::uint64_t had = c.what().pages;
  page_count_.fetch_add(pages_now - had, std::memory_order_relaxed);
  if (bits_ != nullptr && pages_now > had) bits_->add(c.what().page + had, pages_now - had);
  if (bits_ != nullptr && pages_now < had) bits_->remove(c.what().page + pages_now, had - pages_now);
  c.resize(pages_now);
}

void open_store::give(std::uint64_t page, std::uint64_t count) noexcept {
  const std::lock_guard guard{pages};
  cluster_pages* c = having(page);
  NVM_ASSERT(c != nullptr);
  c->give(page, count);
}

std::optional<cluster> open_store::cluster_with(std::uint64_t page) noexcept {
  const std::lock_guard guard{pages};
  const cluster_pages* c = having(page);
  return c == nullptr ? std::nullopt : std::optional{c->what()};
}

std::optional<cluster> open_store::walk_from(std::uint64_t page) noexcept {
  const std::lock_guard guard{pages};
  const auto at = std::ranges::find_if(clusters_, [&](const cluster_pages& c) { return c.what().end() > page; });
  if (at == clusters_.end()) return std::nullopt;
  ++walks_;
  return at->what();
}
void open_store::end_walk() noexcept {
  const std::lock_guard guard{pages};
  NVM_ASSERT(walks_ != 0);
  --walks_;
}

bool open_store::is_free(std::uint64_t page) noexcept {
  const std::lock_guard guard{pages};
  const cluster_pages* c = having(page);
  return c != nullptr && c->is_free(page);
}

void open_store::tell_pages(pages_of_stores* bits) noexcept {
  const std::lock_guard guard{pages};
  bits_ = bits;
  if (bits == nullptr) return;
  for (const cluster_pages& c : clusters_) bits->add(c.what().page, c.what().pages);
}

std::optional<std::uint64_t> open_store::head_of(std::uint64_t page) noexcept {
  const std::lock_guard guard{pages};
  const cluster_pages* c = having(page);
  return c == nullptr ? std::nullopt : c->head_of(page);
}

std::optional<std::uint64_t> open_store::next_unindexed(unsigned set) noexcept {
  const std::lock_guard guard{pages};
  if (unindexed_[set].empty()) return std::nullopt;
  const std::uint64_t page = unindexed_[set].back();
  unindexed_[set].pop_back();
  return page;
}

// ---- all of them ---------------------------------------------------------------------------------------------------

attached_stores::~attached_stores() {
  if (!exists()) return;
  for (unsigned i = 1; i <= used(); ++i) delete at(i);
}

result<open_store*> attached_stores::get(unsigned arenas) noexcept try {
  if (!free_.empty()) {
    open_store* s = at(free_.back());
    free_.pop_back();
    return s;
  }
  const unsigned place = used_.load(std::memory_order_relaxed) + 1;
  if (place > places_) return fail(errc::no_memory, "%lu stores are attached: no more can be", places_);
  free_.reserve(place);  // so that put() does not throw
  auto* made = new open_store{place, arenas + place};
  // release: pairs with at(), and the other with used().
  stores_[place].store(reinterpret_cast<std::uintptr_t>(made), std::memory_order_release);
  used_.store(place, std::memory_order_release);
  return made;
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for an attached store");
}

void attached_stores::put(open_store& s) noexcept {
  s.end();
  free_.push_back(s.place());
}

}  // namespace nvm
