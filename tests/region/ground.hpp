// A pool in a buffer with sets of regions, for tests: opened, crashed, opened again.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "region/region.hpp"

namespace nvm::region::testing {

inline geometry pool_geometry(std::uint64_t pages, std::uint64_t capacity, unsigned page_shift = 12) {
  geometry_request r;
  r.page_shift = page_shift;
  r.size_pages = pages;
  r.capacity_pages = capacity;
  r.lane_count = 2;
  r.lane_bytes = std::uint64_t{1} << page_shift;
  return lay_out(r);
}

struct free_memory {
  void operator()(std::byte* p) const { std::free(p); }
};

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
  using space_type = space<M, log::nothing_logged>;
  using set = set_state<M>;
  using thread = thread_state<M>;

  template <class... Arguments>
  explicit ground(const geometry& g, const options& o, Arguments&&... medium)
      : geometry_{g}, options_{o}, medium_{std::forward<Arguments>(medium)...} {
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(4096, round_up(g.capacity_bytes(), 4096))));
    // What the pages of a used pool hold.
    std::memset(memory_.get(), 0, g.capacity_bytes());
    std::memset(memory_.get() + g.data_offset, 0xA5, g.capacity_bytes() - g.data_offset);
    open();
  }
  ground(const ground&) = delete;
  ground& operator=(const ground&) = delete;

  // What a new process finds: the same bytes.  Nothing is closed.
  void crash_and_open() {
    domain_.reset();
    space_.reset();
    open();
  }
  void open() {
    space_ = std::make_unique<space_type>(medium_, lanes_, memory_.get(), geometry_,
                                          [this](std::uint64_t) -> result<std::uint64_t> {
                                            if (geometry_.size_pages == geometry_.capacity_pages) {
                                              return fail(errc::no_space, "the device is full");
                                            }
                                            geometry_.size_pages = geometry_.capacity_pages;
                                            return geometry_.size_pages;
                                          });
    EXPECT_TRUE(space_->boot(0, 1)) << last_message();
    domain_ = std::make_unique<domain<M>>(medium_, memory_.get(), *space_, options_);
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
  [[nodiscard]] M& medium() { return medium_; }
  [[nodiscard]] const geometry& sizes() const { return geometry_; }
  [[nodiscard]] std::byte* base() const { return memory_.get(); }
  [[nodiscard]] space_type& pages() { return *space_; }
  [[nodiscard]] std::uint64_t free_pages() const { return space_->index().pages.free_pages(); }

 private:
  geometry geometry_;
  const options options_;
  std::unique_ptr<std::byte[], free_memory> memory_;
  M medium_;
  log::nothing_logged lanes_;
  std::unique_ptr<space_type> space_;
  std::unique_ptr<domain<M>> domain_;
};

inline std::vector<std::byte> pattern(std::uint64_t seed, std::uint64_t bytes) {
  std::vector<std::byte> b(bytes);
  for (std::uint64_t i = 0; i < bytes; ++i) b[i] = static_cast<std::byte>(mix_seed(seed, i / 8) >> 8 * (i % 8));
  return b;
}

}  // namespace nvm::region::testing
