// Home writer: brings logged bytes to their places in the file, each touched sector once.
//
// Entries are staged in order into copies of the file's pages, so that a later one overwrites an earlier one in memory;
// touched sectors are then written in order of offset and as a whole, since a device does not tear a sector.  The rest
// of a sector comes from the file, never from an image, which may hold bytes of no record.  Memory is bounded: a full
// stage is written out and staging
// goes on, still in order.
//
// Crash: any subset of the sectors may have been written.  The log is intact until the caller has
// synced and moved the checkpoint, and replay writes all of it again.
#pragma once

#include <memory>
#include <vector>

#include "media/block_device.hpp"

namespace nvm {

class home_writer {
 public:
  // Pages that are staged at most; 4 MiB.
  static constexpr std::size_t pages_max_default = 1024;

  // errc::no_memory.
  static result<std::unique_ptr<home_writer>> make(block_device& device,
                                                   std::size_t pages_max = pages_max_default) noexcept;

  // Called before the first put() of a run: asks for the file's present size.
  status begin() noexcept;
  // errc::corrupt for a range outside the file, errc::io as the device says.
  status put(std::uint64_t offset, const std::byte* data, std::size_t bytes) noexcept;
  // Writes the staged sectors out. Does not sync.
  status finish(site s = site::here()) noexcept;

  // Bytes that the run has written so far.
  [[nodiscard]] std::uint64_t bytes_written() const noexcept { return bytes_written_; }

 private:
  static constexpr std::size_t page_bytes = 4096;
  static constexpr std::size_t sectors_per_page = page_bytes / sector_bytes;
  static constexpr std::size_t run_bytes_max = 256 * 1024;  // one write
  static constexpr std::uint32_t no_slot = ~std::uint32_t{0};

  struct staged_page {
    std::uint64_t page;   // offset in the file / page_bytes
    std::uint32_t slot;   // which copy in pages_
    std::uint32_t dirty;  // bit per sector that a put() touched
  };

  home_writer(block_device& device, std::size_t pages_max) : device_{device}, pages_max_{pages_max} {}
  [[nodiscard]] std::uint64_t page_end(std::uint64_t page) const noexcept;
  result<std::uint32_t> stage(std::uint64_t page, bool whole) noexcept;
  status write_sorted(site s = site::here()) noexcept;

  block_device& device_;
  std::size_t pages_max_;
  std::uint64_t file_bytes_ = 0;
  std::uint64_t bytes_written_ = 0;
  std::vector<staged_page> staged_;     // in order of first touch; reserved to pages_max_
  std::vector<std::uint32_t> index_;    // open addressing by page number: position in staged_
  std::unique_ptr<std::byte[]> pages_;  // pages_max_ copies
  std::unique_ptr<std::byte[]> run_;    // neighbouring sectors, put together
};

}  // namespace nvm
