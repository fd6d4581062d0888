// The catalogue of a pool's object stores: their names, the number of the next one, and stores that are being dropped
// (HEAPO, section II-A: the global namespace).
//
// A name's value is the offset of the store's page.  A store that is deleted, or whose name another store takes, moves
// from the trie into one of 32 places for *dying* stores in the same transaction; the transaction that frees its last
// cluster clears the place. So neither needs room, and after a crash each store has a name or is dying.
//
// Threads: a thread that changes it keeps others out. Crashes: every function is part of the caller's transaction;
// after a failure that transaction can only be rolled back.
#pragma once

#include <cstring>
#include <optional>
#include <string_view>

#include "store/burst_trie_change.hpp"

namespace nvm::stores {

using layout::dying_stores_max;

struct catalogue_place {
  std::uint64_t place = 0;
  unsigned burst_names = layout::burst_names_default;

  [[nodiscard]] std::uint64_t root_at() const noexcept { return place + offsetof(layout::catalogue, root); }
  [[nodiscard]] std::uint64_t number_at() const noexcept { return place + offsetof(layout::catalogue, next_number); }
  [[nodiscard]] std::uint64_t names_at() const noexcept { return place + offsetof(layout::catalogue, names); }
  [[nodiscard]] std::uint64_t dying_at(unsigned i) const noexcept {
    return place + offsetof(layout::catalogue, dying) + 8 * std::uint64_t{i};
  }
};

inline std::uint64_t catalogue_check(const layout::catalogue& c, std::uint64_t place) noexcept {
  return checksum(&c, offsetof(layout::catalogue, check), place);
}

// The content of a checked word.
template <trie_reads M>
[[nodiscard]] result<std::uint64_t> read_word(M& m, std::uint64_t at, const char* what) noexcept {
  alignas(8) std::byte room[8];
  const std::byte* const p = m.view(at, sizeof room, room);
  std::uint64_t word = 0;
  if (p != nullptr) std::memcpy(&word, p, sizeof word);
  if (p == nullptr || !word_holds(word, word_seed(at))) return damaged_names(what, at);
  return word & checked_mask;
}
template <trie_writes M>
[[nodiscard]] status put_word(M& m, std::uint64_t at, std::uint64_t content) noexcept {
  const std::uint64_t word = seal_word(content, word_seed(at));
  return m.put(at, &word, sizeof word);
}

// A catalogue without names; its first store gets number 1.  errc::invalid: no such limit.
template <trie_writes M>
[[nodiscard]] result<catalogue_place> make_catalogue(M& m, unsigned burst_names) noexcept {
  if (burst_names < layout::burst_names_min || burst_names > layout::burst_names_max) {
    return fail(errc::invalid, "names at which a container bursts: found %u, expected %u to %u", burst_names,
                layout::burst_names_min, layout::burst_names_max);
  }
  const auto place = m.allocate(layout::names_type_catalogue, sizeof(layout::catalogue));
  if (!place) return place.error();
  const catalogue_place made{*place, burst_names};
  layout::catalogue c{};
  c.magic = layout::catalogue_magic;
  c.version = layout::catalogue_version;
  c.burst_names = burst_names;
  c.check = catalogue_check(c, *place);
  c.next_number = seal_word(1, word_seed(made.number_at()));
  m.fill(*place, &c, sizeof c);
  return made;
}

// errc::corrupt, errc::version.
template <trie_reads M>
[[nodiscard]] result<catalogue_place> read_catalogue(M& m, std::uint64_t place) noexcept {
  alignas(8) std::byte room[sizeof(layout::catalogue)];
  const std::byte* const p = place % 16 == 0 ? m.view(place, sizeof room, room) : nullptr;
  if (p == nullptr) return damaged_names("the place of the catalogue", place);
  layout::catalogue c;
  std::memcpy(&c, p, sizeof c);
  if (c.magic != layout::catalogue_magic || c.check != catalogue_check(c, place))
    return damaged_names("the catalogue", place);
  if (c.version != layout::catalogue_version) {
    return fail(errc::version, "the catalogue of stores at offset %lu has version %u; this library knows %u", place,
                c.version, layout::catalogue_version);
  }
  if (c.burst_names < layout::burst_names_min || c.burst_names > layout::burst_names_max)
    return damaged_names("the catalogue", place);
  return catalogue_place{place, c.burst_names};
}

// ---- names ----

template <trie_reads M>
[[nodiscard]] result<std::optional<std::uint64_t>> find_name(M& m, const catalogue_place& c,
                                                             std::string_view name) noexcept {
  return trie_find(m, c.root_at(), name);
}
template <trie_reads M>
[[nodiscard]] result<std::uint64_t> count_names(M& m, const catalogue_place& c) noexcept {
  return read_word(m, c.names_at(), "the number of names");
}
template <trie_writes M>
[[nodiscard]] status add_to_names(M& m, const catalogue_place& c, std::int64_t more) noexcept {
  const auto there = count_names(m, c);
  if (!there) return there.error();
  return put_word(m, c.names_at(), *there + static_cast<std::uint64_t>(more));
}

// A number that no store of this pool has had.  errc::too_large: there are no more.
template <trie_writes M>
[[nodiscard]] result<std::uint32_t> take_number(M& m, const catalogue_place& c) noexcept {
  const auto next = read_word(m, c.number_at(), "the number of the next store");
  if (!next) return next.error();
  if (*next == 0) return damaged_names("the number of the next store", c.number_at());
  if (*next > UINT32_MAX)
    return fail(errc::too_large, "the pool has had %lu stores, and has no number for more", *next - 1);
  if (status s = put_word(m, c.number_at(), *next + 1); !s) return s.error();
  return static_cast<std::uint32_t>(*next);
}
// errc::exists.
template <trie_writes M>
[[nodiscard]] status enter_name(M& m, const catalogue_place& c, std::string_view name, std::uint64_t page) noexcept {
  if (status s = trie_insert(m, c.root_at(), name, page, c.burst_names); !s) return s;
  return add_to_names(m, c, 1);
}

// ---- stores that are being dropped ----

// Calls visit(page) -> bool for each until it answers false.
template <trie_reads M, class Visit>
[[nodiscard]] status each_dying(M& m, const catalogue_place& c, Visit&& visit) noexcept {
  for (unsigned i = 0; i < dying_stores_max; ++i) {
    const auto page = read_word(m, c.dying_at(i), "the place of a store that is being dropped");
    if (!page) return page.error();
    if (*page != 0 && !visit(*page)) return {};
  }
  return {};
}
// errc::busy: no place is free, since as many stores as there are places are being dropped.
template <trie_writes M>
[[nodiscard]] status begin_dying(M& m, const catalogue_place& c, std::uint64_t page) noexcept {
  for (unsigned i = 0; i < dying_stores_max; ++i) {
    const auto there = read_word(m, c.dying_at(i), "the place of a store that is being dropped");
    if (!there) return there.error();
    if (*there == 0) return put_word(m, c.dying_at(i), page);
  }
  return fail(errc::busy, "%u stores are being dropped, and there is no place for more", dying_stores_max);
}
// Clears the place of a dying store whose last page goes.
template <trie_writes M>
[[nodiscard]] status end_dying(M& m, const catalogue_place& c, std::uint64_t page) noexcept {
  for (unsigned i = 0; i < dying_stores_max; ++i) {
    const auto there = read_word(m, c.dying_at(i), "the place of a store that is being dropped");
    if (!there) return there.error();
    if (*there == page) return put_word(m, c.dying_at(i), 0);
  }
  return fail(errc::not_found, "no store at offset %lu is being dropped", page);
}

// Removes the name; its store is dying now, and its page is returned.  errc::not_found, errc::busy.  Allocates nothing.
template <trie_writes M>
[[nodiscard]] result<std::uint64_t> drop_name(M& m, const catalogue_place& c, std::string_view name) noexcept {
  const auto page = trie_remove(m, c.root_at(), name);
  if (!page) return page.error();
  if (status s = begin_dying(m, c, *page); !s) return s.error();
  if (status s = add_to_names(m, c, -1); !s) return s.error();
  return *page;
}
// Renames; returns the page of the store that had the new name and is dying now, or 0.  errc::not_found, errc::busy.
template <trie_writes M>
[[nodiscard]] result<std::uint64_t> move_name(M& m, const catalogue_place& c, std::string_view name,
                                              std::string_view new_name) noexcept {
  if (name == new_name) {
    const auto there = find_name(m, c, name);
    if (!there) return there.error();
    return *there ? result<std::uint64_t>{std::uint64_t{0}} : fail(errc::not_found, "there is no such name");
  }
  const auto page = trie_remove(m, c.root_at(), name);
  if (!page) return page.error();
  const auto replaced = find_name(m, c, new_name);
  if (!replaced) return replaced.error();
  if (!*replaced) {
    if (status s = trie_insert(m, c.root_at(), new_name, *page, c.burst_names); !s) return s.error();
    return std::uint64_t{0};
  }
  if (const auto had = trie_replace(m, c.root_at(), new_name, *page); !had) return had.error();
  if (status s = begin_dying(m, c, **replaced); !s) return s.error();
  if (status s = add_to_names(m, c, -1); !s) return s.error();
  return **replaced;
}

}  // namespace nvm::stores
