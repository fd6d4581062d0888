// Allocation of objects with an alignment of more than 16 bytes, and the way from their payload to the payload by which
// engines know them (space/aligned_layout.hpp).
//
// All writes here are inside an object that an open transaction has allocated: they are durable when it commits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "isolation/isolation.hpp"
#include "space/aligned_layout.hpp"
#include "tx/open_transaction.hpp"

namespace nvm::tx {

// Offset of the payload, a multiple of `alignment`. After a failure the transaction can only be rolled back.  admit()
// -> status: the pool's superblock says that there may be such objects.
template <class Admit>
[[nodiscard]] result<std::uint64_t> allocate_aligned(open_transaction& t, std::byte* base, std::uint32_t type,
                                                     std::uint64_t bytes, std::uint64_t alignment,
                                                     Admit&& admit) noexcept {
  if (!std::has_single_bit(alignment) || alignment > layout::alignment_max) {
    const errc code = fail(errc::invalid, "an alignment of %lu bytes: expected a power of 2, at most %lu", alignment,
                           layout::alignment_max);
    t.doom(code);
    return code;
  }
  // allocate() refuses sizes of 0 and too large ones.
  const bool natural = alignment <= layout::natural_alignment || bytes == 0 || bytes > layout::object_bytes_max;
  if (natural) return t.allocate(type, bytes);
  if (status s = admit(); !s) {
    t.doom(s.error());
    return s.error();
  }
  auto plain = t.allocate(type, bytes + layout::alignment{alignment}.padding());
  if (!plain) return plain;
  const std::uint64_t at = *plain - sizeof(layout::object_header);
  const layout::alignment a = layout::align_at(at, alignment);
  // Word by word, as a barrier transaction may be reading here that will find out that it was too late.
  auto* header = reinterpret_cast<std::uint64_t*>(base + at);
  isolation::store_shared(header, *header | layout::alignment_bits(a));
  const layout::signpost post = layout::signpost_at(at + a.signpost(), a);
  auto* words = reinterpret_cast<std::uint64_t*>(base + at + a.signpost());
  isolation::store_shared(words, post.word);
  isolation::store_shared(words + 1, post.number);
  return at + a.gap;
}

// The payload by which engines know the aligned object at `payload`, from its signpost; 0: there is no such object.
// `first`: objects of the pool begin here.  can_read(place) tells whether the page of a place may be accessed: those of
// object stores may not be, and have no aligned objects.
template <class CanRead>
[[nodiscard]] inline std::uint64_t engines_payload(const std::byte* base, std::uint64_t first, std::uint64_t payload,
                                                   CanRead&& can_read) noexcept {
  constexpr std::uint64_t header_bytes = sizeof(layout::object_header);
  if (payload % (2 * layout::natural_alignment) != 0 || payload < first + 2 * header_bytes) return 0;
  if (!can_read(payload - header_bytes)) return 0;
  const auto word_at = [&](std::uint64_t at) {
    return isolation::load_shared(reinterpret_cast<const std::uint64_t*>(base + at));
  };
  const std::uint64_t gap = layout::gap_of(word_at(payload - header_bytes), payload - header_bytes);
  if (gap == 0 || gap > payload - first) return 0;
  const std::uint64_t at = payload - gap;
  if (!can_read(at)) return 0;
  const std::uint64_t second = word_at(at + 8);
  const layout::object_header h{word_at(at), static_cast<std::uint32_t>(second),
                                static_cast<std::uint32_t>(second >> 32)};
  const auto a = layout::alignment_of(h, at);
  return layout::object_header_holds(h, at) && a && a->gap == gap ? at + header_bytes : 0;
}

}  // namespace nvm::tx
