// Full check of the lists that object stores keep of their clusters: each cluster is in one, that of its store.
#pragma once

#include <functional>
#include <vector>

#include "space/cluster_image.hpp"

namespace nvm {

class store_lists {
 public:
  // In the order of their pages; `empty`: its map names no page.
  void add(const cluster& c, bool empty) { all_.push_back({c, empty, false}); }
  // Calls report for each fault.  An empty cluster in no list, which its store has in work, is no fault: a crash may
  // leave it (space_stores.hpp).
  void check(const std::byte* base, const geometry& g, const std::function<void(const damage&)>& report);

 private:
  struct found {
    cluster what;
    bool empty;
    bool listed;
  };
  [[nodiscard]] found* at(std::uint64_t page) noexcept;
  void follow(const std::byte* base, const geometry& g, const found& first,
              const std::function<void(const damage&)>& report);
  [[nodiscard]] bool in_work(const std::byte* base, const geometry& g, const found& f) const noexcept;

  std::vector<found> all_;
};

}  // namespace nvm
