// Queues of pages, each page in one of them or in none: links by page number, so that a page costs 12 bytes of a table
// that takes memory only where pages are used.
//
// Threads: one at a time.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "base/base.hpp"
#include "platform/platform.hpp"

namespace nvm::tier {

using page_t = std::uint32_t;
inline constexpr page_t no_page = ~page_t{0};

template <unsigned Queues>
class page_queues {
  struct place {
    page_t older = 0;  // page number + 1; 0: none
    page_t newer = 0;
    std::uint8_t queue = 0;
    std::uint8_t mark = 0;
  };
  struct ends {
    page_t oldest = 0, newest = 0;  // page number + 1
    std::uint64_t size = 0;
  };

 public:
  // Of pages 0 to `pages` - 1.  exists() says whether there was memory.
  explicit page_queues(std::uint64_t pages) noexcept : memory_{pages * sizeof(place)} {}
  [[nodiscard]] bool exists() const noexcept { return memory_.data() != nullptr; }

  // 0: in none; else the queue's number + 1.
  [[nodiscard]] unsigned queue_of(page_t page) const noexcept { return at(page).queue; }
  [[nodiscard]] std::uint64_t size(unsigned queue) const noexcept { return ends_[queue].size; }
  // no_page: the queue is empty, or there is none.
  [[nodiscard]] page_t oldest(unsigned queue) const noexcept { return ends_[queue].oldest - 1; }
  [[nodiscard]] page_t newer_than(page_t page) const noexcept { return at(page).newer - 1; }

  void push_newest(unsigned queue, page_t page) noexcept {
    push<&place::older, &place::newer, &ends::newest, &ends::oldest>(queue, page);
  }
  void push_oldest(unsigned queue, page_t page) noexcept {
    push<&place::newer, &place::older, &ends::oldest, &ends::newest>(queue, page);
  }
  // Removes the page from the queue that it is in, if any.
  void remove(page_t page) noexcept {
    place& p = at(page);
    if (p.queue == 0) return;
    ends& e = ends_[p.queue - 1];
    (p.older != 0 ? at(p.older - 1).newer : e.oldest) = p.newer;
    (p.newer != 0 ? at(p.newer - 1).older : e.newest) = p.older;
    p.queue = 0;
    --e.size;
  }
  // A number that the policy keeps for the page, whether it is in a queue or not; 0 at first.
  [[nodiscard]] std::uint8_t& mark(page_t page) noexcept { return at(page).mark; }

 private:
  // Adds a page at one end: its neighbour is `Inward`, and it has none `Outward`.
  template <page_t place::* Inward, page_t place::* Outward, page_t ends::* End, page_t ends::* OtherEnd>
  void push(unsigned queue, page_t page) noexcept {
    ends& e = ends_[queue];
    place& p = at(page);
    NVM_ASSERT(p.queue == 0);
    p.queue = static_cast<std::uint8_t>(queue + 1);
    p.*Inward = e.*End;
    p.*Outward = 0;
    (e.*End != 0 ? at(e.*End - 1).*Outward : e.*OtherEnd) = page + 1;
    e.*End = page + 1;
    ++e.size;
  }
  [[nodiscard]] place& at(page_t page) noexcept { return static_cast<place*>(memory_.data())[page]; }
  [[nodiscard]] const place& at(page_t page) const noexcept { return static_cast<const place*>(memory_.data())[page]; }

  platform::zeroed_memory memory_;
  std::array<ends, Queues> ends_{};
};

}  // namespace nvm::tier
