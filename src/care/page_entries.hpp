// The entries of an image's page map that hold.
#pragma once

#include "care/words.hpp"
#include "pool/pool.hpp"
#include "space/space.hpp"

namespace nvm::care {

// Calls visit(page, entry) for each run and extent whose entry holds, in the order of pages.
template <class Visit>
void each_page_entry(const std::byte* base, const geometry& g, Visit&& visit) {
  for (std::uint64_t page = 0; page < g.size_pages;) {
    layout::page_entry e;
    const std::uint64_t word = word_at(base, g.entry_offset(page));
    if (word == 0 || entry_fault(word, page, g, g.size_pages, e) != nullptr || e.length_pages == 0) {
      ++page;
      continue;
    }
    visit(page, e);
    page += e.length_pages;
  }
}

}  // namespace nvm::care
