// The file of pages that fast memory does not have: a second file (page_file.hpp), or the pool's own (image_pages.hpp).
//
// Threads: write_out() and read_ahead() by one thread each, at the same time; calls that change or report the books
// under the lock that write_out() is given; figures() by any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

#include "base/base.hpp"
#include "tier/page_file_layout.hpp"
#include "tier/page_queues.hpp"

namespace nvm::tier {

// A page on its way out.
struct leaving_page {
  enum class outcome : std::uint8_t {
    written,
    there,  // it was there already
    stays,  // it cannot leave now
  };
  page_t page = no_page;
  const std::byte* bytes = nullptr;
  layout::page_word word{};  // where it is now
  outcome became = outcome::written;
};

class slow_pages {
 public:
  struct figures {
    std::uint64_t bytes = 0;  // length of the file
    std::uint64_t bytes_written = 0, bytes_read = 0, syncs = 0;
  };
  // Pages that leave at a time at most.
  static constexpr unsigned batch_max = 64;

  slow_pages() noexcept = default;
  virtual ~slow_pages() = default;
  slow_pages(const slow_pages&) = delete;
  slow_pages& operator=(const slow_pages&) = delete;

  // The pages [first, first + count) are holes of the fast file, or they are in it.
  [[nodiscard]] virtual status take_words(std::uint64_t first, std::uint64_t count) noexcept = 0;
  virtual void take_present(std::uint64_t first, std::uint64_t count) noexcept = 0;

  // Writes pages out, and notes in each what became of it; no store to them goes unseen meanwhile. Afterwards the
  // caller calls keep() or drop() for each that does not stay. Returns the batch's number. On failure all stay.
  [[nodiscard]] virtual result<std::uint64_t> write_out(std::span<leaving_page> pages, std::mutex& lock) noexcept = 0;
  // The page has been given back: its older units are free.
  virtual void keep(const leaving_page& page) noexcept = 0;
  // It stays, since it was stored to: its new units are free.
  virtual void drop(const leaving_page& page) noexcept = 0;
  // The page is stored to.
  virtual void forget(page_t page) noexcept = 0;

  // Whether the page is zeros if it is a hole of the fast file, now or when it is given back without a write.
  [[nodiscard]] virtual bool is_zeros(page_t page) const noexcept = 0;
  // Reads the page and those after it that are not zeros; returns how many of `count` were read.  errc::corrupt or io.
  [[nodiscard]] virtual result<unsigned> read_ahead(page_t first, unsigned count, std::byte* to) noexcept = 0;

  // Whether it has failed: nothing is written any more.
  [[nodiscard]] virtual bool failed() const noexcept = 0;
  // Whether pages of the last batch have stayed that may leave soon.
  [[nodiscard]] virtual bool waits() const noexcept { return false; }
  [[nodiscard]] virtual figures now() const noexcept = 0;
};

}  // namespace nvm::tier
