// A pool in a buffer: its sizes, and memory for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "space/space.hpp"

namespace nvm::tests {

// Lanes of a page each.
inline geometry pool_geometry(std::uint64_t pages, std::uint64_t capacity, unsigned lanes, unsigned page_shift) {
  geometry_request r;
  r.page_shift = page_shift;
  r.size_pages = pages;
  r.capacity_pages = capacity;
  r.lane_count = lanes;
  r.lane_bytes = std::uint64_t{1} << page_shift;
  return lay_out(r);
}

struct free_memory {
  void operator()(std::byte* p) const { std::free(p); }
};
using pool_memory = std::unique_ptr<std::byte[], free_memory>;

// Aligned to pages; `data`: what the pages for data hold, all else is zero.
inline pool_memory memory_for(const geometry& g, unsigned char data = 0) {
  pool_memory p{static_cast<std::byte*>(std::aligned_alloc(4096, round_up(g.capacity_bytes(), 4096)))};
  std::memset(p.get(), 0, g.data_offset);
  std::memset(p.get() + g.data_offset, data, g.capacity_bytes() - g.data_offset);
  return p;
}

// A space over a medium, whose pool may grow to its capacity; nothing is logged.
template <media M>
class space_in_buffer {
 public:
  using space_type = space<M, log::nothing_logged>;

  template <class... Arguments>
  space_in_buffer(const geometry& g, pool_memory memory, Arguments&&... medium)
      : geometry_{g}, memory_{std::move(memory)}, medium_{std::forward<Arguments>(medium)...} {}

  // Finds in the memory what a new process does.
  [[nodiscard]] status open() {
    space_ = std::make_unique<space_type>(medium_, lanes_, memory_.get(), geometry_,
                                          [this](std::uint64_t) -> result<std::uint64_t> {
                                            if (geometry_.size_pages == geometry_.capacity_pages) {
                                              return fail(errc::no_space, "the device is full");
                                            }
                                            geometry_.size_pages = geometry_.capacity_pages;
                                            return geometry_.size_pages;
                                          });
    return space_->boot(0, 1);
  }
  void forget() { space_.reset(); }

  [[nodiscard]] const geometry& sizes() const { return geometry_; }
  [[nodiscard]] std::byte* base() const { return memory_.get(); }
  [[nodiscard]] M& medium() { return medium_; }
  [[nodiscard]] space_type& places() const { return *space_; }

 private:
  geometry geometry_;
  pool_memory memory_;
  M medium_;
  log::nothing_logged lanes_;
  std::unique_ptr<space_type> space_;
};

}  // namespace nvm::tests
