// A pool in a buffer with sets of regions, for tests: opened, crashed, opened again.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "../pool_in_buffer.hpp"
#include "region/region.hpp"

namespace nvm::region::testing {

inline geometry pool_geometry(std::uint64_t pages, std::uint64_t capacity, unsigned page_shift = 12) {
  return tests::pool_geometry(pages, capacity, 2, page_shift);
}

inline options settings() {
  options o;
  o.key = 0x1234'5678'9ABC'DEF0;
  o.lanes = 4;
  o.ring_bytes = 16 << 10;
  o.levelling = 8;
  o.replicas = 3;
  return o;
}

template <media M>
class ground {
 public:
  using space_type = typename tests::space_in_buffer<M>::space_type;
  using set = set_state<M>;
  using thread = thread_state<M>;

  template <class... Arguments>
  explicit ground(const geometry& g, const options& o, Arguments&&... medium)
      : options_{o}, pool_{g, tests::memory_for(g, of_used_pages), std::forward<Arguments>(medium)...} {
    open();
  }
  ground(const ground&) = delete;
  ground& operator=(const ground&) = delete;

  // What a new process finds: the same bytes.  Nothing is closed.
  void crash_and_open() {
    domain_.reset();
    pool_.forget();
    open();
  }
  void open() {
    EXPECT_TRUE(pool_.open()) << last_message();
    domain_ = std::make_unique<domain<M>>(pool_.medium(), pool_.base(), pool_.places(), options_);
    EXPECT_TRUE(domain_->open()) << last_message();
    EXPECT_TRUE(domain_->open_sets(2)) << last_message();
  }

  [[nodiscard]] set& make(std::string_view name) {
    auto found = domain_->find(name);
    if (!found) found = domain_->create(name);
    EXPECT_TRUE(found) << last_message();
    return **found;
  }
  [[nodiscard]] thread& join() {
    auto t = domain_->join();
    EXPECT_TRUE(t) << last_message();
    return **t;
  }
  [[nodiscard]] domain<M>& all() { return *domain_; }
  [[nodiscard]] M& medium() { return pool_.medium(); }
  [[nodiscard]] const geometry& sizes() const { return pool_.sizes(); }
  [[nodiscard]] std::byte* base() const { return pool_.base(); }
  [[nodiscard]] space_type& pages() { return pool_.places(); }
  [[nodiscard]] std::uint64_t free_pages() const { return pool_.places().index().pages.free_pages(); }

 private:
  static constexpr unsigned char of_used_pages = 0xA5;
  const options options_;
  tests::space_in_buffer<M> pool_;
  std::unique_ptr<domain<M>> domain_;
};

inline std::vector<std::byte> pattern(std::uint64_t seed, std::uint64_t bytes) {
  std::vector<std::byte> b(bytes);
  for (std::uint64_t i = 0; i < bytes; ++i) b[i] = static_cast<std::byte>(mix_seed(seed, i / 8) >> 8 * (i % 8));
  return b;
}

}  // namespace nvm::region::testing
