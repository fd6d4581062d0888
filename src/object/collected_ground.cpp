#include "object/collected_ground.hpp"

#include <algorithm>
#include <cstddef>

#include "space/space.hpp"

namespace nvm::object {

// ---- a store --------------------------------------------------------------------------------------------------------

std::unique_lock<std::mutex> store_ground::hold() { return std::unique_lock{store_.growing, std::try_to_lock}; }

result<ground_extent> store_ground::look(const geometry& now) {
  auto clusters = clusters_of(base_, now, now.page_offset(store_.page()));
  if (!clusters) return clusters.error();
  clusters_ = std::move(*clusters);
  ground_extent found;
  for (const cluster& c : clusters_) {
    found.ranges.push_back({now.page_offset(c.page), now.page_offset(c.page) + (c.pages << now.page_shift)});
    if (c.first) found.root_words.push_back(cluster_word_at(now, c.page, offsetof(layout::cluster_header, root)));
  }
  std::ranges::sort(found.ranges, {}, &ground_extent::range::first);
  return found;
}

bool store_ground::has(std::uint64_t page) noexcept { return store_.cluster_with(page).has_value(); }

bool store_ground::has_in(std::uint64_t page, std::uint64_t first) noexcept {
  const auto now = store_.cluster_with(page);
  return now && now->page == first;
}

// ---- a pool ---------------------------------------------------------------------------------------------------------

// Both words of the root: while a transaction changes them they may differ.
result<ground_extent> pool_ground::look(const geometry& now) {
  return ground_extent{{{now.data_offset, now.capacity_bytes()}}, {root_word_at(now, 0), root_word_at(now, 1)}};
}

}  // namespace nvm::object
