// The header of a pool's file, read beside whoever has the pool open.
#pragma once

#include <cstdint>
#include <optional>

#include "base/base.hpp"
#include "platform/platform.hpp"
#include "pool/pool.hpp"

namespace nvm::care {

struct header_on_file {
  platform::file file;
  layout::superblock superblock;
  geometry sizes;
};
// Takes no lock, changes nothing.  errc::system, not_a_pool, corrupt, version.
[[nodiscard]] result<header_on_file> header_on_file_of(const char* path) noexcept;

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
