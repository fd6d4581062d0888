// Blocks of a pool's file: growth, pages that are given back to the file system and get blocks again, the end of the
// file where the pool has become shorter.
#include <errno.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "pool/pool_file.hpp"

namespace nvm {
namespace {

errc named(const char* path, errc code) noexcept { return fail(code, "pool %s: %s", path, last_message()); }

status write_zeros(platform::file& file, std::uint64_t from, std::uint64_t to) noexcept {
  static constexpr std::array<std::byte, 64 * 1024> zeros{};
  while (from < to) {
    const std::uint64_t n = std::min<std::uint64_t>(to - from, zeros.size());
    if (auto s = file.write(from, zeros.data(), n); !s) return s;
    from += n;
  }
  return {};
}

// Space of its own for [from, to) of the file, which holds nothing yet.
status allocate_new(platform::file& file, std::uint64_t from, std::uint64_t to) noexcept {
  if (from >= to) return {};
  auto s = file.allocate(from, to - from);
  if (!s && errno == EOPNOTSUPP) return write_zeros(file, from, to);
  return s;
}

// The same for what holds something, where the file system can do that.
status allocate_again(platform::file& file, std::uint64_t from, std::uint64_t to) noexcept {
  auto s = file.allocate(from, to - from);
  return !s && errno == EOPNOTSUPP ? status{} : s;
}

}  // namespace

// A file that is too short only because the pool was cut in between is none that was cut off.
status pool_file::may_be_written() noexcept {
  if (status s = intact(); !s || !file_) return s;
  for (;;) {
    // First, acquire: a cut changes the size, then this, then the file.
    const std::uint64_t cuts = cuts_.load(std::memory_order_acquire);
    // Before the file's: another thread may make the file longer, and then the pool.
    const std::uint64_t expected = shape_.page_offset(size_pages());
    const auto bytes = file_.size();
    if (!bytes) return named(path(), bytes.error());
    if (*bytes >= expected) return {};
    if (cuts_.load(std::memory_order_acquire) != cuts) continue;
    return fail(errc::io, "pool %s has failed: the file was cut off to %" PRIu64 " bytes", path(), *bytes);
  }
}

// Space for what data pages [from, to) need: their map entries and themselves; from 0 the header and the log too.
status pool_file::allocate_blocks(std::uint64_t from, std::uint64_t to) noexcept {
  const nvm::geometry& g = shape_;
  const std::uint64_t map_from = from == 0 ? 0 : g.page_map_end(from);
  const std::uint64_t data_from = from == 0 ? g.log_offset : g.page_offset(from);
  if (auto s = allocate_new(file_, map_from, g.page_map_end(to)); !s) return s;
  if (!sparse_) return allocate_new(file_, data_from, g.page_offset(to));
  if (auto s = allocate_new(file_, data_from, g.page_offset(from)); !s) return s;
  return file_.truncate(g.page_offset(to));
}

// A copy may have lost blocks to holes; a store into one on a full device would be SIGBUS.  Where free pages may be
// holes (feature_holes) they stay so, if it is known which are free.
status pool_file::make_sure_of_blocks(entry_pages_function entry_pages) noexcept {
  const auto facts = file_.facts();
  if (!facts) return facts.error();
  const std::uint64_t pages = superblock_.size_pages;
  const std::uint64_t map_end = shape_.page_map_end(pages);
  const bool holes = has_holes() && entry_pages != nullptr;
  if (!sparse_ && !holes && facts->allocated_bytes >= map_end + shape_.size_bytes() - shape_.log_offset) return {};
  if (auto s = allocate_again(file_, 0, map_end); !s) return s;
  const std::uint64_t end = shape_.page_offset(sparse_ || holes ? 0 : pages);
  if (auto s = allocate_again(file_, shape_.log_offset, end); !s) return s;
  return holes && !sparse_ ? make_sure_of_used(entry_pages) : status{};
}

// What the page map says to be in use, damaged entries as one page.
status pool_file::make_sure_of_used(entry_pages_function entry_pages) noexcept {
  const std::uint64_t pages = superblock_.size_pages;
  std::uint64_t first = 0;  // of the pages in use that lie side by side
  std::uint64_t end = 0;
  for (std::uint64_t page = 0; page <= pages;) {
    std::uint64_t has = 0;
    if (page < pages) {
      std::uint64_t word = 0;
      std::memcpy(&word, base() + shape_.entry_offset(page), sizeof word);
      const bool holds = word_holds(word, word_seed(shape_.entry_offset(page)));
      if (word != 0) has = holds ? std::clamp<std::uint64_t>(entry_pages(word & checked_mask), 1, pages - page) : 1;
    }
    if (has != 0 && page == end) {
      end += has;
      page = end;
      continue;
    }
    if (first != end) {
      if (auto s = make_sure_of(shape_.page_offset(first), shape_.page_offset(end)); !s) return s;
    }
    first = page;
    end = page + has;
    page += std::max<std::uint64_t>(has, 1);
  }
  return {};
}

status pool_file::make_sure_of(std::uint64_t from, std::uint64_t to) noexcept {
  const auto hole = file_.next_hole(from);
  return hole && *hole >= to ? status{} : allocate_again(file_, from, to);
}

result<std::uint64_t> pool_file::extend(std::uint64_t pages_min) noexcept {
  if (read_only_) return fail(errc::read_only, "pool %s is open read-only: it cannot grow", path());
  const std::uint64_t now = superblock_.size_pages;
  const std::uint64_t capacity = superblock_.capacity_pages;
  if (pages_min > capacity) {
    return fail(errc::no_space, "pool %s is full: %" PRIu64 " pages needed, its capacity is %" PRIu64, path(),
                pages_min, capacity);
  }
  if (!file_) return pages_min;
  // If something has moved the file's end, allocating blocks there would put zeros over data.
  const auto bytes = file_.size();
  if (!bytes) return named(path(), bytes.error());
  if (*bytes < shape_.page_offset(now)) {
    return fail(errc::corrupt, "pool %s: found a file of %" PRIu64 " bytes, expected %" PRIu64 ": it was cut off",
                path(), *bytes, shape_.page_offset(now));
  }
  const std::uint64_t needed = round_up(pages_min, layout::pages_per_chunk);
  const std::uint64_t doubled = std::max(needed, std::min(2 * now, capacity));
  for (const std::uint64_t pages : {doubled, needed}) {
    auto s = allocate_blocks(now, pages);
    if (s && medium_ != NVM_MEDIUM_SHM) {
      s = file_.sync_data();
      if (!s) {
        std::snprintf(failure_, sizeof failure_, "%s", last_message());
        // release: pairs with the acquire in accepts_commits().
        failed_.store(true, std::memory_order_release);
      }
    }
    if (s) return pages;
    {
      const int number = errno;
      const errc code = s.error();
      char cause[256];
      std::snprintf(cause, sizeof cause, "%s", last_message());
      // Blocks that were allocated before the device was full go back unused.
      [[maybe_unused]] const status shrunk = file_.truncate(shape_.page_offset(now));
      errno = number;
      if (code != errc::no_space || pages == needed) {
        return fail(code, "pool %s cannot grow from %" PRIu64 " to %" PRIu64 " pages: %s", path(), now, pages, cause);
      }
    }
  }
  __builtin_unreachable();
}

// ---- pages that are given back ------------------------------------------------------------------------------------

status pool_file::fill(std::uint64_t page, std::uint64_t count) noexcept {
  // Of a pool with a tier each page gets its blocks when it is touched, and the tier is told.
  if (!file_ || sparse_) return {};
  auto s = allocate_again(file_, shape_.page_offset(page), shape_.page_offset(page + count));
  return s ? s : status{named(path(), s.error())};
}

status pool_file::punch(std::uint64_t page, std::uint64_t count) noexcept {
  // Asked after the stores that have freed the pages: those of a lost pool have not reached the file.
  if (auto s = usable(); !s) return s;
  const std::uint64_t from = shape_.page_offset(page);
  const std::uint64_t bytes = count << shape_.page_shift;
  if (!file_) {
    if (hooks_.punched != nullptr) hooks_.punched(hooks_.context, from, bytes);
    return {};
  }
  const std::lock_guard go{blocks_going_};
  if (auto s = file_.punch(from, bytes); !s) return named(path(), s.error());
  return drop_image(from, bytes);
}

// With growing_ held.
status pool_file::end_file() noexcept {
  // The shorter superblock is in the file, and not in the private memory of a pool that lost a page.
  if (auto s = intact(); !s) return s;
  const std::uint64_t bytes = shape_.page_offset(size_pages());
  if (!file_) {
    if (hooks_.cut != nullptr) hooks_.cut(hooks_.context, bytes);
    return {};
  }
  const auto has = file_.size();
  if (!has) return named(path(), has.error());
  if (*has <= bytes) return {};
  const std::lock_guard go{blocks_going_};
  if (auto s = file_.truncate(bytes); !s) return named(path(), s.error());
  // The system has dropped private pages after the end.
  return guest_.discard != nullptr ? drop_image(bytes, *has - bytes) : status{};
}

// Drops these pages from the image, if there is one: they show the file afterwards.
status pool_file::drop_image(std::uint64_t from, std::uint64_t bytes) noexcept {
  if (!has_image(superblock_)) return {};
  if (guest_.discard == nullptr) return platform::drop_private_pages(base() + from, bytes);
  guest_.discard(guest_.context, base() + from, bytes);
  return {};
}

}  // namespace nvm
