// Records of a lane: sealing them, and reading a lane that a crash or a stranger left.
//
// A record proves itself: its checksum is seeded with pool, lane, its own place and its generation, so that a torn
// record, one of an older generation, or one copied from elsewhere ends the log.  Readers trust no field: every length
// is checked before it is used, and a walk visits at most as many bytes as the pool has.
#pragma once

#include <cstddef>
#include <cstdint>

#include "log/lane_layout.hpp"

namespace nvm::log {

constexpr std::uint64_t record_seed(std::uint64_t key, std::uint64_t offset, std::uint64_t generation) noexcept {
  return mix_seed(mix_seed(key, offset), generation);
}

// Key of the records in a lane's body and overflow segments: a segment may show records of the lane that had it before,
// and lanes count their generations alike.
constexpr std::uint64_t body_key(std::uint64_t key, unsigned lane) noexcept { return mix_seed(key, lane); }

// Checksum of the record of `bytes` bytes at `record`, without its leading checksum field, whose place is `offset`.
inline std::uint64_t seal_for(const void* record, std::uint64_t offset, std::uint64_t bytes, std::uint64_t generation,
                              std::uint64_t key) noexcept {
  return checksum(static_cast<const std::byte*>(record) + 8, bytes - 8, record_seed(key, offset, generation));
}
inline std::uint64_t seal(const std::byte* base, std::uint64_t offset, std::uint64_t bytes, std::uint64_t generation,
                          std::uint64_t key) noexcept {
  return seal_for(base + offset, offset, bytes, generation, key);
}

// The same of a large_undo record whose old bytes are, or will be, a copy of `data`; `head` is its header and word.
inline std::uint64_t seal_large(const void* head, std::uint64_t offset, const std::byte* data, std::uint64_t bytes,
                                std::uint64_t generation, std::uint64_t key) noexcept {
  return checksum(data, bytes, seal_for(head, offset, sizeof(layout::record_header) + 8, generation, key));
}

// The record of `generation` that starts at `offset` and ends by `end`; nullptr if there is none.
inline const layout::record_header* record_at(const std::byte* base, std::uint64_t offset, std::uint64_t end,
                                              std::uint64_t generation, std::uint64_t key) noexcept {
  if (!range_inside(offset, sizeof(layout::record_header), end)) return nullptr;
  const auto* r = reinterpret_cast<const layout::record_header*>(base + offset);
  if (r->generation != generation || r->bytes % 8 != 0 || r->bytes < sizeof *r || r->bytes > end - offset) {
    return nullptr;
  }
  if (r->kind == static_cast<std::uint16_t>(layout::record_kind::large_undo)) {
    const std::uint64_t data = layout::large_undo_data_at(offset);
    if (r->bytes < sizeof *r + 8 || r->count != 1) return nullptr;
    const std::uint64_t bytes = layout::range_bytes(reinterpret_cast<const std::uint64_t*>(r + 1)[0]);
    if (bytes == 0 || data - offset + round_up(bytes, 8) != r->bytes) return nullptr;
    return r->checksum == seal_large(r, offset, base + data, bytes, generation, key) ? r : nullptr;
  }
  return r->checksum == seal(base, offset, r->bytes, generation, key) ? r : nullptr;
}

[[nodiscard]] inline bool is_undo(const layout::record_header* r) noexcept {
  return r->kind == static_cast<std::uint16_t>(layout::record_kind::undo) ||
         r->kind == static_cast<std::uint16_t>(layout::record_kind::large_undo);
}

inline const std::uint64_t* payload(const layout::record_header* r) noexcept {
  return reinterpret_cast<const std::uint64_t*>(r + 1);
}

// Calls visit(target offset, bytes, old bytes) for each range of an undo record; false if the record's parts do not add
// up (then some visits may have been made already: validate with one pass before acting in another).
template <class Visit>
bool each_range(const std::byte* base, const layout::record_header* r, Visit&& visit) {
  if (r->kind == static_cast<std::uint16_t>(layout::record_kind::large_undo)) {
    // record_at() has checked that the parts add up.
    const auto offset = static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(r) - base);
    const std::uint64_t word = payload(r)[0];
    return visit(layout::range_offset(word), layout::range_bytes(word), base + layout::large_undo_data_at(offset));
  }
  const std::uint64_t room = r->bytes - sizeof *r;
  if (r->count == 0) return false;
  const auto* const begin = reinterpret_cast<const std::byte*>(payload(r));
  std::uint64_t at = 0;
  for (unsigned i = 0; i < r->count; ++i) {
    if (room - at < 8) return false;
    const std::uint64_t word = *reinterpret_cast<const std::uint64_t*>(begin + at);
    at += 8;
    const std::uint64_t bytes = layout::range_bytes(word);
    const std::uint64_t padded = round_up(bytes, 8);
    if (bytes == 0 || padded > room - at) return false;
    if (!visit(layout::range_offset(word), bytes, begin + at)) return false;
    at += padded;
  }
  return at == room;
}

// Walks the records of `generation` from `begin`.  visit(record, offset) may stop the walk by a code; segment(offset,
// bytes) says whether an overflow segment is one.  Returns the offset of the last record, 0 if there is none.
template <class Visit, class Segment>
result<std::uint64_t> walk(const std::byte* base, std::uint64_t begin, std::uint64_t end, std::uint64_t generation,
                           std::uint64_t key, std::uint64_t pool_bytes, Segment&& segment, Visit&& visit) {
  std::uint64_t last = 0;
  std::uint64_t walked = 0;
  for (std::uint64_t at = begin;;) {
    const layout::record_header* r = record_at(base, at, end, generation, key);
    if (r == nullptr) return last;
    if (r->previous != last) {
      return fail(errc::corrupt, "log record at offset %lu: previous: found %lu, expected %lu", at, r->previous, last);
    }
    // Overlapping segments could lead to the same bytes again and again.
    walked += r->bytes;
    if (walked > pool_bytes) {
      return fail(errc::corrupt, "log record at offset %lu: the records up to it have %lu bytes, the pool %lu", at,
                  walked, pool_bytes);
    }
    if (status s = visit(r, at); !s) return s.error();
    last = at;
    if (r->kind != static_cast<std::uint16_t>(layout::record_kind::link)) {
      at += layout::record_room(r->bytes);
      continue;
    }
    if (r->bytes != layout::link_record_bytes || !segment(payload(r)[0], payload(r)[1])) {
      return fail(errc::corrupt, "log record at offset %lu: links to segment at %lu of %lu bytes, which is none", at,
                  payload(r)[0], payload(r)[1]);
    }
    end = payload(r)[0] + payload(r)[1];
    at = payload(r)[0];
  }
}

// Whether the lane at `lane_offset` may have this retired generation.
inline bool retired_holds(std::uint64_t word, std::uint64_t lane_offset) noexcept {
  return word_holds(word, word_seed(lane_offset)) && (word & checked_mask) <= layout::generation_max;
}

// The commit record in slot `slot` of a lane if it is valid there, else nullptr.
inline const layout::commit_record* commit_at(const std::byte* base, std::uint64_t lane_offset, unsigned slot,
                                              std::uint64_t key) noexcept {
  const std::uint64_t at = lane_offset + layout::commit_slot_at(slot);
  const auto* c = reinterpret_cast<const layout::commit_record*>(base + at);
  if (c->generation == 0 || c->generation % layout::commit_slots != slot) return nullptr;
  if (c->generation > layout::generation_max) return nullptr;
  if (c->intent_words > layout::inline_intent_words && c->intent_words != layout::intents_elsewhere) return nullptr;
  return c->checksum == seal(base, at, sizeof *c, c->generation, key) ? c : nullptr;
}

}  // namespace nvm::log
