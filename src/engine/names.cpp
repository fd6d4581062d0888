#include "engine/names.hpp"

#include "tx/tx.hpp"

namespace nvm::engines {

status check_names(const pool_file& file) noexcept {
  const geometry g = file.geometry();
  if (g.home_bytes != 0) return {};  // the log-structured heap looks at its own
  const tx::pool_targets pages{file.base(), g};
  for (unsigned i = 0; i < anchor_words; ++i) {
    const auto which = static_cast<anchor_word>(i);
    const auto at = read_anchor_word(file.base(), g, which);
    // These directories are not changed by transactions: a crash may leave one in one copy.
    const bool in_one = which == anchor_word::lockfree || which == anchor_word::regions;
    if (!at && !in_one) return at.error();
    if (!at || *at == 0) continue;
    const std::uint64_t named = g.page_of(*at);
    std::uint64_t page = named;
    while (page != 0 && pages.entry_of(page).length_pages == 0) --page;
    if (page + pages.entry_of(page).length_pages > named) continue;
    return fail(errc::corrupt, "page map, offset %lu: found a free page, expected one in use, which %s names",
                g.entry_offset(named), name_of(which));
  }
  return {};
}

}  // namespace nvm::engines
