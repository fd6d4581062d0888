// Pages that are an object store's, attached or not, or were one's since the pool was opened: one bit a page.
//
// Links of the pool's own structures lead to none of them; a link that does is damaged.  Such a page may be
// inaccessible, so it is found out before the link is followed.  A bit stays when the page leaves its store: a thread
// that finds one asks the page map.
//
// link_reach says up to where a link needs no look at the bits: to the pool's end, or to the first page that has one.
// So structures of a pool without stores pay for one comparison, which they need anyway.
//
// Structures inside of an object store turn the bits around (links_lead::here_only): a bit means that the store has the
// page, and each link needs a look.
//
/// add()        S bits of the pages; S reaches, not beyond the first of them; then the pages come to the store
// They are made inaccessible after that.  A thread that has compared a link before, and follows it only then, still
// runs into such a page: a link that is damaged, at the moment when a store is closed for the first time.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>

#include "base/base.hpp"
#include "space/sparse_array.hpp"

namespace nvm {

class pages_of_stores;

// Of one structure, as long as that is open.  Bytes are counted from the beginning of the pool's data.
class link_reach {
 public:
  link_reach(pages_of_stores& of, std::uint64_t pool_bytes) noexcept;
  ~link_reach();
  link_reach(const link_reach&) = delete;
  link_reach& operator=(const link_reach&) = delete;

  // relaxed, as in all: pages were there before anything could lead to them.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }
  // End of the places at which a line is within bytes().
  [[nodiscard]] std::uint64_t ends_of_lines() const noexcept { return lines_.load(std::memory_order_relaxed); }
  // The pool's size, as last seen.
  [[nodiscard]] std::uint64_t pool_bytes() const noexcept { return pool_bytes_.load(std::memory_order_relaxed); }
  void see(std::uint64_t pool_bytes) noexcept;
  // Whether the pages of these bytes, which the pool has, may be a store's.
  [[nodiscard]] bool may_lead_into_store(std::uint64_t first, std::uint64_t bytes) const noexcept;

 private:
  friend pages_of_stores;
  // The lock is held.
  void limit(std::uint64_t first_bytes) noexcept {
    const std::uint64_t to = std::min(pool_bytes(), first_bytes);
    bytes_.store(to, std::memory_order_relaxed);
    lines_.store(to < line_bytes ? 0 : to - line_bytes + 1, std::memory_order_relaxed);
  }

  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<std::uint64_t> lines_{0};
  std::atomic<std::uint64_t> pool_bytes_;
  pages_of_stores& of_;
  link_reach* next_ = nullptr;
};

// To pages with a bit: none of the pool's own links, or those of an object store's own structures, which lead nowhere
// else.
enum class links_lead : bool { not_here, here_only };

class pages_of_stores {
 public:
  pages_of_stores(std::uint64_t capacity_pages, unsigned page_shift, links_lead which = links_lead::not_here) noexcept
      : chunks_{ceil_div(capacity_pages, 64)},
        page_shift_{page_shift},
        here_only_{which == links_lead::here_only},
        first_{here_only_ ? 0 : no_page} {}
  ~pages_of_stores() { delete bits_.load(std::memory_order_relaxed); }
  pages_of_stores(const pages_of_stores&) = delete;
  pages_of_stores& operator=(const pages_of_stores&) = delete;

  // Called before the page map has them as a store's.
  void add(std::uint64_t page, std::uint64_t pages) noexcept {
    for (const std::uint64_t end = page + pages; page < end;) {
      const std::uint64_t count = std::min(end - page, 64 - page % 64);
      add_in_chunk(page / 64, ones(count) << page % 64);
      page += count;
    }
  }
  // Those of 64 pages whose bits are in the mask, at least one.
  void add_in_chunk(std::uint64_t chunk, std::uint64_t mask) noexcept {
    sparse_array<std::uint64_t>* bits = bits_.load(std::memory_order_acquire);
    if (bits == nullptr) bits = begun();
    if (bits != nullptr) (*bits)[chunk].fetch_or(mask, std::memory_order_release);
    const std::uint64_t first = chunk * 64 + static_cast<unsigned>(std::countr_zero(mask));
    if (first < first_.load(std::memory_order_relaxed)) reach_to(first);
  }
  // Called when the pages leave the store; links_lead::here_only.
  void remove(std::uint64_t page, std::uint64_t pages) noexcept {
    sparse_array<std::uint64_t>* const bits = bits_.load(std::memory_order_acquire);
    if (bits == nullptr) return;
    for (const std::uint64_t end = page + pages; page < end;) {
      const std::uint64_t count = std::min(end - page, 64 - page % 64);
      (*bits)[page / 64].fetch_and(~(ones(count) << page % 64), std::memory_order_release);
      page += count;
    }
  }
  // Whether no link may lead to one of [page, last], as far as the bits say.  acquire: pairs with add().
  [[nodiscard]] bool may_have(std::uint64_t page, std::uint64_t last) const noexcept {
    if (last < first_.load(std::memory_order_acquire)) return false;
    const sparse_array<std::uint64_t>* bits = bits_.load(std::memory_order_acquire);
    if (bits == nullptr) return true;  // no memory for them
    const std::uint64_t allowed = here_only_ ? ~std::uint64_t{0} : 0;
    for (;;) {
      const std::uint64_t count = std::min(last - page + 1, 64 - page % 64);
      if ((((*bits)[page / 64].load(std::memory_order_acquire) ^ allowed) & ones(count) << page % 64) != 0) return true;
      if (last - page < count) return false;
      page += count;
    }
  }
  // Whether a bit was ever set; not of links_lead::here_only.
  [[nodiscard]] bool may_have_any() const noexcept { return first_.load(std::memory_order_acquire) != no_page; }
  [[nodiscard]] unsigned page_shift() const noexcept { return page_shift_; }

 private:
  friend link_reach;
  static constexpr std::uint64_t ones(std::uint64_t count) noexcept {
    return count >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
  }
  // nullptr: no memory.
  [[nodiscard, gnu::noinline]] sparse_array<std::uint64_t>* begun() noexcept {
    const std::lock_guard guard{lock_};
    sparse_array<std::uint64_t>* bits = bits_.load(std::memory_order_relaxed);
    if (bits != nullptr) return bits;
    std::unique_ptr<sparse_array<std::uint64_t>> made{new (std::nothrow) sparse_array<std::uint64_t>{chunks_}};
    // Bits that could not be set before would be missing in a later one.
    const bool came_late = !here_only_ && first_.load(std::memory_order_relaxed) != no_page;
    if (made == nullptr || !made->exists() || came_late) return nullptr;
    bits = made.release();
    bits_.store(bits, std::memory_order_release);
    return bits;
  }
  [[gnu::noinline]] void reach_to(std::uint64_t page) noexcept {
    const std::lock_guard guard{lock_};
    if (page >= first_.load(std::memory_order_relaxed)) return;
    first_.store(page, std::memory_order_release);
    for (link_reach* r = reaches_; r != nullptr; r = r->next_) r->limit(first_bytes());
  }
  [[nodiscard]] std::uint64_t first_bytes() const noexcept {
    const std::uint64_t first = first_.load(std::memory_order_relaxed);
    return first == no_page ? no_page : first << page_shift_;
  }

  static constexpr std::uint64_t no_page = ~std::uint64_t{0};
  const std::uint64_t chunks_;
  const unsigned page_shift_;
  const bool here_only_;
  std::atomic<sparse_array<std::uint64_t>*> bits_{nullptr};
  std::atomic<std::uint64_t> first_;
  std::mutex lock_;
  link_reach* reaches_ = nullptr;
};

inline link_reach::link_reach(pages_of_stores& of, std::uint64_t pool_bytes) noexcept
    : pool_bytes_{pool_bytes}, of_{of} {
  const std::lock_guard guard{of_.lock_};
  limit(of_.first_bytes());
  next_ = of_.reaches_;
  of_.reaches_ = this;
}
inline link_reach::~link_reach() {
  const std::lock_guard guard{of_.lock_};
  link_reach** at = &of_.reaches_;
  while (*at != this) at = &(*at)->next_;
  *at = next_;
}
inline void link_reach::see(std::uint64_t pool_bytes) noexcept {
  if (pool_bytes <= pool_bytes_.load(std::memory_order_relaxed)) return;
  const std::lock_guard guard{of_.lock_};
  pool_bytes_.store(std::max(pool_bytes, this->pool_bytes()), std::memory_order_relaxed);
  limit(of_.first_bytes());
}
inline bool link_reach::may_lead_into_store(std::uint64_t first, std::uint64_t bytes) const noexcept {
  return bytes != 0 && of_.may_have(first >> of_.page_shift_, (first + bytes - 1) >> of_.page_shift_);
}

}  // namespace nvm
