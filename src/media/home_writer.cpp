#include "media/home_writer.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

namespace nvm {

result<std::unique_ptr<home_writer>> home_writer::make(block_device& device, std::size_t pages_max) noexcept {
  try {
    std::unique_ptr<home_writer> w{new home_writer{device, pages_max}};
    w->staged_.reserve(pages_max);
    w->index_.assign(std::bit_ceil(2 * pages_max), no_slot);
    // Uninitialised: pages that are never staged never cost memory.
    w->pages_.reset(new std::byte[pages_max * page_bytes]);
    w->run_.reset(new std::byte[run_bytes_max]);
    return w;
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no memory for a checkpoint of %zu pages", pages_max);
  }
}

status home_writer::begin() noexcept {
  result<std::uint64_t> size = device_.size();
  if (!size) return size.error();
  file_bytes_ = *size;
  bytes_written_ = 0;
  return {};
}

std::uint64_t home_writer::page_end(std::uint64_t page) const noexcept {
  return std::min((page + 1) * page_bytes, file_bytes_);
}

// Position in staged_ of the copy of `page`; read from the file unless the caller overwrites it whole.
result<std::uint32_t> home_writer::stage(std::uint64_t page, bool whole) noexcept {
  const std::size_t mask = index_.size() - 1;
  std::size_t at = (page * 0x9E3779B97F4A7C15ULL >> 32) & mask;
  for (; index_[at] != no_slot; at = (at + 1) & mask)
    if (staged_[index_[at]].page == page) return index_[at];
  const auto position = static_cast<std::uint32_t>(staged_.size());
  if (!whole) {
    const std::uint64_t begin = page * page_bytes;
    const status read = device_.read(begin, &pages_[position * page_bytes], page_end(page) - begin);
    if (!read) return read.error();
  }
  staged_.push_back({.page = page, .slot = position, .dirty = 0});
  index_[at] = position;
  return position;
}

status home_writer::put(std::uint64_t offset, const std::byte* data, std::size_t bytes) noexcept {
  if (!range_inside(offset, bytes, file_bytes_))
    return fail(errc::corrupt, "logged range at offset %llu, %zu bytes: the file has %llu",
                static_cast<unsigned long long>(offset), bytes, static_cast<unsigned long long>(file_bytes_));
  while (bytes != 0) {
    if (staged_.size() == pages_max_)
      if (const status written = write_sorted(); !written) return written;
    const std::uint64_t page = offset / page_bytes;
    const std::size_t from = offset % page_bytes;
    const std::size_t count = std::min<std::uint64_t>(bytes, page_end(page) - offset);
    const bool whole = from == 0 && offset + count == page_end(page);
    result<std::uint32_t> position = stage(page, whole);
    if (!position) return position.error();
    staged_page& staged = staged_[*position];
    std::memcpy(&pages_[staged.slot * page_bytes + from], data, count);
    for (std::size_t s = from / sector_bytes; s <= (from + count - 1) / sector_bytes; ++s) staged.dirty |= 1u << s;
    offset += count;
    data += count;
    bytes -= count;
  }
  return {};
}

status home_writer::finish(site s) noexcept { return write_sorted(s); }

// Dirty sectors in order of offset, neighbours in one write.
status home_writer::write_sorted(site place) noexcept {
  std::sort(staged_.begin(), staged_.end(), [](const staged_page& a, const staged_page& b) { return a.page < b.page; });
  std::uint64_t run_offset = 0;
  std::size_t run_bytes = 0;
  const auto write_run = [&]() noexcept -> status {
    if (run_bytes == 0) return {};
    bytes_written_ += run_bytes;
    return device_.write(run_offset, run_.get(), std::exchange(run_bytes, 0), place);
  };
  status outcome;
  for (const staged_page& staged : staged_) {
    for (std::size_t s = 0; s < sectors_per_page; ++s) {
      if ((staged.dirty >> s & 1) == 0) continue;
      const std::uint64_t offset = staged.page * page_bytes + s * sector_bytes;
      const std::size_t count = std::min<std::uint64_t>(sector_bytes, file_bytes_ - offset);
      if (run_bytes == run_bytes_max || run_offset + run_bytes != offset)
        if (outcome = write_run(); !outcome) break;
      if (run_bytes == 0) run_offset = offset;
      std::memcpy(&run_[run_bytes], &pages_[staged.slot * page_bytes + s * sector_bytes], count);
      run_bytes += count;
    }
    if (!outcome) break;
  }
  if (outcome) outcome = write_run();
  staged_.clear();
  std::fill(index_.begin(), index_.end(), no_slot);
  return outcome;
}

}  // namespace nvm
