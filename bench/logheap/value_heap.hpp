// Values of one size in a log-structured heap, overwritten one a transaction: what cleaning and write traffic are
// measured with.
#pragma once

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "harness/random.hpp"
#include "logheap/log_pool.hpp"

namespace nvm::bench {

// Bytes of log that a value takes in the long run: the block of its last update (header, entry, contents), and of its
// allocation, of which only the entry lives, its share of a block of `preloaded_together`.
inline constexpr std::uint64_t preloaded_together = 100;
constexpr std::uint64_t log_bytes_of_update(std::uint64_t value_bytes) noexcept {
  return sizeof(logheap::layout::block_header) + 8 + value_bytes;
}
constexpr std::uint64_t log_bytes_of_value(std::uint64_t value_bytes) noexcept {
  return log_bytes_of_update(value_bytes) + 16 + sizeof(logheap::layout::block_header) / preloaded_together + 1;
}

template <class Map, media Media = direct_media>
class value_heap {
 public:
  using pool_type = log_pool<Map, Media>;
  using heap_type = typename pool_type::heap_type;
  using thread = typename pool_type::thread;
  using home_t = logheap::home_t;

  // Allocates the values, then overwrites each once in no order: so the log is as it stays.
  value_heap(Media& medium, const std::string& directory, std::uint64_t pool_bytes, std::uint64_t values,
             std::uint64_t value_bytes, unsigned threads, const logheap::heap_settings& settings)
      : pool_{medium, directory, pool_bytes, settings}, homes_(values), value_bytes_{value_bytes} {
    for (unsigned t = 0; t < threads; ++t) {
      threads_.push_back(&pool_.join());
      buffers_.emplace_back(value_bytes);
    }
    preload();
    std::vector<std::uint32_t> order(values);
    std::iota(order.begin(), order.end(), 0U);
    random source(1);
    for (std::uint64_t i = values; i > 1; --i) std::swap(order[i - 1], order[source.below(i)]);
    for (const std::uint32_t v : order) overwrite(0, v, v);
  }
  // All bytes of the value follow from `stamp`.
  void overwrite(unsigned thread, std::uint64_t value, std::uint64_t stamp) {
    auto& bytes = buffers_[thread];
    std::memcpy(bytes.data(), noise(stamp), value_bytes_);
    std::memcpy(bytes.data(), &stamp, sizeof stamp);
    const typename heap_type::store_range range{homes_[value], bytes.data(), value_bytes_};
    if (!pool_->commit(*threads_[thread], {{&range, 1}, {}, {}})) fail_with("overwriting a value");
  }
  // Of what all values hold, at rest.
  std::uint64_t contents() {
    digest d;
    for (const home_t home : homes_) {
      pool_->read(*threads_[0], home, buffers_[0].data(), value_bytes_);
      d.add_bytes(buffers_[0].data(), value_bytes_);
    }
    return d.value();
  }
  pool_type& pool() noexcept { return pool_; }
  heap_type* operator->() noexcept { return &pool_.heap(); }
  thread& thread_of(unsigned t) noexcept { return *threads_[t]; }
  [[nodiscard]] std::uint64_t size() const noexcept { return homes_.size(); }
  [[nodiscard]] home_t home_of(std::uint64_t value) const noexcept { return homes_[value]; }

 private:
  void preload() {
    std::vector<typename heap_type::object> objects;
    std::vector<typename heap_type::store_range> stores;
    for (std::uint64_t v = 0; v < homes_.size();) {
      objects.clear();
      stores.clear();
      for (std::uint64_t i = 0; i < preloaded_together && v < homes_.size(); ++i, ++v) {
        const auto o = pool_->allocate(*threads_[0], value_bytes_);
        if (!o) fail_with("allocating a value");
        objects.push_back(*o);
        homes_[v] = o->at.home;
        stores.push_back({o->at.home, noise(v), value_bytes_});
      }
      std::sort(stores.begin(), stores.end(), [](const auto& a, const auto& b) { return a.home < b.home; });
      if (!pool_->commit(*threads_[0], {stores, objects, {}})) fail_with("preloading values");
    }
  }

  pool_type pool_;
  std::vector<home_t> homes_;
  std::uint64_t value_bytes_;
  std::vector<thread*> threads_;
  std::vector<std::vector<std::byte>> buffers_;
};

}  // namespace nvm::bench
