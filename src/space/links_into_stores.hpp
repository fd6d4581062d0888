// Whether a link of the pool's own leads into pages of an object store that may be inaccessible.  Such a link is
// damaged: it is found out before it is followed.
//
// Costs a load where no store was ever closed in this process.  Otherwise the numbers of the last 128 pages that were
// found to be no store's are remembered until pages are closed again: a page that has come to a store since then could
// be read up to that moment.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace nvm {

class links_into_stores {
 public:
  // in_store(about, offset) tells whether an object store has the page of that place.
  using asker = bool (*)(void* about, std::uint64_t offset) noexcept;

  // Nothing is asked before this: the pool has no stores.  `closed` is store_pages::closed_so_far().
  void begin(const std::atomic<std::uint32_t>& closed, asker in_store, void* about, unsigned page_shift) noexcept {
    closed_ = &closed;
    in_store_ = in_store;
    about_ = about;
    page_shift_ = page_shift;
  }

  // Whether a store has one of these bytes, which are inside of the pool's data.
  [[nodiscard]] bool any_has(std::uint64_t place, std::uint64_t bytes) noexcept {
    if (closed_ == nullptr || bytes == 0) return false;
    // acquire: pairs with pages_are_closing(): the page map says whose the pages are.
    const std::uint32_t closed = closed_->load(std::memory_order_acquire);
    if (closed == 0) [[likely]]
      return false;
    for (std::uint64_t page = place >> page_shift_; page <= (place + bytes - 1) >> page_shift_; ++page) {
      if (has_page(page, closed)) return true;
    }
    return false;
  }

 private:
  [[nodiscard]] bool has_page(std::uint64_t page, std::uint32_t closed) noexcept {
    const std::uint64_t known = std::uint64_t{closed} << 32 | page;
    std::atomic<std::uint64_t>& at = known_[page % known_.size()];
    // relaxed: the word has all that is remembered.
    if (at.load(std::memory_order_relaxed) == known) return false;
    if (in_store_(about_, page << page_shift_)) return true;
    at.store(known, std::memory_order_relaxed);
    return false;
  }

  const std::atomic<std::uint32_t>* closed_ = nullptr;
  asker in_store_ = nullptr;
  void* about_ = nullptr;
  unsigned page_shift_ = 0;
  // closed_so_far() and the number of a page, counted from the pool's start; it has 32 bits.
  std::array<std::atomic<std::uint64_t>, 128> known_{};
};

}  // namespace nvm
