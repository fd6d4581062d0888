// Links of the pool's own structures that are not lock-free: of its key-value stores, and of the names of object
// stores.  One that leads into pages of an object store, attached or not, is damaged, and is found out before it is
// followed.
//
// Costs a load and a comparison where no page was ever a store's, else a look at a bit (space/pages_of_stores.hpp).
#pragma once

#include <cstdint>

#include "space/face.hpp"

namespace nvm::stores {

class own_links {
 public:
  own_links() noexcept = default;  // of a pool whose engine has no stores
  // in_store(about, offset) tells by the page map whether a store has the page of that place; `begin`: where the
  // pool's data begins.
  using asker = bool (*)(void* about, std::uint64_t offset) noexcept;
  own_links(const pages_of_stores& pages, std::uint64_t begin, asker in_store, void* about) noexcept
      : pages_{&pages}, begin_{begin}, in_store_{in_store}, about_{about} {}

  // Whether some page is a store's, or was one's since the pool was opened.
  [[nodiscard]] bool may_lead_anywhere() const noexcept { return pages_ != nullptr && pages_->may_have_any(); }
  // The same of pages of these bytes; places outside of the pool's data are nobody's.
  [[nodiscard]] bool may_lead_into_store(std::uint64_t place, std::uint64_t bytes) const noexcept {
    if (pages_ == nullptr || bytes == 0 || place < begin_) return false;
    return pages_->may_have((place - begin_) >> pages_->page_shift(),
                            (place + bytes - 1 - begin_) >> pages_->page_shift());
  }
  // Whether a link to these bytes, which are inside of the pool's data, leads into a store.
  [[nodiscard]] bool lead_into_store(std::uint64_t place, std::uint64_t bytes) const noexcept {
    if (pages_ == nullptr || bytes == 0) return false;
    const std::uint64_t page = (place - begin_) >> pages_->page_shift();
    const std::uint64_t last = (place + bytes - 1 - begin_) >> pages_->page_shift();
    if (!pages_->may_have(page, last)) [[likely]]
      return false;
    return lead_slowly(page, last);
  }

 private:
  // A bit stays when its page leaves the store: the page map tells.
  [[nodiscard, gnu::cold]] bool lead_slowly(std::uint64_t page, std::uint64_t last) const noexcept {
    while (page <= last && !in_store_(about_, begin_ + (page << pages_->page_shift()))) ++page;
    return page <= last;
  }

  const pages_of_stores* pages_ = nullptr;
  std::uint64_t begin_ = 0;
  asker in_store_ = nullptr;
  void* about_ = nullptr;
};

}  // namespace nvm::stores
