// Records of the redo engine: proving them, and reading a ring that a crash or a stranger left.
//
// A record proves itself by a checksum over all of it, or by a commit mark that was made durable after it (HEAPO,
// section II-B: both exist and are compared).  Both are bound to pool, lane, place and version, so that a torn record,
// one of the ring's last lap, or one copied from elsewhere does not count.
#pragma once

#include <cstddef>
#include <cstdint>

#include "log/intent.hpp"
#include "log/lane_layout.hpp"
#include "log/record.hpp"
#include "log/redo_layout.hpp"

namespace nvm::log {

// How a record proves itself: an option of the pool.  by_record: no option; each record says so by its kind.
enum class validation : std::uint32_t { checksum = 0, commit_mark = 1, by_record = 2 };

[[nodiscard]] constexpr validation proof_of(validation of_log, layout::redo_kind kind) noexcept {
  if (of_log != validation::by_record) return of_log;
  return kind == layout::redo_kind::marked_changes ? validation::commit_mark : validation::checksum;
}

// `offset`: the record's place in the pool.
[[nodiscard]] inline std::uint64_t redo_proof(const layout::redo_record* r, std::uint64_t offset, std::uint64_t key,
                                              unsigned lane, validation how) noexcept {
  const std::uint64_t seed = record_seed(body_key(key, lane), offset, r->version);
  if (proof_of(how, layout::kind_of(*r)) == validation::commit_mark) return mix_seed(seed, r->bytes);
  return checksum(reinterpret_cast<const std::byte*>(r) + 8, r->bytes - 8, seed);
}
[[nodiscard]] inline std::uint64_t place_checksum(const void* contents, std::uint64_t bytes,
                                                  std::uint64_t version) noexcept {
  return checksum(contents, bytes, version);
}

// The record at `offset`, which ends by `end`; nullptr if there is none.  A record that is only a header is a wrap
// record: it proves itself as soon as it is stored, since a mark does not cover its last word, which may be missing.
[[nodiscard]] inline const layout::redo_record* redo_record_at(const std::byte* base, std::uint64_t offset,
                                                               std::uint64_t end, std::uint64_t key, unsigned lane,
                                                               validation how) noexcept {
  if (!range_inside(offset, sizeof(layout::redo_record), end)) return nullptr;
  const auto* r = reinterpret_cast<const layout::redo_record*>(base + offset);
  if (r->bytes % 8 != 0 || r->bytes < sizeof *r || r->bytes > end - offset) return nullptr;
  constexpr auto wrap = static_cast<std::uint32_t>(layout::redo_kind::wrap);
  if (r->bytes == sizeof *r && r->kind_and_intents != wrap) return nullptr;
  return r->proof == redo_proof(r, offset, key, lane, how) ? r : nullptr;
}

// Intents and ranges of a record, wherever they are.
struct redo_contents {
  const std::uint64_t* intents = nullptr;
  std::uint64_t intent_words = 0;
  const std::byte* ranges = nullptr;
  std::uint64_t range_bytes = 0;
};

// Calls visit(offset, bytes, new bytes) for each range until it returns false; false: it did, or the parts do not add
// up.
template <class Visit>
[[nodiscard]] bool each_redo_range(const redo_contents& c, Visit&& visit) {
  for (std::uint64_t at = 0; at < c.range_bytes;) {
    if (c.range_bytes - at < 8) return false;
    const std::uint64_t word = *reinterpret_cast<const std::uint64_t*>(c.ranges + at);
    at += 8;
    const std::uint64_t bytes = layout::range_bytes(word);
    const std::uint64_t padded = round_up(bytes, 8);
    if (bytes == 0 || padded > c.range_bytes - at) return false;
    if (!visit(layout::range_offset(word), bytes, c.ranges + at)) return false;
    at += padded;
  }
  return true;
}

// Splits the contents [p, p + bytes), with `intent_words` intents in front; false if they are too short for these.
[[nodiscard]] inline bool split_contents(const std::byte* p, std::uint64_t bytes, std::uint64_t intent_words,
                                         redo_contents& out) noexcept {
  if (intent_words > bytes / 8) return false;
  out = {reinterpret_cast<const std::uint64_t*>(p), intent_words, p + intent_words * 8, bytes - intent_words * 8};
  return true;
}

}  // namespace nvm::log
