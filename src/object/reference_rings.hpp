// The rings of activation records of an open pool: where they lie, and how far each has been filled and applied.
//
// Threads.  A ring is filled by the thread that holds its lane; heads are moved by the one thread that applies.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "object/reference_layout.hpp"
#include "pool/pool.hpp"
#include "tx/face.hpp"

namespace nvm::object {

// Where the rings lie, in an object at `payload` of a pool.
struct ring_shape {
  std::uint64_t at = 0;  // of the header
  std::uint32_t rings = 0;
  std::uint32_t words = 0;

  [[nodiscard]] static constexpr std::uint64_t header_at(std::uint64_t payload) noexcept {
    return round_up(payload, line_bytes);
  }
  // errc::corrupt: there are none in the `bytes` bytes of the payload.
  [[nodiscard]] static result<ring_shape> read(const std::byte* base, std::uint64_t payload,
                                               std::uint64_t bytes) noexcept {
    layout::reference_rings_header h;
    const std::uint64_t at = header_at(payload);
    const std::uint64_t skipped = at - payload;
    if (bytes < skipped + sizeof h) {
      return fail(errc::corrupt, "rings of activation records at offset %lu: found %lu bytes", payload, bytes);
    }
    std::memcpy(&h, base + at, sizeof h);
    const bool fits =
        h.magic == layout::reference_rings_magic && h.checksum == checksum_of(h) && h.rings != 0 &&
        h.rings <= layout::rings_max && h.ring_words >= layout::ring_words_min &&
        h.ring_words <= layout::ring_words_max && (h.ring_words & (h.ring_words - 1)) == 0 &&
        line_bytes + h.rings * (sizeof(layout::reference_ring) + std::uint64_t{h.ring_words} * 8) <= bytes - skipped;
    if (!fits) {
      return fail(errc::corrupt,
                  "rings of activation records at offset %lu: found %u rings of %u words, check %016lx, which do not "
                  "hold",
                  at, h.rings, h.ring_words, h.checksum);
    }
    return ring_shape{at, h.rings, h.ring_words};
  }
  [[nodiscard]] static std::uint64_t checksum_of(const layout::reference_rings_header& h) noexcept {
    return checksum(&h.rings, sizeof h.rings + sizeof h.ring_words, layout::reference_rings_magic);
  }
  // Makes empty rings, whose places begin at start(ring), in memory that no thread uses.
  template <class Start>
  static void make(std::byte* base, std::uint64_t payload, std::uint32_t rings, std::uint32_t words, Start&& start) {
    const ring_shape s{header_at(payload), rings, words};
    std::memset(base + s.at, 0, line_bytes + rings * sizeof(layout::reference_ring));
    auto* h = reinterpret_cast<layout::reference_rings_header*>(base + s.at);
    h->magic = layout::reference_rings_magic;
    h->rings = rings;
    h->ring_words = words;
    h->checksum = checksum_of(*h);
    for (std::uint32_t i = 0; i < rings; ++i) {
      s.put(base, s.head_at(i), start(i));
      s.put(base, s.end_at(i), start(i));
    }
  }

  [[nodiscard]] std::uint64_t unsettled_at() const noexcept {
    return at + offsetof(layout::reference_rings_header, unsettled);
  }
  [[nodiscard]] std::uint64_t ring_at(std::uint32_t i) const noexcept {
    return at + line_bytes + i * sizeof(layout::reference_ring);
  }
  [[nodiscard]] std::uint64_t head_at(std::uint32_t i) const noexcept { return ring_at(i); }
  [[nodiscard]] std::uint64_t end_at(std::uint32_t i) const noexcept {
    return ring_at(i) + offsetof(layout::reference_ring, end);
  }
  [[nodiscard]] std::uint64_t word_at(std::uint32_t i, std::uint32_t place) const noexcept {
    return ring_at(rings) + (std::uint64_t{i} * words + (place & (words - 1))) * 8;
  }
  // A checked word; 0 if it fails its check.
  [[nodiscard]] static std::uint64_t get(const std::byte* base, std::uint64_t offset, bool* holds = nullptr) noexcept {
    std::uint64_t w;
    std::memcpy(&w, base + offset, sizeof w);
    const bool good = word_holds(w, word_seed(offset));
    if (holds != nullptr) *holds = *holds && good;
    return good ? w & checked_mask : 0;
  }
  static void put(std::byte* base, std::uint64_t offset, std::uint64_t content) noexcept {
    const std::uint64_t w = seal_word(content, word_seed(offset));
    std::memcpy(base + offset, &w, sizeof w);
  }
};

// Checksum that proves a record: it is seeded with the place, so that a record of the ring's last turn proves nothing.
[[nodiscard]] inline std::uint32_t activation_check(std::span<const std::uint64_t> entries, std::uint64_t ring,
                                                    std::uint32_t place) noexcept {
  return static_cast<std::uint32_t>(
      checksum(entries.data(), entries.size_bytes(), layout::reference_rings_magic ^ (ring << 32 | place)));
}

// A record that was read.
struct read_record {
  std::vector<std::uint64_t> entries;
  std::uint64_t elsewhere = 0;  // payload of the object that has them; 0: none
  std::uint32_t next = 0;       // place after the record
};
// The record at `place` of a ring that ends at `end`.  long_record(payload) -> span of the words of such an object.
// False: it fails its check.  May throw std::bad_alloc.
template <class LongRecord>
[[nodiscard]] bool read_record_at(const std::byte* base, const ring_shape& s, std::uint32_t ring, std::uint32_t place,
                                  std::uint32_t end, LongRecord&& long_record, read_record& out) {
  const auto word = [&](std::uint32_t at) {
    std::uint64_t w;
    std::memcpy(&w, base + s.word_at(ring, at), sizeof w);
    return w;
  };
  const std::uint64_t head = word(place);
  const std::uint64_t n = layout::record_entries(head);
  const bool elsewhere = (head & layout::record_elsewhere) != 0;
  const std::uint64_t used = 1 + (elsewhere ? 1 : n);
  out.entries.clear();
  out.elsewhere = 0;
  if (n == 0 || used > end - place || used > s.words) return false;
  out.next = static_cast<std::uint32_t>(place + used);
  if (elsewhere) {
    const std::span<const std::uint64_t> words = long_record(word(place + 1));
    if (words.size() < n) return false;
    out.elsewhere = word(place + 1);
    out.entries.assign(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(n));
  } else {
    for (std::uint32_t i = 0; i < n; ++i) out.entries.push_back(word(place + 1 + i));
  }
  return static_cast<std::uint32_t>(head) == activation_check(out.entries, ring, place);
}

class reference_rings {
 public:
  // `ends(ring)`: where each ends now.  May throw std::bad_alloc.
  template <class Ends>
  reference_rings(const std::byte* base, const ring_shape& shape, Ends&& ends)
      : shape_{shape}, rings_{new ring[shape.rings]} {
    for (std::uint32_t i = 0; i < shape.rings; ++i) {
      const std::uint32_t end = ends(i);
      rings_[i].end.store(end, std::memory_order_relaxed);
      rings_[i].next = end;
      rings_[i].head.store(static_cast<std::uint32_t>(ring_shape::get(base, shape.head_at(i))),
                           std::memory_order_relaxed);
    }
  }
  [[nodiscard]] const ring_shape& shape() const noexcept { return shape_; }
  [[nodiscard]] std::uint32_t count() const noexcept { return shape_.rings; }

  // acquire: pairs with the release in ended(): the record is there.
  [[nodiscard]] std::uint32_t end(std::uint32_t i) const noexcept {
    return rings_[i].end.load(std::memory_order_acquire);
  }
  // acquire: pairs with the release in applied(): the words before are free.
  [[nodiscard]] std::uint32_t head(std::uint32_t i) const noexcept {
    return rings_[i].head.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::uint32_t used(std::uint32_t i) const noexcept { return end(i) - head(i); }
  [[nodiscard]] std::uint32_t room(std::uint32_t i) const noexcept { return shape_.words - used(i); }
  [[nodiscard]] bool any() const noexcept {
    for (std::uint32_t i = 0; i < count(); ++i) {
      if (used(i) != 0) return true;
    }
    return false;
  }

  // The words of a record of the lane's next commit.  `elsewhere`: payload of the object that has the entries, 0: they
  // go into the ring, which has room for them.  May throw std::bad_alloc.
  [[nodiscard]] std::span<const tx::assigned_word> put(std::uint32_t i, std::span<const std::uint64_t> entries,
                                                       std::uint64_t elsewhere) {
    ring& r = rings_[i];
    const std::uint32_t place = end(i);
    r.words.clear();
    r.next = place;
    const auto add = [&](std::uint64_t value) { r.words.push_back({shape_.word_at(i, r.next++), value}); };
    add(layout::pack_record(activation_check(entries, i, place), entries.size(), elsewhere != 0));
    if (elsewhere != 0) {
      add(elsewhere);
    } else {
      for (const std::uint64_t e : entries) add(e);
    }
    return r.words;
  }
  [[nodiscard]] std::uint32_t next(std::uint32_t i) const noexcept { return rings_[i].next; }
  void ended(std::uint32_t i, bool committed) noexcept {
    ring& r = rings_[i];
    if (committed) {
      r.end.store(r.next, std::memory_order_release);
    } else {
      r.next = r.end.load(std::memory_order_relaxed);
    }
  }
  void applied(std::uint32_t i, std::uint32_t head) noexcept { rings_[i].head.store(head, std::memory_order_release); }

 private:
  struct alignas(line_bytes) ring {
    std::atomic<std::uint32_t> head{0}, end{0};
    std::uint32_t next = 0;  // end, or the end after the commit that is under way
    std::vector<tx::assigned_word> words;
  };
  ring_shape shape_;
  std::unique_ptr<ring[]> rings_;
};

}  // namespace nvm::object
