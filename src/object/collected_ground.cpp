#include "object/collected_ground.hpp"

#include <algorithm>
#include <cstddef>

#include "space/space.hpp"

namespace nvm::object {

// ---- a store --------------------------------------------------------------------------------------------------------

std::unique_lock<std::mutex> store_ground::hold() { return std::unique_lock{store_.growing, std::try_to_lock}; }

result<ground_extent> store_ground::look() {
  auto clusters = clusters_of(base_, g_, g_.page_offset(store_.page()));
  if (!clusters) return clusters.error();
  clusters_ = std::move(*clusters);
  ground_extent now;
  for (const cluster& c : clusters_) {
    now.ranges.push_back({g_.page_offset(c.page), g_.page_offset(c.page) + (c.pages << g_.page_shift)});
    if (c.first) now.root_words.push_back(cluster_word_at(g_, c.page, offsetof(layout::cluster_header, root)));
  }
  std::ranges::sort(now.ranges, {}, &ground_extent::range::first);
  return now;
}

bool store_ground::has(std::uint64_t page) noexcept { return store_.cluster_with(page).has_value(); }

// ---- a pool ---------------------------------------------------------------------------------------------------------

// Both words of the root: while a transaction changes them they may differ.
result<ground_extent> pool_ground::look() {
  return ground_extent{{{g_.data_offset, g_.capacity_bytes()}}, {root_word_at(g_, 0), root_word_at(g_, 1)}};
}

}  // namespace nvm::object
