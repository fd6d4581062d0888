#include "space/store_lists.hpp"

#include <algorithm>
#include <utility>

namespace nvm {

using layout::cluster_header;

store_lists::found* store_lists::at(std::uint64_t page) noexcept {
  const auto place = std::ranges::lower_bound(all_, page, {}, [](const found& f) { return f.what.page; });
  return place != all_.end() && place->what.page == page ? &*place : nullptr;
}

void store_lists::follow(const std::byte* base, const geometry& g, const found& first,
                         const std::function<void(const damage&)>& report) {
  std::uint64_t from = cluster_word_at(g, first.what.page, offsetof(cluster_header, head));
  // Each step marks a cluster that was not marked: it ends.
  for (std::uint64_t to = load_word(base, from) & checked_mask; to != 0; to = load_word(base, from) & checked_mask) {
    found* const c = g.in_data(to, 1) && (to - g.data_offset) % g.page_bytes() == 0 ? at(g.page_of(to)) : nullptr;
    if (c == nullptr) return report({from, "list of a store leads to no cluster", to, 0});
    if (c->what.number != first.what.number || c->what.first) {
      return report({from, "list of a store leads to a cluster of another", c->what.number, first.what.number});
    }
    if (std::exchange(c->listed, true)) return report({from, "cluster is twice in the lists of stores", to, 0});
    from = cluster_word_at(g, c->what.page, offsetof(cluster_header, next));
  }
}

bool store_lists::in_work(const std::byte* base, const geometry& g, const found& f) const noexcept {
  return f.empty && std::ranges::any_of(all_, [&](const found& s) {
           return s.what.first && s.what.number == f.what.number &&
                  (load_word(base, cluster_word_at(g, s.what.page, offsetof(cluster_header, in_work))) &
                   checked_mask) == g.page_offset(f.what.page);
         });
}

void store_lists::check(const std::byte* base, const geometry& g, const std::function<void(const damage&)>& report) {
  for (found& f : all_) f.listed = false;
  std::vector<std::uint32_t> numbers;
  for (const found& f : all_) {
    if (!f.what.first) continue;
    numbers.push_back(f.what.number);
    follow(base, g, f, report);
  }
  std::ranges::sort(numbers);
  for (const found& f : all_) {
    const std::uint64_t at = cluster_word_at(g, f.what.page, offsetof(cluster_header, number));
    const auto same = std::ranges::equal_range(numbers, f.what.number);
    if (f.what.first && same.size() > 1) report({at, "two stores have the same number", f.what.number, 0});
    if (f.what.first || f.listed || in_work(base, g, f)) continue;
    if (same.empty()) {
      report({at, "cluster is of a store that does not exist", f.what.number, 0});
    } else {
      report({at, "cluster is in the list of no store", f.what.number, 0});
    }
  }
}

}  // namespace nvm
