// Full check of a catalogue: its words, its trie, and that no store has two names or dies with one.
#pragma once

#include <algorithm>
#include <cstdio>
#include <new>
#include <vector>

#include "store/burst_trie_check.hpp"
#include "store/catalogue.hpp"

namespace nvm::stores {

struct catalogue_figures {
  trie_figures trie;
  std::uint64_t next_number = 0;
  unsigned burst_names = 0;
  std::vector<std::uint64_t> named;  // pages, ascending
  std::vector<std::uint64_t> dying;  // likewise
};

// Faults go to how.tell; how.meet is told of the catalogue, too, how.name of each name.  errc::corrupt, errc::version:
// it cannot be read at all, and the message says why; errc::no_memory.
template <trie_reads M>
[[nodiscard]] result<catalogue_figures> check_catalogue(M& m, std::uint64_t place, const trie_check& how) noexcept try {
  const auto c = read_catalogue(m, place);
  if (!c) return c.error();
  const auto tell = [&](std::uint64_t at, const char* fault) {
    if (how.tell) how.tell(at, fault);
  };
  if (how.meet) how.meet(place, sizeof(layout::catalogue), layout::names_type_catalogue);
  catalogue_figures sum;
  sum.burst_names = c->burst_names;
  trie_check names = how;
  names.limit = c->burst_names;
  names.name = [&](std::string_view name, std::uint64_t page) {
    sum.named.push_back(page);
    if (how.name) how.name(name, page);
  };
  const auto trie = check_trie(m, c->root_at(), names);
  if (!trie) return trie.error();
  sum.trie = *trie;
  if (const auto next = read_word(m, c->number_at(), "the number of the next store"); !next) {
    tell(c->number_at(), last_message());
  } else if (sum.next_number = *next; *next == 0) {
    tell(c->number_at(), "the number of the next store is 0");
  }
  char text[96];
  if (const auto count = count_names(m, *c); !count) {
    tell(c->names_at(), last_message());
  } else if (*count != sum.trie.names) {
    std::snprintf(text, sizeof text, "names: found %lu in the trie, expected %lu", sum.trie.names, *count);
    tell(c->names_at(), text);
  }
  for (unsigned i = 0; i < dying_stores_max; ++i) {
    const auto page = read_word(m, c->dying_at(i), "the place of a store that is being dropped");
    if (!page) tell(c->dying_at(i), last_message());
    if (page && *page != 0) sum.dying.push_back(*page);
  }
  std::sort(sum.named.begin(), sum.named.end());
  std::sort(sum.dying.begin(), sum.dying.end());
  for (const auto* all : {&sum.named, &sum.dying}) {
    const auto twice = std::adjacent_find(all->begin(), all->end());
    if (twice == all->end()) continue;
    std::snprintf(text, sizeof text, "the store at offset %lu is there twice", *twice);
    tell(place, text);
  }
  for (const std::uint64_t page : sum.dying) {
    if (!std::binary_search(sum.named.begin(), sum.named.end(), page)) continue;
    std::snprintf(text, sizeof text, "the store at offset %lu has a name and is being dropped", page);
    tell(place, text);
  }
  alignas(8) std::byte room[sizeof(layout::catalogue)];
  const std::byte* const raw = m.view(place, sizeof room, room);  // there, since read_catalogue() has read it
  const std::byte* const unused = raw + offsetof(layout::catalogue, reserved);
  if (std::any_of(unused, raw + sizeof room, [](std::byte b) { return b != std::byte{}; }))
    tell(place, "bytes of the catalogue that nobody uses");
  return sum;
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory to check the names of stores");
}

}  // namespace nvm::stores
