// Protection of the pages of stores that are not attached, and of those that are attached read-only: a stray load or
// store of the program there is a trap, and changes nothing.
//
// Each page has an access of its own, which close_to() sets, and the library may open it for as long as it works there;
// the larger of both holds. Neighbours with the same access are protected by one call, and the kernel makes one mapping
// of them. A kernel allows a process a limited number of mappings (65,530): when ranges would need too many, a range
// stays accessible, and figures() says so. When protection cannot be kept up, one call takes all of it back, so that
// the library itself never meets a page that it cannot open.
//
// Threads: any; one lock, under which nothing but the kernel is called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "base/base.hpp"
#include "platform/platform.hpp"

namespace nvm::stores {

using platform::page_access;

class page_guard {
 public:
  struct limits {
    std::uint64_t ranges_max =
        0;  // that are protected, neighbours taken together; 0: a quarter of what the kernel allows
  };
  struct figures {
    std::uint64_t ranges = 0;        // protected, neighbours taken together
    std::uint64_t closed_bytes = 0;  // that cannot be accessed
    std::uint64_t read_only_bytes = 0;
    std::uint64_t left_open_bytes = 0;  // that would be, if the kernel allowed more mappings
    bool given_up = false;              // nothing is protected any more
    std::uint64_t calls = 0;            // of the kernel
  };

  // A guard of [base, base + bytes), mapped with at least `whole`, the access of pages that were not closed.
  page_guard(std::byte* base, std::uint64_t bytes, page_access whole, const limits& l) noexcept;
  page_guard(std::byte* base, std::uint64_t bytes, page_access whole) noexcept
      : page_guard{base, bytes, whole, limits{}} {}
  page_guard(const page_guard&) = delete;
  page_guard& operator=(const page_guard&) = delete;

  // Gives these pages this access from now on; whole pages of the machine.
  void close_to(std::uint64_t offset, std::uint64_t bytes, page_access to) noexcept;
  // Makes the pages plain: accessible, and not open.
  void release(std::uint64_t offset, std::uint64_t bytes) noexcept;
  // Opens the pages until close(); both nest. Pages opened to be read may be writable, too.
  void open(std::uint64_t offset, std::uint64_t bytes, bool writes) noexcept;
  void close(std::uint64_t offset, std::uint64_t bytes) noexcept;
  // All pages of all stores, between these two: for walks over a pool.
  // Pages that come to a store or leave one meanwhile are open, too.
  void open_all() noexcept { all_opens(1); }
  void close_all() noexcept { all_opens(-1); }

  // Whether the page cannot be accessed unless it is opened.
  [[nodiscard]] bool is_closed(std::uint64_t offset) const noexcept;
  [[nodiscard]] figures now() const noexcept;

 private:
  struct piece {
    std::uint64_t end = 0;
    page_access own = page_access::all;
    std::uint32_t opens = 0;
    bool writes = false;                   // one of these does
    page_access holds = page_access::all;  // the access that the kernel was told last
    bool left_open = false;                // for want of mappings
    [[nodiscard]] bool plain(page_access whole) const noexcept {
      return own == whole && opens == 0 && holds == whole && !left_open;
    }
    [[nodiscard]] bool alike(const piece& o) const noexcept {
      return own == o.own && opens == o.opens && writes == o.writes && holds == o.holds && left_open == o.left_open;
    }
  };
  using pieces = std::map<std::uint64_t, piece>;

  template <class Change>
  void change(std::uint64_t offset, std::uint64_t bytes, Change&& how) noexcept;
  [[nodiscard]] page_access wanted(const piece& p) const noexcept;
  // For one range more.
  [[nodiscard]] bool has_room() noexcept;
  pieces::iterator split(std::uint64_t at);
  void fill(std::uint64_t from, std::uint64_t to);
  // False: nothing can be protected any more.
  [[nodiscard]] bool apply(std::uint64_t from, std::uint64_t to) noexcept;
  void tidy(std::uint64_t from, std::uint64_t to) noexcept;
  void give_up() noexcept;
  void all_opens(int more) noexcept;
  void holds_now(piece& p, page_access to) noexcept;

  std::byte* base_;
  std::uint64_t bytes_;
  page_access whole_;
  std::uint64_t ranges_max_;  // 0: not asked yet
  mutable std::mutex lock_;
  pieces pieces_;             // pages that are not plain
  std::uint64_t ranges_ = 0;  // pieces that hold less than `whole_`
  int all_open_ = 0;          // walks over the pool
  bool given_up_ = false;
  std::uint64_t calls_ = 0;
};

}  // namespace nvm::stores
