#include "tier/image_pages.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstring>

namespace nvm::tier {

void image_pages::meet(image_media* medium) noexcept {
  const std::lock_guard guard{meeting_};
  medium_ = medium;
}

bool image_pages::is_zeros(page_t page) const noexcept {
  const std::uint64_t end = place_of(page) + page_bytes;
  if (end <= file_bytes_.load(std::memory_order_relaxed)) return false;
  const auto bytes = file_.size();
  if (!bytes) return false;  // a read will say why
  file_bytes_.store(*bytes, std::memory_order_relaxed);
  return end > *bytes;
}

result<unsigned> image_pages::read_ahead(page_t first, unsigned count, std::byte* to) noexcept {
  // Pages after the end of a file that has become shorter: nobody needs them.
  const auto bytes = file_.size();
  if (!bytes)
    return fail(bytes.error(), "the page at offset %" PRIu64 " cannot be read: %s", place_of(first), last_message());
  unsigned n = 1;
  while (n < count && place_of(first + n) + page_bytes <= *bytes) ++n;
  status s = file_.read(place_of(first), to, n * page_bytes);
  // The file may have been cut off after the first page since.
  if (!s && n > 1) s = file_.read(place_of(first), to, (n = 1) * page_bytes);
  if (!s) {
    return fail(s.error(), "the page at offset %" PRIu64 " cannot be read: %s", place_of(first), last_message());
  }
  read_.fetch_add(n * page_bytes, std::memory_order_relaxed);
  return n;
}

// Compares a run of neighbours: pages whose bytes are in the file may leave.
status image_pages::compare(std::span<leaving_page> run) noexcept {
  auto* const there = static_cast<std::byte*>(bytes_there_.data());
  if (status s = file_.read(place_of(run.front().page), there, run.size() * page_bytes); !s) return s;
  read_.fetch_add(run.size() * page_bytes, std::memory_order_relaxed);
  for (std::size_t i = 0; i < run.size(); ++i) {
    const bool same = std::memcmp(there + i * page_bytes, run[i].bytes, page_bytes) == 0;
    if (same || planted(plant::image_page_unlogged)) run[i].became = leaving_page::outcome::there;
  }
  return {};
}

result<std::uint64_t> image_pages::write_out(std::span<leaving_page> pages, std::mutex&) noexcept {
  const std::lock_guard guard{meeting_};
  bool waits = false;
  for (leaving_page& p : pages) {
    p.became = leaving_page::outcome::stays;
    if (medium_ == nullptr || is_zeros(p.page)) continue;
    // Asked once, before the file is read: bytes that are home stay home while no thread stores to the page.
    const bool home = medium_->is_home(place_of(p.page), page_bytes);
    if (home || planted(plant::image_page_not_home)) p.became = leaving_page::outcome::there;
    waits = waits || !home;
  }
  waits_.store(waits, std::memory_order_relaxed);
  if (waits) medium_->bring_home_soon();
  for (std::size_t i = 0; i < pages.size();) {
    std::size_t n = 1;
    if (pages[i].became == leaving_page::outcome::there) {
      while (i + n < pages.size() && pages[i + n].page == pages[i].page + n &&
             pages[i + n].became == leaving_page::outcome::there) {
        ++n;
      }
      const std::span<leaving_page> run = pages.subspan(i, n);
      for (leaving_page& p : run) p.became = leaving_page::outcome::stays;
      if (status s = compare(run); !s) return s.error();
    }
    i += n;
  }
  return std::uint64_t{0};
}

slow_pages::figures image_pages::now() const noexcept {
  figures f;
  if (const auto bytes = file_.size()) f.bytes = *bytes;
  f.bytes_read = read_.load(std::memory_order_relaxed);
  return f;
}

}  // namespace nvm::tier
