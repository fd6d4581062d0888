// A pool in plain memory, on each kind of medium: the ground of the transaction tests.
//
// "Crash" here is the coarsest one: everything volatile is dropped and a second heap boots from the bytes.  On direct
// media that loses nothing that was stored; on an image medium it keeps exactly what the log made durable.  What is
// lost from caches in between is the explorer's subject (tests/crash).
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#include "media/media.hpp"
#include "tx/tx.hpp"

namespace nvm::tests {

struct image_shape {
  std::uint64_t size_pages = 64;
  std::uint64_t capacity_pages = 64;
  unsigned page_shift = 12;
  std::uint32_t lanes = 4;
  std::uint64_t lane_bytes = 4096;
};

class buffer {
 public:
  explicit buffer(std::size_t bytes)
      : bytes_{bytes}, data_{static_cast<std::byte*>(std::aligned_alloc(4096, round_up(bytes, 4096)))} {
    std::memset(data_, 0, bytes);
  }
  ~buffer() { std::free(data_); }
  buffer(const buffer&) = delete;
  buffer& operator=(const buffer&) = delete;
  std::byte* data() noexcept { return data_; }
  std::size_t size() const noexcept { return bytes_; }

 private:
  std::size_t bytes_;
  std::byte* data_;
};

inline layout::superblock superblock_for(const image_shape& s, bool ring, std::uint64_t ring_bytes = 1 << 20) {
  superblock_request r;
  r.shape.page_shift = s.page_shift;
  r.shape.size_pages = s.size_pages;
  r.shape.capacity_pages = s.capacity_pages;
  if (ring) {
    r.shape.ring_bytes = ring_bytes;
  } else {
    r.shape.lane_count = s.lanes;
    r.shape.lane_bytes = s.lane_bytes;
  }
  r.medium = ring ? 4 : 1;
  for (unsigned i = 0; i < 16; ++i) r.uuid[i] = static_cast<std::uint8_t>(i * 17 + 3);
  auto sb = make_superblock(r);
  if (!sb) {
    ADD_FAILURE() << last_message();
    std::abort();
  }
  return *sb;
}

// Pool whose bytes are its durable memory.
class direct_pool {
 public:
  using medium_type = ordered_media;
  using heap_type = tx::heap<medium_type>;

  explicit direct_pool(image_shape shape = {})
      : superblock_{superblock_for(shape, false)}, bytes_{geometry_of(superblock_).capacity_bytes()} {
    format_image(bytes_.data(), superblock_);
    boot();
  }
  heap_type& heap() noexcept { return *heap_; }
  // Everything volatile is lost.
  void crash() {
    heap_.reset();
    boot();
  }
  status durable(lsn_t) { return {}; }

 private:
  void boot() {
    auto sb = pick_superblock(bytes_.data(), bytes_.size());
    ASSERT_TRUE(sb) << last_message();
    superblock_ = *sb;
    heap_ =
        std::make_unique<heap_type>(medium_, bytes_.data(), geometry_of(superblock_), tx::pool_key(superblock_.uuid),
                                    superblock_.lane_count, [this](std::uint64_t pages) { return grow(pages); });
    const status s = heap_->boot();
    ASSERT_TRUE(s) << last_message();
  }
  result<std::uint64_t> grow(std::uint64_t pages) {
    if (pages > superblock_.capacity_pages)
      return fail(errc::no_space, "capacity of %lu pages", superblock_.capacity_pages);
    superblock_.size_pages = pages;
    write_superblock(medium_, bytes_.data(), superblock_);
    return pages;
  }
  layout::superblock superblock_;
  buffer bytes_;
  medium_type medium_;
  std::unique_ptr<heap_type> heap_;
};

// A transaction on some lane of a heap, as a thread would use it.
template <class Heap>
class session {
 public:
  explicit session(Heap& h, unsigned hint = 0) : heap_{h} {
    auto lane = h.lanes().acquire(hint);
    EXPECT_TRUE(lane) << last_message();
    lane_ = *lane;
    EXPECT_TRUE(tx().begin());
  }
  ~session() {
    if (open_) abort();
  }
  session(const session&) = delete;
  session& operator=(const session&) = delete;
  typename Heap::transaction_type& tx() { return **heap_.of_lane(lane_); }

  std::uint64_t alloc(std::uint64_t bytes, std::uint32_t type = 7) {
    auto at = tx::allocate_typed(heap_, tx(), type, bytes);
    return at ? *at : 0;
  }
  status free(std::uint64_t payload) {
    return tx().release(payload - sizeof(layout::object_header), layout::object_layout::typed);
  }
  status announce(std::uint64_t offset, std::uint64_t bytes) {
    const log::byte_range r{offset, bytes};
    return tx().announce(&r, 1);
  }
  // Announces and stores.
  status store(std::uint64_t offset, std::uint64_t value) {
    if (status s = announce(offset, 8); !s) return s;
    std::memcpy(heap_.base() + offset, &value, 8);
    return {};
  }
  status set_root(std::uint64_t payload) { return tx::set_root(heap_, tx(), payload); }
  result<lsn_t> commit() {
    open_ = false;
    auto lsn = tx().commit();
    (void)tx().take_hooks();
    heap_.lanes().release(lane_);
    if (lsn) {
      if (status s = heap_.medium().durable(*lsn); !s) return s.error();
    }
    return lsn;
  }
  void abort() {
    open_ = false;
    tx().abort();
    (void)tx().take_hooks();
    heap_.lanes().release(lane_);
  }
  // The heap is gone, the transaction with it.
  void forget() { open_ = false; }
  unsigned lane() const { return lane_; }

 private:
  Heap& heap_;
  unsigned lane_ = 0;
  bool open_ = true;
};

template <class Heap>
std::uint64_t load(Heap& h, std::uint64_t offset) {
  std::uint64_t v = 0;
  std::memcpy(&v, h.base() + offset, 8);
  return v;
}
template <class Heap>
std::uint64_t root_of(Heap& h) {
  auto r = read_root(h.base(), h.shape());
  EXPECT_TRUE(r) << last_message();
  return r ? *r : 0;
}

}  // namespace nvm::tests
