// The pool's own file in the place of a second one, for the image of a pool on ssd: pages whose bytes are in the file
// leave memory, and are read again when they are touched.
//
// The image lies in a file of memory, laid out as the pool's, and a swapper looks after it.  Nothing is ever written
// here: the log is the only way to the file (media/image_media.hpp).  A page leaves when no store to it can go unseen
// (swapper.hpp), all records with bytes of it are home, and the file has the same bytes. The comparison keeps pages
// with bytes that no record has: those of open transactions, and volatile ones.  media/at_home.cpp says why these three
// are enough.  A crash leaves the same as if all pages stayed: writes to the device do not depend on this, except that
// checkpoints come earlier.
//
// The fault thread waits for no lock of the medium: the thread that holds it may be waiting for a page.
#pragma once

#include <atomic>
#include <mutex>

#include "media/media.hpp"
#include "platform/platform.hpp"
#include "tier/slow_pages.hpp"

namespace nvm::tier {

class image_pages final : public slow_pages {
 public:
  static constexpr std::uint64_t page_bytes = 4096;

  // `file`: the pool's, which outlives this object; its page 0 is at `offset`.  Buffers: valid() or no memory.
  image_pages(const platform::file& file, std::uint64_t offset) noexcept
      : file_{file}, offset_{offset}, bytes_there_{batch_max * page_bytes} {}
  [[nodiscard]] bool valid() const noexcept { return bytes_there_.data() != nullptr; }

  // The file has become shorter.
  void forget_end() noexcept { file_bytes_.store(0, std::memory_order_relaxed); }
  // Sets the medium of the image; nullptr: it is closed, and pages that were stored to do not leave.
  void meet(image_media* medium) noexcept;

  [[nodiscard]] status take_words(std::uint64_t, std::uint64_t) noexcept override { return {}; }
  void take_present(std::uint64_t, std::uint64_t) noexcept override {}
  [[nodiscard]] result<std::uint64_t> write_out(std::span<leaving_page> pages, std::mutex& lock) noexcept override;
  void keep(const leaving_page&) noexcept override {}
  void drop(const leaving_page&) noexcept override {}
  void forget(page_t) noexcept override {}
  // Whether the page is after the end of the file.
  [[nodiscard]] bool is_zeros(page_t page) const noexcept override;
  [[nodiscard]] result<unsigned> read_ahead(page_t first, unsigned count, std::byte* to) noexcept override;
  [[nodiscard]] bool failed() const noexcept override { return false; }
  [[nodiscard]] bool waits() const noexcept override { return waits_.load(std::memory_order_relaxed); }
  [[nodiscard]] figures now() const noexcept override;

 private:
  [[nodiscard]] std::uint64_t place_of(std::uint64_t page) const noexcept { return offset_ + page * page_bytes; }
  [[nodiscard]] status compare(std::span<leaving_page> run) noexcept;

  const platform::file& file_;
  const std::uint64_t offset_;
  platform::zeroed_memory bytes_there_;  // of write_out()
  std::mutex meeting_;                   // a leaf
  image_media* medium_ = nullptr;
  // At least, but where the end was cut off while it was asked for.  relaxed: pages that are taken for pages of the
  // file are read only as far as it goes, and the first one is needed, so it is before the end.
  mutable std::atomic<std::uint64_t> file_bytes_{0};
  std::atomic<bool> waits_{false};      // relaxed: a hint
  std::atomic<std::uint64_t> read_{0};  // relaxed: a count
};

}  // namespace nvm::tier
