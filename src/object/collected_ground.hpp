// What a collection beside transactions is of (beside_collection.hpp): the pages of one attached store, or all of a
// pool's; and where the words stand that name its roots.
//
// Threads: that of the collection, and those that tell it what they have changed, which ask has().
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "object/surveyed_objects.hpp"
#include "pool/pool.hpp"

namespace nvm {
class open_store;  // space/open_store.hpp
}

namespace nvm::object {

// Where it is now.
struct ground_extent {
  struct range {
    std::uint64_t first, end;  // offsets
  };
  std::vector<range> ranges;              // ascending
  std::vector<std::uint64_t> root_words;  // offsets of checked words that name payloads, ascending
};

class collected_ground {
 public:
  virtual ~collected_ground() = default;
  // While the result holds no page leaves it.  It holds nothing: another thread is changing which pages there are.
  [[nodiscard]] virtual std::unique_lock<std::mutex> hold() = 0;
  // Looks where it is, in the pool as large as it is `now`; held.  May throw std::bad_alloc.
  [[nodiscard]] virtual result<ground_extent> look(const geometry& now) = 0;
  // The objects begin with what look() has found for the same size of the pool.  May throw std::bad_alloc.
  virtual void begin(surveyed_objects& objects, const geometry& now) = 0;
  // Whether it has the page now.
  [[nodiscard]] virtual bool has(std::uint64_t page) noexcept = 0;
  // Whether it has the page now in a cluster with that first page, whose header has the map; held.
  [[nodiscard]] virtual bool has_in(std::uint64_t page, std::uint64_t first) noexcept = 0;
  // Whether it has all that stands in the pool: no page leaves it.
  [[nodiscard]] virtual bool is_pool() const noexcept { return false; }
};

// One attached store, from its own root; key-value stores that it has are never garbage.  What leads into it from
// elsewhere keeps nothing.
class store_ground final : public collected_ground {
 public:
  store_ground(open_store& store, const std::byte* base) noexcept : store_{store}, base_{base} {}
  std::unique_lock<std::mutex> hold() override;
  result<ground_extent> look(const geometry& now) override;
  void begin(surveyed_objects& objects, const geometry& now) override { objects.begin(clusters_, now); }
  bool has(std::uint64_t page) noexcept override;
  bool has_in(std::uint64_t page, std::uint64_t first) noexcept override;

 private:
  open_store& store_;
  const std::byte* base_;
  std::vector<cluster> clusters_;
};

// A pool, from its root and those of its stores, whose objects are kept.
class pool_ground final : public collected_ground {
 public:
  std::unique_lock<std::mutex> hold() override { return std::unique_lock{nobody_else_}; }
  result<ground_extent> look(const geometry& now) override;
  void begin(surveyed_objects& objects, const geometry& now) override { objects.begin_pool(now); }
  bool has(std::uint64_t) noexcept override { return true; }
  bool has_in(std::uint64_t, std::uint64_t) noexcept override { return true; }
  bool is_pool() const noexcept override { return true; }

 private:
  std::mutex nobody_else_;
};

}  // namespace nvm::object
