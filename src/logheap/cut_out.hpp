// Cuts what does not hold out of the log of a heap that has just been opened, on an image that nobody else has: what
// recovery has left out is gone then, and a heap that is opened on the image has no damage.
//
// The blocks of a chunk that hold are put together from its start; their checks are made anew, since they depend on the
// place, and they say of themselves that they were committed before (layout::block_moved), since their neighbours in a
// transaction may be gone or elsewhere now.  There is no order that a crash would have to find: the image is written to
// a file later, whole or not at all.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "base/checksum.hpp"
#include "logheap/heap.hpp"

namespace nvm::logheap {

// `heap`: opened with recovery (settings.use_saved is false), which has reported `found`, at rest, and not to be used
// for anything else any more: a new one has to be opened.  Returns in how many chunks something was cut out.
template <class Heap>
[[nodiscard]] std::uint64_t cut_out_damage(Heap& heap, const recovery_report& found, std::byte* base) {
  auto& chunks = heap.chunks();
  const std::uint64_t bytes = chunks.chunk_bytes();
  std::uint64_t changed = 0;
  // Also blocks that hold, but reach behind a chunk's end or have entries that no heap has written.
  std::vector<std::uint64_t> refused;
  refused.reserve(found.damaged.size());
  for (const damaged_block& d : found.damaged) refused.push_back(d.offset);
  std::sort(refused.begin(), refused.end());
  std::vector<std::byte> whole;  // blocks that count, one behind the other
  for (std::uint32_t i = 0; i < chunks.count(); ++i) {
    chunk& c = chunks.at(i);
    if (c.state.load(std::memory_order_relaxed) == chunk_state::free) continue;
    const std::uint64_t used = c.used.load(std::memory_order_relaxed);
    bool damaged = false;
    whole.clear();
    for (std::uint64_t at = sizeof(layout::chunk_header); at < used;) {
      layout::block_header h;
      const block_place place = chunks.place(c, at);
      const block_fault fault = inspect_block(base, place, bytes, h);
      if (fault != block_fault::none || std::binary_search(refused.begin(), refused.end(), place.offset())) {
        damaged = true;
        at += step_over(fault, h);  // as recovery does
        continue;
      }
      const std::byte* block = base + place.offset();
      whole.insert(whole.end(), block, block + h.bytes);
      whole.resize(round_up(whole.size(), layout::block_align));
      at += step_over(fault, h);
    }
    if (!damaged) continue;
    ++changed;
    for (std::uint64_t at = 0; at < whole.size();) {
      layout::block_header h;
      std::memcpy(&h, &whole[at], sizeof h);
      const block_place place = chunks.place(c, sizeof(layout::chunk_header) + at);
      h.flags |= layout::block_moved;
      h.header_check = header_check_of(h, place);
      h.content_check = content_check_of(&whole[at], h.bytes, place);
      std::memcpy(&whole[at], &h, sizeof h);
      at += round_up(h.bytes, layout::block_align);
    }
    std::byte* const from = base + c.offset + sizeof(layout::chunk_header);
    std::memset(from, 0, bytes - sizeof(layout::chunk_header));
    if (!whole.empty()) std::memcpy(from, whole.data(), whole.size());
    chunks.mark_end(c, static_cast<std::uint32_t>(sizeof(layout::chunk_header) + whole.size()));
  }
  return changed;
}

// An object as a thread reads it.
struct object_contents {
  home_t home = 0;
  std::uint64_t size = 0;
  std::uint64_t sum = 0;

  bool operator==(const object_contents&) const = default;
};

// Of every object, by address.  May throw std::bad_alloc.
template <class Heap>
[[nodiscard]] std::vector<object_contents> contents_of(Heap& heap, typename Heap::thread& thread) {
  std::vector<object_contents> all;
  heap.for_each_object([&](home_t home, std::uint64_t size) { all.push_back({home, size, 0}); });
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.home < b.home; });
  // By windows: zeros that were stored are as those that never were, and of a large object most may be missing.
  constexpr std::uint64_t window_bytes = std::uint64_t{64} << 10;
  std::vector<std::byte> window(window_bytes);
  for (object_contents& o : all) {
    std::uint64_t number = 0;
    const auto end_window = [&] {
      const std::uint64_t bytes = std::min(window_bytes, o.size - number * window_bytes);
      const auto end = window.begin() + static_cast<std::ptrdiff_t>(bytes);
      if (std::all_of(window.begin(), end, [](std::byte b) { return b == std::byte{0}; })) return;
      o.sum = checksum(window.data(), bytes, o.sum ^ number);
      std::fill(window.begin(), end, std::byte{0});
    };
    heap.each_stored(thread, o.home, o.size, [&](home_t at, const std::byte* bytes, std::uint64_t n) noexcept {
      while (n != 0) {
        const std::uint64_t inside = at - o.home;
        if (inside / window_bytes != number) {
          end_window();
          number = inside / window_bytes;
        }
        const std::uint64_t part = std::min(n, window_bytes - inside % window_bytes);
        std::memcpy(window.data() + inside % window_bytes, bytes, part);
        at += part;
        bytes += part;
        n -= part;
      }
    });
    end_window();
  }
  return all;
}

// Address of the first object that is in one of them and not alike in the other.
[[nodiscard]] inline std::optional<home_t> first_difference(const std::vector<object_contents>& a,
                                                            const std::vector<object_contents>& b) {
  const auto [x, y] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (x == a.end() && y == b.end()) return {};
  if (x == a.end()) return y->home;
  return y == b.end() ? x->home : std::min(x->home, y->home);
}

}  // namespace nvm::logheap
