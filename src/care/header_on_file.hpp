// The header of a pool's file, read beside whoever has the pool open.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/base.hpp"
#include "platform/platform.hpp"
#include "pool/pool.hpp"
#include "space/space.hpp"

namespace nvm::care {

struct header_on_file {
  platform::file file;
  layout::superblock superblock;
  geometry sizes;
};
// Takes no lock, changes nothing.  errc::system, not_a_pool, corrupt, version.
[[nodiscard]] result<header_on_file> header_on_file_of(const char* path) noexcept;

// Calls visit(page, entry) -> status for each entry of the page map that holds at this moment, until one fails.  May
// throw std::bad_alloc.
template <class Visit>
[[nodiscard]] status each_entry_on_file(const header_on_file& h, Visit&& visit) {
  constexpr std::uint64_t at_once = 8192;
  const geometry& g = h.sizes;
  std::vector<std::uint64_t> words(at_once);
  for (std::uint64_t page = 0; page < g.size_pages; page += at_once) {
    const std::uint64_t count = std::min(at_once, g.size_pages - page);
    if (status s = h.file.read(g.entry_offset(page), words.data(), count * 8); !s) return s;
    for (std::uint64_t i = 0; i < count; ++i) {
      layout::page_entry e;
      if (words[i] == 0 || entry_fault(words[i], page + i, g, g.size_pages, e) != nullptr) continue;
      if (status s = visit(page + i, e); !s) return s;
    }
  }
  return {};
}

// The places that an anchor word names, of the copies that hold and name any.  visit(place) -> status; the first that
// says errc::not_found is passed over for the other copy's.
template <class Visit>
[[nodiscard]] status each_anchored(const header_on_file& h, anchor_word which, Visit&& visit) noexcept {
  for (unsigned copy = 0; copy < 2; ++copy) {
    const std::uint64_t word_at = anchor_word_at(h.sizes, copy, which);
    std::uint64_t word = 0;
    if (status s = h.file.read(word_at, &word, sizeof word); !s) return s;
    if (word == 0 || !word_holds(word, word_seed(word_at))) continue;
    status s = visit(word & checked_mask);
    if (s || s.error() != errc::not_found) return s;
  }
  return {};
}

}  // namespace nvm::care
