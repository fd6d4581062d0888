// Tallies: how many regions and partners a set has, counted when the pool is closed.  Nothing else tells that one is
// missing: bytes lost to zeros look like free places or pages.  Beside them stands the table that the close has saved
// (saved_table.hpp), so that numbers and table are of one moment, or gone.
//
/// Closed.   S both numbers, the table; F them;  (all that was done is durable; they may come later, in part, or never)
/// Changed.  S 0; F it;  | region/E21            they are gone before anything of the set changes
// So a process that finds a number finds as many, or damage; one that finds all words finds the table of that moment.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/base.hpp"
#include "media/media.hpp"
#include "region/region_layout.hpp"
#include "space/space.hpp"

namespace nvm::region {

struct tally {
  std::uint64_t regions = 0;
  std::uint64_t partners = 0;
  struct table {
    std::uint64_t offset = 0;  // 0: none was saved
    std::uint64_t crc = 0;     // of its head
  } saved;
};

// The words of the entry at `entry`: one more than the number, so that none at all is told from "not counted".
[[nodiscard]] constexpr std::uint64_t regions_word_at(std::uint64_t entry) noexcept {
  return entry + offsetof(layout::set_entry, regions);
}
[[nodiscard]] constexpr std::uint64_t partners_word_at(std::uint64_t entry) noexcept {
  return entry + offsetof(layout::set_entry, partners);
}
[[nodiscard]] constexpr std::uint64_t saved_word_at(std::uint64_t entry) noexcept {
  return entry + offsetof(layout::set_entry, saved);
}
inline constexpr std::size_t tally_bytes = offsetof(layout::set_entry, reserved) - offsetof(layout::set_entry, regions);
// nullopt: not counted since the last change, or the word fails its check.
[[nodiscard]] inline std::optional<std::uint64_t> counted_in(const std::byte* base, std::uint64_t at) noexcept {
  const std::uint64_t word = load_word(base, at);
  if (word == 0 || !word_holds(word, word_seed(at))) return std::nullopt;
  return (word & checked_mask) - 1;
}
[[nodiscard]] inline bool has_tally(const layout::set_entry& e) noexcept {
  return (e.regions | e.partners | e.saved | e.saved_crc) != 0;
}

// Written back, not fenced; does nothing if the word has that content.
template <media M>
void set_tally(M& medium, std::byte* base, std::uint64_t entry, const tally& t) noexcept {
  auto& e = *reinterpret_cast<layout::set_entry*>(base + entry);
  const std::uint64_t regions = seal_word(t.regions + 1, word_seed(regions_word_at(entry)));
  const std::uint64_t partners = seal_word(t.partners + 1, word_seed(partners_word_at(entry)));
  const std::uint64_t saved = t.saved.offset == 0 ? 0 : seal_word(t.saved.offset, word_seed(saved_word_at(entry)));
  if (e.regions == regions && e.partners == partners && e.saved == saved && e.saved_crc == t.saved.crc) return;
  e.regions = regions;
  e.partners = partners;
  e.saved = saved;
  e.saved_crc = t.saved.crc;
  medium.flush(&e.regions, 2 * sizeof e.regions + 2 * sizeof e.saved);
}
template <media M>
void clear_tally(M& medium, std::byte* base, std::uint64_t entry) noexcept {
  auto& e = *reinterpret_cast<layout::set_entry*>(base + entry);
  for (std::uint64_t* const word : {&e.regions, &e.partners, &e.saved, &e.saved_crc}) {
    // relaxed: others store the same, and no thread reads it while there are changes.
    std::atomic_ref{*word}.store(0, std::memory_order_relaxed);
  }
  medium.flush(&e.regions, tally_bytes);
  medium.fence(edge{"region/E21"});
}

}  // namespace nvm::region
