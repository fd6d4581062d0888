// Writes the log of a heap anew, on an image that no other process has: lost parts of a damaged log are gone then, kept
// parts prove themselves again, and a heap that is opened on the image has no damage.
//
//   objects_of() a heap that was opened, from its log or from a saved mapping; forget_log(); another heap is
//   opened, which is empty; restore() to that; a third one is opened, and has the objects.
//
// Blocks stand alone and say of themselves that they were committed before (layout::block_moved).  There is no order
// that a crash would have to find: the image is written to a file later, whole or not at all.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "base/checksum.hpp"
#include "logheap/heap.hpp"

namespace nvm::logheap {

// Every object with copies of its stored bytes, by address.  choose(home, room, said) -> the bytes that were asked for,
// at most `room`: its entry says `said`, which may be anything where the entry is damaged.  May throw std::bad_alloc.
template <class Heap, class Choose>
[[nodiscard]] std::vector<kept_object> objects_of(Heap& heap, typename Heap::thread& thread, Choose&& choose) {
  std::vector<kept_object> all;
  heap.for_each_room([&](home_t home, std::uint64_t room, std::uint64_t said) {
    all.push_back({home, choose(home, room, said), {}});
  });
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.home < b.home; });
  bool out_of_memory = false;
  for (kept_object& o : all) {
    heap.each_stored(thread, o.home, o.size, [&](home_t at, const std::byte* bytes, std::uint64_t n) noexcept {
      try {
        const bool goes_on = !o.pieces.empty() && o.pieces.back().home + o.pieces.back().bytes.size() == at;
        if (!goes_on) o.pieces.push_back({at, {}});
        o.pieces.back().bytes.insert(o.pieces.back().bytes.end(), bytes, bytes + n);
      } catch (const std::bad_alloc&) {
        out_of_memory = true;
      }
    });
  }
  if (out_of_memory) throw std::bad_alloc{};
  return all;
}

// The next heap that is opened on the image finds an empty log.  `heap` must not be used after that.
template <class Heap>
void forget_log(Heap& heap) noexcept {
  auto& chunks = heap.chunks();
  for (std::uint32_t i = 0; i < chunks.count(); ++i) chunks.retire(chunks.at(i));
  chunks.set_saved(0);
}

// An object as a thread reads it.
struct object_contents {
  home_t home = 0;
  std::uint64_t size = 0;
  std::uint64_t sum = 0;

  bool operator==(const object_contents&) const = default;
};

// Contents of every object, by address.  May throw std::bad_alloc.
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

// Address of the first object that is in one list and not the same in the other.
[[nodiscard]] inline std::optional<home_t> first_difference(const std::vector<object_contents>& a,
                                                            const std::vector<object_contents>& b) {
  const auto [x, y] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (x == a.end() && y == b.end()) return {};
  if (x == a.end()) return y->home;
  return y == b.end() ? x->home : std::min(x->home, y->home);
}

template <media M, mapping Map>
status heap<M, Map>::restore(thread& t, std::span<const kept_object> objects) noexcept {
  constexpr std::size_t parts_at_once = 4096;
  const std::uint64_t version = std::min(clock_.load(std::memory_order_relaxed) + 1, layout::version_max);
  const auto write = [&] {
    t.log_.prepare();
    t.log_.seal_full();
    t.log_.write(version, layout::block_moved, false, [](std::byte*, home_t, std::uint64_t) noexcept {});
    t.log_.flush_written();
    t.log_.start();
  };
  try {
    t.log_.start();
    for (const kept_object& o : objects) {
      const bool whole = o.pieces.size() == 1 && o.pieces[0].home == o.home && o.pieces[0].bytes.size() == o.size;
      part p{{whole ? layout::entry_kind::allocation : layout::entry_kind::bare, o.home, o.size, 0, 0}, nullptr};
      if (whole) p.from = o.pieces[0].bytes.data();
      if (status s = t.log_.add(p, purpose::clean, version); !s) return s;
      for (std::size_t i = 0; !whole && i < o.pieces.size(); ++i) {
        const kept_piece& k = o.pieces[i];
        const part stored{{layout::entry_kind::update, k.home, k.bytes.size(), 0, 0}, k.bytes.data()};
        if (status s = t.log_.add(stored, purpose::clean, version); !s) return s;
      }
      if (t.log_.parts().size() >= parts_at_once) write();
    }
    write();
    t.log_.seal_all();
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory to write the log anew");
  }
  return {};
}

}  // namespace nvm::logheap
